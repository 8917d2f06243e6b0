"""One agent on one checkout: the model's turn, the agent's work, and the record of both."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from swe_retry.agent.agentsettings import BUILTIN
from swe_retry.agent.conversation.limits import ConversationLimits
from swe_retry.agent.lint.linter import Linter
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.named import is_outside
from swe_retry.agent.protocol import Task, Transcript
from swe_retry.agent.repomap.rendered import RenderedMaps
from swe_retry.attempts.checkouts import Checkouts
from swe_retry.attempts.history import Briefing
from swe_retry.attempts.host import AttemptHost
from swe_retry.attempts.outcomes import TreeChecks, check_outcomes
from swe_retry.attempts.services import Services
from swe_retry.attempts.task import make_task
from swe_retry.core.errors import InfrastructureError, StoppedError, UserError
from swe_retry.environments.docker.agents import join_tests
from swe_retry.instances.split import Instance
from swe_retry.llm.gate import Gate
from swe_retry.llm.options import ModelChoice
from swe_retry.llm.tracing import OUTCOME, TracedGate, note_error
from swe_retry.record.records import BROKEN_STATUSES, Attempt, AttemptStatus
from swe_retry.repositories.checkout import Checkout
from swe_retry.runner.jobs import JobContext
from swe_retry.runner.modelsource import NotRecordedError, Turn
from swe_retry.runner.progress.state import WorkStep
from swe_retry.testing.suite import RegressionTests


@dataclass(frozen=True)
class AttemptSetup:
    """What the attempts on an instance share.

    Attributes:
        maps: maps of the base commit.
        linter: checks edited files with the compiler of the instance's Python.
        tests: None where no test can run.
        untestable: why none can; empty where tests were not asked for.
        keep: takes the record of an attempt that an exception ends.
    """

    instance: Instance
    services: Services
    context: JobContext
    checkouts: Checkouts
    files: FileIndex
    maps: RenderedMaps
    linter: Linter
    tests: RegressionTests | None
    limits: ConversationLimits
    keep: Callable[[Attempt], None]
    untestable: str


@dataclass(frozen=True)
class AttemptWork:
    """The work on one attempt at an instance.

    Attributes:
        number: from 1 over the whole instance.
        try_: from 1, per model.
        briefing: what it is told of the attempts before it.
        trace: makes its gates send spans.
    """

    setup: AttemptSetup
    number: int
    try_: int
    choice: ModelChoice
    temperature: float
    checkout: Checkout
    briefing: Briefing
    trace: Callable[[Gate], Gate] = lambda gate: gate

    def run(self) -> Attempt:
        """Let the agent work and return the record; an exception in it is part of the record."""
        tracing = self.setup.services.tracing
        if tracing is None:
            return self._take_turn()
        agent = BUILTIN
        if is_outside(self.choice.edit_format):
            agent = self.choice.edit_format
        instance_id = self.setup.instance.instance_id
        with tracing.attempt(
            instance_id,
            self.number,
            self.choice.label,
            agent,
        ) as span:
            trace = partial(TracedGate, tracing=tracing, attempt=span)
            attempt = replace(self, trace=trace)._take_turn()
            status = str(attempt.status)
            span.set_attribute(OUTCOME, status)
            tracing.note_messages(span, "gen_ai.input.messages", attempt.messages or ())
            if attempt.status in BROKEN_STATUSES:
                note_error(span, status)
        return attempt

    def _take_turn(self) -> Attempt:
        services = self.setup.services
        attempt = Attempt(
            attempt=self.number,
            try_=self.try_,
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
        started = time.monotonic()
        try:
            turn = services.models.turn(
                self.setup.instance.instance_id,
                self.number,
                self.choice,
                self.temperature,
                self._open_gate(),
            )
        except NotRecordedError:
            replay = services.config.settings.calls.replay
            return attempt.but(
                status=AttemptStatus.NOT_RECORDED,
                error=f"--replay {replay} has no recording of it",
            )
        attempt = attempt.but(
            model=turn.name,
            edit_format=turn.edit_format,
            agent_version=services.agent_versions.get(turn.edit_format, ""),
            traits=turn.traits,
            temperature=turn.temperature,
            origin=turn.origin,
        )
        attempt = self._run_agent(attempt, turn)
        return attempt.but(seconds=round(time.monotonic() - started, 3))

    def _open_gate(self) -> Gate:
        seconds = self.setup.services.config.settings.budget.seconds_per_attempt
        return self.trace(self.setup.context.gate(self.number, seconds))

    def _run_agent(self, attempt: Attempt, turn: Turn) -> Attempt:
        setup = self.setup
        show = partial(setup.context.step, self.number, turn.name)
        show(WorkStep.MAP)
        checks = TreeChecks(
            checkout=self.checkout,
            linter=setup.linter,
            tests=setup.tests,
            untestable=setup.untestable,
            before_tests=partial(self._before_tests, show),
        )
        task = self._make_task(turn, checks, show)
        transcript = task.transcript
        try:
            work = setup.services.agent.work(task)
            record = _with_conversation(attempt, transcript)
            return check_outcomes(record, work, checks, task.limits, task.log)
        except (InfrastructureError, UserError, OSError):
            status = AttemptStatus.INFRA_ERROR
            setup.keep(_with_conversation(attempt, transcript, status))
            raise
        except (StoppedError, KeyboardInterrupt):
            status = AttemptStatus.INTERRUPTED
            setup.keep(_with_conversation(attempt, transcript, status))
            raise
        except Exception:  # an attempt must not take the run with it
            ended = _with_conversation(attempt, transcript, AttemptStatus.ERROR)
            return ended.but(error=traceback.format_exc())

    def _before_tests(self, show: Callable[[WorkStep], None]) -> None:
        self.setup.context.worker.stop.check()
        show(WorkStep.TESTING)

    def _make_task(
        self,
        turn: Turn,
        checks: TreeChecks,
        show: Callable[[WorkStep], None],
    ) -> Task:
        setup = self.setup
        task = make_task(
            setup.services.config,
            setup.instance,
            self.checkout,
            turn,
            setup.files,
            setup.maps,
        )
        message = task.message
        if self.briefing.text:
            message = f"{message.rstrip()}\n\n{self.briefing.text}"
        host = AttemptHost(
            context=setup.context,
            checkouts=setup.checkouts,
            checks=checks,
            show=show,
            draw_map=task.host.draw_map,
            open_gate=self._open_gate,
        )
        if setup.tests:
            task = replace(
                task, surround=partial(join_tests, session=setup.tests.session)
            )
        return replace(
            task,
            message=message,
            temperature=self.temperature,
            limits=setup.limits,
            run_tests=checks.run_tests if setup.tests else None,
            linter=setup.linter,
            log=setup.context.log.info,
            host=host,
        )


def _with_conversation(
    attempt: Attempt,
    transcript: Transcript,
    status: AttemptStatus | str = "",
) -> Attempt:
    return attempt.with_call(transcript.messages, *transcript.calls).but(
        status=status,
        hidden_paths=transcript.hidden_paths,
        readable_copies=transcript.readable_copies,
    )
