"""Windows as the trainer reads them. Importing this module imports torch.

Nothing is packed, padded, shuffled or copied to disk here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from datasets import Dataset
from torch.utils.data import Sampler

from exercises.editpack.training.windows import Windows, labelled

if TYPE_CHECKING:
    from exercises.editpack.training.windows import Tokens

_NUMBER = "window"


@dataclass(frozen=True)
class TrainingSet:
    """The windows of all epochs; each epoch has as many as the first.

    Attributes:
        of_epoch: returns the windows of an epoch, counted from 0.
        held_out: windows or one shorter piece to measure the loss on; may be empty.
    """

    of_epoch: Callable[[int], Windows]
    each: int
    epochs: int
    held_out: Sequence[Tokens]


class WindowOrder(Sampler):  # type: ignore[misc]  # torch may be absent
    """Yields the numbers of an epoch's windows, as the trainer's step tells the epoch."""

    def __init__(self, each: int, epoch: Callable[[], int]) -> None:
        self.each, self.epoch = each, epoch

    def __len__(self) -> int:
        return self.each

    def __iter__(self) -> Iterator[int]:
        first = self.epoch() * self.each
        return iter(range(first, first + self.each))


class EpochWindows(Sequence["Tokens"]):
    """The windows of all epochs one after the other; the order of one epoch is held."""

    def __init__(self, data: TrainingSet) -> None:
        self.data = data
        self._epoch, self._windows = 0, data.of_epoch(0)

    def __len__(self) -> int:
        return self.data.each * self.data.epochs

    def __getitem__(self, number: int) -> Tokens:  # type: ignore[override]  # no slices
        epoch, place = divmod(number, self.data.each)
        if epoch != self._epoch:
            self._epoch, self._windows = epoch, self.data.of_epoch(epoch)
        return self._windows[place]


def window_dataset(length: int, windows: Sequence[Tokens]) -> Dataset:
    """Return numbers that become windows when they are read: nothing is copied to disk."""

    def labelled_windows(batch: Mapping[str, Sequence[int]]) -> dict[str, list[Tokens]]:
        rows = [labelled(windows[number]) for number in batch[_NUMBER]]
        return {key: [row[key] for row in rows] for key in rows[0]}

    return Dataset.from_dict({_NUMBER: range(length)}).with_transform(labelled_windows)


def collate(rows: Sequence[Mapping[str, Tokens]]) -> dict[str, torch.Tensor]:
    """Return windows of one length as a batch, without padding."""
    found = {
        key: torch.stack([torch.from_numpy(row[key]).long() for row in rows]) for key in rows[0]
    }
    return {**found, "attention_mask": torch.ones_like(found["input_ids"])}
