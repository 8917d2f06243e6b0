"""No forged candidate is plausible or resolved: locally, in Docker and by the local evaluator."""

from __future__ import annotations

import io
import logging
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.attempts.predicted import base_reader
from bench.config import TestChoice
from bench.instances.instance import split_row
from bench.instances.project import project_of
from bench.regression.suite import RegressionTests, TestLimits
from bench.repos.checkout import Snapshots, make_checkout
from bench.repos.mirrors import Mirrors
from bench.repos.patches import take_patch
from demo.setup import commit_all
from environments import ImageSpec, Project, UnavailableError
from environments.base import EnvironmentKind
from environments.choice import make_environment
from environments.docker.engine import connect, engine_answers
from environments.docker.environment import DockerEnvironment
from reports.data.predictions import Prediction
from reports.data.verdicts import VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.local import LocalEvaluator
from tests.bench.regression.forged import CANDIDATES, CORE, FEW, FILES, changes
from tests.conftest import ShareVenvs, an_instance

IMAGE = "swe-retry-harness/forged:test"
# A plugin, because the base image may have none.
PLUGIN = {
    "pytest_mock.py": "",
    "setup.py": "from setuptools import setup\n\nsetup(name='pytest-mock', version='3.0',"
    " py_modules=['pytest_mock'], entry_points={'pytest11': ['pytest_mock = pytest_mock']})\n",
}
ROW: dict[str, Any] = {
    "instance_id": "own__thing-1",
    "repo": "own/thing",
    "problem_statement": "It is broken.",
    "version": "1.0",
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
    "image": "",
    "eval_script": "",
    "FAIL_TO_PASS": ["tests/test_core.py::test_one"],
    "PASS_TO_PASS": ["tests/test_core.py::test_two"],
    "spec": {
        "python": "3", "install": "python -m pip install -e .", "test_cmd": "pytest -rA",
        "pip_packages": ["pytest", "pytest-mock"],
    },
}  # fmt: skip
HIDDEN = (
    "diff --git a/tests/test_core.py b/tests/test_core.py\n--- a/tests/test_core.py\n"
    "+++ b/tests/test_core.py\n@@ -2,7 +2,7 @@\n \n \n def test_one():\n"
    "-    assert one() == 1\n+    assert one() == 5\n \n \n def test_two():\n"
)
SOUND = {"thing/core.py": CORE.replace("return 2", "return 3 - 1").encode()}
RIGHT = {"thing/core.py": CORE.replace("return 1", "return 5").encode()}


def forms(few: tuple[str, ...] = ()) -> list[Any]:
    return [
        pytest.param(name, marks=[] if name in few else [pytest.mark.long], id=name)
        for name in CANDIDATES
    ]


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, share_venvs: ShareVenvs
) -> tuple[Path, dict[str, Any]]:
    """A mirror of the project, and the row of its instance."""
    root = tmp_path_factory.mktemp("forged")
    work = root / "source"
    for path, text in FILES.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    commit = commit_all(work, "Begin")
    (root / "mirrors").mkdir()
    (work / ".git").rename(root / "mirrors/own__thing.git")
    # The session of other tests holds the project's own environment.
    share_venvs(root / "evaluating/environments")
    return root, {**ROW, "base_commit": commit, "test_patch": HIDDEN}


def suite(session: Any, files: list[str], read: Callable[[str], Any], at: Path) -> RegressionTests:
    return RegressionTests(
        instance=an_instance(), session=session, choice=TestChoice.RELATED,
        limits=TestLimits(60, 60), files=files, read=read, cache=at, identity=session.identity,
        log=logging.getLogger("test"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def local(place: tuple[Path, dict[str, Any]], cache: Path) -> Iterator[RegressionTests]:
    root, row = place
    instance, _ = split_row(row)
    mirror = Mirrors(root / "mirrors").get(instance.repo, instance.base_commit)
    snapshot = Snapshots(root / "snapshots").get(mirror, instance.repo, instance.base_commit)
    base = make_checkout(snapshot, root / "base")
    session = make_environment(EnvironmentKind.LOCAL, cache, print).start(
        project_of(instance, base)
    )
    yield suite(session, [*base.tracked_files()], base_reader(base), root / "local")
    session.stop()


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegressionTests]:
    client = connect()
    context = io.BytesIO()
    texts = {f"testbed/{p}": t for p, t in FILES.items()} | {
        f"plugin/{p}": PLUGIN[p] for p in PLUGIN
    }
    texts["Dockerfile"] = (
        "FROM python:3.11-slim\nCOPY plugin /plugin\nCOPY testbed /testbed\nWORKDIR /testbed\n"
        "RUN python -m pip install --no-build-isolation --no-deps --no-index /plugin\n"
        "RUN python -m pip install --no-build-isolation --no-deps --no-index -e .\n"
    )
    with tarfile.open(fileobj=context, mode="w") as archive:
        for path, text in texts.items():
            info = tarfile.TarInfo(path)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    context.seek(0)
    client.images.build(
        fileobj=context, custom_context=True, tag=IMAGE, rm=True, network_mode="none"
    )
    spec = ImageSpec(IMAGE, ("python -m pip install -e .",), "pytest -rA")
    folder = tmp_path_factory.mktemp("docker")
    nothing = UnavailableError("not needed")
    project = Project("own__thing-1", "own/thing", "", folder, "", nothing, spec)
    session = DockerEnvironment(client).start(project)
    yield suite(session, [*FILES], FILES.get, folder)
    session.stop()


@pytest.mark.parametrize("name", forms(FEW))
def test_no_forged_candidate_is_plausible_locally(local: RegressionTests, name: str) -> None:
    outcome = local.run(changes(name)).outcome
    assert outcome is False or (outcome is None and local.suspect)


def test_a_sound_candidate_is_plausible_locally(local: RegressionTests) -> None:
    assert local.run(SOUND).outcome is True, local.untested


@pytest.mark.long
@pytest.mark.docker
@pytest.mark.skipif(not engine_answers(), reason="no Docker engine answers")
@pytest.mark.parametrize("name", ["sound", *CANDIDATES])
def test_no_forged_candidate_is_plausible_in_docker(docker: RegressionTests, name: str) -> None:
    found = docker.run(SOUND if name == "sound" else changes(name))
    assert (found.outcome is True) is (name == "sound"), docker.untested


@pytest.mark.long
@pytest.mark.parametrize("name", ["right", *CANDIDATES])
def test_no_forged_candidate_is_resolved(
    place: tuple[Path, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    root, row = place
    instance, evaluation = split_row(row)
    mirrors, snapshots = Mirrors(root / "mirrors"), Snapshots(root / "snapshots")
    mirror = mirrors.get(instance.repo, instance.base_commit)
    tree = make_checkout(
        snapshots.get(mirror, instance.repo, instance.base_commit), tmp_path / "tree"
    )
    for path, data in (RIGHT if name == "right" else changes(name)).items():
        (tree.root / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / path).write_bytes(data or b"")
    # With all files, also those that the harness does not predict.
    prediction = Prediction(instance.instance_id, "me", take_patch(tree), (), True)
    environment = make_environment(EnvironmentKind.LOCAL, root / "evaluating", print)
    evaluator = LocalEvaluator(environment, mirrors, snapshots, tmp_path, 60.0, print)
    (verdict,) = evaluator.evaluate([EvaluationTask(prediction, instance, evaluation)], "r")
    wanted = VerdictStatus.RESOLVED if name == "right" else VerdictStatus.UNRESOLVED
    assert verdict.status is wanted, verdict.reason
