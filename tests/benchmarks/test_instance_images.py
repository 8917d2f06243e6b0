"""Rows made from a spec, planted breakages and the table of verdicts; long: with real instances.

Environment variables of the long part:

- ``SWE_ROWS``: rows of SWE-bench with ``spec``, one JSON object per line
- ``SWE_MIRRORS``: a folder of bare mirrors
- ``SWE_IMAGES``: the ``--out`` of ``benchmarks.instance_images``, kept between runs
- ``SWE_RECORDED``: a folder of trajectories with recorded patches (optional)
- ``SWE_INSTANCES``: ids separated by spaces; default: pallets__flask-5063 psf__requests-863
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.breakages import (
    Breakage,
    BreakageKind,
    Executed,
    Function,
    Planter,
    functions,
)
from benchmarks.evaluation_rows import TestLists, evaluation_columns
from benchmarks.planted_breakages import noticed
from benchmarks.regression import InstanceTests
from benchmarks.verdict_table import Verdicts
from swe_retry.environments.base import EnvironmentKind
from swe_retry.instances.instance import bare_setup
from swe_retry.record.patches import patch_paths
from tests.fixtures import an_instance
from tests.support import from_environment, write_files
from tests.support.environments import FolderSession

ROW: dict[str, Any] = {
    "instance_id": "pallets__flask-1",
    "repo": "pallets/flask",
    "base_commit": "a" * 40,
    "spec": {
        "python": "3.11",
        "install": "python -m pip install -e .",
        "test_cmd": "pytest -rA",
    },
    "test_patch": (
        "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n"
        "+++ b/tests/test_a.py\n@@ -1 +1 @@\n-a\n+b\n"
        "diff --git a/tests/data.toml b/tests/data.toml\nnew file mode 100644\n--- /dev/null\n"
        "+++ b/tests/data.toml\n@@ -0,0 +1 @@\n+a = 1\n"
    ),
}


def test_the_script_of_a_spec_is_one_that_the_harness_reads() -> None:
    columns = evaluation_columns(ROW, "image")
    script = columns["eval_script"]
    commit = ROW["base_commit"]
    assert f"git checkout {commit} tests/test_a.py\nrm -f tests/data.toml\n" in script
    assert "\npytest -rA tests/test_a.py\n: '>>>>> End Test Output'\n" in script
    assert columns["log_parser"] == "parse_log_pytest"
    assert columns["eval_type"] == "pass_and_fail"
    setup = bare_setup(script, patch_paths(ROW["test_patch"]))
    assert setup is not None
    assert setup.command == "pytest -rA"
    assert "conda activate testbed" in setup.setup
    assert setup.setup[-1] == "python -m pip install -e ."


def test_only_tests_that_every_run_with_the_gold_patch_passes_are_listed() -> None:
    usual = {"kept": "PASSED", "flaky": "PASSED"}
    before = {**usual, "fixed": "FAILED", "skipped": "SKIPPED"}
    after = {**usual, "fixed": "PASSED", "skipped": "PASSED", "new": "XFAIL"}
    lists = TestLists.of(before, after, {**after, "flaky": "FAILED"})
    assert lists == TestLists(("fixed", "new"), ("kept",))


def test_unknown_verdicts_disagree_with_none() -> None:
    verdicts = {"docker": "caught", "local": "untested", "swebench": "-"}
    assert Verdicts("a", verdicts).agree
    assert not Verdicts("a", {"docker": "caught", "local": "plausible"}).agree


SOURCE = '''\
"""A docstring."""
from __future__ import annotations

import functools


@functools.lru_cache(maxsize=None)
def decorated(a):
    """Of two
    lines."""
    return a


def short(): return 1


class Thing:
    def method(self):
        def inner():
            return 2

        return inner()


def documented():
    """Say no more."""
'''
FILES = {
    "thing/__init__.py": '"""The package."""\n',
    "thing/core.py": SOURCE,
    "setup.py": "from setuptools import setup\n\nsetup()\n",
    "setup.cfg": "[metadata]\nname = thing\n",
    "pyproject.toml": (
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "thing"\n'
    ),
    "tests/test_core.py": (
        "from thing.core import Thing, decorated, documented\n\n"
        "def test_passes():\n    assert Thing().method() == 2\n\n"
        "def test_fails():\n    assert decorated(1) == 2\n\n"
        "def helper():\n    documented()\n\nhelper()\n"
    ),
}


def _planter(seed: int = 1) -> Planter:
    executed = [f for f in functions("thing/core.py", SOURCE) if f.name != "inner"]
    assert len(executed) == 4
    chance = random.Random(seed)
    return Planter(executed, "thing/__init__.py", list(FILES), FILES.get, chance)


def test_a_seed_draws_the_same_five_breakages_of_each_kind() -> None:
    breakages = _planter().plant(5)
    # Nothing can be put into a function of one line.
    assert Counter(b.kind for b in breakages) == {
        BreakageKind.IMPORT: 5,
        BreakageKind.FUNCTION: 3,
        BreakageKind.BUILD: 5,
        BreakageKind.MODULE: 4,
    }
    assert breakages == _planter().plant(5)
    texts = {b.what for b in breakages}
    assert texts != {b.what for b in _planter(2).plant(5)}
    assert len(texts) == len(breakages)


def planted(number: int, kind: BreakageKind) -> list[Breakage]:
    """Return the breakages of a kind among ``number`` of each kind."""
    return [b for b in _planter().plant(number) if b.kind is kind]


def test_an_executed_function_raises_and_the_others_do_not() -> None:
    calls = ["decorated(1)", "Thing().method()", "documented()"]
    raising = []
    for breakage in planted(5, BreakageKind.FUNCTION):
        names: dict[str, Any] = {}
        exec(compile(breakage.changes["thing/core.py"], "core.py", "exec"), names)
        for call in calls:
            try:
                eval(call, names)
            except RuntimeError as error:
                assert str(error) == "planted breakage"
                raising.append(call)
    assert sorted(raising) == sorted(calls)


def test_what_is_broken_at_its_import_cannot_be_imported() -> None:
    for breakage in _planter().plant(5):
        path = next(iter(breakage.changes))
        replaces_file = "empty" in breakage.what or "cut off" in breakage.what
        in_function = breakage.kind is BreakageKind.FUNCTION
        if in_function or replaces_file or not path.endswith(".py"):
            continue
        with pytest.raises((Exception, SystemExit)):
            exec(compile(breakage.changes[path], path, "exec"), {})


def test_a_broken_build_comes_with_a_harmless_edit_of_tested_code() -> None:
    builds = planted(20, BreakageKind.BUILD)
    assert len(builds) == 11
    paths = {next(iter(b.changes)) for b in builds}
    assert paths == {"setup.py", "setup.cfg", "pyproject.toml"}
    assert len({next(iter(b.changes.values())) for b in builds}) == len(builds)
    for breakage in builds:
        exec(compile(breakage.changes["thing/core.py"], "core.py", "exec"), {})


class _Base:
    """As much of a checkout as is read."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def tracked_files(self) -> tuple[str, ...]:
        return tuple(FILES)


@pytest.fixture
def checks(tmp_path: Path) -> InstanceTests:
    write_files(tmp_path / "base", FILES)
    session = FolderSession(tmp_path / "folder", files=FILES)
    base: Any = _Base(tmp_path / "base")
    return InstanceTests(EnvironmentKind.LOCAL, base, session, cast(Any, None))


def test_the_control_tells_what_the_tests_themselves_notice(
    checks: InstanceTests,
) -> None:
    raising = "\nraise RuntimeError('planted breakage')\n"
    for end in ("\n# no breakage\n", raising):
        changes = {"thing/core.py": (SOURCE + end).encode()}
        breakage = Breakage(BreakageKind.FUNCTION, "one", changes)
        assert noticed(breakage, checks, 60) is (end == raising)


def test_only_functions_that_a_passing_test_executes_are_drawn_from(
    checks: InstanceTests,
) -> None:
    executed = Executed(an_instance(), checks, 60)
    method, inner = executed.functions("thing/core.py")
    line = SOURCE.splitlines().index("    def method(self):") + 1
    assert method == Function("thing/core.py", line, "method")
    assert inner.name == "inner"


def _run(module: str, *options: object) -> str:
    argv = [sys.executable, "-m", f"benchmarks.{module}", *map(str, options)]
    top = Path(__file__).resolve().parents[2]
    result = subprocess.run(argv, cwd=top, capture_output=True, text=True, check=False)
    print(result.stdout, result.stderr)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.mark.long
@pytest.mark.docker
def test_all_evaluators_agree_and_no_breakage_is_plausible(tmp_path: Path) -> None:
    rows = from_environment("SWE_ROWS")
    mirrors = from_environment("SWE_MIRRORS")
    missing = [name for name in ("debootstrap", "bwrap") if not shutil.which(name)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"images take root and {', '.join(missing) or 'no more'}")
    out = Path(os.environ.get("SWE_IMAGES") or tmp_path)
    usual = "pallets__flask-5063 psf__requests-863"
    ids = os.environ.get("SWE_INSTANCES", usual).split()
    data = ["--mirrors", mirrors, "--out", out]
    _run("instance_images", "--dataset", rows, *data, *ids)
    made = ["--rows", out / "instances.jsonl", "--mirrors", mirrors]
    recorded = os.environ.get("SWE_RECORDED")
    recordings = ["--recorded", recorded] if recorded else []
    _run("verdict_table", *made, "--out", tmp_path / "table", *recordings, *ids)
    options = ("--out", tmp_path / "planted", "--each", 1)
    output = _run("planted_breakages", *made, *options, *ids)
    assert "caught 1" in output
