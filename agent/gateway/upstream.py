"""Where the provider of a model is called, with which key, and what a call costs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agent.gateway.dialects import OF_ONE_DIALECT
from agent.gateway.dialects.base import Dialect, Tokens
from core.address import basic_auth
from core.errors import UserError
from llm.chat import Usage
from llm.prices import Price, cost_of
from llm.registry import provider_of, the_litellm

_ADDRESSES = {
    "anthropic": (("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"), "https://api.anthropic.com"),
    "openai": (("OPENAI_BASE_URL", "OPENAI_API_BASE"), "https://api.openai.com"),
    "gemini": (("GEMINI_API_BASE",), "https://generativelanguage.googleapis.com"),
}
_OTHER_KEYS = {"gemini": ("GOOGLE_API_KEY",)}
_KEY_HEADERS = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}
_VERSIONS = ("/v1beta", "/v1")
# What an agent says of the protocol; all else, such as its own key, stays here.
SENT_HEADERS = frozenset({"accept", "anthropic-beta", "anthropic-version", "openai-beta"})
RETURNED_HEADERS = frozenset({"content-type", "request-id", "x-request-id"})
SENT_QUERY = frozenset({"alt", "beta"})


@dataclass(frozen=True)
class Upstream:
    """The provider of one model.

    Attributes:
        root: the address before the version in the path.
        versions: whether the path begins with the version.
    """

    root: str
    headers: Mapping[str, str]
    versions: bool = True

    def without_keys(self, words: str) -> str:
        """Return ``words`` without the keys: providers quote them in errors."""
        for value in self.headers.values():
            for secret in (value, value.removeprefix("Bearer ").removeprefix("Basic ")):
                words = words.replace(secret, "[redacted]")
        return words

    def url(self, path: str) -> str:
        if self.versions:
            return self.root + (path if path.startswith("/v1") else f"/v1{path}")
        return self.root + path.removeprefix("/v1")


def understands(name: str, api_base: str | None, dialect: Dialect) -> bool:
    """Return whether the provider of ``name`` speaks ``dialect``; an own server has to."""
    if api_base:
        return True
    provider = provider_of(name, None)[1]
    return provider in dialect.providers if dialect.providers else provider not in OF_ONE_DIALECT


def check_dialects(
    name: str, dialects: Sequence[Dialect], option: str, translate: Collection[str]
) -> None:
    """Check that the provider of ``name`` speaks one of ``dialects``, or is in ``translate``.

    Raises:
        UserError: it does not; naming ``option``.
    """
    provider = provider_of(name, None)[1]
    spoken = [dialect for dialect in dialects if understands(name, None, dialect)]
    for dialect in spoken:
        upstream_of(name, None, dialect)
    if spoken or provider in translate:
        return
    known = " and ".join(dialect.name for dialect in dialects)
    raise UserError(
        f"{option} speaks the protocol {known}, and {name} is served by {provider}; choose another "
        f"model or another agent, or give --agent-translate {provider}"
    )


def upstream_of(name: str, api_base: str | None, dialect: Dialect) -> Upstream:
    """Return where calls of ``name`` in ``dialect`` go.

    ``api_base`` is a server that speaks the dialect itself; it gets the key of the dialect's own
    provider.
    """
    provider = dialect.api if api_base else provider_of(name, None)[1]
    keys = (f"{provider.upper()}_API_KEY", *_OTHER_KEYS.get(provider, ()))
    key = next((os.environ[name] for name in keys if os.environ.get(name)), "")
    address, versions = api_base, True
    if not api_base and provider in _ADDRESSES:
        names, usual = _ADDRESSES[provider]
        address = next((os.environ[n] for n in names if os.environ.get(n)), usual)
    elif not api_base:
        _, _, found, address = the_litellm().get_llm_provider(model=name)
        key, versions = key or str(found or ""), False
        if not address:
            raise UserError(
                f"{name}: the address of {provider} is unknown; give it with --api-base"
            )
    address, headers = basic_auth(str(address))
    root = address.rstrip("/")
    for version in _VERSIONS if versions else ():
        root = root.removesuffix(version)
    header = _KEY_HEADERS.get(provider, "authorization")
    if key and not headers:
        headers = {header: f"Bearer {key}" if header == "authorization" else key}
    return Upstream(root, headers, versions)


def presented_name(name: str, api_base: str | None) -> str:
    """Return the name by which an agent asks for ``name``: without litellm's provider."""
    try:
        return provider_of(name, api_base)[0]
    except Exception:  # litellm's, for a replay of a name that only an own server knew
        return name


def proxy_of(url: str) -> str | None:
    """Return the proxy of the environment for ``url``; aiohttp would take logins of .netrc too."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


def cost_of_tokens(name: str, price: Price | None, tokens: Tokens) -> tuple[Usage, Decimal | None]:
    """Return the usage of a call, and its dollars by litellm's prices; None without a price."""
    the_litellm()
    from litellm.types.utils import (
        CacheCreationTokenDetails,
        CompletionTokensDetailsWrapper,
        PromptTokensDetailsWrapper,
    )
    from litellm.types.utils import Usage as Counted

    created = tokens.written + tokens.written_hour
    counted = Counted(
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        total_tokens=tokens.prompt + tokens.completion,
        prompt_tokens_details=PromptTokensDetailsWrapper(
            cached_tokens=tokens.cached,
            cache_creation_tokens=created,
            cache_creation_token_details=CacheCreationTokenDetails(
                ephemeral_5m_input_tokens=tokens.written,
                ephemeral_1h_input_tokens=tokens.written_hour,
            )
            if created
            else None,
        ),
        completion_tokens_details=CompletionTokensDetailsWrapper(reasoning_tokens=tokens.reasoning),
        cache_creation_input_tokens=created,
        cache_read_input_tokens=tokens.cached,
    )
    usage = Usage(tokens.prompt, tokens.completion, tokens.cached)
    if tokens.searches:
        return usage, None
    return usage, cost_of(name, price, usage, counted)
