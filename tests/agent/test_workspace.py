"""File names from a model are untrusted: only files of the checkout are read or written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.agent.workspace import TextFile, UnsafePathError, Workspace


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        ".git/config",
        "a/.GIT/hooks/pre-commit",
        "~/x",
        "a\nb",
        "a\0b",
        "",
        "a//b",
        "./a",
        "C:/x",
        "a\\b",
        "x" * 300,
        "/".join(["deep"] * 400),
        "link/x",
        "file-link",
        "folder",
    ],
)
def test_unsafe_paths_are_neither_read_nor_written(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    outside = tmp_path / "outside"
    for folder in (root / "folder", root / ".git", outside):
        folder.mkdir(parents=True)
    (outside / "x").write_text("secret")
    (root / "link").symlink_to(outside)
    (root / "file-link").symlink_to(outside / "x")
    space = Workspace(root)
    assert space.read(path) is None
    with pytest.raises(UnsafePathError):
        space.write({"good.py": "1\n", path: "written"})
    assert (outside / "x").read_text() == "secret"
    assert not (root / "good.py").exists(), "all or nothing"


def test_encoding_line_ends_and_mode_are_kept(tmp_path: Path) -> None:
    (tmp_path / "crlf.py").write_bytes(b"a\r\nb\r\n")
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n")
    (tmp_path / "plain.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbfx\n")
    (tmp_path / "tool").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    space = Workspace(tmp_path)
    for name in ("crlf.py", "latin.py", "plain.txt", "bom.py", "tool"):
        text = space.read(name) or ""
        space.write({name: text + "new\n"})
    assert (tmp_path / "crlf.py").read_bytes() == b"a\r\nb\r\nnew\r\n"
    assert (tmp_path / "latin.py").read_bytes().endswith(b"x = '\xe9'\nnew\n")
    assert (tmp_path / "plain.txt").read_bytes() == b"caf\xe9\nnew\n"
    assert (tmp_path / "bom.py").read_bytes() == b"\xef\xbb\xbfx\nnew\n"
    assert (tmp_path / "tool").stat().st_mode & 0o777 == 0o755


MIXED = b"a\r\nb\nc\r\nd\n"
LINE_ENDS = {
    "a replaced line": (MIXED, "a\nB\nc\nd\n", b"a\r\nB\nc\r\nd\n"),
    "the other kind": (MIXED, "A\nb\nC\nd\n", b"A\r\nb\nC\r\nd\n"),
    "two for one": (MIXED, "a\nb\nx\ny\nd\n", b"a\r\nb\nx\r\ny\r\nd\n"),
    "one for two": (MIXED, "a\nx\nd\n", b"a\r\nx\nd\n"),
    "an added line": (MIXED, "a\nx\nb\nc\nd\n", b"a\r\nx\r\nb\nc\r\nd\n"),
    "a first line": (MIXED, "x\na\nb\nc\nd\n", b"x\r\na\r\nb\nc\r\nd\n"),
    "a last line": (MIXED, "a\nb\nc\nd\nx\n", b"a\r\nb\nc\r\nd\nx\n"),
    "a removed line": (MIXED, "b\nc\nd\n", b"b\nc\r\nd\n"),
    "CRLF in the new text": (MIXED, "a\r\nB\r\nc\nd\n", b"a\r\nB\nc\r\nd\n"),
    "no final newline": (b"a\r\nb\nc", "a\nb\nc\nd", b"a\r\nb\nc\nd"),
    "none before": (b"a\nb\r\nc", "a\nb\nc\nd\n", b"a\nb\r\nc\r\nd\r\n"),
    "emptied": (MIXED, "", b""),
    "lone CR": (b"a\rb\r", "a\nx\ny\n", b"a\rx\ry\r"),
    "lone CR among others": (b"a\rb\nc\r\n", "a\nx\nc\n", b"a\rx\nc\r\n"),
    "form feeds": (b"a\x0cb\r\nc\x0b\n", "a\x0cb\nx\n", b"a\x0cb\r\nx\n"),
    "no line end": (b"a", "x\ny", b"x\ny"),
}


@pytest.mark.parametrize("name", LINE_ENDS)
def test_a_line_keeps_the_end_of_the_line_that_it_replaces(
    tmp_path: Path, name: str
) -> None:
    before, text, after = LINE_ENDS[name]
    (tmp_path / "a.txt").write_bytes(before)
    space = Workspace(tmp_path)
    assert "\r" not in (space.read("a.txt") or "")
    space.write({"a.txt": text})
    assert (tmp_path / "a.txt").read_bytes() == after


COOKIE = "# coding: latin-1\n"
UTF_16 = b"\xff\xfe" + "é = 1\r\n".encode("utf-16-le")
BIG_ENDIAN = b"\xfe\xff" + "é = 1\n".encode("utf-16-be")
ENCODINGS = {
    "UTF-8": ("é = 1\n".encode(), "é = '€'\n", "é = '€'\n".encode()),
    "ASCII": (b"x = 1\n", "x = '€'\n", "x = '€'\n".encode()),
    "a mark": (b"\xef\xbb\xbfx\n", "é\n", b"\xef\xbb\xbf\xc3\xa9\n"),
    "UTF-16": (UTF_16, "€ = 1\n", b"\xff\xfe" + "€ = 1\r\n".encode("utf-16-le")),
    "big-endian": (BIG_ENDIAN, "€\n", b"\xfe\xff" + "€\n".encode("utf-16-be")),
    "an unknown encoding": (b"\xe9 = 1\nx\n", "x\né = 2\n", b"x\n\xe9 = 2\n"),
    "Windows' quotes": (b"\x93a\x94\n", "“b”\n", b"\x93b\x94\n"),
    "a cookie": (
        f"{COOKIE}é\n".encode("latin-1"),
        f"{COOKIE}ü\n",
        b"# coding: latin-1\n\xfc\n",
    ),
    "a cookie that goes": (f"{COOKIE}é\n".encode("latin-1"), "é\n", "é\n".encode()),
    "a cookie that comes": (
        "é\n".encode(),
        f"{COOKIE}é\n",
        f"{COOKIE}é\n".encode("latin-1"),
    ),
    "a wrong cookie": (
        "# coding: ascii\né\n".encode(),
        "# coding: ascii\né€\n",
        "# coding: ascii\né€\n".encode(),
    ),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_new_text_has_the_encoding_that_is_certain(tmp_path: Path, name: str) -> None:
    before, text, after = ENCODINGS[name]
    (tmp_path / "a.py").write_bytes(before)
    Workspace(tmp_path).write({"a.py": text})
    assert (tmp_path / "a.py").read_bytes() == after


@pytest.mark.parametrize(
    ("before", "text", "lost"),
    [
        (b"caf\xe9\n", "café\n5 €\n", "'€'"),
        (b"caf\xe9\n", "café über\n", "'ü'"),
        (b"\x81\n", "\x81é\n", "'é'"),
        (f"{COOKIE}é\n".encode("latin-1"), f"{COOKIE}€\n", "'€'"),
        (b"x\n", f"{COOKIE}€\n", "'€'"),
        (b"x\n", "\ud800\n", "'\\ud800'"),
    ],
)
def test_a_character_that_cannot_be_written_for_certain_is_refused(
    tmp_path: Path, before: bytes, text: str, lost: str
) -> None:
    (tmp_path / "a.py").write_bytes(before)
    with pytest.raises(UnsafePathError) as raised:
        Workspace(tmp_path).write({"a.py": text})
    assert f"lacks {lost}" in str(raised.value)
    assert (tmp_path / "a.py").read_bytes() == before


def test_originals_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    space = Workspace(tmp_path)
    space.write({"a": "2\n", "deep/b": "x\n"})
    space.write({"a": "3\n"})
    assert space.original("a") == "1\n"
    assert space.original("deep/b") is None
    assert space.read("a") == "3\n"


def test_a_file_where_a_folder_is_needed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    with pytest.raises(UnsafePathError, match="file"):
        Workspace(tmp_path).write({"a/b.py": "x\n"})


@given(st.binary(max_size=200))
def test_decode_then_encode_is_the_identity(data: bytes) -> None:
    file = TextFile.decode(data)
    assert file.encode(file.text) == data
