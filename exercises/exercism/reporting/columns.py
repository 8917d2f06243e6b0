"""The results of runs by column, what each column comes to, and columns against each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from statistics import fmean

from core.errors import UserError
from core.money import Dollars, total
from exercises.exercism.results import (
    AIDER_CHAT,
    ColumnName,
    ExerciseResult,
    RunFacts,
    aider_folders,
    read_aider_result,
    read_facts,
    read_result,
)
from reports.statistics.comparing import compare_verdicts
from reports.statistics.methods import Interval, PairedTable, Share

# In the leaderboard's order.
SUMS = (
    "num_error_outputs", "num_malformed_responses", "num_user_asks", "lazy_comments",
    "syntax_errors", "indentation_errors", "num_exhausted_context_windows", "prompt_tokens",
    "completion_tokens", "test_timeouts",
)  # fmt: skip
OURS = (
    "whole_file_blocks",
    "hallucinated_functions",
    "foreign_edits",
    "ambiguous_edits",
    "truncated",
)


@dataclass(frozen=True)
class Column:
    """One model in one edit format, once, of a run.

    Attributes:
        label: unique among the columns of a report.
        results: the completed ones, by the keys of exercises.
        chats: where the transcripts of exercises lie, if they are there.
    """

    folder: Path
    name: ColumnName
    facts: RunFacts
    results: Mapping[str, ExerciseResult]
    chats: Mapping[str, Path]
    label: str = ""

    @property
    def run(self) -> str:
        return self.folder.name

    @property
    def open(self) -> tuple[str, ...]:
        """Exercises without a result: not run, interrupted, infrastructure, broken."""
        return tuple(key for key in self.facts.exercises if key not in self.results)

    @property
    def verdicts(self) -> dict[str, bool]:
        return {
            key: result.solved_at is not None for key, result in self.results.items()
        }

    def solved_after(self, tries: int) -> Share:
        every = self.results.values()
        return Share.made(
            sum(0 < (r.solved_at or 0) <= tries for r in every), len(every)
        )

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
    solved = tuple(column.solved_after(n) for n in range(1, column.facts.tries + 1))
    cost = total(result.cost for result in every)
    count = solved[-1].count
    return ColumnSummary(
        label=column.label,
        completed=len(every),
        selected=len(column.facts.exercises),
        solved=solved,
        well_formed=Share.made(
            sum(not r.num_malformed_responses for r in every), len(every)
        ),
        dollars=cost,
        dollars_per_solved=None if cost is None or not count else cost / Decimal(count),
        seconds_each=fmean(result.duration for result in every) if every else None,
        sums={key: sum(getattr(result, key) for result in every) for key in SUMS}
        | {key: sum(getattr(result.extra, key) for result in every) for key in OURS},
    )


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
            paths = {key: name.result_path(run, key) for key in facts.exercises}
            chats = {key: path.with_suffix(".md") for key, path in paths.items()}
            results = _results(paths, read_result, left_out)
            found.append(Column(run, name, facts, results, chats))
    labelled = list[Column]()
    for column in found:
        name = column.name
        repeats = sum(other.series == column.series for other in found)
        named = {other.run for other in found if other.series[1:] == column.series[1:]}
        first = f"{column.run}: " if len(named) > 1 else ""
        last = f" #{name.repeat}" if repeats > 1 else ""
        label = f"{first}{name.model}@{name.edit_format}{last}"
        labelled.append(replace(column, label=label))
    return tuple(labelled)


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
        columns=(name,),
        exercises=tuple(folders),
        tries=tries,
        timeout=180.0,
        started=run.name[:10],
    )
    chats = {key: folder / AIDER_CHAT for key, folder in folders.items()}
    return Column(run, name, facts, results, chats)


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
                raise UserError(
                    f"{error}; or leave it out by report.allow_partial=true"
                ) from error
            say(f"left out: {error}")
            continue
        results[key] = result
    return results


@dataclass(frozen=True)
class RepeatSpread:
    label: str
    tries: int
    shares: tuple[float, ...]
    mean: float
    least: float
    greatest: float


@dataclass(frozen=True)
class ColumnPair:
    """Two columns on the exercises that are completed in both.

    Attributes:
        p_value: of McNemar's exact test; None without exercises.
        difference: the share of B minus that of A, and its 95 % ``interval`` by paired bootstrap.
    """

    a: str
    b: str
    table: PairedTable
    p_value: float | None
    difference: float | None
    interval: Interval | None
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


@dataclass(frozen=True)
class RankedExercise:
    exercise: str
    solved: int
    completed: int


def series_of(columns: Sequence[Column]) -> dict[str, list[Column]]:
    """Return the repeats of each run, model and format, by their common label."""
    found: dict[tuple[str, str, str], list[Column]] = defaultdict(list)
    for column in columns:
        found[column.series].append(column)
    return {every[0].label.partition(" #")[0]: every for every in found.values()}


def spreads(columns: Sequence[Column]) -> tuple[RepeatSpread, ...]:
    """Return mean, least and greatest share of those that have several repeats."""
    found = []
    for label, every in series_of(columns).items():
        for tries in range(1, every[0].facts.tries + 1):
            solved = (column.solved_after(tries).share for column in every)
            shares = tuple(share for share in solved if share is not None)
            if len(shares) > 1:
                spread = fmean(shares), min(shares), max(shares)
                found.append(RepeatSpread(label, tries, shares, *spread))
    return tuple(found)


def column_pairs(columns: Sequence[Column]) -> tuple[ColumnPair, ...]:
    """Compare any two columns of the same repeat; repeats of one column are in ``spreads``."""
    pairs = list[ColumnPair]()
    for a, b in combinations(columns, 2):
        if a.name.repeat != b.name.repeat:
            continue
        found = compare_verdicts(a.label, a.verdicts, b.label, b.verdicts)
        kept = {one.name: getattr(found, one.name) for one in fields(ColumnPair)}
        pairs.append(ColumnPair(**kept))
    return tuple(pairs)


def by_language(columns: Sequence[Column]) -> dict[str, dict[str, Share]]:
    found = {}
    for column in columns:
        groups: dict[str, list[bool]] = defaultdict(list)
        for key, solved in sorted(column.verdicts.items()):
            groups[key.partition("/")[0]].append(solved)
        found[column.label] = {
            n: Share.made(sum(one), len(one)) for n, one in groups.items()
        }
    return found


def ranking(columns: Sequence[Column]) -> tuple[RankedExercise, ...]:
    """Return the exercises, those that the fewest columns solve first."""
    found: dict[str, list[bool]] = defaultdict(list)
    for column in columns:
        for key, solved in column.verdicts.items():
            found[key].append(solved)
    ranked = (
        RankedExercise(key, sum(every), len(every)) for key, every in found.items()
    )
    return tuple(
        sorted(ranked, key=lambda one: (one.solved / one.completed, one.exercise))
    )
