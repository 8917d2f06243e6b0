"""The checkouts of an instance's attempts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from swe_retry.core.processes import remove_tree
from swe_retry.repositories.checkout import Checkout, make_checkout, renew_checkout
from swe_retry.repositories.snapshot import Snapshot


@dataclass
class Checkouts:
    """Makes a fresh checkout for each attempt, or renews the last one where that is allowed."""

    snapshot: Snapshot
    folder: Path
    _last: Checkout | None = None
    _reusable: bool = False

    def make_fresh(self, number: int) -> Checkout:
        """Return the checkout of an attempt; that of the attempt before is gone."""
        if self._last and self._reusable:
            checkout = renew_checkout(self._last)
        else:
            if self._last:
                remove_tree(self._last.root)
            checkout = make_checkout(self.snapshot, self.folder / f"attempt-{number}")
        self._last = checkout
        self._reusable = False
        return checkout

    def allow_reuse(self) -> None:
        """Allow to renew the last checkout: only the harness writes to it."""
        self._reusable = True
