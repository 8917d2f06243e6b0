"""What must hold before a run calls a model: keys, functions, prices."""

from __future__ import annotations

from agent.catalogue import filled
from agent.errors import UserError
from agent.formats import get_format
from agent.pricing import dearest_price
from agent.registry import missing_key
from bench.config import ModelChoice, RunConfig
from bench.scale import Money


def check_models(config: RunConfig, money: Money) -> None:
    """Check every model of a run that calls them.

    Raises:
        UserError: naming the first thing that is missing, and the mend.
    """
    if not config.calls_models:
        return
    for model in config.models:
        if missing := missing_key(model.name, config.api_base):
            raise UserError(f"{model.given} needs a key: set the environment variable {missing}")
    for model in config.models:
        _check_tools(model, config)
        _check_price(model, config, money)


def _check_tools(model: ModelChoice, config: RunConfig) -> None:
    """Refuse formats of function calls for models that are known to have none."""
    known = filled(model.settings, model.name, config.api_base)
    if getattr(get_format(model.edit_format), "tools", ()) and known.tools is False:
        raise UserError(f"{model.given} cannot call functions; use @diff or @whole")


def _check_price(model: ModelChoice, config: RunConfig, money: Money) -> None:
    """A budget can hold only where the price of a call and its longest reply are known."""
    price = money.prices.get(model.name) or dearest_price(model.name)
    if price is None:
        if money.allow_unpriced:
            return
        raise UserError(
            f"nobody knows the price of {model.given}: give --price {model.given}=IN,OUT (dollars "
            "per million tokens), or --allow-unpriced"
        )
    known = filled(model.settings, model.name, config.api_base)
    limited = config.max_output_tokens or known.max_output
    if money.in_dollars and not limited:
        raise UserError(
            f"nobody knows how long a reply of {model.given} can be, so a budget in dollars cannot "
            "hold: give --max-output-tokens"
        )
