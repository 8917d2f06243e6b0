"""Pure: the entry's ``results/`` and README, computed from a run, its verdicts and the dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.named import named_agent
from bench.instances.adapters.base import Row
from bench.policy import SelectionRule
from core.plaintext import one_line
from reports.data.predictions import IMPORTED
from reports.data.provenance import provenance
from reports.data.rundata import RunData
from reports.statistics.methods import wilson
from reports.submission.entry import Meta

BY_REPO_FILE, BY_TIME_FILE = "resolved_by_repo.json", "resolved_by_time.json"
RepoCounts = dict[str, int]
"""The numbers of ``resolved`` and ``total`` instances."""


@dataclass(frozen=True)
class Lists:
    """The content of ``results.json``; each list is sorted."""

    no_generation: list[str]
    no_logs: list[str]
    resolved: list[str]


def lists_of(
    ids: Iterable[str], generated: Iterable[str], verdicts: Mapping[str, bool]
) -> Lists:
    """Return the lists of a split; ``verdicts`` are those of the patches with a report."""
    patched = set(generated)
    return Lists(
        no_generation=sorted(set(ids) - patched),
        no_logs=sorted(patched - verdicts.keys()),
        resolved=sorted(name for name in patched if verdicts.get(name)),
    )


def by_repo(rows: Iterable[Row], resolved: Iterable[str]) -> dict[str, RepoCounts]:
    """Return the numbers of resolved and all instances by repository, sorted."""
    return _shares(((row["instance_id"], str(row["repo"])) for row in rows), resolved)


def by_time(rows: Iterable[Row], resolved: Iterable[str]) -> dict[str, RepoCounts]:
    """Return the numbers of resolved and all instances by the year of ``created_at``, sorted."""
    return _shares(
        ((row["instance_id"], str(row["created_at"])[:4]) for row in rows), resolved
    )


def summary_lines(
    name: str,
    split: str,
    lists: Lists,
    repos: Mapping[str, RepoCounts],
    years: Mapping[str, RepoCounts],
) -> list[str]:
    """Return what ``analysis/get_results.py`` prints, which the checklist asks for."""
    rule = "=" * 50
    total = sum(share["total"] for share in repos.values())
    return [
        f"Submission summary for {name} on SWE-bench {split} split",
        rule,
        f"Resolved {len(lists.resolved)} instances ({_rate(len(lists.resolved), total)}%)",
        rule,
        "Resolved by Repository",
        *map(_share_line, repos, repos.values()),
        rule,
        "Resolved by Time",
        *map(_share_line, years, years.values()),
    ]


def _share_line(name: str, share: RepoCounts) -> str:
    resolved, total = share["resolved"], share["total"]
    return f"- {name}: {resolved}/{total} ({_rate(resolved, total)}%)"


def _rate(part: int, whole: int) -> float:
    return round(part * 100.0 / whole, 2)


def _shares(
    groups: Iterable[tuple[str, str]], resolved: Iterable[str]
) -> dict[str, RepoCounts]:
    solved = set(resolved)
    shares: dict[str, RepoCounts] = {}
    for name, group in sorted(groups, key=lambda pair: pair[1]):
        share = shares.setdefault(group, {"resolved": 0, "total": 0})
        share["total"] += 1
        share["resolved"] += name in solved
    return shares


_BUILTIN = "builtin"
_GROUPS = (
    "run",
    "times",
    IMPORTED,
    "versions",
    "dataset",
    "prices",
    "models",
    "evaluation",
)
# The parameters that are needed to repeat the run and contain no local path; ``equal_failures`` is
# one of version 0.12.
_PARAMETERS = (
    "tries", "temperatures", "environment", "tests", "require_tests", "select", "scripts", "rounds",
    "stop", "all_attempts", "equal_failures", "history",
    "max_reflections", "matching", "on_failed_edit", "map_tokens", "max_output_tokens",
    "test_timeout", "baseline_timeout",
)  # fmt: skip
_HIDDEN_HALF = (
    "Does not use SWE-bench test knowledge (`PASS_TO_PASS`, `FAIL_TO_PASS`).",
    "Does not use the `hints` field of SWE-bench.",
)
_HOW_HIDDEN = (
    " The harness keeps the gold patch, the test patch and both lists from everything that works "
    "on an instance; tests that were run, if any, are those of the base commit, chosen by the "
    "names and imports of the files that an attempt edited."
)


@dataclass(frozen=True)
class Readme:
    meta: Meta
    run: RunData
    rows: Sequence[Row]  # of all instances of the split
    lists: Lists
    split: str

    @property
    def _attempts(self) -> int:
        return max(
            (len(instance.attempts) for instance in self.run.instances), default=0
        )

    @property
    def _several_runs(self) -> bool:
        return len({instance.origin for instance in self.run.instances}) > 1

    @property
    def several(self) -> bool:
        """Whether the score is best@k instead of that of single attempts."""
        return self._attempts > 1 or self._several_runs

    def text(self) -> str:
        parts = (self._head(), self._score(), self._checklist(), self._record())
        return "\n".join(line for part in parts for line in part)

    def _head(self) -> Iterator[str]:
        meta = self.meta
        yield f"# {meta.name}\n"
        yield f"- Site: {meta.site}"
        yield f"- Report: {meta.report}"
        yield f"- Authors: {', '.join(meta.authors)}"
        yield f"- First author: {meta.authors[0]}, {meta.first_author_site}"
        if meta.affiliations:
            yield f"- Affiliations: {', '.join(meta.affiliations)}"
        yield f"- Predictions, logs and trajectories: {meta.artifacts}\n"

    def _score(self) -> Iterator[str]:
        lists, resolved, total = self.lists, len(self.lists.resolved), len(self.rows)
        yield f"## Results on {self.split}\n"
        interval = wilson(resolved, total)
        yield (
            f"Resolved {resolved} of {total} instances ({100 * resolved / total:.2f}%; 95 % "
            f"Wilson interval {100 * interval.low:.1f} to {100 * interval.high:.1f})."
        )
        yield (
            f"Without a patch: {len(lists.no_generation)}; without an evaluation's report: "
            f"{len(lists.no_logs)}. Both count as unresolved.\n"
        )
        repos, years = (
            by_repo(self.rows, lists.resolved),
            by_time(self.rows, lists.resolved),
        )
        yield from (
            "```",
            *summary_lines(self.meta.entry_name, self.split, lists, repos, years),
            "```\n",
        )
        marked = [
            i.instance_id for i in self.run.instances if i.edits_test_configuration
        ]
        if marked:
            ids = ", ".join(map(one_line, marked))
            yield f"Predictions that edit test configuration: {ids}.\n"

    def _checklist(self) -> Iterator[str]:
        ours = not self.run.described.is_imported
        box = "- [x]" if ours else "- [ ]"
        tests, hints = _HIDDEN_HALF
        web = "Does not have web browsing."
        if self.meta.web_browsing:
            measures = self.meta.web_measures.strip()
            web = f"Can browse the web, and could not look solutions up: {measures}"
        config = self.run.described.configuration
        if config.agent_allow_web:
            web = (
                "Does not have web browsing: not so, the run was made with agent.allow_web, and "
                "the agent could use what its provider searches or fetches."
            )
        made = f" {self._attempts_made()}" if ours else ""
        yield "## Checklist\n"
        yield f"{box} Is a pass@1 submission: one prediction per instance.{made}"
        yield f"{box} {tests}{_HOW_HIDDEN if ours else ''}"
        yield f"{box} {hints}"
        yield f"{'- [ ]' if config.agent_allow_web else box} {web}"
        if not ours:
            layout = str((self.run.described.imported or {}).get("layout", ""))
            yield (
                f"\nThe run was made by another harness ({one_line(layout)}) and imported; its "
                "authors have to check these boxes.\n"
            )
            return
        used = {model.edit_format for model in config.models}
        # A command's template may contain secrets; its kind is enough here.
        kinds = {config.agent.split(":", 1)[0], *filter(named_agent, used)}
        kinds -= {"", _BUILTIN}
        if kinds:
            yield (
                "\nThe attempts were made by another agent than the harness's own "
                f"({', '.join(sorted(kinds))}): the "
                "harness gave it the issue and a checkout of one commit, and cannot speak for more."
            )
        yield ""

    def _attempts_made(self) -> str:
        if not self.several:
            return "One attempt was made on each."
        runs = " and several runs were combined" if self._several_runs else ""
        done = "evaluated"
        if any(instance.verdicts for instance in self.run.instances):
            done = "submitted; others were evaluated after the choice, for pass@k"
        config = self.run.described.configuration
        scripts = " and by scripts that models wrote for the issue,"
        more = scripts if config.select == SelectionRule.EVIDENCE else ","
        return (
            f"It is best@k with one prediction: up to {self._attempts} attempts were made on an "
            f"instance{runs}; the harness chose one of them by its edits, its lint and the tests "
            f"of the base commit{more} without any knowledge of the evaluation, and only that one "
            f'was {done} (`attempts: "2+"`).'
        )

    def _record(self) -> Iterator[str]:
        yield "## How it was made\n"
        for group, pairs in provenance(self.run).items():
            # The groups of a combination end with the name of the run.
            kind = group.partition(" of the run ")[0]
            for name, value in pairs:
                if kind in _GROUPS or (kind == "parameters" and name in _PARAMETERS):
                    yield f"- {one_line(group)}: {one_line(name)}: {one_line(value)}"
        yield "- evaluation: swebench, in its own images\n"
