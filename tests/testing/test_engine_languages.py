"""A JavaScript instance of a task set, judged by its own tests in its image, in a real engine."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swe_retry.demo.setup import commit_all
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.environment import DockerEnvironment
from swe_retry.instances.split import split_row
from swe_retry.repositories.checkout import make_checkout
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.testing.project import project_of, snapshot_of
from swe_retry.testing.suite import RegressionTests
from tests.instances.test_set_images import regression_of
from tests.support import write_files
from tests.support.task_sets import ROWS, mirror_of
from tests.testing.test_other_languages import NODE

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
]
IMAGE = "swerebenchv2/own-thing:1-abcdef0"


@pytest.fixture
def tests(tmp_path: Path) -> Iterator[RegressionTests]:
    """The tests of an instance of SWE-rebench V2, whose image holds this machine's node."""
    repository = tmp_path / "repository"
    write_files(repository, NODE.files)
    base = commit_all(repository, "Begin")
    row = {
        **ROWS["rebench-v2"],
        "repo": "own/thing",
        "base_commit": base,
        "image_name": IMAGE,
        "language": "js",
        "install_config": {"test_cmd": ["node --test"]},
    }
    instance, _ = split_row(row)
    mirrors = tmp_path / "mirrors"
    mirror_of(repository, mirrors / "own__thing.git")
    snapshots = tmp_path / "snapshots"
    snapshot = snapshot_of(instance, Mirrors(mirrors), snapshots)
    checkout = make_checkout(snapshot, tmp_path / "checkout")
    client: Any = connect()
    build(client, repository)
    environment = DockerEnvironment(client, "languages")
    session: Any = environment.start(project_of(instance, checkout))
    yield regression_of(instance, checkout, tmp_path, session)
    session.stop()
    client.images.remove(IMAGE, force=True)
    client.close()


def build(client: Any, repository: Path) -> None:
    node = Path(shutil.which("node") or "").resolve()
    text = b"FROM python:3.11-slim\nCOPY node /usr/local/bin/node\nCOPY thing /thing\n"
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        archive.add(node, "node")
        archive.add(repository, "thing")
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    context.seek(0)
    client.images.build(
        fileobj=context,
        custom_context=True,
        tag=IMAGE,
        rm=True,
        forcerm=True,
    )


def test_a_javascript_instance_runs_its_related_tests_in_its_image(
    tests: RegressionTests,
) -> None:
    wrong = tests.run({NODE.source: NODE.wrong.encode()})
    assert wrong.outcome is False
    names = [failure.name for failure in wrong.failures]
    assert names == ["adds"]
    broken = tests.run({NODE.source: b"module.exports = (a, b) => {\n"})
    assert broken.outcome is False
    assert "SyntaxError" in broken.failures[0].detail
    changes = {
        NODE.source: NODE.right.encode(),
        "test/calc.test.js": b"// rewritten\n",
    }
    right = tests.run(changes)
    assert right.outcome is True, right.untested
