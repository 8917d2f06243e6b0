"""The seconds that each job took the last time, in one small file that all runs share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from core.atomic import sweep, write_json_atomic
from core.errors import UserError
from core.parsing.untrusted import read_object


@dataclass(frozen=True)
class Timings:
    """The file at ``path``: ``{instance_id: seconds}``.

    It only decides an order, so a missing or broken file counts as empty.
    """

    path: Path

    def load(self) -> dict[str, float]:
        try:
            data = read_object(self.path, "delete it")
        except (OSError, UserError):
            return {}
        return {name: float(value) for name, value in data.items() if _is_seconds(value)}

    def note(self, instance_id: str, seconds: float) -> None:
        """Add the seconds of an instance to what other runs have written meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock"):
            sweep(self.path)
            write_json_atomic(self.path, {**self.load(), instance_id: seconds})


def _is_seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value) and value >= 0
    except OverflowError:  # an integer of hundreds of digits
        return False
