"""What pictures show: plain numbers, so that drawing needs to know nothing of runs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class AttemptBar:
    """The predictions that one attempt number gave.

    Attributes:
        attempt: from 1 over the whole instance.
        score: share of the selected instances resolved by this attempt number or an earlier one.
    """

    attempt: int
    resolved: int
    unresolved: int
    not_evaluated: int
    score: float


@dataclass(frozen=True)
class Step:
    """What a run with at most ``attempts`` attempts per instance would have cost and resolved."""

    attempts: int
    dollars: Decimal
    score: float


@dataclass(frozen=True)
class RepositoryBar:
    """One model's predictions in one repository."""

    repository: str
    model: str
    resolved: int
    predicted: int


@dataclass(frozen=True)
class Confusion:
    """Evaluated predictions: plausible or not, resolved or not."""

    plausible_resolved: int
    plausible_unresolved: int
    other_resolved: int
    other_unresolved: int


@dataclass(frozen=True)
class Score:
    """A run's score with its interval; shares between 0 and 1.

    Attributes:
        official: swebench itself evaluated it.
    """

    run: str
    resolved: int
    selected: int
    low: float
    high: float
    official: bool

    @property
    def share(self) -> float:
        """The resolved ones' share of the selected instances."""
        return self.resolved / self.selected if self.selected else 0.0


@dataclass(frozen=True)
class FigureData:
    """What the pictures of a report show; an empty part gives no picture.

    Attributes:
        scores: of the run and of those it is compared with.
    """

    attempts: tuple[AttemptBar, ...] = ()
    steps: tuple[Step, ...] = ()
    repositories: tuple[RepositoryBar, ...] = ()
    confusion: Confusion | None = None
    scores: tuple[Score, ...] = ()
