"""The texts of the benchmark, and what its two profiles send of them. Pure.

The texts are those of the benchmark of July 2023 (aider, ``benchmark/prompts.py``, Apache-2.0),
byte for byte, so that results can be set beside the published ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from swe_retry.kit import Notation
from swe_retry_exercises.exercism.catalog import Exercise

TIMED_OUT = "Tests timed out!"
_ADDENDUM = """
####

Use the above instructions to modify the supplied files: {names}
Keep and implement the existing function or class stubs, they will be called from unit tests.
Only use standard {libraries}, don't suggest installing any packages.
"""
_FAILURES = """
####

See the testing errors above.
The tests are correct.
Fix the code in {names} to resolve the errors.
"""
# Further files of an exercise, such as hints.md, are never shown.
_DOCUMENTS = ("introduction.md", "instructions.md", "instructions.append.md")


@dataclass(frozen=True)
class Profile:
    """What a year's benchmark does.

    Attributes:
        timeout: seconds for the tests of one try.
        test_lines: of the output of tests that the model receives; None for all.
        notation: of 2023: its markers and functions are shown to the model, and a call of an
            unknown function is malformed.
    """

    name: str
    unittest: bool
    timeout: float
    test_lines: int | None
    notation: Notation


PROFILES = {
    "2023": Profile(
        name="2023",
        unittest=True,
        timeout=60.0,
        test_lines=50,
        notation=Notation.OF_2023,
    ),
    "current": Profile(
        name="current",
        unittest=False,
        timeout=180.0,
        test_lines=None,
        notation=Notation.CURRENT,
    ),
}


def first_message(exercise: Exercise) -> str:
    """Return the introduction, the instructions and their appendix, and what to do with them."""
    texts = [exercise.text(f".docs/{name}") for name in _DOCUMENTS]
    libraries = "libraries"
    if exercise.language == "python":
        libraries = "python libraries"
    names = " ".join(exercise.solution)
    return "".join(texts) + _ADDENDUM.format(names=names, libraries=libraries)


def failures_message(exercise: Exercise, output: str, test_lines: int | None) -> str:
    """Return the message after failing tests; ``output`` is cleaned, or ``TIMED_OUT``."""
    if test_lines is not None:
        output = "\n".join(output.splitlines()[:test_lines])
    return output + _FAILURES.format(names=" ".join(exercise.solution))


def fitting(output: str, fits: Callable[[str], bool]) -> str:
    """Return the longest beginning of ``output``, in whole lines, that fits a model's window.

    ``fits`` accepts every beginning of a text that it accepts.
    """
    if fits(output):
        return output
    lines = output.splitlines()
    counts = range(1, len(lines) + 1)
    longest = bisect_left(
        counts, True, key=lambda count: not fits("\n".join(lines[:count]))
    )
    return "\n".join(lines[:longest])
