"""Build what a run of instances works with, from its configuration and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from agent.protocol import Agent
from agent.repomap import TagStore
from bench.attempts.saving import Saver
from bench.attempts.services import Services
from bench.config import RunConfig, TestChoice
from bench.imageuse import ImageUse
from bench.options import Options as Options
from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from environments.base import EnvironmentKind
from environments.choice import make_environment
from environments.local.agentsandbox import sandboxed_agent
from runs.checks import check_models
from runs.jobs import JobKind, WorkerAccess
from runs.leftovers import run_key
from runs.modelsource import LiveModels, ReplayedModels, replay_folder
from runs.storage.store import RunStore

Say = Callable[[str], None]
# Top-level packages that attempts need; those of the runs come by themselves.
_PACKAGES = ("bench", "demo")


def make_mirrors(options: Options) -> Mirrors:
    if bundled := options.bundled.get(options.dataset):
        return Mirrors(bundled.build_mirrors(options.cache / f"{options.dataset}-mirrors"))
    return Mirrors(options.repos or options.cache / "mirrors")


@dataclass(frozen=True)
class ServicesFactory:
    """Builds the services of attempts in one process; see ``JobKind``."""

    config: RunConfig
    options: Options

    def __call__(self, worker: WorkerAccess) -> Services:
        config, cache = self.config, worker.cache
        options = replace(self.options, cache=cache)
        check_models(config, options.money)
        return Services(
            config=config,
            worker=worker,
            mirrors=make_mirrors(options),
            snapshots=Snapshots(cache / "snapshots"),
            tags=TagStore(cache / "tags.sqlite"),
            environment=make_environment(
                config.environment, cache, worker.warn_once, worker.key, worker.stop.check
            ),
            models=LiveModels(config, options.retries, worker.warn_once, options.money.prices),
            agent=make_agent(config),
            images=ImageUse(config, options).store(worker.key, worker.warn_once, worker.stop.check),
        )


def make_kind(config: RunConfig, options: Options, store: RunStore, say: Say) -> JobKind:
    """Return the kind of job that instances are; ``say`` prints a line for the user."""
    images, key = ImageUse(config, options), run_key(store.folder)
    untested = config.environment is EnvironmentKind.NONE or config.tests is TestChoice.NONE
    return JobKind(
        services=ServicesFactory(config, options),
        save=Saver(store, config, say),
        packages=_PACKAGES,
        # Without tests an instance mostly waits for its model.
        cpus=0.25 if untested else 1.0,
        containers=config.environment is EnvironmentKind.DOCKER,
        order=images.order,
        around=partial(images.ahead, key),
    )


def make_recordings(config: RunConfig, options: Options) -> ReplayedModels | None:
    if config.replay is None:
        return None
    return ReplayedModels(replay_folder(config.replay), options.settings.aliases)


def make_agent(config: RunConfig) -> Agent:
    return sandboxed_agent(
        config.agent,
        config.agent_env,
        config.agent_timeout,
        config.agent_sandbox,
        config.agent_sandbox_read,
    )
