"""Put together what a run works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.protocol import Agent
from agent.repomap import TagStore
from bench.attempts.services import Services
from bench.cli.config import RunConfig
from bench.cli.options import Options as Options
from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from core.stop import Stop
from environments import Environment
from environments.choice import make_environment
from environments.local.agentsandbox import sandboxed_agent
from llm.registry import provider_of
from runs.calls.budget import Budget
from runs.calls.hub import CallHub, Hub, charge_budget
from runs.calls.journal import Journal
from runs.calls.ledger import Ledger
from runs.calls.modelsource import LiveModels, ModelSource, ReplayedModels, replay_folder
from runs.calls.throttle import Throttle, ThrottlePolicy
from runs.progress.board import Steps
from runs.slots import Slots
from runs.storage.damage import ledger_was_damaged, owner_of
from runs.storage.store import RunStore

Say = Callable[[str], None]
_PATIENCE = 30.0


def make_mirrors(options: Options) -> Mirrors:
    """Return the mirrors that a run reads."""
    if bundled := options.bundled.get(options.dataset):
        return Mirrors(bundled.build_mirrors(options.cache / f"{options.dataset}-mirrors"))
    return Mirrors(options.repos or options.cache / "mirrors")


def make_hub(config: RunConfig, options: Options, store: RunStore, stop: Stop, say: Say) -> Hub:
    """Return the run's hub, charged with what its ledger holds; unfinished journals are settled."""
    hub = Hub(
        journals=store.journals,
        ledger=Ledger.load(store.ledger),
        budget=Budget(options.money.limits),
        throttle=Throttle(options.scale.rates, _policy(config)),
        stop=stop,
        providers=_providers(config),
        give_up_after=options.scale.give_up_after,
        say=say,
        redact=store.redact,
    )
    damaged = ledger_was_damaged(store)
    for path in sorted(store.journals.glob("*.jsonl")):
        name = owner_of(store, path)
        # A finished instance's ledger is complete: it was flushed before the prediction.
        if damaged or not store.prediction(name).exists():
            hub.recover(name, Journal(path))
    charge_budget(hub)
    return hub


def _policy(config: RunConfig) -> ThrottlePolicy:
    # A probe may take as long as a call may.
    return ThrottlePolicy(probe_patience=config.call_timeout + _PATIENCE)


def _providers(config: RunConfig) -> Sequence[str]:
    if not config.calls_models:
        return ()
    return sorted({provider_of(model.name, config.api_base)[1] for model in config.models})


def make_models(config: RunConfig, options: Options, warn_once: Say) -> ModelSource:
    """Return where the models of a run come from.

    Raises:
        UserError: a replay is asked for and there is no recording.
    """
    if config.replay:
        return ReplayedModels(replay_folder(config.replay), options.settings.aliases)
    return LiveModels(config, options.retries, warn_once, options.money.prices)


def make_agent(config: RunConfig) -> Agent:
    """Return the agent of a run; raises as ``sandboxed_agent``."""
    return sandboxed_agent(
        config.agent,
        config.agent_env,
        config.agent_timeout,
        config.agent_sandbox,
        config.agent_sandbox_read,
    )


def make_services(
    config: RunConfig,
    options: Options,
    hub: CallHub,
    stop: Stop,
    board: Steps,
    run_key: str,
    warn_once: Say,
    models: ModelSource,
) -> Services:
    """Return what instances are worked on with, on this machine."""
    environment: Environment = make_environment(
        config.environment, options.cache, warn_once, run_key, stop.check
    )
    return Services(
        config=config,
        mirrors=make_mirrors(options),
        snapshots=Snapshots(options.cache / "snapshots"),
        tags=TagStore(options.cache / "tags.sqlite"),
        environment=environment,
        models=models,
        work=options.cache / "work" / run_key,
        baselines=options.cache / "baselines",
        agent=make_agent(config),
        warn_once=warn_once,
        hub=hub,
        slots=Slots(options.scale.jobs, stop),
        stop=stop,
        board=board,
    )
