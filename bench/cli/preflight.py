"""Say what a run would do, cost and miss; start nothing."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from agent.formats import get_format
from agent.prompts import render
from bench.assembly import make_agent
from bench.cli.config import ModelChoice, RunConfig
from bench.instances.instance import Instance
from bench.repos.mirrors import Mirrors, has_commit
from core.errors import UserError
from core.money import as_text, in_words
from core.plaintext import counted
from environments.base import EnvironmentKind
from environments.docker.engine import engine_answers
from environments.docker.images import missing_images
from llm.chat import estimate_tokens
from llm.prices import Price, cheapest_price, dearest_price
from llm.registry import filled, missing_key
from runs.options import Spending

_GB = 1e9


@dataclass(frozen=True)
class Preflight:
    """What a run would do.

    Attributes:
        models: litellm's names with their edit formats.
        todo: ids of the instances to work on.
        attempts: at most, on each instance.
        calls: at most, those after transient errors aside; None for outside agents.
        lower, upper: bounds of the dollars; None where unknown.
        budget: of the run in dollars; None where there is none.
        missing: what has to be there first, in words.
        differences: how the run was started otherwise, in words.
        free: bytes at ``cache``.
    """

    run: str
    folder: Path
    models: tuple[tuple[str, str], ...]
    todo: tuple[str, ...]
    attempts: int
    calls: int | None
    lower: Decimal | None
    upper: Decimal | None
    budget: Decimal | None
    environment: str
    tests: str
    agent_timeout: float
    missing: tuple[str, ...]
    differences: tuple[str, ...]
    cache: Path
    free: int

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON holds it: dollars as texts."""
        money = {key: as_text(getattr(self, key)) for key in ("lower", "upper", "budget")}
        paths = {"folder": str(self.folder), "cache": str(self.cache)}
        models = [{"name": name, "edit_format": format_} for name, format_ in self.models]
        return {**asdict(self), **money, **paths, "models": models}

    def lines(self) -> Iterator[str]:
        """Yield it for a reader."""
        names = ", ".join(f"{name} ({format_})" for name, format_ in self.models)
        attempts, instances = counted(self.attempts, "attempt"), counted(len(self.todo), "instance")
        yield f"models: {names}; up to {attempts} on each of {instances}"
        if self.calls is None:
            yield f"calls: those of the outside agent, {self.agent_timeout:.0f} s for an attempt"
        else:
            yield f"calls: at most {self.calls:,}, those after transient errors aside"
        yield f"cost: {self._cost()}"
        yield f"environment: {self.environment}; tests: {self.tests}"
        yield f"output: {self.folder}"
        yield from (f"missing: {words}" for words in self.missing)
        yield f"disk: {self.free / _GB:.0f} GB free at {self.cache}"
        for words in self.differences:
            yield f"refused: run {self.run} was started with different options: {words}"

    def _cost(self) -> str:
        if self.lower is None or self.upper is None:
            return "unknown"
        held = "" if self.budget is None else "; --budget-usd is counted in"
        return f"at least {in_words(self.lower)}, at most {in_words(self.upper)}{held}"


def preflight(
    config: RunConfig,
    money: Spending,
    todo: Sequence[Instance],
    mirrors: Mirrors,
    folder: Path,
    cache: Path,
    differences: Sequence[str],
) -> Preflight:
    """Return what a run would do with the instances ``todo``."""
    attempts = len(config.models) * config.tries
    each = 1 + config.max_reflections.most
    place = next(p for p in (cache, *cache.parents) if p.exists())
    lower, upper = cost_bounds(config, money, todo)
    return Preflight(
        run=config.run_name,
        folder=folder,
        models=tuple((model.name, model.edit_format) for model in config.models),
        todo=tuple(instance.instance_id for instance in todo),
        attempts=attempts,
        calls=None if config.outside_agent else len(todo) * attempts * each * config.calls_models,
        lower=lower,
        upper=upper,
        budget=money.limits.usd,
        environment=config.environment.value,
        tests=config.tests.value,
        agent_timeout=config.agent_timeout,
        missing=tuple(_missing(config, todo, mirrors)),
        differences=tuple(differences),
        cache=place,
        free=shutil.disk_usage(place).free,
    )


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
    yield from _missing_keys(config)
    yield from _missing_agent(config)
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


def _missing_keys(config: RunConfig) -> Iterator[str]:
    for model in config.models if config.calls_models else ():
        if missing := missing_key(model.name, config.api_base):
            yield f"a key for {model.given} in the environment variable {missing}"


def _missing_agent(config: RunConfig) -> Iterator[str]:
    try:
        make_agent(config)
    except UserError as error:
        yield str(error)


def _missing_engine(config: RunConfig, todo: Sequence[Instance]) -> Iterator[str]:
    if config.environment is not EnvironmentKind.DOCKER:
        return
    if not engine_answers():
        yield "no Docker engine answers; start one or choose --environment local"
        return
    if absent := missing_images({i.image for i in todo if i.test_setup is not None}):
        yield f"{counted(len(absent), 'image')} to be pulled, as {absent[0]}"
