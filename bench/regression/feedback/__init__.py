"""From the raw output of a test run to the reason of each failure."""

from bench.regression.feedback.failures import failures_of

__all__ = ["failures_of"]
