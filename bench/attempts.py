"""Alternate the models on fresh checkouts of one instance until a candidate is plausible."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.chat import RequestRefusedError
from agent.coder import Coder
from agent.errors import InfrastructureError, UserError
from agent.formats import get_format
from agent.lint import Linter
from agent.mentions import FileIndex
from agent.outcomes import Ending, Limits, Result
from agent.repomap import RepoMap, TagStore
from agent.testreport import TestReport
from agent.workspace import Workspace
from bench.candidates import Candidate, Choice, attempt_status, choose
from bench.checkout import Checkout, Snapshots, make_checkout
from bench.compilers import linter_for
from bench.config import EnvironmentKind, RunConfig, TestChoice
from bench.environments import Changes, Environment, Session, UnavailableError
from bench.instances import Instance
from bench.mirrors import Mirrors
from bench.modelsource import ModelSource, NotRecordedError, Turn
from bench.patches import applies, fit_patch, take_patch
from bench.preexisting import Preexisting, TestLimits
from bench.records import AttemptRecord
from bench.statuses import AttemptStatus


@dataclass(frozen=True)
class Services:
    """What attempts need from outside, shared by all instances of a run."""

    config: RunConfig
    mirrors: Mirrors
    snapshots: Snapshots
    tags: TagStore
    environment: Environment
    models: ModelSource
    work: Path
    baselines: Path
    warn_once: Callable[[str], None]


@dataclass(frozen=True)
class Solved:
    """All attempts on an instance, and the choice among them."""

    instance: Instance
    attempts: tuple[AttemptRecord, ...]
    choice: Choice

    @property
    def winner(self) -> AttemptRecord | None:
        """The record of the chosen candidate."""
        chosen = self.choice.winner
        return next((a for a in self.attempts if chosen and a.attempt == chosen.attempt), None)


@dataclass
class Solver:
    """Solves one instance; ``records`` holds what was done so far, whatever happens."""

    instance: Instance
    services: Services
    log: logging.Logger
    records: list[AttemptRecord] = field(default_factory=list)

    def solve(self) -> Solved:
        """Make attempts until one is plausible or all are used up, and choose.

        Raises:
            InfrastructureError: something outside failed; the instance must be redone.
            UserError: the run cannot go on (credentials, another model recorded).
        """
        config, instance = self.services.config, self.instance
        mirror = self.services.mirrors.get(instance.repo, instance.base_commit)
        snapshot = self.services.snapshots.get(mirror, instance.repo, instance.base_commit)
        self.services.work.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self.services.work, prefix=f"{instance.instance_id}."))
        try:
            base = make_checkout(snapshot, instance.base_commit, folder / "base")
            tests = self._tests(base)
            try:
                self._all_attempts(snapshot, base, folder, tests)
            finally:
                if tests:
                    tests.session.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        candidates = [record.candidate for record in self.records]
        choice = choose(candidates, require_tests=config.require_tests)
        return Solved(instance, tuple(self.records), choice)

    def _all_attempts(
        self, snapshot: Path, base: Checkout, folder: Path, tests: Preexisting | None
    ) -> None:
        config = self.services.config
        index = FileIndex.of(base.tracked_files())
        repo_map = RepoMap.of(base.blobs(), base.root, self.services.tags)
        rendered = repo_map.render(self.instance.problem_statement, config.map_tokens)
        linter = linter_for(self.instance)
        for number in range(1, len(config.models) * config.tries + 1):
            root = folder / f"attempt-{number}"
            checkout = make_checkout(snapshot, self.instance.base_commit, root)
            attempt = _Attempt(self, number, checkout, index, rendered, tests, linter)
            record = attempt.run()
            self.records.append(record)
            shutil.rmtree(root, ignore_errors=True)
            self.log.info("attempt %d (%s): %s", number, record.model, record.status.value)
            if self._enough(record) and not config.all_attempts:
                break

    def _enough(self, record: AttemptRecord) -> bool:
        if self.services.config.require_tests:
            return record.status is AttemptStatus.PLAUSIBLE
        return record.candidate.plausible

    def _tests(self, base: Checkout) -> Preexisting | None:
        config = self.services.config
        if config.tests is TestChoice.NONE or config.environment is EnvironmentKind.NONE:
            return None
        try:
            session = self.services.environment.start(self.instance, base)
        except UnavailableError as error:
            self.services.warn_once(f"{self.instance.repo}: {error}; test outcomes are unknown")
            self.log.warning("no tests: %s", error)
            return None
        return self._preexisting(base, session)

    def _preexisting(self, base: Checkout, session: Session) -> Preexisting:
        config = self.services.config
        return Preexisting(
            instance=self.instance,
            session=session,
            choice=config.tests,
            limits=TestLimits(config.test_timeout, config.baseline_timeout),
            files=base.tracked_files(),
            read=Workspace(base.root).read,
            cache=self.services.baselines,
            identity=self.services.environment.identity(self.instance),
            log=self.log,
        )


@dataclass
class _Attempt:
    """One attempt of a solver: whose turn it is, on which checkout, and how it ended."""

    solver: Solver
    number: int
    checkout: Checkout
    index: FileIndex
    repo_map: str
    tests: Preexisting | None
    linter: Linter

    def run(self) -> AttemptRecord:
        """Lead the conversation and return the record; an exception in it is part of the record.

        Raises:
            InfrastructureError, UserError: as ``Solver.solve``.
        """
        config = self.solver.services.config
        choice = config.models[(self.number - 1) % len(config.models)]
        try_ = (self.number - 1) // len(config.models) + 1
        record = AttemptRecord(
            Candidate(self.number), choice.name, choice.edit_format, try_, config.temperature(try_)
        )
        started = time.monotonic()
        name = self.solver.instance.instance_id
        try:
            models = self.solver.services.models
            turn = models.turn(name, self.number, choice, record.temperature)
        except NotRecordedError:
            return _with_status(record, AttemptStatus.NOT_RECORDED)
        record = replace(
            record, model=turn.name, edit_format=turn.edit_format, traits=turn.model.traits
        )
        record = self._converse(record, turn)
        return replace(record, seconds=time.monotonic() - started)

    def _converse(self, record: AttemptRecord, turn: Turn) -> AttemptRecord:
        config = self.solver.services.config
        replay_on = config.replay is not None and config.environment is EnvironmentKind.NONE
        workspace = Workspace(self.checkout.root)
        coder = Coder(
            workspace=workspace,
            files=self.index,
            model=turn.model,
            edit_format=get_format(turn.edit_format, config.matching),
            limits=Limits(config.max_reflections, until_exhausted=replay_on),
            on_failure=config.on_failed_edit,
            run_tests=(lambda: self._judge(workspace)) if self.tests else None,
            linter=self.linter,
        )
        issue = self.solver.instance.problem_statement
        try:
            result = coder.run(issue, self.repo_map)
            return self._finished(record, coder, result)
        except (InfrastructureError, UserError, OSError):
            self.solver.records.append(_said(record, coder, AttemptStatus.INFRA_ERROR))
            raise
        except KeyboardInterrupt:
            self.solver.records.append(_said(record, coder, AttemptStatus.INTERRUPTED))
            raise
        except RequestRefusedError as error:
            # What was edited before the refusal is still a candidate.
            finished = self._finished(record, coder, coder.result(Ending.REFUSED))
            return replace(finished, error=str(error))
        except Exception:  # an attempt must not take the run with it
            return replace(_said(record, coder, AttemptStatus.ERROR), error=traceback.format_exc())

    def _finished(self, record: AttemptRecord, coder: Coder, result: Result) -> AttemptRecord:
        commit = self.checkout.base_commit
        raw = take_patch(self.checkout.root, commit)
        fit = fit_patch(raw)
        fits = not fit.patch or applies(self.checkout.root, commit, fit.patch)
        candidate = Candidate(
            attempt=self.number,
            fit_patch=fit.patch,
            applies=fits,
            edit=result.edit,
            lint=result.lint,
            test=result.test,
            status=_ended_early(result.ending, coder.limits),
        )
        said = _said(record, coder, attempt_status(candidate))
        return replace(
            said,
            candidate=candidate,
            model_patch=raw,
            dropped_files=fit.dropped,
            added_files=result.chat_files,
            edited_files=result.edited_files,
            reflections=result.reflections,
        )

    def _judge(self, workspace: Workspace) -> TestReport:
        return self.tests.judge(_changes(workspace)) if self.tests else TestReport(None)


def _ended_early(ending: Ending, limits: Limits) -> AttemptStatus | None:
    """Return the status of a conversation that did not end by its outcomes."""
    if ending is Ending.REFUSED:
        return AttemptStatus.ERROR
    if ending is Ending.CONTEXT:
        return AttemptStatus.CONTEXT
    exhausted = ending is Ending.REPLAY_EXHAUSTED and not limits.until_exhausted
    return AttemptStatus.REPLAY_EXHAUSTED if exhausted else None


def _changes(workspace: Workspace) -> Changes:
    """Return the present bytes of every file that was written."""
    places = {path: workspace.root / path for path in workspace.originals}
    return {path: p.read_bytes() if p.is_file() else None for path, p in places.items()}


def _said(record: AttemptRecord, coder: Coder, status: AttemptStatus) -> AttemptRecord:
    said = replace(record, messages=tuple(coder.messages), calls=tuple(coder.calls))
    return _with_status(said, status)


def _with_status(record: AttemptRecord, status: AttemptStatus) -> AttemptRecord:
    final = (
        record.candidate if record.candidate.usable else replace(record.candidate, status=status)
    )
    return replace(record, status=status, candidate=final)
