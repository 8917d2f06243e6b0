"""What litellm knows of models: names, providers, keys and prices.

litellm is imported on first use: it takes seconds, and its settings are read from the environment.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent.errors import UserError

ALIASES = {"4o": "gpt-4o", "4o-mini": "gpt-4o-mini", "gpt4o": "gpt-4o"}
_CLAUDE = re.compile(r"^claude-(opus|sonnet|haiku)-(\d+)(?:-(\d{1,2}))?$")
_CLAUDE_FAMILIES = ("opus", "sonnet", "haiku")
_PRICE_MAP = "model_prices_and_context_window_backup.json"
_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    # Any other mode loads whatever .env file lies above litellm's folder.
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "CRITICAL",
}


@cache
def the_litellm() -> Any:  # noqa: ANN401 - litellm has no types worth the name
    """Import litellm, quiet and with the price map that it carries."""
    os.environ.update(_SETTINGS)
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def resolve_model(name: str, *, any_name: bool = False) -> str:
    """Return litellm's name for an alias or a name.

    ``opus``, ``sonnet`` and ``haiku`` are the newest of that name in the price map that the
    installed litellm carries; the run records the result.

    Raises:
        UserError: litellm knows no provider for the name (not with ``any_name``: an own server).
    """
    if name in _CLAUDE_FAMILIES:
        return _newest_claude(name)
    name = ALIASES.get(name, name)
    if any_name:
        return name
    litellm = the_litellm()
    try:
        litellm.get_llm_provider(model=name)
    except litellm.exceptions.BadRequestError as error:
        raise UserError(
            f"unknown model {name!r}: give an alias ({', '.join([*ALIASES, *_CLAUDE_FAMILIES])}), "
            "a litellm name such as openai/NAME, or --api-base for a server of your own"
        ) from error
    return name


def _newest_claude(family: str) -> str:
    found = [
        ((int(match[2]), int(match[3] or 0)), key)
        for key, value in the_litellm().model_cost.items()
        if value.get("litellm_provider") == "anthropic"
        and (match := _CLAUDE.match(key))
        and match[1] == family
    ]
    return f"anthropic/{max(found)[1]}"


def missing_key(name: str, api_base: str | None) -> str | None:
    """Return the environment variable that ``name`` needs and that is not set, if any."""
    if api_base:
        return None
    litellm = the_litellm()
    keys = [str(key) for key in litellm.validate_environment(model=name).get("missing_keys") or []]
    _, provider = provider_of(name, None)
    own = f"{provider.upper()}_API_KEY"
    if os.environ.get(own) == "":
        keys.append(own)
    # Other variables (addresses, regions) have their defaults elsewhere.
    return next((key for key in keys if key.endswith("_API_KEY")), None)


@cache
def price_map_version() -> str:
    """Return which price map costs are computed from: litellm's own, by SHA-256."""
    # The package is found but not imported: that takes seconds, and a replay needs none of it.
    spec = find_spec("litellm")
    folder = Path((spec.origin if spec else None) or "").parent
    return hashlib.sha256((folder / _PRICE_MAP).read_bytes()).hexdigest()


def provider_of(name: str, api_base: str | None) -> tuple[str, str]:
    """Return the name without its provider, and the provider."""
    if api_base:
        return name, "openai"
    bare, provider, *_ = the_litellm().get_llm_provider(model=name)
    return str(bare), str(provider)


def price_entry(name: str) -> dict[str, Any] | None:
    """Return the price map's exact entry for ``name``, None when it has no price."""
    prices = the_litellm().model_cost
    for key in (name, name.partition("/")[2]):
        entry: dict[str, Any] | None = prices.get(key)
        if entry and "input_cost_per_token" in entry:
            return entry
    return None
