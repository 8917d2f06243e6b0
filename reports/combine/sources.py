"""Pure: names for several runs."""

from __future__ import annotations

from collections.abc import Sequence

from runs.storage.store import RunStore


def labels(stores: Sequence[RunStore]) -> tuple[str, ...]:
    """Return a name for each run: its own, or its folder if several runs have that name."""
    names = [store.run for store in stores]
    return tuple(
        store.run if names.count(store.run) == 1 else str(store.folder) for store in stores
    )
