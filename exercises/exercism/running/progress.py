"""How far runs are: solved so far by column, dollars, and what a whole run may cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import fmean, variance

from core.money import in_words, known_sum, total
from exercises.exercism.results import (
    ColumnName,
    ExerciseResult,
)

# Of the normal distribution: 95 % lie below this many deviations above the mean, one-sided.
_DEVIATIONS = 1.645


@dataclass
class ColumnProgress:
    """A column of a run so far; ``solved`` has the try, from 1, of each solved exercise."""

    label: str
    selected: int
    costs: list[Decimal | None] = field(default_factory=list)
    solved: list[int] = field(default_factory=list)

    @property
    def left(self) -> int:
        return max(self.selected - len(self.costs), 0)

    def add(self, result: ExerciseResult) -> None:
        self.costs.append(result.cost)
        if result.solved_at:
            self.solved.append(result.solved_at)

    def line(self) -> str:
        first = self.solved.count(1)
        done = f"{len(self.costs)} of {self.selected} done"
        solved = f"{len(self.solved)} solved ({first} in the first try)"
        return f"{self.label}: {done}, {solved}, {in_words(total(self.costs))}"


@dataclass
class RunProgress:
    columns: dict[ColumnName, ColumnProgress]

    @classmethod
    def of(cls, columns: Iterable[ColumnName], exercises: int) -> RunProgress:
        return cls({name: ColumnProgress(name.label, exercises) for name in columns})

    def add(self, result: ExerciseResult) -> None:
        if result.column in self.columns:
            self.columns[result.column].add(result)

    def lines(self) -> list[str]:
        every = [*self.columns.values()]
        lines = [column.line() for column in every]
        costs = [cost for column in every for cost in column.costs]
        spent = f"cost: {in_words(known_sum(costs))}"
        if None in costs:
            lines.append(f"{spent} and what is unknown")
        elif projection := projected(every):
            mean, bound = map(in_words, projection)
            lines.append(f"{spent} of about {mean}, at most {bound} (95 %)")
        elif costs:
            lines.append(spent)
        return lines


def projected(columns: Sequence[ColumnProgress]) -> tuple[Decimal, Decimal] | None:
    """Return the dollars of the whole run as they are expected, and a bound for them.

    An exercise that is left is expected to cost the mean of its column, else of all. The bound
    holds in 95 % of cases for independent costs: the variance of the sum of those that are left,
    and that of the mean by which they are estimated. None if nothing is left or done, or a cost
    is unknown.
    """
    known = [
        [float(cost) for cost in column.costs if cost is not None] for column in columns
    ]
    every = [cost for costs in known for cost in costs]
    left = sum(column.left for column in columns)
    if (
        not every
        or not left
        or len(every) < sum(len(column.costs) for column in columns)
    ):
        return None
    mean, squares = sum(every), 0.0
    for column, own in zip(columns, known, strict=True):
        costs = own if len(own) > 1 else every
        mean += column.left * fmean(own or every)
        if len(costs) > 1:
            squares += variance(costs) * column.left * (1 + column.left / len(costs))
    bound = mean + _DEVIATIONS * squares**0.5
    return Decimal(repr(mean)), Decimal(repr(bound))
