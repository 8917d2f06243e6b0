"""Mining a history that holds what goes wrong: exactly the expected rows, and nothing is run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.git import git
from exercises.editpack.__main__ import PROGRAM
from exercises.editpack.files import report_of
from exercises.editpack.rows import CONTENT, INSTRUCTION, NEW, OLD
from tests.support.editpack import (
    AUTHOR,
    HOSTILE,
    MadeHistory,
    file,
    files_of,
    hostile_history,
    lay_traps,
    simple,
)

Capture = pytest.CaptureFixture[str]


def mine(
    monkeypatch: pytest.MonkeyPatch,
    out: Path,
    *words: object,
) -> int:
    argv = ["editpack", "mine", *map(str, words), "--out", str(out)]
    monkeypatch.setattr(
        sys, "argv", [*argv, "--dropped", f"{out.parent}/dropped.jsonl"]
    )
    return PROGRAM.dispatch()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def edits(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(row["subject"], row["new_file"]) for row in rows]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_history().write(tmp_path_factory.mktemp("hostile") / "hostile")


EXPECTED = [
    ("Handle the empty list", "b.py"),
    ("Set one in the first file", "a.py"),
    ("Change one line of two", "crlf.py"),
    ("Change two files at once", "b.py"),
    ("Change two files alike", "a.py"),
    ("Change the file that fits", "fits.py"),
    *(
        (f"Change the hostile name {number}", name)
        for number, name in enumerate(HOSTILE)
    ),
    ("Change many files at once", "many/0.py"),
    ("Write without a newline", "a.py"),
    ("Rename the café", "a.py"),
    ("[core] Fix the sum", "a.py"),
    ("Set a date before all dates", "a.py"),
]
DROPPED = {
    "repeated": 1, "symlink": 2, "encoding": 2, "unchanged": 2, "submodule": 1, "generated": 1,
    "vendored": 1, "long": 1, "other": 101, "message-verb": 1, "message-encoding": 1,
    "message-length": 2,
}  # fmt: skip


def test_a_hostile_history_gives_exactly_these_rows(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rows.jsonl"
    assert mine(monkeypatch, out, hostile, "--set", "mine.refs=refs/heads/*") == 0
    rows = lines_of(out)
    report = json.loads(report_of(out).read_text())
    assert sorted(edits(rows)) == sorted(EXPECTED)
    assert report["dropped"] == DROPPED == report["repositories"][0]["dropped"]
    assert report["rows"] == len(rows) + sum(DROPPED.values())
    dropped = lines_of(tmp_path / "dropped.jsonl")
    assert {row["new_file"] for row in dropped if row["rule"] == "symlink"} == {
        "link.py",
        "typed.py",
    }
    assert (report["commits"], report["modify_python"]) == (35, 29)


def test_the_columns_of_a_row(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rows.jsonl"
    assert mine(monkeypatch, out, hostile) == 0
    by_file = {row["subject"]: row for row in lines_of(out)}
    crlf = by_file["Change one line of two"]
    fixed = by_file["[core] Fix the sum"]
    assert (crlf[OLD], crlf[NEW]) == ("x = 0\r\ny = 0\r\n", "x = 1\r\ny = 0\r\n")
    assert crlf[CONTENT] == (
        "## Code Before:\nx = 0\ny = 0\n\n## Instruction:\nChange one line of two\n"
        "## Code After:\nx = 1\ny = 0\n"
    )
    assert fixed[INSTRUCTION] == "Fix the sum\n\nBy, see."
    assert fixed["message"] == "[core] Fix the sum\n\nBy, see."
    assert {
        k: fixed[k] for k in ("lang", "license", "repos", "old_file", "new_file")
    } == {
        "lang": "Python",
        "license": "MIT",
        "repos": "hostile",
        "old_file": "a.py",
        "new_file": "a.py",
    }
    assert git("rev-parse", f"{fixed['commit']}:a.py", cwd=hostile)
    assert crlf["author_date"] == "2020-09-23T12:26:40Z"
    assert by_file["Set a date before all dates"]["author_date"] == ""
    assert AUTHOR not in out.read_text() and "example.org" not in out.read_text()


def test_nothing_is_run_fetched_or_changed(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    trace = tmp_path / "trace"
    out = tmp_path / "out" / "rows.jsonl"
    git("clone", "--quiet", "--mirror", hostile, copy, cwd=tmp_path)
    assert mine(monkeypatch, tmp_path / "plain" / "rows.jsonl", copy) == 0
    old, new = (
        git("rev-parse", f"main:{n}", cwd=copy).decode().strip()
        for n in ("a.py", "b.py")
    )
    git("replace", old, new, cwd=copy)
    tip = git("rev-parse", "main", cwd=copy).decode().strip()
    (copy / "info" / "grafts").write_text(f"{tip}\n")
    lay_traps(copy, trace)
    before = files_of(copy)
    assert mine(monkeypatch, out, copy) == 0
    assert files_of(copy) == before
    assert not trace.exists()
    assert out.read_bytes() == (tmp_path / "plain" / "rows.jsonl").read_bytes()
    assert mine(monkeypatch, out, copy, "--set", f"mine.refs={'1' * 40}") == 2
    assert not trace.exists()
    # The traps work: what git shows by default runs one of them, what it lacks another.
    for words in (("log", "-p", "-2"), ("cat-file", "-e", "1" * 40)):
        shown = subprocess.run(
            ["git", *words], cwd=copy, capture_output=True, timeout=60
        )
        assert trace.read_bytes(), shown.stderr
        trace.unlink()


@pytest.mark.parametrize(
    ("texts", "files"),
    [
        ("mine.one_file=first", ["a.py"]),
        ("mine.one_file=all", ["a.py", "b.py"]),
        ("mine.paths=b.py", ["b.py"]),
        ("mine.paths=b.py,nowhere/*", ["b.py"]),
        ("mine.paths=nowhere/*", []),
        ("mine.vendored=b.py", ["a.py"]),
        ("mine.since=2020-09-26 mine.until=2020-09-26", ["b.py"]),
        ("mine.until=2020-09-25", []),
    ],
)
def test_settings_choose_the_files(
    texts: str,
    files: list[str],
    hostile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "rows.jsonl"
    words = [word for text in texts.split() for word in ("--set", text)]
    assert mine(monkeypatch, out, hostile, *words) == 0
    rows = lines_of(out)
    subject = "Change two files at once"
    assert [file for found, file in edits(rows) if found == subject] == files
    if "mine.since" in texts:
        assert len(rows) == 1


def test_a_lone_comma_lists_no_paths(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rows.jsonl"
    none = ("--set", "mine.generated=,", "--set", "mine.vendored=,")
    assert mine(monkeypatch, out, hostile, *none) == 0
    assert {"g_pb2.py", "src/vendor/lib.py"} <= {
        file for _, file in edits(lines_of(out))
    }
    options = json.loads(report_of(out).read_text())["options"]
    assert (options["generated"], options["vendored"]) == ([], [])


def test_several_repositories_take_a_pair_once_and_give_equal_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = simple(tmp_path / "x" / "made.git")
    two = simple(tmp_path / "y" / "made.git")
    git("update-ref", "-d", "refs/heads/main", cwd=two)  # so that it is empty
    three = simple(tmp_path / "owner__name.git", "Return the second number")
    out = tmp_path / "1" / "rows.jsonl"
    again = tmp_path / "2" / "rows.jsonl"
    assert mine(monkeypatch, out, one, two, three) == 0
    report = json.loads(report_of(out).read_text())
    assert edits(lines_of(out)) == [("Return two instead of one", "a.py")]
    names = []
    for found in report["repositories"]:
        names.append((found["name"], found.get("left_out", "")))
    assert names == [
        ("x/made", ""),
        ("y/made", "it has no commits"),
        ("owner/name", ""),
    ]
    assert report["repositories"][2]["dropped"] == {"repeated": 1}
    assert mine(monkeypatch, again, one, two, three) == 0
    assert again.read_bytes() == out.read_bytes()


def test_repositories_are_found_from_the_folder_where_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple(tmp_path / "some" / "two\nlines", bare=False)
    monkeypatch.chdir(tmp_path)
    assert mine(monkeypatch, tmp_path / "rows.jsonl", "some/two\nlines") == 0
    assert len(lines_of(tmp_path / "rows.jsonl")) == 1


def test_hashes_of_both_kinds_and_ordinary_folders_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = simple(tmp_path / "other", hash_name="sha256", bare=False)
    out = tmp_path / "rows.jsonl"
    assert mine(monkeypatch, out, other) == 0
    assert [len(row["commit"]) for row in lines_of(out)] == [64]


def test_clones_that_lack_objects_are_read_as_far_as_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    made = MadeHistory()
    for number in range(4):
        made.commit(f"Set the number {number} here", {"a.py": file("a", number)})
    whole = made.write(tmp_path / "whole")
    git("config", "uploadpack.allowFilter", "true", cwd=whole)
    found = {}
    for kind in ("--depth=2", "--filter=blob:none", "--shared", "--filter=tree:0"):
        copy = tmp_path / f"copy{kind}"
        out = tmp_path / kind / "rows.jsonl"
        place = whole
        if kind != "--shared":
            place = f"file://{whole}"
        git("clone", "--quiet", "--no-checkout", kind, place, copy, cwd=tmp_path)
        before = files_of(copy)
        found[kind] = mine(monkeypatch, out, copy, "--set", "mine.licenses=any")
        assert files_of(copy) == before
        if not found[kind]:
            report = json.loads(report_of(out).read_text())
            found[kind] = (report["kept"], report["dropped"])
    assert found.pop("--filter=tree:0") == 2
    assert "try git fsck there" in capsys.readouterr().err
    assert found == {
        "--depth=2": (1, {}),
        "--filter=blob:none": (0, {"missing": 3}),
        "--shared": (3, {}),
    }


def test_what_cannot_be_mined_is_named_in_one_line(
    hostile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    inside = simple(tmp_path / "ordinary", bare=False) / "folder"
    inside.mkdir()
    closed = MadeHistory()
    closed.commit(
        "Begin with a module", {"COPYING": b"All rights reserved.\n", "a.py": b"x\n"}
    )
    closed_path = closed.write(tmp_path / "closed")
    (tmp_path / "verbs.txt").write_text("# none\n")
    for words, wrong in {
        (): "no repository given",
        (tmp_path / "nowhere",): "is not a git repository",
        (inside,): "is not a git repository",
        (hostile, hostile): "is given twice",
        (hostile, "--set", "mine.refs=v9"): "has no commit 'v9'",
        (hostile, "--set", "mine.refs=--output=x"): "has no commit",
        (
            hostile,
            "--set",
            "mine.since=tomorrow",
        ): "mine.since 'tomorrow' is not a date",
        (hostile, "--set", "mine.licenses=MITT"): "mine.licenses MITT cannot be found",
        (
            hostile,
            "--set",
            "mine.licenses=ISC",
        ): "no repository is left (hostile: MIT in LICENSE",
        (closed_path,): "NOASSERTION in COPYING",
        (hostile, "--set", f"mine.verbs={tmp_path / 'verbs.txt'}"): "has no verbs",
        (hostile, "--set", f"mine.verbs={tmp_path}"): "cannot be read",
    }.items():
        assert mine(monkeypatch, tmp_path / "rows.jsonl", *words) == 2, words
        error = capsys.readouterr().err.splitlines()
        assert len([text for text in error if "error:" in text]) == 1, error
        assert wrong in error[-1], error
    assert not (tmp_path / "rows.jsonl").exists()


def test_a_repository_without_a_permissive_license_is_left_out_and_named(
    hostile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    closed = MadeHistory()
    closed.commit("Begin with a module", {"a.py": file("closed", 0)})
    closed.commit("Change the only module", {"a.py": file("closed", 1)})
    path = closed.write(tmp_path / "closed")
    out = tmp_path / "rows.jsonl"
    assert mine(monkeypatch, out, path, hostile) == 0
    assert "left out: closed: no license file" in capsys.readouterr().err
    assert {row["repos"] for row in lines_of(out)} == {"hostile"}
    assert mine(monkeypatch, out, path, "--set", "mine.licenses=any") == 0
    assert [row["license"] for row in lines_of(out)] == ["NOASSERTION"]
