"""Outcomes of candidates, with real pytest runs in a plain folder as the environment."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.conversation.testreport import describe
from bench.regression.baselines import Baselines, TestFiles
from bench.regression.runners import Runner
from bench.regression.settings import TestChoice
from bench.regression.suite import RegressionTests, TestLimits
from core.processes import CommandResult
from core.worktree import Changes
from environments.base import AS_GIVEN, FailedCommand, Setup
from runs.slots import Slots
from tests.conftest import an_instance
from tests.support.environments import (
    FILES,
    FolderPrepared,
    FolderSession,
    edit,
    regression_tests,
)

pytestmark = pytest.mark.run


def test_a_test_that_failed_before_is_not_held_against_a_candidate(
    tmp_path: Path,
) -> None:
    report = regression_tests(tmp_path).run(edit("def one():\n    return 3 - 2\n"))
    assert report.outcome is True


def test_a_broken_test_is_named_with_its_reason(tmp_path: Path) -> None:
    report = regression_tests(tmp_path).run(edit("def one():\n    return 2\n"))
    assert report.outcome is False
    assert "tests/test_core.py::test_one" in describe(report.failures)
    assert "assert 2 == 1" in describe(report.failures)
    assert "- tests/test_core.py::test_known_to_fail" not in describe(report.failures)


def test_a_test_that_passes_when_run_once_more_is_not_broken(tmp_path: Path) -> None:
    tests = regression_tests(tmp_path)
    source = "import os\n\ndef one():\n    return 1 if os.path.exists(os.environ['FLAKY']) else 2\n"
    tests.run(edit("def one():\n    return 1\n"))
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
    hang = regression_tests(tmp_path, limits=TestLimits(5, 40)).run(
        edit("while True: pass\n")
    )
    assert hang.outcome is False
    assert "did not end" in describe(hang.failures)


def test_a_baseline_that_times_out_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    tests = regression_tests(
        tmp_path, ("tests/test_slow.py",), limits=TestLimits(20, 1)
    )
    assert tests.run(edit("def one():\n    return 2\n")).outcome is None


def test_a_baseline_runs_no_longer_than_a_candidate_could_use(tmp_path: Path) -> None:
    session = FolderSession(tmp_path / "folder")
    slow = regression_tests(
        tmp_path, ("tests/test_slow.py",), session=session, limits=TestLimits(4, 60)
    )
    assert slow.run(edit("def one():\n    return 2\n")).outcome is None
    assert session.timeouts == [2.0]


def test_tests_that_never_passed_cannot_speak(tmp_path: Path) -> None:
    tests = regression_tests(tmp_path, ("tests/test_never.py",))
    assert tests.run(edit("def one():\n    return 2\n")).outcome is None


@pytest.mark.parametrize(
    "changes", [{}, {"tests/test_core.py": b"x"}, {"conftest.py": b"x"}]
)
def test_edits_of_tests_alone_leave_the_outcome_unknown(
    tmp_path: Path, changes: dict[str, bytes | None]
) -> None:
    assert regression_tests(tmp_path).run(changes).outcome is None


def test_a_file_that_changes_settings_and_more_leaves_the_outcome_unknown(
    tmp_path: Path,
) -> None:
    tests = regression_tests(tmp_path)
    base = "[pytest]\naddopts = -q\n\n[testenv]\ndeps = x\n"
    tests.files = [*tests.files, "tox.ini"]
    read = tests.read
    tests.read = lambda path: base if path == "tox.ini" else read(path)
    changed = base.replace("-q", "-v")
    same = edit("def one():\n    return 3 - 2\n")
    assert tests.run({**same, "tox.ini": changed.encode()}).outcome is True
    for others in ({}, same, edit("def one():\n    return 2\n")):
        mixed = {**others, "tox.ini": changed.replace("= x", "= y").encode()}
        report = tests.run(mixed)
        assert report.outcome is None
        assert (
            report.untested
            == "tox.ini changes test configuration and other things at once"
        )


def test_a_report_has_everything_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """What limits one outcome, or makes one tree suspect, says nothing of the next tree."""
    files = ("tests/test_core.py", "tests/test_slow.py")
    tests = regression_tests(tmp_path, files, limits=TestLimits(20, 6))
    texts = {"tox.ini": "[pytest]\naddopts = -q\n", **FILES}
    tests.files = [*tests.files, "tox.ini"]
    tests.read = texts.get
    right = edit("def one():\n    return 3 - 2\n")
    before = vars(tests).copy()
    report = tests.run({**right, "conftest.py": b"x = 1\n"})
    assert report.outcome is True
    assert report.tested == right
    assert "tests/test_slow.py" in report.note
    assert set(report.results) == {"tests/test_core.py"}
    assert report.results["tests/test_core.py"]["tests/test_core.py::test_one"]
    mixed = tests.run({**right, "tox.ini": b"[pytest]\naddopts = -v\n[a]\nb = 2\n"})
    assert mixed.outcome is None
    assert mixed.untested.startswith("tox.ini changes test configuration")
    nothing = tests.run({})
    assert (nothing.outcome, nothing.note, nothing.results) == (None, "", {})
    again = tests.run(right)
    assert (again.outcome, again.suspect, again.untested) == (True, False, "")
    assert {name: vars(tests)[name] for name in before} == before


EASY = b"def test_one(): pass\ndef test_two(): pass\ndef test_flaky(): pass\n"


def test_the_test_files_are_those_of_the_base_commit(tmp_path: Path) -> None:
    changes = {
        **edit("def one():\n    return 2\n"),
        "tests/test_core.py": EASY,
    }
    assert regression_tests(tmp_path).run(changes).outcome is False


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
        edited = b"3 - 2" in (changes.get("thing/core.py") or b"")
        fails = edited and self.broken > 0
        self.broken = self.broken - edited
        failed = (FailedCommand("make", "no space left"),) if fails else ()
        tree = changes
        if fails:
            tree = {**changes, "thing/core.py": b"raise RuntimeError\n"}
        yield FolderPrepared(self, tree, failed)


def test_a_set_up_that_fails_in_one_of_two_tries_leaves_the_outcome_unknown(
    tmp_path: Path,
) -> None:
    tests = regression_tests(tmp_path, session=FlakySession(tmp_path / "folder"))
    report = tests.run(edit("def one():\n    return 3 - 2\n"))
    assert report.outcome is None
    assert report.untested == "the set-up failed in one of two tries"


def test_a_set_up_that_fails_in_both_tries_is_a_failure(tmp_path: Path) -> None:
    tests = regression_tests(
        tmp_path, session=FlakySession(tmp_path / "folder", broken=2)
    )
    report = tests.run(edit("def one():\n    return 3 - 2\n"))
    assert report.outcome is False
    assert [one.name for one in report.failures] == ["set-up: make"]


def test_baselines_are_kept_on_disk(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = regression_tests(tmp_path, cache=cache)
    second = regression_tests(tmp_path, cache=cache)
    for tests in (first, second):
        tests.run(edit("def one():\n    return 1\n"))
    assert isinstance(first.session, FolderSession)
    assert isinstance(second.session, FolderSession)
    assert len(first.session.commands) == len(second.session.commands) + 1


BUSY = {
    **FILES,
    "tests/test_core.py": (
        "import os, time\nfrom thing.core import one\n\n"
        "def test_one():\n    assert one() == 1\n\n"
        "def test_busy():\n"
        "    if os.path.exists(os.environ['FLAKY']):\n"
        "        {busy}\n"
    ),
}


@pytest.mark.parametrize("busy", ["time.sleep(30)", "os.kill(os.getpid(), 9)"])
def test_a_baseline_of_a_busy_moment_is_measured_again(
    tmp_path: Path, busy: str
) -> None:
    files = {**BUSY, "tests/test_core.py": BUSY["tests/test_core.py"].format(busy=busy)}

    def outcome() -> tuple[bool | None, str]:
        session = FolderSession(tmp_path / "folder", files=files)
        limits = TestLimits(60, 12)
        tests = regression_tests(
            tmp_path, session=session, read=files.get, limits=limits
        )
        report = tests.run(edit("def one():\n    return 2\n"))
        return report.outcome, report.note

    (tmp_path / "flag").touch()
    assert outcome() == (
        None,
        "left out, the baseline takes too long or dies: tests/test_core.py",
    )
    assert not [*(tmp_path / "cache").glob("*.json")]
    (tmp_path / "flag").unlink()
    assert outcome() == (False, "")


# A test passes or fails as the letters say, one for each run.
CHANCE = {
    **FILES,
    "tests/test_core.py": (
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


def outcome_by_chance(place: Path, letters: str) -> RegressionTests:
    place.mkdir(exist_ok=True)
    (place / "flag").write_text(letters)
    session = FolderSession(place / "folder", files=CHANCE)
    return regression_tests(place, session=session, read=CHANCE.get)


def test_a_test_that_newly_fails_at_the_base_too_is_flaky(tmp_path: Path) -> None:
    """Letters: the baseline, the candidate twice, the base once more."""
    tests = outcome_by_chance(tmp_path, "pfff" + "ff")
    report = tests.run(edit("def one():\n    return 3 - 2\n"))
    assert report.outcome is True
    assert report.note == "flaky at the base commit: tests/test_core.py::test_chance"
    # It stays known, for other candidates and other runs.
    again = outcome_by_chance(tmp_path, "ff")
    report = again.run(edit("def one():\n    return 4 - 3\n"))
    assert report.outcome is True
    assert report.note == ""


def test_a_test_that_fails_for_a_candidate_only_is_held_against_it(
    tmp_path: Path,
) -> None:
    tests = outcome_by_chance(tmp_path, "pffp")
    report = tests.run(edit("def one():\n    return 3 - 2\n"))
    assert [failure.name for failure in report.failures] == [
        "tests/test_core.py::test_chance"
    ]
    both = outcome_by_chance(tmp_path / "both", "pfff").run(
        edit("def one():\n    return 2\n")
    )
    assert [failure.name for failure in both.failures] == [
        "tests/test_core.py::test_one"
    ]


@pytest.mark.long
def test_a_fair_coin_is_blamed_once_in_sixteen(tmp_path: Path) -> None:
    """It was twice in sixteen: the first letter passes and both of the candidate's fail."""
    every = ["".join(letters) for letters in itertools.product("pf", repeat=4)]
    blamed = [
        letters
        for letters in every
        if outcome_by_chance(tmp_path / letters, letters)
        .run(edit("def one():\n    return 3 - 2\n"))
        .failures
    ]
    assert blamed == ["pffp"]


def test_files_that_are_left_out_are_named(tmp_path: Path) -> None:
    files = ("tests/test_core.py", "tests/test_slow.py")
    tests = regression_tests(tmp_path, files, limits=TestLimits(60, 12))
    report = tests.run(edit("def one():\n    return 1\n"))
    assert report.outcome is True
    assert (
        report.note
        == "left out, the baseline takes too long or dies: tests/test_slow.py"
    )


def test_all_runs_the_whole_suite(tmp_path: Path) -> None:
    tests = regression_tests(tmp_path, choice=TestChoice.ALL)
    tests.session.test_command += " --deselect tests/test_slow.py"  # type: ignore[misc]
    assert tests.run(edit("def one():\n    return 2\n")).outcome is False


def test_an_unknown_runner_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    session = FolderSession(tmp_path / "folder", "make check")
    assert (
        regression_tests(tmp_path, session=session).run(edit("x = 1\n")).outcome is None
    )


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the baselines of the usual files."""
    folder = tmp_path_factory.mktemp("judged")
    cache = folder / "cache"
    regression_tests(folder, cache=cache).run(edit("def one():\n    return 3 - 2\n"))
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


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("conftest.py", PLUGIN),
        ("pytest.ini", b"[pytest]\naddopts = -p evil\n"),
        ("sitecustomize.py", b"import os\nos.environ['PYTEST_ADDOPTS'] = '-p evil'\n"),
        ("pytest.py", b"print('PASSED tests/test_core.py::test_one')\n"),
        ("evil-1.dist-info/entry_points.txt", b"[pytest11]\nevil = evil\n"),
        *(pytest.param(*row, marks=pytest.mark.long) for row in SETTINGS),
    ],
)
def test_a_model_cannot_change_how_it_is_judged(
    tmp_path: Path, baselines: Path, path: str, content: bytes
) -> None:
    changes = {**edit("def one():\n    return 2\n"), "evil.py": PLUGIN, path: content}
    session = FolderSession(tmp_path / "folder", plugins="dist-info" in path)
    tests = regression_tests(tmp_path, session=session, cache=baselines)
    assert tests.run(changes).outcome is False


def test_baselines_are_measured_at_once_in_spare_slots(tmp_path: Path) -> None:
    """Two commands wait for each other; a third has no slot."""
    meeting = threading.Barrier(2)
    ran = []

    class Meeting:
        failed_commands = ()

        def run(self, command: str, timeout: float) -> CommandResult:
            ran.append(command)
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
    found = baselines.measure(Meeting(), paths, 5)
    assert len(found) == len(ran) == 2
    assert [baselines.find(path) is not None for path in paths] == [True, True, False]
