"""File names from a model are untrusted: only files of the checkout are read or written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.workspace import TextFile, UnsafePathError, Workspace


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
