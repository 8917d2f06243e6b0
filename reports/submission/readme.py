"""Pure: the entry's ``results/`` and README, computed from a run, its verdicts and the dataset."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.named import named_agent
from bench.instances.adapters.base import Row
from bench.policy import SelectionRule
from core.jsontypes import JsonMapping, JsonObject
from core.plaintext import one_line
from reports.data.predictions import IMPORTED
from reports.data.provenance import provenance
from reports.data.rundata import RunData
from reports.statistics.methods import wilson
from reports.submission.meta import Meta
from runs.keys import RESULTS_FILE

BY_REPO_FILE = "resolved_by_repo.json"
BY_TIME_FILE = "resolved_by_time.json"
_BUILTIN = "builtin"
_GROUPS = (
    "run", "times", IMPORTED, "versions", "dataset", "prices", "models", "evaluation",
)  # fmt: skip
# The parameters that are needed to repeat the run and contain no local path; ``equal_failures`` is
# one of version 0.12.
_PARAMETERS = (
    "tries", "temperatures", "environment", "tests", "require_tests", "select", "scripts", "rounds",
    "stop", "all_attempts", "equal_failures", "history",
    "max_reflections", "matching", "on_failed_edit", "map_tokens", "max_output_tokens",
    "test_timeout", "baseline_timeout",
)  # fmt: skip
_HOW_HIDDEN = (
    " The harness keeps the gold patch, the test patch and both lists from everything that works "
    "on an instance; tests that were run, if any, are those of the base commit, chosen by the "
    "names and imports of the files that an attempt edited."
)


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
    resolved = sorted(name for name in reported if reported[name])
    return {
        RESULTS_FILE: {
            "no_generation": sorted(ids.difference(patched)),
            "no_logs": sorted(set(patched).difference(reported)),
            "resolved": resolved,
        },
        BY_REPO_FILE: _count_by(_repository, rows, set(resolved)),
        BY_TIME_FILE: _count_by(_year, rows, set(resolved)),
    }


def _repository(row: Row) -> str:
    return str(row["repo"])


def _year(row: Row) -> str:
    return str(row["created_at"])[:4]


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
    def has_choice(self) -> bool:
        """Whether the score is best@k instead of that of single attempts."""
        return self.max_attempts > 1 or self.is_combined


def readme(submission: Submission) -> str:
    lines = list(_head(submission.meta))
    lines += _score(submission)
    lines += _checklist(submission)
    lines += _authorship(submission)
    lines += _record(submission.run)
    return "\n".join(lines)


def _head(meta: Meta) -> Iterator[str]:
    yield f"# {meta.name}\n"
    yield f"- Site: {meta.site}"
    yield f"- Report: {meta.report}"
    yield f"- Authors: {', '.join(meta.authors)}"
    yield f"- First author: {meta.authors[0]}, {meta.first_author_site}"
    if meta.affiliations:
        yield f"- Affiliations: {', '.join(meta.affiliations)}"
    yield f"- Predictions, logs and trajectories: {meta.artifacts}\n"


def _score(submission: Submission) -> Iterator[str]:
    lists = submission.results[RESULTS_FILE]
    resolved = len(lists["resolved"])
    total = len(submission.rows)
    interval = wilson(resolved, total)
    yield f"## Results on {submission.split}\n"
    yield (
        f"Resolved {resolved} of {total} instances ({100 * resolved / total:.2f}%; 95 % "
        f"Wilson interval {100 * interval.low:.1f} to {100 * interval.high:.1f})."
    )
    yield (
        f"Without a patch: {len(lists['no_generation'])}; without an evaluation's report: "
        f"{len(lists['no_logs'])}. Both count as unresolved.\n"
    )
    yield "```"
    yield from _summary(submission)
    yield "```\n"
    marked = []
    for instance in submission.run.instances:
        if instance.edits_test_configuration:
            marked.append(one_line(instance.instance_id))
    if marked:
        yield f"Predictions that edit test configuration: {', '.join(marked)}.\n"


def _summary(submission: Submission) -> Iterator[str]:
    """Yield what ``analysis/get_results.py`` prints, which the checklist asks for."""
    results = submission.results
    name = submission.meta.entry_name
    rule = "=" * 50
    resolved = len(results[RESULTS_FILE]["resolved"])
    rate = _rate(resolved, len(submission.rows))
    yield f"Submission summary for {name} on SWE-bench {submission.split} split"
    yield rule
    yield f"Resolved {resolved} instances ({rate}%)"
    yield rule
    yield "Resolved by Repository"
    yield from _share_lines(results[BY_REPO_FILE])
    yield rule
    yield "Resolved by Time"
    yield from _share_lines(results[BY_TIME_FILE])


def _share_lines(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for name, count in counts.items():
        resolved = count["resolved"]
        total = count["total"]
        yield f"- {name}: {resolved}/{total} ({_rate(resolved, total)}%)"


def _rate(part: int, total: int) -> float:
    return round(part * 100.0 / total, 2)


def _checklist(submission: Submission) -> Iterator[str]:
    """Yield the leaderboard's questions; those on a run of others stay open."""
    meta = submission.meta
    described = submission.run.described
    box = "- [x]"
    attempts = f" {_attempts_in_words(submission)}"
    how_hidden = _HOW_HIDDEN
    if described.is_imported or submission.other_harnesses:
        box = "- [ ]"
        attempts = ""
        how_hidden = ""
    web_box = box
    web = "Does not have web browsing."
    if meta.web_browsing:
        measures = meta.web_measures.strip()
        web = f"Can browse the web, and could not look solutions up: {measures}"
    if described.configuration.agent_allow_web:
        web_box = "- [ ]"
        web = (
            "Does not have web browsing: not so, the run was made with agent.allow_web, and "
            "the agent could use what its provider searches or fetches."
        )
    yield "## Checklist\n"
    yield f"{box} Is a pass@1 submission: one prediction per instance.{attempts}"
    yield (
        f"{box} Does not use SWE-bench test knowledge (`PASS_TO_PASS`, `FAIL_TO_PASS`)."
        f"{how_hidden}"
    )
    yield f"{box} Does not use the `hints` field of SWE-bench."
    yield f"{web_box} {web}"


def _attempts_in_words(submission: Submission) -> str:
    if not submission.has_choice:
        return "One attempt was made on each."
    run = submission.run
    runs = ""
    if submission.is_combined:
        runs = " and several runs were combined"
    evidence = ","
    if run.described.configuration.select == SelectionRule.EVIDENCE:
        evidence = " and by scripts that models wrote for the issue,"
    use = "evaluated"
    if any(instance.verdicts for instance in run.instances):
        use = "submitted; others were evaluated after the choice, for pass@k"
    return (
        f"It is best@k with one prediction: up to {submission.max_attempts} attempts were made on "
        f"an instance{runs}; the harness chose one of them by its edits, its lint and the tests "
        f"of the base commit{evidence} without any knowledge of the evaluation, and only that one "
        f'was {use} (`attempts: "2+"`).'
    )


def _authorship(submission: Submission) -> Iterator[str]:
    """Yield who made the attempts, if it is not the harness's own agent."""
    described = submission.run.described
    if submission.other_harnesses:
        yield (
            f"\nThe attempts were made by others ({'; '.join(submission.other_harnesses)}); their "
            "authors have to check these boxes. This harness chose one for each instance "
            f"(choice.select={described.configuration.select}) by its edits, its lint, the tests "
            "of the base commit and scripts that models wrote for the issue, without any verdict.\n"
        )
        return
    if described.is_imported:
        layout = str((described.imported or {}).get("layout", ""))
        yield (
            f"\nThe run was made by another harness ({one_line(layout)}) and imported; its "
            "authors have to check these boxes.\n"
        )
        return
    config = described.configuration
    # A command's template may contain secrets; its kind is enough here.
    agents = {config.agent.split(":", 1)[0]}
    for model in config.models:
        if named_agent(model.edit_format):
            agents.add(model.edit_format)
    agents -= {"", _BUILTIN}
    if agents:
        yield (
            "\nThe attempts were made by another agent than the harness's own "
            f"({', '.join(sorted(agents))}): the "
            "harness gave it the issue and a checkout of one commit, and cannot speak for more."
        )
    yield ""


def _record(run: RunData) -> Iterator[str]:
    yield "## How it was made\n"
    for group, pairs in provenance(run).items():
        # The groups of a combination end with the name of the run.
        kind = group.partition(" of the run ")[0]
        for name, value in pairs:
            is_parameter = kind == "parameters" and name in _PARAMETERS
            if kind in _GROUPS or is_parameter:
                yield f"- {one_line(group)}: {one_line(name)}: {one_line(value)}"
    yield "- evaluation: swebench, in its own images\n"
