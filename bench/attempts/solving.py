"""An instance as a job of a run: alternate the models on fresh checkouts until one is plausible."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from logging import Logger
from pathlib import Path
from typing import Any

from agent.builtin import BuiltinAgent
from agent.conversation.mentions import FileIndex
from agent.lint import Linter
from agent.prompts import render
from agent.repomap import RenderedMaps
from agent.workspace import Workspace
from bench.attempts.attempt import AttemptWork, Services, ToldOf, linter_for
from bench.attempts.candidates import CandidateChoice, choose
from bench.attempts.evidence import choose_by_evidence
from bench.attempts.gathering import EvidenceGatherer
from bench.attempts.given import GivenCandidate, GivenModels
from bench.attempts.predicted import tree_of
from bench.attempts.scripts import ScriptWriter
from bench.attempts.stopping import stop_reason
from bench.attempts.transcript import title_of
from bench.config import FullSuite, RunConfig
from bench.instances.instance import Instance
from bench.instances.project import project_of, snapshot_of
from bench.policy import ToldHistory
from bench.regression.baselines import ALL_TESTS
from bench.regression.lintcommand import CommandLinter
from bench.regression.suite import RegressionTests, TestLimits
from bench.regression.testlogs import results_in_words
from bench.repos.checkout import (
    Checkout,
    LeakError,
    Snapshot,
    make_checkout,
    make_spread,
    renew_checkout,
)
from bench.repos.mirrors import add_submodules
from core.errors import InfrastructureError
from core.money import total
from core.plaintext import counted, some
from core.processes import CommandResult, remove_tree
from core.worktree import Changes
from environments.base import Session, UnavailableError, run_once
from runs.evidence import Evidence
from runs.jobs import End, JobContext
from runs.modelsource import ReplayedModels
from runs.progress.state import WorkStep
from runs.records import (
    Attempt,
    AttemptStatus,
    InstanceResult,
    InstanceStatus,
    status_by,
)


@dataclass
class Solver:
    """The work on one instance."""

    instance: Instance
    services: Services
    context: JobContext
    records: list[Attempt] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    writers: dict[int, ScriptWriter] = field(default_factory=dict)

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        return [*self.records, *(writer.record for writer in self.writers.values())]

    def run(self) -> End[InstanceResult]:
        try:
            # First: a job that waits for room must not hold a slot that the user of another
            # image needs.
            with self.services.pinned(self.instance), self.context.slot:
                solved = self._solve()
        except LeakError as error:
            raise InfrastructureError(str(error)) from error
        finally:
            # Without a slot: a disk is waited for, and others can work meanwhile.
            for folder in self.folders:
                remove_tree(folder)
        called = any(attempt.calls for attempt in solved.attempts)
        if solved.status is InstanceStatus.BUDGET and not called:
            words = f"not started: {solved.attempts[-1].error}"
            return End(InstanceStatus.BUDGET, words)
        return End(solved.status, solved.reason, solved)

    def _solve(self) -> InstanceResult:
        """Make attempts until one is plausible or all are used up, and choose."""
        config, instance, work = (
            self.services.config,
            self.instance,
            self.context.worker.work,
        )
        self.context.step(0, "", WorkStep.CHECKOUT)
        snapshot = snapshot_of(instance, self.services.mirrors, self.services.snapshots)
        make_spread(work)
        folder = Path(tempfile.mkdtemp(dir=work, prefix=f"{instance.instance_id}."))
        self.folders.append(folder)
        base = make_checkout(snapshot, folder / "base") if config.needs_base else None
        tests = self._tests(base) if base else None
        evidence = None
        try:
            self._all_attempts(snapshot, folder, tests)
            if base and config.by_evidence:
                evidence = self._gatherer(base, tests).gather(self.records)
            choice = explained(self._chosen(evidence, tests, base), self.records)
        finally:
            if tests:
                tests.session.stop()
        writers = tuple(writer.record for writer in self.writers.values())
        return InstanceResult(
            instance_id=instance.instance_id,
            model_name_or_path=config.model_name_or_path,
            title=title_of(instance.problem_statement),
            model_patch=choice.winner.model_patch if choice.winner else "",
            status=choice.status,
            reason=choice.reason,
            attempt=(choice.winner or self.records[0]).attempt,
            cost=total(one.cost for one in (*self.records, *writers)),
            attempts=tuple(self.records),
            evidence=evidence,
            writers=writers,
        )

    def _chosen(
        self,
        evidence: Evidence | None,
        tests: RegressionTests | None,
        base: Checkout | None,
    ) -> CandidateChoice:
        """Choose; where it is asked for, all tests run on the winner before it is final.

        If one newly fails, the winner ranks lower, and the next best is chosen and tested.
        """
        choice = self._choice(evidence)
        if self.services.config.full_suite is not FullSuite.WINNER or not (
            tests and base
        ):
            return choice
        tested: set[int] = set()
        while choice.winner and choice.winner.attempt not in tested:
            tested.add(choice.winner.attempt)
            index = choice.winner.attempt - 1
            record = self.records[index]
            self.context.step(record.attempt, record.model, WorkStep.TESTING)
            self.records[index] = with_all_tests(record, tests, base)
            choice = self._choice(evidence)
        return choice

    def _choice(self, evidence: Evidence | None) -> CandidateChoice:
        require_tests = self.services.config.require_tests
        if evidence is None:
            return choose(self.records, require_tests=require_tests)
        return choose_by_evidence(self.records, evidence, require_tests=require_tests)

    def _gatherer(
        self, base: Checkout, tests: RegressionTests | None
    ) -> EvidenceGatherer:
        config = self.services.config
        return EvidenceGatherer(
            instance=self.instance,
            base=base,
            tests=tests,
            ask=self._ask,
            models=len(config.models),
            most_scripts=config.scripts,
            most_rounds=config.rounds,
            cache=self.context.worker.cache / "scripts",
            log=self.context.log,
        )

    def _ask(self, model: int, prompt: str) -> tuple[str, str]:
        if model not in self.writers:
            self.writers[model] = ScriptWriter.of(
                -model, self.instance, self.services, self.context
            )
        writer = self.writers[model]
        return writer.record.model, writer.ask(prompt)

    def _all_attempts(
        self,
        snapshot: Snapshot,
        folder: Path,
        tests: RegressionTests | None,
    ) -> None:
        config = self.services.config
        index = FileIndex.of(snapshot.blobs)
        given = self._given
        outside, tags = config.outside_agent or given is not None, self.services.tags
        maps = None if outside else RenderedMaps(snapshot.blobs, tags)
        linter = self._linter(tests)
        checkout: Checkout | None = None
        most = len(config.models) * config.tries if given is None else len(given)
        for number in range(1, most + 1):
            self.context.worker.stop.check()
            checkout = self._checkout(snapshot, folder / f"attempt-{number}", checkout)
            record = AttemptWork(
                instance=self.instance,
                services=self.services,
                number=number,
                checkout=checkout,
                files=index,
                repo_map=maps,
                tests=tests,
                linter=linter,
                context=self.context,
                save=self.records.append,
                told=self._told(),
            ).run()
            self.records.append(record)
            self.context.log.info(
                "attempt %d (%s): %s", number, record.model, record.status
            )
            reason = stop_reason(
                self.records, config.stop_rule, require_tests=config.require_tests
            )
            if reason:
                self.context.log.info("no further attempt: %s", reason)
                break
            last = self.records[-len(config.models) :]
            broke = all(one.status is AttemptStatus.BUDGET for one in last)
            if len(last) == len(config.models) and broke:
                break

    @property
    def _given(self) -> Sequence[GivenCandidate] | None:
        """The candidates that were made elsewhere; None where attempts make them."""
        models = self.services.models
        return (
            models.given[self.instance.instance_id]
            if isinstance(models, GivenModels)
            else None
        )

    def _checkout(
        self, snapshot: Snapshot, root: Path, used: Checkout | None
    ) -> Checkout:
        """Return a fresh checkout: the ``used`` one, reset, where only our agent wrote to it."""
        if used and isinstance(self.services.agent, BuiltinAgent):
            return renew_checkout(used)
        if used:
            remove_tree(used.root)
        return make_checkout(snapshot, root)

    def _told(self) -> ToldOf:
        """Return what the next attempt is told of the others."""
        if self.services.config.history is ToldHistory.NONE or not self.records:
            return ToldOf()
        outcomes = [outcome_in_words(record) for record in self.records]
        count = counted(len(outcomes), "attempt was made", "attempts were made")
        words = render("history", count=count, outcomes="\n".join(outcomes))
        return ToldOf(words, tuple(record.attempt for record in self.records))

    def _linter(self, tests: RegressionTests | None) -> Linter:
        linter, own = linter_for(self.instance), self.instance.commands
        if tests is None or own is None or not own.lint:
            return linter

        def run(changes: Changes) -> CommandResult:
            return run_once(tests.session, changes, own.lint, _LINT_SECONDS)

        warn, command = self.context.worker.warn_once, own.lint
        return CommandLinter(
            linter.compiler, linter.own, run=run, command=command, warn=warn
        )

    def _tests(self, base: Checkout) -> RegressionTests | None:
        config, instance = self.services.config, self.instance
        if not config.runs_tests:
            return None
        if instance.commands:
            add_submodules(
                self.services.mirrors.get(instance.repo, instance.base_commit), base
            )
        try:
            session = self.services.environment.start(project_of(self.instance, base))
        except UnavailableError as error:
            words = f"{self.instance.repo}: {error}; test outcomes are unknown"
            self.context.worker.warn_once(words)
            self.context.log.warning("no tests: %s", error)
            return None
        worker = self.context.worker
        tests = regression_tests(
            config, self.instance, session, base, worker.cache, self.context.log
        )
        return replace(tests, check=worker.stop.check, spare=worker.slots.spare)


def with_all_tests(record: Attempt, tests: RegressionTests, base: Checkout) -> Attempt:
    """Return ``record`` with the outcome of all tests on its patch; unknown, its own stays."""
    report = tests.full_suite.run(tree_of(base, record.patch) or {})
    outcome = record.test_outcome
    if outcome is not False and report.outcome is not None:
        outcome = report.outcome
    words = f"all tests: {results_in_words(report.results.get(ALL_TESTS, {}))}"
    failing = tuple(failure.name for failure in report.failures)
    if failing:
        words += f", newly failing: {some(failing, _MOST_TESTS)}"
    if report.outcome is None:
        words = f"all tests could not tell: {report.untested or 'they have no usable baseline'}"
    tested = record.but(
        test_outcome=outcome,
        untested=record.untested if outcome is None else "",
        test_note="; ".join(filter(None, (record.test_note, words, report.note))),
        failing=failing or record.failing,
    )
    if not record.plausible:
        return tested
    return tested.but(status=status_by(tested))


def regression_tests(
    config: RunConfig,
    instance: Instance,
    session: Session,
    base: Checkout,
    cache: Path,
    log: Logger,
) -> RegressionTests:
    """Return the tests of an instance, whose base commit is checked out in ``base``."""
    return RegressionTests(
        instance=instance,
        session=session,
        choice=config.tests,
        limits=TestLimits(config.test_timeout, config.baseline_timeout),
        files=base.tracked_files(),
        read=Workspace(base.root).read,
        cache=cache / "baselines",
        identity=session.identity,
        log=log,
    )


_NAMED = 3
_LINT_SECONDS = 600.0
_MOST_TESTS = 20


def outcome_in_words(record: Attempt) -> str:
    """Return what became of an attempt, for the next one: files, status, newly failing tests."""
    edited = some(record.edited_files, _MOST_TESTS) or "no file"
    words = f"- Attempt {record.attempt} edited {edited}: {record.status.replace('_', ' ')}."
    if record.test_outcome is False and record.failing:
        words += f" Tests that newly failed: {some(record.failing, _MOST_TESTS)}."
    return words


def explained(choice: CandidateChoice, records: Sequence[Attempt]) -> CandidateChoice:
    """Name what broke an instance, and the window or budget that ended an attempt on it."""
    if choice.status is InstanceStatus.ERROR:
        last = records[-1].error.strip().splitlines()
        words = last[-1] if last else records[-1].status.replace("_", " ")
        return replace(choice, reason=f"{choice.reason}; the last: {words}")
    outgrown = [str(r.attempt) for r in records if r.status is AttemptStatus.CONTEXT]
    if outgrown and choice.winner is None:
        which = f"attempt{'s' if len(outgrown) > 1 else ''} {some(outgrown, _NAMED)}"
        reason = f"{choice.reason}; {which} did not fit into the model's window"
        choice = replace(choice, reason=reason)
    ended = [r.attempt for r in records if r.status is AttemptStatus.BUDGET]
    if not ended or choice.status is InstanceStatus.PLAUSIBLE:
        return choice
    reason = f"{choice.reason}; the budget ended attempt {ended[0]}"
    return replace(choice, status=InstanceStatus.BUDGET, reason=reason)


@dataclass(frozen=True)
class InstanceJob:
    """An instance to solve; see ``runs.jobs.Job``."""

    instance: Instance
    recordings: ReplayedModels | None = None

    @property
    def key(self) -> str:
        return self.instance.instance_id

    @property
    def description(self) -> str:
        return self.instance.instance_id

    @property
    def group(self) -> str:
        return self.instance.repo.replace("/", "__")

    def portable(self) -> InstanceJob:
        """Return the job with the recordings of its instance."""
        if self.recordings is None:
            return self
        read = {self.key: self.recordings.attempts(self.key)}
        return replace(self, recordings=replace(self.recordings, read=read))

    def start(self, services: Services, context: JobContext) -> Solver:
        if self.recordings is not None:
            services = replace(services, models=self.recordings)
        return Solver(self.instance, services, context)
