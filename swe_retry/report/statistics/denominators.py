"""Pure: the denominators of scores."""

# ruff: noqa: RUF009 - the fields of statistics are made by functions
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swe_retry.instances.validity import Validity
from swe_retry.report.statistics.fields import statistic
from swe_retry.report.statistics.methods import Share
from swe_retry.repositories.names import ALIASES
from swe_retry.results.rundata import RunData

# Rows of the published splits, from the dataset cards on the hub.
_SIZES = {
    ALIASES["lite"]: {"test": 300, "dev": 23},
    ALIASES["verified"]: {"test": 500},
    ALIASES["full"]: {"test": 2294, "dev": 225},
    ALIASES["multilingual"]: {"test": 300},
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


@dataclass(frozen=True)
class ScoredRun:
    """A run, with the split of its dataset and what a validity file says of it, if given."""

    run: RunData
    split: DatasetSplit
    validity: UsedValidity | None


def _of(run: RunData, denominator: int) -> Share:
    return Share.compute(run.resolved_count, denominator, evaluated=run.is_evaluated)


def _of_evaluated(source: ScoredRun) -> Share:
    run = source.run
    return _of(run, len(run.instances) - run.outcomes[None])


def _of_split(source: ScoredRun) -> Share | None:
    size = source.split.size
    # A run cannot be part of a split that is smaller.
    if not size or size < len(source.run.selected):
        return None
    return _of(source.run, size)


def _of_valid(source: ScoredRun) -> Share | None:
    if source.validity is None:
        return None
    run = source.run
    valid = set(run.selected) - source.validity.not_valid.keys()
    instances = [i for i in run.instances if i.instance_id in valid]
    return _of(run.part(instances), len(valid))


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

    evaluated: Share = statistic(_of_evaluated)
    selected: Share = statistic(
        lambda source: _of(source.run, len(source.run.selected))
    )
    split: Share | None = statistic(_of_split)
    split_name: str = statistic(lambda source: source.split.name)
    selection_known: bool = statistic(
        lambda source: source.run.described.selected is not None
    )
    valid: Share | None = statistic(_of_valid, default=None)


def split_of(name: str, split: str, rows: int) -> DatasetSplit:
    dataset = ALIASES.get(name, name)
    size = rows or _SIZES.get(dataset, {}).get(split)
    if not dataset:
        return DatasetSplit("", size)
    return DatasetSplit(f"{dataset} ({split})", size)


def short_split(name: str) -> str:
    """Return a split's name for display: for a path, only the file name."""
    if name.startswith("/"):
        return Path(name).name
    return name
