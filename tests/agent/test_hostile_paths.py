"""Hostile names of files and hostile checkouts: no other file changes."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_retry.agent.formats.apply import safe_edits, write_report
from swe_retry.agent.formats.edits import WholeFile
from swe_retry.agent.formats.report import ApplyReport
from swe_retry.agent.formats.whole import WholeFormat
from swe_retry.agent.workspace import TextFile, UnsafePathError, Workspace

_SECRET = "lies outside"
_PARTS = st.one_of(
    st.sampled_from(
        [
            "a",
            "A",
            "b.py",
            "B.PY",
            "folder",
            "Folder",
            "..",
            ".",
            "",
            "~",
            "/",
            "x\ny",
            "x\x00",
            "x.",
            "x ",
            ".git",
            ".GIT",
            ".git ",
            ".git.",
            ".git::$DATA",
            "git~1",
            "GIT~1",
            ".g\u200cit",
            "config",
            "out",
            "secret",
            "to-git",
            "loop",
            "fifo",
            "inside",
            "C:",
            "a\\b",
            "\ud800",
            "x" * 260,
        ]
    ),
    st.text(max_size=6),
)
_PATHS = st.lists(_PARTS, min_size=1, max_size=5).map("/".join)
_LINKS = {
    "out": "../outside",
    "secret": "../outside/secret",
    "to-git": ".git",
    "loop": "loop",
}


def _checkout(folder: Path) -> Path:
    root = folder / "root"
    for path in (root / ".git", root / "folder", folder / "outside"):
        path.mkdir(parents=True)
    (folder / "outside" / "secret").write_text(_SECRET)
    (root / ".git" / "config").write_text(_SECRET)
    (root / "a").write_text("a\n")
    (root / "b.py").write_text("b\n")
    os.mkfifo(root / "fifo")
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)
    (root / "folder" / "inside").symlink_to("../a")
    return root


def _state(folder: Path) -> dict[str, object]:
    state: dict[str, object] = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(top, name)
            if path.is_symlink():
                state[str(path)] = path.readlink()
            elif path.is_file():
                state[str(path)] = path.read_bytes()
            else:
                state[str(path)] = path.lstat().st_mode
    return state


_ACTIONS = st.sampled_from(["write", "delete", "move", "read"])


@given(
    steps=st.lists(
        st.tuples(_ACTIONS, _PATHS, _PATHS),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=300)
def test_only_plain_files_of_the_checkout_are_touched(
    steps: list[tuple[str, str, str]],
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        root = _checkout(folder)
        before = _state(folder)
        space = Workspace(root)
        for action, path, other in steps:
            assert _SECRET not in (space.read(path) or "")
            try:
                if action == "write":
                    space.write({path: "x\n"})
                elif action == "delete":
                    space.write({path: None})
                elif action == "move":
                    space.write({path: "x\n", other: None}, {path: other})
            except UnsafePathError:
                continue
        after = _state(folder)
        written = {str(root / path) for path in space.originals}
        protected = (str(root / ".git/"), str(folder / "outside"))
        for path in before.keys() | after.keys():
            if before.get(path) != after.get(path):
                assert path in written or Path(path).is_dir()
                assert not path.startswith(protected)
        links = {path for path in before if Path(path).is_symlink()}
        assert links == {str(root / name) for name in (*_LINKS, "folder/inside")}
        names = {os.path.relpath(path, root).casefold() for path in after}
        assert len(names) == len(after), "two names that some systems take for one"


@pytest.mark.parametrize(
    "path",
    [
        ".git ",
        ".git.",
        ".GIT/x",
        ".git::$INDEX_ALLOCATION/x",
        "git~1/x",
        "a/.g\u200cit/x",
        "x.",
        "x ",
        "\ud800",
        "\u2028x",
        "fifo",
        "folder",
        "folder/inside",
    ],
)
def test_names_that_no_model_may_use(tmp_path: Path, path: str) -> None:
    space = Workspace(_checkout(tmp_path))
    report = _write(space, WholeFile(path, "x\n"))
    assert [result.applied for result in report.results] == [False]
    assert space.read(path) is None


def _write(space: Workspace, *edits: WholeFile) -> ApplyReport:
    report = WholeFormat().apply(safe_edits(edits, space), space.read, ())
    return write_report(report, space)


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("A", "a"),
        ("Folder/x.py", "folder"),
        ("B.py", "b.py"),
        ("e\u0301", "\u00e9"),
        ("STRASSE", "straße"),
    ],
)
def test_a_name_that_differs_in_case_alone_is_refused(
    tmp_path: Path, path: str, there: str
) -> None:
    root = _checkout(tmp_path)
    if not (root / there).exists():
        (root / there).write_text("x\n")
    with pytest.raises(UnsafePathError, match=f"{there} is there already"):
        Workspace(root).write({path: "x\n"})


def test_of_two_new_twins_the_second_is_a_failed_edit(tmp_path: Path) -> None:
    space = Workspace(_checkout(tmp_path))
    report = _write(space, WholeFile("new.py", "1\n"), WholeFile("New.py", "2\n"))
    assert [result.applied for result in report.results] == [True, False]
    assert "new.py is there already" in report.failures[0].problem


def test_what_the_system_refuses_is_a_failed_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = Workspace(_checkout(tmp_path))
    if os.geteuid() == 0:
        # Root may write anywhere, but a name may be too long for the system.
        monkeypatch.setattr("swe_retry.agent.workspace._MAX_NAME", 1_000)
        path = "x" * 256
    else:
        (space.root / "folder").chmod(0o500)
        path = "folder/x.py"
    problem = r"cannot be written|ermission denied|name too long"
    with pytest.raises(UnsafePathError, match=problem):
        space.write({path: "x\n"})


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as handle:
        handle.truncate(1 << 40)
    space = Workspace(tmp_path)
    assert space.read("huge") is None
    with pytest.raises(UnsafePathError, match="too large"):
        space.write({"huge": "x\n"})


@pytest.mark.parametrize(
    "codec", ["punycode", "idna", "rot13", "undefined", "zlib", "nonsense"]
)
def test_codecs_that_are_no_encodings_of_sources_are_passed_over(codec: str) -> None:
    data = f"# coding: {codec}\nx = 1\n".encode()
    file = TextFile.decode(data)
    assert file.encoding == "utf-8"
    assert file.encode(file.text) == data
