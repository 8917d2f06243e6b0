"""Outcomes of candidates, with real pytest runs in a plain folder as the environment."""

from __future__ import annotations

import itertools
import logging
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from swe_retry.agent.conversation.testreport import TestReport, describe
from swe_retry.core.processes import CommandResult
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import AS_GIVEN, FailedCommand, Setup
from swe_retry.frameworks import Runner
from swe_retry.runner.slots import Slots
from swe_retry.testing.baselines import ALL_TESTS, Baselines, TestFiles
from swe_retry.testing.suite import RegressionTests, SuiteReport
from swe_retry.testing.testsettings import TestChoice, Tests
from tests.fixtures import an_instance
from tests.support.environments import (
    FILES,
    FolderPrepared,
    FolderSession,
    edit,
    regression_tests,
)

pytestmark = pytest.mark.run
CORE = "tests/test_core.py"
SLOW = "tests/test_core_slow.py"
NEVER = "tests/test_never.py"
SAME = edit("def one():\n    return 1\n")
RIGHT = edit("def one():\n    return 3 - 2\n")
WRONG = edit("def one():\n    return 2\n")


def names(report: TestReport) -> list[str]:
    return [failure.name for failure in report.failures]


def test_only_what_newly_fails_is_held_against_a_candidate(tmp_path: Path) -> None:
    tests = regression_tests(tmp_path)
    assert tests.run(RIGHT).outcome is True
    # Its own tests do not count.
    easy = b"def test_one(): pass\ndef test_two(): pass\ndef test_flaky(): pass\n"
    report = tests.run({**WRONG, CORE: easy})
    assert report.outcome is False
    failures = describe(report.failures)
    assert f"{CORE}::test_one" in failures
    assert "assert 2 == 1" in failures
    assert f"- {CORE}::test_known_to_fail" not in failures


def test_a_test_that_passes_when_run_once_more_is_not_broken(tmp_path: Path) -> None:
    tests = regression_tests(tmp_path)
    source = "import os\n\ndef one():\n    return 1 if os.path.exists(os.environ['FLAKY']) else 2\n"
    tests.run(SAME)
    (tmp_path / "flag").unlink()
    report = tests.run(edit(source))
    assert report.outcome is True, describe(report.failures)


def test_tests_that_fail_in_one_of_two_runs_each_are_not_broken(tmp_path: Path) -> None:
    source = (
        "import os\n\nflag = os.environ['FLAKY'] + '2'\nfirst = not os.path.exists(flag)\n"
        "open(flag, 'w').close()\n\ndef one():\n    return 7 if first else 1\n\n"
        "def two():\n    return 2 if first else 7\n"
    )
    assert regression_tests(tmp_path).run(edit(source)).outcome is True
    assert (tmp_path / "flag2").exists()


def test_a_run_that_dies_where_the_baseline_did_not_is_a_failure(
    tmp_path: Path,
) -> None:
    report = regression_tests(tmp_path).run(edit("import os\nos._exit(3)\n"))
    assert report.outcome is False
    limits = Tests(timeout=5, baseline_timeout=40)
    tests = regression_tests(tmp_path, limits=limits)
    hang = tests.run(edit("import time\ntime.sleep(99)\n"))
    assert hang.outcome is False
    assert "did not end" in describe(hang.failures)


def test_a_baseline_that_times_out_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    limits = Tests(timeout=20, baseline_timeout=1)
    tests = regression_tests(tmp_path, (SLOW,), limits=limits)
    assert tests.run(WRONG).outcome is None


def test_a_baseline_runs_no_longer_than_a_candidate_could_use(tmp_path: Path) -> None:
    session = FolderSession(tmp_path / "folder")
    limits = Tests(timeout=4, baseline_timeout=60)
    tests = regression_tests(tmp_path, (SLOW,), session=session, limits=limits)
    assert tests.run(WRONG).outcome is None
    assert session.timeouts == [2.0]


def test_tests_that_never_passed_cannot_speak(tmp_path: Path) -> None:
    tests = regression_tests(tmp_path, (NEVER,))
    assert tests.run(WRONG).outcome is None


def test_edits_of_tests_alone_leave_the_outcome_unknown(tmp_path: Path) -> None:
    tests = regression_tests(tmp_path)
    edits: list[Changes] = [{}, {CORE: b"x"}, {"conftest.py": b"x"}]
    for changes in edits:
        assert tests.run(changes).outcome is None


def test_a_file_that_changes_settings_and_more_leaves_the_outcome_unknown(
    tmp_path: Path,
) -> None:
    tests = regression_tests(tmp_path)
    path = "other/setup.cfg"
    base = "[tool:pytest]\naddopts = -q\n\n[testenv]\ndeps = x\n"
    texts = {**FILES, path: base}
    tests.files = [*tests.files, path]
    tests.read = texts.get
    settings = base.replace("-q", "-v")
    settings_and_more = settings.replace("= x", "= y")
    report = tests.run({**RIGHT, path: settings.encode()})
    assert report.outcome is True
    message = f"{path} changes test configuration and other things at once"
    for others in ({}, RIGHT, WRONG):
        report = tests.run({**others, path: settings_and_more.encode()})
        assert report.outcome is None
        assert report.untested == message


def test_a_report_has_everything_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """What limits one outcome, or makes one tree suspect, says nothing of the next tree."""
    limits = Tests(timeout=20, baseline_timeout=6)
    tests = regression_tests(tmp_path, (CORE, SLOW), limits=limits)
    texts = {"other/setup.cfg": "[tool:pytest]\naddopts = -q\n", **FILES}
    tests.files = [*tests.files, "other/setup.cfg"]
    tests.read = texts.get
    before = vars(tests).copy()
    report = tests.run({**RIGHT, "conftest.py": b"x = 1\n"})
    assert report.outcome is True
    assert report.tested == RIGHT
    assert report.note == f"left out, the baseline takes too long or dies: {SLOW}"
    assert set(report.results) == {CORE}
    assert report.results[CORE][f"{CORE}::test_one"]
    settings_and_more = b"[tool:pytest]\naddopts = -v\n[a]\nb = 2\n"
    mixed = tests.run({**RIGHT, "other/setup.cfg": settings_and_more})
    assert mixed.outcome is None
    assert mixed.untested.startswith("other/setup.cfg changes test configuration")
    nothing = tests.run({})
    assert nothing.outcome is None
    assert nothing.note == ""
    assert nothing.results == {}
    again = tests.run(RIGHT)
    assert again.outcome is True
    assert again.suspect is False
    assert again.untested == ""
    after = vars(tests)
    assert {name: after[name] for name in before} == before


@dataclass
class FlakySession(FolderSession):
    """The first set-ups of the candidate fail and leave a tree whose tests fail too."""

    broken: int = 1

    @contextmanager
    def prepare(
        self,
        changes: Changes,
        setup: Setup = AS_GIVEN,
        commands: int = 1,
    ) -> Iterator[FolderPrepared]:
        tree = changes
        failed: tuple[FailedCommand, ...] = ()
        module = changes.get("thing/core.py") or b""
        if b"3 - 2" in module and self.broken > 0:
            self.broken -= 1
            tree = {**changes, "thing/core.py": b"raise RuntimeError\n"}
            failed = (FailedCommand("make", "no space left"),)
        yield FolderPrepared(self, tree, failed)


def test_a_set_up_that_fails_in_one_of_two_tries_leaves_the_outcome_unknown(
    tmp_path: Path,
) -> None:
    session = FlakySession(tmp_path / "folder")
    report = regression_tests(tmp_path, session=session).run(RIGHT)
    assert report.outcome is None
    assert report.untested == "the set-up failed in one of two tries"


def test_a_set_up_that_fails_in_both_tries_is_a_failure(tmp_path: Path) -> None:
    session = FlakySession(tmp_path / "folder", broken=2)
    report = regression_tests(tmp_path, session=session).run(RIGHT)
    assert report.outcome is False
    assert names(report) == ["set-up: make"]


def test_baselines_are_kept_on_disk(tmp_path: Path) -> None:
    commands = []
    for name in ("first", "second"):
        session = FolderSession(tmp_path / name)
        tests = regression_tests(tmp_path, session=session, cache=tmp_path / "cache")
        tests.run(SAME)
        commands.append(len(session.commands))
    assert commands[0] == commands[1] + 1


BUSY = (
    "import os, time\nfrom thing.core import one\n\n"
    "def test_one():\n    assert one() == 1\n\n"
    "def test_busy():\n"
    "    if os.path.exists(os.environ['FLAKY']):\n"
    "        {busy}\n"
)


@pytest.mark.parametrize("busy", ["time.sleep(30)", "os.kill(os.getpid(), 9)"])
def test_a_baseline_of_a_busy_moment_is_measured_again(
    tmp_path: Path, busy: str
) -> None:
    files = {**FILES, CORE: BUSY.format(busy=busy)}

    def report_on_right() -> SuiteReport:
        session = FolderSession(tmp_path / "folder", files=files)
        tests = regression_tests(
            tmp_path,
            session=session,
            read=files.get,
            limits=Tests(timeout=60, baseline_timeout=12),
        )
        return tests.run(RIGHT)

    (tmp_path / "flag").touch()
    report = report_on_right()
    assert report.outcome is None
    assert report.note == f"left out, the baseline takes too long or dies: {CORE}"
    assert not list((tmp_path / "cache").glob("*.json"))
    (tmp_path / "flag").unlink()
    report = report_on_right()
    assert report.outcome is True
    assert report.note == ""


# A test passes or fails as the letters say, one for each run.
CHANCE = {
    **FILES,
    CORE: (
        "import os\nfrom thing.core import one\n\n"
        "def test_one():\n    assert one() == 1\n\n"
        "def test_chance():\n"
        "    with open(os.environ['FLAKY'], 'r+') as file:\n"
        "        letters = file.read()\n"
        "        file.seek(0)\n"
        "        file.truncate()\n"
        "        file.write(letters[1:])\n"
        "    assert letters[0] == 'p'\n"
    ),
}


def make_chance_tests(root: Path, letters: str) -> RegressionTests:
    root.mkdir(exist_ok=True)
    (root / "flag").write_text(letters)
    session = FolderSession(root / "folder", files=CHANCE)
    return regression_tests(root, session=session, read=CHANCE.get)


@pytest.fixture(scope="module")
def passing_by_chance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the baseline in which ``test_chance`` passes."""
    folder = tmp_path_factory.mktemp("chance")
    tests = make_chance_tests(folder, "p")
    with tests.open_baselines(tests.setup_for(RIGHT), [CORE]) as measure:
        assert measure(CORE, 60).usable
    return folder / "cache"


def test_a_test_that_newly_fails_at_the_base_too_is_flaky(
    tmp_path: Path, passing_by_chance: Path
) -> None:
    """Letters: the candidate twice, the base once more."""
    shutil.copytree(passing_by_chance, tmp_path / "cache")
    tests = make_chance_tests(tmp_path, "fff" + "ff")
    report = tests.run(RIGHT)
    assert report.outcome is True, report.untested
    assert report.note == f"flaky at the base commit: {CORE}::test_chance"
    # It stays known, for other candidates and other runs.
    again = make_chance_tests(tmp_path, "ff")
    report = again.run(edit("def one():\n    return 4 - 3\n"))
    assert report.outcome is True
    assert report.note == ""


def test_a_test_that_fails_for_a_candidate_only_is_held_against_it(
    tmp_path: Path, passing_by_chance: Path
) -> None:
    shutil.copytree(passing_by_chance, tmp_path / "cache")
    report = make_chance_tests(tmp_path, "ffp").run(RIGHT)
    assert names(report) == [f"{CORE}::test_chance"]
    both = make_chance_tests(tmp_path, "fff").run(WRONG)
    assert names(both) == [f"{CORE}::test_one"]


@pytest.mark.long
def test_a_fair_coin_is_blamed_once_in_sixteen(tmp_path: Path) -> None:
    """It was twice in sixteen: the first letter passes and both of the candidate's fail."""
    blamed = []
    for draws in itertools.product("pf", repeat=4):
        letters = "".join(draws)
        tests = make_chance_tests(tmp_path / letters, letters)
        if tests.run(RIGHT).failures:
            blamed.append(letters)
    assert blamed == ["pffp"]


def test_all_runs_the_whole_suite(tmp_path: Path) -> None:
    tests = regression_tests(tmp_path, (CORE, NEVER), choice=TestChoice.ALL)
    tests.session.test_command += " --deselect tests/test_core_slow.py"  # type: ignore[misc]
    report = tests.run(RIGHT)
    assert report.outcome is True
    results = report.results[ALL_TESTS]
    assert results[f"{CORE}::test_one"] == "PASSED"
    assert results[f"{NEVER}::test_never"] == "FAILED"


def test_an_unknown_runner_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    session = FolderSession(tmp_path / "folder", "make check")
    report = regression_tests(tmp_path, session=session).run(edit("x = 1\n"))
    assert report.outcome is None


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the baselines of the usual files."""
    folder = tmp_path_factory.mktemp("judged")
    cache = folder / "cache"
    regression_tests(folder, cache=cache).run(RIGHT)
    return cache


PLUGIN = (
    b"import pytest\n\n@pytest.hookimpl(tryfirst=True)\n"
    b"def pytest_pyfunc_call(pyfuncitem):\n    return True\n"
)


# Which files are settings is decided by the tables of test_testconfig.py.
SETTINGS = [
    (".pytest.ini", b"[pytest]\naddopts = -p evil\n"),
    ("pytest.toml", b"[pytest]\naddopts = ['-p', 'evil']\n"),
    ("setup.cfg", b"[tool:pytest]\naddopts = -p evil\n"),
    ("pyproject.toml", b"[tool.pytest.ini_options]\naddopts = '-p evil'\n"),
]


POINTS = "evil-1.dist-info/entry_points.txt"
# Each makes the tests of a wrong candidate pass, so one that gets through is seen among others.
LOADED = [
    ("conftest.py", PLUGIN),
    ("pytest.ini", b"[pytest]\naddopts = -p evil\n"),
    ("sitecustomize.py", b"import os\nos.environ['PYTEST_ADDOPTS'] = '-p evil'\n"),
    (POINTS, b"[pytest11]\nevil = evil\n"),
]


@pytest.mark.parametrize(
    "files",
    [
        dict(LOADED),
        {"pytest.py": b"print('PASSED tests/test_core.py::test_one')\n"},
        *(
            pytest.param({path: data}, marks=pytest.mark.long)
            for path, data in [*LOADED, *SETTINGS]
        ),
    ],
    ids=", ".join,
)
def test_a_model_cannot_change_how_it_is_judged(
    tmp_path: Path, baselines: Path, files: dict[str, bytes]
) -> None:
    changes = {**WRONG, "evil.py": PLUGIN, **files}
    session = FolderSession(tmp_path / "folder")
    if POINTS in files:
        # Those of this environment take most of a run's time to import.
        session.plugins = True
        for plugin in entry_points(group="pytest11"):
            session.test_command += f" -p no:{plugin.name}"
    tests = regression_tests(tmp_path, session=session, cache=baselines)
    assert tests.run(changes).outcome is False


def test_baselines_are_measured_at_once_in_spare_slots(tmp_path: Path) -> None:
    """Two commands wait for each other; a third has no slot."""
    meeting = threading.Barrier(2)
    commands = []

    class Meeting:
        failed_commands = ()

        def run(self, command: str, timeout: float) -> CommandResult:
            commands.append(command)
            meeting.wait(20)
            return CommandResult("", 0, 0.1)

    slots = Slots(2)
    slots.take()
    baselines = Baselines(
        tests=TestFiles(an_instance(), Runner.PYTEST, "pytest", ()),
        cache=tmp_path,
        identity="",
        longest=9,
        log=logging.getLogger("test"),
        spare=slots.spare,
    )
    paths = ["tests/test_a.py", "tests/test_b.py", "tests/test_c.py"]
    measured = baselines.measure(Meeting(), paths, 5)
    assert len(measured) == 2
    assert len(commands) == 2
    first, second, third = paths
    assert baselines.find(first) is not None
    assert baselines.find(second) is not None
    assert baselines.find(third) is None
