"""Checkpoints of a training, and what a training that goes on must repeat."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.atomic import write_json_atomic
from core.errors import UserError
from core.parsing.untrusted import read_object

_FOLDER = "checkpoints"
_STARTED = "training.json"
_COMPLETE = "complete.json"
_NAME = re.compile(r"checkpoint-(\d+)")
KEPT = 2
"""Checkpoints kept: a kill while the last one is written leaves the one before."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        seconds: spent on training up to it, over all starts.
    """

    path: Path
    step: int
    seconds: float


@dataclass(frozen=True)
class CheckpointFolder:
    """Where the checkpoints of the training of a tuned folder lie."""

    tuned: Path

    @property
    def path(self) -> Path:
        return self.tuned / _FOLDER

    def start(
        self, deciding: Mapping[str, Any], *, resume: bool, writes: bool = True
    ) -> Checkpoint | None:
        """Return the checkpoint to go on from; None to start at the first step.

        Args:
            writes: this process is the one that writes; it removes incomplete checkpoints.
        """
        found = self._complete(remove=writes)
        started = self.path / _STARTED
        if not found:
            if writes:
                write_json_atomic(started, dict(deciding))
            return None
        if not resume:
            raise UserError(f"{self.tuned} holds a training; give --resume, or another --out")
        self._check_equal(read_object(started, "give another --out"), deciding)
        return max(found, key=lambda one: one.step)

    def _check_equal(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        for key in {**now, **before}:
            if before.get(key) != now.get(key):
                raise UserError(
                    f"{self.tuned} was started with {key} {before.get(key)}, not "
                    f"{now.get(key)}; give what it was started with, or another --out"
                )

    def _complete(self, *, remove: bool) -> list[Checkpoint]:
        found = []
        for path in self.path.glob("*"):
            if not (name := _NAME.fullmatch(path.name)):
                continue
            if (path / _COMPLETE).is_file():
                said = read_object(path / _COMPLETE, "remove this checkpoint")
                found.append(Checkpoint(path, int(name[1]), float(said.get("seconds", 0))))
            elif remove:
                shutil.rmtree(path)
        return found

    def mark_complete(self, step: int, seconds: float) -> None:
        place = self.path / f"checkpoint-{step}" / _COMPLETE
        write_json_atomic(place, {"seconds": round(seconds, 3)})
