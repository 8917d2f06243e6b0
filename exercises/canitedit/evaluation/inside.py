"""The script that runs one program with its tests in its folder: ``MODE SECONDS MOST``.

It is sent into the folder as a file, beside the program, and imports nothing of this project, and
of the standard library only what Python has loaded anyway: it starts once for each program. It
forks. The child runs the program as ``__main__`` and says so when the last line of the tests has
run: a program that leaves before, by ``os._exit(0)`` for instance, has not passed, whatever its
exit code. The parent waits, and reports in a file. Where the program passed, the report holds a
secret from standard input, which the child never has.
"""

from __future__ import annotations

import os
import sys
import time

PROGRAM, REPORT, COVERAGE = "program.py", ".report", ".coverage.json"
ENDED, LATE = "ended", "late"
_WITH_COVERAGE = "coverage"
_TOKEN_BYTES = 16
_SECRET_BYTES = 64
_KILL = 9
_LEAST_PAUSE, _MOST_PAUSE, _SHARE = 0.0005, 0.05, 0.02
_NANOSECONDS = 1e9


def main() -> None:
    """Run the program, and report on it."""
    mode, seconds, most = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    place = os.path.abspath(REPORT)  # noqa: PTH100 - pathlib need not be loaded
    null = os.open(os.devnull, os.O_RDONLY)
    token = os.urandom(_TOKEN_BYTES)
    reader, writer = os.pipe()
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(null, 0)
        os.close(go)
        # The secret can be read nowhere when the program starts.
        os.read(wait, 1)
        for descriptor in (null, reader, wait):
            os.close(descriptor)
        _run(mode == _WITH_COVERAGE, writer, token)
        return
    secret = os.read(0, _SECRET_BYTES).decode()
    os.dup2(null, 0)
    os.close(writer)
    os.close(go)
    status = _waited_for(child, seconds, most)
    code = -_KILL if status is None else os.waitstatus_to_exitcode(status)
    os.set_blocking(reader, False)
    passed = code == 0 and _said(reader) == token
    # What the program left there may be a link or a folder.
    made = f"{place}.{os.getpid()}"
    with open(made, "x", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(
            f"{LATE if status is None else ENDED} {code} {secret if passed else '-'}"
        )
    os.replace(made, place)  # noqa: PTH105
    # Without the exit handlers of Python: nothing more is to happen.
    os._exit(0)


def _said(reader: int) -> bytes:
    try:
        return os.read(reader, _TOKEN_BYTES)
    except BlockingIOError:
        return b""


def _waited_for(child: int, seconds: float, most: float) -> int | None:
    """Return the child's status; None after ``seconds``, when it was killed.

    The time for which it waited for a processor does not count, so that other programs on the
    machine do not decide. It is killed all the same after ``most`` seconds, and when its processes
    have used a processor for twice its time together.
    """
    started = time.monotonic()
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        elapsed = time.monotonic() - started
        if elapsed >= seconds:
            used, waited = _processor_times()
            if elapsed - waited >= seconds or used >= 2 * seconds or elapsed >= most:
                os.kill(child, _KILL)
                os.waitpid(child, 0)
                return None
        time.sleep(max(_LEAST_PAUSE, min(_MOST_PAUSE, elapsed * _SHARE)))


def _processor_times() -> tuple[float, float]:
    """Return for how many seconds all threads here ran, and for how many one waited to, at most."""
    used, waited = 0.0, 0.0
    for process in os.listdir("/proc"):  # noqa: PTH208
        if not process.isdigit() or int(process) == os.getpid():
            continue
        try:
            for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
                with open(f"/proc/{process}/task/{thread}/schedstat") as stream:  # noqa: PTH123
                    ran, delayed = (
                        int(word) / _NANOSECONDS for word in stream.read().split()[:2]
                    )
                used, waited = used + ran, max(waited, delayed)
        except (OSError, ValueError):
            continue  # it has ended, or this kernel does not count
    return used, waited


def _run(with_coverage: bool, writer: int, token: bytes) -> None:
    """Run the program, and write the token if it reaches its end."""
    write, path, own = os.write, os.path.abspath(PROGRAM), os.getpid()  # noqa: PTH100
    sys.argv[:] = [path]
    covered = _started_coverage(path) if with_coverage else None
    report = os.path.abspath(COVERAGE)  # noqa: PTH100
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            code = compile(stream.read(), path, "exec", dont_inherit=True)
        exec(code, _main_module(path))
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)
    if covered is not None:
        covered.stop()
        covered.json_report(outfile=report)
    if os.getpid() == own:
        write(writer, token)


def _main_module(path: str) -> dict[str, object]:
    """Return the name space of a new ``__main__``."""
    module = type(sys)("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = module
    return module.__dict__


def _started_coverage(path: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - coverage is not installed here
    import coverage

    found = coverage.Coverage(data_file=None, config_file=False, include=[path])
    # "exclude_also" is read from files alone.
    usual = found.get_option("report:exclude_lines")
    lines = [*usual, r"@(abc\.)?abstractmethod"]  # type: ignore[misc]
    found.set_option("report:exclude_lines", lines)
    found.start()
    return found


if __name__ == "__main__":
    main()
