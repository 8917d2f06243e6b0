"""What one run of the tests of an exercise gave."""

from __future__ import annotations

from dataclasses import dataclass

from exercises.exercism.verdict import TestCounts


@dataclass(frozen=True)
class TestedTry:
    """The outcome of one run of the tests on a solution.

    Attributes:
        output: standard output and error, cleaned and whole: it is equal in each run of the same
            code. After a time-out, the text that the model receives instead.
        counts: None without a credible report, so also after a time-out.
        seconds: wall-clock time of the tests.
    """

    __test__ = False  # the name makes pytest think that this is a test

    solved: bool
    timed_out: bool
    output: str
    counts: TestCounts | None
    seconds: float
