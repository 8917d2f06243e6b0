"""Records, in which leaderboards publish a run each: our ``record.yml``, and checks of any."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from core.atomic import write_text_atomic
from core.errors import DamagedFileError
from core.money import as_number
from core.parsing.untrusted import DamagedError, read_bytes, text_of, yaml_of
from exercises.exercism.reporting.columns import OURS, SUMS, Column, summary
from reports.data.jsonvalues import integer, number
from reports.statistics.methods import Share, wilson

RECORD = "record.yml"
_MOST_BYTES = 1 << 20
_FIX = "correct it, or choose another file"
Record = Mapping[str, Any]
"""One published run; any key may be missing."""


def record_of(column: Column) -> dict[str, Any]:
    """Return a column as a record: the leaderboard's keys in its order, then ours."""
    found, facts, name = summary(column), column.facts, column.name
    every = [*column.results.values()]
    counted = {key.removeprefix("num_"): found.sums[key] for key in SUMS}
    malformed = counted.pop("malformed_responses")
    keys = ("editor_model", "editor_edit_format", "reasoning_effort", "thinking_tokens")
    settings = {
        key: [v for r in every if (v := getattr(r, key)) is not None] for key in keys
    }
    around = [share.interval for share in found.solved]
    intervals = [i and [round(100 * i.low, 1), round(100 * i.high, 1)] for i in around]
    return {
        "dirname": f"{column.run}--{name.folder}" if facts.version else column.run,
        "test_cases": found.completed,
        "model": name.model,
        "edit_format": name.edit_format,
        "commit_hash": ", ".join(
            sorted({r.commit_hash for r in every if r.commit_hash})
        ),
        **{key: values[0] for key, values in settings.items() if values},
        **_numbered("pass_rate", [_percent(share) for share in found.solved]),
        **_numbered("pass_num", [share.count for share in found.solved]),
        "percent_cases_well_formed": _percent(found.well_formed),
        "error_outputs": counted.pop("error_outputs"),
        "num_malformed_responses": malformed,
        "num_with_malformed_responses": found.completed - found.well_formed.count,
        **counted,
        "total_tests": found.selected,
        "command": facts.command,
        "date": facts.started,
        "versions": facts.version,
        "seconds_per_case": _rounded(found.seconds_each, 1),
        "total_cost": None if found.dollars is None else round(float(found.dollars), 4),
        "repeat": name.repeat,
        "solved_of_total": f"{found.solved[-1].count} of {found.selected}",
        **_numbered("pass_interval", intervals),
        **{key: found.sums[key] for key in OURS},
        "cost_per_solved": _rounded(as_number(found.dollars_per_solved), 4),
        "exercises_commit": facts.exercises_commit,
        "exercises_sha256": facts.exercises_sha256,
        "profile": facts.profile,
        "tries": facts.tries,
        "timeout": facts.timeout,
        "test_lines": facts.test_lines,
        **({"not_completed": [*column.open]} if column.open else {}),
    }


def _numbered(key: str, values: list[Any]) -> dict[str, Any]:
    return {f"{key}_{number}": value for number, value in enumerate(values, 1)}


def _percent(share: Share) -> float | None:
    return None if share.share is None else round(100 * share.share, 1)


def _rounded(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places)


def write_records(path: Path, records: list[dict[str, Any]]) -> None:
    """Write records as a list of YAML with a blank line between two, atomically."""
    items = (
        yaml.safe_dump([record], sort_keys=False, allow_unicode=True, width=1_000_000)
        for record in records
    )
    write_text_atomic(path, "\n".join(items))


def read_records(path: Path) -> tuple[Record, ...]:
    """Return the records of a file; it may be anybody's."""
    try:
        value = yaml_of(text_of(read_bytes(path, _MOST_BYTES)), limit=_MOST_BYTES)
    except FileNotFoundError as error:
        raise DamagedFileError(path, "is missing", _FIX) from error
    except OSError as error:
        raise DamagedFileError(
            path, f"cannot be read ({error.strerror or error})", _FIX
        ) from error
    except DamagedError as error:
        raise DamagedFileError(path, f"is not YAML ({error})", _FIX) from error
    records = value if isinstance(value, list) else [None]
    for item, record in enumerate(records, 1):
        if not isinstance(record, dict) or not isinstance(record.get("model"), str):
            raise DamagedFileError(
                path, f"holds no record with a `model` as item {item}", _FIX
            )
    return tuple(records)


# Half of the last printed decimal, and what floating point adds.
_HALF = 0.05 + 1e-9
_PLACE = re.compile(r"pass_(rate|interval)_(\d+)")


@dataclass(frozen=True)
class RatioFault:
    """A ratio of a record that its counts do not give; ``why`` says what they give."""

    record: str
    key: str
    written: object
    why: str


def ratio_faults(record: Record) -> Iterator[RatioFault]:
    """Yield the ratios of a record that differ from what its own counts give.

    ``pass_rate_i`` is 100 × ``pass_num_i`` / ``test_cases``; where the number is missing, some
    whole number of cases must give the rate. The share of well-formed cases is 100 × (1 −
    ``num_with_malformed_responses`` / ``test_cases``); where that number is missing,
    ``num_malformed_responses`` bounds it. All have one decimal.
    """
    name = str(record.get("dirname") or record.get("model"))
    cases = integer(record.get("test_cases"))
    if not cases:
        return
    for key, written in record.items():
        why, rate = "", number(written)
        place = _PLACE.fullmatch(str(key))
        solved = integer(record.get(f"pass_num_{place[2]}")) if place else None
        if place and place[1] == "interval":
            why = _wrong_interval(written, solved, cases)
        elif place and rate is not None:
            why = _wrong_rate(record, rate, solved, cases)
        elif key == "percent_cases_well_formed" and rate is not None:
            why = _wrong_well_formed(record, rate, cases)
        if why:
            yield RatioFault(name, str(key), written, why)


def _wrong_rate(record: Record, written: float, solved: int | None, cases: int) -> str:
    if solved is None:
        return "" if _reachable(written, cases) else _unreachable(cases)
    if _equal(written, solved, cases):
        return ""
    every = integer(record.get("total_tests"))
    other = every is not None and every != cases and _equal(written, solved, every)
    hint = f"; of all {every} it is {_rate(solved, every)}" if other and every else ""
    return f"{solved} of {cases} is {_rate(solved, cases)}{hint}"


def _wrong_well_formed(record: Record, written: float, cases: int) -> str:
    malformed = integer(record.get("num_with_malformed_responses"))
    replies = integer(record.get("num_malformed_responses"))
    if malformed is None and replies == 0:
        malformed = 0
    if malformed is not None:
        if _equal(written, cases - malformed, cases):
            return ""
        well = cases - malformed
        return (
            f"{malformed} malformed cases of {cases} leave {well}, {_rate(well, cases)}"
        )
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


def _wrong_interval(written: object, solved: int | None, cases: int) -> str:
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
