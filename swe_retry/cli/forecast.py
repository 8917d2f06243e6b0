"""What a run of instances would do, what it lacks, and what it may cost."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from swe_retry.agent.formats import get_format
from swe_retry.agent.prompts import render
from swe_retry.attempts.benchmark import (
    InstanceBenchmark,
    agent_of,
    find_untestable,
    make_mirrors,
    used_images,
)
from swe_retry.attempts.config import ModelChoice, RunConfig
from swe_retry.attempts.policy import StopRule
from swe_retry.cli.likely import (
    ASSUMPTION,
    expect_attempt,
    likely_dollars,
    recorded_attempts,
)
from swe_retry.core.errors import UserError
from swe_retry.core.money import as_text, in_words
from swe_retry.core.plaintext import quantity, some
from swe_retry.core.texts import render_text
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.images import missing_images
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import has_test_lists
from swe_retry.llm.chat import estimate_tokens
from swe_retry.llm.prices import cheapest_price, cost_bound
from swe_retry.llm.registry import Endpoint, ending_models
from swe_retry.record.description import RecordedConfig
from swe_retry.record.manifest import recorded_differences
from swe_retry.repositories.mirrors import Mirrors, has_commit
from swe_retry.runner.checks import (
    assumptions,
    check_known_models,
)
from swe_retry.runner.envfile import unread_file
from swe_retry.runner.modelsource import (
    ReplayedModels,
    replay_folder,
)
from swe_retry.runner.settings import Spending
from swe_retry.testing.health import problem_lines

_TEMPLATE = Path(__file__).with_name("forecast.txt")


def forecast_run(benchmark: InstanceBenchmark) -> int:
    """Print what a run would do; return 2 if it would be refused."""
    notes: list[str] = []
    plan = benchmark.select_jobs(notes.append)
    names = set(plan.todo)
    todo = [i for i in benchmark.selected if i.instance_id in names]
    differences = recorded_differences(benchmark.store, benchmark.deciding())
    forecast = make_forecast(benchmark, todo, differences)
    if benchmark.config.prints_json:
        forecast |= {
            "selected": len(benchmark.selected),
            "done": len(plan.done),
            "over_budget": plan.over_budget,
        }
        benchmark.say(json.dumps(forecast, default=as_text))
    else:
        functions = (in_words, problem_lines, quantity, some)
        today = date.today().isoformat()
        text = render_text(_TEMPLATE, *functions, today=today, **forecast)
        for line in (*notes, *text.splitlines()):
            benchmark.say(line)
    if differences or any(_refusals(benchmark.config)):
        return 2
    return 0


def make_forecast(
    benchmark: InstanceBenchmark,
    todo: Sequence[Instance],
    differences: Sequence[str],
) -> dict[str, Any]:
    """Return what a run would do as ``--dry-run --format json`` shows it; None is unknown."""
    config = benchmark.config
    settings = config.settings
    attempts = len(config.models) * settings.models.tries
    # Of an attempt, then of all.
    calls: int | None = 1 + settings.builtin.reflections.total
    if config.outside_agent:
        calls = settings.agent.max_calls
    if calls and config.calls_models:
        conversations = len(config.called_models) * settings.models.tries
        calls = len(todo) * (conversations * calls + _script_calls(config))
    elif calls:
        calls = 0
    lower, upper = cost_bounds(config, todo)
    likely, basis = _likely_cost(benchmark, len(todo), (lower, upper))
    cache = config.cache
    while not cache.exists():
        cache = cache.parent
    return {
        "run": config.run_name,
        "folder": str(benchmark.store.folder),
        "models": _model_names(config, todo),
        "server": list(assumptions(config)),
        "todo": [instance.instance_id for instance in todo],
        "attempts": attempts,
        "calls": calls,
        "lower": lower,
        "likely": likely,
        "likely_basis": basis,
        "upper": upper,
        "budget": config.money.usd,
        "environment": config.environment.value,
        "tests": settings.tests.which.value,
        "agent_timeout": settings.agent.timeout,
        "ending": ending_models(model.name for model in config.live_models),
        "without_tests": _without_tests(benchmark, todo),
        "untestable": find_untestable(config, todo),
        "missing": list(dict.fromkeys(_missing(config, todo))),
        "hides_packages": config.outside_agent and config.agent_sandbox is not None,
        "differences": list(differences),
        "cache": str(cache),
        "free": shutil.disk_usage(cache).free,
    }


def _without_tests(benchmark: InstanceBenchmark, todo: Sequence[Instance]) -> list[str]:
    """Return the ids of the instances that no evaluator can judge; one's own need none."""
    rows = benchmark.dataset.by_id
    names = []
    for instance in todo:
        if not (instance.commands or has_test_lists(rows[instance.instance_id])):
            names.append(instance.instance_id)
    return names


def _model_names(
    config: RunConfig, todo: Sequence[Instance]
) -> list[dict[str, str | None]]:
    """Return the models with their formats; for a replay those that are recorded."""
    names: dict[tuple[str, str | None], bool] = {}
    if config.settings.calls.replay is None:
        for model in config.models:
            names[model.label, model.edit_format] = True
    else:
        recordings = ReplayedModels(replay_folder(config.settings.calls.replay))
        for instance in todo:
            for attempt in recordings.attempts(instance.instance_id).values():
                names[attempt.model, attempt.edit_format] = True
    return [{"name": name, "edit_format": form} for name, form in names]


Bounds = tuple[Decimal | None, Decimal | None]
"""The least and the most dollars; None if unknown."""


def cost_bounds(config: RunConfig, todo: Sequence[Instance]) -> Bounds:
    """Return the least and the most dollars that a run over ``todo`` can cost.

    The least: one request of the first model for each instance, with its instructions and the
    issue alone, whose first reply is plausible. The most: every attempt uses all its messages, each
    with a full window and the longest reply; limits of dollars lower it. What only an outside agent
    knows, and models without a price or a window, make it None.
    """
    if config.outside_agent:
        limit = _limit(config.money, len(todo))
        if limit is None or not (config.has_gateway and config.calls_models):
            return None, None
        return Decimal(), limit
    if not config.calls_models or not todo:
        return Decimal(), Decimal()
    return _lower_bound(config, todo), _upper_bound(config, len(todo))


def _limit(money: Spending, instances: int) -> Decimal | None:
    """Return the most dollars that the limits allow; None without a limit."""
    limits = []
    if money.usd is not None:
        limits.append(money.usd)
    if money.usd_per_instance is not None:
        limits.append(money.usd_per_instance * instances)
    return min(limits, default=None)


def _lower_bound(config: RunConfig, todo: Sequence[Instance]) -> Decimal | None:
    model = config.called_models[0]
    price = config.money.prices.get(model.name) or cheapest_price(model.name)
    if price is None:
        return None
    rules = get_format(model.edit_format).instructions("```")
    instructions = estimate_tokens(render("system", format_rules=rules))
    dollars = Decimal()
    for instance in todo:
        issue = estimate_tokens(instance.problem_statement)
        dollars += price.bound(instructions + issue, 1)
    return dollars


def _likely_cost(
    benchmark: InstanceBenchmark, instances: int, bounds: Bounds
) -> tuple[Decimal | None, str]:
    """Return the expected dollars within ``bounds``, and what tells them; None if nothing does."""
    config = benchmark.config
    lower, upper = bounds
    if not config.calls_models or not instances:
        return upper, ""
    described = RecordedConfig.model_validate(config.as_json())
    labels = [model.label for model in described.models]
    runs = benchmark.store.folder.parent.glob("*/")
    recorded = recorded_attempts(runs, set(labels))
    turns = []
    for model, label in zip(config.models, labels, strict=True):
        price = benchmark.config.money.prices.get(model.name)
        price = price or cheapest_price(model.name)
        expected = expect_attempt(recorded.get(label, ()), price)
        if expected is None:
            return None, ""
        turns.append(expected)
    stops = config.settings.choice.stop is StopRule.PLAUSIBLE
    dollars = likely_dollars(turns, config.settings.models.tries, stops=stops)
    dollars = max(dollars * instances, lower or Decimal())
    if upper is not None:
        dollars = min(dollars, upper)
    if recorded.keys() < set(labels):
        return dollars, ASSUMPTION
    count = sum(map(len, recorded.values()))
    return dollars, f"by {quantity(count, 'recorded attempt')}"


def _script_calls(config: RunConfig) -> int:
    """Return the most calls for an instance beside those of attempts: those for scripts."""
    if not config.by_evidence:
        return 0
    choice = config.settings.choice
    return choice.scripts + choice.rounds


def _upper_bound(config: RunConfig, instances: int) -> Decimal | None:
    limit = _limit(config.money, instances)
    costs = []
    for model in config.called_models:
        cost = _cost_of_call(model, config)
        if cost is None:
            return limit
        costs.append(cost)
    calls = 1 + config.settings.builtin.reflections.total
    attempts = sum(costs, Decimal()) * calls * config.settings.models.tries
    scripts = max(costs, default=Decimal()) * _script_calls(config)
    dollars = (attempts + scripts) * instances
    if limit is None:
        return dollars
    return min(dollars, limit)


def _cost_of_call(model: ModelChoice, config: RunConfig) -> Decimal | None:
    """Return the dollars of a full window and the longest reply; None if they are unknown."""
    endpoint = Endpoint(model.name, config.settings.calls.api_base)
    info = endpoint.complete_settings(model.settings_at_server)
    output = config.settings.models.max_output_tokens or info.max_output
    price = config.money.prices.get(model.name)
    return cost_bound(model.name, price, info.context, output, info.context)


def _missing(
    config: RunConfig,
    todo: Sequence[Instance],
) -> Iterator[str]:
    """Yield what the run lacks: an agent, keys, prices, mirrors, an engine, images."""
    yield from _refusals(config)
    yield from _missing_mirrors(todo, make_mirrors(config))
    yield from _missing_engine(config, todo)


def _refusals(config: RunConfig) -> Iterator[str]:
    """Yield what the run would be refused for."""
    try:
        agent_of(config)
    except UserError as error:
        yield str(error)
    yield from _missing_keys(config)
    try:
        check_known_models(config)
    except UserError as error:
        yield str(error)


def _missing_keys(config: RunConfig) -> Iterator[str]:
    for model in config.live_models:
        endpoint = Endpoint(model.name, config.settings.calls.api_base)
        variable = endpoint.missing_key()
        if variable:
            name = f"{variable}{unread_file()}"
            yield f"a key for {model.text} in the environment variable {name}"


def _missing_mirrors(todo: Sequence[Instance], mirrors: Mirrors) -> Iterator[str]:
    by_repo = defaultdict(list)
    for instance in todo:
        by_repo[instance.repo].append(instance.base_commit)
    for repo, commits in sorted(by_repo.items()):
        mirror = mirrors.find(repo, commits[0])
        if mirror is None:
            count = quantity(len(commits), "instance")
            yield f"a mirror of {repo} ({count}); it would be cloned"
            continue
        absent = [commit for commit in commits if not has_commit(mirror, commit)]
        if absent:
            count = quantity(len(absent), "base commit")
            yield f"{count} in {mirror}, as {absent[0]}"


def _missing_engine(config: RunConfig, todo: Sequence[Instance]) -> Iterator[str]:
    if config.environment is not EnvironmentKind.DOCKER:
        return
    client = connect()
    if client is None:
        yield "no Docker engine answers; start one or choose --environment local"
        return
    absent = missing_images(client, used_images(todo))
    if absent:
        yield f"{quantity(len(absent), 'image')} to be pulled, as {absent[0]}"
