"""The script that runs one program with its tests in its folder: ``MODE SECONDS LONGEST``.

It is sent into the folder as a file, beside the program, and imports nothing of this project, and
of the standard library only what Python has loaded anyway: it starts once for each program. It
forks. The child runs the program as ``__main__`` and says so when the last line of the tests has
run: a program that leaves before, by ``os._exit(0)`` for instance, has not passed, whatever its
exit code. The parent waits, and reports in a file. Where the program passed, the report holds a
secret from standard input, which the child never has.
"""

# pathlib need not be loaded.
# ruff: noqa: PTH100, PTH105, PTH123, PTH208

from __future__ import annotations

import os
import sys
import time

PROGRAM = "program.py"
REPORT = ".report"
COVERAGE = ".coverage.json"
ENDED = "ended"
LATE = "late"
_TOKEN_BYTES = 16
_SECRET_BYTES = 64
_KILL = 9
_MIN_PAUSE = 0.0005
_MAX_PAUSE = 0.05
_NANOSECONDS = 1e9


def main() -> None:
    """Run the program, and report on it."""
    mode, seconds, longest = sys.argv[1:]
    report_path = os.path.abspath(REPORT)
    null = os.open(os.devnull, os.O_RDONLY)
    token = os.urandom(_TOKEN_BYTES)
    token_reader, token_writer = os.pipe()
    start_reader, start_writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(null, 0)
        os.close(start_writer)
        # The secret can be read nowhere when the program starts.
        os.read(start_reader, 1)
        for descriptor in (null, token_reader, start_reader):
            os.close(descriptor)
        run(token_writer, token, with_coverage=mode == "coverage")
        return
    secret = os.read(0, _SECRET_BYTES).decode()
    os.dup2(null, 0)
    os.close(token_writer)
    os.close(start_writer)
    status = wait_for(child, float(seconds), float(longest))
    outcome = LATE
    code = -_KILL
    if status is not None:
        outcome = ENDED
        code = os.waitstatus_to_exitcode(status)
    os.set_blocking(token_reader, False)
    try:
        passed = code == 0 and os.read(token_reader, _TOKEN_BYTES) == token
    except BlockingIOError:
        passed = False
    if not passed:
        secret = "-"
    # What the program left there may be a link or a folder.
    new_path = f"{report_path}.{os.getpid()}"
    with open(new_path, "x", encoding="utf-8") as stream:
        stream.write(f"{outcome} {code} {secret}")
    os.replace(new_path, report_path)
    # Without the exit handlers of Python: nothing more is to happen.
    os._exit(0)


def wait_for(child: int, seconds: float, longest: float) -> int | None:
    """Return the child's status; None after ``seconds``, when it was killed.

    The time for which it waited for a processor does not count, so that other programs on the
    machine do not decide. It is killed all the same after ``longest`` seconds, and when its
    processes have used a processor for twice its time together.
    """
    started = time.monotonic()
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        elapsed = time.monotonic() - started
        if elapsed >= seconds:
            used, waited = processor_times()
            if elapsed - waited >= seconds or used >= 2 * seconds or elapsed >= longest:
                os.kill(child, _KILL)
                os.waitpid(child, 0)
                return None
        time.sleep(max(_MIN_PAUSE, min(_MAX_PAUSE, elapsed / 50)))


def processor_times() -> tuple[float, float]:
    """Return for how many seconds all threads here ran, and for how many one waited to, at most."""
    used = 0.0
    waited = 0.0
    for process in os.listdir("/proc"):
        if not process.isdigit() or int(process) == os.getpid():
            continue
        try:
            for thread in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{thread}/schedstat") as stream:
                    ran, delayed, _ = stream.read().split()
                used += int(ran) / _NANOSECONDS
                waited = max(waited, int(delayed) / _NANOSECONDS)
        except (OSError, ValueError):
            continue  # it has ended, or this kernel does not count
    return used, waited


def run(token_writer: int, token: bytes, *, with_coverage: bool) -> None:
    """Run the program, and write the token if it reaches its end."""
    write = os.write
    pid = os.getpid()
    path = os.path.abspath(PROGRAM)
    report_path = os.path.abspath(COVERAGE)
    sys.argv[:] = [path]
    coverage = started_coverage(path) if with_coverage else None
    main_module = type(sys)("__main__")
    main_module.__dict__.update(
        __file__=path, __builtins__=__builtins__, __annotations__={}
    )
    sys.modules["__main__"] = main_module
    try:
        with open(path, "rb") as stream:
            code = compile(stream.read(), path, "exec", dont_inherit=True)
        exec(code, main_module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)
    if coverage is not None:
        coverage.stop()
        coverage.json_report(outfile=report_path)
    if os.getpid() == pid:
        write(token_writer, token)


def started_coverage(path: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 - coverage is not installed here
    import coverage

    measured = coverage.Coverage(data_file=None, config_file=False, include=[path])
    # "exclude_also" is read from files alone.
    lines = list(measured.get_option("report:exclude_lines"))  # type: ignore[arg-type]
    lines.append(r"@(abc\.)?abstractmethod")
    measured.set_option("report:exclude_lines", lines)
    measured.start()
    return measured


if __name__ == "__main__":
    main()
