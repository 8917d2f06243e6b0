"""Recompute every ratio of a record that its own counts allow. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from exercises.exercism.reporting.records import Record
from reports.data.jsonvalues import number, whole
from reports.statistics.methods.intervals import wilson

# Half of the last printed decimal, and what floating point adds.
_HALF = 0.05 + 1e-9
_RATE = re.compile(r"pass_rate_(\d+)")
_INTERVAL = re.compile(r"pass_interval_(\d+)")


@dataclass(frozen=True)
class RatioFault:
    """A ratio of a record that its counts do not give; ``why`` says what they give."""

    record: str
    key: str
    written: object
    why: str

    def line(self) -> str:
        """Return the fault as one line."""
        return f"{self.record}: {self.key} is {self.written}, but {self.why}"


def ratio_faults(record: Record) -> Iterator[RatioFault]:
    """Yield the ratios of a record that differ from what its own counts give.

    ``pass_rate_i`` is 100 × ``pass_num_i`` / ``test_cases``; where the number is missing, some
    whole number of cases must give the rate. The share of well-formed cases is 100 × (1 −
    ``num_with_malformed_responses`` / ``test_cases``); where that number is missing,
    ``num_malformed_responses`` bounds it. All have one decimal.
    """
    name = str(record.get("dirname") or record.get("model"))
    cases = whole(record.get("test_cases"))
    for key, written in record.items():
        why = _why(record, str(key), cases) if cases else ""
        if why:
            yield RatioFault(name, str(key), written, why)


def _why(record: Record, key: str, cases: int) -> str:
    if rate := _RATE.fullmatch(key):
        solved = whole(record.get(f"pass_num_{rate[1]}"))
        return _wrong_rate(record, key, solved, cases)
    if key == "percent_cases_well_formed":
        return _wrong_well_formed(record, key, cases)
    if around := _INTERVAL.fullmatch(key):
        return _wrong_interval(record, key, whole(record.get(f"pass_num_{around[1]}")), cases)
    return ""


def _wrong_rate(record: Record, key: str, solved: int | None, cases: int) -> str:
    written = number(record.get(key))
    if written is None:
        return ""
    if solved is None:
        return "" if _reachable(written, cases) else _unreachable(cases)
    if _equal(written, solved, cases):
        return ""
    every = whole(record.get("total_tests"))
    other = every is not None and every != cases and _equal(written, solved, every)
    hint = f"; of all {every} it is {_rate(solved, every)}" if other and every else ""
    return f"{solved} of {cases} is {_rate(solved, cases)}{hint}"


def _wrong_well_formed(record: Record, key: str, cases: int) -> str:
    written = number(record.get(key))
    if written is None:
        return ""
    malformed = whole(record.get("num_with_malformed_responses"))
    replies = whole(record.get("num_malformed_responses"))
    if malformed is None and replies == 0:
        malformed = 0
    if malformed is not None:
        if _equal(written, cases - malformed, cases):
            return ""
        well = cases - malformed
        return f"{malformed} malformed cases of {cases} leave {well}, {_rate(well, cases)}"
    if not _reachable(written, cases):
        return _unreachable(cases)
    if replies is None:
        return ""
    # Each malformed case has at least one malformed reply, and each reply belongs to a case.
    most = _rate(cases - 1, cases)
    if _equal(written, cases, cases):
        return f"{replies} malformed replies give at most {most}"
    least = max(0, cases - replies)
    if written + _HALF < 100 * least / cases:
        return f"{replies} malformed replies give at least {_rate(least, cases)}"
    return ""


def _wrong_interval(record: Record, key: str, solved: int | None, cases: int) -> str:
    written = record.get(key)
    bounds = written if isinstance(written, list) else []
    if solved is None or solved > cases or len(bounds) != 2:
        return ""
    found = wilson(solved, cases)
    wanted = [100 * found.low, 100 * found.high]
    pairs = zip(map(number, bounds), wanted, strict=True)
    if all(given is not None and abs(given - own) <= _HALF for given, own in pairs):
        return ""
    return f"{solved} of {cases} has {wanted[0]:.1f} to {wanted[1]:.1f} (Wilson, 95 %)"


def _equal(written: float, count: int, of: int) -> bool:
    return abs(100 * count / of - written) <= _HALF


def _reachable(written: float, cases: int) -> bool:
    near = written * cases / 100
    return any(
        0 <= count <= cases and _equal(written, count, cases)
        for count in (math.floor(near), math.ceil(near))
    )


def _unreachable(cases: int) -> str:
    return f"no whole number of {cases} cases gives it"


def _rate(count: int, of: int) -> str:
    return f"{100 * count / of:.1f}"
