"""Instances whose environment cannot judge: named, and no model is called."""

from __future__ import annotations

import json
import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.workspace import Workspace
from swe_retry.attempts.config import RunConfig, TestChoice
from swe_retry.demo.setup import build_mirrors
from swe_retry.environments.base import BrokenEnvironmentError, EnvironmentKind
from swe_retry.environments.local.environment import LocalEnvironment
from swe_retry.instances.dataset import load_dataset
from swe_retry.instances.instance import Spec
from swe_retry.testing.health import check_sample
from swe_retry.testing.project import project_of
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testsettings import Tests
from tests.fixtures import MakeCheckout, an_instance
from tests.support.harness import Harness
from tests.support.provider import Provider
from tests.support.runs import EDIT, live

ID = "demo__textkit-1"
CAUSE = "no Python 3.99 is installed"


def rows_without_python(folder: Path) -> str:
    rows = load_dataset("demo", "test").rows
    (row,) = [dict(row) for row in rows if row["instance_id"] == ID]
    spec: Any = row["spec"]
    if isinstance(spec, str):
        spec = json.loads(spec)
    row["spec"] = {**spec, "python": "3.99"}
    path = folder / "rows.json"
    path.write_text(json.dumps([row]))
    return str(path)


def local(provider: Provider, **changes: Any) -> RunConfig:
    return live(provider, environment=EnvironmentKind.LOCAL, **changes)


def test_no_model_is_called_where_no_environment_can_be_built(
    harness: Harness, provider: Provider, tmp_path: Path, cache: Path
) -> None:
    run = local(provider)
    dataset: dict[str, Any] = {
        "dataset": rows_without_python(tmp_path),
        "repos": build_mirrors(cache / "demo-mirrors"),
    }
    lines = harness.run(run, code=1, **dataset)
    assert provider.requests == []
    causes = [line for line in lines if ID in line and CAUSE in line]
    assert causes[0].startswith(f"no tests: {ID}: ")
    assert any("no model was called" in line for line in causes)
    assert not harness.file(f"{ID}.json").exists()
    estimate = harness.run(run, dry_run=True, **dataset)
    warning = f"no tests: {ID}: {CAUSE}"
    assert any(line.startswith(warning) for line in estimate)


def test_who_asks_for_it_gets_untested_patches_and_the_reason(
    harness: Harness, provider: Provider, tmp_path: Path, cache: Path
) -> None:
    provider.will_answer(EDIT)
    run = local(provider, require_tests=False, tries=1)
    harness.run(
        run,
        dataset=rows_without_python(tmp_path),
        repos=build_mirrors(cache / "demo-mirrors"),
    )
    assert provider.requests
    attempts = harness.attempts(ID)
    assert CAUSE in attempts[0]["untested"]


@pytest.mark.parametrize(
    ("body", "causes"),
    [
        (
            "def test_a(): pass\ndef test_b(): raise ValueError('gone')\n",
            {0.5: "", 0.6: "only 1 of 2 tests"},
        ),
        (
            "import roman\ndef test_a(): pass\n",
            {0.1: "No module named 'roman'"},
        ),
        (
            "import pytest\n@pytest.mark.skip\ndef test_a(): pass\n",
            {0.5: ""},
        ),
    ],
)
def test_a_sample_of_the_tests_decides(
    make_tree: MakeCheckout,
    cache: Path,
    body: str,
    causes: dict[float, str],
) -> None:
    """Causes by the share of tests that have to pass."""
    base = make_tree({"tests/test_a.py": body, "setup.py": "import setuptools"})
    spec = Spec(test_cmd="pytest -rA")
    instance = an_instance(spec=spec, base_commit="a" * 40)
    environment = LocalEnvironment(cache / "environments", print)
    session = environment.start(project_of(instance, base))
    tests = RegressionTests(
        instance=instance,
        session=session,
        choice=TestChoice.RELATED,
        limits=Tests(timeout=100, baseline_timeout=100),
        files=base.tracked_files(),
        read=Workspace(base.root).read,
        cache=base.root.parent / "baselines",
        identity=session.identity,
        log=logging.getLogger("test"),
    )
    try:
        for share, cause in causes.items():
            expectation: AbstractContextManager[object] = nullcontext()
            if cause:
                expectation = pytest.raises(BrokenEnvironmentError, match=cause)
            with expectation:
                check_sample(tests, share)
    finally:
        session.stop()
