"""The command that starts a run of instances, or describes what it would do."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from agent.formats import get_format
from agent.prompts import render
from bench.benchmark import (
    InstanceBenchmark,
    agent_of,
    make_mirrors,
    used_images,
)
from bench.config import ModelChoice, RunConfig, validated
from bench.instances.dataset import load_dataset
from bench.instances.instance import Instance
from bench.instances.validity import not_valid
from bench.options import Options
from bench.repos.mirrors import Mirrors, has_commit
from bench.selection import dated
from core.errors import UserError
from core.money import as_text, in_words
from core.plaintext import Say, counted
from core.redaction import Redactor
from environments.base import EnvironmentKind
from environments.docker.engine import connect
from environments.docker.images import missing_images
from llm.chat import estimate_tokens
from llm.prices import Price, cheapest_price, dearest_price
from llm.registry import filled, missing_key
from llm.tracing import make_tracing
from runs.checks import check_folders, check_models
from runs.envfile import unread_file
from runs.modelsource import recorded_label, recorded_of, replay_folder
from runs.session import start_run
from runs.settings import Spending
from runs.storage.manifest import recorded_differences
from runs.storage.store import RunStore


def run_command(config: RunConfig, options: Options, say: Say) -> int:
    """Run, or print what a run would do, and return the exit code."""
    config = validated(config)
    replay = config.settings.calls.replay
    if replay:
        config = replace(config, label=recorded_label(replay_folder(replay)))
    if not options.dry_run:
        # A wrong name is reported before a dataset is fetched.
        agent_of(config)
    calls = options.settings.calls
    make_tracing(config.run_name, enabled=calls.trace, content=calls.trace_content)
    chosen = options.settings.instances
    dataset = load_dataset(options.dataset, chosen.split, chosen.config)
    notes = (lambda _: None) if options.dry_run and options.as_json else say
    instances = dated(dataset.instances(), chosen.since, chosen.until)
    selected = _recorded(config, options, chosen.selection.apply(instances), notes)
    left_out = not_valid(chosen.only_valid, [i.instance_id for i in selected], notes)
    selected = [i for i in selected if i.instance_id not in left_out]
    store = RunStore(options.out, config.run_name, Redactor.of_environment(os.environ))
    benchmark = InstanceBenchmark(
        config, options, store, say, dataset, selected, left_out
    )
    check_folders(options)
    if options.dry_run:
        return _dry_run(benchmark)
    check_models(config, options.money)
    return start_run(benchmark)


def _recorded(
    config: RunConfig, options: Options, selected: Sequence[Instance], say: Say
) -> Sequence[Instance]:
    replay = config.settings.calls.replay
    if not replay:
        return selected
    folder = replay_folder(replay)
    found = recorded_of(folder, [i.instance_id for i in selected])
    if options.settings.instances.ids:
        return selected
    recorded = [i for i in selected if i.instance_id in found]
    if left_out := len(selected) - len(recorded):
        which = counted(left_out, "instance")
        say(f"left out: {which} of the dataset without a recording in {folder}")
    return recorded


def _dry_run(benchmark: InstanceBenchmark) -> int:
    config, options, say = benchmark.config, benchmark.options, benchmark.say
    notes: list[str] = []
    plan = benchmark.planned(notes.append)
    selected = benchmark.selected
    todo = [i for i in selected if i.instance_id in {*plan.todo}]
    differences = recorded_differences(benchmark.store, benchmark.deciding())
    found = _forecast(config, options, benchmark.store, todo, differences)
    if options.as_json:
        counts = {
            "selected": len(selected),
            "done": plan.done,
            "over_budget": plan.over_budget,
        }
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
    """Return what a run would do as ``--dry-run --format json`` shows it; None is unknown."""
    attempts = len(config.models) * config.settings.models.tries
    each: int | None = 1 + config.settings.builtin.reflections.most
    if config.outside_agent:
        each = config.settings.agent.max_calls
    most = each and len(todo) * (attempts * each + _extra(config)) * config.calls_models
    lower, upper = cost_bounds(config, options.money, todo)
    cache = next(p for p in (options.cache, *options.cache.parents) if p.exists())
    return {
        "run": config.run_name,
        "folder": str(store.folder),
        "models": [
            {"name": m.name, "edit_format": m.edit_format} for m in config.models
        ],
        "todo": [instance.instance_id for instance in todo],
        "attempts": attempts,
        "calls": most,
        "lower": lower,
        "upper": upper,
        "budget": options.money.limits.usd,
        "environment": config.environment.value,
        "tests": config.settings.tests.which.value,
        "agent_timeout": config.settings.agent.timeout,
        "missing": [*_missing(config, todo, make_mirrors(options))],
        "differences": [*differences],
        "cache": str(cache),
        "free": shutil.disk_usage(cache).free,
    }


def _forecast_lines(found: Mapping[str, Any]) -> Iterator[str]:
    names = ", ".join(
        f"{model['name']} ({model['edit_format']})" for model in found["models"]
    )
    attempts, todo = (
        counted(found["attempts"], "attempt"),
        counted(len(found["todo"]), "instance"),
    )
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
        yield f"refused: run {found['run']} was started with different settings: {words}"


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
        limits = money.limits
        held = [
            limits.usd,
            limits.usd_per_instance and limits.usd_per_instance * len(todo),
        ]
        most = min((limit for limit in held if limit is not None), default=None)
        known = config.has_gateway and config.calls_models and most is not None
        return (Decimal(), most) if known else (None, None)
    if not config.calls_models or not todo:
        return Decimal(), Decimal()
    return _least(config, money, todo), _most(config, money, len(todo))


def _least(
    config: RunConfig, money: Spending, todo: Sequence[Instance]
) -> Decimal | None:
    price = money.prices.get(config.models[0].name) or cheapest_price(
        config.models[0].name
    )
    if price is None:
        return None
    rules = get_format(config.models[0].edit_format).instructions("```")
    instructions = estimate_tokens(render("system", format_rules=rules))
    prompts = (instructions + estimate_tokens(i.problem_statement) for i in todo)
    return sum((price.bound(prompt, 1) for prompt in prompts), Decimal())


def _extra(config: RunConfig) -> int:
    """Return the most calls for an instance beside those of attempts: those for scripts."""
    choice = config.settings.choice
    return choice.scripts + choice.rounds if config.by_evidence else 0


def _most(config: RunConfig, money: Spending, count: int) -> Decimal | None:
    limits, calls = money.limits, 1 + config.settings.builtin.reflections.most
    known = [
        _most_of_call(model, config, money.prices.get(model.name))
        for model in config.models
    ]
    priced = [cost for cost in known if cost is not None]
    each = sum(priced, Decimal()) * calls * config.settings.models.tries
    whole = None
    if len(priced) == len(known):
        whole = (each + max(priced, default=Decimal()) * _extra(config)) * count
    held = [limits.usd, limits.usd_per_instance and limits.usd_per_instance * count]
    bounds = [bound for bound in (whole, *held) if bound is not None]
    return min(bounds, default=None)


def _most_of_call(
    model: ModelChoice, config: RunConfig, own: Price | None
) -> Decimal | None:
    known = filled(model.settings, model.name, config.settings.calls.api_base)
    price = own or dearest_price(model.name)
    output = config.settings.models.max_output_tokens or known.max_output
    if price is None or output is None or known.context is None:
        return None
    return price.bound(known.context, output)


def _missing(
    config: RunConfig, todo: Sequence[Instance], mirrors: Mirrors
) -> Iterator[str]:
    yield from _missing_mirrors(todo, mirrors)
    for model in config.models if config.calls_models else ():
        if missing := missing_key(model.name, config.settings.calls.api_base):
            yield f"a key for {model.given} in the environment variable {missing}{unread_file()}"
    try:
        agent_of(config)
    except UserError as error:
        yield str(error)
    yield from _missing_engine(config, todo)


def _missing_mirrors(todo: Sequence[Instance], mirrors: Mirrors) -> Iterator[str]:
    for repo, count in sorted(Counter(i.repo for i in todo).items()):
        mirror = mirrors.find(repo)
        if mirror is None:
            yield f"a mirror of {repo} ({counted(count, 'instance')}); it would be cloned"
            continue
        absent = [
            i for i in todo if i.repo == repo and not has_commit(mirror, i.base_commit)
        ]
        if absent:
            commits = counted(len(absent), "base commit")
            yield f"{commits} in {mirror}, as {absent[0].base_commit}"


def _missing_engine(config: RunConfig, todo: Sequence[Instance]) -> Iterator[str]:
    if config.environment is not EnvironmentKind.DOCKER:
        return
    client = connect()
    if client is None:
        yield "no Docker engine answers; start one or choose --environment local"
        return
    if absent := missing_images(client, used_images(todo)):
        yield f"{counted(len(absent), 'image')} to be pulled, as {absent[0]}"
