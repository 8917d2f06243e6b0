"""Where the provider of a model is called, with which key, and what a call costs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from swe_retry.core.address import basic_auth
from swe_retry.core.errors import UserError
from swe_retry.llm.dialects import APIS
from swe_retry.llm.dialects.dialect import Dialect
from swe_retry.llm.registry import Endpoint, load_litellm

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
    versions: bool

    def without_keys(self, text: str) -> str:
        """Return ``text`` without the keys: providers quote them in errors."""
        for value in self.headers.values():
            key = value.removeprefix("Bearer ").removeprefix("Basic ")
            text = text.replace(value, "[redacted]")
            text = text.replace(key, "[redacted]")
        return text

    def url(self, path: str) -> str:
        if not self.versions:
            path = path.removeprefix("/v1")
        elif not path.startswith("/v1"):
            path = f"/v1{path}"
        return self.root + path


def check_dialects(name: str, dialects: Sequence[Dialect]) -> None:
    """Check that the provider of ``name`` speaks one of ``dialects`` and has an address."""
    provider = Endpoint(name).provider
    for dialect in dialects:
        is_common = dialect.common and provider not in APIS
        if provider == dialect.api or is_common:
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
    provider = dialect.api if api_base else Endpoint(name).provider
    litellm = load_litellm()
    versions = provider in APIS
    if versions:
        manager = litellm.utils.ProviderConfigManager
        model_info = manager.get_provider_model_info(
            None, litellm.LlmProviders(provider)
        )
        key = model_info.get_api_key()
        address = model_info.get_api_base(api_base)
    else:
        _, _, key, address = litellm.get_llm_provider(model=name)
        key = os.environ.get(f"{provider.upper()}_API_KEY") or key
    if not address:
        raise UserError(
            f"{name}: the address of {provider} is unknown; give it with --api-base"
        )
    address, headers = basic_auth(str(address))
    root = address.rstrip("/")
    if versions:
        for version in _VERSIONS:
            root = root.removesuffix(version)
    if key and not headers:
        if provider in _KEY_HEADERS:
            headers = {_KEY_HEADERS[provider]: key}
        else:
            headers = {"authorization": f"Bearer {key}"}
    return Upstream(root, headers, versions)


def proxy_of(url: str) -> str | None:
    """Return the proxy of the environment for ``url``; aiohttp would take logins of .netrc too."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)
