"""The SWE-bench retry harness. Python 2.7 and 3.6 read this file too, and stop at its import."""

from swe_retry import oldest as oldest
