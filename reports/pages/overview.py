"""Pure: what the first page shows of a run besides its pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from reports.pages.instance import page_name
from reports.rundata import InstanceData, RunData


@dataclass(frozen=True)
class Card:
    """One number of the overview."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table of words and numbers; every row is as long as the head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Row:
    """One instance in the table.

    Attributes:
        page: address of its own page, empty where it has none.
        chosen: the attempt whose patch is predicted.
        verdict: one of ``VERDICTS``.
    """

    instance_id: str
    repo: str
    page: str
    status: str
    attempts: int
    chosen: int | None
    model: str
    cost: Decimal | None
    verdict: str

    @property
    def verdict_words(self) -> str:
        """The verdict with its sign."""
        return VERDICTS[self.verdict][0]

    @property
    def verdict_class(self) -> str:
        """The style of the verdict."""
        return VERDICTS[self.verdict][1]


VERDICTS = {
    "resolved": ("✓ resolved", "good"),
    "not_resolved": ("✗ not resolved", "bad"),
    "no_patch": ("✗ no patch", "bad"),
    "not_evaluated": ("– not evaluated", "wait"),
    "no_prediction": ("– no prediction", "wait"),
}


@dataclass(frozen=True)
class Overview:
    """The overview of a run.

    Attributes:
        notes: what the reader must know before the numbers.
    """

    name: str
    models: tuple[str, ...]
    notes: tuple[str, ...]
    cards: tuple[Card, ...]
    rows: tuple[Row, ...]
    tables: tuple[Table, ...]

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The verdicts that occur."""
        return _occurring(row.verdict for row in self.rows)

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses that occur."""
        return _occurring(row.status for row in self.rows)

    @property
    def chosen_models(self) -> tuple[str, ...]:
        """The models whose patches are predicted."""
        return _occurring(row.model for row in self.rows)

    @property
    def repositories(self) -> tuple[str, ...]:
        """The repositories that occur."""
        return _occurring(row.repo for row in self.rows)


def table_rows(run: RunData, folder: str) -> tuple[Row, ...]:
    """Return a row for every selected instance, sorted by id; pages lie in ``folder``."""
    rows = {instance.instance_id: _row(instance, folder) for instance in run.instances}
    begun = {entry.instance_id: entry for entry in run.unfinished}
    for name in {*run.selected, *begun} - rows.keys():
        entry = begun.get(name)
        status, attempts = (entry.status, entry.attempts) if entry else ("not begun", 0)
        rows[name] = Row(name, "", "", status, attempts, None, "", None, "no_prediction")
    return tuple(rows[name] for name in sorted(rows))


def _row(instance: InstanceData, folder: str) -> Row:
    return Row(
        instance_id=instance.instance_id,
        repo=instance.repo,
        page=f"{folder}/{page_name(instance.instance_id)}",
        status=instance.status,
        attempts=len(instance.attempts),
        chosen=instance.winner,
        model=instance.model or "",
        cost=instance.cost,
        verdict=verdict_key(instance),
    )


def verdict_key(instance: InstanceData) -> str:
    """Return the verdict as one of ``VERDICTS``."""
    if not instance.patch.strip():
        return "no_patch"
    if instance.resolved is None:
        return "not_evaluated"
    return "resolved" if instance.resolved else "not_resolved"


def notes(run: RunData) -> tuple[str, ...]:
    """Return what the reader must know: verdicts that are missing or not official."""
    keys = [verdict_key(instance) for instance in run.instances]
    judged = [instance.verdict for instance in run.instances if instance.resolved is not None]
    said = []
    if missing := keys.count("not_evaluated"):
        said.append(f"{missing} of {len(keys)} predictions are not evaluated.")
    if waiting := len(set(run.selected) - {i.instance_id for i in run.instances}):
        said.append(f"{waiting} of {len(run.selected)} selected instances have no prediction.")
    if any(not verdict.official for verdict in judged if verdict and verdict.status != "empty"):
        said.append("Unofficial: not all verdicts were given by swebench in its images.")
    return tuple(said)


def _occurring(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


def share(part: int, whole: int) -> str:
    """Return a share in percent, a dash of nothing."""
    return f"{part / whole:.1%}" if whole else "–"


def total_attempts(instances: Sequence[InstanceData]) -> int:
    """Return the attempts of all instances."""
    return sum(len(instance.attempts) for instance in instances)
