"""Pure: the entry's ``results/`` and README, computed from a run, its verdicts and the dataset."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_retry.agent.named import named_agent
from swe_retry.core.jsontypes import JsonMapping, JsonObject
from swe_retry.core.plaintext import one_line
from swe_retry.instances.adapters.adapter import Row
from swe_retry.record.keys import RESULTS_FILE
from swe_retry.report.package.meta import Meta
from swe_retry.report.statistics.wording import render_text
from swe_retry.results.rundata import RunData


def results_of(
    rows: Sequence[Row],
    patched: Collection[str],
    reported: Mapping[str, bool],
) -> JsonObject:
    """Return the content of the files of ``results/`` by their names.

    Args:
        rows: all instances of the split.
        patched: the instances with a patch.
        reported: of those with a report, whether they are resolved.
    """
    ids = {str(row["instance_id"]) for row in rows}
    resolved = sorted(filter(reported.get, reported))
    return {
        RESULTS_FILE: {
            "no_generation": sorted(ids.difference(patched)),
            "no_logs": sorted(set(patched).difference(reported)),
            "resolved": resolved,
        },
        "resolved_by_repo.json": _count_by(
            lambda row: str(row["repo"]), rows, resolved
        ),
        "resolved_by_time.json": _count_by(
            lambda row: str(row["created_at"])[:4], rows, resolved
        ),
    }


def _count_by(
    key: Callable[[Row], str],
    rows: Sequence[Row],
    resolved: Collection[str],
) -> dict[str, dict[str, int]]:
    """Return the numbers of resolved and all instances of each group, sorted."""
    counts: dict[str, dict[str, int]] = {}
    for row in sorted(rows, key=key):
        count = counts.setdefault(key(row), {"resolved": 0, "total": 0})
        count["resolved"] += row["instance_id"] in resolved
        count["total"] += 1
    return counts


@dataclass(frozen=True)
class Submission:
    """What the entry is made from; ``results`` is the content of its ``results/`` by file."""

    meta: Meta
    split: str
    run: RunData
    rows: Sequence[Row]
    results: JsonMapping

    @property
    def max_attempts(self) -> int:
        counts = [len(instance.attempts) for instance in self.run.instances]
        return max(counts, default=0)

    @property
    def is_combined(self) -> bool:
        return len({instance.origin for instance in self.run.instances}) > 1

    @property
    def other_harnesses(self) -> list[str]:
        """Who made the attempts among which this harness only chose."""
        origins = set()
        for attempt in self.run.attempts:
            if attempt.origin and attempt.origin.harness:
                origin = attempt.origin
                origins.add(f"{attempt.model} by {origin.harness} in {origin.run}")
        return sorted(map(one_line, origins))

    @property
    def other_agents(self) -> list[str]:
        """The agents that are not the harness's own."""
        config = self.run.described.configuration
        # A command's template may contain secrets; its kind is enough here.
        agents = {config.agent.split(":", 1)[0]}
        for model in config.models:
            if named_agent(model.edit_format):
                agents.add(model.edit_format)
        return sorted(agents - {"", "builtin"})

    @property
    def has_choice(self) -> bool:
        """Whether the score is best@k instead of that of single attempts."""
        return self.max_attempts > 1 or self.is_combined


def readme(submission: Submission) -> str:
    return render_text(
        Path(__file__).with_name("readme.md"),
        submission=submission,
        **vars(submission),
    )
