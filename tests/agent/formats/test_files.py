"""Edits written to files: what they preserve, and which files they refuse."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from swe_retry.agent.formats import get_format
from swe_retry.agent.formats.apply import safe_edits, write_report
from swe_retry.agent.formats.edits import MoveFile, Unreadable
from swe_retry.agent.formats.protocol import Matching, ReplyScope
from swe_retry.agent.formats.report import ApplyReport
from swe_retry.agent.workspace import Workspace
from swe_retry.llm.chat import Reply
from tests.support.formats import block


def write(
    root: Path,
    reply: str,
    form: str = "diff",
    matching: Matching = Matching.TOLERANT,
) -> ApplyReport:
    space = Workspace(root)
    paths = set()
    for file in root.rglob("*"):
        if file.is_file():
            paths.add(file.relative_to(root).as_posix())
    edit_format = get_format(form, matching)
    edits = edit_format.parse(Reply(reply), ReplyScope(paths))
    report = edit_format.apply(safe_edits(edits, space), space.read, ())
    return write_report(report, space)


@pytest.mark.parametrize("matching", Matching)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nx\r\n", b"a\r\ny\r\n"),
        (b"a\nx", b"a\ny"),
        (b"caf\xe9\nx\n", b"caf\xe9\ny\n"),
        (
            b"# -*- coding: iso-8859-15 -*-\n\xa4\nx\n",
            b"# -*- coding: iso-8859-15 -*-\n\xa4\ny\n",
        ),
        (b"\xef\xbb\xbfa\nx\n", b"\xef\xbb\xbfa\ny\n"),
        (b"a\x0c\nx\n", b"a\x0c\ny\n"),
    ],
    ids=[
        "CRLF",
        "no final newline",
        "latin-1",
        "cookie",
        "byte-order mark",
        "form feed",
    ],
)
def test_what_is_kept_of_a_file(
    tmp_path: Path, matching: Matching, before: bytes, after: bytes
) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(before)
    file.chmod(0o755)
    reply = block("a.py", "x\n", "y\n")
    assert not write(tmp_path, reply, matching=matching).failures
    assert file.read_bytes() == after
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


def test_a_character_that_the_declared_encoding_lacks_is_refused(
    tmp_path: Path,
) -> None:
    before = b"# -*- coding: iso-8859-1 -*-\nx = 1\n"
    (tmp_path / "a.py").write_bytes(before)
    report = write(tmp_path, block("a.py", "x = 1\n", "x = '\u20ac'\n"))
    assert "lacks" in report.failures[0].problem
    assert (tmp_path / "a.py").read_bytes() == before


def test_a_moved_file_keeps_its_encoding_line_ends_and_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"caf\xe9\r\nx\r\n")
    file.chmod(0o755)
    reply = (
        "*** Begin Patch\n*** Update File: a.py\n*** Move to: b/c.py\n@@\n-x\n+y\n"
        "*** End Patch\n"
    )
    report = write(tmp_path, reply, "patch")
    assert report.results[-1].landed_in == "b/c.py"
    assert not file.exists()
    moved = tmp_path / "b/c.py"
    assert moved.read_bytes() == b"caf\xe9\r\ny\r\n"
    assert stat.S_IMODE(moved.stat().st_mode) == 0o755


def test_a_deleted_file_is_gone_and_its_original_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n")
    space = Workspace(tmp_path)
    space.write({"a.py": None})
    assert not (tmp_path / "a.py").exists()
    assert space.read("a.py") is None
    assert space.original("a.py") == "x\n"


@pytest.mark.parametrize(
    "path", ["../x.py", "/etc/x.py", ".git/hooks/x", "link/x.py", "a/../../x"]
)
def test_nothing_is_written_outside(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    (root / ".git/hooks").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    report = write(root, block(f"Text.\n\n{path}", "", "x\n", info=""))
    assert [result.applied for result in report.results] == [False]
    assert [file.name for file in tmp_path.rglob("x*")] == []


def test_a_move_out_of_the_checkout_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.py").write_text("x\n")
    space = Workspace(root)
    edits = safe_edits([MoveFile("a.py", "../b.py")], space)
    (edit,) = edits
    assert isinstance(edit, Unreadable), "it must not even be tried"
    report = get_format("patch").apply(edits, space.read, ())
    report = write_report(report, space)
    assert [result.applied for result in report.results] == [False]
    assert (root / "a.py").exists()


def test_a_file_that_cannot_be_written_fails_its_edits_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    reply = block("a/b.py", "", "1\n") + block("a", "x\n", "y\n")
    report = write(tmp_path, reply)
    assert [result.applied for result in report.results] == [False, True]
    assert (tmp_path / "a").read_text() == "y\n"
