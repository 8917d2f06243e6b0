"""How much a run does at once and may spend: none of it decides what a reply leads to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from llm.pricing import Price
from runs.calls.budget import BudgetLimits
from runs.calls.throttle import Rates


class EngineKind(str, Enum):
    """Where instances are worked on."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True)
class Scale:
    """How much at once.

    Attributes:
        workers: instances in work.
        jobs: pieces of work on this machine's processors.
        ray_address: of a running cluster; empty starts one on this machine.
        cpus_per_instance: what Ray reserves; None for what the environment suggests.
        rates: limits a minute.
        give_up_after: seconds without an answer of any model.
    """

    workers: int = 4
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    engine: EngineKind = EngineKind.LOCAL
    ray_address: str = ""
    cpus_per_instance: float | None = None
    rates: Rates = field(default_factory=Rates)
    give_up_after: float = 1800.0


@dataclass(frozen=True)
class Money:
    """What may be spent.

    Attributes:
        prices: the user's, by litellm's name of the model.
        allow_unpriced: run models whose cost is unknown.
    """

    limits: BudgetLimits = field(default_factory=BudgetLimits)
    prices: Mapping[str, Price] = field(default_factory=dict)
    allow_unpriced: bool = False

    @property
    def in_dollars(self) -> bool:
        """Whether a limit is one of dollars."""
        limits = self.limits
        return bool(limits.usd or limits.usd_per_instance or limits.usd_per_model)
