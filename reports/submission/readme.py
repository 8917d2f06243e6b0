"""Pure: the entry's README with the answers to the leaderboard's checklist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.plaintext import one_line
from reports.data.predictions import IMPORTED
from reports.data.provenance import Groups
from reports.statistics.methods.intervals import wilson
from reports.submission.meta import Meta
from reports.submission.summary import Lists, Shares, summary_lines

_BUILTIN = "builtin"
_GROUPS = ("run", "times", IMPORTED, "versions", "dataset", "prices", "models", "evaluation")
# The parameters that are needed to repeat the run and contain no local path.
_PARAMETERS = (
    "tries", "temperatures", "environment", "tests", "require_tests", "all_attempts",
    "max_reflections", "matching", "on_failed_edit", "map_tokens", "max_output_tokens",
    "test_timeout", "baseline_timeout",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """The content of the README.

    Attributes:
        name: the name of the entry's folder.
        total: the number of instances of the split, the denominator of the score.
        attempts: the largest number of attempts on one instance.
        others_evaluated: attempts that are not predicted have verdicts, too.
        several_runs: predictions were chosen from several runs.
        described: the content of ``run.json``.
        provenance: how the run was made.
        marked: ids of predictions that edit test configuration.
    """

    name: str
    split: str
    total: int
    attempts: int
    several_runs: bool
    lists: Lists
    repos: Shares
    years: Shares
    described: Mapping[str, Any] = field(default_factory=dict)
    others_evaluated: bool = False
    provenance: Groups = field(default_factory=dict)
    marked: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        """Whether the score is best@k instead of that of single attempts."""
        return self.attempts > 1 or self.several_runs


def readme(meta: Meta, facts: Facts) -> str:
    """Return the text of the entry's ``README.md``."""
    return "\n".join([*_head(meta), *_score(facts), *_checklist(meta, facts), *_record(facts)])


def _head(meta: Meta) -> Iterator[str]:
    yield f"# {meta.name}\n"
    yield f"- Site: {meta.site}"
    yield f"- Report: {meta.report}"
    yield f"- Authors: {', '.join(meta.authors)}"
    yield f"- First author: {meta.authors[0]}, {meta.first_author_site}"
    if meta.affiliations:
        yield f"- Affiliations: {', '.join(meta.affiliations)}"
    yield f"- Predictions, logs and trajectories: {meta.artifacts}\n"


def _score(facts: Facts) -> Iterator[str]:
    resolved = len(facts.lists.resolved)
    yield f"## Results on {facts.split}\n"
    interval = wilson(resolved, facts.total)
    yield (
        f"Resolved {resolved} of {facts.total} instances ({_percent(resolved, facts.total)}; 95 % "
        f"Wilson interval {100 * interval.low:.1f} to {100 * interval.high:.1f})."
    )
    yield (
        f"Without a patch: {len(facts.lists.no_generation)}; without an evaluation's report: "
        f"{len(facts.lists.no_logs)}. Both count as unresolved.\n"
    )
    yield "```"
    yield from summary_lines(facts.name, facts.split, facts.lists, facts.repos, facts.years)
    yield "```\n"
    if facts.marked:
        ids = ", ".join(map(one_line, facts.marked))
        yield f"Predictions that edit test configuration: {ids}.\n"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "-"


def _checklist(meta: Meta, facts: Facts) -> Iterator[str]:
    yield "## Checklist\n"
    if IMPORTED in facts.described:
        yield from _of_others(meta, facts)
        return
    yield f"- [x] Is a pass@1 submission: one prediction per instance. {_attempts(facts)}"
    yield (
        "- [x] Does not use SWE-bench test knowledge (`PASS_TO_PASS`, `FAIL_TO_PASS`). The harness "
        "keeps the gold patch, the test patch and both lists from everything that works on an "
        "instance; tests that were run, if any, are those of the base commit, chosen by the names "
        "and imports of the files that an attempt edited."
    )
    yield "- [x] Does not use the `hints` field of SWE-bench."
    yield f"- [x] {_web(meta)}"
    if agent := _outside_agent(facts.described):
        yield (
            f"\nThe attempts were made by another agent than the harness's own ({agent}): the "
            "harness gave it the issue and a checkout of one commit, and cannot speak for more."
        )
    yield ""


def _of_others(meta: Meta, facts: Facts) -> Iterator[str]:
    """Yield the checklist of a run of another harness, for its authors to answer."""
    made = facts.described[IMPORTED]
    layout = str(made.get("layout", "")) if isinstance(made, Mapping) else ""
    yield "- [ ] Is a pass@1 submission: one prediction per instance."
    yield "- [ ] Does not use SWE-bench test knowledge (`PASS_TO_PASS`, `FAIL_TO_PASS`)."
    yield "- [ ] Does not use the `hints` field of SWE-bench."
    yield f"- [ ] {_web(meta)}"
    yield (
        f"\nThe run was made by another harness ({one_line(layout)}) and imported; its authors "
        "have to check these boxes.\n"
    )


def _attempts(facts: Facts) -> str:
    if not facts.several:
        return "One attempt was made on each."
    runs = " and several runs were combined" if facts.several_runs else ""
    done = "evaluated"
    if facts.others_evaluated:
        done = "submitted; others were evaluated after the choice, for pass@k"
    return (
        f"It is best@k with one prediction: up to {facts.attempts} attempts were made on an "
        f"instance{runs}; the harness chose one of them by its edits, its lint and the tests of "
        "the base commit, without any knowledge of the evaluation, and only that one was "
        f'{done} (`attempts: "2+"`).'
    )


def _web(meta: Meta) -> str:
    if not meta.web_browsing:
        return "Does not have web browsing."
    return f"Can browse the web, and could not look solutions up: {meta.web_measures.strip()}"


def _outside_agent(described: Mapping[str, Any]) -> str:
    config = described.get("config")
    agent = config.get("agent") if isinstance(config, Mapping) else None
    # A command's template may contain secrets; its kind is enough here.
    return "" if agent in (None, _BUILTIN) else str(agent).split(":", 1)[0]


def _record(facts: Facts) -> Iterator[str]:
    yield "## How it was made\n"
    for group, pairs in facts.provenance.items():
        # The groups of a combination end with the name of the run.
        kind = group.partition(" of the run ")[0]
        for name, value in pairs:
            if kind in _GROUPS or (kind == "parameters" and name in _PARAMETERS):
                yield f"- {one_line(group)}: {one_line(name)}: {one_line(value)}"
    yield "- evaluation: swebench, in its own images\n"
