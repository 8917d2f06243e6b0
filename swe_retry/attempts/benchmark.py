"""A run of SWE-bench instances: what its attempts work with, and what it writes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

from swe_retry.agent.named import AGENTS
from swe_retry.agent.named.installed import find_agent
from swe_retry.agent.protocol import Agent
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.attempts.choose import RESULTS
from swe_retry.attempts.config import RunConfig, RunSettings, TestChoice
from swe_retry.attempts.policy import StopRule
from swe_retry.attempts.run_fit import RunFit, choose_again, with_choice
from swe_retry.attempts.services import Services
from swe_retry.attempts.solve import InstanceJob
from swe_retry.attempts.transcript import transcript
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.jsontypes import JsonMapping, JsonObject
from swe_retry.core.plaintext import Say, quantity
from swe_retry.core.settings import chosen_settings, values_of
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.choice import make_environment, make_image_store
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.imagestore import ImageStore
from swe_retry.environments.local.agentsandbox import make_agent
from swe_retry.instances.dataset import Dataset, DatasetIdentity
from swe_retry.instances.instance import Instance
from swe_retry.instances.validity import Validity
from swe_retry.llm.tracing import Tracing, make_tracing
from swe_retry.record.description import Run
from swe_retry.record.manifest import note_images, note_left_out
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore
from swe_retry.repositories.mirrors import Mirrors, mirrors_of
from swe_retry.runner.benchmark import Benchmark
from swe_retry.runner.checks import check_models
from swe_retry.runner.jobs import Finished, WorkerAccess, longest_first
from swe_retry.runner.modelsource import LiveModels, ReplayedModels, replay_folder
from swe_retry.testing.health import find_problems, problem_lines
from swe_retry.testing.project import hide_image_names


def uses_images(config: RunConfig) -> bool:
    return (
        config.environment is EnvironmentKind.DOCKER
        and config.settings.tests.which is not TestChoice.NONE
    )


def image_store(
    config: RunConfig, say: Say, wait: Callable[[float], None] = time.sleep
) -> ImageStore | None:
    """Return the images of the engine; None where no test runs in one, or no engine answers."""
    if not uses_images(config):
        return None
    client = connect()
    if client is None:
        return None
    return make_image_store(client, config.cache, config.settings.images, say, wait)


def used_images(todo: Sequence[Instance]) -> list[str]:
    return [instance.image for instance in todo if instance.test_setup is not None]


def find_untestable(config: RunConfig, todo: Sequence[Instance]) -> dict[str, str]:
    """Return why local environments cannot judge, by instance, as far as it is known."""
    if config.environment is EnvironmentKind.LOCAL and config.runs_tests:
        return find_problems(config.cache, todo)
    return {}


def group_by_layers(jobs: Sequence[InstanceJob]) -> list[InstanceJob]:
    """Return ``jobs`` such that those whose images share layers come after each other.

    SWE-bench builds the images for one version of a repository on one environment. The groups are
    in the order of their first jobs.
    """
    groups = defaultdict(list)
    for job in jobs:
        groups[job.instance.repo, job.instance.version].append(job)
    return list(chain.from_iterable(groups.values()))


def agent_of(config: RunConfig) -> Agent:
    """Return the agent of a run, as ``make_agent`` does."""
    return make_agent(
        config.settings.agent,
        config.named_agents,
        config.agent_sandbox,
        config.cache,
        in_container=uses_images(config),
    )


def agent_versions(config: RunConfig) -> dict[str, str]:
    """Return the versions of the agents that are known by name."""
    versions = {}
    for agent in AGENTS:
        if agent.name in config.named_agents:
            from_path = config.settings.agent.from_path
            installation = find_agent(agent, config.cache, from_path=from_path)
            versions[agent.name] = installation.version
    return versions


def make_mirrors(config: RunConfig) -> Mirrors:
    return mirrors_of(config.dataset, config.cache, config.repos, config.bundled)


def tracing_of(config: RunConfig) -> Tracing | None:
    """Return the tracing of a run, as ``make_tracing`` does."""
    calls = config.settings.calls
    run = config.run_name
    return make_tracing(run, enabled=calls.trace, content=calls.trace_content)


def make_services(config: RunConfig, worker: WorkerAccess) -> Services:
    """Build what the attempts of one process share."""
    cache = worker.cache
    config = config.with_cache(cache)
    check_models(config)
    if config.outside_agent and not config.runs_tests:
        worker.warn_once(
            "without --environment local or docker the agent cannot run the project's tests"
        )
    return Services(
        config=config,
        mirrors=replace(make_mirrors(config), check=worker.stop.check),
        snapshots=cache / "snapshots",
        tags=TagStore(cache / "tags.sqlite"),
        environment=make_environment(
            config.environment,
            cache,
            worker.warn_once,
            worker.key,
            worker.stop.check,
            config.settings.tests.limits,
        ),
        models=LiveModels(config, worker.warn_once),
        agent=agent_of(config),
        agent_versions=agent_versions(config),
        tracing=tracing_of(config),
        images=image_store(config, worker.warn_once, worker.stop.wait),
    )


def plausible_instances(runs: Iterable[Path]) -> frozenset[str]:
    """Return the ids of the instances that one of ``runs`` has a plausible patch for."""
    names = set()
    for folder in runs:
        store = RunStore.of_folder(folder)
        for path in store.prediction_paths():
            result = store.read_prediction(path)
            if result.plausible:
                names.add(result.instance_id)
    return frozenset(names)


@dataclass
class InstanceBenchmark(Benchmark[InstanceResult]):
    """A run of SWE-bench instances."""

    statuses = tuple(map(str, RESULTS))
    noun = "instance"

    config: RunConfig
    dataset: Dataset
    selected: Sequence[Instance]
    left_out: Mapping[str, Validity] = field(default_factory=dict)

    @cached_property
    def jobs(self) -> Mapping[str, InstanceJob]:
        recordings = None
        replay = self.config.settings.calls.replay
        if replay is not None:
            aliases = self.config.book.aliases
            recordings = ReplayedModels(replay_folder(replay), aliases)
        return {
            instance.instance_id: InstanceJob(instance, recordings, self._run_fit)
            for instance in self.selected
        }

    @cached_property
    def _run_fit(self) -> RunFit:
        """What the instances that have a prediction tell about the others."""
        fit = RunFit(self.config.settings.choice.right)
        if self._stops_by_evidence:
            for result in self._results():
                fit.add_result(result)
        return fit

    @property
    def _stops_by_evidence(self) -> bool:
        is_sure = self.config.settings.choice.stop is StopRule.SURE
        return is_sure and self.config.by_evidence

    def _results(self) -> Iterator[InstanceResult]:
        """Yield what has a prediction; those that cannot be read are left alone."""
        for path in self.store.prediction_paths():
            with suppress(UserError):
                yield self.store.read_prediction(path)

    def services(self) -> Callable[[WorkerAccess], Services]:
        return partial(make_services, self.config)

    @property
    def needs_index(self) -> bool:
        is_local = self.config.environment is EnvironmentKind.LOCAL
        return is_local and self.config.runs_tests

    def deciding(self) -> JsonObject:
        digest = self.dataset.identity().sha256
        deciding = {**super().deciding(), "dataset_sha256": digest}
        recorded = self.store.read_run().deciding
        if recorded:
            for name, default in values_of(RunSettings()).items():
                # A version without this setting did what its default says.
                if name not in recorded and deciding.get(name) == default:
                    deciding.pop(name, None)
        return deciding

    def describe(self) -> Run:
        return (
            super()
            .describe()
            .but(
                model_name_or_path=self.config.model_name_or_path,
                dataset=self.dataset.identity().as_json(),
            )
        )

    def versions(self) -> dict[str, str]:
        agents = agent_versions(self.config)
        return {**super().versions(), **agents}

    def _note_agents(self) -> None:
        """Say which agents are not the tested or the recorded ones."""
        store = self.store
        replay = self.config.settings.calls.replay
        if replay is not None:
            store = RunStore.of_folder(replay)
        recorded = store.read_run().last_versions
        versions = self.versions()
        for agent in AGENTS:
            name = agent.name
            version = versions.get(name)
            for kind, other in (
                ("tested", agent.tested),
                ("recorded", recorded.get(name)),
            ):
                if version and other and other != version:
                    self.say(f"note: {name} {version} is not the {kind} {other}")

    def recorded_settings(self) -> JsonMapping:
        return chosen_settings(self.config.settings)

    def open(self) -> None:
        note = changed_dataset(self.store, self.dataset.identity())
        if note:
            self.say(note)
        self._note_agents()
        super().open()
        only_valid = self.config.settings.instances.only_valid
        if only_valid:
            states = {name: state.value for name, state in self.left_out.items()}
            note_left_out(self.store, only_valid.name, states)

    def done_elsewhere(self) -> frozenset[str]:
        return plausible_instances(self.config.settings.instances.prior)

    @property
    def _has_image_limit(self) -> bool:
        limit = self.config.settings.images.disk
        return uses_images(self.config) and limit is not None

    def prepare_jobs(
        self,
        jobs: Sequence[InstanceJob],
        say: Say,
    ) -> Sequence[InstanceJob]:
        """Say what cannot be tested; pull the used images unless their room is limited.

        On Ray, each machine pulls what it needs.
        """
        todo = [job.instance for job in jobs]
        for line in problem_lines(find_untestable(self.config, todo)):
            say(line)
        images = used_images(todo)
        untestable = len(todo) - len(images)
        if untestable and uses_images(self.config):
            which = quantity(untestable, "instance")
            say(f"not pulled: images of {which} whose rows have no usable eval_script")
        on_ray = self.config.settings.scale.ray
        if not images or on_ray or self._has_image_limit:
            return jobs

        def say_hidden(text: str) -> None:  # names of images may hold the gold commit
            say(hide_image_names(text, todo))

        store = image_store(self.config, say_hidden)
        if store is not None:
            failed = store.fetch_all(images)
            for reason in failed.values():
                raise InfrastructureError(reason)
        return jobs

    def order(
        self,
        jobs: Sequence[InstanceJob],
        seconds: Mapping[str, float],
    ) -> Sequence[InstanceJob]:
        ordered = longest_first(jobs, seconds)
        if self._has_image_limit:
            return group_by_layers(ordered)
        return ordered

    def _fit_choices(self) -> None:
        """Choose again with what is fitted to all instances that have a prediction."""
        # A winner that other tests checked is final.
        if not self.config.by_evidence or self.config.full_suite:
            return
        right = self.config.settings.choice.right
        required = self.config.requires_tests
        for name, choice in choose_again(
            self._results(), right, require_tests=required
        ):
            self._save(with_choice(self.store.read_result(name), choice))

    def finish(self) -> None:
        self._fit_choices()
        tracing = tracing_of(self.config)
        if tracing and not tracing.flush():
            self.say("note: calls.trace: not all spans were sent in time")
        if self.containers:
            names = {instance.image: instance.shown_image for instance in self.selected}
            note_images(self.store, names, names)

    def save(self, finished: Finished[InstanceResult]) -> None:
        assert finished.end.value is not None
        self._save(self.with_start(finished.end.value))
        if self._stops_by_evidence:
            self._run_fit.add_result(finished.end.value)

    def _save(self, result: InstanceResult) -> None:
        self.store.save_instance(
            result.instance_id,
            result.prediction(),
            result.trajectory(),
            transcript(result),
        )


def changed_dataset(store: RunStore, dataset: DatasetIdentity) -> str:
    """Return in words that the set has another revision with the same rows; empty if it has not."""
    recorded = store.read_run().dataset
    recorded_revision = recorded.revision
    same_set = (recorded.name, recorded.split) == (dataset.name, dataset.split)
    if not (
        same_set and recorded_revision and dataset.revision and store.has_results()
    ):
        return ""
    if recorded_revision == dataset.revision:
        return ""
    if recorded.sha256 == dataset.sha256:
        return (
            f"the dataset {dataset.name} has the same rows at revision {dataset.revision} as at "
            f"{recorded_revision}, with which the run was started"
        )
    raise UserError(
        f"the rows of {dataset.name} changed since the run was started, from revision "
        f"{recorded_revision} to {dataset.revision}: go on with --dataset "
        f"{dataset.name}@{recorded_revision}, or choose another --run"
    )
