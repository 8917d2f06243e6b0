"""Starts commands, such as ``harness.py``, as processes that need not import litellm first.

The imports take seconds. Run as a module this is a process that does them once and forks for each
command: the fork becomes what ``python harness.py`` is, with streams, environment, folder and
signals of its own. Nothing else has happened before the fork. It ends as an interpreter does, but
does not free what was imported, which takes half a second. ``Preloaded`` starts that process, which
all workers of a session share. A ``Bomb`` makes the fork die at a chosen write.
"""

from __future__ import annotations

import array
import atexit
import builtins
import fcntl
import gc
import io
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

from tests.support import TOP, WITH_EXERCISES

EXERCISM = "exercism"
PROGRAMS = {"harness.py": "harness", "report.py": "report"}
COMMANDS = {
    EXERCISM: "swe_retry_exercises.exercism.run",
    "canitedit-generate": "swe_retry_exercises.canitedit.generation",
    "canitedit-report": "swe_retry_exercises.canitedit.report",
    "complete": "tests.support.runs",
    "own-jobs": "tests.support.own_jobs",
}
# What the commands import when they run.
_IMPORTED_LATER = (
    "swe_retry.agent.repomap.build",
    "swe_retry.cli.configuration",
    "swe_retry.cli.listing",
    "swe_retry.cli.own",
    "swe_retry.cli.trial",
    "openai.resources",
    "swe_retry.cli.report_commands",
    "swe_retry.report.report",
    "swe_retry.report.pages.write",
)
_LONGEST = 1 << 20
_SOCKET = "socket"
_READY = b"ready"
_POLL = 0.01


@dataclass
class Started:
    """A process that was forked, used like ``subprocess.Popen``; its output is one text."""

    pid: int
    args: list[str]
    stdout: IO[str] | None
    _ending: socket.socket
    returncode: int | None = None
    _outputs: list[str] = field(default_factory=list)
    _reader: threading.Thread | None = None

    def __post_init__(self) -> None:
        if self.stdout is not None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def _read(self) -> None:
        assert self.stdout is not None
        with self.stdout as stream:
            self._outputs.append(stream.read())

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; ``subprocess.TimeoutExpired`` after ``timeout`` seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if (
            self.returncode is None
            and select.select([self._ending], [], [], timeout)[0]
        ):
            self.returncode = int(self._ending.recv(_LONGEST))
            self._ending.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait and return what it printed, as ``Popen.communicate`` does."""
        self.wait(timeout)
        if self._reader is not None:
            self._reader.join(timeout)
        return "".join(self._outputs), None


class Preloaded:
    """A connection to the process that has imported everything; a context manager.

    The process listens in ``folder``. It is started where none does, and ends with its last
    connection.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Preloaded:
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            connection = self._connect()
            if connection is None:
                self._server = self._start_server()
                connection = self._connect()
        assert connection is not None, "the process with the imports does not answer"
        self._orders = connection
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.close()
        if self._server is not None:
            self._server.wait()

    def _connect(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(str(self._folder / _SOCKET))
            if connection.recv(len(_READY)) == _READY:
                return connection
        except OSError:
            pass  # it never was, or it ended before it saw this connection
        connection.close()
        return None

    def _start_server(self) -> subprocess.Popen[bytes]:
        path = self._folder / _SOCKET
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen()
            number = listener.fileno()
            return subprocess.Popen(
                [sys.executable, "-m", "tests.support.commands", str(number)],
                cwd=TOP,
                env={**os.environ, **WITH_EXERCISES},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[number],
            )

    def start(
        self,
        *argv: str,
        script: str = "harness.py",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        terminal: int | None = None,
        output: int | None = None,
        ignores_interrupts: bool = False,
        bomb: Bomb | None = None,
    ) -> Started:
        """Start ``script`` with ``argv``.

        Args:
            env: all its variables; without, those of this process.
            terminal: a file descriptor for all three streams.
            output: one for standard output and error; else both are read as one text.
            bomb: goes off in the process.
        """
        order = {
            "argv": [script, *argv],
            "env": dict(os.environ if env is None else env),
            "cwd": str(cwd or Path.cwd()),
            "ignores": ignores_interrupts,
            "bomb": bomb and [bomb.at, bomb.torn],
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stdout = None
        opened = [os.open(os.devnull, os.O_RDONLY)]
        if terminal is None and output is None:
            reading, output = os.pipe()
            stdout = os.fdopen(reading, errors="replace")
            opened.append(output)
        streams = [opened[0], output, output] if terminal is None else [terminal] * 3
        with theirs:
            fds = array.array("i", [theirs.fileno(), *streams])
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
            self._orders.sendmsg([json.dumps(order).encode()], rights)
        for number in opened:
            os.close(number)
        return Started(int(ours.recv(_LONGEST)), [script, *argv], stdout, ours)

    def run(self, *argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Start as ``start`` does and wait; ``stdout`` holds both streams."""
        process = self.start(*argv, **options)
        output, _ = process.communicate()
        return subprocess.CompletedProcess(process.args, process.wait(), output, "")


@dataclass
class _Server:
    """The process that forks; it ends with the last of its connections."""

    listener: socket.socket
    commands: Mapping[str, Callable[[], int]]
    settings: Mapping[str, str]
    children: dict[int, socket.socket] = field(default_factory=dict)
    connections: list[socket.socket] = field(default_factory=list)

    def serve(self) -> Callable[[], int] | None:
        """Fork until the last connection is closed; in a fork, return what it has to do."""
        self._accept()
        while self.connections:
            self._reap()
            timeout = None
            if self.children:
                timeout = _POLL
            sockets = [self.listener, *self.connections]
            for ready in select.select(sockets, [], [], timeout)[0]:
                if ready is self.listener:
                    self._accept()
                    continue
                work = self._obey(ready)
                if work is not None:
                    return work
        return None

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        self.connections.append(connection)
        connection.send(_READY)

    def _obey(self, connection: socket.socket) -> Callable[[], int] | None:
        text, fds, _, _ = socket.recv_fds(connection, _LONGEST, 4)
        if text:
            return self._fork(json.loads(text), fds)
        self.connections.remove(connection)
        connection.close()
        return None

    def _fork(self, order: dict[str, Any], fds: list[int]) -> Callable[[], int] | None:
        ending = socket.socket(fileno=fds[0])
        pid = os.fork()
        if not pid:
            return self._becomes(order, fds[1:])
        ending.send(str(pid).encode())
        self.children[pid] = ending
        for number in fds[1:]:
            os.close(number)
        return None

    def _reap(self) -> None:
        for pid in [*self.children]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                # A test that failed has let go of its processes.
                with self.children.pop(pid) as ending, suppress(BrokenPipeError):
                    ending.send(str(os.waitstatus_to_exitcode(status)).encode())

    def _becomes(
        self, order: dict[str, Any], streams: Sequence[int]
    ) -> Callable[[], int]:
        """Make this process one that was started as the command."""
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        for number in {*streams} - {0, 1, 2}:
            os.close(number)
        for other in (self.listener, *self.connections, *self.children.values()):
            other.close()
        _reopen_streams()
        ignored: Any = signal.default_int_handler
        if order["ignores"]:
            ignored = signal.SIG_IGN
        signal.signal(signal.SIGINT, ignored)
        os.environ.clear()
        os.environ.update({**order["env"], **self.settings})
        os.chdir(order["cwd"])
        sys.argv = order["argv"]
        name = sys.argv[0]
        bomb = order["bomb"] and Bomb(*order["bomb"])
        return lambda: _run(self.commands[name], bomb)


def _run(command: Callable[[], int], bomb: Bomb | None) -> int:
    if bomb is None:
        return command()
    bomb.arm()
    code = command()
    print(f"writes: {bomb.count}", flush=True)
    return code


def _reopen_streams() -> None:
    """Buffer as an interpreter does that starts on these streams."""
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = os.fdopen(
        2, "w", buffering=1, errors="backslashreplace", closefd=False
    )


def main() -> None:
    before = dict(os.environ)
    from swe_retry.demo import register
    from swe_retry.launch.program import Program
    from swe_retry.llm.registry import load_litellm
    from swe_retry.llm.tokens import count_tokens

    register()
    load_litellm()
    count_tokens("gpt-4o", "")  # loads an encoding, which takes most of a second
    commands = {name: import_module(module).main for name, module in PROGRAMS.items()}
    for name, module in COMMANDS.items():
        commands[name] = Program(name, name, default=import_module(module).main).main
    for module in _IMPORTED_LATER:
        import_module(module)
    assert threading.active_count() == 1, "a process with threads must not be forked"
    settings = {
        name: text for name, text in os.environ.items() if before.get(name) != text
    }
    gc.collect()
    gc.freeze()  # collections in a fork would copy all that was imported
    listener = socket.socket(fileno=int(sys.argv[1]))
    work = _Server(listener, commands, settings).serve()
    if work is not None:
        _exit(work())


def _exit(code: int) -> NoReturn:
    """End this process as an interpreter ends, without freeing its objects."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # the interpreter says so
    os._exit(code)


_CALLS = ("fsync", "replace", "rename", "write", "unlink", "mkdir")


class Bomb:
    """Ends this process by SIGKILL at its write number ``at``; 0 counts only.

    What counts: calls of ``os`` that write, files opened for writing, and writes to files.
    """

    def __init__(self, at: int, torn: bool) -> None:
        self.at = at
        self.torn = torn
        self.count = 0
        self._lock = threading.Lock()

    def due(self) -> bool:
        with self._lock:
            self.count += 1
            return self.count == self.at

    def arm(self) -> None:
        for name in _CALLS:
            setattr(os, name, self._counted(getattr(os, name)))
        Path.replace = self._counted(Path.replace)  # type: ignore[method-assign]
        builtins.open = io.open = self._opening(io.open)
        Path.open = self._opening(Path.open)  # type: ignore[method-assign]

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            if self.due():
                die()
            return call(*args, **named)

        return counted

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(
            file: Any,
            mode: str = "r",
            *args: Any,
            **named: Any,
        ) -> Any:
            if not set(mode) & set("wax+"):
                return call(file, mode, *args, **named)
            if self.due():
                die()
            stream = call(file, mode, *args, **named)
            ours = isinstance(stream, _Watched)
            regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            if regular and not ours:
                return _Watched(stream, self)
            return stream

        return opening


class _Watched:
    """A file whose writes count, and of which one may be cut in the middle."""

    def __init__(self, stream: Any, bomb: Bomb) -> None:
        self._stream = stream
        self._bomb = bomb

    def write(self, data: Any) -> int:
        if self._bomb.due():
            if self._bomb.torn:
                self._stream.write(data[: len(data) // 2])
                self._stream.flush()
            die()
        return int(self._stream.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __iter__(self) -> Any:
        return iter(self._stream)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
