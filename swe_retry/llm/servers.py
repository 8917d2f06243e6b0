"""What a model server of one's own states of itself: its kind, its models, windows and slots."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from swe_retry.core.address import basic_auth, recorded_address, without_logins
from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonObject, count_at, object_at, objects, text_at
from swe_retry.core.plaintext import abbreviate, say_aside, some
from swe_retry.core.untrusted import MIB, DamagedError, object_of
from swe_retry.llm.wire import run_in_loop

if TYPE_CHECKING:
    import httpx

_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})$", re.MULTILINE)
_OLLAMA_WINDOW = 32_768
_LATEST = ":latest"
_LLAMA_CPP = "llama.cpp"
_LARGEST_COUNT = 2**40
_MAX_WORDS = 200
_MAX_NAMES = 20
# Seconds for one question, and between two while the server loads its model.
_PATIENCE = 10.0
_PAUSE = 0.5
_NOT_YET = 503


@dataclass(frozen=True)
class ServedModel:
    """A model as its server states it.

    Attributes:
        kind: llama.cpp, Ollama, vLLM or LM Studio; empty for another, which may be a proxy.
        window: tokens of a request and its reply, in each of the slots; None if unknown.
        slots: requests that are worked on at once; None if unknown.
        is_free: no call can be billed: the model is a file of a server in a private network.
        problem: why nothing is stated of the model; with a kind, the server does not have it.
    """

    address: str = ""
    kind: str = ""
    window: int | None = None
    slots: int | None = None
    is_free: bool = False
    problem: str = ""

    def check(self) -> None:
        """Refuse a model that the server does not have."""
        if self.kind and self.problem:
            raise UserError(self.problem)

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        price = ", local: free" if self.is_free else ""
        return (
            f"{self.kind or 'a server'} at {self.address}: window of a slot: "
            f"{self.window or 'unknown'}, slots: {self.slots or 'unknown'}{price}"
        )


def ollama_address() -> str:
    """Return the address at which litellm calls Ollama in its own protocol."""
    return os.environ.get("OLLAMA_API_BASE") or "http://localhost:11434"


class _LoadingError(Exception):
    """The server is not ready."""


def ask_server(
    address: str, names: Collection[str], *, native: bool = False, patience: float = 0.0
) -> dict[str, ServedModel]:
    """Return what the server at ``address`` states of models, by its ``names`` for them.

    Args:
        native: they will be called in Ollama's own protocol.
        patience: seconds to wait for a server that answers that it is loading.
    """
    import httpx

    where = recorded_address(address) or ""
    address, headers = basic_auth(address)
    key = os.environ.get("OPENAI_API_KEY")
    if key and not (headers or native):
        headers = {"Authorization": f"Bearer {key}"}

    parts = urlsplit(address)
    root = parts.path.rstrip("/").removesuffix("/v1")

    @cache
    def ask(path: str, model: str = "") -> JsonObject:
        # Certificates take longer to load than most answers.
        verify = parts.scheme == "https"
        client = httpx.AsyncClient(headers=headers, timeout=_PATIENCE, verify=verify)
        url = parts._replace(path=root + path).geturl()
        # Not in this thread, whose loop runs where a notebook calls us.
        return run_in_loop(_fetch(client, url, model), _PATIENCE)

    deadline = time.monotonic() + patience
    say = cache(say_aside)
    while True:
        models = {}
        problem = ""
        try:
            ask.cache_clear()
            models = read_models(ask, names, native=native)
        except Exception as error:  # of addresses, sockets, TLS and HTTP
            words = without_logins(str(error))
            if not words or isinstance(error, TimeoutError):
                words = f"no answer in {_PATIENCE:.0f} s"
            problem = f"{where} states nothing: {abbreviate(words, _MAX_WORDS)}"
            if isinstance(error, _LoadingError) and time.monotonic() < deadline:
                say(f"{problem}: waiting")
                time.sleep(_PAUSE)
                continue
        break
    kind = max((model.kind for model in models.values()), default="")
    listed = some([abbreviate(name, _MAX_WORDS) for name in models], _MAX_NAMES)
    is_local = _is_local(address)
    stated = {}
    for name in names:
        model = models.get(name) or models.get(name.removesuffix(_LATEST))
        if kind:
            problem = f"{kind} at {where} has no {name!r}; the server has: {listed}"
        stated[name] = ServedModel(where, kind, problem=problem)
        if model:
            is_free = model.is_free and is_local
            stated[name] = replace(model, address=where, is_free=is_free)
    return stated


async def _fetch(client: httpx.AsyncClient, url: str, model: str) -> JsonObject:
    """Return an answer, which ends after a MiB; it is empty if it is no JSON object."""
    method = "POST" if model else "GET"
    body = {"model": model} if model else None
    data = bytearray()
    async with client, client.stream(method, url, json=body) as response:
        async for part in response.aiter_raw():
            data += part
            if len(data) > MIB:
                break
    answer: JsonObject = {}
    with suppress(DamagedError):
        answer = object_of(bytes(data))
    if response.status_code == _NOT_YET:
        raise _LoadingError(text_at(answer, "error", "message") or "it is loading")
    return answer


def _is_local(address: str) -> bool:
    """Return whether an address is one of this machine or of a private network."""
    try:
        addresses = socket.getaddrinfo(urlsplit(address).hostname, None)
    except (OSError, UnicodeError):
        return False
    return not any(ip_address(entry[4][0]).is_global for entry in addresses)


def read_models(
    ask: Callable[..., JsonObject], names: Collection[str], *, native: bool = False
) -> dict[str, ServedModel]:
    """Return the models that a server lists; of Ollama's, windows are asked for ``names`` alone.

    Its kind counts if a question that only this kind knows is answered, too. ``ask`` takes a path,
    and for Ollama a model; its answer is empty where there is none.
    """
    models = {}
    for entry in objects(ask("/v1/models"), "data"):
        name = text_at(entry, "id")
        model = _read_entry(entry, ask)
        models[name] = model
        if model.kind == _LLAMA_CPP:
            # It answers any name, and its own is the path of its file where it is given none.
            models[Path(name).name] = model
    if any(model.kind for model in models.values()):
        return models
    # Before Ollama: it answers every question, with an error and the status 200.
    for entry in objects(ask("/api/v0/models"), "data"):
        window = _count(entry, "loaded_context_length")
        is_file = bool(text_at(entry, "compatibility_type"))
        models[text_at(entry, "id")] = ServedModel(
            "", "LM Studio", window, None, is_file
        )
    if not text_at(ask("/api/version"), "version"):
        return models
    models = {}
    for entry in objects(ask("/api/tags"), "models"):
        name = text_at(entry, "name").removesuffix(_LATEST)
        if name in names or f"{name}{_LATEST}" in names:
            entry |= ask("/api/show", name)
        is_file = not (entry.get("remote_host") or entry.get("remote_model"))
        window = _ollama_window(name, entry, ask, native=native)
        models[name] = ServedModel("", "Ollama", window, None, is_file)
    return models


def _read_entry(entry: JsonObject, ask: Callable[..., JsonObject]) -> ServedModel:
    """Return the model of an entry in the list of the OpenAI protocol."""
    owner = entry.get("owned_by")
    window = _count(entry, "max_model_len")
    if owner == "vllm" and text_at(ask("/version"), "version"):
        return ServedModel("", "vLLM", window, None, is_free=True)
    slots = None
    if owner == "llamacpp":
        slots = _count(ask("/props"), "total_slots")
    if slots:
        # It has divided its window by the slots.
        window = _count(entry, "meta", "n_ctx")
        is_file = count_at(entry, "meta", "size") > 0
        return ServedModel("", _LLAMA_CPP, window, slots, is_file)
    return ServedModel(window=window)


def _ollama_window(
    name: str, facts: JsonObject, ask: Callable[..., JsonObject], *, native: bool
) -> int | None:
    """Return the window of a model: as it is loaded, as its file says, or the longest of all.

    Its own protocol (``native``) takes a window with each request.
    """
    for entry in objects(ask("/api/ps"), "models"):
        if text_at(entry, "name").removesuffix(_LATEST) == name and not native:
            return _count(entry, "context_length")
    parameter = _NUM_CTX.search(text_at(facts, "parameters"))
    if parameter:
        return int(parameter[1]) or None
    windows = [_OLLAMA_WINDOW] if native else []
    for key in object_at(facts, "model_info"):
        if key.endswith(".context_length"):
            windows.append(count_at(facts, "model_info", key))
    return min(filter(None, windows), default=None)


def _count(value: object, *path: str) -> int | None:
    """Return a count; None where there is none, or one that cannot be."""
    count = count_at(value, *path)
    if 0 < count <= _LARGEST_COUNT:
        return count
    return None
