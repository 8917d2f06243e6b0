"""Prices of calls, and upper bounds of their cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from swe_retry.core.money import dollars
from swe_retry.llm.chat import Usage
from swe_retry.llm.dialects.answer import Tokens
from swe_retry.llm.registry import Endpoint, load_litellm, price_entry, price_tiers

# Key prefixes of litellm's map: they include the prices of long prompts and of writing a cache,
# which costs more than plain input.
_INPUT = ("input_cost_per_token", "cache_creation_input_token_cost")
_OUTPUT = ("output_cost_per_token", "output_cost_per_reasoning_token")
# Token counts are estimates where a provider publishes no tokenizer.
_MARGIN = 1.1
_STANDARD_TIERS = ("default", "standard", "on_demand")
# Of another service, and of a cache for an hour.
_OTHER_SERVICE = ("batch", "flex", "priority", "fast", "above_1hr")


@dataclass(frozen=True)
class Price:
    """Dollars for an input token and for an output token; ``source`` is who states them."""

    input: Decimal
    output: Decimal
    source: str = field(default="--price", kw_only=True)

    def bound(self, prompt_tokens: int, output_tokens: int) -> Decimal:
        return dollars(prompt_tokens * self.input + output_tokens * self.output)


FREE = Price(Decimal(), Decimal(), source="local: free")
"""The price of a model that is a file of the user's own server."""


def dearest_price(name: str) -> Price | None:
    """Return the highest prices of ``name`` in litellm's map; None without any."""
    entry = price_entry(name)
    if not entry:
        return None
    tiers = price_tiers(entry)
    highest_input = max(_highest(tier, _INPUT) for tier in tiers)
    highest_output = max(_highest(tier, _OUTPUT) for tier in tiers)
    return Price(highest_input, highest_output)


def cost_bound(
    name: str,
    price: Price | None,
    prompt_tokens: int | None,
    output_tokens: int | None,
    window: int | None = None,
) -> Decimal | None:
    """Return the most dollars that a call can cost; None without a price.

    Also None if the number of tokens that have a price is unknown. A prompt is counted here, and
    has at most the tokens of the model's ``window``.
    """
    price = price or dearest_price(name)
    if not price:
        return None
    if prompt_tokens is None and price.input:
        return None
    if output_tokens is None and price.output:
        return None
    prompt = math.ceil((prompt_tokens or 0) * _MARGIN)
    if window:
        prompt = min(prompt, window)
    return price.bound(prompt, output_tokens or 0)


def cost_of(
    name: str,
    price: Price | None,
    usage: Usage | None,
    raw: object,
    tier: object = None,
) -> Decimal | None:
    """Return the dollars of a call; None when neither price nor cost is known.

    Args:
        name: litellm's name of the model.
        price: the user's, which overrides litellm's map.
        usage: the tokens; None where the provider reports none that can be read.
        raw: the same in litellm's type, which knows dearer and cheaper tokens.
        tier: the service tier that the answer names.
    """
    if not usage:
        return None
    if price:
        # Without a discount for cached tokens, which is unknown.
        return price.bound(usage.prompt_tokens or 0, usage.completion_tokens or 0)
    entry = price_entry(name)
    if not entry:
        # litellm would guess a price; some providers report what they charge.
        return _reported_cost(raw)
    litellm = load_litellm()
    from litellm.litellm_core_utils.llm_cost_calc.utils import get_service_tier_cost_key

    endpoint = Endpoint(name)
    try:
        # litellm would take the standard price where it knows no other for the tier.
        tier = str(tier or "default").lower()
        suffix = get_service_tier_cost_key("", tier)
        is_standard = tier in _STANDARD_TIERS
        if not is_standard and (
            not suffix or f"input_cost_per_token{suffix}" not in entry
        ):
            return None
        into, out = litellm.cost_per_token(
            model=endpoint.bare_name,
            custom_llm_provider=endpoint.provider,
            usage_object=raw,
            service_tier=tier,
        )
        return dollars(Decimal(repr(into)) + Decimal(repr(out)))
    except (
        Exception
    ):  # the reply is paid for and kept, whatever litellm makes of its tokens
        return None


def cost_of_tokens(
    name: str, price: Price | None, tokens: Tokens
) -> tuple[Usage, Decimal | None]:
    """Return the usage of a call, and its dollars by litellm's prices; None without a price."""
    usage = Usage(tokens.prompt, tokens.completion, tokens.cached)
    load_litellm()
    from litellm.types.utils import Usage as LitellmUsage

    cache_writes = {
        "ephemeral_5m_input_tokens": tokens.written,
        "ephemeral_1h_input_tokens": tokens.written_hour,
    }
    litellm_usage = LitellmUsage(
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        prompt_tokens_details={"cache_creation_token_details": cache_writes},
        completion_tokens_details={"reasoning_tokens": tokens.reasoning},
        cache_creation_input_tokens=tokens.written + tokens.written_hour,
        cache_read_input_tokens=tokens.cached,
        cost=tokens.cost,
    )
    return usage, cost_of(name, price, usage, litellm_usage, tokens.tier)


def cheapest_price(name: str) -> Price | None:
    """Return the plain prices of ``name`` in litellm's map; None without any."""
    entry = price_entry(name)
    if not entry:
        return None
    lowest, *higher = price_tiers(entry)
    if "input_cost_per_token" not in lowest:
        lowest = higher[0]
    into = lowest.get("input_cost_per_token") or 0
    out = lowest.get("output_cost_per_token") or 0
    return Price(Decimal(repr(into)), Decimal(repr(out)))


def _reported_cost(raw: object) -> Decimal | None:
    """Return the dollars that the provider itself states, as OpenRouter does."""
    cost = getattr(raw, "cost", None)
    if not isinstance(cost, (int, float)) or isinstance(cost, bool):
        return None
    if not 0 <= cost < math.inf:
        return None
    return dollars(Decimal(repr(cost)))


def _highest(entry: dict[str, Any], beginnings: tuple[str, ...]) -> Decimal:
    prices = [Decimal()]
    for key, value in entry.items():
        of_other_service = any(word in key for word in _OTHER_SERVICE)
        if not key.startswith(beginnings) or of_other_service:
            continue
        if isinstance(value, (int, float)):
            prices.append(Decimal(repr(value)))
    return max(prices)
