"""Parse texts in a process that may die: the standard library only.

Standard input has texts, each as eight bytes of length and UTF-8. The answers are lines of ASCII:
first ``ready``, then why each text is not Python, empty for one that is. A text that takes too
much ends this process, and ``filtering.py`` starts another.
"""

import ast
import resource
import sys
import warnings
from contextlib import suppress

READY = "ready"
MOST_SECONDS = 10
MOST_BYTES = 1 << 30
_STACK = 8 << 20
# Python's default. Set here, so that no setting of the site decides what is too deep.
_DEEPEST = 1000
_LONGEST = 300


def main() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(_DEEPEST)
    _limit(resource.RLIMIT_AS, MOST_BYTES)
    _limit(resource.RLIMIT_STACK, _STACK)
    _limit(resource.RLIMIT_CORE, 0)
    _answer(READY)
    texts = sys.stdin.buffer
    while True:
        head = texts.read(8)
        if len(head) < 8:
            return
        text = texts.read(int.from_bytes(head, "big"))
        # Seconds of processor time, so that a busy machine changes no verdict.
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(
            resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + MOST_SECONDS
        )
        _answer(_problem_in(text))


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    # A lower limit may hold, and some systems have none of this kind.
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (most, hard))


def _problem_in(data: bytes) -> str:
    try:
        ast.parse(data.decode("utf-8", "surrogatepass"))
    except SyntaxError as error:
        return f"{type(error).__name__}: {error.msg} (line {error.lineno})"
    except Exception as error:  # among them MemoryError, RecursionError, ValueError
        return f"{type(error).__name__}: {error}".rstrip(": ")
    return ""


def _answer(words: str) -> None:
    line = " ".join(words[:_LONGEST].split())
    sys.stdout.buffer.write(line.encode("ascii", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
