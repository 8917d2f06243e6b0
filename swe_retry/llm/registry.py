"""Look models up in litellm: names, providers, keys and prices.

litellm is imported on first use: it takes seconds, and it reads settings from the environment.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swe_retry.core.address import basic_auth
from swe_retry.core.errors import UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import did_you_mean
from swe_retry.llm.chat import Reminder
from swe_retry.llm.model_settings import ModelSettings
from swe_retry.llm.wire import watch_clients

# Dates have more digits and are not versions: the name without a date means the same model.
_VERSION = r"(\d{1,2})(?:[-.](\d{1,2}))?"
_PRICE_MAP = "model_prices_and_context_window_backup.json"
_NO_KEY = "no-key-needed"
# For names that the map lacks: newer ones than those that wrote less.
_CLAUDE_REPLY = 32_000
_OLLAMA_WINDOW = 32_768
_TEXT = "text-completion-openai"
"""litellm's name for a server that speaks ``/v1/completions``."""
_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    # Any other mode loads a file .env from the folders above litellm's.
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "CRITICAL",
}


@cache
def load_litellm() -> Any:  # noqa: ANN401 - litellm is untyped
    """Import litellm, without its messages and with its own price map."""
    os.environ.update(_SETTINGS)
    # A million permanent objects: each collection would visit them, a fifth of the import's time.
    gc.disable()
    try:
        import litellm

        litellm.suppress_debug_info = True
        # It would send the first four stop texts and drop the others.
        litellm.disable_stop_sequence_limit = True
        from litellm.litellm_core_utils.litellm_logging import Logging
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

        # It would send a request again after a lost connection.
        AsyncHTTPHandler.single_connection_post_request = _raise_again
        # It would log and price replies: a name of 5 MB would block its loop.
        Logging.should_run_logging = lambda *_, **__: False
        Logging.response_cost_calculator = lambda *_, **__: None
        watch_clients()
        gc.freeze()
    finally:
        gc.enable()
    return litellm


async def _raise_again(self: object, *args: object, **kwargs: object) -> None:
    raise


def resolve_model(
    name: str,
    aliases: Mapping[str, str],
    *,
    any_name: bool = False,
) -> str:
    """Return litellm's name for an alias or a name.

    An alias with a ``*`` means the newest such name in the price map of the installed litellm; the
    run records the result.

    Raises:
        UserError: litellm knows no provider for the name (unless ``any_name``, for a server of the
            user), or no version of an alias.
    """
    name = aliases.get(name, name)
    if "*" in name:
        return _newest(name)
    if any_name:
        return name
    litellm = load_litellm()
    try:
        litellm.get_llm_provider(model=name)
    except litellm.exceptions.BadRequestError as error:
        hint = did_you_mean(name, [*aliases, *litellm.model_cost])
        raise UserError(
            f"unknown model {name!r}: give an alias ({', '.join(aliases)}), a litellm name such "
            f"as openai/NAME, or --api-base for a server of your own{hint}"
        ) from error
    return name


def _newest(pattern: str) -> str:
    provider, _, family = pattern.rpartition("/")
    version_of_family = re.compile(re.escape(family).replace(r"\*", _VERSION, 1))
    versions = []
    for key, value in load_litellm().model_cost.items():
        match = version_of_family.fullmatch(key)
        if match and value.get("litellm_provider") == provider:
            version = (int(match[1]), int(match[2] or 0))
            versions.append((version, key))
    if not versions:
        raise UserError(
            f"litellm knows no version of {pattern!r}; write the alias's name out"
        )
    return f"{provider}/{max(versions)[1]}"


@cache
def price_map_version() -> str:
    """Return the SHA-256 of litellm's price map, from which costs are computed."""
    # The package is located but not imported, which takes seconds: a replay needs none of it.
    spec = find_spec("litellm")
    folder = Path((spec.origin if spec else None) or "").parent
    return sha256_of((folder / _PRICE_MAP).read_bytes())


def map_entry(name: str) -> dict[str, Any]:
    """Return the entry of litellm's map for exactly ``name``, empty without one.

    ``litellm.get_model_info`` is not used, because it calls the network for some providers.
    """
    entries = load_litellm().model_cost
    without_provider = name.partition("/")[2]
    return entries.get(name) or entries.get(without_provider) or {}


def ending_models(names: Iterable[str]) -> dict[str, str]:
    """Return the models that their providers end, with the days, as litellm's map has them."""
    days = {}
    for name in names:
        day = map_entry(name).get("deprecation_date")
        if day:
            days[name] = str(day)
    return days


def price_entry(name: str) -> dict[str, Any] | None:
    """Return the price map's exact entry for ``name``, None when it has no price."""
    entry = map_entry(name)
    for prices in price_tiers(entry):
        if "input_cost_per_token" in prices:
            return entry
    return None


def price_tiers(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the prices of ``entry``: those for any prompt, and those by the prompt's length."""
    tiers = entry.get("tiered_pricing") or []
    return [entry, *tiers]


@dataclass(frozen=True)
class Endpoint:
    """A model by litellm's name: of its provider, or of the user's server at ``api_base``."""

    name: str
    api_base: str | None = None

    @property
    def provider(self) -> str:
        """litellm's name of the provider."""
        return _provider_and_name(self)[0]

    @property
    def bare_name(self) -> str:
        """The name without its provider."""
        return _provider_and_name(self)[1]

    @property
    def is_claude(self) -> bool:
        return "claude" in self.name.lower() and not self.api_base

    @property
    def is_ollama(self) -> bool:
        is_named = self.name.startswith(("ollama/", "ollama_chat/"))
        return is_named and not self.api_base

    @property
    def key_variable(self) -> str:
        """The variable that usually has the key."""
        return f"{self.provider.upper()}_API_KEY"

    def missing_key(self) -> str | None:
        """Return the unset environment variable that the model needs, if any."""
        if self.api_base:
            return None
        litellm = load_litellm()
        missing = litellm.validate_environment(model=self.name).get("missing_keys")
        keys = list(map(str, missing or []))
        own = self.key_variable
        if os.environ.get(own) == "":
            keys.append(own)
        # Other variables (addresses, regions) have defaults.
        keys = [key for key in keys if key.endswith("_API_KEY")]
        return next(iter(keys), None)

    def complete_settings(self, settings: ModelSettings) -> ModelSettings:
        """Return ``settings``, with missing values from litellm's data on the model.

        None means unknown; whether the model takes a temperature then depends on its value.
        """
        entry = map_entry(self.name)
        context = _tokens(entry.get("max_input_tokens") or entry.get("max_tokens"))
        if context is None and self.is_ollama:
            context = _OLLAMA_WINDOW
        max_output = _tokens(entry.get("max_output_tokens"))
        if max_output is None and self.is_claude:
            max_output = _CLAUDE_REPLY
        temperature = None
        if not entry.get("supports_sampling_params", True):
            temperature = False
        prefill = entry.get("supports_assistant_prefill")
        # Thinking and prefill exclude each other.
        if settings.reasoning_effort:
            prefill = False
        defaults = ModelSettings(
            reminder=Reminder.SYSTEM,
            temperature=temperature,
            cache_markers=self.is_claude,  # only marked messages are cached
            prefill=bool(prefill),
            tools=entry.get("supports_function_calling"),
            images=entry.get("supports_vision"),
            context=context,
            max_output=max_output,
        )
        return settings.or_else(defaults)

    def accepts_temperature(self, settings: ModelSettings, temperature: float) -> bool:
        """Return whether the model with completed ``settings`` takes ``temperature``."""
        if settings.temperature is not None:
            return settings.temperature
        options: dict[str, Any] = {"temperature": temperature}
        if settings.reasoning_effort:
            if self.provider == "anthropic":
                return False  # refuses a temperature with thinking
            options["reasoning_effort"] = settings.reasoning_effort
        return self.accepts(options)

    def accepts(self, options: Mapping[str, Any]) -> bool:
        """Return whether litellm sends ``options`` to the model; it sends any reasoning effort."""
        litellm = load_litellm()
        from litellm.utils import get_optional_params

        allowed = [name for name in options if name == "reasoning_effort"]
        try:
            get_optional_params(
                model=self.bare_name,
                custom_llm_provider=self.provider,
                allowed_openai_params=allowed,
                **options,
            )
        except litellm.UnsupportedParamsError:
            return False
        return True

    @cached_property
    def reports_usage(self) -> bool:
        """Whether the provider takes the option that asks a stream for its usage."""
        litellm = load_litellm()
        supported = litellm.get_supported_openai_params(self.bare_name, self.provider)
        return "stream_options" in (supported or ())

    def arguments(self, seconds: float, *, text: bool) -> dict[str, Any]:
        """Return what litellm is told of model, address and key.

        Raises:
            UserError: litellm would turn the text into a conversation for this provider.
        """
        if text and self.provider not in ("openai", _TEXT):
            raise UserError(
                f"{self.name}: {self.provider} has no plain-text completions; "
                "give --api-base of a server with /v1/completions"
            )
        key = os.environ.get("OPENAI_API_KEY") or _NO_KEY
        name = self.name
        if text:
            name = self.bare_name
        elif self.is_ollama:
            # litellm would send "ollama/" to /api/generate, as one text without roles.
            name = f"ollama_chat/{self.bare_name}"
        arguments: dict[str, Any] = {"model": name}
        if self.api_base:
            arguments["api_base"], headers = basic_auth(self.api_base)
            if headers:
                arguments["extra_headers"] = headers
            arguments |= {"custom_llm_provider": "openai", "api_key": key}
        if text:
            arguments["custom_llm_provider"] = _TEXT
            arguments["client"] = _text_client(arguments.get("api_base"), key, seconds)
        return arguments


@cache
def _provider_and_name(endpoint: Endpoint) -> tuple[str, str]:
    if endpoint.api_base:
        return "openai", endpoint.name.removeprefix("openai/")
    name, provider, *_ = load_litellm().get_llm_provider(model=endpoint.name)
    return str(provider), str(name)


def _text_client(api_base: str | None, key: str, seconds: float) -> Any:  # noqa: ANN401
    """Return litellm's client for ``/v1/completions``, the same each time: it keeps connections.

    Without one, litellm opens a client for every text completion and never closes it.
    """
    load_litellm()
    from litellm.main import openai_chat_completions

    address = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    return openai_chat_completions.get_openai_client(
        is_async=True,
        api_key=key,
        api_base=api_base or address,
        timeout=seconds,
        max_retries=0,
    )


def _tokens(value: object) -> int | None:
    if isinstance(value, int) and value > 0:
        return value
    return None
