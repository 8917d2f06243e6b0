"""An instance as a job of a run: alternate the models on fresh checkouts until one is plausible."""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from swe_retry.agent.agentsettings import BUILTIN
from swe_retry.agent.conversation.testreport import TestReport
from swe_retry.agent.lint.findings import Change, Finding
from swe_retry.agent.named import is_outside
from swe_retry.agent.protocol import Host, Task
from swe_retry.agent.surroundings import Surroundings, Transcript
from swe_retry.attempts.choose import finish_choice
from swe_retry.attempts.evidence.choice import choose_by_evidence
from swe_retry.attempts.evidence.gathering import EvidenceGathering
from swe_retry.attempts.evidence.writers import ScriptWriters
from swe_retry.attempts.fullsuite import choose_tested
from swe_retry.attempts.history import Briefing, brief
from swe_retry.attempts.outcomes import TreeChecks, check_outcomes
from swe_retry.attempts.policy import StopRule
from swe_retry.attempts.prepare import (
    InstanceTools,
    conversation_setup,
    instance_folder,
    prepare,
)
from swe_retry.attempts.run_fit import RunFit
from swe_retry.attempts.services import Services
from swe_retry.attempts.stop import budget_ended, stop_reason
from swe_retry.core.errors import InfrastructureError, StoppedError, UserError
from swe_retry.core.money import total
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import BrokenEnvironmentError, EnvironmentKind
from swe_retry.environments.docker.agents import join_tests
from swe_retry.instances.instance import Instance
from swe_retry.llm.gate import Gate
from swe_retry.llm.tracing import OUTCOME, CallSpans, note_error
from swe_retry.record.evidence import BeliefFit
from swe_retry.record.records import (
    BROKEN_STATUSES,
    Attempt,
    AttemptStatus,
)
from swe_retry.record.result import InstanceResult, InstanceStatus
from swe_retry.repositories.checkout import Checkout, LeakError
from swe_retry.runner.jobs import End, JobContext
from swe_retry.runner.modelsource import NotRecordedError, ReplayedModels, Turn
from swe_retry.runner.progress.state import WorkStep
from swe_retry.runner.slots import waiting_for_model


@dataclass
class Solver:
    """The work on one instance.

    Attributes:
        stop_fit: decides by which belief attempts end; None for the stated values.
    """

    instance: Instance
    services: Services
    context: JobContext
    stop_fit: BeliefFit | None = None
    records: list[Attempt] = field(default_factory=list)

    @cached_property
    def writers(self) -> ScriptWriters:
        return ScriptWriters(self.instance, self.services, self.context)

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        return [*self.records, *self.writers.records]

    def run(self) -> End[InstanceResult]:
        try:
            # The image before the slot: a job that waits for room must not hold a slot that the
            # user of another image needs. The folder is removed without a slot.
            with (
                instance_folder(self.instance, self.context) as folder,
                self.services.pin_image(self.instance),
                self.context.slot,
                prepare(self.instance, self.services, self.context, folder) as tools,
            ):
                ask = self.writers.ask
                evidence = EvidenceGathering(tools, ask, self.stop_fit)
                self._make_attempts(tools, evidence)
                result = self._choose_patch(tools, evidence)
        except LeakError as error:
            raise InfrastructureError(str(error)) from error
        except BrokenEnvironmentError as error:
            reason = f"no model was called: {error} (tests.required=false: go on without tests)"
            return End(InstanceStatus.INFRA_ERROR, reason)
        called = any(attempt.calls for attempt in result.attempts)
        if result.status is InstanceStatus.BUDGET and not called:
            reason = f"not started: {result.attempts[-1].error}"
            return End(InstanceStatus.BUDGET, reason)
        return End(result.status, result.reason, result)

    def _make_attempts(self, tools: InstanceTools, evidence: EvidenceGathering) -> None:
        """Make attempts until one is enough, or none is left, or the budget is used up.

        Those that an earlier start finished are kept, and what was decided after each is decided
        again: the same scripts are asked for at the same time.
        """
        log = self.context.log
        config = self.services.config
        finished = deque(self.context.finished_attempts())
        while len(self.records) < tools.max_attempts:
            reason = self._reason_to_stop(evidence)
            if reason:
                log.info("no further attempt: %s", reason)
                break
            if budget_ended(self.records, len(config.models)):
                break
            if finished:
                self.records.append(finished.popleft())
                continue
            self.context.worker.stop.check()
            number = len(self.records) + 1
            checkout = tools.checkouts.make_fresh(number)
            briefing = brief(config.settings.choice.history, self.records)
            keep = self.records.append
            attempt = AttemptWork(tools, number, checkout, briefing, keep).run()
            attempt = attempt.but(stop_fit=self.stop_fit)
            self.context.note_attempt(attempt)
            self.records.append(attempt)
            log.info("attempt %d (%s): %s", number, attempt.model, attempt.status)

    def _reason_to_stop(self, evidence: EvidenceGathering) -> str:
        """Return why no further attempt is to be made; empty to go on."""
        config = self.services.config
        choice = config.settings.choice
        greatest = 0.0
        if choice.stop is StopRule.SURE and self.records:
            greatest = evidence.greatest_weight(self.records)
        return stop_reason(
            self.records,
            choice.stop,
            require_tests=config.requires_tests,
            sure=choice.sure,
            greatest=greatest,
        )

    def _choose_patch(
        self, tools: InstanceTools, gathering: EvidenceGathering
    ) -> InstanceResult:
        config = self.services.config
        evidence = None
        if config.by_evidence:
            evidence = gathering.gather(self.records)
        choose = partial(
            choose_by_evidence,
            evidence=evidence,
            fit=gathering.fit,
            require_tests=config.requires_tests,
        )
        choice = finish_choice(choose_tested(self.records, choose, tools), self.records)
        winner = choice.winner
        writers = self.writers.records
        return InstanceResult(
            instance_id=self.instance.instance_id,
            model_name_or_path=config.model_name_or_path,
            title=self.instance.title,
            model_patch=winner.model_patch if winner else "",
            status=choice.status,
            reason=choice.reason,
            attempt=(winner or self.records[0]).attempt,
            cost=total(attempt.cost for attempt in (*self.records, *writers)),
            attempts=tuple(self.records),
            evidence=evidence,
            belief=choice.belief,
            writers=writers,
        )


@dataclass
class AttemptWork(Host):
    """One agent on one checkout: the model's turn, the agent's work, and the record of both.

    It is the host of its agent.

    Attributes:
        number: from 1 over the whole instance.
        briefing: what it is told of the attempts before it.
        keep: takes the record of an attempt that an exception ends.
        spans: of its calls; None where no spans are sent.
    """

    tools: InstanceTools
    number: int
    checkout: Checkout
    briefing: Briefing
    keep: Callable[[Attempt], None]
    spans: CallSpans | None = None
    transcript: Transcript = field(default_factory=Transcript)
    record: Attempt = field(init=False)

    def __post_init__(self) -> None:
        config = self.tools.services.config
        rounds, place = divmod(self.number - 1, len(config.models))
        self.choice = config.models[place]
        self.temperature = config.settings.models.temperature(rounds + 1)
        self.record = Attempt(
            attempt=self.number,
            try_=rounds + 1,
            model=self.choice.label,
            edit_format=self.choice.edit_format,
            temperature=self.temperature,
            told_of=self.briefing.attempts,
            messages=(),
            calls=(),
            cost=Decimal(),
            reflections=0,
            seconds=0.0,
        )

    def run(self) -> Attempt:
        """Let the agent work and return the record; an exception in it is part of the record."""
        services = self.tools.services
        started = time.monotonic()
        with self._tracing():
            try:
                task = self._make_task()
            except NotRecordedError:
                replay = services.config.settings.calls.replay
                error = f"--replay {replay} has no recording of it"
                status = AttemptStatus.NOT_RECORDED
                self.record = self.record.but(status=status, error=error)
                return self.record
            try:
                work = services.agent.work(task)
                limits = task.setup.limits
                ended = self._recorded()
                ended = check_outcomes(ended, work, self.checks, limits, task.log)
            except (InfrastructureError, UserError, OSError):
                self.keep(self._recorded(AttemptStatus.INFRA_ERROR))
                raise
            except (StoppedError, KeyboardInterrupt):
                self.keep(self._recorded(AttemptStatus.INTERRUPTED))
                raise
            except Exception:  # an attempt must not take the run with it
                ended = self._recorded(AttemptStatus.ERROR)
                ended = ended.but(error=traceback.format_exc())
            self.record = ended.but(seconds=round(time.monotonic() - started, 3))
            return self.record

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        tracing = self.tools.services.tracing
        if tracing is None:
            yield
            return
        agent = BUILTIN
        if is_outside(self.choice.edit_format):
            agent = self.choice.edit_format
        instance_id = self.tools.instance.instance_id
        label = self.choice.label
        with tracing.attempt(instance_id, self.number, label, agent) as span:
            self.spans = CallSpans(tracing, span)
            yield
            status = str(self.record.status)
            messages = self.record.messages or ()
            span.set_attribute(OUTCOME, status)
            tracing.note_messages(span, "gen_ai.input.messages", messages)
            if self.record.status in BROKEN_STATUSES:
                note_error(span, status)

    @cached_property
    def turn(self) -> Turn:
        """The model; a NotRecordedError where replies are replayed and it has none."""
        return self.tools.services.models.turn(
            self.tools.instance.instance_id,
            self.number,
            self.choice,
            self.temperature,
            self.open_gate(),
        )

    @cached_property
    def checks(self) -> TreeChecks:
        return TreeChecks(self.checkout, self.tools, self._before_tests)

    def _before_tests(self) -> None:
        self.tools.context.worker.stop.check()
        self.show(WorkStep.TESTING)

    def show(self, step: WorkStep) -> None:
        """Show a step of the attempt to the user."""
        self.tools.context.step(self.number, self.turn.name, step)

    def _make_task(self) -> Task:
        turn = self.turn
        services = self.tools.services
        instance = self.tools.instance
        config = services.config
        # Without an environment a replay goes on to its end: what tests said is not there again.
        is_replay = config.settings.calls.replay is not None
        is_untested_replay = is_replay and config.environment is EnvironmentKind.NONE
        self.record = self.record.but(
            model=turn.name,
            edit_format=turn.edit_format,
            agent_version=services.agent_versions.get(turn.edit_format, ""),
            traits=turn.traits,
            temperature=turn.temperature,
            origin=turn.origin,
        )
        self.show(WorkStep.MAP)
        slot = self.tools.context.slot
        waiting = partial(waiting_for_model, slot, self.show, self.checkout.settle)
        turn = turn.with_waiting(waiting)
        message = instance.problem_statement
        if self.briefing.text:
            message = f"{message.rstrip()}\n\n{self.briefing.text}"
        return Task(
            root=self.checkout.root,
            message=message,
            files=self.tools.files,
            model=turn.model,
            architect=turn.architect,
            model_name=turn.name,
            edit_format=turn.edit_format,
            temperature=self.temperature,
            transcript=self.transcript,
            log=self.tools.context.log.info,
            setup=conversation_setup(
                config, instance, until_exhausted=is_untested_replay
            ),
            host=self,
        )

    def _recorded(self, status: AttemptStatus | str = "") -> Attempt:
        """Return the record with what was said until now."""
        transcript = self.transcript
        return self.record.with_call(transcript.messages, *transcript.calls).but(
            status=status,
            hidden_paths=transcript.hidden_paths,
            readable_copies=transcript.readable_copies,
        )

    def draw_map(self) -> str:
        return self.tools.draw_map(self.checkout.root, self.turn)

    def let_others_work(self) -> AbstractContextManager[None]:
        self.show(WorkStep.STARTING)
        return self.tools.context.slot.given_back()

    def note_call(self) -> None:
        self.show(WorkStep.ASKING)

    def open_gate(self) -> Gate:
        seconds = self.tools.services.config.settings.budget.seconds_per_attempt
        return self.tools.context.gate(self.number, seconds, self.spans)

    def settle_checkout(self) -> None:
        self.checkout.settle()

    def allow_reuse(self) -> None:
        self.tools.checkouts.allow_reuse()

    def check_killed(self) -> None:
        self.tools.context.worker.stop.check_at_once()

    def new_findings(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        return self.tools.linter.new_findings(changes)

    def run_tests(self, changes: Changes) -> TestReport:
        return self.checks.run_tests(changes)

    def surround(self, surroundings: Surroundings) -> Surroundings:
        tests = self.tools.tests
        if tests is None:
            return surroundings
        return join_tests(surroundings, tests.session)

    def review_tree(self) -> str:
        return self.checks.describe_problem()


@dataclass(frozen=True)
class InstanceJob:
    """An instance to solve; see ``swe_retry.runner.jobs.Job``.

    Attributes:
        run_fit: what the run has learned until the job starts.
    """

    instance: Instance
    recordings: ReplayedModels | None = None
    run_fit: RunFit = field(default_factory=RunFit)

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
        """Return the job with the recordings of its instance, and what the run has learned."""
        job = replace(self, run_fit=self.run_fit.now())
        if self.recordings is None:
            return job
        attempts = {self.key: self.recordings.attempts(self.key)}
        return replace(job, recordings=replace(self.recordings, read=attempts))

    def current_fit(self) -> BeliefFit | None:
        """Return by what attempts end that start now; in a replay, by what they ended."""
        if self.recordings is not None:
            return self.recordings.stop_fit(self.key)
        return self.run_fit.current

    def start(self, services: Services, context: JobContext) -> Solver:
        fit = self.current_fit()
        finished = context.finished_attempts()
        if finished:
            fit = finished[0].stop_fit
        if self.recordings is not None:
            services = replace(services, models=self.recordings)
        return Solver(self.instance, services, context, fit)
