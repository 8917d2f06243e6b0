"""Parse texts in a process that may die: the standard library only.

Each line of standard input is a text as JSON. The answers are lines of ASCII: first ``ready``,
then why each text is not Python, empty for one that is. A text that takes too much ends this
process, and ``filtering.py`` starts another.
"""

import ast
import json
import resource
import sys
import warnings
from contextlib import suppress

READY = "ready"
MAX_SECONDS = 10
_MAX_MEMORY = 1 << 30
_STACK = 8 << 20
# Python's default. Set here, so that no setting of the site decides what is too deep.
_MAX_DEPTH = 1000
_MAX_ANSWER = 300


def main() -> None:
    """Answer until the input ends, or until memory is short for what earlier texts took."""
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(_MAX_DEPTH)
    _limit(resource.RLIMIT_AS, _MAX_MEMORY)
    _limit(resource.RLIMIT_STACK, _STACK)
    _limit(resource.RLIMIT_CORE, 0)
    _answer(READY)
    for number, line in enumerate(sys.stdin.buffer):
        # Seconds of processor time, so that a busy machine changes no verdict.
        usage = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(usage.ru_utime + usage.ru_stime) + 1 + MAX_SECONDS
        _limit(resource.RLIMIT_CPU, seconds)
        problem = _problem_in(line)
        if number and problem.startswith("MemoryError"):
            return
        _answer(problem)


def _limit(kind: int, limit: int) -> None:
    hard = resource.getrlimit(kind)[1]
    # A lower limit may hold, and some systems have none of this kind.
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (limit, hard))


def _problem_in(line: bytes) -> str:
    try:
        ast.parse(json.loads(line))
    except SyntaxError as error:
        return f"{type(error).__name__}: {error.msg} (line {error.lineno})"
    except Exception as error:  # among them MemoryError, RecursionError, ValueError
        return f"{type(error).__name__}: {error}".rstrip(": ")
    return ""


def _answer(text: str) -> None:
    line = " ".join(text[:_MAX_ANSWER].split())
    sys.stdout.buffer.write(line.encode("ascii", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
