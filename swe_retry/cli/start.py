"""The start of a run of instances: all that is checked before, then a run or a forecast."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from swe_retry.attempts.benchmark import InstanceBenchmark, agent_of, tracing_of
from swe_retry.attempts.config import RunConfig, validate_config
from swe_retry.core.plaintext import Say, quantity
from swe_retry.core.redaction import Redactor
from swe_retry.environments.base import EnvironmentKind
from swe_retry.instances.adapters.own import name_no_image, refuse_docker
from swe_retry.instances.dataset import load_dataset, needs_hub
from swe_retry.instances.instance import Instance
from swe_retry.instances.selection import created_between
from swe_retry.instances.validity import left_out_instances
from swe_retry.record.store import RunStore
from swe_retry.runner.checks import check_folders, check_models
from swe_retry.runner.modelsource import recorded_label, recorded_of, replay_folder


def check_run(config: RunConfig, say: Say) -> InstanceBenchmark:
    """Return the run, after all checks that need neither set-up nor a model."""
    config = validate_config(config)
    replay = config.settings.calls.replay
    if replay:
        config = replace(config, label=recorded_label(replay_folder(replay)))
    if not config.dry_run:
        # A wrong name and a missing key are reported before a dataset is fetched.
        agent_of(config)
        if needs_hub(config.dataset):
            check_models(config)
    tracing_of(config)
    benchmark = _select_instances(config, say)
    check_folders(config)
    if not config.dry_run:
        check_models(config)
    return benchmark


def _select_instances(
    config: RunConfig,
    say: Say,
) -> InstanceBenchmark:
    """Return the run of the instances that the settings select."""
    note = say
    if config.dry_run and config.prints_json:
        note = _ignore
    settings = config.settings.instances
    dataset = load_dataset(config.dataset, settings.split, settings.config)
    instances = created_between(dataset.instances(), settings.since, settings.until)
    selected = _with_recording(config, settings.select(instances), note)
    ids = [instance.instance_id for instance in selected]
    left_out = left_out_instances(settings.only_valid, ids, note)
    valid = [i for i in selected if i.instance_id not in left_out]
    needs_local = config.environment is EnvironmentKind.DOCKER and name_no_image(valid)
    if needs_local and config.settings.tests.environment:
        raise refuse_docker("--environment", config.dataset)
    if needs_local:
        config = replace(config, environment=EnvironmentKind.LOCAL)
    store = RunStore(config.out, config.run_name, Redactor.of_environment(os.environ))
    return InstanceBenchmark(config, store, say, dataset, valid, left_out)


def _ignore(line: str) -> None:
    pass


def _with_recording(
    config: RunConfig,
    selected: Sequence[Instance],
    note: Say,
) -> Sequence[Instance]:
    """Return the instances that a replay has a recording of; those named by id must have one."""
    replay = config.settings.calls.replay
    if not replay:
        return selected
    folder = replay_folder(replay)
    names = recorded_of(folder, [instance.instance_id for instance in selected])
    if config.settings.instances.ids:
        return selected
    recorded = [instance for instance in selected if instance.instance_id in names]
    left_out = len(selected) - len(recorded)
    if left_out:
        which = quantity(left_out, "instance")
        note(f"left out: {which} of the dataset without a recording in {folder}")
    return recorded
