"""What the audit of a run finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from core.plaintext import counted, one_line, shortened

_SHOWN = 160


class LeakKind(str, Enum):
    """What an agent knew, or tried to know, that it should not."""

    GOLD = "gold patch"
    TESTS = "hidden tests"
    HINTS = "hints"
    LISTS = "lists of tests"
    FUTURE = "future commits"
    NETWORK = "network lookup"


@dataclass(frozen=True)
class Leak:
    """One finding.

    Attributes:
        file: that holds the step.
        place: of the step in the file, such as ``messages[3]``.
        text: that was shown, or the command.
        more: further lines of the same kind in the same step.
    """

    kind: LeakKind
    instance_id: str
    attempt: int
    file: Path
    place: str
    text: str
    more: int = 0

    def line(self) -> str:
        """Return the finding in one line."""
        more = f" and {counted(self.more, 'more line')}" if self.more else ""
        where = one_line(f"{self.file}: {self.instance_id}, attempt {self.attempt}, {self.place}")
        return f"{where}: {self.kind.value}: {shortened(self.text, _SHOWN)!r}{more}"

    def as_json(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return {
            "kind": self.kind.value,
            "instance_id": self.instance_id,
            "attempt": self.attempt,
            "file": str(self.file),
            "place": self.place,
            "text": shortened(self.text, _SHOWN),
            "more": self.more,
        }


@dataclass(frozen=True)
class RunAudit:
    """The audit of a run.

    Attributes:
        audited: ids of the instances whose conversations were searched.
        silent: ids of those without a conversation.
        unknown: ids of those that are not in the dataset.
        unmirrored: repositories whose base commits could not be looked up.
    """

    run: str
    layout: str
    dataset: str
    leaks: tuple[Leak, ...]
    audited: tuple[str, ...]
    silent: tuple[str, ...]
    unknown: tuple[str, ...]
    unmirrored: tuple[str, ...]

    def lines(self) -> Iterable[str]:
        """Yield each finding, then the summary."""
        yield from (leak.line() for leak in self.leaks)
        for repo in self.unmirrored:
            yield (
                f"note: there is no mirror of {repo} with the base commit; lines count only where "
                "more than half of a hidden text was shown (--repos)"
            )
        yield f"run            {one_line(self.run)} ({self.layout}), against {self.dataset}"
        yield f"audited        {len(self.audited):5d}"
        yield from _named("no messages", self.silent, "nothing could be searched")
        yield from _named("unknown ids", self.unknown, f"not in {self.dataset}")
        instances = len({leak.instance_id for leak in self.leaks})
        yield f"findings       {len(self.leaks):5d}  in {counted(instances, 'instance')}"
        for kind, count in sorted(Counter(leak.kind.value for leak in self.leaks).items()):
            yield f"               {count:5d}  {kind}"

    def as_json(self) -> dict[str, Any]:
        """Return the audit for programs."""
        return {
            "run": self.run,
            "layout": self.layout,
            "dataset": self.dataset,
            "findings": [leak.as_json() for leak in self.leaks],
            "counts": dict(Counter(leak.kind.value for leak in self.leaks)),
            "audited": list(self.audited),
            "no_messages": list(self.silent),
            "not_in_dataset": list(self.unknown),
            "without_mirror": list(self.unmirrored),
        }


def _named(what: str, names: Sequence[str], why: str) -> Iterable[str]:
    if names:
        yield f"{what:14s} {len(names):5d}  {why}, as {names[0]}"
