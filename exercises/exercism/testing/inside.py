"""The script that runs the tests of one Python exercise: ``pytest|unittest ARGUMENT…``.

It is sent to the interpreter with ``-c``, so that no file of it lies in the folder, and imports
nothing of this project. The code under test runs in the process of the tests, and would like to be
believed. So the script forks. The child runs the tests, and then sends its report with a token; one
that leaves before, by ``os._exit(0)`` for instance, has no report. The parent runs no code under
test. It writes the report to a file with a secret that it reads after the fork, and that no
other process can read. It ends with 0 only if the child did, the files of the folder are as they
were, and no process is left. The child also checks that nothing replaced functions of the test
runners, of the tests, or builtins, and that values are not equal to everything.

What remains possible is code that is written against this script: that walks the frames or objects
of its own process to the token and sends a report of its own, or that replaces functions and
restores them before the check.
"""

import sys

# A module in the folder must not take the place of one of Python's. The folder comes back later.
sys.path[:] = [place for place in sys.path if place]

import functools  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import select  # noqa: E402
import time  # noqa: E402
import types  # noqa: E402
from contextlib import suppress  # noqa: E402
from typing import Any  # noqa: E402

REPORT = ".report.json"
_TOKEN, _LENGTH, _INPUT = 16, 8, 1 << 20
_CHUNK, _POLL = 1 << 16, 0.2
_MOST_REPORT = 8 << 20
_GRACE = 1.0
# linux/prctl.h
_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36
_GUARDED = ("unittest", "pytest", "_pytest", "pluggy", "builtins")
_COMPARING = (
    "assertEqual", "assertAlmostEqual", "assertSequenceEqual", "assertListEqual", "assertIn",
    "assertTupleEqual", "assertSetEqual", "assertDictEqual", "assertCountEqual",
    "assertMultiLineEqual",
)  # fmt: skip
_DEEPEST, _MOST_VALUES = 3, 1000
# unittest and pytest leave frames of such modules out of what they print.
__unittest = True


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
        with open(opened, "rb") as file:
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
        with open(opened, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(made, REPORT)  # noqa: PTH105


def _tested(kind: str, arguments: list[str], solution: list[str], writer: int, token: bytes) -> int:
    """Run the tests, send the report, and return the exit code; this is the child."""
    write, dumps = os.write, json.dumps
    # What imports __main__ must not find this script.
    sys.modules["__main__"] = types.ModuleType("__main__")
    run = _run_pytest if kind == "pytest" else _run_unittest
    code, report, problem = run(arguments, _Guard(solution))
    data = dumps(["" if problem else report, problem]).encode()
    data = token + len(data).to_bytes(_LENGTH, "big") + data
    while data:
        data = data[write(writer, data) :]
    os.close(writer)
    return code


def _run_pytest(arguments: list[str], guard: "_Guard") -> tuple[int, str, str]:
    """Return the exit code, the JUnit report, and a problem."""
    import pytest

    class Collected:
        """Guards the tests when all of them are imported."""

        def pytest_collection_finish(self) -> None:
            guard.add_tests()

    # The report has no path in the file system, and pytest writes it when the tests have run.
    place = os.memfd_create("report")
    guard.begin()
    sys.path.insert(0, os.getcwd())
    code = pytest.main([*arguments, f"--junitxml=/proc/self/fd/{place}"], plugins=[Collected()])
    problem = guard.problem()
    return int(code), os.pread(place, _MOST_REPORT, 0).decode("utf-8", "replace"), problem


def _run_unittest(arguments: list[str], guard: "_Guard") -> tuple[int, str, str]:
    """Return the exit code, the counts as JSON, and a problem."""
    import unittest

    class Program(unittest.TestProgram):
        """``python -m unittest`` that guards the tests when all of them are imported."""

        def runTests(self) -> None:  # noqa: N802
            guard.add_tests()
            super().runTests()

    guard.begin()
    sys.path.insert(0, os.getcwd())
    done = Program(module=None, argv=["python -m unittest", *arguments], exit=False).result
    counts = {
        "ran": done.testsRun,
        "failed": len(done.failures) + len(done.errors) + len(done.unexpectedSuccesses),
        "skipped": len(done.skipped) + len(done.expectedFailures),
    }
    return int(not done.wasSuccessful()), json.dumps(counts), guard.problem()


class _Guard:
    """Sees whether functions were replaced: by identity, with their code."""

    def __init__(self, solution: list[str]) -> None:
        self._folder = os.getcwd() + os.sep
        self._solution = {self._folder + path for path in solution}
        self._kept: list[tuple[str, Any, dict[str, Any]]] = []
        self._problem = ""

    def begin(self) -> None:
        """Keep the functions of the runners that are imported, and of Python itself."""
        import unittest

        for name in _COMPARING:
            method = getattr(unittest.TestCase, name)
            setattr(unittest.TestCase, name, _refusing(method))
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in _GUARDED:
                self._keep(name, module)

    def add_tests(self) -> None:
        """Keep the functions of the modules in the folder that are no solution files."""
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__file__", None) or ""
            if place.startswith(self._folder) and place not in self._solution:
                self._keep(name, module)
                self._check_tests(module)

    def problem(self) -> str:
        """Return what was replaced, empty for nothing."""
        for label, owner, before in self._kept:
            now = _functions(owner)
            names = before if isinstance(owner, types.ModuleType) else before.keys() | now.keys()
            for name in names:
                if name.startswith("__pytest"):
                    continue
                one, other = before.get(name, ()), now.get(name, ())
                if len(one) != len(other) or any(a is not b for a, b in zip(one, other)):
                    return f"{label}.{name} was replaced"
        return self._problem

    def _keep(self, name: str, module: Any) -> None:  # noqa: ANN401
        self._kept.append((name, module, _functions(module)))
        for one in list(vars(module).values()):
            if isinstance(one, type) and one.__module__ == name:
                self._kept.append((f"{name}.{one.__qualname__}", one, _functions(one)))

    def _check_tests(self, module: Any) -> None:  # noqa: ANN401
        for one in list(vars(module).values()):
            if isinstance(one, type) and one.__module__ == module.__name__:
                for name, value in vars(one).items():
                    code = getattr(value, "__code__", None)
                    if getattr(code, "co_filename", "") in self._solution:
                        self._problem = f"{module.__name__}.{one.__qualname__}.{name} was replaced"


def _functions(owner: Any) -> dict[str, tuple[Any, ...]]:  # noqa: ANN401
    """Return what can be called in a class or module, with the parts that can be replaced."""
    return {
        name: (value, *_parts(getattr(value, "__func__", value)))
        for name, value in list(vars(owner).items())
        if callable(value) or isinstance(value, (classmethod, staticmethod, property))
    }


def _parts(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
    if not isinstance(value, types.FunctionType):
        return ()
    return (value.__code__, value.__defaults__, value.__kwdefaults__)


def _refusing(method: Any) -> Any:  # noqa: ANN401
    """Return an assertion that fails also where a value would equal anything."""

    @functools.wraps(method)
    def compared(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        method(self, *args, **kwargs)
        if any(_equals_anything(value, _DEEPEST) for value in args[:2]):
            raise self.failureException("a value that equals every other shows nothing")

    return compared


def _equals_anything(value: Any, depth: int) -> bool:  # noqa: ANN401
    if depth and isinstance(value, (list, tuple, set, frozenset, dict)):
        parts = value.values() if isinstance(value, dict) else value
        some = [part for part, _ in zip(parts, range(_MOST_VALUES))]
        if any(_equals_anything(part, depth - 1) for part in some):
            return True
    if type(value).__module__ == "builtins":
        return False
    try:
        return bool(value == object())
    except Exception:
        return False


if __name__ == "__main__":
    main()
