"""The command that starts a run of instances, or describes what it would do."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bench.assembly import (
    Options,
    Say,
    make_agent,
    make_kind,
    make_mirrors,
    make_recordings,
)
from bench.attempts.prior import plausible_instances
from bench.attempts.solving import InstanceJob
from bench.cli.config import RunConfig, validated
from bench.cli.preflight import preflight
from bench.cli.selection import dated
from bench.imageuse import ImageUse
from bench.instances.dataset import Dataset, DatasetIdentity, load_dataset
from bench.instances.instance import Instance
from bench.instances.validity import Validity, not_valid
from core.address import recorded_address
from core.atomic import check_folder
from core.errors import UserError
from core.plaintext import counted
from core.redaction import Redactor
from environments.base import EnvironmentKind
from runs.calls.coordinator import CallCoordinator
from runs.calls.modelsource import recorded_label, recorded_of, replay_folder
from runs.checks import check_models
from runs.leftovers import run_key
from runs.progress.summary_json import RunSummary, over_budget_words, summary_words
from runs.redo import Plan, Redo, plan, prepare
from runs.run import changed_address, check_remains, open_run, recorded_differences
from runs.session import RunSession, model_use
from runs.storage.manifest import all_versions, note_images, note_left_out, timestamp
from runs.storage.store import RunStore
from runs.upkeep import held_run


def run_command(config: RunConfig, options: Options, say: Say) -> int:
    """Run, or print what a run would do, and return the exit code.

    Raises:
        UserError: the user has to fix something.
        InfrastructureError: the dataset cannot be loaded.
    """
    config = _labelled(validated(config))
    if not options.dry_run:
        # A wrong name is reported before a dataset is fetched.
        make_agent(config)
    dataset = load_dataset(options.dataset, options.split, options.dataset_config)
    notes = (lambda _: None) if options.dry_run and options.as_json else say
    instances = dated(dataset.instances(), options.since, options.until)
    selected = _recorded(config, options, options.selection.apply(instances), notes)
    left_out = not_valid(options.only_valid, [i.instance_id for i in selected], notes)
    selected = [i for i in selected if i.instance_id not in left_out]
    store = RunStore(options.out, config.run_name, Redactor.of_environment(os.environ))
    for option, folder in (("--out", options.out), ("--cache", options.cache)):
        check_folder(option, folder)
    if options.dry_run:
        return _dry_run(config, options, store, dataset, selected, say)
    check_models(config, options.money)
    check_remains(store)
    containers = config.environment is EnvironmentKind.DOCKER
    with held_run(store, options.cache, say, containers=containers):
        return _Session(config, options, store, dataset, selected, left_out, say).run()


def _labelled(config: RunConfig) -> RunConfig:
    """A replay of a run keeps the model name of that run's predictions."""
    if not config.replay:
        return config
    return replace(config, label=recorded_label(replay_folder(config.replay)))


def _recorded(
    config: RunConfig, options: Options, selected: Sequence[Instance], say: Say
) -> Sequence[Instance]:
    """In a replay, leave out instances without a recording, unless they are asked for by name."""
    if not config.replay:
        return selected
    folder = replay_folder(config.replay)
    found = recorded_of(folder, [i.instance_id for i in selected])
    if options.selection.ids:
        return selected
    recorded = [i for i in selected if i.instance_id in found]
    if left_out := len(selected) - len(recorded):
        which = counted(left_out, "instance")
        say(f"left out: {which} of the dataset without a recording in {folder}")
    return recorded


def _planned(store: RunStore, options: Options, ids: Sequence[str], say: Say) -> Plan:
    """Return what the plain command works on: neither done nor plausible in an earlier run."""
    found = plan(store, options.money.limits, ids)
    earlier = plausible_instances(options.prior)
    todo = tuple(name for name in found.todo if name not in earlier)
    over = {name: option for name, option in found.over_budget.items() if name not in earlier}
    errors = tuple(name for name in found.errors if name not in earlier)
    say(
        f"{counted(len(ids), 'instance')} selected, {found.done} done before, "
        f"{len(found.todo) - len(todo)} plausible in earlier runs, {len(todo)} to do"
    )
    if over:
        say(over_budget_words(over))
    for words in found.broken.values():
        say(f"left alone: {words}")
    return replace(found, todo=todo, over_budget=over, errors=errors)


@dataclass(frozen=True)
class _Session:
    """The start of a run whose lock this process holds.

    Attributes:
        left_out: by ``--only-valid``, with their states.
    """

    config: RunConfig
    options: Options
    store: RunStore
    dataset: Dataset
    selected: Sequence[Instance]
    left_out: Mapping[str, Validity]
    say: Say

    def run(self) -> int:
        """Work on what is to do and return the exit code."""
        config, options, store = self.config, self.options, self.store
        kind = make_kind(config, options, store, self.say)
        if config.environment is EnvironmentKind.DOCKER:
            shown = {instance.image: instance.shown_image for instance in self.selected}
            kind = replace(kind, finish=partial(note_images, store, shown, shown))
        summary = RunSession(
            store, options.cache, options.scale, options.money, kind,
            model_use(config, options.money), self._choose, self.say,
        ).run()  # fmt: skip
        self._print(summary)
        return summary.exit_code

    def _choose(self, coordinator: CallCoordinator, say: Say) -> tuple[Sequence[InstanceJob], Plan]:
        if changed := changed_address(self.store, recorded_address(self.config.api_base)):
            say(changed)
        plan = self._plan(coordinator, say)
        todo = [i for i in self.selected if i.instance_id in {*plan.todo}]
        ImageUse(self.config, self.options).pull_first(run_key(self.store.folder), todo, say)
        recordings = make_recordings(self.config, self.options)
        return [InstanceJob(instance, recordings) for instance in todo], plan

    def _plan(self, coordinator: CallCoordinator, say: Say) -> Plan:
        ids = [instance.instance_id for instance in self.selected]
        if self.options.redo:
            # Another configuration must not put the files of this run aside.
            self._open(ids)
            redo = Redo.parse(self.options.redo, ids)
            chosen = prepare(self.store, coordinator, redo, ids)
            say(f"{counted(len(ids), 'instance')} selected, {len(chosen)} to redo")
            rest = [name for name in ids if name not in chosen]
            left = plan(self.store, self.options.money.limits, rest)
            return replace(left, todo=tuple(chosen))
        found = _planned(self.store, self.options, ids, say)
        self._open(ids)
        return found

    def _open(self, ids: Sequence[str]) -> None:
        identity = self.dataset.identity()
        if changed := changed_dataset(self.store, identity):
            self.say(changed)
        description = describe_run(self.config, identity)
        open_run(self.store, description, ids, self.options.given)
        if self.options.only_valid:
            states = {name: state.value for name, state in self.left_out.items()}
            note_left_out(self.store, self.options.only_valid.name, states)

    def _print(self, summary: RunSummary) -> None:
        if self.options.as_json:
            self.say(summary.text())
            return
        self.say(summary_words(summary))


def changed_dataset(store: RunStore, dataset: DatasetIdentity) -> str:
    """Return in words that the set has another revision with the same rows; empty if it has not.

    Raises:
        UserError: its rows are not those that the run was started with.
    """
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


def describe_run(config: RunConfig, dataset: DatasetIdentity) -> dict[str, Any]:
    """Return what ``run.json`` says of a new run."""
    return {
        "run": config.run_name,
        "model_name_or_path": config.model_name_or_path,
        "dataset": dataset.as_json(),
        "config": config.as_json(),
        "deciding": config.deciding(dataset.sha256),
        "versions": all_versions(),
        "started": timestamp(),
    }


def _dry_run(
    config: RunConfig,
    options: Options,
    store: RunStore,
    dataset: Dataset,
    selected: Sequence[Instance],
    say: Say,
) -> int:
    notes: list[str] = []
    plan = _planned(store, options, [i.instance_id for i in selected], notes.append)
    found = preflight(
        config,
        options.money,
        [i for i in selected if i.instance_id in {*plan.todo}],
        make_mirrors(options),
        store.folder,
        options.cache,
        recorded_differences(store, config.deciding(dataset.identity().sha256)),
    )
    if options.as_json:
        counts = {"selected": len(selected), "done": plan.done, "over_budget": plan.over_budget}
        say(json.dumps({**found.as_json(), **counts}))
    else:
        for line in (*notes, *found.lines()):
            say(line)
    return 2 if found.differences else 0
