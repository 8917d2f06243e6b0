"""How much a run does at once, and where it lies."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import TypeVar

from pydantic import Field

from core.errors import UserError
from core.settings import EVERY, Folder, Section
from llm.options import Models
from llm.prices import Price
from runs.calls.budget import BudgetLimits, BudgetSettings, PerModel, Resolve
from runs.calls.rate_limiter import Calls, Rates
from runs.options import TOP, EngineKind, Scale, Spending, default_cache

OWN_RAY = "own"
_MILLION = Decimal(1_000_000)
T = TypeVar("T")


class ScaleSettings(Section):
    """How much at once; nothing here decides a result."""

    workers: int = Field(
        default=4, ge=1, description="Work on this many instances at once."
    )
    jobs: int | None = Field(
        default=None,
        ge=1,
        description="Make this many checkouts, maps, lints and tests at once; default: the cores.",
    )
    ray: str = Field(
        default="",
        description="Use Ray's processes: own (one on this machine), auto, or the address of a "
        "cluster (docs/scale.md); default: threads.",
    )
    cpus_per_instance: float | None = Field(
        default=None,
        description="Let Ray reserve this many CPUs for an instance; default: 1 with tests, else "
        "0.25.",
    )


class FolderSettings(Section):
    """Where a run lies, and what it shares with other runs."""

    run: str = Field(
        default="",
        description="Write to predictions/NAME; by default the models' names.",
    )
    out: Folder = Field(
        default=TOP,
        description="Put predictions/ and logs/ below this folder; by default the harness's.",
    )
    cache: Folder = Field(
        default_factory=default_cache,
        description="Keep mirrors, environments and baselines in this folder.",
    )
    repos: Folder | None = Field(
        default=None,
        description="Find bare mirrors of repositories here; default: in the cache.",
    )


class CommonSettings(Section):
    """What every benchmark is told of a run; each adds sections of its own."""

    models: Models = Models()
    calls: Calls = Calls()
    budget: BudgetSettings = BudgetSettings()
    scale: ScaleSettings = ScaleSettings()
    folders: FolderSettings = FolderSettings()


def make_scale(scale: ScaleSettings, calls: Calls, resolve: Resolve) -> Scale:
    """Return how much a run does at once; ``resolve`` makes litellm's name of a user's."""
    engine = EngineKind.RAY if scale.ray else EngineKind.LOCAL
    address = "" if scale.ray == OWN_RAY else scale.ray
    rates = Rates(
        requests_per_minute=_per_minute(calls.per_minute, resolve, "calls.per_minute"),
        tokens_per_minute=_per_minute(
            calls.tokens_per_minute, resolve, "calls.tokens_per_minute"
        ),
    )
    return Scale(
        workers=scale.workers,
        jobs=scale.jobs or os.cpu_count() or 1,
        engine=engine,
        ray_address=address,
        cpus_per_instance=scale.cpus_per_instance,
        rates=rates,
        give_up_after=calls.give_up_after,
    )


def make_spending(budget: BudgetSettings, resolve: Resolve) -> Spending:
    """Return the limits and prices of a run; ``resolve`` makes litellm's name of a user's."""
    prices = {}
    for model, amounts in by_model(budget.prices, resolve, "--price").items():
        prices[model] = Price(*(amount / _MILLION for amount in amounts))
    limits = BudgetLimits(
        usd=budget.usd,
        usd_per_instance=budget.usd_per_instance,
        usd_per_model=by_model(budget.usd_per_model, resolve, "budget.usd_per_model"),
        calls=budget.calls,
    )
    return Spending(limits=limits, prices=prices, allow_unpriced=budget.allow_unpriced)


def by_model(values: dict[str, T], resolve: Resolve, setting: str) -> dict[str, T]:
    """Return values by litellm's names of the models that the user named.

    Raises:
        UserError: two names are of one model, or ``resolve`` does not know a name.
    """
    resolved: dict[str, T] = {}
    for given, value in values.items():
        model = resolve(given)
        if model in resolved:
            raise UserError(f"{setting}: {given} ({model}) stands twice; give it once")
        resolved[model] = value
    return resolved


def _per_minute(values: dict[str, int], resolve: Resolve, setting: str) -> PerModel:
    named = dict(values)
    others = named.pop(EVERY, None)
    return PerModel(others, by_model(named, resolve, setting))
