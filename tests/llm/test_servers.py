"""What model servers say of themselves, in four dialects, and what is believed of it."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from typing import Any

import pytest

import swe_retry.llm.servers
from swe_retry.core.errors import UserError
from swe_retry.llm.servers import ServedModel, ask_server, read_models
from tests.support.modelserver import (
    KINDS,
    LLAMA_CPP,
    LM_STUDIO,
    OLLAMA,
    VLLM,
    ModelServer,
)
from tests.support.servers import Handler, LoopbackServer

NAME = "qwen"


def ask(server: ModelServer, name: str = NAME, **options: Any) -> ServedModel:
    return ask_server(server.url, [name], **options)[name]


@pytest.mark.parametrize("kind", KINDS)
def test_each_dialect_states_its_window_and_its_own_file(kind: str) -> None:
    with ModelServer(kind, window=4096) as server:
        stated = ask(server)
    assert stated.kind == kind
    assert stated.window == 4096
    assert stated.is_free
    stated.check()
    words = "window of a slot: 4096, slots: unknown, local: free"
    if kind == LLAMA_CPP:
        words = words.replace("unknown", "1")
    assert str(stated) == f"{kind} at {server.url}: {words}"


def test_a_window_is_that_of_each_slot() -> None:
    with ModelServer(LLAMA_CPP, window=4096, slots=2) as server:
        stated = ask(server)
    assert (stated.window, stated.slots) == (4096, 2)
    assert "window of a slot: 4096, slots: 2" in str(stated)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_not_listed_is_named_with_those_that_are(kind: str) -> None:
    with ModelServer(kind, name="coder") as server:
        server.other = "other"
        stated = ask(server)
    with pytest.raises(UserError, match=r"the server has: coder\S*, other") as error:
        stated.check()
    assert "\n" not in str(error.value)


def test_a_file_without_an_alias_goes_by_its_name() -> None:
    with ModelServer(LLAMA_CPP, name="/home/me/qwen.gguf") as server:
        assert ask(server, "qwen.gguf").is_free
        assert ask(server, "/home/me/qwen.gguf").is_free
        with pytest.raises(UserError):
            ask(server, "other.gguf").check()


def test_a_proxy_states_a_window_and_is_not_free() -> None:
    with ModelServer("proxy", window=2048) as server:
        stated = ask(server)
    assert stated.kind == ""
    assert stated.window == 2048
    assert not stated.is_free
    with ModelServer("proxy") as server:
        ask(server, "not listed").check()


@pytest.mark.parametrize(
    ("owner", "path"), [("llamacpp", "/props"), ("vllm", "/version")]
)
def test_a_proxy_that_repeats_a_servers_list_is_not_taken_for_it(
    owner: str, path: str
) -> None:
    entry = {"id": NAME, "owned_by": owner, "root": NAME, "meta": {"size": 1}}
    with ModelServer("proxy") as server:
        server.told["/v1/models"] = {"data": [entry]}
        assert not ask(server).is_free
    assert path in server.questions


@pytest.mark.parametrize("host", ["remote_host", "remote_model"])
def test_a_cloud_model_of_ollama_is_not_free(host: str) -> None:
    with ModelServer(OLLAMA) as server:
        server.cloud = True
        assert not ask(server).is_free
        tag = {"name": f"{NAME}:latest", "digest": "0a8c", host: "https://ollama.com"}
        server.told["/api/tags"] = {"models": [tag]}
        server.told["/api/show"] = {}
        assert not ask(server).is_free
        stated = ask(server, "qwen:cloud")
    # Ollama serves it without a word, though it was never pulled.
    with pytest.raises(UserError, match="the server has"):
        stated.check()


def test_a_public_address_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 0))
    with ModelServer(VLLM) as server:
        assert ask(server).is_free
        monkeypatch.setattr(swe_retry.llm.servers, "_is_local", lambda _: False)
        assert not ask(server).is_free
    monkeypatch.undo()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [entry])
    assert not swe_retry.llm.servers._is_local("http://models.example/v1")


@pytest.mark.parametrize(
    ("loaded", "parameter", "native", "window"),
    [
        (None, None, False, 131072),
        (4096, None, False, 4096),
        (4096, 8192, False, 4096),
        (None, 8192, False, 8192),
        # It gets the window with each request: what is loaded does not matter.
        (4096, None, True, 32768),
        (4096, 65536, True, 65536),
    ],
)
def test_the_window_of_ollama(
    loaded: int | None, parameter: int | None, native: bool, window: int
) -> None:
    with ModelServer(OLLAMA, window=parameter) as server:
        shown = {"model_info": {"qwen2.context_length": 131072}}
        if parameter:
            shown["parameters"] = f"stop x\nnum_ctx    {parameter}"  # type: ignore[assignment]
        server.told["/api/show"] = shown
        if loaded:
            entry = {"name": f"{NAME}:latest", "context_length": loaded}
            server.told["/api/ps"] = {"models": [entry]}
        address = server.address if native else server.url
        stated = ask_server(address, [NAME], native=native)
    assert stated[NAME].window == window


def test_an_own_window_of_ollama_is_not_above_that_of_the_file() -> None:
    with ModelServer(OLLAMA) as server:
        server.told["/api/show"] = {"model_info": {"gemma.context_length": 8192}}
        stated = ask_server(server.address, [NAME], native=True)
        tagged = ask(server, f"{NAME}:latest")
    assert stated[NAME].window == 8192
    assert tagged.window == 8192


@pytest.mark.parametrize("kind", [LM_STUDIO, OLLAMA])
def test_a_model_that_is_not_loaded_has_no_window_that_it_does_not_have(
    kind: str,
) -> None:
    with ModelServer(kind, window=None) as server:
        if kind == OLLAMA:
            server.told["/api/show"] = {}
        stated = ask(server)
    assert stated.window is None
    assert stated.is_free


def test_a_server_that_loads_is_waited_for_in_its_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(swe_retry.llm.servers, "_PAUSE", 0.01)
    with ModelServer() as server:
        server.loading = 3
        assert ask(server, patience=60).kind == LLAMA_CPP
        (line,) = capsys.readouterr().err.splitlines()
        assert "Loading model: waiting" in line
        server.loading = 3
        assert "Loading model" in str(ask(server))


LIES: list[Any] = [
    [],
    {"data": 5},
    {"data": [5, {}, {"id": 5}, {"id": NAME, "owned_by": ["llamacpp"], "meta": []}]},
    {
        "data": [
            {"id": NAME, "owned_by": "llamacpp", "aliases": 5, "meta": {"n_ctx": -1}}
        ]
    },
    {"data": [{"id": NAME, "owned_by": "llamacpp", "meta": {"n_ctx": 10**30}}]},
    {"data": [{"id": NAME, "owned_by": "vllm", "max_model_len": "8192"}]},
    {"data": [{"id": NAME, "owned_by": "vllm", "max_model_len": True}]},
    {"data": [{"id": NAME, "owned_by": "vllm", "max_model_len": 1.5, "parent": NAME}]},
]


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_of_other_types_states_nothing(lie: Any) -> None:
    told = {
        "/v1/models": lie if isinstance(lie, dict) else {},
        "/props": {"total_slots": 1},
        "/version": {"version": "0"},
        "/api/ps": {"models": [{"name": []}]},
        "/api/tags": {"models": "all"},
        "/api/v0/models": {"data": {"id": 1}},
    }
    models = read_models(lambda path, model="": told.get(path, {}), [NAME])
    assert models.get(NAME, ServedModel()).window is None
    with ModelServer("proxy") as server:
        server.told = {"/v1/models": lie}
        assert ask(server).window is None


def test_names_of_a_server_are_shown_in_one_line_without_escapes() -> None:
    entry = {"id": "a\x1b[31m\nb" * 500, "owned_by": "vllm", "root": "x"}
    with ModelServer(VLLM) as server:
        server.told["/v1/models"] = {"data": [entry] * 2}
        stated = ask(server)
    with pytest.raises(UserError) as error:
        stated.check()
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000


class _Endless(Handler):
    """Sends an answer that does not end, or is nested too deep, or nothing."""

    def respond(self) -> None:
        server = self.stub
        if server.way == "silent":
            server.closing.wait(30)
            return
        self.send_head(200, {"Content-Type": "application/json"})
        if server.way == "deep":
            self.wfile.write(b'{"data": ' + b"[" * 200_000)
            return
        try:
            while not server.closing.is_set():
                self.wfile.write(b'{"data": [' + b" " * 2**16)
        except OSError:
            server.left = True


class EndlessServer(LoopbackServer):
    handler = _Endless

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.left = False
        self.closing = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        super().__exit__()


@pytest.mark.parametrize("way", ["silent", "deep", "endless"])
def test_a_hostile_answer_ends(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "silent":
        monkeypatch.setattr(swe_retry.llm.servers, "_PATIENCE", 0.2)
    with EndlessServer(way) as server:
        (stated,) = ask_server(f"{server.url}/v1", [NAME]).values()
    assert (stated.kind, stated.window, stated.is_free) == ("", None, False)
    if way == "silent":
        assert "no answer in" in str(stated)


def test_a_closed_port_is_said_and_passwords_are_not() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        stated = ask_server(f"http://me:secret-word@127.0.0.1:{port}/v1", [NAME])
    assert "states nothing: " in str(stated[NAME])
    assert "secret-word" not in repr(stated)
