"""What ``--json`` prints when a run has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from agent.chat import Usage
from agent.money import as_text
from bench.statuses import InstanceStatus


@dataclass(frozen=True)
class RunSummary:
    """How one start of a run ended (docs/run.md).

    Attributes:
        counts: instances of this start by status; statuses that did not occur may be left out.
        dollars: of the whole run so far, from its ledger; None when a price is unknown.
        calls: that the ledger holds.
        tokens: of these calls, as their providers counted them.
        seconds: wall-clock time of this start.
        unfinished: ids of instances that were to be done and have no prediction.
        stopped: why the run ended before its time; empty when it did not.
        interrupted: whether somebody or something outside ended it.
    """

    run: str
    folder: Path
    counts: Mapping[InstanceStatus, int]
    dollars: Decimal | None
    calls: int
    tokens: Usage
    seconds: float
    unfinished: tuple[str, ...]
    stopped: str = ""
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """130 when interrupted, 1 when something is left to do or the money ended it, else 0."""
        return 130 if self.interrupted else 1 if self.unfinished or self.stopped else 0

    def as_json(self) -> dict[str, Any]:
        """Return the summary for machines: every status with its count, dollars as a string."""
        return {
            "run": self.run,
            "folder": str(self.folder),
            "counts": {status.value: self.counts.get(status, 0) for status in InstanceStatus},
            "dollars": as_text(self.dollars),
            "calls": self.calls,
            "tokens": asdict(self.tokens),
            "seconds": round(self.seconds, 3),
            "exit_code": self.exit_code,
            "unfinished": sorted(self.unfinished),
            "stopped": self.stopped,
        }

    def text(self) -> str:
        """Return the summary as one line of ASCII JSON."""
        return json.dumps(self.as_json())
