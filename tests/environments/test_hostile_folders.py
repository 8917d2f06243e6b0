"""Hostile commands in folders, local and in Docker: each is small, and ends where a limit fails."""

from __future__ import annotations

import secrets
import socket
import time
from pathlib import Path

from swe_retry.environments.folders import FolderCommand, Folders
from swe_retry.environments.local.folders import LocalFolders
from tests.support import still_running
from tests.support.environments import FOLDER_LIMITS, python


def test_an_endless_loop_ends(folders: Folders) -> None:
    code = "open('found', 'w').write('x')\nprint('on', flush=True)\nwhile True:\n    pass\n"
    result = python(folders, code, 1, collect=("found",))
    assert result.timed_out
    assert result.output == "on\n"
    assert result.files == {"found": b"x"}


def test_a_fork_bomb_ends(folders: Folders) -> None:
    mark = f"mark-{secrets.token_hex(8)}"
    code = (
        "import os, time\n"
        "for _ in range(9):\n"
        "    try:\n        os.fork()\n    except OSError:\n        pass\n"
        "os.write(1, b'here\\n')\ntime.sleep(60)\n"
    )
    command = FolderCommand(("python", "-c", code, mark), {}, 3)
    result = folders.run(command)
    assert result.timed_out
    assert 1 < result.output.count("here") <= FOLDER_LIMITS.processes
    assert not still_running(mark)
    assert python(folders, "print('alive')").output == "alive\n"


def test_a_memory_hog_ends(folders: Folders) -> None:
    code = "kept = []\nfor _ in range(100):\n    kept.append(bytearray(b'x') * (10 << 20))\n"
    assert python(folders, code + "print('all')\n").exit_code not in (0, None)


def test_written_files_are_limited(folders: Folders) -> None:
    code = (
        "for number in range(9):\n"
        "    open(f'{PLACE}/big{number}', 'wb').write(b'x' * (5 << 20))\n"
        "    print('wrote', flush=True)\n"
    )
    for folder, limit in ((".", 6), ("/tmp", 2), ("/dev/shm", 2), ("/", 0)):
        result = python(folders, code.replace("{PLACE}", folder))
        assert result.exit_code == 1, folder
        assert result.output.count("wrote\n") <= limit, folder
    large = "open('big', 'wb').write(b'x' * (21 << 20))"
    assert python(folders, large).exit_code != 0


def test_a_flood_of_output_is_cut(folders: Folders) -> None:
    code = "import os\nos.write(1, b'first')\nwhile True:\n    os.write(1, b'spam' * 16384)\n"
    result = python(folders, code, 2)
    assert result.timed_out
    assert result.output.startswith("first")
    assert "[output left out]" in result.output
    assert len(result.output) < 3 * FOLDER_LIMITS.output


def test_there_is_no_network(folders: Folders) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import socket\n"
            f"for place in (('127.0.0.1', {port}), ('192.0.2.1', 80)):\n"
            "    try:\n        socket.create_connection(place, 2)\n"
            "    except OSError as error:\n        print(error)\n"
        )
        result = python(folders, code)
    assert "refused" in result.output
    assert "unreachable" in result.output


def test_deleting_everything_deletes_nothing(folders: Folders) -> None:
    # A name that lies nowhere, should a sandbox be missing.
    paths = "/usr/lib /etc/passwd /bin/sh"
    code = (
        f"ls -d {paths} >before; chmod u+w /usr /etc; "
        f"rm -rf /usr/lib/os-release /etc/passwd; ls -d {paths}"
    )
    result = folders.run(FolderCommand(("sh", "-c", code), {}, 20))
    assert "Read-only file system" in result.output
    assert result.output.endswith("/bin/sh\n/etc/passwd\n/usr/lib\n")


def test_files_of_the_machine_are_not_seen(folders: Folders, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sentinel")
    code = (
        "import os\n"
        f"for path in ({str(secret)!r}, {str(Path(__file__).resolve())!r}):\n"
        "    print(os.path.exists(path))\n"
        "print(sorted(os.listdir('/tmp')), dict(os.environ))\n"
    )
    result = python(folders, code)
    # Python itself may lie below /tmp, and is then seen at its place.
    listed = {"home"}
    if isinstance(folders, LocalFolders):
        for path in folders.readable:
            if path.is_relative_to("/tmp"):
                listed.add(path.parts[2])
    assert result.output.startswith(f"False\nFalse\n{sorted(listed)} ")
    assert "SWE_RETRY" not in result.output
    assert "PYTEST" not in result.output


def test_a_daemon_ends_with_the_command(folders: Folders) -> None:
    mark = f"mark-{secrets.token_hex(8)}"
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        os.execv(sys.executable, ['x', '-c', 'import time; time.sleep(999)', '{mark}'])\n"
        "    os._exit(0)\n"
        "os.wait()\nprint('started')\n"
    )
    started = time.monotonic()
    result = python(folders, code, 600)
    assert result.output == "started\n"
    assert result.exit_code == 0
    assert time.monotonic() - started < 300, "it ends before its time limit"
    assert not still_running(mark)


def test_only_plain_files_are_collected(folders: Folders) -> None:
    code = (
        "import os\n"
        "os.symlink('/etc/passwd', 'link')\nos.symlink('/etc', 'folder')\n"
        "os.symlink('program.py', 'near')\nos.mkfifo('fifo')\nos.mkdir('directory')\n"
        "open('large', 'w').write('x' * 100_001)\nopen('most', 'w').write('x' * 100_000)\n"
        "open('hidden', 'w').write('h')\nos.chmod('hidden', 0)\n"
    )
    names = (
        "link",
        "folder/passwd",
        "near",
        "fifo",
        "directory",
        "large",
        "most",
        "hidden",
    )
    result = python(folders, code, collect=names)
    assert {*result.files} - {"hidden"} == {"most"}
    assert len(result.files["most"]) == 100_000
