"""Where the provider of a model is called, with which key, and what a call costs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agent.gateway.dialects import APIS
from agent.gateway.dialects.base import Dialect, Tokens
from core.address import basic_auth
from core.errors import UserError
from llm.chat import Usage
from llm.prices import Price, cost_of
from llm.registry import load_litellm, provider_of

_KEY_HEADERS = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}
_VERSIONS = ("/v1beta", "/v1")


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


def check_dialects(name: str, dialects: Sequence[Dialect]) -> None:
    """Check that the provider of ``name`` speaks one of ``dialects`` and has an address."""
    provider = provider_of(name, None)[1]
    for dialect in dialects:
        if provider == dialect.api or (dialect.common and provider not in APIS):
            upstream_of(name, None, dialect)
            return
    protocols = " and ".join(dialect.name for dialect in dialects)
    raise UserError(
        f"--agent speaks the protocol {protocols}, and {name} is served by {provider}; choose "
        "another model or another agent"
    )


def upstream_of(name: str, api_base: str | None, dialect: Dialect) -> Upstream:
    """Return where calls of ``name`` in ``dialect`` go.

    ``api_base`` is a server that speaks the dialect itself; it gets the key of the dialect's own
    provider.
    """
    provider = dialect.api if api_base else provider_of(name, None)[1]
    litellm, versions = load_litellm(), provider in APIS
    if versions:
        known = litellm.utils.ProviderConfigManager.get_provider_model_info(
            None, litellm.LlmProviders(provider)
        )
        key, address = known.get_api_key(), known.get_api_base(api_base)
    else:
        _, _, key, address = litellm.get_llm_provider(model=name)
        key = os.environ.get(f"{provider.upper()}_API_KEY") or key
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


def proxy_of(url: str) -> str | None:
    """Return the proxy of the environment for ``url``; aiohttp would take logins of .netrc too."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


def cost_of_tokens(
    name: str, price: Price | None, tokens: Tokens
) -> tuple[Usage, Decimal | None]:
    """Return the usage of a call, and its dollars by litellm's prices; None without a price."""
    load_litellm()
    from litellm.types.utils import Usage as Counted

    written = {
        "ephemeral_5m_input_tokens": tokens.written,
        "ephemeral_1h_input_tokens": tokens.written_hour,
    }
    counted = Counted(
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        prompt_tokens_details={
            "cache_creation_token_details": written if any(written.values()) else None
        },
        completion_tokens_details={"reasoning_tokens": tokens.reasoning},
        cache_creation_input_tokens=sum(written.values()),
        cache_read_input_tokens=tokens.cached,
    )
    usage = Usage(tokens.prompt, tokens.completion, tokens.cached)
    return usage, None if tokens.searches else cost_of(name, price, usage, counted)
