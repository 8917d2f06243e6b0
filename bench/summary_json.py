"""What ``--json`` prints when a run has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.standing import exact
from bench.statuses import InstanceStatus


@dataclass(frozen=True)
class RunSummary:
    """How one start of a run ended (docs/run.md).

    Attributes:
        counts: instances of this start by status; statuses that did not occur may be left out.
        dollars: spent by this start, None when a price is unknown.
        calls: model calls answered.
        seconds: wall-clock time.
        exit_code: of the command.
        unfinished: ids of instances that the same command would do or redo.
    """

    run: str
    folder: Path
    counts: Mapping[InstanceStatus, int]
    dollars: Decimal | None
    calls: int
    seconds: float
    exit_code: int
    unfinished: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the summary for machines: every status with its count, dollars as a string."""
        return {
            "run": self.run,
            "folder": str(self.folder),
            "counts": {status.value: self.counts.get(status, 0) for status in InstanceStatus},
            "dollars": exact(self.dollars),
            "calls": self.calls,
            "seconds": round(self.seconds, 3),
            "exit_code": self.exit_code,
            "unfinished": sorted(self.unfinished),
        }

    def text(self) -> str:
        """Return the summary as one line of ASCII JSON."""
        return json.dumps(self.as_json())
