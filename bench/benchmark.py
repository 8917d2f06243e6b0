"""A run of SWE-bench instances: what its attempts work with, and what it writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from agent.protocol import Agent
from agent.repomap import TagStore
from bench.attempts.attempt import Services
from bench.attempts.candidates import RESULTS
from bench.attempts.records import plausible_instances
from bench.attempts.solving import InstanceJob, Solved
from bench.attempts.transcript import title_of, transcript
from bench.config import RunConfig, TestChoice
from bench.imageuse import ImageUse
from bench.instances.dataset import Dataset, DatasetIdentity
from bench.instances.instance import Instance
from bench.instances.validity import Validity
from bench.options import Options as Options
from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from core.errors import UserError
from environments.base import EnvironmentKind
from environments.choice import make_environment
from environments.local.agentsandbox import sandboxed_agent
from runs.benchmark import Benchmark, Say
from runs.checks import check_models
from runs.jobs import Finished, WorkerAccess
from runs.leftovers import run_key
from runs.modelsource import LiveModels, ReplayedModels, replay_folder
from runs.redo import Plan
from runs.storage.manifest import note_images, note_left_out
from runs.storage.store import RunStore


def make_mirrors(options: Options) -> Mirrors:
    if bundled := options.bundled.get(options.dataset):
        return Mirrors(bundled.build_mirrors(options.cache / f"{options.dataset}-mirrors"))
    return Mirrors(options.repos or options.cache / "mirrors")


def make_services(config: RunConfig, options: Options, worker: WorkerAccess) -> Services:
    """Build what the attempts of one process share."""
    cache = worker.cache
    options = replace(options, cache=cache)
    check_models(config, options.money)
    return Services(
        config=config,
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


def make_agent(config: RunConfig) -> Agent:
    return sandboxed_agent(
        config.agent,
        config.agent_env,
        config.agent_timeout,
        config.agent_sandbox,
        config.agent_sandbox_read,
    )


@dataclass
class InstanceBenchmark(Benchmark[Solved]):
    """A run of SWE-bench instances."""

    words = RESULTS
    noun = "instance"
    packages = ("bench", "demo")

    config: RunConfig
    options: Options
    dataset: Dataset
    selected: Sequence[Instance]
    left_out: Mapping[str, Validity] = field(default_factory=dict)

    @cached_property
    def jobs(self) -> Mapping[str, InstanceJob]:
        config, recordings = self.config, None
        if config.replay is not None:
            aliases = self.options.settings.aliases
            recordings = ReplayedModels(replay_folder(config.replay), aliases)
        return {one.instance_id: InstanceJob(one, recordings) for one in self.selected}

    @property
    def cpus(self) -> float:
        config = self.config
        untested = config.environment is EnvironmentKind.NONE or config.tests is TestChoice.NONE
        return 0.25 if untested else 1.0  # without tests an instance mostly waits for its model

    @property
    def _images(self) -> ImageUse:
        return ImageUse(self.config, self.options)

    def services(self) -> Callable[[WorkerAccess], Services]:
        return partial(make_services, self.config, self.options)

    def deciding(self) -> dict[str, Any]:
        return {**super().deciding(), "dataset_sha256": self.dataset.identity().sha256}

    def describe(self) -> dict[str, Any]:
        more = {"model_name_or_path": self.config.model_name_or_path}
        return {**super().describe(), **more, "dataset": self.dataset.identity().as_json()}

    def given(self) -> Mapping[str, Any]:
        return self.options.given

    def open(self) -> None:
        if changed := changed_dataset(self.store, self.dataset.identity()):
            self.say(changed)
        super().open()
        if self.options.only_valid:
            states = {name: state.value for name, state in self.left_out.items()}
            note_left_out(self.store, self.options.only_valid.name, states)

    def planned(self, say: Say, earlier: Collection[str] | None = None) -> Plan:
        return super().planned(say, plausible_instances(self.options.prior))

    def prepared(self, jobs: Sequence[InstanceJob], say: Say) -> Sequence[InstanceJob]:
        todo = [job.instance for job in jobs]
        self._images.pull_first(run_key(self.store.folder), todo, say)
        return jobs

    def order(
        self, jobs: Sequence[InstanceJob], seconds: Mapping[str, float]
    ) -> Sequence[InstanceJob]:
        return self._images.order(jobs, seconds)

    def around(self, jobs: Sequence[InstanceJob], say: Say) -> AbstractContextManager[None]:
        return self._images.ahead(run_key(self.store.folder), jobs, say)

    def finish(self) -> None:
        if self.containers:
            shown = {instance.image: instance.shown_image for instance in self.selected}
            note_images(self.store, shown, shown)

    def save(self, finished: Finished[Solved]) -> None:
        solved = finished.end.value
        assert solved is not None
        winner = solved.winner
        title = title_of(solved.instance.problem_statement)
        trajectory = self.trajectory(finished, title, winner.attempt if winner else None)
        prediction = solved.as_prediction(self.config.model_name_or_path)
        self.store.save_instance(finished.key, prediction, trajectory, transcript(solved))


def changed_dataset(store: RunStore, dataset: DatasetIdentity) -> str:
    """Return in words that the set has another revision with the same rows; empty if it has not."""
    recorded = (store.read_run() or {}).get("dataset") or {}
    before = recorded.get("revision")
    same_set = recorded.get("name") == dataset.name and recorded.get("split") == dataset.split
    known = same_set and before and dataset.revision and store.has_results()
    if not known or before == dataset.revision:
        return ""
    if recorded.get("sha256") == dataset.sha256:
        return (
            f"the dataset {dataset.name} has the same rows at revision {dataset.revision} as at "
            f"{before}, with which the run was started"
        )
    raise UserError(
        f"the rows of {dataset.name} changed since the run was started, from revision {before} to "
        f"{dataset.revision}: go on with --dataset {dataset.name}@{before}, or choose another --run"
    )
