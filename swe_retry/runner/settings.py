"""The settings that every benchmark has beside its own, and what they mean for a run's models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from swe_retry.core.errors import UserError
from swe_retry.core.settings import EVERY, Folder, Section
from swe_retry.llm.options import Models
from swe_retry.llm.prices import Price
from swe_retry.record.versions import TOP
from swe_retry.runner.calls.budget import BudgetLimits, BudgetSettings
from swe_retry.runner.calls.rate_limiter import Calls, Rates

OWN_RAY = "own"
Resolve = Callable[[str], str]
"""Makes litellm's name of a model of the one that the user wrote."""
_MILLION = Decimal(1_000_000)
T = TypeVar("T")


def user_folder(variable: str, default: str) -> Path:
    """Return the harness's folder in one of the user's, which ``variable`` may name.

    A relative name does not count, as the XDG specification says: it would lie in the current
    folder, which may be a stranger's repository.
    """
    root = Path(os.environ.get(variable, ""))
    if not root.is_absolute():
        root = Path(default).expanduser()
    return root / "swe-retry-harness"


def default_cache() -> Path:
    """Return the user's cache folder for mirrors, snapshots, environments and baselines."""
    return user_folder("XDG_CACHE_HOME", "~/.cache")


class ScaleSettings(Section):
    """How much at once; nothing here decides a result."""

    workers: int | None = Field(default=None, ge=1)
    """Work on this many instances at once; default: 4, or your own server's slots."""

    jobs: int | None = Field(default=None, ge=1)
    """Make this many checkouts, maps, lints and tests at once; default: the cores."""

    ray: str = ""
    """Use Ray's processes: own (one on this machine), auto, or the address of a cluster
    (docs/scale.md); default: threads."""

    cpus_per_instance: float = Field(default=1.0, gt=0)
    """On a cluster, reserve this many CPUs for a worker process; its instances take
    turns at local work."""

    @property
    def processors(self) -> int:
        """The number of jobs that compute at the same time."""
        return self.jobs or os.cpu_count() or 1

    @property
    def cluster(self) -> str:
        """The address of a running cluster of Ray; empty without one."""
        if self.ray == OWN_RAY:
            return ""
        return self.ray


class FolderSettings(Section):
    """Where a run lies, and what it shares with other runs."""

    run: str = ""
    """Write to predictions/NAME; by default the models' names."""

    out: Folder = TOP
    """Put predictions/ and logs/ below this folder; by default the harness's."""

    cache: Folder = Field(default_factory=default_cache)
    """Keep mirrors, environments and baselines in this folder."""

    repos: Folder | None = None
    """Find bare mirrors of repositories here; default: in the cache."""


class CommonSettings(Section):
    """What every benchmark is told of a run; each adds sections of its own."""

    models: Models = Models()
    calls: Calls = Calls()
    budget: BudgetSettings = BudgetSettings()
    scale: ScaleSettings = ScaleSettings()
    folders: FolderSettings = FolderSettings()


@dataclass(frozen=True)
class Spending(BudgetLimits):
    """What a run may spend; ``prices`` are the user's, by litellm's names of models."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    allow_unpriced: bool = False

    @classmethod
    def of(cls, budget: BudgetSettings, resolve: Resolve) -> Spending:
        prices = {}
        for model, amounts in _by_model(budget.prices, resolve, "--price").items():
            prices[model] = Price(*(amount / _MILLION for amount in amounts))
        of_models = _by_model(budget.usd_per_model, resolve, "budget.usd_per_model")
        return cls(
            usd=budget.usd,
            usd_per_instance=budget.usd_per_instance,
            usd_per_model=of_models,
            calls=budget.calls,
            prices=prices,
            allow_unpriced=budget.allow_unpriced,
        )

    @property
    def in_dollars(self) -> bool:
        """Whether a limit is one of dollars."""
        return bool(self.usd or self.usd_per_instance or self.usd_per_model)


def make_rates(calls: Calls, resolve: Resolve) -> Rates:
    """Return the rates per minute by litellm's names of models."""
    requests = _by_model(calls.per_minute, resolve, "calls.per_minute")
    tokens = _by_model(calls.tokens_per_minute, resolve, "calls.tokens_per_minute")
    return Rates(requests, tokens)


def _by_model(values: dict[str, T], resolve: Resolve, setting: str) -> dict[str, T]:
    """Return values by litellm's names of the models that the user named.

    Raises:
        UserError: two names are of one model, or ``resolve`` does not know a name.
    """
    resolved: dict[str, T] = {}
    for name, value in values.items():
        model = name if name == EVERY else resolve(name)
        if model in resolved:
            raise UserError(f"{setting}: {name} ({model}) stands twice; give it once")
        resolved[model] = value
    return resolved
