"""The command `filter`: files, report, equal bytes, and what an interrupt leaves."""

from __future__ import annotations

import json
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

from exercises.editpack.filter import Cleanup, clean_text
from exercises.editpack.rows import EditRow
from tests.support import TOP
from tests.support.editpack import (
    SKIP_BAD,
    edit,
    editpack,
    generated_edits,
    plain_verdict,
    read_rows,
    report_beside,
    write_rows,
)

Capture = pytest.CaptureFixture[str]
OLD_SIDE = "# (c)\ndef f(x):\n    return x\n"
NEW_SIDE = "# (c)\r\ndef f(x, y):\n    return x * 100 + y\n"


def _cleanup(cleanup: Cleanup) -> tuple[str, str]:
    return "--set", f"filter.cleanup={cleanup.value}"


def test_a_kept_row_has_clean_sides_and_what_is_trained_on(tmp_path: Path) -> None:
    row = edit(OLD_SIDE, NEW_SIDE, "Add y\r\n", subject="Add y", commit="1f", stars=[3])
    rows = write_rows(tmp_path / "rows.jsonl", [row])
    assert editpack("filter", rows, "--out", tmp_path / "kept.jsonl") == 0
    [kept] = read_rows(tmp_path / "kept.jsonl")
    assert kept == {
        **row,
        "old_contents": "def f(x):\n    return x\n",
        "new_contents": "def f(x, y):\n    return x * 100 + y\n",
        "instruction": "Add y\n",
        "content": "## Code Before:\ndef f(x):\n    return x\n\n## Instruction:\nAdd y\n\n"
        "## Code After:\ndef f(x, y):\n    return x * 100 + y\n",
    }
    assert [*kept][: len(row)] == [*row]


def test_dropped_rows_are_written_as_they_were(tmp_path: Path, capsys: Capture) -> None:
    good = edit(OLD_SIDE, NEW_SIDE)
    spoilt = {
        "blank": edit("", NEW_SIDE, id=1),
        "words": edit(OLD_SIDE, NEW_SIDE + "# TODO\n", id=2),
        "small": edit(OLD_SIDE, OLD_SIDE + "y", id=3),
        "syntax": edit(OLD_SIDE, NEW_SIDE + "print 'a'\n", id=4),
    }
    rows = write_rows(tmp_path / "rows.jsonl.gz", [good, *spoilt.values(), b"[]", good])
    out = tmp_path / "kept.jsonl.gz"
    dropped = tmp_path / "dropped.jsonl"
    assert editpack("filter", rows, "--out", out, "--dropped", dropped, *SKIP_BAD) == 0
    found = read_rows(dropped)
    assert [row.pop("detail") for row in found] == [
        "old",
        "TODO",
        "distance 1",
        "SyntaxError: Missing parentheses in call to 'print'. Did you mean print(...)? (line 3)",
        "it is not a JSON object",
    ]
    bad = {"row": 6, "rule": "unreadable"}
    assert found == [*({**row, "rule": rule} for rule, row in spoilt.items()), bad]
    assert len(read_rows(out)) == 2
    report = report_beside(out)
    assert (report["rows"], report["kept"]) == (7, 2)
    assert report["dropped"] == dict.fromkeys([*spoilt, "unreadable"], 1)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split() for line in printed[:3]] == [
        ["filter"],
        ["rows", "7"],
        ["blank", "1"],
    ]


def test_the_report_states_options_and_versions(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [edit(OLD_SIDE, NEW_SIDE)])
    out = tmp_path / "kept.jsonl"
    words = ("--set", "filter.rules=paper", "--set", "filter.cleanup=exact")
    assert editpack("filter", rows, "--out", out, *words) == 0
    report = report_beside(out)
    assert report["options"] == {
        "rules": "paper",
        "cleanup": "exact",
        "skip_bad": False,
    }
    assert {"harness", "rapidfuzz"} <= {*report["versions"]}
    assert report["versions"]["python"] == python_version()
    assert report["cleanups_differ"] == 0
    assert editpack("filter", rows, "--out", out) == 0
    assert report_beside(out)["options"]["rules"] == "code"
    assert report_beside(out)["options"]["cleanup"] == "reference"


def test_rows_on_which_the_cleanups_differ_are_counted(tmp_path: Path) -> None:
    assigned = 'T = """\na\n"""\n'
    sides = [
        (OLD_SIDE, NEW_SIDE),
        (assigned, NEW_SIDE),
        (OLD_SIDE, assigned),
        (assigned, assigned),
    ]
    rows = write_rows(tmp_path / "rows.jsonl", [edit(*pair) for pair in sides] + [b"?"])
    for cleanup in Cleanup:
        out = tmp_path / f"{cleanup.value}.jsonl"
        assert (
            editpack("filter", rows, "--out", out, *_cleanup(cleanup), *SKIP_BAD) == 0
        )
        assert report_beside(out)["cleanups_differ"] == 3


def test_the_rows_are_those_of_the_filter_as_written_down(tmp_path: Path) -> None:
    same_as_written_down(tmp_path, [*generated_edits(1000)])


def same_as_written_down(tmp_path: Path, rows: list[EditRow]) -> Counter[str]:
    """Filter by both programs, and compare all rows and counts."""
    path = write_rows(tmp_path / "rows.jsonl", rows)
    kept_path = tmp_path / "kept.jsonl"
    dropped_path = tmp_path / "dropped.jsonl"
    assert editpack("filter", path, "--out", kept_path, "--dropped", dropped_path) == 0
    verdicts = [plain_verdict(row) for row in rows]
    expected = [
        {**row, "old_contents": old, "new_contents": new}
        for row, (old, new, rule) in zip(rows, verdicts, strict=True)
        if not rule
    ]
    added = ("instruction", "content")
    kept = read_rows(kept_path)
    assert [
        {k: v for k, v in row.items() if k not in added} for row in kept
    ] == expected
    counts = Counter(rule for _, _, rule in verdicts)
    report = report_beside(kept_path)
    assert {**report["dropped"], "": report["kept"]} == counts
    dropped = [row["commit"] for row in read_rows(dropped_path)]
    assert dropped == [
        row["commit"] for row, (_, _, rule) in zip(rows, verdicts, strict=True) if rule
    ]
    both = (Cleanup.REFERENCE, Cleanup.EXACT)
    assert report["cleanups_differ"] == sum(
        any(
            len({clean_text(row[side], c) for c in both}) > 1
            for side in ("old_contents", "new_contents")
        )
        for row in rows
    )
    return counts


@pytest.mark.long
def test_five_thousand_generated_and_mined_rows_have_the_published_verdicts(
    tmp_path: Path,
) -> None:
    """Mined from this repository, and from the bare ones that SWE_MIRRORS names."""
    mirrors = [
        TOP,
        *sorted(Path(os.environ.get("SWE_MIRRORS") or tmp_path).glob("*/HEAD")),
    ]
    found = [
        row
        for place in mirrors
        for row in mined(place.parent if place.is_file() else place)
    ]
    rows = [*generated_edits(max(2500, 5000 - len(found))), *found[:2500]]
    assert len(rows) >= 5000
    counts = same_as_written_down(tmp_path, rows)
    assert {*counts} == {"", "blank", "words", "small", "syntax"}


def mined(repository: Path) -> list[EditRow]:
    """Return the newest edits of Python files in a repository, files that are UTF-8."""

    def git(*words: str, given: str = "") -> bytes:
        command = ["git", "-C", str(repository), *words]
        return subprocess.run(command, input=given.encode(), capture_output=True).stdout

    raw = ("--no-merges", "--raw", "--no-abbrev", "--no-renames", "--format=")
    lines = [
        line.split()
        for line in git("log", *raw, "--", "*.py")
        .decode("utf-8", "replace")
        .splitlines()
    ]
    pairs = [(line[2], line[3]) for line in lines if line[4:5] == ["M"]][:2500]
    names = "".join(f"{name}\n" for pair in pairs for name in pair)
    texts = blobs(git("cat-file", "--batch", given=names))
    return [
        edit(old.decode(), new.decode(), commit=str(number))
        for number, (old, new) in enumerate(zip(texts, texts, strict=True))
        if is_text(old + new)
    ]


def blobs(data: bytes) -> Iterator[bytes]:
    """Yield what `git cat-file --batch` wrote: a head that ends with the size, and the bytes."""
    stream = BytesIO(data)
    while head := stream.readline():
        yield stream.read(int(head.split()[-1]))
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
from exercises.editpack import filter
from exercises.editpack.__main__ import PROGRAM
filter._SCRIPT = Path(sys.argv.pop(1))
sys.exit(PROGRAM.dispatch())
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
    place = tmp_path / "bin"
    out = tmp_path / "out"
    place.mkdir()
    script = place / "worker.py"
    script.write_text(HANGS)
    rows = write_rows(tmp_path / "rows.jsonl", [edit(OLD_SIDE, NEW_SIDE)] * 100)
    command = [sys.executable, "-c", WITH_WORKER, str(script), "filter", str(rows)]
    command += [
        "--out",
        str(out / "kept.jsonl"),
        "--dropped",
        str(out / "dropped.jsonl"),
    ]
    process = subprocess.Popen(command, cwd=TOP, stderr=subprocess.PIPE, text=True)
    while not (pids := [*place.glob("*.pid")]):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate()
    assert (process.returncode, said) == (130, "")
    for path in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.stem), 0)
    assert [*out.iterdir()] == []


def test_no_output_after_an_error(tmp_path: Path, capsys: Capture) -> None:
    rows = write_rows(
        tmp_path / "rows.jsonl", [edit(OLD_SIDE, NEW_SIDE)] * 50 + [{"old_contents": 1}]
    )
    words = (
        "--out",
        tmp_path / "out" / "kept.jsonl",
        "--dropped",
        tmp_path / "out" / "d.jsonl",
    )
    assert editpack("filter", rows, *words) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        f"error: {rows}, row 51: old_contents is not text; correct it, or set rows.skip_bad=true"
    )
    assert [*(tmp_path / "out").iterdir()] == []


def test_filtering_what_was_filtered_changes_nothing(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", generated_edits(200))
    once = tmp_path / "once.jsonl"
    twice = tmp_path / "twice.jsonl"
    assert editpack("filter", rows, "--out", once, *_cleanup(Cleanup.EXACT)) == 0
    assert editpack("filter", once, "--out", twice, *_cleanup(Cleanup.NONE)) == 0
    assert once.read_bytes() == twice.read_bytes()
    assert report_beside(once)["dropped"]
    report = report_beside(twice)
    assert not report["dropped"]
    # The report of the first command is part of the second's.
    [record] = report["inputs"]
    assert record["report"] == json.loads(json.dumps(report_beside(once)))
