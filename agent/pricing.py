"""What calls cost, and the most that one can cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.chat import Usage
from agent.registry import price_entry

# Keys of litellm's map that say more than the plain price: of long prompts, and of writing a
# cache, which is dearer than reading the same tokens fresh.
_INPUT = ("input_cost_per_token", "cache_creation_input_token_cost")
_OUTPUT = ("output_cost_per_token", "output_cost_per_reasoning_token")
# Far below any price: what a float gets wrong in a product is cut off.
_DIGITS = 12
_OTHER_SERVICE = ("batch", "flex", "priority")


@dataclass(frozen=True)
class Price:
    """Dollars for a token that goes in and for one that comes out."""

    input: float
    output: float

    def cost(self, usage: Usage) -> float:
        """Return the dollars of a call; nothing is known of a discount for cached tokens."""
        dollars = usage.prompt_tokens * self.input + usage.completion_tokens * self.output
        return round(dollars, _DIGITS)

    def bound(self, prompt_tokens: int, output_tokens: int) -> float:
        """Return the most dollars that a call with these limits can cost."""
        return prompt_tokens * self.input + output_tokens * self.output


def dearest_price(name: str) -> Price | None:
    """Return the highest prices that litellm's map has for ``name``; None when it has none."""
    entry = price_entry(name)
    if entry is None:
        return None
    return Price(_highest(entry, _INPUT), _highest(entry, _OUTPUT))


def _highest(entry: dict[str, Any], beginnings: tuple[str, ...]) -> float:
    prices = [
        float(value)
        for key, value in entry.items()
        if key.startswith(beginnings)
        and isinstance(value, (int, float))
        and not any(word in key for word in _OTHER_SERVICE)
    ]
    return max(prices, default=0.0)
