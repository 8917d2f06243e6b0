"""The task sets whose rows are read, one module each."""

from __future__ import annotations

from swe_retry.instances.adapters.adapter import Row, SetAdapter
from swe_retry.instances.adapters.classic import Classic
from swe_retry.instances.adapters.gym import Gym
from swe_retry.instances.adapters.live import Live
from swe_retry.instances.adapters.multi import Multi
from swe_retry.instances.adapters.own import Own
from swe_retry.instances.adapters.pro import Pro
from swe_retry.instances.adapters.rebench import Rebench, RebenchV2
from swe_retry.instances.adapters.smith import Smith

ADAPTERS: tuple[SetAdapter, ...] = (
    Own(),
    Multi(),
    Pro(),
    Live(),
    RebenchV2(),
    Rebench(),
    Smith(),
    Gym(),
    Classic(),
)
"""The first that recognizes a row reads it: sets with columns of their own come first."""


def adapter_of(row: Row) -> SetAdapter | None:
    for adapter in ADAPTERS:
        if adapter.recognizes(row):
            return adapter
    return None


def nearest_adapter(row: Row) -> SetAdapter:
    """Return the adapter of the set with the greatest share of its needed columns in ``row``."""

    def share(adapter: SetAdapter) -> float:
        present = [key for key in adapter.required if key in row]
        return len(present) / len(adapter.required)

    return max(ADAPTERS, key=share)
