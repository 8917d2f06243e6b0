"""The results of runs by column, and what each column comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from statistics import fmean

from core.errors import UserError
from core.money import Dollars, total
from exercises.exercism.facts import ColumnName, RunFacts, read_facts
from exercises.exercism.results import (
    AIDER_CHAT,
    ExerciseResult,
    aider_folders,
    read_aider_result,
    read_result,
    result_path,
)
from reports.statistics.methods.intervals import Share

# In the leaderboard's order.
SUMS = (
    "num_error_outputs", "num_malformed_responses", "num_user_asks", "lazy_comments",
    "syntax_errors", "indentation_errors", "num_exhausted_context_windows", "prompt_tokens",
    "completion_tokens", "test_timeouts",
)  # fmt: skip
OURS = (
    "whole_file_blocks", "hallucinated_functions", "foreign_edits", "ambiguous_edits", "truncated",
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One model in one edit format, once, of a run.

    Attributes:
        label: unique among the columns of a report.
        results: the completed ones, by the keys of exercises.
        chats: where the transcripts of exercises lie, if they are there.
    """

    run: str
    folder: Path
    name: ColumnName
    facts: RunFacts
    results: Mapping[str, ExerciseResult]
    chats: Mapping[str, Path]
    label: str = ""

    @property
    def open(self) -> tuple[str, ...]:
        """Exercises without a result: not run, interrupted, infrastructure, broken."""
        return tuple(key for key in self.facts.exercises if key not in self.results)

    @property
    def verdicts(self) -> dict[str, bool]:
        return {key: result.solved_at is not None for key, result in self.results.items()}

    @property
    def series(self) -> tuple[str, str, str]:
        """What repeats have in common: run, model, edit format."""
        return self.run, self.name.model, self.name.edit_format


@dataclass(frozen=True)
class ColumnSummary:
    """The sums of a column; shares are of completed exercises.

    Attributes:
        solved: after try 1, 2, …
        dollars: None if a cost is unknown; also ``dollars_per_solved``, or without a solved one.
        seconds_each: of calls, for an exercise; None without one.
    """

    label: str
    completed: int
    selected: int
    solved: tuple[Share, ...]
    well_formed: Share
    dollars: Dollars | None
    dollars_per_solved: Dollars | None
    seconds_each: float | None
    sums: Mapping[str, int] = field(default_factory=dict)


def summary(column: Column) -> ColumnSummary:
    every = [*column.results.values()]
    solved = tuple(solved_after(every, number) for number in range(1, column.facts.tries + 1))
    cost = total(result.cost for result in every)
    count = solved[-1].count
    return ColumnSummary(
        label=column.label,
        completed=len(every),
        selected=len(column.facts.exercises),
        solved=solved,
        well_formed=Share.made(sum(not r.num_malformed_responses for r in every), len(every)),
        dollars=cost,
        dollars_per_solved=None if cost is None or not count else cost / Decimal(count),
        seconds_each=fmean(result.duration for result in every) if every else None,
        sums={key: sum(getattr(result, key) for result in every) for key in SUMS}
        | {key: sum(getattr(result.extra, key) for result in every) for key in OURS},
    )


def solved_after(results: Sequence[ExerciseResult], tries: int) -> Share:
    return Share.made(sum(0 < (r.solved_at or 0) <= tries for r in results), len(results))


def read_columns(
    runs: Sequence[Path], say: Callable[[str], None], *, allow_partial: bool = False
) -> tuple[Column, ...]:
    """Return the columns of runs of ours or of aider's benchmark.

    With ``allow_partial`` broken results are left out, count as open, and get a line of ``say``.
    """
    left_out = say if allow_partial else None
    found = list[Column]()
    for run in dict.fromkeys(path.expanduser().resolve() for path in runs):
        if folders := aider_folders(run):
            found.append(_column_of_aider(run, folders, left_out))
            continue
        facts = read_facts(run)
        for name in facts.columns:
            paths = {
                key: result_path(run, name.model, name.edit_format, name.repeat, key)
                for key in facts.exercises
            }
            chats = {key: path.with_suffix(".md") for key, path in paths.items()}
            results = _results(paths, read_result, left_out)
            found.append(Column(run.name, run, name, facts, results, chats))
    return tuple(replace(column, label=_label(column, found)) for column in found)


def _column_of_aider(
    run: Path, folders: Mapping[str, Path], say: Callable[[str], None] | None
) -> Column:
    """Return a run as aider's own summary does: several models or formats, joined, are one."""
    results = _results(folders, read_aider_result, say)
    models = dict.fromkeys(result.model for result in results.values())
    forms = dict.fromkeys(result.edit_format for result in results.values())
    name = ColumnName(model=", ".join(models), edit_format=", ".join(forms), repeat=1)
    tries = max([1, *(len(result.tests_outcomes) for result in results.values())])
    facts = RunFacts(
        columns=(name,), exercises=tuple(folders), tries=tries, timeout=180.0, started=run.name[:10]
    )
    chats = {key: folder / AIDER_CHAT for key, folder in folders.items()}
    return Column(run.name, run, name, facts, results, chats)


def _results(
    places: Mapping[str, Path],
    read: Callable[[Path], ExerciseResult],
    say: Callable[[str], None] | None,
) -> dict[str, ExerciseResult]:
    results = {}
    for key, place in places.items():
        try:
            result = read(place)
        except FileNotFoundError:
            continue
        except UserError as error:
            if say is None:
                raise UserError(f"{error}; or leave it out with --allow-partial") from error
            say(f"left out: {error}")
            continue
        if result.status.is_result:
            results[key] = result
    return results


def _label(column: Column, every: Sequence[Column]) -> str:
    name = column.name
    alike = [o for o in every if o.series == column.series]
    runs = {o.run for o in every if o.series[1:] == column.series[1:]}
    first = f"{column.run}: " if len(runs) > 1 else ""
    last = f" #{name.repeat}" if len(alike) > 1 else ""
    return f"{first}{name.model}@{name.edit_format}{last}"
