"""The command `filter`: files, report, equal bytes, and what an interrupt leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from platform import python_version

import pytest

from exercises.tests.commands import EDITPACK
from exercises.tests.support.editpack import (
    edit,
    generated_edits,
    plain_verdict,
    read_rows,
    report_beside,
    write_rows,
)
from swe_retry_exercises.editpack.filter import Cleanup, clean_text
from swe_retry_exercises.editpack.rows import EditRow
from tests.support import TOP, WITH_EXERCISES

SKIP_BAD = "--set rows.skip_bad=true"
OLD_SIDE = "# (c)\ndef f(x):\n    return x\n"
NEW_SIDE = "# (c)\r\ndef f(x, y):\n    return x * 100 + y\n"


def test_a_kept_row_has_clean_sides_and_what_is_trained_on(tmp_path: Path) -> None:
    row = edit(
        OLD_SIDE,
        NEW_SIDE,
        "Add y\r\n",
        subject="Add y",
        commit="1f",
        stars=[3],
    )
    rows = write_rows(tmp_path / "rows.jsonl", [row])
    out = tmp_path / "kept.jsonl"
    EDITPACK.output(f"filter {rows} --out {out}")
    [written] = read_rows(out)
    assert written == {
        **row,
        "old_contents": "def f(x):\n    return x\n",
        "new_contents": "def f(x, y):\n    return x * 100 + y\n",
        "instruction": "Add y\n",
        "content": "## Code Before:\ndef f(x):\n    return x\n\n## Instruction:\nAdd y\n\n"
        "## Code After:\ndef f(x, y):\n    return x * 100 + y\n",
    }
    assert list(written)[: len(row)] == list(row)


def test_dropped_rows_are_written_as_they_were(tmp_path: Path) -> None:
    good = edit(OLD_SIDE, NEW_SIDE)
    spoilt = {
        "blank": edit("", NEW_SIDE, id=1),
        "words": edit(OLD_SIDE, f"{NEW_SIDE}# TODO\n", id=2),
        "small": edit(OLD_SIDE, f"{OLD_SIDE}y", id=3),
        "syntax": edit(OLD_SIDE, f"{NEW_SIDE}print 'a'\n", id=4),
    }
    written = [good, *spoilt.values(), b"[]", good]
    rows = write_rows(tmp_path / "rows.jsonl.gz", written)
    out = tmp_path / "kept.jsonl.gz"
    dropped = tmp_path / "dropped.jsonl"
    options = f"--dropped {dropped} {SKIP_BAD}"
    printed = EDITPACK.output(f"filter {rows} --out {out} {options}")
    dropped_rows = read_rows(dropped)
    assert [row.pop("detail") for row in dropped_rows] == [
        "old",
        "TODO",
        "distance 1",
        "SyntaxError: Missing parentheses in call to 'print'. Did you mean print(...)? (line 3)",
        "it is not a JSON object",
    ]
    assert dropped_rows.pop() == {"row": 6, "rule": "unreadable"}
    assert dropped_rows == [row | {"rule": rule} for rule, row in spoilt.items()]
    assert len(read_rows(out)) == 2
    report = report_beside(out)
    assert report["rows"] == 7
    assert report["kept"] == 2
    assert report["dropped"] == dict.fromkeys([*spoilt, "unreadable"], 1)
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert lines[:3] == ["filter", "rows 7", "blank 1"]


def test_the_report_states_options_and_versions(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [edit(OLD_SIDE, NEW_SIDE)])
    out = tmp_path / "kept.jsonl"
    options = "--set filter.rules=paper --set filter.cleanup=exact"
    EDITPACK.output(f"filter {rows} --out {out} {options}")
    report = report_beside(out)
    expected = {"rules": "paper", "cleanup": "exact", "skip_bad": False}
    assert report["options"] == expected
    assert {"harness", "rapidfuzz"} <= set(report["versions"])
    assert report["versions"]["python"] == python_version()
    assert report["cleanups_differ"] == 0
    EDITPACK.output(f"filter {rows} --out {out}")
    options_by_default = report_beside(out)["options"]
    assert options_by_default["rules"] == "code"
    assert options_by_default["cleanup"] == "reference"


def test_rows_on_which_the_cleanups_differ_are_counted(tmp_path: Path) -> None:
    assigned = 'T = """\na\n"""\n'
    rows = [
        edit(OLD_SIDE, NEW_SIDE),
        edit(assigned, NEW_SIDE),
        edit(OLD_SIDE, assigned),
        edit(assigned, assigned),
    ]
    path = write_rows(tmp_path / "rows.jsonl", [*rows, b"?"])
    for cleanup in Cleanup:
        out = tmp_path / f"{cleanup.value}.jsonl"
        option = f"--set filter.cleanup={cleanup.value}"
        EDITPACK.output(f"filter {path} --out {out} {option} {SKIP_BAD}")
        assert report_beside(out)["cleanups_differ"] == 3


def test_the_rows_are_those_of_the_filter_as_written_down(tmp_path: Path) -> None:
    compare_with_plain_filter(tmp_path, list(generated_edits(1000)))


def compare_with_plain_filter(tmp_path: Path, rows: list[EditRow]) -> Counter[str]:
    """Filter by both programs, and compare all rows and counts."""
    path = write_rows(tmp_path / "rows.jsonl", rows)
    out = tmp_path / "kept.jsonl"
    dropped = tmp_path / "dropped.jsonl"
    EDITPACK.output(f"filter {path} --out {out} --dropped {dropped}")
    counts = Counter[str]()
    kept_rows = []
    dropped_commits = []
    differing = 0
    for row in rows:
        old, new, rule = plain_verdict(row)
        counts[rule] += 1
        if rule:
            dropped_commits.append(row["commit"])
        else:
            kept_rows.append(row | {"old_contents": old, "new_contents": new})
        differing += cleanups_differ(row)
    written = read_rows(out)
    for row in written:
        del row["instruction"]
        del row["content"]
    assert written == kept_rows
    assert [row["commit"] for row in read_rows(dropped)] == dropped_commits
    report = report_beside(out)
    assert {**report["dropped"], "": report["kept"]} == counts
    assert report["cleanups_differ"] == differing
    return counts


def cleanups_differ(row: EditRow) -> bool:
    for side in ("old_contents", "new_contents"):
        reference = clean_text(row[side], Cleanup.REFERENCE)
        exact = clean_text(row[side], Cleanup.EXACT)
        if reference != exact:
            return True
    return False


@pytest.mark.long
def test_five_thousand_generated_and_mined_rows_have_the_published_verdicts(
    tmp_path: Path,
) -> None:
    """Mined from this repository, and from the bare ones that SWE_MIRRORS names."""
    mirrors = Path(os.environ.get("SWE_MIRRORS") or tmp_path)
    mined_rows = mine_edits(TOP)
    for head in sorted(mirrors.glob("*/HEAD")):
        mined_rows += mine_edits(head.parent)
    count = max(2500, 5000 - len(mined_rows))
    rows = [*generated_edits(count), *mined_rows[:2500]]
    assert len(rows) >= 5000
    counts = compare_with_plain_filter(tmp_path, rows)
    assert set(counts) == {"", "blank", "words", "small", "syntax"}


def mine_edits(repository: Path) -> list[EditRow]:
    """Return the newest edits of Python files in a repository, files that are UTF-8."""

    def git(options: str, stdin: str = "") -> bytes:
        command = ["git", "-C", str(repository), *options.split()]
        ended = subprocess.run(command, input=stdin.encode(), capture_output=True)
        return ended.stdout

    log = git("log --no-merges --raw --no-abbrev --no-renames --format= -- *.py")
    names = []
    for line in log.decode("utf-8", "replace").splitlines():
        columns = line.split()
        if columns[4:5] == ["M"]:
            names += columns[2:4]
    stdin = "".join(f"{name}\n" for name in names[:5000])
    texts = blobs(git("cat-file --batch", stdin))
    edits = []
    for number, (old, new) in enumerate(zip(texts, texts, strict=True)):
        if is_text(old + new):
            edits.append(edit(old.decode(), new.decode(), commit=str(number)))
    return edits


def blobs(data: bytes) -> Iterator[bytes]:
    """Yield what `git cat-file --batch` wrote: a head that ends with the size, and the bytes."""
    stream = BytesIO(data)
    while head := stream.readline():
        *_, size = head.split()
        yield stream.read(int(size))
        stream.read(1)


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# The command with another script in place of the worker.
WITH_WORKER = """\
import sys
from pathlib import Path
from swe_retry_exercises.editpack import filter
from swe_retry_exercises.editpack.__main__ import PROGRAM
filter._SCRIPT = Path(sys.argv.pop(1))
sys.exit(PROGRAM.main())
"""
HANGS = """\
import os, sys, time
from pathlib import Path
place = Path(__file__).parent
print("ready", flush=True)
sys.stdin.buffer.readline()
(place / f"{os.getpid()}.pid").touch()
time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_and_no_file(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "bin"
    out = tmp_path / "out"
    folder.mkdir()
    script = folder / "worker.py"
    script.write_text(HANGS)
    rows = write_rows(tmp_path / "rows.jsonl", [edit(OLD_SIDE, NEW_SIDE)] * 100)
    line = f"filter {rows} --out {out}/kept.jsonl --dropped {out}/dropped.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_WORKER, str(script), *line.split()],
        cwd=TOP,
        env={**os.environ, **WITH_EXERCISES},
        stderr=subprocess.PIPE,
        text=True,
    )
    pids: list[Path] = []
    while not pids:
        assert process.poll() is None
        time.sleep(0.05)
        pids = list(folder.glob("*.pid"))
    process.send_signal(number)
    _, messages = process.communicate()
    assert process.returncode == 130
    assert messages == "interrupted\n"
    for path in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.stem), 0)
    assert list(out.iterdir()) == []


def test_no_output_after_an_error(tmp_path: Path) -> None:
    good = [edit(OLD_SIDE, NEW_SIDE)] * 50
    rows = write_rows(tmp_path / "rows.jsonl", [*good, {"old_contents": 1}])
    out = tmp_path / "out"
    line = f"filter {rows} --out {out}/kept.jsonl --dropped {out}/d.jsonl"
    assert EDITPACK.refusal(line) == (
        f"error: {rows}, row 51: old_contents is not text; correct it, or set rows.skip_bad=true"
    )
    assert list(out.iterdir()) == []


def test_filtering_what_was_filtered_changes_nothing(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", generated_edits(200))
    once = tmp_path / "once.jsonl"
    twice = tmp_path / "twice.jsonl"
    EDITPACK.output(f"filter {rows} --out {once} --set filter.cleanup=exact")
    EDITPACK.output(f"filter {once} --out {twice} --set filter.cleanup=none")
    assert once.read_bytes() == twice.read_bytes()
    first_report = report_beside(once)
    report = report_beside(twice)
    assert first_report["dropped"]
    assert not report["dropped"]
    # The report of the first command is part of the second's.
    [record] = report["inputs"]
    assert record["report"] == first_report
