"""The proof that tests ran to their end, which every verdict needs.

Container, engine and evaluator may end before; what the tests printed until then is no verdict.
"""

from __future__ import annotations

import re
import signal

INCOMPLETE = (
    "its test output does not show that the tests ran from their beginning to their end, as when "
    "the container or the engine stops or memory runs out; repeat the command"
)
EXIT_CODE = ">>>>> Test Exit Code: "
"""The start of the line that swebench adds to scripts, for what the tests returned."""
# Anywhere in a line: the script's trace of its commands may be all that follows the tests.
_PRINTED = re.compile(rf"{EXIT_CODE}(\d+)")
# Signals that come from outside; a program's own faults end it with others.
_KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)


def tests_ended(exit_code: int | None) -> bool:
    """Return whether tests that returned ``exit_code``, None if unknown, ran to their end."""
    return exit_code is not None and exit_code not in _KILLED


def printed_exit_code(output: str) -> int | None:
    """Return the last exit code that an output states; None if it states none."""
    codes = _PRINTED.findall(output)
    if codes:
        return int(codes[-1])
    return None
