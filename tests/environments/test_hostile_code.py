"""Hostile test code in each environment: what it can use, and what it leaves.

All of it is small and ends by itself, so that it does no harm where a limit fails.
"""

from __future__ import annotations

import logging
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from swe_retry.agent.workspace import Workspace
from swe_retry.core.errors import InfrastructureError
from swe_retry.environments.base import run_once
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.environments.local.confinement import (
    Confinement,
    cgroups_work,
    find_confinement,
    missing_limits,
)
from swe_retry.environments.local.environment import LocalSession
from swe_retry.instances.instance import Instance
from swe_retry.repositories.checkout import Checkout
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testsettings import TestChoice, Tests
from tests.support.environments import IGNORES_TERM, LIMITS, MB, Place, ended_badly


def test_a_daemon_is_killed_on_timeout(environment: Place) -> None:
    code = IGNORES_TERM + (
        "child = [sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]]\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execv(sys.executable, child)\n"
        "    os._exit(0)\n"
        "os.wait()\nprint('started', flush=True)\ntime.sleep(60)\n"
    )
    result = environment.run(code, 2)
    assert "started" in result.output
    assert result.timed_out


def test_a_daemon_is_killed_at_the_end_of_the_command(environment: Place) -> None:
    code = (
        "import os, subprocess, sys\n"
        "child = [sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]]\n"
        "subprocess.Popen(child, start_new_session=True, stdout=subprocess.DEVNULL,\n"
        "                 stderr=subprocess.DEVNULL)\nprint('started')\n"
    )
    assert environment.run(code).exit_code == 0


def test_the_number_of_processes_is_limited(environment: Place) -> None:
    if environment.way == "open":
        pytest.skip("without a sandbox and a cgroup processes are not counted")
    code = IGNORES_TERM + (
        "for _ in range(8):\n"
        "    try:\n        os.fork()\n    except OSError:\n        pass\n"
        "os.write(1, b'here\\n')\ntime.sleep(60)\n"
    )
    result = environment.run(code, 3)
    assert 1 < result.output.count("here") <= LIMITS.processes
    assert result.timed_out


def test_the_disk_does_not_fill(environment: Place) -> None:
    code = (
        "import sys, time\n"
        "for number in range(200):\n"
        "    with open(f'big{number}', 'wb') as file:\n"
        "        for _ in range(5):\n            file.write(b'x' * (1 << 20))\n"
        "    print('wrote', flush=True)\n"
        "    time.sleep(0.05 if number < 11 else 0.5)\n"
    )
    result = environment.run(code)
    assert ended_badly(result)
    assert result.output.count("wrote") * 5 * MB < 3 * LIMITS.written


def test_the_size_of_a_file_is_limited(environment: Place) -> None:
    code = (
        "import os\n"
        "with open('big', 'wb') as file:\n"
        "    for _ in range(50):\n        file.write(b'x' * (1 << 20))\n"
        "        print('wrote', flush=True)\n"
    )
    result = environment.run(code)
    assert ended_badly(result)
    assert result.output.count("wrote") <= LIMITS.file_size // MB


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/", "/dev"])
def test_writing_outside_the_work_folder_is_limited(
    environment: Place, folder: str
) -> None:
    if environment.way == "open":
        pytest.skip("without a sandbox only the work folder is watched")
    code = (
        "import os, time\n"
        "for number in range(20):\n"
        f"    with open(f'{folder}/big{{number}}', 'wb') as file:\n"
        "        file.write(b'x' * (15 << 20))\n"
        "    print('wrote', flush=True)\n    time.sleep(0.3)\n"
    )
    result = environment.run(code)
    assert ended_badly(result)
    assert result.output.count("wrote") * 15 * MB < 2.5 * LIMITS.written


def test_memory_is_limited(environment: Place) -> None:
    code = "kept = []\nfor _ in range(100):\n    kept.append(bytearray(b'x') * (10 << 20))\n"
    assert ended_badly(environment.run(code + "print('all')\n"))


def test_memory_of_all_processes_is_limited(environment: Place) -> None:
    if environment.way in ("other-user", "rlimits", "open"):
        pytest.skip("without a cgroup memory is limited per process")
    code = (
        "import os, time\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        kept = bytearray(b'x') * (100 << 20)\n"
        "        time.sleep(2)\n        os.write(1, b'has it')\n        os._exit(0)\n"
        "for _ in range(5):\n    os.wait()\n"
    )
    assert environment.run(code).output.count("has it") < 2


def test_endless_output_is_cut(environment: Place) -> None:
    code = IGNORES_TERM + "while True:\n    os.write(1, b'spam' * 16384)\n"
    result = environment.run(code, 2)
    assert result.timed_out
    assert len(result.output) < 30 * MB


def test_home_is_empty_and_no_key_is_seen(
    environment: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sentinel-key")
    code = (
        "import os\nfrom pathlib import Path\n"
        "home = Path.home()\nprint(sorted(p.name for p in home.iterdir()))\n"
        "(home / '.profile').write_text('x')\nprint(dict(os.environ))\n"
    )
    if environment.way == "open":
        code = "import os; print(dict(os.environ))"
    result = environment.run(code)
    assert result.exit_code == 0, result.output
    # The set-up of the demo's images configures git.
    assert environment.way == "open" or result.output.split("\n")[-3] in (
        "[]",
        "['.gitconfig']",
    )
    assert "sentinel" not in result.output


def test_the_loopback_interface_is_not_reached(environment: Place) -> None:
    if environment.way == "open":
        pytest.skip("without a sandbox the network is there")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\n"
        result = environment.run(code)
    assert ended_badly(result)
    assert "refused" in result.output


def test_nothing_is_left_of_what_was_written(environment: Place) -> None:
    environment.run("open('left-over', 'w').write('x')\n")
    result = environment.prepared.run("ls; ls /tmp ~", 30)
    assert "left-over" not in result.output


def test_capabilities_are_few(environment: Place) -> None:
    if environment.way == "open":
        pytest.skip("without a sandbox the rights are those of the user")
    command = "mount -t tmpfs x /mnt || unshare -Urm mount -t tmpfs x /mnt"
    result = environment.prepared.run(command, 30)
    assert ended_badly(result)


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache: the tests of the unchanged tree run once in each way."""
    return tmp_path_factory.mktemp("baselines")


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        # It ends with code 0 and without results, which tells nothing.
        (
            "import os\nos.write(1, b'PASSED tests/test_slug.py::test_lower_case\\n')\n"
            "os._exit(0)\n",
            None,
        ),
        (
            "import time\nfor n in range(30):\n"
            "    open(f'big{n}', 'wb').write(b'x' * (10 << 20))\n    time.sleep(0.1)\n",
            False,
        ),
        (
            "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/', timeout=2)\n",
            False,
        ),
        # The last, when the tests of the unchanged tree count no more for the limit below.
        (IGNORES_TERM + "time.sleep(60)\n", False),
    ],
    ids=["leaves", "fills the disk", "needs the network", "hangs"],
)
def test_no_outcome_of_it_is_a_pass(
    environment: Place,
    demo: tuple[Instance, Checkout],
    baselines: Path,
    code: str,
    outcome: bool | None,
) -> None:
    if environment.way not in (find_confinement().value, "docker"):
        pytest.skip("one of the local ways is enough")
    root = demo[1].root
    source = (root / "textkit/slug.py").read_text()
    tests = RegressionTests(
        instance=demo[0],
        session=environment.session,
        choice=TestChoice.RELATED,
        limits=Tests(timeout=60, baseline_timeout=60),
        files=[str(p.relative_to(root)) for p in root.rglob("*.py")],
        read=Workspace(root).read,
        cache=baselines,
        identity=environment.way,
        log=logging.getLogger("test"),
    )
    started = time.monotonic()
    assert tests.run({"textkit/slug.py": f"{source}\n".encode()}).outcome is True
    # Short, because code that hangs runs until the limit, but enough for this machine's speed.
    tests.limits = Tests(
        timeout=max(4, 1.5 * (time.monotonic() - started)), baseline_timeout=60
    )
    report = tests.run({"textkit/slug.py": f"{code}\n{source}".encode()})
    assert report.outcome is outcome
    assert report.suspect is (outcome is None)


def test_a_tree_that_does_not_fit_is_infrastructure(local: LocalSession) -> None:
    if not local.shut_in:
        pytest.skip("bubblewrap is not installed")
    tiny = replace(
        local, confined=replace(local.confined, limits=replace(LIMITS, written=4096))
    )
    with pytest.raises(InfrastructureError, match=r"cannot lay out the tree.*No space"):
        run_once(tiny, {}, "true", 20)


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed")
def test_missing_limits_are_listed() -> None:
    assert find_confinement() is not Confinement.CGROUP or cgroups_work()
    assert not list(missing_limits(Confinement.CGROUP))
    assert len(list(missing_limits(Confinement.OTHER_USER))) == 1
    assert len(list(missing_limits(Confinement.RLIMITS_PER_PROCESS))) == 2
