"""The texts of the benchmark, and what its two profiles send of them. Pure.

The texts are those of the benchmark of July 2023 (aider, ``benchmark/prompts.py``, Apache-2.0),
byte for byte, so that results can be set beside the published ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from exercises.exercism.exercise import Exercise

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
_PARTS = ("introduction.md", "instructions.md", "instructions.append.md")


@dataclass(frozen=True)
class Profile:
    """What a year's benchmark does; each value can be set by itself.

    Attributes:
        timeout: seconds for the tests of one try.
        test_lines: of the output of tests that the model receives; None for all.
        first_formats: markers and functions of 2023 are shown to the model, and a call of an
            unknown function is malformed.
    """

    name: str
    unittest: bool
    timeout: float
    test_lines: int | None
    first_formats: bool


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("2023", unittest=True, timeout=60.0, test_lines=50, first_formats=True),
        Profile(
            "current",
            unittest=False,
            timeout=180.0,
            test_lines=None,
            first_formats=False,
        ),
    )
}


def first_message(exercise: Exercise) -> str:
    """Return the introduction, the instructions and their appendix, and what to do with them."""
    shown = "".join(exercise.text(f".docs/{part}") for part in _PARTS)
    libraries = "python libraries" if exercise.language == "python" else "libraries"
    return shown + _ADDENDUM.format(names=_names(exercise), libraries=libraries)


def failures_message(exercise: Exercise, output: str, test_lines: int | None) -> str:
    """Return the message after failing tests; ``output`` is cleaned, or ``TIMED_OUT``."""
    shown = (
        output if test_lines is None else "\n".join(output.splitlines()[:test_lines])
    )
    return shown + _FAILURES.format(names=_names(exercise))


def fitting(output: str, fits: Callable[[str], bool]) -> str:
    """Return the longest beginning of ``output``, in whole lines, that fits a model's window.

    ``fits`` accepts every beginning of a text that it accepts.
    """
    if fits(output):
        return output
    lines = output.splitlines()
    counts = range(1, len(lines) + 1)
    most = bisect_left(
        counts, True, key=lambda count: not fits("\n".join(lines[:count]))
    )
    return "\n".join(lines[:most])


def _names(exercise: Exercise) -> str:
    return " ".join(exercise.solution)
