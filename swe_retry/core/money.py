"""Dollars as exact decimals, rounded in one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Annotated

from pydantic import PlainSerializer

# Finer than any price of a token; sums of rounded costs are exact.
_PLACES = Decimal("1e-10")
_CONTEXT = Context(prec=40, rounding=ROUND_HALF_EVEN)

UNKNOWN = "unknown"


def dollars(amount: Decimal | float | str) -> Decimal:
    """Return ``amount`` with ten decimal places, rounded half to even.

    A float counts by its decimal digits, so 0.1 is a tenth.

    Raises:
        ValueError: the amount is negative, not finite, or at least 1e29.
    """
    try:
        digits = amount if isinstance(amount, (Decimal, str)) else repr(amount)
        exact = Decimal(digits)
        if not exact.is_finite() or exact < 0:
            raise ValueError
        return exact.quantize(_PLACES, context=_CONTEXT)
    except (ArithmeticError, ValueError):
        raise ValueError(f"{amount!r} is not an amount of dollars") from None


def dollars_or_none(amount: Decimal | float | str | None) -> Decimal | None:
    """Return ``dollars(amount)``; an unknown amount stays None."""
    if amount is None:
        return None
    return dollars(amount)


def known_sum(costs: Iterable[Decimal | None]) -> Decimal:
    """Return the exact sum of the costs that are known."""
    result = Decimal()
    for cost in costs:
        if cost is not None:
            result += cost
    return result


def total(costs: Iterable[Decimal | None]) -> Decimal | None:
    """Return the exact sum of ``costs``, None when one of them is unknown."""
    costs = list(costs)
    if None in costs:
        return None
    return known_sum(costs)


def as_text(cost: Decimal | None) -> str | None:
    """Return dollars as a JSON text: digits without an exponent or trailing zeros."""
    if cost is None:
        return None
    return format(cost.normalize(), "f")


def as_number(cost: Decimal | None) -> float | None:
    """Return dollars as a JSON number."""
    if cost is None:
        return None
    return float(cost)


def in_words(cost: Decimal | float | None, places: int | None = None) -> str:
    """Return dollars for a reader; without ``places``, four decimals below one dollar, else two."""
    if cost is None:
        return UNKNOWN
    if places is None:
        places = _decimal_places([cost])
    return f"${cost:,.{places}f}"


def sum_words(least: Decimal | float, *, complete: bool) -> str:
    """Return a sum for a reader: the least that it is where a part is unknown."""
    if complete:
        return in_words(least)
    if least:
        return f"at least {in_words(least)}"
    return UNKNOWN


def range_words(cost: Decimal | None, at_most: Decimal | None) -> str:
    """Return what is known of a cost, and the most that it can be where that is another sum."""
    if cost == at_most:
        return in_words(cost)
    return f"{in_words(cost)} (at most {in_words(at_most)})"


def cost_words(
    dollars: Decimal | None,
    recorded: Decimal,
    at_most: Decimal | None,
) -> str:
    """Return what calls cost; of ``dollars``, replies were recorded that cost ``recorded`` once."""
    if not recorded:
        return f"cost {range_words(dollars, at_most)}"
    replayed = f"recorded {in_words(recorded)}"
    if dollars == recorded:
        return replayed
    paid = None if dollars is None else dollars - recorded
    return f"cost {in_words(paid)}, {replayed}"


def column(costs: Sequence[Decimal | None]) -> list[str]:
    """Return the cells of a table's column with equal decimals, four where any is below one."""
    places = _decimal_places(costs)
    return [in_words(cost, places) for cost in costs]


def _decimal_places(costs: Sequence[Decimal | float | None]) -> int:
    for cost in costs:
        if cost is not None and 0 < cost < 1:
            return 4
    return 2


Dollars = Annotated[Decimal, PlainSerializer(as_text, return_type=str)]
"""Dollars as a field of statistics: a text in JSON."""
