"""Commands in fresh folders, local and in Docker: what they get, and what is left of them."""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent.workspace import UnsafePathError
from core.errors import StoppedError, UserError
from environments.base import EnvironmentKind, UnavailableError
from environments.choice import make_folders
from environments.docker.containers import LABEL
from environments.docker.engine import connect
from environments.folders import NOT_STARTED, FolderCommand, Folders
from environments.local.bubblewrap import bubblewrap_works, process_limit_binds
from environments.local.confinement import Confinement, _parents, _prefix, cgroups_work
from environments.local.folders import make_local_folders
from environments.programs import SYSTEM, HostProgram, VisiblePaths
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
    assert (result.exit_code, result.timed_out, result.errors) == (3, False, "")
    assert result.files == {"made/report.xml": b"\xff"}
    apart = python(
        folders,
        code,
        files={"a/b c/d": b""},
        separate=True,
        variables={"OF_CALLER": ""},
    )
    assert (apart.output, apart.errors) == ("/sandbox   \n", "error\n")


def test_how_a_command_ends(folders: Folders) -> None:
    def code(*argv: str) -> int | None:
        return folders.run(FolderCommand(argv, {}, 20)).exit_code

    assert code("true") == 0
    assert code("sh", "-c", "kill -9 $$") == 137
    assert code("no-such-program") == NOT_STARTED
    assert code("python", "-c", "import os; os.abort()") == 134


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
    for files, collect in (({path: b""}, ()), ({}, (path,))):
        with pytest.raises(UnsafePathError):
            FolderCommand(("true",), files, 1, collect=collect)


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
    assert python(folders, code) == replace(
        python(folders, code), seconds=pytest.approx(0, abs=1e9)
    )


@pytest.mark.parametrize("way", [Confinement.OTHER_USER, Confinement.RLIMITS])
def test_without_a_cgroup(way: Confinement) -> None:
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    if way is Confinement.OTHER_USER and (
        os.geteuid() != 0 or not shutil.which("setpriv")
    ):
        pytest.skip("only root can become another user")
    if way is Confinement.RLIMITS and not process_limit_binds():
        pytest.skip("the limit of processes does not bind this user")
    made = make_local_folders(None, limits=FOLDER_LIMITS)
    made = replace(made, confined=replace(made.confined, way=way))
    script = "touch made; ulimit -v; cat a/b; (cd a && touch c) && for i in 1 2 3; do :; done"
    command = FolderCommand(
        ("bash", "-c", script), {"a/b": b"file\n"}, 20, collect=("made",)
    )
    result = made.run(command)
    assert result.output == f"{FOLDER_LIMITS.memory >> 10}\nfile\n"
    assert (result.exit_code, result.files) == (0, {"made": b""})
    many = "for i in $(seq 60); do sleep 9 & done; echo all"
    assert "fork" in made.run(FolderCommand(("bash", "-c", many), {}, 3)).output


def test_a_run_that_stops_ends_its_commands(tmp_path: Path) -> None:
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        if len(checks) > 3:
            raise StoppedError("stop")

    with pytest.raises(StoppedError):
        make_local_folders(None, check=check).run(
            FolderCommand(("sleep", "600"), {}, 600)
        )


def test_a_cgroup_is_removed() -> None:
    if not cgroups_work():
        pytest.skip("no cgroup can be made here")
    key = secrets.token_hex(8)
    seen = list[Path]()

    def check() -> None:
        seen.extend(
            folder
            for parent in _parents()
            for folder in parent.glob(f"{_prefix(key)}*")
        )

    made = make_local_folders(None, run_key=key, check=check)
    made.run(FolderCommand(("true",), {}, 9))
    assert seen
    assert not any(folder.exists() for folder in seen)


def test_no_container_is_left_after_stop() -> None:
    client = connect()
    if client is None:
        pytest.skip("no Docker engine answers")
    key = f"run-{secrets.token_hex(4)}"
    made = make_folders(EnvironmentKind.DOCKER, image=IMAGE, run_key=key)
    ours = {"label": f"{LABEL}.run={key}"}
    assert made.run(FolderCommand(("true",), {}, 9)).exit_code == 0
    assert made.run(FolderCommand(("true",), {}, 9)).exit_code == 0
    assert len(client.containers.list(all=True, filters=ours)) == 1
    made.stop()
    made.stop()
    assert client.containers.list(all=True, filters=ours) == []


def test_what_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.local.folders.bubblewrap_works", lambda: False)
    with pytest.raises(
        UnavailableError, match=r"install it .* or use --environment docker"
    ):
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
    visible = VisiblePaths.of(HostProgram(tmp_path / "venv/bin/python").folders)
    assert visible.real == (tmp_path / "real", tmp_path / "venv")
    assert visible.links == {tmp_path / "alias": Path("real")}
    system = VisiblePaths.of(HostProgram(Path("/usr/bin/python3")).folders, SYSTEM)
    assert system == VisiblePaths((), {})
