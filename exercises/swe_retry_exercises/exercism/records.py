"""Columns of runs, and the records in which leaderboards publish them, ours and others'."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

import yaml

from swe_retry.kit import (
    DamagedError,
    DamagedFileError,
    InstanceStatus,
    UserError,
    integer,
    number,
    read_bytes,
    read_object,
    text_of,
    total,
    wilson,
    write_text_atomic,
    yaml_of,
)
from swe_retry_exercises.exercism.results import (
    FIX,
    ColumnName,
    ExerciseResult,
    RunFacts,
    read_facts,
    read_result,
    result_of,
)
from swe_retry_exercises.values import JsonMapping, JsonObject, Say

RECORD = "record.yml"
_MAX_BYTES = 1 << 20
_FIX = "correct it, or choose another file"
Record = JsonMapping
"""One published run; any key may be missing."""
_SETTINGS = (
    "editor_model",
    "editor_edit_format",
    "reasoning_effort",
    "thinking_tokens",
)
_FACTS = {
    "exercises_commit",
    "exercises_sha256",
    "profile",
    "tries",
    "timeout",
    "test_lines",
}
# Half of the last printed decimal, and what floating point adds.
_HALF = 0.05 + 1e-9
_RATIO = re.compile(r"pass_(rate|interval)_(\d+)")


def record_of(column: Column) -> JsonObject:
    """Return a column as a record: the leaderboard's keys in its order, then ours."""
    facts = column.facts
    results = column.results.values()
    dirname = column.folder.name
    if facts.version:
        dirname += f"--{column.name.folder}"
    cases = len(results)
    tries = range(1, facts.tries + 1)
    first_tries = Counter(result.solved_at for result in results)
    sums = _sums(results)
    malformed = sum(result.num_malformed_responses > 0 for result in results)
    record: JsonObject = {
        "dirname": dirname,
        "test_cases": cases,
        "model": column.name.model,
        "edit_format": column.name.edit_format,
        "commit_hash": ", ".join(
            sorted({result.commit_hash for result in results} - {""})
        ),
    }
    for key in _SETTINGS:
        for result in results:
            if getattr(result, key) is not None:
                record.setdefault(key, getattr(result, key))
    solved = 0
    counts = {}
    for attempt in tries:
        solved += first_tries[attempt]
        counts[f"pass_num_{attempt}"] = solved
        record[f"pass_rate_{attempt}"] = _percent(solved, cases)
    cost = total(result.cost for result in results)
    record |= {
        **counts,
        "percent_cases_well_formed": _percent(cases - malformed, cases),
        "error_outputs": sums["num_error_outputs"],
        "num_malformed_responses": sums["num_malformed_responses"],
        "num_with_malformed_responses": malformed,
        "user_asks": sums["num_user_asks"],
        "lazy_comments": sums["lazy_comments"],
        "syntax_errors": sums["syntax_errors"],
        "indentation_errors": sums["indentation_errors"],
        "exhausted_context_windows": sums["num_exhausted_context_windows"],
        "prompt_tokens": sums["prompt_tokens"],
        "completion_tokens": sums["completion_tokens"],
        "test_timeouts": sums["test_timeouts"],
        "total_tests": len(facts.exercises),
        "command": facts.command,
        "date": facts.started,
        "versions": facts.version,
        "seconds_per_case": None,
        "total_cost": None if cost is None else round(float(cost), 4),
        "repeat": column.name.repeat,
        "solved_of_total": f"{solved} of {len(facts.exercises)}",
    }
    if results:
        seconds = fmean(result.duration for result in results)
        record["seconds_per_case"] = round(seconds, 1)
    for attempt in tries:
        interval = pass_interval(record, attempt)
        if interval is not None:
            interval = [round(interval[0], 1), round(interval[1], 1)]
        record[f"pass_interval_{attempt}"] = interval
    cost_per_solved = None
    if solved and cost is not None:
        cost_per_solved = round(float(cost / solved), 4)
    record |= {
        "whole_file_blocks": sums["whole_file_blocks"],
        "hallucinated_functions": sums["hallucinated_functions"],
        "foreign_edits": sums["foreign_edits"],
        "ambiguous_edits": sums["ambiguous_edits"],
        "truncated": sums["truncated"],
        "cost_per_solved": cost_per_solved,
        **facts.model_dump(include=_FACTS),
    }
    if column.open:
        record["not_completed"] = column.open
    return record


def _sums(results: Iterable[ExerciseResult]) -> Counter[str]:
    """Return the sums of all counts by their names in results."""
    sums: Counter[str] = Counter()
    for result in results:
        for name, value in (*result, *result.extra):
            if type(value) is int:
                sums[name] += value
    return sums


def _percent(count: int, of: int) -> float | None:
    return round(100 * count / of, 1) if of else None


def pass_interval(record: Record, tries: int | str) -> list[float] | None:
    """Return Wilson's interval of a pass rate in per cent; None where counts do not give it."""
    cases = integer(record.get("test_cases"))
    solved = integer(record.get(f"pass_num_{tries}"))
    if not cases or solved is None or solved > cases:
        return None
    interval = wilson(solved, cases)
    return [100 * interval.low, 100 * interval.high]


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as a list of YAML with a blank line between two, atomically."""
    items = []
    for record in records:
        text = yaml.safe_dump(
            [record], sort_keys=False, allow_unicode=True, width=10**6
        )
        items.append(text)
    write_text_atomic(path, "\n".join(items))


def read_records(path: Path) -> list[Record]:
    """Return the records of a file; it may be anybody's."""
    try:
        records = yaml_of(
            text_of(read_bytes(path, _MAX_BYTES)),
            limit=_MAX_BYTES,
        )
    except OSError as error:
        fault = f"cannot be read ({error.strerror or error})"
        raise DamagedFileError(path, fault, _FIX) from error
    except DamagedError as error:
        raise DamagedFileError(path, f"is not YAML ({error})", _FIX) from error
    if not isinstance(records, list):
        records = [records]
    for position, record in enumerate(records, 1):
        if not isinstance(record, dict) or not isinstance(record.get("model"), str):
            fault = f"holds no record with a `model` as item {position}"
            raise DamagedFileError(path, fault, _FIX)
    return records


def wrong_ratios(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the keys of ratios that differ from what the record's own counts give, and why.

    ``pass_rate_i`` is 100 × ``pass_num_i`` / ``test_cases``; where the number is missing, some
    whole number of cases must give the rate. The share of well-formed cases is 100 × (1 −
    ``num_with_malformed_responses`` / ``test_cases``); where that number is missing,
    ``num_malformed_responses`` bounds it. All have one decimal.
    """
    cases = integer(record.get("test_cases"))
    if not cases:
        return
    for key, value in record.items():
        fault = ""
        ratio = _RATIO.fullmatch(str(key))
        rate = number(value)
        if ratio and ratio[1] == "interval":
            fault = _interval_fault(value, pass_interval(record, ratio[2]))
        elif ratio and rate is not None:
            solved = integer(record.get(f"pass_num_{ratio[2]}"))
            counts = (0, cases) if solved is None else (solved, solved)
            fault = _rate_fault(rate, counts, cases, record)
        elif key == "percent_cases_well_formed" and rate is not None:
            fault = _rate_fault(
                rate,
                _well_formed(record, cases),
                cases,
                record,
            )
        if fault:
            yield key, fault


def _well_formed(record: Record, cases: int) -> tuple[int, int]:
    """Return the least and the greatest number of well-formed cases."""
    malformed = integer(record.get("num_with_malformed_responses"))
    if malformed is not None:
        return cases - malformed, cases - malformed
    replies = integer(record.get("num_malformed_responses"))
    if replies is None:
        return 0, cases
    # Each malformed case has at least one malformed reply, and each reply belongs to a case.
    return max(0, cases - replies), cases - (replies > 0)


def _rate_fault(
    rate: float,
    counts: tuple[int, int],
    cases: int,
    record: Record,
) -> str:
    """Return why no number from the least to the greatest count gives the rate."""
    least, greatest = counts
    near = min(rate, 100.0) * cases / 100
    for count in (math.floor(near), math.ceil(near), *counts):
        if least <= count <= greatest and _gives(count, cases, rate):
            return ""
    if counts == (0, cases):
        return f"no whole number of {cases} cases gives it"
    if least < greatest:
        return f"no number from {least} to {greatest} of {cases} cases gives it"
    fault = f"{least} of {cases} is {100 * least / cases:.1f}"
    every = integer(record.get("total_tests"))
    if every and every != cases and _gives(least, every, rate):
        fault += f"; of all {every} it is {rate}"
    return fault


def _gives(count: int, of: int, rate: float) -> bool:
    return abs(100 * count / of - rate) <= _HALF


def _interval_fault(value: object, interval: list[float] | None) -> str:
    if interval is None or not isinstance(value, list) or len(value) != 2:
        return ""
    for bound, expected in zip(
        value,
        interval,
        strict=True,
    ):
        bound = number(bound)
        if bound is None or abs(bound - expected) > _HALF:
            return (
                f"its counts give {interval[0]:.1f} to {interval[1]:.1f} (Wilson, 95 %)"
            )
    return ""


NOT_COMPLETED = "not completed"
_AIDER_RESULT = ".aider.results.json"
_AIDER_CHAT = ".aider.chat.history.md"


@dataclass
class Column:
    """One model in one edit format, once, of a run.

    Attributes:
        paths: where the results of exercises lie, by key, if they are there.
        results: the completed ones, by key.
        label: unique among the columns of a report.
    """

    folder: Path
    name: ColumnName
    facts: RunFacts
    paths: Mapping[str, Path]
    results: Mapping[str, ExerciseResult]
    label: str = ""

    @property
    def series(self) -> tuple[str, ...]:
        """What repeats have in common."""
        return self.folder.name, self.name.model, self.name.edit_format

    record = cached_property(record_of)
    """The column as leaderboards publish it."""

    @property
    def open(self) -> list[str]:
        """Exercises without a result: not run, interrupted, infrastructure, broken."""
        return [key for key in self.facts.exercises if key not in self.results]

    def transcript(self, key: str) -> Path:
        """Return where the transcript of an exercise lies, if it is there."""
        path = self.paths.get(key, Path())
        if path.name == _AIDER_RESULT:
            return path.with_name(_AIDER_CHAT)
        return path.parent / f"{path.stem}.md"

    @property
    def verdicts(self) -> dict[str, bool]:
        solved = {}
        for key, result in self.results.items():
            solved[key] = bool(result.solved_at)
        return solved

    def ending(self, key: str) -> str:
        """Return how an exercise ended; empty where the run has no such exercise."""
        if key not in self.results:
            return NOT_COMPLETED if key in self.facts.exercises else ""
        result = self.results[key]
        return f"{result.status} {result.solved_at or ''}".rstrip()


def read_columns(
    runs: Sequence[Path],
    say: Say,
    *,
    allow_partial: bool = False,
) -> list[Column]:
    """Return the columns of runs of ours or of aider's benchmark.

    With ``allow_partial`` broken results are left out, count as open, and get a line of ``say``.
    """

    def results_of(
        paths: Mapping[str, Path],
        read: Callable[[Path], ExerciseResult],
    ) -> dict[str, ExerciseResult]:
        results = {}
        for key, path in paths.items():
            try:
                results[key] = read(path)
            except FileNotFoundError:
                continue
            except UserError as error:
                if not allow_partial:
                    fix = "or leave it out by report.allow_partial=true"
                    raise UserError(f"{error}; {fix}") from error
                say(f"left out: {error}")
        return results

    columns = []
    for run in dict.fromkeys(path.expanduser().resolve() for path in runs):
        paths = _aider_results(run)
        if paths:
            columns.append(
                _aider_column(
                    run,
                    paths,
                    results_of(paths, _read_aider),
                )
            )
            continue
        facts = read_facts(run)
        for name in facts.columns:
            paths = {key: name.result_path(run, key) for key in facts.exercises}
            results = results_of(paths, read_result)
            columns.append(
                Column(
                    run,
                    name,
                    facts,
                    paths,
                    results,
                )
            )
    for column in columns:
        column.label = _label(column, columns)
    return columns


def series_of(columns: Iterable[Column]) -> Iterable[list[Column]]:
    """Return the columns with results, repeats together."""
    series = defaultdict(list)
    for column in columns:
        if column.results:
            series[column.series].append(column)
    return series.values()


def write_run_records(columns: Sequence[Column]) -> None:
    """Write the records of each run into its folder."""
    records = defaultdict(list)
    for column in columns:
        records[column.folder].append(column.record)
    for folder in records:
        write_records(folder / RECORD, records[folder])


def _label(column: Column, columns: Sequence[Column]) -> str:
    run, *name = column.series
    runs = []
    for other in columns:
        other_run, *other_name = other.series
        if other_name == name:
            runs.append(other_run)
    label = "@".join(name)
    if len(set(runs)) > 1:
        label = f"{run}: {label}"
    if runs.count(run) > 1:
        label += f" #{column.name.repeat}"
    return label


def _aider_results(run: Path) -> dict[str, Path]:
    """Return the paths of results in a run of aider's benchmark, by key; none in another run.

    They lie in ``LANGUAGE/exercises/practice/NAME``, and in ``NAME`` in runs of 2023.
    """
    paths = {}
    for folder in run.glob("*/exercises/practice/*/"):
        key = f"{folder.parents[2].name}/{folder.name}"
        paths[key] = folder / _AIDER_RESULT
    if not paths:
        for mark in (*run.glob("*/.docs"), *run.glob(f"*/{_AIDER_RESULT}")):
            paths[f"python/{mark.parent.name}"] = mark.with_name(_AIDER_RESULT)
    if any(path.exists() for path in paths.values()):
        return dict(sorted(paths.items()))
    return {}


def _read_aider(path: Path) -> ExerciseResult:
    data = read_object(path, FIX)
    if data.get("exception") is not None:  # a crash has no result
        raise FileNotFoundError(path)
    known: JsonObject = {}
    for key, value in data.items():
        if value is not None:
            known[key] = value
    outcomes = known.get("tests_outcomes")
    status = InstanceStatus.FAILED
    if isinstance(outcomes, list) and True in outcomes:
        status = InstanceStatus.SOLVED
    return result_of(
        {**known, "extra": {"status": status, "language": ""}},
        path,
    )


def _aider_column(
    run: Path,
    paths: Mapping[str, Path],
    results: Mapping[str, ExerciseResult],
) -> Column:
    """Return a run as aider's own summary does: several models or formats, joined, are one."""
    models: dict[str, None] = {}
    formats: dict[str, None] = {}
    tries = 1
    for result in results.values():
        models[result.model] = None
        formats[result.edit_format] = None
        tries = max(tries, len(result.tests_outcomes))
    name = ColumnName(
        model=", ".join(models),
        edit_format=", ".join(formats),
        repeat=1,
    )
    facts = RunFacts(
        columns=(name,),
        exercises=tuple(paths),
        tries=tries,
        timeout=180.0,
        started=run.name[:10],
    )
    return Column(run, name, facts, paths, results)
