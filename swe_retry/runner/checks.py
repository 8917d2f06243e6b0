"""Checks before a run calls a model: keys, function calls, and prices."""

from __future__ import annotations

import os
from collections.abc import Iterator

from swe_retry.agent.formats import get_format
from swe_retry.agent.named import is_outside
from swe_retry.core.address import has_password, recorded_address
from swe_retry.core.atomic import check_folder
from swe_retry.core.errors import UserError
from swe_retry.core.money import in_words
from swe_retry.llm.gate import OpenGate
from swe_retry.llm.options import ModelChoice
from swe_retry.llm.prices import cheapest_price, cost_bound, dearest_price
from swe_retry.llm.registry import Endpoint, map_entry
from swe_retry.llm.servers import ServedModel
from swe_retry.runner.config import CommonConfig
from swe_retry.runner.envfile import where_keys_go
from swe_retry.runner.modelsource import LiveModels
from swe_retry.runner.settings import Spending

_OPENAI_ADDRESSES = ("OPENAI_API_BASE", "OPENAI_BASE_URL")
_MODES = ("chat", "responses", "completion")
"""Litellm's modes of models that answer conversations."""


def check_folders(config: CommonConfig) -> None:
    """Check that a run can write its folders."""
    for option, folder in (("--out", config.out), ("folders.cache", config.cache)):
        check_folder(option, folder)


def check_models(config: CommonConfig) -> None:
    """Check every model of a run that calls them.

    Raises:
        UserError: naming the first thing that is missing, and the fix.
    """
    address = config.settings.calls.api_base
    lacking = {}
    for model in config.live_models:
        key = Endpoint(model.name, address).missing_key()
        if key:
            lacking[f"{model.text} needs {key}"] = True
    if lacking:
        raise UserError(
            f"API keys are missing: {', '.join(lacking)}; {where_keys_go()}"
        )
    check_known_models(config)


def check_known_models(config: CommonConfig) -> None:
    """Check what is known of every model of a run that calls them, keys aside.

    Raises:
        UserError: naming the first thing that is missing, and the fix.
    """
    address = config.settings.calls.api_base
    money = config.money
    _check_addresses(config)
    for model in config.live_models:
        if model.server:
            model.server.check()
        _check_tools(model, config)
    _check_prices(config)
    for model in config.live_models:
        endpoint = Endpoint(model.name, address)
        settings = endpoint.complete_settings(model.settings_at_server)
        limit = config.settings.models.max_output_tokens
        unlimited = cost_bound(model.name, money.prices.get(model.name), 0, None)
        is_bound = limit or settings.max_output or unlimited is not None
        if money.in_dollars and not is_bound:
            raise UserError(
                f"the longest reply of {model.text} is unknown, so a budget in dollars cannot "
                "hold: give --set models.max_output_tokens=N"
            )
        if endpoint.missing_key():
            continue  # without it no request can be made
        quiet = LiveModels(config, warn_once=lambda _: None)
        quiet.model(model, 0.0, OpenGate()).rehearse()


def key_variables(config: CommonConfig) -> list[str]:
    """Return the variables with the keys that this process has for the models of a run.

    A server of the user may need none, so only a process that has one tells that it does.
    """
    address = config.settings.calls.api_base
    names = {Endpoint(m.name, address).key_variable for m in config.live_models}
    return sorted(name for name in names if os.environ.get(name))


def assumptions(config: CommonConfig) -> Iterator[str]:
    """Yield what the user's server states, and what litellm's map says of names on it."""
    address = config.settings.calls.api_base
    for text, server in {m.text: m.server for m in config.live_models}.items():
        if server and server != ServedModel(server.address):
            yield f"{text}: {server}"
    if not config.settings.scale.workers and config.default_workers == 1:
        yield "one at a time, as the server states no more slots; --workers N changes it"
    if not address:
        return
    for model in config.live_models:
        where = f"{model.text} at {recorded_address(address)}: assumed"
        price = cheapest_price(model.name)
        window = map_entry(model.name).get("max_input_tokens")
        if price and model.name not in config.money.prices:
            into = in_words(price.input * 1_000_000, 2)
            out = in_words(price.output * 1_000_000, 2)
            yield (
                f"{where} {into} in, {out} out per million tokens; "
                f"--price {model.text}=0,0 makes it free"
            )
        if window and not model.settings_at_server.context:
            yield f"{where} a window of {window} tokens; set `context` in the file of models.file"


def _check_addresses(config: CommonConfig) -> None:
    """Refuse an address with a password: every call would fail for the second login header."""
    if config.settings.calls.api_base:
        return
    providers = {Endpoint(model.name).provider for model in config.live_models}
    if "openai" not in providers:
        return
    for name in _OPENAI_ADDRESSES:
        if has_password(os.environ.get(name, "")):
            raise UserError(
                f"{name} holds a password, which is not sent beside an API key: give the address "
                "with --api-base"
            )


def _check_tools(model: ModelChoice, config: CommonConfig) -> None:
    address = config.settings.calls.api_base
    mode = map_entry(model.name).get("mode") or _MODES[0]
    if mode not in _MODES and not address:
        raise UserError(
            f"{model.text} is a model for {mode}, not for text; choose another"
        )
    if is_outside(model.edit_format):
        return
    settings = Endpoint(model.name, address).complete_settings(model.settings)
    if getattr(get_format(model.edit_format), "tools", ()) and settings.tools is False:
        raise UserError(f"{model.text} cannot call functions; use @diff or @whole")


def _check_prices(config: CommonConfig) -> None:
    money = config.money
    unpriced = {m.text: m.server for m in config.live_models if _is_unpriced(m, money)}
    if not unpriced:
        return
    options = " ".join(f"--price {name}=IN,OUT" for name in unpriced)
    problem = (
        f"no price is known for {', '.join(unpriced)}: give {options} (dollars per million "
        "tokens; =0,0 if it is free), or --set budget.allow_unpriced=true"
    )
    for name, server in unpriced.items():
        if server:
            problem += f"; {server}; --price {name}=0,0 makes it free"
    raise UserError(problem)


def _is_unpriced(model: ModelChoice, money: Spending) -> bool:
    price = money.prices.get(model.name) or dearest_price(model.name)
    return price is None and not money.allow_unpriced
