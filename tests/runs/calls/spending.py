"""What a budget has charged, which only tests ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from runs.calls.budget import Budget


@dataclass(frozen=True)
class Spent:
    usd: Decimal
    by_model: Mapping[str, Decimal]
    by_instance: Mapping[str, Decimal]
    calls: int


def spent_of(budget: Budget) -> Spent:
    with budget._lock:
        return Spent(
            usd=budget._run.spent,
            by_model={name: account.spent for name, account in budget._models.items()},
            by_instance={name: account.spent for name, account in budget._instances.items()},
            calls=int(budget._calls.spent),
        )
