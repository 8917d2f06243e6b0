"""What a run leaves to its user: a summary, and the patch where it was asked for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath

from rich.console import Console
from rich.syntax import Syntax

from bench.attempts import attempts_table, fenced
from bench.own.issues import Issue
from bench.own.repository import OwnRepository
from bench.own.settings import ProjectSettings
from bench.regression.baselines import Baseline
from bench.regression.testlogs import Results, failing, passing, results_in_words
from bench.repos.mirrors import ENV_NAME
from core.address import without_logins
from core.atomic import write_bytes_atomic, write_text_atomic
from core.money import as_text, in_words
from core.plaintext import one_line, shortened, some, visible
from runs.calls.ledger import Ledger, total
from runs.patches import SubmittablePatch, split_patch, submittable_patch
from runs.records import Attempt
from runs.storage.store import RunStore

SUMMARY, PATCH = "summary.md", "candidate.patch"
_NAMED = 200
_LONGEST_SUBJECT = 72


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
        untested, note = "", ""
        if baseline.timed_out or baseline.died:
            why = (
                f"did not end within {seconds:.0f} s"
                if baseline.timed_out
                else "were killed"
            )
            note = f"all tests {why}: related tests alone decide; see tests.timeout"
        elif not passing(baseline.results):
            none = "no test passes at the base commit"
            untested = (
                none
                if baseline.results
                else f"no result of a test in the output of {command}"
            )
        return cls(untested, command, baseline.results, note)

    def lines(self, most: int) -> Iterator[str]:
        """Yield what a user should know of it, with at most ``most`` names of tests."""
        if self.results:
            yield f"Tests before, `{self.command}`: {results_in_words(self.results)}"
        if names := failing(self.results):
            yield f"Failing before, so never held against a candidate: {_code(names, most)}"
        for name, words in (("Note", self.note), ("No baseline", self.untested)):
            if words:
                yield f"{name}: {one_line(words)}"


class OwnOutcome(str, Enum):
    """What came of a run on one's own repository."""

    PLAUSIBLE = "plausible"
    UNTESTED = "plausible, untested"
    NOT_PLAUSIBLE = "not plausible"
    NONE = "no candidate"


@dataclass(frozen=True)
class OwnResult:
    """What a run found for an issue.

    Attributes:
        cost: of all calls of the run; None where a price is unknown.
        winner: the attempt whose patch is ``patch``; None without a candidate.
        patch: without edits of tests, which ``dropped`` names.
    """

    repository: OwnRepository
    issue: Issue
    store: RunStore
    before: Before
    outcome: OwnOutcome
    reason: str
    cost: Decimal | None
    attempts: Sequence[Attempt] = ()
    winner: Attempt | None = None
    patch: str = ""
    dropped: Sequence[str] = ()

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
        path, cost = store.prediction(name), total(Ledger.load(store.ledger).lines())
        if not path.exists():
            reason = "the attempts did not end; the same command continues"
            none = OwnOutcome.NONE
            return cls(repository, issue, store, before, none, reason, cost)
        result = store.read_result(name)
        fit = deliverable_patch(result.model_patch)
        winner = None
        outcome = OwnOutcome.NONE
        if fit.patch.strip():
            winner = result.chosen
            outcome = OwnOutcome.NOT_PLAUSIBLE
        if winner and result.plausible:
            outcome = OwnOutcome.UNTESTED
            if winner.test_outcome:
                outcome = OwnOutcome.PLAUSIBLE
        return cls(
            repository,
            issue,
            store,
            before,
            outcome,
            one_line(result.reason),
            cost,
            result.attempts,
            winner,
            fit.patch if winner else "",
            fit.dropped,
        )

    @property
    def plausible(self) -> bool:
        return self.outcome in (OwnOutcome.PLAUSIBLE, OwnOutcome.UNTESTED)

    def as_json(self, branch: str, exit_code: int) -> str:
        """Return one line for programs."""
        folder, cost = self.store.folder, as_text(self.cost)
        patch = str(folder / PATCH) if self.patch else None
        return json.dumps(
            {
                "run": self.store.run,
                "outcome": self.outcome.value,
                "reason": self.reason,
                "exit_code": exit_code,
                "cost_usd": cost,
                "patch": patch,
                "branch": branch or None,
                "summary": str(folder / SUMMARY),
            }
        )

    def write(self) -> None:
        """Write the summary and the patch into the folder of the run."""
        patch = fenced(self.patch, "diff") if self.patch else "None.\n"
        text = "\n".join([*self._about(), "", "## Patch", "", patch])
        write_text_atomic(self.store.folder / SUMMARY, self.store.redact(text))
        if self.patch:
            _write_patch(self.store.folder / PATCH, self.patch)

    def lines(self) -> Iterator[str]:
        """Yield what the user reads in the terminal."""
        yield ""
        yield from map(self.store.redact, self._about())
        yield ""
        if self.patch:
            yield _coloured(self.patch)
            yield f"patch:   {self.store.folder / PATCH}"
        yield f"summary: {self.store.folder / SUMMARY}"

    def _about(self) -> Iterator[str]:
        winner, outcome = self.winner, self.outcome.value
        yield f"# {one_line(self.issue.title)}\n"
        yield f"- **{outcome[:1].upper()}{outcome[1:]}**: {self.reason}"
        yield f"- Cost: {in_words(self.cost)}"
        yield from (f"- {line}" for line in self.before.lines(_NAMED))
        if winner and winner.test_note:
            yield f"- Tests after: {one_line(winner.test_note)}"
        env_files = [
            path for path in self.dropped if PurePosixPath(path).name == ENV_NAME
        ]
        tests = [path for path in self.dropped if path not in env_files]
        if tests:
            yield f"- Left out, as edits of tests: {_code(tests)}"
        if env_files:
            yield f"- Left out, as settings of one machine: {_code(env_files)}"
        yield f"- Base: `{self.repository.head}` of {self.repository.name}"
        if self.issue.url:
            yield f"- Issue: {self.issue.url}"
        if self.attempts:
            yield ""
            yield from attempts_table(self.attempts, winner)


def deliverable_patch(patch: str) -> SubmittablePatch:
    """Leave out edits of tests, and files named ``.env``, which no base has."""
    fit = submittable_patch(patch)
    kept, dropped = [], list(fit.dropped)
    for part in split_patch(fit.patch.encode("utf-8", "surrogateescape")):
        if PurePosixPath(part.path).name == ENV_NAME:
            dropped.append(part.path)
        else:
            kept.append(part.data)
    return SubmittablePatch(
        b"".join(kept).decode("utf-8", "surrogateescape"), tuple(dropped)
    )


def deliver(project: ProjectSettings, result: OwnResult) -> Iterator[str]:
    """Put the patch where it was asked for; yield what was done.

    Raises:
        UserError: the work tree or the branch is not as the patch needs it.
    """
    repository, issue, store = result.repository, result.issue, result.store
    if project.patch and result.patch:
        _write_patch(project.patch, result.patch)
        yield f"patch:   {project.patch}"
    if (project.apply or project.branch) and not (
        result.plausible or (project.least_bad and result.patch)
    ):
        yield "not applied, because it is not plausible; project.least_bad applies what there is"
        return
    if project.branch:
        cost, subject = in_words(result.cost), shortened(issue.title, _LONGEST_SUBJECT)
        said = [issue.url, ""] if issue.url else []
        said += [f"Retry-Harness-Run: {store.run}", f"Retry-Harness-Cost: {cost}", ""]
        made = repository.commit_to(
            project.branch, result.patch, "\n".join([subject, "", *said])
        )
        yield f"branch:  {project.branch}, one commit: {made[:12]}"
        if remote := repository.remote:
            place = str(repository.tree or repository.repo.git_dir)
            where = without_logins(remote)
            yield f"  {shlex.join(['git', '-C', place, 'push', where, project.branch])}"
            words = [
                "--repo",
                repository.name,
                "--head",
                project.branch,
                "--title",
                subject,
            ]
            words += ["--body-file", str(store.folder / SUMMARY)]
            yield f"  {shlex.join(['gh', 'pr', 'create', *words])}"
    if project.apply:
        repository.apply(result.patch)
        yield f"applied to {repository.tree}"


def _write_patch(path: Path, patch: str) -> None:
    write_bytes_atomic(path, patch.encode("utf-8", "surrogateescape"))


def _code(names: Sequence[str], most: int = _NAMED) -> str:
    return some([f"`{one_line(name).replace('`', chr(39))}`" for name in names], most)


def _coloured(patch: str) -> str:
    """Return a patch, in colours where standard output is a terminal."""
    shown, terminal = visible(patch), Console()
    if not terminal.is_terminal:
        return shown
    with terminal.capture() as capture:
        terminal.print(
            Syntax(shown, "diff", background_color="default", word_wrap=True)
        )
    return capture.get()
