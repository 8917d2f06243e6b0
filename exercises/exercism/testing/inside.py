"""The script that runs the tests of one Python exercise: ``pytest|unittest ARGUMENT…``.

It is sent to the interpreter with ``-c``, so that no file of it lies in the folder, and imports
nothing of this project. Code under test runs in the process of the tests and may try to pass
without solving anything, so the script forks:

- The child runs the tests and then sends its report with a token. One that leaves before, by
  ``os._exit(0)`` for instance, sends none.
- The parent runs no code under test. It writes the report to a file with a secret, which it reads
  after the fork and which no other process can read. It ends with 0 only if the child did, the
  files of the folder are as they were, and no process is left.

The child also checks that no function of the test runners, of the tests or of Python was replaced,
and that values do not equal everything (``guard``).

What remains possible is code that is written against this script: code that finds the token in the
frames or objects of its own process and sends a report itself, or that replaces functions and
restores them before the check.
"""

import json
import os
import select
import sys
import time
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # in the script, it stands above
    from exercises.exercism.testing.guard import Guard

REPORT = ".report.json"
_TOKEN, _LENGTH, _INPUT = 16, 8, 1 << 20
_CHUNK, _POLL = 1 << 16, 0.2
_MOST_REPORT = 8 << 20
_GRACE = 1.0
# linux/prctl.h
_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36


def main() -> None:
    """Fork, run the tests in the child, and report on it in the parent."""
    reader, writer = os.pipe()
    waiting, go = os.pipe()
    token = os.urandom(_TOKEN)
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.close(go)
        _read_nothing()
        solution = json.loads(_whole(waiting))
        os.close(waiting)
        sys.exit(_tested(sys.argv[1], sys.argv[2:], solution, writer, token))
    os.close(writer)
    os.close(waiting)
    told = json.loads(_whole(0))
    # Other processes could read the same input from its beginning.
    with suppress(OSError):
        os.ftruncate(0, 0)
    _read_nothing()
    _protect()
    before = _contents()
    os.write(go, json.dumps(told["solution"]).encode())
    os.close(go)
    sent = _received(reader, child, token)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = code if code >= 0 else 128 - code
    report, problem = sent or ("", "the tests did not run to their end")
    if _children_remain():
        problem = "a process was left running"
    elif gone := [path for path, data in before.items() if _read(path, len(data)) != data]:
        problem = f"{min(gone)} was changed"
    if problem:
        print(f"\nerror: {problem}", flush=True)
    _write(json.dumps({"secret": told["secret"], "report": "" if problem else report}))
    # Without the exit handlers of Python: nothing more is to happen.
    os._exit(code or bool(problem))


def _read_nothing() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _whole(descriptor: int) -> bytes:
    found = b""
    while chunk := os.read(descriptor, _INPUT):
        found += chunk
    return found


def _protect() -> None:
    """Keep other processes of the user from this one's memory, and adopt those of the child."""
    import ctypes

    call = ctypes.CDLL(None).prctl
    zero = ctypes.c_ulong(0)
    for option, value in ((_SET_DUMPABLE, 0), (_SET_CHILD_SUBREAPER, 1)):
        call(option, ctypes.c_ulong(value), zero, zero, zero)


def _contents() -> dict[str, bytes]:
    """Return the contents of the files in this folder by path."""
    found = {}
    for place, _, names in os.walk("."):
        for path in (os.path.join(place, name)[2:] for name in names):  # noqa: PTH118
            found[path] = _read(path)
    return found


def _read(path: str, most: int = -1) -> bytes:
    """Return up to a byte more than ``most`` of a regular file, empty for others."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(opened, "rb") as file:  # noqa: PTH123
            return file.read(most + 1 if most >= 0 else most)
    except OSError:
        return b"?"


def _received(reader: int, child: int, token: bytes) -> Any:  # noqa: ANN401
    """Return what the child sends after the token: its report and a problem; None without it.

    Processes that the child leaves may keep the pipe open.
    """
    found, start, ended = b"", _TOKEN + _LENGTH, False
    while True:
        if len(found) >= start:
            whole = start + int.from_bytes(found[_TOKEN:start], "big")
            if found[:_TOKEN] != token or whole > start + _MOST_REPORT:
                return None
            if len(found) >= whole:
                return json.loads(found[start:whole])
        if select.select([reader], [], [], 0 if ended else _POLL)[0]:
            chunk = os.read(reader, _CHUNK)
            if not chunk:
                return None
            found += chunk
        elif ended:
            return None
        else:
            ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _children_remain() -> bool:
    """Tell whether processes are left a second after the tests; all belong to this one now."""
    until = time.monotonic() + _GRACE
    while True:
        try:
            ended = os.waitpid(-1, os.WNOHANG)[0]
        except ChildProcessError:
            return False
        if not ended:
            if time.monotonic() > until:
                return True
            time.sleep(0.01)


def _write(text: str) -> None:
    """Write the report; a file that the child left in its place is replaced."""
    made = f"{REPORT}.{os.getpid()}"
    with suppress(OSError):
        opened = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with open(opened, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        os.replace(made, REPORT)  # noqa: PTH105


def _tested(kind: str, arguments: list[str], solution: list[str], writer: int, token: bytes) -> int:
    """Run the tests, send the report, and return the exit code; this is the child."""
    write, dumps = os.write, json.dumps
    # What imports __main__ must not find this script.
    sys.modules["__main__"] = types.ModuleType("__main__")
    run = _run_pytest if kind == "pytest" else _run_unittest
    code, report, problem = run(arguments, Guard(solution))
    data = dumps(["" if problem else report, problem]).encode()
    data = token + len(data).to_bytes(_LENGTH, "big") + data
    while data:
        data = data[write(writer, data) :]
    os.close(writer)
    return code


def _run_pytest(arguments: list[str], guard: "Guard") -> tuple[int, str, str]:
    """Return the exit code, the JUnit report, and a problem."""
    import pytest

    class Plugin:
        """Guards what is imported before the tests, and the tests when all are imported."""

        def pytest_sessionstart(self) -> None:
            guard.begin()

        def pytest_collection_finish(self) -> None:
            guard.add_tests()

        def pytest_unconfigure(self) -> None:
            # pytest itself takes functions back after this.
            problems.append(guard.check())

    problems = list[str]()
    # The report has no path in the file system, and pytest writes it when the tests have run.
    place = os.memfd_create("report")
    code = pytest.main([*arguments, f"--junitxml=/proc/self/fd/{place}"], plugins=[Plugin()])
    problem = "".join(problems) if problems else "pytest ended early"
    return int(code), os.pread(place, _MOST_REPORT, 0).decode("utf-8", "replace"), problem


def _run_unittest(arguments: list[str], guard: "Guard") -> tuple[int, str, str]:
    """Return the exit code, the counts as JSON, and a problem."""
    import unittest

    class Program(unittest.TestProgram):
        """``python -m unittest`` that guards the tests when all of them are imported."""

        def runTests(self) -> None:  # noqa: N802
            guard.add_tests()
            super().runTests()

    guard.begin()
    done = Program(module=None, argv=["python -m unittest", *arguments], exit=False).result
    counts = {
        "ran": done.testsRun,
        "failed": len(done.failures) + len(done.errors) + len(done.unexpectedSuccesses),
        "skipped": len(done.skipped) + len(done.expectedFailures),
    }
    return int(not done.wasSuccessful()), json.dumps(counts), guard.check()


if __name__ == "__main__":
    main()
