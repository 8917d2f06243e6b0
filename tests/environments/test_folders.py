"""Commands in fresh folders, local and in Docker: what they get, and what is left of them."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from swe_retry.agent.workspace import UnsafePathError
from swe_retry.core.errors import StoppedError, UserError
from swe_retry.environments.base import EnvironmentKind, UnavailableError
from swe_retry.environments.choice import make_folders
from swe_retry.environments.docker.containers import LABEL
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.folders import NOT_STARTED, FolderCommand, Folders
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.environments.local.confinement import (
    Confinement,
    _parents,
    _prefix,
    cgroups_work,
)
from swe_retry.environments.local.folders import make_local_folders
from swe_retry.environments.programs import SYSTEM, HostProgram, VisiblePaths
from tests.environments.conftest import skip_where_it_cannot_be
from tests.support.environments import FOLDER_LIMITS, IMAGE, python


def test_a_command_gets_its_files_variables_and_input(folders: Folders) -> None:
    code = (
        "import os, sys\n"
        "print(os.getcwd(), open('a/b c/d').read(), sys.stdin.read(), os.environ['OF_CALLER'])\n"
        "print('error', file=sys.stderr)\n"
        "os.mkdir('made')\nopen('made/report.xml', 'wb').write(b'\\xff')\n"
        "sys.exit(3)\n"
    )
    result = python(
        folders,
        code,
        files={"a/b c/d": b"content"},
        stdin=b"typed" * 30_000,
        variables={"OF_CALLER": "x y", "PYTHONUNBUFFERED": "1"},
        collect=("made/report.xml", "made", "no/such"),
    )
    assert result.output == f"/sandbox content {'typed' * 30_000} x y\nerror\n"
    assert result.exit_code == 3
    assert result.timed_out is False
    assert result.errors == ""
    assert result.files == {"made/report.xml": b"\xff"}
    separate = python(
        folders,
        code,
        files={"a/b c/d": b""},
        separate=True,
        variables={"OF_CALLER": ""},
    )
    assert separate.output == "/sandbox   \n"
    assert separate.errors == "error\n"


def test_how_a_command_ends(folders: Folders) -> None:
    def exit_code(*argv: str) -> int | None:
        command = FolderCommand(argv, {}, 20)
        return folders.run(command).exit_code

    assert exit_code("true") == 0
    assert exit_code("sh", "-c", "kill -9 $$") == 137
    assert exit_code("no-such-program") == NOT_STARTED
    assert exit_code("python", "-c", "import os; os.abort()") == 134


def test_each_folder_is_fresh(folders: Folders) -> None:
    look = "import os\nprint(*map(sorted, map(os.listdir, ('.', '/tmp', os.environ['HOME']))))\n"
    leave = (
        "import os, multiprocessing as m\n"
        "for place in ('.', '/tmp', os.environ['HOME'], '/dev/shm'):\n"
        "    open(place + '/left', 'w').close(); os.makedirs(place + '/.hidden/' + 'd/' * 200)\n"
        "    os.chmod(place + '/.hidden', 0)\n"
    )
    first = python(folders, look).output
    assert python(folders, leave).exit_code == 0
    assert python(folders, look).output == first
    assert python(folders, "import os; print(os.listdir('/dev/shm'))").output == "[]\n"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/x",
        "../x",
        "a/../x",
        "",
        ".",
        "a//b",
        "a/",
        "a\0b",
        "n" * 256,
        "d/" * 1500 + "x",
    ],
)
def test_unsafe_paths_are_refused(path: str) -> None:
    with pytest.raises(UnsafePathError):
        FolderCommand(("true",), {path: b""}, 1)
    with pytest.raises(UnsafePathError):
        FolderCommand(("true",), {}, 1, collect=(path,))


def test_a_file_is_no_folder_and_a_command_has_words() -> None:
    with pytest.raises(UnsafePathError, match="which is a file"):
        FolderCommand(("true",), {"a": b"", "a/b": b""}, 1)
    for argv in ((), ("a\0b",)):
        with pytest.raises(ValueError, match="no command line"):
            FolderCommand(argv, {}, 1)


def test_the_output_does_not_depend_on_the_run(folders: Folders) -> None:
    code = (
        "import os, socket\n"
        "print(socket.gethostname(), os.getcwd(), hash('x'), sorted(os.environ.items()))\n"
        "raise ValueError('x')\n"
    )
    first = python(folders, code)
    second = python(folders, code)
    assert replace(first, seconds=0) == replace(second, seconds=0)


@pytest.mark.parametrize("way", [Confinement.OTHER_USER, Confinement.RLIMITS])
def test_without_a_cgroup(way: Confinement) -> None:
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    skip_where_it_cannot_be(way)
    folders = make_local_folders(None, limits=FOLDER_LIMITS)
    confined = replace(folders.confined, way=way)
    folders = replace(folders, confined=confined)
    script = "touch made; ulimit -v; cat a/b; (cd a && touch c) && for i in 1 2 3; do :; done"
    command = FolderCommand(
        ("bash", "-c", script),
        {"a/b": b"file\n"},
        20,
        collect=("made",),
    )
    result = folders.run(command)
    assert result.output == f"{FOLDER_LIMITS.memory >> 10}\nfile\n"
    assert result.exit_code == 0
    assert result.files == {"made": b""}
    many = "for i in $(seq 60); do sleep 9 & done; echo all"
    result = folders.run(FolderCommand(("bash", "-c", many), {}, 3))
    assert "fork" in result.output


def test_a_run_that_stops_ends_its_commands(tmp_path: Path) -> None:
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        if len(checks) > 3:
            raise StoppedError("stop")

    folders = make_local_folders(None, check=check)
    with pytest.raises(StoppedError):
        folders.run(FolderCommand(("sleep", "600"), {}, 600))


def test_a_cgroup_is_removed() -> None:
    if not cgroups_work():
        pytest.skip("no cgroup can be made here")
    key = secrets.token_hex(8)
    groups: list[Path] = []

    def check() -> None:
        for parent in _parents():
            groups.extend(parent.glob(f"{_prefix(key)}*"))

    folders = make_local_folders(None, run_key=key, check=check)
    folders.run(FolderCommand(("true",), {}, 9))
    assert groups
    for group in groups:
        assert not group.exists()


def test_no_container_is_left_after_stop() -> None:
    client = connect()
    if client is None:
        pytest.skip("no Docker engine answers")
    key = f"run-{secrets.token_hex(4)}"
    folders = make_folders(EnvironmentKind.DOCKER, image=IMAGE, run_key=key)
    ours = {"label": f"{LABEL}.run={key}"}
    command = FolderCommand(("true",), {}, 9)
    assert folders.run(command).exit_code == 0
    assert folders.run(command).exit_code == 0
    assert len(client.containers.list(all=True, filters=ours)) == 1
    folders.stop()
    folders.stop()
    assert client.containers.list(all=True, filters=ours) == []


def test_what_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "swe_retry.environments.local.folders.bubblewrap_works", lambda: False
    )
    remedy = r"install it .* or use --environment docker"
    with pytest.raises(UnavailableError, match=remedy):
        make_folders(EnvironmentKind.LOCAL)
    with pytest.raises(UnavailableError, match="use local or docker"):
        make_folders(EnvironmentKind.NONE)
    monkeypatch.undo()
    for path in ("relative", "/no/such", "/", "/proc/self", "/tmp"):
        with pytest.raises(UserError, match=r"to show|be shown"):
            make_local_folders(None, readable=[Path(path)])


def test_the_folders_of_an_interpreter(tmp_path: Path) -> None:
    for name in ("real/bin", "real/lib", "venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "real/bin/python3").touch()
    (tmp_path / "venv/pyvenv.cfg").touch()
    (tmp_path / "alias").symlink_to("real")
    (tmp_path / "venv/bin/python").symlink_to(tmp_path / "alias/bin/python3")
    own = HostProgram(tmp_path / "venv/bin/python")
    visible = VisiblePaths(own.folders)
    assert visible.real == (tmp_path / "real", tmp_path / "venv")
    assert visible.links == {tmp_path / "alias": Path("real")}
    system = HostProgram(Path("/usr/bin/python3"))
    hidden = VisiblePaths(system.folders, SYSTEM)
    assert (hidden.real, hidden.links) == ((), {})
