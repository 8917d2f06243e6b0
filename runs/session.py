"""The work of one process on a run: coordinate its calls, run its jobs, stop, and clean up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from core.address import recorded_address
from core.money import known_sum
from core.shutdown import Shutdown
from llm.registry import provider_of
from runs.calls.budget import Budget
from runs.calls.coordinator import CallCoordinator, charge_budget
from runs.calls.damage import ledger_was_damaged, owner_of, set_damage_aside
from runs.calls.journal import Journal
from runs.calls.ledger import Ledger
from runs.calls.rate_limiter import RateLimiter, RateLimiterPolicy
from runs.checks import assumed
from runs.engines import Driver, make_engine
from runs.engines.ray.nodes import clean
from runs.jobs import Job, JobKind, check_keys
from runs.leftovers import marked_children, run_key
from runs.options import RunBasics, Scale, Spending
from runs.progress.display import Display, make_display, stream_of
from runs.progress.state import ProgressState
from runs.progress.summary_json import RunSummary
from runs.redo import Plan
from runs.run import Run
from runs.signals import heeding_signals
from runs.slots import prepare_process
from runs.storage.manifest import note_start, prices_used
from runs.storage.run_log import run_log
from runs.storage.runlock import forget
from runs.storage.store import RunStore
from runs.storage.timings import Timings

Say = Callable[[str], None]
# A probe of a provider may take as long as a call may.
_PATIENCE = 30.0


@dataclass(frozen=True)
class ModelUse:
    """What limits and ``run.json`` need to know of the models that a run calls.

    Attributes:
        timeout: seconds that a call may take.
        prices: see ``runs.storage.manifest.prices_used``.
        address: of ``--api-base``, without a password.
        assumed: lines for the user on what is taken from litellm's map.
    """

    providers: Sequence[str] = ()
    timeout: float = 300.0
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    address: str | None = None
    assumed: Sequence[str] = ()


def model_use(config: RunBasics, money: Spending) -> ModelUse:
    """Return what limits and ``run.json`` need to know of a run's models."""
    address = recorded_address(config.api_base)
    if not config.calls_models:
        return ModelUse(timeout=config.call_timeout, address=address)
    providers = {provider_of(model.name, config.api_base)[1] for model in config.models}
    prices = prices_used((model.name for model in config.models), money.prices)
    lines = tuple(assumed(config, money))
    return ModelUse(sorted(providers), config.call_timeout, prices, address, lines)


@dataclass
class Once:
    """Shows each text once."""

    say: Say
    _said: set[str] = field(default_factory=set)

    def __call__(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(f"note: {text}")


@dataclass
class Voice:
    """Prints and logs lines, above the bars while a display has the terminal."""

    say: Say  # logs, too
    log: Say
    display: Display | None = None

    def __call__(self, text: str) -> None:
        if self.display is None:
            self.say(text)
        else:
            self.display.note(text)
            self.log(text)


@dataclass(frozen=True)
class RunSession:
    """One process's work on a run whose lock it holds.

    Attributes:
        choose: opens the run, and returns the jobs to do and the plan that they belong to.
    """

    store: RunStore
    cache: Path
    scale: Scale
    money: Spending
    kind: JobKind
    models: ModelUse
    choose: Callable[[CallCoordinator, Say], tuple[Sequence[Job], Plan]]
    say: Say

    def run(self) -> RunSummary:
        prepare_process()
        stop = Shutdown()
        try:
            with (
                marked_children(run_key(self.store.folder)),
                run_log(self.store.log_file, self.store.redact) as log,
            ):
                voice = Voice(_both(self.say, log.info), log.info)
                for line in set_damage_aside(self.store):
                    voice(line)

                def end_at_once() -> None:
                    if voice.display is not None:
                        voice.display.close()
                    self._clean()
                    forget(self.store.folder)

                with heeding_signals(stop, voice, end_at_once):
                    return self._execute(stop, log, voice)
        finally:
            self._clean()

    def _execute(self, stop: Shutdown, log: logging.Logger, voice: Voice) -> RunSummary:
        coordinator = make_coordinator(
            self.store, self.scale, self.money, self.models, stop, log.warning
        )
        jobs, plan = self.choose(coordinator, voice)
        for line in self.models.assumed:
            voice(line)
        check_keys(jobs)
        coordinator.ledger.mark()
        progress = ProgressState(len(jobs))
        progress.descriptions = {job.key: job.description for job in jobs}
        progress.words, progress.more = self.kind.words, self.kind.more
        coordinator.called = progress.called

        def spent() -> Decimal:
            return known_sum(line.cost for line in coordinator.ledger.since_mark())

        display = make_display(stream_of(self.say), progress, spent)
        warn_once = Once(_both(display.note, log.warning))
        engine = make_engine(
            Driver(
                self.kind, self.scale, self.cache, self.store, coordinator, stop, progress,
                run_key(self.store.folder), warn_once, log,
            )
        )  # fmt: skip
        timings = Timings(self.cache / "timings.json")
        note_start(self.store, self.models.prices, self.models.address)
        voice.display = display
        try:
            run = Run(self.store, coordinator, engine, display, timings, self.kind)
            return run.execute(jobs, plan)
        finally:
            voice.display = None
            self.kind.finish()

    def _clean(self) -> None:
        clean(self.store, self.cache, containers=self.kind.containers)


def make_coordinator(
    store: RunStore, scale: Scale, money: Spending, models: ModelUse, stop: Shutdown, say: Say
) -> CallCoordinator:
    """Return the coordinator, charged with the calls in the ledger; calls left open are ended."""
    coordinator = CallCoordinator(
        journals=store.journals,
        ledger=Ledger.load(store.ledger),
        budget=Budget(money.limits),
        rate_limiter=RateLimiter(
            scale.rates, RateLimiterPolicy(probe_patience=models.timeout + _PATIENCE)
        ),
        stop=stop,
        providers=models.providers,
        give_up_after=scale.give_up_after,
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


def _both(one: Say, two: Say) -> Say:
    def say(text: str) -> None:
        one(text)
        two(text)

    return say
