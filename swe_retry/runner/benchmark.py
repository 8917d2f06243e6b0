"""A benchmark as the run machinery sees it: its jobs, what they need, and how one is saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from swe_retry.core.address import recorded_address
from swe_retry.core.jsontypes import JsonMapping, JsonObject
from swe_retry.core.money import total
from swe_retry.core.plaintext import Say, quantity
from swe_retry.environments.base import EnvironmentKind
from swe_retry.record.description import Run
from swe_retry.record.manifest import (
    all_versions,
    changed_address,
    note_returned,
    open_run,
    timestamp,
)
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.coordinator import CallCoordinator
from swe_retry.runner.calls.ledger import Ledger, replayed_lines, unsure
from swe_retry.runner.config import CommonConfig
from swe_retry.runner.jobs import Finished, Job, WorkerAccess, longest_first
from swe_retry.runner.progress.summary_json import (
    RunSummary,
    over_budget_words,
    summary_words,
)
from swe_retry.runner.redo import Plan, Redo, plan, put_aside_redone, select_redo

V = TypeVar("V")


@dataclass
class Benchmark(ABC, Generic[V]):
    """One start of a run: subclasses say what its jobs are and how their results are saved.

    Attributes:
        statuses: the words for ends with a result, in files and for the user; the first is success.
        noun: what a job is called.
        packages: imported by a worker on another machine, beside swe_retry.
        part: the keys of the jobs that this start may work on; None for all.
    """

    statuses: ClassVar[tuple[str, ...]] = ("done", "failed")
    noun: ClassVar[str] = "job"
    packages: ClassVar[tuple[str, ...]] = ()

    config: CommonConfig
    store: RunStore
    say: Say
    part: Collection[str] | None = field(default=None, kw_only=True)
    ledger: Ledger = field(init=False)
    _returned: set[tuple[str, str]] = field(default_factory=set, init=False)

    @property
    @abstractmethod
    def jobs(self) -> Mapping[str, Job]:
        """The selected jobs by key, in their order."""

    @property
    def selection(self) -> str:
        """What is selected, in words."""
        return quantity(len(self.jobs), self.noun)

    @abstractmethod
    def services(self) -> Callable[[WorkerAccess], Any]:
        """Return what builds the services of jobs once in each process; it can be pickled."""

    @abstractmethod
    def save(self, finished: Finished[V]) -> None:
        """Write the files of a job with a result; afterwards its prediction exists."""

    @property
    def containers(self) -> bool:
        """Whether a worker that was killed may leave containers."""
        return self.config.environment is EnvironmentKind.DOCKER

    @property
    def needs_index(self) -> bool:
        """Whether a worker builds environments with packages from an index."""
        return False

    def deciding(self) -> JsonObject:
        """Return what a continued run must repeat, because it decides results."""
        return self.config.deciding()

    def versions(self) -> dict[str, str]:
        """Return the versions of what decides results."""
        return all_versions()

    def describe(self) -> Run:
        """Return what ``run.json`` says of a new run."""
        run = Run(
            run=self.store.run,
            config=self.config.as_json(),
            deciding=self.deciding(),
            versions=self.versions(),
            started=timestamp(),
        )
        if self.store.reader:
            return run.but(read_with=self.store.reader)
        return run

    def recorded_settings(self) -> JsonMapping:
        """Return the settings that any source gave; empty keeps those before."""
        return {}

    def choose(
        self,
        coordinator: CallCoordinator,
        say: Say,
    ) -> tuple[Sequence[Job], Plan]:
        """Open the run, and return the jobs to do and the plan that they belong to."""
        changed = changed_address(
            self.store, recorded_address(self.config.settings.calls.api_base)
        )
        if changed:
            say(changed)
        # First: another configuration must not put the files of this run aside.
        self.open()
        pending = self.select_jobs(say)
        if self.part is not None:
            chosen = [key for key in pending.todo if key in self.part]
            pending = replace(pending, todo=tuple(chosen))
        redo = self.redo
        if redo:
            put_aside_redone(self.store, coordinator, redo, pending.todo)
        todo = set(pending.todo)
        jobs = [job for key, job in self.jobs.items() if key in todo]
        return self.prepare_jobs(jobs, say), pending

    @property
    def redo(self) -> Redo | None:
        if not self.config.redo:
            return None
        return Redo.parse(self.config.redo, self.jobs, self.statuses)

    def select_jobs(self, say: Say) -> Plan:
        """Return what this start works on, and say how much it is; change nothing."""
        redo = self.redo
        if redo is None:
            return self.plan_work(say)
        keys = list(self.jobs)
        chosen = select_redo(self.store, redo, keys)
        say(f"{self.selection} selected, {len(chosen)} to redo")
        rest = [key for key in keys if key not in chosen]
        pending = plan(self.store, self.config.money, rest)
        return replace(pending, todo=tuple(chosen))

    def open(self) -> None:
        """Write ``run.json``, or compare with the one that is there."""
        open_run(self.store, self.describe(), self.jobs, self.recorded_settings())

    def done_elsewhere(self) -> Collection[str]:
        """Return the keys of jobs that earlier runs have done."""
        return ()

    def plan_work(self, say: Say) -> Plan:
        """Return what is to do, without what earlier runs have, and say how much it is."""
        keys = list(self.jobs)
        every = plan(self.store, self.config.money, keys)
        pending = every.without(self.done_elsewhere())
        skipped = len(every.todo) - len(pending.todo)
        before = ""
        if skipped:
            before = f"{skipped} {self.statuses[0]} in earlier runs, "
        done = len(pending.done)
        todo = len(pending.todo)
        say(f"{self.selection} selected, {done} done before, {before}{todo} to do")
        if pending.over_budget:
            say(over_budget_words(pending.over_budget))
        for problem in pending.broken.values():
            say(f"left alone: {problem}")
        return pending

    def prepare_jobs(self, jobs: Sequence[Any], say: Say) -> Sequence[Job]:
        """Do what comes before the first of ``jobs``, and return them as they are worked on."""
        return jobs

    def order(self, jobs: Sequence[Any], seconds: Mapping[str, float]) -> Sequence[Job]:
        """Order the jobs by the seconds that they and others took before."""
        return longest_first(jobs, seconds)

    def more(self) -> Sequence[str]:
        """Return lines on the run as a whole, which a terminal shows below the first."""
        return ()

    def finish(self) -> None:
        """Do what comes after the last job, also after an exception."""

    def review(self, summary: RunSummary) -> RunSummary:
        """Return the summary with what is wrong with the results as a whole."""
        return summary

    def conclusion(self, summary: RunSummary) -> Iterator[str]:
        """Yield what the user reads at the end."""
        yield summary_words(summary)

    def take(self, finished: Finished[V], coordinator: CallCoordinator) -> None:
        """Save a job in the process that holds the run's lock."""
        try:
            if finished.end.value is None:
                self.keep_unfinished(finished)
            else:
                self.complete(finished, coordinator)
        finally:
            named = {
                (attempt.model, call.model)
                for attempt in finished.attempts
                for call in attempt.calls or ()
                if call.model
            }
            # Names of models in replies are noted at once, because the run may be killed.
            new = named - self._returned
            if new:
                self._returned.update(new)
                with suppress(OSError):  # a full disk must not take what others do
                    note_returned(self.store, new)

    def complete(self, finished: Finished[V], coordinator: CallCoordinator) -> None:
        """Save a job with a result, after its calls."""
        if self.config.settings.calls.replay is not None:
            for attempt in finished.attempts:
                for line in replayed_lines(
                    finished.key,
                    attempt.attempt,
                    attempt.model,
                    attempt.calls or (),
                ):
                    coordinator.ledger.add(line)
        coordinator.ledger.sync()
        self.ledger = coordinator.ledger
        self.save(finished)

    def keep_unfinished(self, finished: Finished[V]) -> None:
        """Write what was done on a job that must be redone."""
        result = InstanceResult(
            instance_id=finished.key,
            status=finished.end.status,
            reason=finished.end.reason,
            attempts=tuple(
                attempt for attempt in finished.attempts if attempt.attempt >= 1
            ),
            writers=tuple(
                attempt for attempt in finished.attempts if attempt.attempt < 1
            ),
        )
        try:
            self.store.save_unfinished(result)
        except OSError as error:  # a full disk must not hide what went wrong first
            self.say(f"{finished.key}: cannot save what was done: {error}")

    def with_start(self, result: InstanceResult) -> InstanceResult:
        """Return a result with the configuration and the versions of this start."""
        besides = unsure(self.ledger.lines_of(result.instance_id))
        return result.but(
            config=self.config.as_json(),
            versions=self.versions(),
            cost_at_most=besides and total([result.cost, besides]),
        )
