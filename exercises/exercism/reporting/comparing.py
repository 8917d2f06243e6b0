"""Columns against each other: repeats, pairs, languages, the ranking, and what differs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from exercises.exercism.reporting.columns import Column, solved_after
from exercises.exercism.results import ExerciseStatus
from reports.statistics.methods.intervals import Interval, Share
from reports.statistics.methods.paired import PairedTable, bootstrap_difference, mcnemar_exact


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


@dataclass(frozen=True)
class OutcomeDifference:
    """An exercise with another outcome in another run; None where it is not completed."""

    column: str
    exercise: str
    a: ExerciseStatus | None
    b: ExerciseStatus | None


@dataclass(frozen=True)
class Variants:
    """What differs between results although nothing that was sent does.

    Attributes:
        requests: distinct requests that were sent more than once.
        varied: those of them that received different replies.
        replies: distinct replies to these.
        bubble: by model and format, exercises whose verdict is not the same in all repeats.
    """

    requests: int
    varied: int
    replies: int
    bubble: Mapping[str, tuple[str, ...]]


def series_of(columns: Sequence[Column]) -> dict[str, list[Column]]:
    """Return the repeats of each run, model and format, by their common label."""
    found: dict[tuple[str, str, str], list[Column]] = defaultdict(list)
    for column in columns:
        found[column.series].append(column)
    return {every[0].label.partition(" #")[0]: every for every in found.values()}


def spreads(columns: Sequence[Column]) -> tuple[RepeatSpread, ...]:
    """Return mean, least and greatest share of those that have several repeats."""
    spreads = []
    for label, every in series_of(columns).items():
        for tries in range(1, every[0].facts.tries + 1):
            found = (solved_after([*c.results.values()], tries).share for c in every)
            shares = tuple(share for share in found if share is not None)
            if len(shares) > 1:
                spread = fmean(shares), min(shares), max(shares)
                spreads.append(RepeatSpread(label, tries, shares, *spread))
    return tuple(spreads)


def column_pairs(columns: Sequence[Column]) -> tuple[ColumnPair, ...]:
    """Compare any two columns of the same repeat; repeats of one column are in ``spreads``."""
    return tuple(_pair(a, b) for a, b in combinations(columns, 2) if a.name.repeat == b.name.repeat)


def _pair(a: Column, b: Column) -> ColumnPair:
    of_a, of_b = a.verdicts, b.verdicts
    common = sorted({*of_a} & {*of_b})
    table = PairedTable.of((of_a[key], of_b[key]) for key in common)
    return ColumnPair(
        a=a.label,
        b=b.label,
        table=table,
        p_value=mcnemar_exact(table.only_a, table.only_b) if common else None,
        difference=table.difference if common else None,
        interval=bootstrap_difference(table),
        only_a=tuple(key for key in common if of_a[key] and not of_b[key]),
        only_b=tuple(key for key in common if of_b[key] and not of_a[key]),
    )


def by_language(columns: Sequence[Column]) -> dict[str, dict[str, Share]]:
    found = {}
    for column in columns:
        groups: dict[str, list[bool]] = defaultdict(list)
        for key, solved in sorted(column.verdicts.items()):
            groups[key.partition("/")[0]].append(solved)
        found[column.label] = {n: Share.made(sum(one), len(one)) for n, one in groups.items()}
    return found


def ranking(columns: Sequence[Column]) -> tuple[RankedExercise, ...]:
    """Return the exercises, those that the fewest columns solve first."""
    found: dict[str, list[bool]] = defaultdict(list)
    for column in columns:
        for key, solved in column.verdicts.items():
            found[key].append(solved)
    ranked = (RankedExercise(key, sum(every), len(every)) for key, every in found.items())
    return tuple(sorted(ranked, key=lambda one: (one.solved / one.completed, one.exercise)))


def outcome_differences(
    a: Sequence[Column], b: Sequence[Column]
) -> tuple[tuple[OutcomeDifference, ...], tuple[str, ...]]:
    """Compare the columns of two runs, and name those that only one of them has.

    Solved at another try counts as the same outcome.
    """
    of_a, of_b = (
        {f"{c.name.model}@{c.name.edit_format} #{c.name.repeat}": c for c in columns}
        for columns in (a, b)
    )
    found = tuple(
        OutcomeDifference(name, key, left, right)
        for name in of_a
        if name in of_b
        for key in sorted({*of_a[name].facts.exercises} | {*of_b[name].facts.exercises})
        if (left := _status(of_a[name], key)) != (right := _status(of_b[name], key))
    )
    return found, tuple(sorted({*of_a} ^ {*of_b}))


def _status(column: Column, key: str) -> ExerciseStatus | None:
    return column.results[key].status if key in column.results else None


def variants(columns: Sequence[Column]) -> Variants:
    sent: dict[str, list[str]] = defaultdict(list)
    for column in columns:
        for result in column.results.values():
            for request, reply in result.chat_hashes:
                if request:  # known
                    sent[request].append(reply)
    again = [{*replies} for replies in sent.values() if len(replies) > 1]
    varied = [replies for replies in again if len(replies) > 1]
    bubble = {}
    for label, repeats in series_of(columns).items():
        found: dict[str, set[bool]] = defaultdict(set)
        for column in repeats:
            for key, solved in column.verdicts.items():
                found[key].add(solved)
        if keys := sorted(key for key, verdicts in found.items() if len(verdicts) > 1):
            bubble[label] = tuple(keys)
    return Variants(len(again), len(varied), sum(map(len, varied)), bubble)
