"""What a run leaves to its user: a summary, and the patch where it was asked for."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath

from rich.console import Console
from rich.syntax import Syntax

from swe_retry.attempts.own_settings import (
    PATCH,
    PATCH_HEADING,
    SUMMARY,
    ProjectSettings,
)
from swe_retry.attempts.transcript import attempts_table, patch_block
from swe_retry.core.address import without_logins
from swe_retry.core.atomic import write_bytes_atomic, write_text_atomic
from swe_retry.core.money import as_text, in_words, range_words
from swe_retry.core.plaintext import abbreviate, one_line, some, visible
from swe_retry.core.texts import render_text
from swe_retry.environments.local.buildsteps import error_line
from swe_retry.own.issues import Issue
from swe_retry.own.repository import OwnRepository
from swe_retry.record.patches import SubmittablePatch, submittable_patch, without_files
from swe_retry.record.records import Attempt
from swe_retry.record.store import RunStore
from swe_retry.repositories.mirrors import ENV_NAME
from swe_retry.runner.calls.ledger import at_most, read_ledger, total
from swe_retry.testing.baselines import Baseline
from swe_retry.testing.testlogs import (
    Results,
    describe_results,
    failed_test_names,
    passing_tests,
)

_TEMPLATE = Path(__file__).with_name("summary.md")
_MAX_NAMES = 200
_MAX_SUBJECT = 72
_PYTEST_ERROR = re.compile(r"(?m)^E +(\w.{0,300})")
_EXCEPTION = re.compile(r"[\w.]+(?:Error|Exception)\b")


@dataclass(frozen=True)
class Before:
    """All tests at the base commit.

    Attributes:
        untested: why they have no result that could decide; empty where they have.
        command: runs them; empty where they did not run.
        note: what limits ``results``.
    """

    untested: str = ""
    command: str = ""
    results: Results = field(default_factory=dict)
    note: str = ""

    @classmethod
    def of(cls, baseline: Baseline, command: str, seconds: float) -> Before:
        before = cls(command=command, results=baseline.results)
        if baseline.timed_out or baseline.died:
            end = "were killed"
            if baseline.timed_out:
                end = f"did not end within {seconds:.0f} s"
            note = f"all tests {end}: related tests alone decide; see tests.timeout"
            return replace(before, note=note)
        if passing_tests(baseline.results):
            return before
        untested = "no test passes at the base commit"
        if not baseline.results:
            untested = f"no result of a test in the output of {command}"
        return replace(before, untested=untested)

    def lines(self, limit: int) -> Iterator[str]:
        """Yield what a user should know of it, with at most ``limit`` names of tests."""
        if self.results:
            yield f"Tests before, `{self.command}`: {describe_results(self.results)}"
        names = failed_test_names(self.results)
        if names:
            yield f"Failing before, so never held against a candidate: {as_code(names, limit)}"
        if self.note:
            yield f"Note: {one_line(self.note)}"
        if self.untested:
            yield f"No baseline: {one_line(self.untested)}"


def failure_cause(output: str) -> str:
    """Return the line of the tests' output that says why most of them fail."""
    lines = _PYTEST_ERROR.findall(output)
    errors = [line for line in lines if _EXCEPTION.match(line)]
    counts = Counter(errors or lines)
    if not counts:
        return error_line(output)
    return str(counts.most_common(1)[0][0])


class OwnOutcome(StrEnum):
    """What came of a run on one's own repository."""

    PLAUSIBLE = "plausible"
    UNTESTED = "plausible, untested"
    NOT_PLAUSIBLE = "not plausible"
    NONE = "no candidate"
    NOTHING_TO_TEST = "nothing to test"


@dataclass(frozen=True)
class OwnResult:
    """The result of a run for an issue.

    Attributes:
        cost: of all calls of the run; None where a price is unknown.
        winner: the attempt whose patch is ``patch``; None without a candidate.
        patch: without edits of tests, which ``dropped`` names.
    """

    repository: OwnRepository
    issue: Issue
    store: RunStore
    before: Before
    cost: Decimal | None
    outcome: OwnOutcome = OwnOutcome.NONE
    reason: str = "the attempts did not end (the log says why); repeat the command"
    attempts: Sequence[Attempt] = ()
    winner: Attempt | None = None
    patch: str = ""
    dropped: Sequence[str] = ()
    cost_at_most: Decimal | None = None

    @classmethod
    def read(
        cls,
        repository: OwnRepository,
        issue: Issue,
        store: RunStore,
        name: str,
        before: Before,
    ) -> OwnResult:
        """Return the result of the instance ``name`` from the files of its run."""
        ledger = read_ledger(store.ledger).values
        cost = total(ledger)
        unfinished = cls(
            repository,
            issue,
            store,
            before,
            cost,
            cost_at_most=at_most(ledger),
        )
        if not store.prediction(name).exists():
            return unfinished
        result = store.read_result(name)
        deliverable = deliverable_patch(result.model_patch)
        ended = replace(
            unfinished,
            reason=one_line(result.reason),
            attempts=result.attempts,
            dropped=deliverable.dropped,
        )
        winner = result.chosen
        if winner is None or not deliverable.patch.strip():
            return ended
        outcome = OwnOutcome.NOT_PLAUSIBLE
        if result.plausible and winner.test_outcome:
            outcome = OwnOutcome.PLAUSIBLE
        elif result.plausible:
            outcome = OwnOutcome.UNTESTED
        return replace(ended, outcome=outcome, winner=winner, patch=deliverable.patch)

    @property
    def plausible(self) -> bool:
        return self.outcome in (OwnOutcome.PLAUSIBLE, OwnOutcome.UNTESTED)

    def as_json(self, branch: str, exit_code: int) -> str:
        """Return one line for programs."""
        if self.outcome is OwnOutcome.NOTHING_TO_TEST:
            return json.dumps({"outcome": self.outcome.value, "exit_code": exit_code})
        folder = self.store.folder
        patch = str(folder / PATCH) if self.patch else None
        return json.dumps(
            {
                "run": self.store.run,
                "outcome": self.outcome.value,
                "reason": self.reason,
                "exit_code": exit_code,
                "cost_usd": as_text(self.cost),
                "patch": patch,
                "branch": branch or None,
                "summary": str(folder / SUMMARY),
            }
        )

    def write(self) -> None:
        """Write the summary and the patch into the folder of the run."""
        patch = patch_block(self.patch)
        text = f"{self._summary}\n{PATCH_HEADING}\n\n{patch}"
        write_text_atomic(self.store.folder / SUMMARY, self.store.redact(text))
        if self.patch:
            _write_patch(self.store.folder / PATCH, self.patch)

    def lines(self) -> Iterator[str]:
        """Yield what the user reads in the terminal."""
        yield ""
        yield from self.store.redact(self._summary).splitlines()
        yield ""
        if self.patch:
            yield _coloured_patch(self.patch)
            yield f"patch:   {self.store.folder / PATCH}"
        folder = self.store.folder
        yield f"summary: {folder / SUMMARY}"
        page = folder / "report/report.html"
        yield f"page:    {page}, after: python report.py {shlex.quote(str(folder))}"

    @cached_property
    def _summary(self) -> str:
        return render_text(
            _TEMPLATE,
            attempts_table,
            as_code,
            one_line,
            range_words,
            result=self,
            configuration=self.store.read_run().configuration,
            env_files=list(filter(_is_env_file, self.dropped)),
            max_names=_MAX_NAMES,
        )


def deliverable_patch(patch: str) -> SubmittablePatch:
    """Leave out edits of tests, and files named ``.env``, which no base has."""
    submittable = submittable_patch(patch)
    rest = without_files(submittable.patch, lambda part: _is_env_file(part.path))
    return replace(rest, dropped=submittable.dropped + rest.dropped)


def _is_env_file(path: str) -> bool:
    return PurePosixPath(path).name == ENV_NAME


def deliver(project: ProjectSettings, result: OwnResult) -> Iterator[str]:
    """Put the patch where it was asked for; yield what was done.

    Raises:
        UserError: the work tree or the branch is not as the patch needs it.
    """
    if project.patch and result.patch:
        _write_patch(project.patch, result.patch)
        yield f"patch:   {project.patch}"
    if not (project.apply or project.branch):
        return
    if not result.plausible and not (project.least_bad and result.patch):
        yield "not applied, because it is not plausible; project.least_bad applies what there is"
        return
    if project.branch:
        yield from _commit(project.branch, result)
    if project.apply:
        result.repository.apply(result.patch)
        yield f"applied to {result.repository.tree}"


def _commit(branch: str, result: OwnResult) -> Iterator[str]:
    """Commit the patch to a new branch; yield its commit, and the commands for a pull request."""
    repository = result.repository
    subject = abbreviate(result.issue.title, _MAX_SUBJECT)
    lines = [subject, ""]
    if result.issue.url:
        lines += [result.issue.url, ""]
    lines += [
        f"Retry-Harness-Run: {result.store.run}",
        f"Retry-Harness-Cost: {in_words(result.cost)}",
        "",
    ]
    commit = repository.commit_to(branch, result.patch, "\n".join(lines))
    yield f"branch:  {branch}, one commit: {commit[:12]}"
    if not repository.remote:
        return
    folder = str(repository.tree or repository.repo.git_dir)
    remote = without_logins(repository.remote)
    yield f"  {shlex.join(['git', '-C', folder, 'push', remote, branch])}"
    options = {
        "--repo": repository.name,
        "--head": branch,
        "--title": subject,
        "--body-file": str(result.store.folder / SUMMARY),
    }
    arguments = ["gh", "pr", "create"]
    for name, value in options.items():
        arguments += [name, value]
    yield f"  {shlex.join(arguments)}"


def _write_patch(path: Path, patch: str) -> None:
    write_bytes_atomic(path, patch.encode("utf-8", "surrogateescape"))


def as_code(names: Sequence[str], limit: int = _MAX_NAMES) -> str:
    """Return names as code in Markdown."""
    quoted = []
    for name in names:
        text = one_line(name).replace("`", "'")
        quoted.append(f"`{text}`")
    return some(quoted, limit)


def _coloured_patch(patch: str) -> str:
    """Return a patch, in colours where standard output is a terminal."""
    text = visible(patch)
    terminal = Console()
    if not terminal.is_terminal:
        return text
    syntax = Syntax(text, "diff", background_color="default", word_wrap=True)
    with terminal.capture() as capture:
        terminal.print(syntax)
    return capture.get()
