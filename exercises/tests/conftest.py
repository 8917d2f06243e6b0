"""The exercises here have tests of their own, which pytest must not collect."""

collect_ignore = ["data"]
