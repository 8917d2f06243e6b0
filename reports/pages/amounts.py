"""Pure: amounts in words."""

from __future__ import annotations

from decimal import Decimal


def dollars(cost: Decimal | None) -> str:
    """Return dollars in words, with four decimals below one dollar."""
    if cost is None:
        return "unknown"
    return f"${cost:.4f}" if 0 < cost < 1 else f"${cost:,.2f}"
