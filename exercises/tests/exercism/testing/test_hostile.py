"""Hostile solutions under small limits: each fails, nothing outside is touched or left running."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

import pytest

from exercises.tests.exercism.testing.conftest import MakeTester
from exercises.tests.exercism.testing.test_cheats import RIGHT
from exercises.tests.support.exercism import six
from swe_retry.environments.local.confinement import cgroups_work
from swe_retry_exercises.exercism.messages import TIMED_OUT
from swe_retry_exercises.exercism.results import TryResult
from tests.support import still_running


def outcome_of(
    local: MakeTester,
    code: str,
    timeout: float = 60.0,
) -> TryResult:
    """Test the right solution with ``code`` before it."""
    solution = {"cuckoo_clock.py": f"{code}\n{RIGHT}".encode()}
    return local(True, timeout).test(six()["cuckoo-clock"], solution)


# Each would be solved if what it does had no consequences.
HOSTILE = {
    "memory": "kept = bytearray(b'x') * (10 << 30)",
    "memory bit by bit": "kept = []\nwhile True:\n    kept.append(bytearray(b'x') * (10 << 20))",
    "output": "print('spam' * 250_000)",
    "a large file": "open('/tmp/large', 'wb').write(b'x' * (11 << 20))",
    "reads the example": "open('.meta/example.py').read()",
    "reads the configuration": "open('.meta/config.json').read()",
    "reads the instructions": "open('.docs/instructions.md').read()",
    "a signal": "import os\nos.kill(os.getpid(), 11)",
    "deep recursion": "import sys\nsys.setrecursionlimit(10 ** 9)\n(f := lambda: f())()",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_solutions_fail(make_tester: MakeTester, name: str) -> None:
    if name.startswith("memory b") and not cgroups_work():
        pytest.skip("only a cgroup limits the memory of all processes")
    tried = outcome_of(make_tester, HOSTILE[name])
    assert (tried.solved, tried.timed_out) == (False, False), tried.output
    assert len(tried.output) < 400_000


def test_an_endless_loop_is_a_time_out(make_tester: MakeTester) -> None:
    tried = outcome_of(make_tester, "while True:\n    pass", 2)
    assert (tried.solved, tried.timed_out, tried.tests_passed) == (False, True, None)
    assert tried.output == TIMED_OUT


def test_a_thread_that_never_ends_is_a_time_out(make_tester: MakeTester) -> None:
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    assert outcome_of(make_tester, code, 4).timed_out


def test_a_daemon_and_a_fork_bomb_fail_and_end(make_tester: MakeTester) -> None:
    mark = f"mark-{secrets.token_hex(8)}"
    sleeper = f"os.execv(sys.executable, ['x', '-c', 'import time; time.sleep(600)', '{mark}'])"
    daemon = f"import os, sys\nif os.fork() == 0:\n    os.setsid()\n    {sleeper}\n"
    outcome_of(make_tester, daemon)
    assert not still_running(mark)
    bomb = f"import os, sys\nwhile True:\n    if os.fork() == 0:\n        {sleeper}\n"
    assert not outcome_of(make_tester, bomb).solved
    assert not still_running(mark)


def test_what_a_right_solution_does_besides_touches_nothing_else(
    make_tester: MakeTester, tmp_path: Path
) -> None:
    """It is judged by its values; each run has a folder of its own."""
    outside = tmp_path / "kept"
    outside.touch()
    code = "import shutil\nshutil.rmtree('.', ignore_errors=True)\nopen('left', 'w').close()"
    assert outcome_of(make_tester, code).solved
    assert outside.exists() and Path("/etc").exists()
    assert not outcome_of(
        make_tester, "import os\nassert os.path.exists('left')"
    ).solved


def test_there_is_no_network_and_no_file_of_the_machine(
    make_tester: MakeTester, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sentinel")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = (
            "import os, socket\n"
            "try:\n"
            f"    socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)\n"
            "    print('network')\nexcept OSError:\n    pass\n"
            f"for place in {[str(secret), str(Path(__file__).resolve())]!r}:\n"
            "    print('found' if os.path.exists(place) else 'nothing', flush=True)\n"
        )
        tried = outcome_of(make_tester, code)
    assert "network" not in tried.output
    assert (tried.output.count("nothing"), tried.output.count("found")) == (2, 0)


def test_reading_the_tests_solves_nothing_by_itself(make_tester: MakeTester) -> None:
    code = "print(open('cuckoo_clock_test.py').read())\n"
    exercise = six()["cuckoo-clock"]
    tried = make_tester(True).test(
        exercise, {"cuckoo_clock.py": (code + "def strikes(*_): pass").encode()}
    )
    assert not tried.solved
    assert "import unittest" in tried.output
