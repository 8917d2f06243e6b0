"""Pure: how often all files of the gold patch were shown or edited."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from reports.data.rundata import AttemptData, InstanceData
from reports.statistics.methods.intervals import Share


@dataclass(frozen=True)
class GoldFiles:
    """Shares of instances, each with all of its gold files.

    Attributes:
        in_map: in the repository maps that models were shown; of the instances with known maps.
        added_by_winner: in the conversation of the predicted attempt.
        added_by_any: in the conversation of at least one attempt.
        edited_by_winner: edited by the predicted attempt.
        edited_by_any: edited by at least one attempt.
    """

    in_map: Share
    added_by_winner: Share
    added_by_any: Share
    edited_by_winner: Share
    edited_by_any: Share


def gold_files(instances: Iterable[InstanceData]) -> GoldFiles:
    """Return the shares over the instances whose gold files are known."""
    known = [instance for instance in instances if instance.gold_files]
    mapped = [instance for instance in known if instance.map_files is not None]
    return GoldFiles(
        in_map=_share(_covers(i, i.map_files or ()) for i in mapped),
        added_by_winner=_share(any(_covers(i, a.added_files) for a in _chosen(i)) for i in known),
        added_by_any=_share(any(_covers(i, a.added_files) for a in i.attempts) for i in known),
        edited_by_winner=_share(any(_covers(i, a.edited_files) for a in _chosen(i)) for i in known),
        edited_by_any=_share(any(_covers(i, a.edited_files) for a in i.attempts) for i in known),
    )


def _chosen(instance: InstanceData) -> Iterable[AttemptData]:
    return () if instance.chosen is None else (instance.chosen,)


def _covers(instance: InstanceData, files: Collection[str]) -> bool:
    return {*(instance.gold_files or ())} <= {*files}


def _share(found: Iterable[bool]) -> Share:
    every = list(found)
    return Share.made(sum(every), len(every))
