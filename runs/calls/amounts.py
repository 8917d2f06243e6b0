"""Pure: parse the options for dollars, prices and rates, each for all models or for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from core.errors import UserError
from llm.prices import Price

Resolve = Callable[[str], str]
_MILLION = 1_000_000
# Amounts outside these limits are typing errors, and exact sums of them would be slow.
_MOST = 1_000_000_000
_LEAST = Decimal("1e-9")


@dataclass(frozen=True)
class PerModel:
    """A number for each model: its own, else the number for all others; None is no limit."""

    others: int | None = None
    named: Mapping[str, int] = field(default_factory=dict)

    def of(self, model: str) -> int | None:
        return self.named.get(model, self.others)


def parse_usd(option: str, text: str) -> Decimal:
    amount = _dollars(text)
    if not amount:
        raise UserError(f"{option} {text!r}: give dollars above 0, as 12.50")
    return amount


def parse_per_model(
    text: str, resolve: Resolve, option: str = "--budget-usd-per-model"
) -> dict[str, Decimal]:
    """Parse ``MODEL=DOLLARS,MODEL=DOLLARS``; ``resolve`` turns a user's name into litellm's."""
    return {
        model: parse_usd(f"{option} {given}", amount)
        for given, model, amount in _entries(option, text.split(","), resolve)
    }


def parse_prices(
    texts: Sequence[str], resolve: Resolve = str, option: str = "--price"
) -> dict[str, Price]:
    """Parse ``MODEL=IN,OUT``, dollars per million tokens; 0 is a price."""
    found = {}
    for given, model, amounts in _entries(option, texts, resolve):
        prices = [_dollars(amount) for amount in amounts.split(",")]
        known = [price / _MILLION for price in prices if price is not None]
        if len(prices) != 2 or len(known) != 2:
            raise UserError(
                f"{option} {given}={amounts}: give MODEL=IN,OUT in dollars per million tokens"
            )
        found[model] = Price(*known)
    return found


def parse_rates(option: str, text: str, resolve: Resolve) -> PerModel:
    """Parse ``MODEL=N,MODEL=N``; a bare ``N`` is for each other model."""
    parts = text.split(",")
    bare = [part for part in parts if "=" not in part]
    if len(bare) > 1:
        raise UserError(f"{option} {text!r}: give one number for all models, or MODEL=N,MODEL=N")
    named = _entries(option, [part for part in parts if "=" in part], resolve)
    return PerModel(
        others=_rate(option, bare[0]) if bare else None,
        named={model: _rate(f"{option} {given}", number) for given, model, number in named},
    )


def _entries(option: str, texts: Sequence[str], resolve: Resolve) -> Iterator[tuple[str, str, str]]:
    seen = set()
    for text in texts:
        given, equals, value = (part.strip() for part in text.rpartition("="))
        if not equals or not given or not value:
            raise UserError(f"{option} {text!r}: give MODEL=VALUE, as gpt-4o=50")
        model = resolve(given)
        if model in seen:
            raise UserError(f"{option}: {given} ({model}) stands twice; give it once")
        seen.add(model)
        yield given, model, value


def _dollars(text: str) -> Decimal | None:
    try:
        amount = Decimal(text.strip())
    except InvalidOperation:
        return None
    sensible = amount.is_finite() and (not amount or _LEAST <= amount < _MOST)
    return amount if sensible else None


def _rate(option: str, text: str) -> int:
    text = text.strip()
    number = int(text) if text.isdecimal() and len(text) < 16 else 0
    if number < 1:
        raise UserError(f"{option} {text!r}: give a whole number per minute, at least 1")
    return number
