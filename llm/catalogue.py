"""Complete the settings of a model from litellm's map."""

from __future__ import annotations

from functools import cache

from llm.chat import Reminder, Traits
from llm.registry import map_entry, provider_of, the_litellm
from llm.settings import ModelSettings


@cache
def filled(settings: ModelSettings, name: str, api_base: str | None = None) -> ModelSettings:
    """Return ``settings``, with missing values from litellm's data on ``name``.

    None means unknown; whether the model takes a temperature then depends on its value.
    """
    entry = map_entry(name)
    known = ModelSettings(
        reminder=Reminder.SYSTEM,
        temperature=None if entry.get("supports_sampling_params", True) else False,
        cache_markers=_wants_markers(name, api_base),
        # Thinking and prefill exclude each other.
        prefill=bool(entry.get("supports_assistant_prefill")) and not settings.reasoning_effort,
        tools=entry.get("supports_function_calling"),
        context=_tokens(entry.get("max_input_tokens") or entry.get("max_tokens")),
        max_output=_tokens(entry.get("max_output_tokens")),
    )
    return settings.or_else(known)


def traits(settings: ModelSettings) -> Traits:
    """Return the traits of a model with the filled ``settings``."""
    reminder = settings.reminder or Reminder.SYSTEM
    return Traits(settings.context, bool(settings.prefill), reminder)


def takes_temperature(
    settings: ModelSettings, name: str, temperature: float, api_base: str | None
) -> bool:
    """Return whether the model with the filled ``settings`` takes ``temperature``."""
    if settings.temperature is not None:
        return settings.temperature
    litellm = the_litellm()
    from litellm.utils import get_optional_params

    bare, provider = provider_of(name, api_base)
    effort = {"reasoning_effort": settings.reasoning_effort} if settings.reasoning_effort else {}
    if effort and provider == "anthropic":
        return False  # refuses a temperature with thinking
    try:
        get_optional_params(
            model=bare,
            custom_llm_provider=provider,
            temperature=temperature,
            allowed_openai_params=list(effort),
            **effort,
        )
    except litellm.UnsupportedParamsError:
        return False
    return True


def _wants_markers(name: str, api_base: str | None) -> bool:
    """Return whether it is a model of Anthropic, which caches only marked messages."""
    return "claude" in name.lower() and not api_base


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
