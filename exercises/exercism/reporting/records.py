"""Records: the lists of YAML in which leaderboards publish one run each, and our ``record.yml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from core.atomic import write_text_atomic
from core.errors import DamagedFileError
from core.money import as_number
from core.parsing.untrusted import DamagedError, read_bytes, text_of, yaml_of
from exercises.exercism.reporting.columns import OURS, SUMS, Column, summary
from exercises.exercism.results import column_folder
from reports.statistics.methods.intervals import Share

RECORD = "record.yml"
_MOST_BYTES = 1 << 20
_FIX = "correct it, or choose another file"
Record = Mapping[str, Any]
"""One published run; any key may be missing."""


def record_of(column: Column) -> dict[str, Any]:
    """Return a column as a record: the leaderboard's keys in its order, then ours."""
    found, facts, name = summary(column), column.facts, column.name
    every = [*column.results.values()]
    folder = column_folder(name.model, name.edit_format, name.repeat)
    counted = {key.removeprefix("num_"): found.sums[key] for key in SUMS}
    malformed = counted.pop("malformed_responses")
    keys = ("editor_model", "editor_edit_format", "reasoning_effort", "thinking_tokens")
    settings = {key: [v for r in every if (v := getattr(r, key)) is not None] for key in keys}
    around = [share.interval for share in found.solved]
    intervals = [i and [round(100 * i.low, 1), round(100 * i.high, 1)] for i in around]
    return {
        "dirname": f"{column.run}--{folder}" if facts.version else column.run,
        "test_cases": found.completed,
        "model": name.model,
        "edit_format": name.edit_format,
        "commit_hash": ", ".join(sorted({r.commit_hash for r in every if r.commit_hash})),
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
        value = yaml_of(text_of(read_bytes(path, _MOST_BYTES)), most=_MOST_BYTES)
    except FileNotFoundError as error:
        raise DamagedFileError(path, "is missing", _FIX) from error
    except OSError as error:
        raise DamagedFileError(path, f"cannot be read ({error.strerror or error})", _FIX) from error
    except DamagedError as error:
        raise DamagedFileError(path, f"is not YAML ({error})", _FIX) from error
    records = value if isinstance(value, list) else [None]
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or not isinstance(record.get("model"), str):
            raise DamagedFileError(path, f"holds no record with a `model` as item {number}", _FIX)
    return tuple(records)
