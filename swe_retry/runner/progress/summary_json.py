"""The summary at the end of a run: in words, and as ``--format json`` prints it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path

from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.money import as_text, cost_words
from swe_retry.core.plaintext import quantity
from swe_retry.llm.chat import Usage
from swe_retry.record.result import InstanceStatus
from swe_retry.runner.progress.state import COMMON_WORDS


@dataclass(frozen=True)
class RunSummary:
    """The end of one start of a run (docs/run.md).

    Attributes:
        counts: jobs of this start by status; statuses that did not occur may be left out.
        statuses: the benchmark's own statuses, the first of which is success.
        over_budget: ids of the selected instances that a limit stopped, of earlier starts too, with
            the option of the limit.
        errors: ids of the selected instances whose attempts all broke, of earlier starts too.
        dollars: of the whole run so far, from its ledger; None when a price is unknown.
        at_most: the same with the bounds of calls that were lost or broke off.
        recorded: the part of ``dollars`` that replayed replies once cost.
        calls: in the ledger.
        tokens: of these calls, as their providers counted them; None where none did.
        seconds: of this start.
        unfinished: ids of instances that were worked on and have no prediction.
        broken: ids of the selected instances whose predictions cannot be read, with the reason.
        stopped: why the run ended early; empty when it did not.
        interrupted: whether a signal or a failing provider ended it.
    """

    run: str
    folder: Path
    counts: Mapping[str, int]
    dollars: Decimal | None
    at_most: Decimal | None
    calls: int
    tokens: Usage
    seconds: float
    unfinished: tuple[str, ...]
    recorded: Decimal = Decimal(0)
    over_budget: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""
    interrupted: bool = False
    statuses: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """130 when interrupted, 1 when an instance failed or is unfinished, else 0."""
        if self.interrupted:
            return 130
        left = self.unfinished or self.over_budget or self.errors or self.broken
        return int(bool(left or self.stopped))

    def as_json(self) -> JsonObject:
        """Return the summary as JSON: each status with its count, dollars as a text."""
        return {
            "run": self.run,
            "folder": str(self.folder),
            "counts": {
                word: self.counts.get(word, 0)
                for word in (*self.statuses, *COMMON_WORDS)
            },
            "dollars": as_text(self.dollars),
            "dollars_at_most": as_text(self.at_most),
            "recorded": as_text(self.recorded),
            "calls": self.calls,
            "tokens": asdict(self.tokens),
            "seconds": round(self.seconds, 3),
            "exit_code": self.exit_code,
            "unfinished": sorted(self.unfinished),
            "over_budget": dict(sorted(self.over_budget.items())),
            "errors": sorted(self.errors),
            "broken": dict(sorted(self.broken.items())),
            "stopped": self.stopped,
        }

    def text(self) -> str:
        """Return the summary as one line of ASCII JSON."""
        return json.dumps(self.as_json())


def summary_words(summary: RunSummary) -> str:
    """Return the end of a start in one line."""
    return f"{summary.folder}: {'; '.join(_outcome(summary))}"


def _outcome(summary: RunSummary) -> Iterator[str]:
    counts = ", ".join(f"{count} {word}" for word, count in summary.counts.items())
    yield f"this start: {counts or 'nothing to do'}"
    used = summary.tokens
    cost = cost_words(summary.dollars, summary.recorded, summary.at_most)
    usage_text = quantity(summary.calls, "call")
    if used.prompt_tokens is not None:
        usage_text += (
            f", {used.prompt_tokens:,} tokens in ({used.cached_tokens:,} cached)"
        )
        usage_text += f", {used.completion_tokens:,} out"
    yield f"run so far: {cost}, {usage_text}"
    if summary.over_budget:
        yield over_budget_words(summary.over_budget)
    if summary.errors:
        yield f"{quantity(len(summary.errors), 'error')}: repeat with --redo error"
    if summary.broken:
        yield f"{quantity(len(summary.broken), 'broken file')}: fix or delete them"
    if summary.stopped:
        yield f"ended early: {summary.stopped}"
    if summary.unfinished:
        advice = "the same command continues"
        if summary.counts.get(InstanceStatus.INFRA_ERROR):
            advice = "fix what failed, then repeat the command"
        yield f"{len(summary.unfinished)} left to do: {advice}"


def over_budget_words(stopped: Mapping[str, str]) -> str:
    """Say how many jobs limits stopped; ``stopped`` has the option of the limit by key."""
    options = ", ".join(sorted({*stopped.values()}))
    return f"{len(stopped)} over budget ({options}): raise the limit and repeat the command"
