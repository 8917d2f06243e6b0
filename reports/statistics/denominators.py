"""Pure: the denominators of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.instances.names import ALIASES
from bench.instances.validity import KnownValidity, Validity
from reports.data.rundata import RunData, evaluated
from reports.statistics.breakdown import resolved_among
from reports.statistics.methods import Share

# Rows of the published splits, from the dataset cards on the hub.
_SIZES: Mapping[tuple[str, str], int] = {
    (ALIASES["lite"], "test"): 300,
    (ALIASES["lite"], "dev"): 23,
    (ALIASES["verified"], "test"): 500,
    (ALIASES["full"], "test"): 2294,
    (ALIASES["full"], "dev"): 225,
    (ALIASES["multilingual"], "test"): 300,
}


@dataclass(frozen=True)
class DatasetSplit:
    """A dataset's split; ``size`` is None if unknown."""

    name: str
    size: int | None


@dataclass(frozen=True)
class UsedValidity:
    """What a report took from a validity file.

    Attributes:
        file: its name.
        not_valid: the states of the selected instances that it does not call valid, by id.
    """

    file: str
    not_valid: Mapping[str, Validity]

    @classmethod
    def of(cls, known: KnownValidity, selected: Iterable[str]) -> UsedValidity:
        """Return what a file says of the selected instances of a run."""
        return cls(known.path.name, known.not_valid(sorted(selected)))


@dataclass(frozen=True)
class Scores:
    """Resolved instances as shares of the evaluated ones, the selected ones and the split.

    Attributes:
        evaluated: of the instances with a verdict or an empty patch.
        selected: of the selected instances: the score.
        split: of the whole split; None if its size is unknown.
        split_name: empty if unknown.
        selection_known: False without a ``run.json``, when the predicted instances count as the
            selected ones.
        valid: of the selected instances that a validity file calls valid; None if none was given.
    """

    evaluated: Share
    selected: Share
    split: Share | None
    split_name: str
    selection_known: bool
    valid: Share | None = None


def split_of(name: str, split: str, rows: int) -> DatasetSplit:
    full = ALIASES.get(name, name)
    size = rows or _SIZES.get((full, split))
    return DatasetSplit(f"{full} ({split})" if full else "", size)


def short_split(name: str) -> str:
    """Return a split's name for display: for a path, only the file name."""
    return Path(name).name if name.startswith("/") else name


def scores(
    run: RunData, split: DatasetSplit, used: UsedValidity | None = None
) -> Scores:
    known = run.evaluated
    resolved = resolved_among(run.instances)
    verdicts = sum(instance.resolved is not None for instance in run.instances)
    whole = Share.made(resolved, split.size, known=known) if split.size else None
    valid = None
    if used:
        names = {*run.selected} - {*used.not_valid}
        kept = [instance for instance in run.instances if instance.instance_id in names]
        valid = Share.made(resolved_among(kept), len(names), known=evaluated(kept))
    fits = whole is not None and (split.size or 0) >= len(run.selected)
    return Scores(
        evaluated=Share.made(resolved, verdicts, known=known),
        selected=Share.made(resolved, len(run.selected), known=known),
        split=whole if fits else None,
        split_name=split.name,
        selection_known=run.described.selected is not None,
        valid=valid,
    )
