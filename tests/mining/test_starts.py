"""Where and how mining is started: repositories, issues, files that exist, and ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mining.test_hostile_histories import (
    FIX,
    MESSAGE,
    MORE_TESTS,
    RIGHT,
    TESTS,
    UNITTEST,
    WRONG,
    assert_plain,
)
from tests.own.test_hostile import Trap
from tests.support import contents_below, wait_until, write_files, write_json
from tests.support.histories import History, Mine

SLOW = "import time\n\ntime.sleep(0.3)\n"


@pytest.fixture
def calc(history: History) -> History:
    """A repository with a bug and its fix."""
    history.commit("First", {"calc.py": WRONG, "test_calc.py": TESTS})
    history.commit(MESSAGE, FIX)
    return history


def add_fixes(history: History, count: int) -> None:
    """Add fixes of modules of their own, whose tests take a moment."""
    for number in range(count):
        module = f"calc{number}"
        names = {"from calc ": f"from {module} ", "AddTest": f"Add{number}Test"}
        texts = []
        for text in (TESTS, MORE_TESTS):
            for old, new in names.items():
                text = text.replace(old, new)
            texts.append(SLOW + text)
        history.commit(
            f"Module {number}",
            {f"{module}.py": WRONG, f"test_{module}.py": texts[0]},
        )
        fix = f"# {module}\n{RIGHT}"
        message = MESSAGE.replace("numbers", f"numbers of {number}")
        history.commit(message, {f"{module}.py": fix, f"test_{module}.py": texts[1]})


def bare(history: History) -> Path:
    root = history.root.with_suffix(".git")
    history.git("clone", "--quiet", "--bare", ".", str(root))
    return root


def worktree(history: History) -> Path:
    root = history.root.parent / "tree"
    history.git("worktree", "add", "--quiet", "--detach", str(root))
    return root


def folder(history: History) -> Path:
    root = history.root.parent / "many"
    files = {"package.json": "{}", "calc/pyproject.toml": "", "calc/README.md": ""}
    many = History(root)
    wrong = {"calc/calc.py": WRONG, "calc/test_calc.py": TESTS}
    many.commit("First", {**files, **wrong})
    right = {f"calc/{path}": text for path, text in FIX.items()}
    many.commit(MESSAGE, {**right, "lib/a.js": "a", "lib/b.js": "", "lib/c.js": ""})
    many.commit(MESSAGE, {"lib/a.js": "b", "lib/a.test.js": "test('b', 0);"})
    return root / "calc"


def env_files(history: History) -> Path:
    history.commit(
        "Secrets", {".env": "KEY=1\n", "calc.py": WRONG, "test_calc.py": TESTS}
    )
    history.commit(MESSAGE, {**FIX, ".env": "KEY=2\n"})
    return history.root


def top(history: History) -> Path:
    return history.root


@pytest.mark.system
@pytest.mark.parametrize("place", [top, bare, worktree, folder, env_files])
def test_a_row_is_made_wherever_the_history_lies(
    place: Callable[[History], Path], calc: History, mine: Mine
) -> None:
    root = place(calc)
    printed = mine.start(root, *UNITTEST, "--limit", "1")
    assert_plain(printed)
    assert printed.returncode == 0, printed.stdout
    (row,) = mine.rows()
    (fixed,) = json.loads(row["FAIL_TO_PASS"])
    (kept,) = json.loads(row["PASS_TO_PASS"])
    assert fixed.startswith("test_sum ")
    assert kept.startswith("test_zero ")
    assert "KEY=" not in mine.out().read_text()
    assert "a/calc/" not in row["patch"]


def empty(root: Path) -> Path:
    return History(root / "empty").root


def nothing(root: Path) -> Path:
    (root / "nothing").mkdir()
    return root / "nothing"


def a_file(root: Path) -> Path:
    return write_files(root, {"file": ""}) / "file"


def shallow(root: Path) -> Path:
    history = History(root / "deep")
    history.commit("First", {"calc.py": WRONG, "test_calc.py": TESTS})
    history.commit(MESSAGE, FIX)
    clone = root / "shallow"
    address = f"file://{history.root}"
    history.git("clone", "--quiet", "--depth", "1", address, str(clone))
    return clone


def broken(root: Path) -> Path:
    history = History(root / "broken")
    history.commit("First", {"calc.py": WRONG, "test_calc.py": TESTS})
    history.commit(MESSAGE, FIX)
    blob = history.git("rev-parse", "HEAD~1:calc.py")
    (history.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    return history.root


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (empty, "no commit"),
        (nothing, "is not in a git repository"),
        (a_file, "is not in a git repository"),
        (shallow, "no commit since 2026-01 changes"),
        (broken, "try git fsck"),
    ],
)
def test_what_has_no_history_is_one_line(
    place: Callable[[Path], Path], words: str, tmp_path: Path, mine: Mine
) -> None:
    printed = mine.start(place(tmp_path))
    assert_plain(printed)
    assert printed.returncode == 2, printed.stdout
    last = printed.stdout.splitlines()[-1]
    assert last.startswith("error: ")
    assert words in last
    assert not mine.out().exists()


def test_no_program_of_the_configuration_is_started(
    tmp_path: Path, calc: History, mine: Mine
) -> None:
    trap = Trap(tmp_path / "outside")
    calc.commit("Traps", {".gitattributes": "* filter=trap diff=trap merge=trap\n"})
    trap.configure(calc.root / ".git")
    subprocess.run(["git", "diff"], cwd=calc.root, check=False, capture_output=True)
    (calc.root / "calc.py").touch()
    trap.forget()
    printed = mine.start(calc.root, *UNITTEST)
    assert trap.started == ""
    assert printed.returncode == 0, printed.stdout
    assert len(mine.rows()) == 1


def test_text_of_a_failing_setup_is_plain(calc: History, mine: Mine) -> None:
    setup = r"printf '\033[2J\007\nbad\n' >&2; false"
    printed = mine.start(calc.root, "--setup-cmd", setup, *UNITTEST[2:])
    assert_plain(printed)
    assert printed.returncode == 1
    assert " set-up: " in printed.stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "7",
        '{"issues": []}',
        "[7]",
        '[{"number": {}, "title": "t"}]',
        '[{"number": 1, "title": ["t"]}]',
        "[" * 100_000,
        '[{"number": ' + "9" * 5_000 + "}]",
        b"[\xff]",
    ],
)
def test_issues_that_cannot_be_read_are_one_line(
    text: str | bytes, tmp_path: Path, calc: History, mine: Mine
) -> None:
    calc.commit("Closes #1", {"calc.py": WRONG, "test_calc.py": "new = 1\n"})
    path = write_files(tmp_path, {"issues.json": text}) / "issues.json"
    printed = mine.start(calc.root, "--dry-run", "--issues", str(path))
    assert_plain(printed)
    assert printed.returncode == 2, printed.stdout
    line = printed.stdout.splitlines()[-1]
    assert line.startswith("error: ")
    assert "issues.json" in line
    assert len(line) < 600


@pytest.mark.parametrize(
    "closing",
    [
        "Fixes #12",
        "fix: #12",
        "CLOSES #12.",
        "Resolved https://github.com/own/calc/issues/12",
        "Closes https://gitlab.com/own/calc/-/issues/12",
        "Fixes issue #12",
        "Closes own/calc#12",
        "Closing #12",
        "Implements #12",
        "Fixes GH-12",
        "Fixes: #11, #12",
        "Resolves [#12](https://github.com/own/calc/issues/12)",
    ],
)
def test_the_issue_that_a_message_closes_is_the_statement(
    closing: str, tmp_path: Path, calc: History, mine: Mine
) -> None:
    calc.git("remote", "add", "origin", "https://github.com/own/calc")
    message = f"Add more\n\n{closing}"
    calc.commit(message, {"calc.py": WRONG, "test_calc.py": "new = 1\n"})
    issue = {"number": 12, "title": "Sums are wrong", "body": "2 + 3 is -1."}
    path = write_json(tmp_path / "issues.json", [issue])
    printed = mine.start(calc.root, "--dry-run", "--issues", str(path))
    assert "issue: Sums are wrong" in printed.stdout


def test_an_issue_of_another_project_is_no_statement(
    tmp_path: Path, calc: History, mine: Mine
) -> None:
    calc.git("remote", "add", "origin", "https://github.com/own/calc")
    message = MESSAGE + "Fixes other/thing#12"
    calc.commit(message, {"calc.py": WRONG, "test_calc.py": "new = 1\n"})
    issue = {"number": 12, "title": "Sums are wrong", "body": "2 + 3 is -1."}
    path = write_json(tmp_path / "issues.json", [issue])
    printed = mine.start(calc.root, "--dry-run", "--issues", str(path))
    assert "issue:" not in printed.stdout


def test_a_file_that_is_not_mines_stays(calc: History, mine: Mine) -> None:
    mine.out().write_text("mine\n")
    printed = mine.start(calc.root, *UNITTEST)
    assert printed.returncode == 2
    assert "exists" in printed.stdout
    assert mine.out().read_text() == "mine\n"


def test_a_damaged_record_is_named(calc: History, mine: Mine) -> None:
    assert mine.start(calc.root, *UNITTEST).returncode == 0
    (record,) = (mine.folder / "mine.mining").glob("*.json")
    rows = mine.out().read_bytes()
    for text in ("", "[]", '{"gold": 7}', record.read_text()[:-50]):
        record.write_text(text)
        printed = mine.start(calc.root, *UNITTEST)
        assert_plain(printed)
        assert printed.returncode == 2, printed.stdout
        assert record.name in printed.stdout
        assert mine.out().read_bytes() == rows


@pytest.mark.long
def test_two_mines_of_one_file_are_refused(calc: History, mine: Mine) -> None:
    add_fixes(calc, 1)
    first = mine.begin(calc.root, *UNITTEST)
    wait_until(lambda: (mine.folder / "mine.mining" / "lock").exists(), 30)
    second = mine.start(calc.root, *UNITTEST)
    assert_plain(second)
    assert second.returncode == 2
    assert "another process" in second.stdout
    first.communicate()
    assert first.wait() == 0
    assert len(mine.rows()) == 2


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_command_goes_on(
    number: signal.Signals, calc: History, mine: Mine
) -> None:
    add_fixes(calc, 1)
    stopped = mine.begin(calc.root, *UNITTEST)
    wait_until(lambda: mine.out().exists() and mine.out().stat().st_size, 60)
    stopped.send_signal(number)
    printed, _ = stopped.communicate(timeout=60)
    assert "Traceback" not in printed
    if number is signal.SIGINT:
        assert stopped.wait() == 130
    kept = mine.rows()
    assert len(kept) == 1
    records = contents_below(mine.folder / "mine.mining")
    assert mine.start(calc.root, *UNITTEST).returncode == 0
    again = contents_below(mine.folder / "mine.mining")
    assert records.items() <= again.items()
    assert mine.start(calc.root, *UNITTEST, out="whole").returncode == 0
    assert mine.out().read_bytes() == mine.out("whole").read_bytes()


@pytest.mark.long
def test_no_row_is_lost_by_a_command_that_is_stopped(calc: History, mine: Mine) -> None:
    assert mine.start(calc.root, *UNITTEST).returncode == 0
    rows = mine.out().read_bytes()
    printed = mine.start(calc.root, *UNITTEST, "--minutes", "0")
    assert_plain(printed)
    assert mine.out().read_bytes() == rows
    add_fixes(calc, 1)
    mine.start(calc.root, *UNITTEST, "--minutes", "0.001")
    assert mine.out().read_bytes().endswith(rows)


@pytest.mark.long
def test_a_set_up_that_failed_is_tried_again(calc: History, mine: Mine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"('127.0.0.1', {port})"
    script = f"import socket; socket.create_connection({address})"
    options = ("--setup-cmd", f'python -c "{script}"', *UNITTEST[2:])
    failed = mine.start(calc.root, *options)
    assert failed.returncode == 1, failed.stdout
    with socket.create_server(("127.0.0.1", port)):
        printed = mine.start(calc.root, *options)
    assert printed.returncode == 0, printed.stdout


def test_a_hundred_megabytes_of_issues(
    tmp_path: Path, calc: History, mine: Mine
) -> None:
    calc.commit("More\n\nFixes #7", {"calc.py": WRONG, "test_calc.py": "new = 1\n"})
    issue = {"number": 7, "title": "Big", "body": "\n \n- x" * 5_000_000}
    path = write_json(tmp_path / "issues.json", [issue])
    printed = mine.start(calc.root, "--dry-run", "--issues", str(path))
    assert_plain(printed)
    assert printed.returncode == 0, printed.stdout
    assert "issue: Big" in printed.stdout


@pytest.mark.long
def test_half_a_character_in_an_issue_is_no_fault(
    tmp_path: Path, calc: History, mine: Mine
) -> None:
    message = "Add\n\nFixes #7"
    calc.commit("Break it", {"calc.py": WRONG, "test_calc.py": TESTS})
    calc.commit(message, FIX)
    issue = {"number": 7, "title": "Sums \ud800", "body": "They are wrong."}
    path = write_json(tmp_path / "issues.json", [issue])
    printed = mine.start(calc.root, *UNITTEST, "--issues", str(path), "--limit", "1")
    assert_plain(printed)
    assert printed.returncode == 0, printed.stdout
    assert mine.rows()[0]["problem_statement"].startswith("Sums ")


def test_a_folder_whose_name_is_no_text(calc: History, mine: Mine) -> None:
    folder = mine.folder / os.fsdecode(b"caf\xe9")
    shutil.move(calc.root, folder / "calc")
    printed = replace(mine, folder=folder).start(folder / "calc", *UNITTEST)
    assert_plain(printed)
    assert printed.returncode in (0, 2), printed.stdout
