"""The task sets whose rows are read, one module each."""

from __future__ import annotations

from bench.instances.adapters.base import Row, SetAdapter
from bench.instances.adapters.classic import CLASSIC
from bench.instances.adapters.gym import GYM
from bench.instances.adapters.live import LIVE
from bench.instances.adapters.multi import MULTI
from bench.instances.adapters.pro import PRO
from bench.instances.adapters.rebench import REBENCH, REBENCH_V2
from bench.instances.adapters.smith import SMITH

ADAPTERS: tuple[SetAdapter, ...] = (
    MULTI, PRO, LIVE, REBENCH_V2, REBENCH, SMITH, GYM, CLASSIC,
)  # fmt: skip
"""The first that recognizes a row reads it: sets with columns of their own come first."""


def adapter_of(row: Row) -> SetAdapter | None:
    return next((adapter for adapter in ADAPTERS if adapter.recognizes(row)), None)


def nearest(row: Row) -> SetAdapter:
    """Return the adapter of the set with the greatest share of its needed columns in ``row``."""

    def share(adapter: SetAdapter) -> float:
        held = sum(any(name in row for name in key.split("|")) for key in adapter.required)
        return held / len(adapter.required)

    return max(ADAPTERS, key=share)
