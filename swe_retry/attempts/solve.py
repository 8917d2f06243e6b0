"""An instance as a job of a run: alternate the models on fresh checkouts until one is plausible."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from swe_retry.attempts.choose import finish_choice
from swe_retry.attempts.evidence.writers import ScriptWriters
from swe_retry.attempts.history import brief
from swe_retry.attempts.prepare import InstancePlan, instance_folder, prepare
from swe_retry.attempts.refit import RunFit
from swe_retry.attempts.services import Services
from swe_retry.attempts.stop import budget_ended
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.money import total
from swe_retry.environments.base import BrokenEnvironmentError
from swe_retry.instances.instance import Instance
from swe_retry.record.evidence import BeliefFit
from swe_retry.record.records import Attempt
from swe_retry.record.result import InstanceResult, InstanceStatus
from swe_retry.repositories.checkout import LeakError
from swe_retry.runner.jobs import End, JobContext
from swe_retry.runner.modelsource import ReplayedModels


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
                prepare(
                    self.instance,
                    self.services,
                    self.context,
                    folder,
                    self.writers,
                    self.records.append,
                    self.stop_fit,
                ) as plan,
            ):
                result = self._solve(plan)
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

    def _make_attempts(self, plan: InstancePlan) -> None:
        """Make attempts until one is enough, or none is left, or the budget is used up.

        Those that an earlier start finished are kept, and what was decided after each is decided
        again: the same scripts are asked for at the same time.
        """
        log = self.context.log
        finished = deque(self.context.finished_attempts())
        while len(self.records) < plan.attempts:
            reason = plan.stop_policy.reason(self.records)
            if reason:
                log.info("no further attempt: %s", reason)
                break
            if budget_ended(self.records, len(plan.models)):
                break
            if finished:
                self.records.append(finished.popleft())
                continue
            self.context.worker.stop.check()
            number = len(self.records) + 1
            checkout = plan.checkouts.make_fresh(number)
            briefing = brief(plan.history, self.records)
            attempt = plan.attempt(number, checkout, briefing).run()
            attempt = attempt.but(stop_fit=self.stop_fit)
            self.context.note_attempt(attempt)
            self.records.append(attempt)
            log.info("attempt %d (%s): %s", number, attempt.model, attempt.status)

    def _solve(self, plan: InstancePlan) -> InstanceResult:
        self._make_attempts(plan)
        evidence = None
        if self.services.config.by_evidence:
            evidence = plan.evidence.gather(self.records)
        choice = plan.full_suite.choose(self.records, plan.chooser_for(evidence))
        choice = finish_choice(choice, self.records)
        winner = choice.winner
        writers = self.writers.records
        return InstanceResult(
            instance_id=self.instance.instance_id,
            model_name_or_path=self.services.config.model_name_or_path,
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
