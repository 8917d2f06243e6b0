"""The work of one process on a run: coordinate its calls, run its jobs, save them, and clean up.

Everything under ``predictions/`` and ``logs/`` is written by one thread of this process.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock
from pydantic import Field, OnErrorOmit, TypeAdapter

from swe_retry.core.address import recorded_address
from swe_retry.core.atomic import sweep, write_json_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.money import range_words
from swe_retry.core.plaintext import Say
from swe_retry.core.shutdown import Shutdown
from swe_retry.core.untrusted import read_object
from swe_retry.llm.registry import Endpoint
from swe_retry.record.manifest import (
    check_differences,
    check_remains,
    note_end,
    note_start,
    prices_used,
)
from swe_retry.record.result import InstanceStatus
from swe_retry.record.run_log import run_log
from swe_retry.record.runlock import check_unlocked, forget
from swe_retry.record.store import RunStore
from swe_retry.runner.benchmark import Benchmark
from swe_retry.runner.calls.budget import Budget
from swe_retry.runner.calls.coordinator import CallCoordinator, charge_budget
from swe_retry.runner.calls.journal import Journal, last_denial
from swe_retry.runner.calls.ledger import (
    Ledger,
    at_most,
    ledger_was_damaged,
    owner_of,
    recorded_cost,
    set_damage_aside,
    tokens,
    total,
)
from swe_retry.runner.calls.rate_limiter import RateLimiter, RateLimiterPolicy
from swe_retry.runner.checks import assumptions
from swe_retry.runner.config import CommonConfig
from swe_retry.runner.engine import Driver, Engine
from swe_retry.runner.housekeeping import held_run
from swe_retry.runner.jobs import End, Finished, Job, check_keys
from swe_retry.runner.leftovers import clean, marked_children, run_key
from swe_retry.runner.progress.display import Display, make_display, stream_of
from swe_retry.runner.progress.state import ProgressState
from swe_retry.runner.progress.summary_json import RunSummary
from swe_retry.runner.redo import Plan
from swe_retry.runner.signals import heeding_signals
from swe_retry.runner.slots import prepare_process
from swe_retry.runner.threads import ThreadEngine

# A probe of a provider may take as long as a call may.
_PATIENCE = 30.0


@dataclass
class Once:
    """Shows and logs each text once."""

    say: Say
    log: Say = lambda _: None
    _said: set[str] = field(default_factory=set)

    def __call__(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(f"note: {text}")
            self.log(f"note: {text}")


@dataclass
class LoggedLines:
    """Prints and logs lines, above the bars while a display has the terminal."""

    say: Say
    log: Say
    display: Display | None = None

    def __call__(self, text: str) -> None:
        (self.display.note if self.display else self.say)(text)
        self.log(text)

    def describe_steps(self) -> str:
        """Return what is at work; empty while nothing is."""
        if self.display is None:
            return ""
        return self.display.progress.describe_steps()


_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
_TIMINGS = TypeAdapter(dict[str, OnErrorOmit[_Seconds]])


@dataclass(frozen=True)
class Timings:
    """The file at ``path``: ``{instance_id: seconds}``.

    It only decides an order, so a missing or broken file counts as empty, and a value that is not a
    number of seconds is left out.
    """

    path: Path

    def load(self) -> dict[str, float]:
        try:
            data = read_object(self.path, "delete it")
        except (OSError, UserError):
            return {}
        return _TIMINGS.validate_python(data)

    def note(self, instance_id: str, seconds: float) -> None:
        """Add the seconds of an instance to what other runs have written meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock"):
            sweep(self.path)
            write_json_atomic(self.path, {**self.load(), instance_id: seconds})


def check_start(benchmark: Benchmark[Any]) -> None:
    """Check early what ``start_run`` would refuse, by the files of the run alone."""
    store = benchmark.store
    check_unlocked(store.folder)
    check_remains(store)
    check_differences(store, benchmark.deciding())


def start_run(benchmark: Benchmark[Any]) -> int:
    """Work on a run until its jobs are done, say how it ended, and return the exit code."""
    store = benchmark.store
    cache = benchmark.config.cache
    check_remains(store)
    with held_run(store, cache, benchmark.say, containers=benchmark.containers):
        with _work_place(benchmark) as (stop, log, lines):
            session = RunSession.open(benchmark, stop, log, lines)
            with session.working():
                jobs = benchmark.order(session.jobs, session.timings.load())
                for finished in session.engine.run(jobs, session.may_start):
                    session.take(finished)
        summary = benchmark.review(session.summary)
    conclusion = benchmark.conclusion(summary)
    if benchmark.config.prints_json:
        conclusion = iter([summary.text()])
    for line in conclusion:
        benchmark.say(line)
    return summary.exit_code


@contextmanager
def _work_place(
    benchmark: Benchmark[Any],
) -> Iterator[tuple[Shutdown, logging.Logger, LoggedLines]]:
    """Prepare this process for work on a run, and remove at the end what its jobs leave."""
    prepare_process()
    stop = Shutdown()
    store = benchmark.store

    def remove_leftovers() -> None:
        clean(store, benchmark.config.cache, containers=benchmark.containers)

    try:
        with (
            marked_children(run_key(store.folder)),
            run_log(store.log_file, store.redact) as log,
        ):
            lines = LoggedLines(benchmark.say, log.info)
            for line in set_damage_aside(store):
                lines(line)

            def end_at_once() -> None:
                if lines.display is not None:
                    lines.display.close()
                remove_leftovers()
                forget(store.folder)

            with heeding_signals(stop, lines, end_at_once, lines.describe_steps):
                yield stop, log, lines
    finally:
        remove_leftovers()


@dataclass
class RunSession:
    """A run in work: an engine works on its jobs, and each is saved as it ends.

    Attributes:
        plan: names what is left alone.
        summary: known once all jobs ended.
    """

    benchmark: Benchmark[Any]
    coordinator: CallCoordinator
    jobs: Sequence[Job]
    plan: Plan
    lines: LoggedLines
    display: Display
    engine: Engine
    summary: RunSummary = field(init=False)
    _counts: Counter[str] = field(default_factory=Counter)
    _over_budget: dict[str, str] = field(default_factory=dict)
    _errors: list[str] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        benchmark: Benchmark[Any],
        stop: Shutdown,
        log: logging.Logger,
        lines: LoggedLines,
    ) -> RunSession:
        """Choose the jobs of a run, and say that it starts."""
        config = benchmark.config
        coordinator = make_coordinator(benchmark.store, config, stop, log.warning)
        jobs, plan = benchmark.choose(coordinator, lines)
        for line in assumptions(config):
            lines(line)
        check_keys(jobs)
        progress = ProgressState(len(jobs))
        progress.note_earlier(plan.done)
        progress.stopping = coordinator.stopping
        progress.descriptions = {job.key: job.description for job in jobs}
        progress.word = benchmark.statuses[0]
        progress.more = benchmark.more
        coordinator.called = progress.note_call

        def sum_spent() -> tuple[Decimal | None, Decimal | None]:
            lines = coordinator.ledger.lines()
            return total(lines), at_most(lines)

        display = make_display(stream_of(benchmark.say), progress, sum_spent)
        coordinator.arrived = progress.note_tokens
        coordinator.retried = display.note_retry
        warn_once = Once(display.note, log.warning)
        engine = make_engine(Driver(benchmark, coordinator, progress, warn_once, log))
        models = [model.name for model in config.live_models]
        note_start(
            benchmark.store,
            prices_used(models, config.money.prices),
            recorded_address(config.settings.calls.api_base),
            benchmark.versions(),
        )
        return cls(
            benchmark=benchmark,
            coordinator=coordinator,
            jobs=jobs,
            plan=plan,
            lines=lines,
            display=display,
            engine=engine,
        )

    @contextmanager
    def working(self) -> Iterator[None]:
        """Show the work on the jobs, and note its end, also after an exception."""
        started = time.monotonic()
        self.lines.display = self.display
        try:
            try:
                with self.display:
                    yield
            finally:
                self.coordinator.ledger.sync()
                # A full disk must not hide what went wrong first.
                with suppress(OSError):
                    note_end(self.benchmark.store)
            self.summary = self._summary(time.monotonic() - started)
        finally:
            self.lines.display = None
            self.benchmark.finish()

    def may_start(self) -> bool:
        """Whether a further job may start."""
        return not self.coordinator.stopping() and not self.coordinator.budget_reason

    def _summary(self, seconds: float) -> RunSummary:
        benchmark = self.benchmark
        coordinator = self.coordinator
        lines = coordinator.ledger.lines()
        over = {**self.plan.over_budget, **self._over_budget}
        left = [job.key for job in self.jobs if not self._is_done(job.key)]
        return RunSummary(
            run=benchmark.store.run,
            folder=benchmark.store.folder,
            counts=self._counts,
            dollars=total(lines),
            at_most=at_most(lines),
            recorded=recorded_cost(lines),
            calls=len(lines),
            tokens=tokens(lines),
            seconds=seconds,
            unfinished=tuple(key for key in left if key not in over),
            over_budget=over,
            errors=(*self.plan.errors, *self._errors),
            broken=self.plan.broken,
            stopped=coordinator.stopping() or coordinator.budget_reason,
            interrupted=bool(coordinator.stopping()),
            statuses=benchmark.statuses,
        )

    def _is_done(self, key: str) -> bool:
        return self.benchmark.store.prediction(key).exists()

    @property
    def timings(self) -> Timings:
        return Timings(self.benchmark.config.cache / "timings.json")

    def take(self, finished: Finished[Any]) -> None:
        """Save a job that ended, and show it."""
        key = finished.key
        # Before it is saved: a finished job is not taken up again after a kill.
        with suppress(OSError):  # it only decides an order
            self.timings.note(key, finished.seconds)
        end = finished.end
        try:
            self.benchmark.take(finished, self.coordinator)
        except OSError as error:  # a full disk must not take what others do
            end = End(InstanceStatus.INFRA_ERROR, f"cannot save it: {error}")
        if end.status == InstanceStatus.BUDGET:
            denial = last_denial(self.coordinator.entries(key))
            self._over_budget[key] = denial.limit.value if denial else "the budget"
        elif end.status == InstanceStatus.ERROR and self._is_done(key):
            self._errors.append(key)
        self._counts[str(end.status)] += 1
        lines = self.coordinator.ledger.lines_of(key)
        cost = range_words(total(lines), at_most(lines))
        reason = self.benchmark.store.redact(end.reason)
        self.display.note_finished(key, str(end.status), reason, cost)


def make_coordinator(
    store: RunStore, config: CommonConfig, stop: Shutdown, say: Say
) -> CallCoordinator:
    """Return the coordinator, charged with the calls in the ledger; calls left open are ended."""
    calls = config.settings.calls
    providers = {
        Endpoint(model.name, calls.api_base).provider for model in config.live_models
    }
    coordinator = CallCoordinator(
        journals=store.journals,
        ledger=Ledger.load(store.ledger),
        budget=Budget(config.money),
        rate_limiter=RateLimiter(
            config.rates, RateLimiterPolicy(probe_patience=calls.timeout + _PATIENCE)
        ),
        stop=stop,
        providers=sorted(providers),
        give_up_after=calls.give_up_after,
        say=say,
        redact=store.redact,
    )
    damaged = ledger_was_damaged(store)
    for path in sorted(store.journals.glob("*.jsonl")):
        name = owner_of(store, path)
        # The ledger of a finished job is complete: it was flushed before the prediction.
        if damaged or not store.prediction(name).exists():
            coordinator.recover(name, Journal(path))
    charge_budget(coordinator)
    return coordinator


def make_engine(driver: Driver) -> Engine:
    """Return the engine that ``scale.ray`` chooses."""
    scale = driver.benchmark.config.settings.scale
    if not scale.ray:
        return ThreadEngine.of(driver)
    if find_spec("ray") is None:
        raise UserError(
            "scale.ray needs Ray: run `make setup-ray`, or install the extra ray"
        )
    if not scale.cluster:
        # Ray reads it at its import: a node of this machine alone listens at 127.0.0.1 only.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    from swe_retry.runner.ray.engine import RayEngine  # its import takes a second

    return RayEngine(driver)
