"""Whatever a history holds, mining says one clear line, or gives a row or a count."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.support import write_files
from tests.support.histories import History, Mine

MESSAGE = "Add the numbers\n\nThe sum of two and three is minus one for all users.\n"
WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
TESTS = """\
import unittest

from calc import add


class AddTest(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(2, 0), 2)
"""
MORE_TESTS = f"""{TESTS}
    def test_sum(self):
        self.assertEqual(add(2, 3), 5)
"""
FIX = {"calc.py": RIGHT, "test_calc.py": MORE_TESTS}
UNITTEST = ("--setup-cmd", "true", "--test-cmd", "python -m unittest")
Plant = Callable[[History], None]


@pytest.fixture
def calc(history: History) -> History:
    """A repository with a bug."""
    history.commit("First", {"calc.py": WRONG, "test_calc.py": TESTS})
    return history


def assert_plain(printed: subprocess.CompletedProcess[str]) -> None:
    assert "Traceback" not in printed.stdout
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", printed.stdout)


def with_controls(history: History) -> None:
    text = MESSAGE.replace("sum", "\x1b[31ms\x07u\x08m\x1b]0;title\x07\x9b2J\r")
    history.commit(text.encode("latin-1"), FIX)


def with_a_megabyte(history: History) -> None:
    history.commit(f"{MESSAGE}\n" + "all work and no play " * 50_000, FIX)


def with_a_long_line(history: History) -> None:
    history.commit("Add " + "@@ -1 fixes: #" * 70_000 + f"\n\n{MESSAGE}", FIX)


def with_plain_binary(history: History) -> None:
    history.commit(MESSAGE, {**FIX, "tests/data.bin": bytes(range(256))})


def with_dates(history: History) -> None:
    history.commit(MESSAGE, FIX)
    history.time = datetime(1970, 1, 2, tzinfo=UTC)
    history.commit("Say more", {"README.md": "# calc\n"})


def with_2099(history: History) -> None:
    history.time = datetime(2099, 1, 1, tzinfo=UTC)
    history.commit(MESSAGE, FIX)


def on_two_branches(history: History) -> None:
    history.branch("release")
    fix = history.commit(MESSAGE, FIX)
    history.go("main")
    history.commit("Say more", {"README.md": "# calc\n"})
    history.git("cherry-pick", fix)
    history.git("merge", "--quiet", "-s", "ours", "--no-edit", "release")


def with_replace_refs(history: History) -> None:
    fix = history.commit(MESSAGE, FIX)
    other = history.commit("Other", {"calc.py": WRONG})
    history.git("reset", "--quiet", "--hard", fix)
    history.git("replace", fix, other)
    grafts = history.root / ".git/info/grafts"
    write_files(grafts.parent, {"grafts": f"{fix}\n"})


def with_a_merge(history: History) -> None:
    history.branch("topic")
    history.commit(MESSAGE, {"calc.py": RIGHT})
    history.commit("Test it", {"test_calc.py": MORE_TESTS})
    history.go("main")
    history.commit("Other", {"other.py": "OTHER = 1\n"})
    history.merge("Merge branch 'topic'", "topic", files={"evil.py": "EVIL = 1\n"})


def with_unrelated(history: History) -> None:
    history.commit(MESSAGE, FIX)
    history.git("checkout", "--quiet", "--orphan", "other")
    history.git("rm", "--quiet", "-rf", ".")
    history.commit("Other", {"other.py": "", "test_other.py": "one = 1\n"})
    history.go("main")
    history.merge("Join", "other")


def with_octopus(history: History) -> None:
    history.commit(MESSAGE, FIX)
    for name in ("one", "two"):
        history.branch(name, "main~1")
        history.commit(name, {f"{name}.py": "", f"test_{name}.py": "new = 1\n"})
    history.go("main")
    history.merge("Join all", "one", "two")


def with_many_tests(history: History) -> None:
    """Their names are longer than an argument list may be."""
    files = {f"tests/{'n' * 200}{number}.txt": "" for number in range(11_000)}
    history.commit(MESSAGE, {**FIX, **files})


def with_many_changed_tests(history: History) -> None:
    """Their ids and texts fill pipes."""

    def files(text: str) -> dict[str, str]:
        return {f"tests/{number}.txt": f"{text * 500}\n" for number in range(490)}

    history.commit("Data", files("a"))
    history.commit(MESSAGE, {**FIX, **files("b")})


@pytest.mark.parametrize(
    "plant",
    [
        with_controls,
        with_a_megabyte,
        with_a_long_line,
        with_plain_binary,
        with_dates,
        with_2099,
        on_two_branches,
        with_replace_refs,
        with_a_merge,
        with_unrelated,
        with_octopus,
        with_many_changed_tests,
    ],
)
def test_the_fix_is_found(plant: Plant, calc: History, mine: Mine) -> None:
    plant(calc)
    printed = mine.start(calc.root, "--dry-run")
    assert_plain(printed)
    assert printed.returncode == 0, printed.stdout
    assert ", 1 fit\n" in printed.stdout
    assert "Add " in printed.stdout


def with_line_ends(history: History) -> None:
    history.commit(MESSAGE, {**FIX, "new\nline.py": "\n"})


def with_latin_path(history: History) -> None:
    history.commit(MESSAGE, FIX | {os.fsdecode(b"caf\xe9.py"): "\n"})


def with_latin_text(history: History) -> None:
    history.commit(MESSAGE, {**FIX, "calc.py": f"# caf\xe9\n{RIGHT}".encode("latin-1")})


def with_submodule(history: History) -> None:
    other = History(history.root.parent / "other")
    other.commit("First", {"README.md": "other\n"})
    history.git("submodule", "--quiet", "add", str(other.root), "vendor")
    history.commit(MESSAGE, FIX)


def without_tests(history: History) -> None:
    history.commit(MESSAGE, {"calc.py": RIGHT, "test_calc.py": None})
    history.commit(MESSAGE, {"calc.py": WRONG})


def with_octopus_alone(history: History) -> None:
    for name in ("one", "two"):
        history.branch(name, "main")
        history.commit(name, {f"{name}.py": ""})
    history.go("main")
    history.merge("Join all", "one", "two", files=FIX)


def with_a_large_patch(history: History) -> None:
    history.commit(MESSAGE, {**FIX, "calc.py": RIGHT + "# long\n" * 300_000})


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        (with_line_ends, "path 1"),
        (with_latin_path, "path 1"),
        (with_latin_text, "encoding 1"),
        (with_submodule, "submodule 1"),
        (without_tests, "no tests 1"),
        (with_octopus_alone, "octopus 1"),
        (with_a_large_patch, "size 1"),
        (with_many_tests, "files 1"),
    ],
)
def test_what_makes_no_row_is_counted(
    plant: Plant, reason: str, calc: History, mine: Mine
) -> None:
    plant(calc)
    printed = mine.start(calc.root, "--dry-run")
    assert_plain(printed)
    assert printed.returncode == 2, printed.stdout
    assert reason in printed.stdout
    assert printed.stdout.count("\n") == 3
    assert not mine.out().exists()
