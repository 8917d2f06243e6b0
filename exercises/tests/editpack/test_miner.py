"""Mining a history that holds what goes wrong: exactly the expected rows, and nothing is run."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.commands import EDITPACK, Ended
from exercises.tests.support.editpack import (
    AUTHOR,
    HOSTILE,
    MadeHistory,
    file,
    files_of,
    hostile_history,
    lay_traps,
    read_rows,
    report_beside,
    simple,
)
from swe_retry.core.git import git
from swe_retry_exercises.editpack.rows import CONTENT, INSTRUCTION, NEW, OLD


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def mine_line(out: Path, *repositories: Path, options: str = "") -> str:
    paths = shlex.join(map(str, repositories))
    return f"mine {paths} {options} --out {out} --dropped {out.parent}/dropped.jsonl"


def mine(out: Path, *repositories: Path, options: str = "") -> list[dict[str, Any]]:
    """Mine repositories and return the rows."""
    EDITPACK.output(mine_line(out, *repositories, options=options))
    return read_rows(out)


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
    ("Change many files at once", "many/0.py"),
    ("Write without a newline", "a.py"),
    ("Rename the café", "a.py"),
    ("[core] Fix the sum", "a.py"),
    ("Set a date before all dates", "a.py"),
]
EXPECTED += [
    (f"Change the hostile name {number}", name) for number, name in enumerate(HOSTILE)
]
DROPPED = {
    "repeated": 1,
    "symlink": 2,
    "encoding": 2,
    "unchanged": 2,
    "submodule": 1,
    "generated": 1,
    "vendored": 1,
    "long": 1,
    "other": 101,
    "message-verb": 1,
    "message-encoding": 1,
    "message-length": 2,
}


def test_a_hostile_history_gives_exactly_these_rows(hostile: Path, out: Path) -> None:
    rows = mine(out, hostile, options="--set mine.refs=refs/heads/*")
    report = report_beside(out)
    assert sorted(edits(rows)) == sorted(EXPECTED)
    assert report["dropped"] == DROPPED
    assert report["repositories"][0]["dropped"] == DROPPED
    assert report["rows"] == len(rows) + sum(DROPPED.values())
    links = set()
    for row in read_rows(out.parent / "dropped.jsonl"):
        if row["rule"] == "symlink":
            links.add(row["new_file"])
    assert links == {"link.py", "typed.py"}
    assert report["commits"] == 35
    assert report["modify_python"] == 29


def test_the_columns_of_a_row(hostile: Path, out: Path) -> None:
    by_subject = {row["subject"]: row for row in mine(out, hostile)}
    crlf = by_subject["Change one line of two"]
    assert crlf[OLD] == "x = 0\r\ny = 0\r\n"
    assert crlf[NEW] == "x = 1\r\ny = 0\r\n"
    assert crlf[CONTENT] == (
        "## Code Before:\nx = 0\ny = 0\n\n## Instruction:\nChange one line of two\n"
        "## Code After:\nx = 1\ny = 0\n"
    )
    fixed = by_subject["[core] Fix the sum"]
    expected = {
        INSTRUCTION: "Fix the sum\n\nBy, see.",
        "message": "[core] Fix the sum\n\nBy, see.",
        "lang": "Python",
        "license": "MIT",
        "repos": "hostile",
        "old_file": "a.py",
        "new_file": "a.py",
    }
    assert {key: fixed[key] for key in expected} == expected
    assert git("rev-parse", f"{fixed['commit']}:a.py", cwd=hostile)
    assert crlf["author_date"] == "2020-09-23T12:26:40Z"
    assert by_subject["Set a date before all dates"]["author_date"] == ""
    text = out.read_text()
    assert AUTHOR not in text
    assert "example.org" not in text


def test_nothing_is_run_fetched_or_changed(hostile: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    trace = tmp_path / "trace"
    plain_out = tmp_path / "plain" / "rows.jsonl"
    out = tmp_path / "out" / "rows.jsonl"
    git("clone", "--quiet", "--mirror", hostile, copy, cwd=tmp_path)
    expected = mine(plain_out, copy)

    def hash_of(name: str) -> str:
        return git("rev-parse", name, cwd=copy).decode().strip()

    git("replace", hash_of("main:a.py"), hash_of("main:b.py"), cwd=copy)
    grafts = copy / "info" / "grafts"
    grafts.write_text(f"{hash_of('main')}\n")
    lay_traps(copy, trace)
    before = files_of(copy)
    assert mine(out, copy) == expected
    assert files_of(copy) == before
    assert not trace.exists()
    assert out.read_bytes() == plain_out.read_bytes()
    missing = "1" * 40
    line = mine_line(out, copy, options=f"--set mine.refs={missing}")
    assert EDITPACK.run(line).code == 2
    assert not trace.exists()
    # The traps work: what git shows by default runs one of them, what it lacks another.
    for line in ("git log -p -2", f"git cat-file -e {missing}"):
        ended = subprocess.run(
            line.split(),
            cwd=copy,
            capture_output=True,
            timeout=60,
        )
        assert trace.read_bytes(), ended.stderr
        trace.unlink()


def test_settings_choose_the_files(hostile: Path, out: Path) -> None:
    one_day = "--set mine.since=2020-09-26 --set mine.until=2020-09-26"
    for options, files in {
        "--set mine.one_file=first": ["a.py"],
        "--set mine.one_file=all": ["a.py", "b.py"],
        "--set mine.paths=b.py": ["b.py"],
        "--set mine.paths=b.py,nowhere/*": ["b.py"],
        "--set mine.paths=nowhere/*": [],
        "--set mine.vendored=b.py": ["a.py"],
        "--set mine.until=2020-09-25": [],
        one_day: ["b.py"],
    }.items():
        rows = mine(out, hostile, options=options)
        mined = []
        for subject, new_file in edits(rows):
            if subject == "Change two files at once":
                mined.append(new_file)
        assert mined == files, options
    assert len(rows) == 1


def test_a_lone_comma_lists_no_paths(hostile: Path, out: Path) -> None:
    options = "--set mine.generated=, --set mine.vendored=,"
    names = {row["new_file"] for row in mine(out, hostile, options=options)}
    assert {"g_pb2.py", "src/vendor/lib.py"} <= names
    report = report_beside(out)
    assert report["options"]["generated"] == []
    assert report["options"]["vendored"] == []


def test_several_repositories_take_a_pair_once_and_give_equal_bytes(
    tmp_path: Path,
) -> None:
    first = simple(tmp_path / "x" / "made.git")
    empty = simple(tmp_path / "y" / "made.git")
    git("update-ref", "-d", "refs/heads/main", cwd=empty)  # so that it is empty
    third = simple(tmp_path / "owner__name.git", "Return the second number")
    out = tmp_path / "1" / "rows.jsonl"
    again = tmp_path / "2" / "rows.jsonl"
    rows = mine(out, first, empty, third)
    assert edits(rows) == [("Return two instead of one", "a.py")]
    repositories = report_beside(out)["repositories"]
    reasons = []
    for record in repositories:
        reasons.append((record["name"], record.get("left_out", "")))
    assert reasons == [
        ("x/made", ""),
        ("y/made", "it has no commits"),
        ("owner/name", ""),
    ]
    assert repositories[2]["dropped"] == {"repeated": 1}
    mine(again, first, empty, third)
    assert again.read_bytes() == out.read_bytes()


def test_repositories_are_found_from_the_folder_where_it_starts(
    tmp_path: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simple(tmp_path / "some" / "two\nlines", bare=False)
    monkeypatch.chdir(tmp_path)
    assert len(mine(out, Path("some/two\nlines"))) == 1


def test_hashes_of_both_kinds_and_ordinary_folders_are_read(
    tmp_path: Path,
    out: Path,
) -> None:
    other = simple(tmp_path / "other", hash_name="sha256", bare=False)
    [row] = mine(out, other)
    assert len(row["commit"]) == 64


def test_clones_that_lack_objects_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    made = MadeHistory()
    for number in range(4):
        made.commit(f"Set the number {number} here", {"a.py": file("a", number)})
    origin = made.write(tmp_path / "origin")
    git("config", "uploadpack.allowFilter", "true", cwd=origin)

    def mine_clone(kind: str, url: str) -> tuple[Ended, Path]:
        copy = tmp_path / f"copy{kind}"
        out = tmp_path / kind / "rows.jsonl"
        git("clone", "--quiet", "--no-checkout", kind, url, copy, cwd=tmp_path)
        before = files_of(copy)
        line = mine_line(out, copy, options="--set mine.licenses=any")
        ended = EDITPACK.run(line)
        assert files_of(copy) == before
        return ended, out

    def check(kind: str, url: str, count: int, dropped: dict[str, int]) -> None:
        ended, out = mine_clone(kind, url)
        assert ended.code == 0, kind
        report = report_beside(out)
        assert report["kept"] == count, kind
        assert report["dropped"] == dropped, kind

    remote = f"file://{origin}"
    check("--depth=2", remote, count=1, dropped={})
    check("--filter=blob:none", remote, count=0, dropped={"missing": 3})
    check("--shared", str(origin), count=3, dropped={})
    ended, _ = mine_clone("--filter=tree:0", remote)
    assert ended.code == 2
    assert "try git fsck there" in ended.err


def test_what_cannot_be_mined_is_named_in_one_line(
    hostile: Path,
    tmp_path: Path,
    out: Path,
) -> None:
    ordinary = simple(tmp_path / "ordinary", bare=False)
    inside = ordinary / "folder"
    inside.mkdir()
    closed = MadeHistory()
    closed.commit(
        "Begin with a module",
        {"COPYING": b"All rights reserved.\n", "a.py": b"x\n"},
    )
    closed_path = closed.write(tmp_path / "closed")
    verbs = tmp_path / "verbs.txt"
    verbs.write_text("# none\n")
    for arguments, problem in {
        "": "no repository given",
        f"{tmp_path}/nowhere": "is not a git repository",
        f"{inside}": "is not a git repository",
        f"{hostile} {hostile}": "is given twice",
        f"{hostile} --set mine.refs=v9": "has no commit 'v9'",
        f"{hostile} --set mine.refs=--output=x": "has no commit",
        f"{hostile} --set mine.since=tomorrow": "mine.since 'tomorrow' is not a date",
        f"{hostile} --set mine.licenses=MITT": "mine.licenses MITT cannot be found",
        f"{hostile} --set mine.licenses=ISC": "no repository is left (hostile: MIT in LICENSE",
        f"{closed_path}": "NOASSERTION in COPYING",
        f"{hostile} --set mine.verbs={verbs}": "has no verbs",
        f"{hostile} --set mine.verbs={tmp_path}": "cannot be read",
    }.items():
        ended = EDITPACK.run(mine_line(out, options=arguments))
        assert ended.code == 2, arguments
        lines = ended.err.splitlines()
        errors = [line for line in lines if "error:" in line]
        assert len(errors) == 1, lines
        assert problem in lines[-1], lines
    assert not out.exists()


def test_a_repository_without_a_permissive_license_is_left_out_and_named(
    hostile: Path,
    tmp_path: Path,
    out: Path,
) -> None:
    closed = MadeHistory()
    closed.commit("Begin with a module", {"a.py": file("closed", 0)})
    closed.commit("Change the only module", {"a.py": file("closed", 1)})
    path = closed.write(tmp_path / "closed")
    ended = EDITPACK.run(mine_line(out, path, hostile))
    assert ended.code == 0
    assert "left out: closed: no license file" in ended.err
    assert {row["repos"] for row in read_rows(out)} == {"hostile"}
    rows = mine(out, path, options="--set mine.licenses=any")
    assert [row["license"] for row in rows] == ["NOASSERTION"]
