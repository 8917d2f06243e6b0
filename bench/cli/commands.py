"""The command that starts a run of instances, or describes what it would do."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

from agent.formats import get_format
from agent.prompts import render
from bench.assembly import (
    Options,
    Say,
    make_agent,
    make_kind,
    make_mirrors,
    make_recordings,
)
from bench.attempts.records import plausible_instances
from bench.attempts.solving import InstanceJob
from bench.config import ModelChoice, RunConfig, validated
from bench.imageuse import ImageUse
from bench.instances.dataset import Dataset, DatasetIdentity, load_dataset
from bench.instances.instance import Instance
from bench.instances.validity import Validity, not_valid
from bench.repos.mirrors import Mirrors, has_commit
from bench.selection import dated
from core.address import recorded_address
from core.atomic import check_folder
from core.errors import UserError
from core.money import as_text, in_words
from core.plaintext import counted
from core.redaction import Redactor
from environments.base import EnvironmentKind
from environments.docker.engine import engine_answers
from environments.docker.images import missing_images
from llm.chat import estimate_tokens
from llm.prices import Price, cheapest_price, dearest_price
from llm.registry import filled, missing_key
from runs.calls.coordinator import CallCoordinator
from runs.checks import check_models
from runs.leftovers import run_key
from runs.modelsource import recorded_label, recorded_of, replay_folder
from runs.options import Spending
from runs.progress.summary_json import over_budget_words, summary_words
from runs.redo import Plan, Redo, plan, prepare
from runs.run import changed_address, check_remains, open_run, recorded_differences
from runs.session import RunSession, model_use
from runs.storage.manifest import all_versions, note_images, note_left_out, timestamp
from runs.storage.store import RunStore
from runs.upkeep import held_run


def run_command(config: RunConfig, options: Options, say: Say) -> int:
    """Run, or print what a run would do, and return the exit code."""
    config = validated(config)
    if config.replay:
        config = replace(config, label=recorded_label(replay_folder(config.replay)))
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


def _recorded(
    config: RunConfig, options: Options, selected: Sequence[Instance], say: Say
) -> Sequence[Instance]:
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
    config: RunConfig
    options: Options
    store: RunStore
    dataset: Dataset
    selected: Sequence[Instance]
    left_out: Mapping[str, Validity]
    say: Say

    def run(self) -> int:
        config, options, store = self.config, self.options, self.store
        kind = make_kind(config, options, store, self.say)
        if config.environment is EnvironmentKind.DOCKER:
            shown = {instance.image: instance.shown_image for instance in self.selected}
            kind = replace(kind, finish=partial(note_images, store, shown, shown))
        summary = RunSession(
            store, options.cache, options.scale, options.money, kind,
            model_use(config, options.money), self._choose, self.say,
        ).run()  # fmt: skip
        self.say(summary.text() if options.as_json else summary_words(summary))
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
    todo = [i for i in selected if i.instance_id in {*plan.todo}]
    differences = recorded_differences(store, config.deciding(dataset.identity().sha256))
    found = _forecast(config, options, store, todo, differences)
    if options.as_json:
        counts = {"selected": len(selected), "done": plan.done, "over_budget": plan.over_budget}
        say(json.dumps({**found, **counts}, default=as_text))
    else:
        for line in (*notes, *_forecast_lines(found)):
            say(line)
    return 2 if differences else 0


def _forecast(
    config: RunConfig,
    options: Options,
    store: RunStore,
    todo: Sequence[Instance],
    differences: Sequence[str],
) -> dict[str, Any]:
    """Return what a run would do as ``--dry-run --json`` shows it; None is unknown."""
    attempts = len(config.models) * config.tries
    most = len(todo) * attempts * (1 + config.max_reflections.most) * config.calls_models
    lower, upper = cost_bounds(config, options.money, todo)
    cache = next(p for p in (options.cache, *options.cache.parents) if p.exists())
    return {
        "run": config.run_name,
        "folder": str(store.folder),
        "models": [{"name": m.name, "edit_format": m.edit_format} for m in config.models],
        "todo": [instance.instance_id for instance in todo],
        "attempts": attempts,
        "calls": None if config.outside_agent else most,
        "lower": lower,
        "upper": upper,
        "budget": options.money.limits.usd,
        "environment": config.environment.value,
        "tests": config.tests.value,
        "agent_timeout": config.agent_timeout,
        "missing": [*_missing(config, todo, make_mirrors(options))],
        "differences": [*differences],
        "cache": str(cache),
        "free": shutil.disk_usage(cache).free,
    }


def _forecast_lines(found: Mapping[str, Any]) -> Iterator[str]:
    names = ", ".join(f"{model['name']} ({model['edit_format']})" for model in found["models"])
    attempts, todo = counted(found["attempts"], "attempt"), counted(len(found["todo"]), "instance")
    yield f"models: {names}; up to {attempts} on each of {todo}"
    if found["calls"] is None:
        yield f"calls: those of the outside agent, {found['agent_timeout']:.0f} s for an attempt"
    else:
        yield f"calls: at most {found['calls']:,}, those after transient errors aside"
    if found["lower"] is None or found["upper"] is None:
        yield "cost: unknown"
    else:
        held = "" if found["budget"] is None else "; --budget-usd is counted in"
        yield f"cost: at least {in_words(found['lower'])}, at most {in_words(found['upper'])}{held}"
    yield f"environment: {found['environment']}; tests: {found['tests']}"
    yield f"output: {found['folder']}"
    yield from (f"missing: {words}" for words in found["missing"])
    yield f"disk: {found['free'] / 1e9:.0f} GB free at {found['cache']}"
    for words in found["differences"]:
        yield f"refused: run {found['run']} was started with different options: {words}"


def cost_bounds(
    config: RunConfig, money: Spending, todo: Sequence[Instance]
) -> tuple[Decimal | None, Decimal | None]:
    """Return the least and the most dollars that a run over ``todo`` can cost.

    The least: one request of the first model for each instance, with its instructions and the
    issue alone, whose first reply is plausible. The most: every attempt uses all its messages, each
    with a full window and the longest reply; limits of dollars lower it. What only an outside agent
    knows, and models without a price or a window, make it None.
    """
    if config.outside_agent:
        return None, None
    if not config.calls_models or not todo:
        return Decimal(), Decimal()
    return _least(config, money, todo), _most(config, money, len(todo))


def _least(config: RunConfig, money: Spending, todo: Sequence[Instance]) -> Decimal | None:
    price = money.prices.get(config.models[0].name) or cheapest_price(config.models[0].name)
    if price is None:
        return None
    rules = get_format(config.models[0].edit_format).instructions("```")
    instructions = estimate_tokens(render("system", format_rules=rules))
    prompts = (instructions + estimate_tokens(i.problem_statement) for i in todo)
    return sum((price.bound(prompt, 1) for prompt in prompts), Decimal())


def _most(config: RunConfig, money: Spending, count: int) -> Decimal | None:
    limits, calls = money.limits, 1 + config.max_reflections.most
    known = [_most_of_call(model, config, money.prices.get(model.name)) for model in config.models]
    each = [cost * calls * config.tries for cost in known if cost is not None]
    whole = sum(each, Decimal()) * count if len(each) == len(known) else None
    held = [limits.usd, limits.usd_per_instance and limits.usd_per_instance * count]
    bounds = [bound for bound in (whole, *held) if bound is not None]
    return min(bounds, default=None)


def _most_of_call(model: ModelChoice, config: RunConfig, own: Price | None) -> Decimal | None:
    known = filled(model.settings, model.name, config.api_base)
    price = own or dearest_price(model.name)
    output = config.max_output_tokens or known.max_output
    if price is None or output is None or known.context is None:
        return None
    return price.bound(known.context, output)


def _missing(config: RunConfig, todo: Sequence[Instance], mirrors: Mirrors) -> Iterator[str]:
    yield from _missing_mirrors(todo, mirrors)
    for model in config.models if config.calls_models else ():
        if missing := missing_key(model.name, config.api_base):
            yield f"a key for {model.given} in the environment variable {missing}"
    try:
        make_agent(config)
    except UserError as error:
        yield str(error)
    yield from _missing_engine(config, todo)


def _missing_mirrors(todo: Sequence[Instance], mirrors: Mirrors) -> Iterator[str]:
    for repo, count in sorted(Counter(i.repo for i in todo).items()):
        mirror = mirrors.find(repo)
        if mirror is None:
            yield f"a mirror of {repo} ({counted(count, 'instance')}); it would be cloned"
            continue
        absent = [i for i in todo if i.repo == repo and not has_commit(mirror, i.base_commit)]
        if absent:
            commits = counted(len(absent), "base commit")
            yield f"{commits} in {mirror}, as {absent[0].base_commit}"


def _missing_engine(config: RunConfig, todo: Sequence[Instance]) -> Iterator[str]:
    if config.environment is not EnvironmentKind.DOCKER:
        return
    if not engine_answers():
        yield "no Docker engine answers; start one or choose --environment local"
        return
    if absent := missing_images({i.image for i in todo if i.test_setup is not None}):
        yield f"{counted(len(absent), 'image')} to be pulled, as {absent[0]}"
