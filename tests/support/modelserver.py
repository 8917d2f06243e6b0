"""A stand-in for a model server of one's own, which describes itself in one of four dialects.

What it answers was recorded from llama.cpp's server, or is written in the sources of the others.
"""

from __future__ import annotations

from typing import Any

from swe_retry.core.jsontypes import JsonObject
from tests.support.provider import Answer, Provider

LLAMA_CPP = "llama.cpp"
OLLAMA = "Ollama"
VLLM = "vLLM"
LM_STUDIO = "LM Studio"
KINDS = (LLAMA_CPP, OLLAMA, VLLM, LM_STUDIO)
LOADING = {"message": "Loading model", "type": "unavailable_error", "code": 503}
UNKNOWN_PATH = {"message": "File Not Found", "type": "not_found_error", "code": 404}
_BYTES_PER_TOKEN = 3


class ModelServer(Provider):
    """Serves one model, and answers as ``Provider`` does.

    Attributes:
        kind: one of ``KINDS``, or another text for a proxy that says nothing of itself.
        name: of the model.
        window: tokens of one request, as the server states them; None states none.
        slots: requests that it works on at once, where its dialect can state that.
        other: a further model that it lists.
        cloud: the model's answers come from elsewhere.
        loading: answers with 503 this often before it is ready; calls and questions count.
        told: what it answers to a question, by path, whatever its dialect is.
        questions: the paths that were asked about itself.
        refuses: it refuses prompts that its window does not hold, which are counted in bytes.
    """

    def __init__(
        self,
        kind: str = LLAMA_CPP,
        name: str = "qwen",
        window: int | None = 8192,
        slots: int = 1,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.name = name
        self.window = window
        self.slots = slots
        self.other = ""
        self.cloud = False
        self.loading = 0
        self.told: dict[str, Any] = {}
        self.questions: list[str] = []
        self.refuses = False

    @property
    def address(self) -> str:
        """The address without ``/v1``."""
        return self.url.removesuffix("/v1")

    def describe(self, path: str, body: Any = None) -> tuple[int, Any]:
        self.questions.append(path)
        if self._takes_a_loading_answer():
            return 503, {"error": LOADING}
        if path in self.told:
            return 200, self.told[path]
        value = _DIALECTS.get(self.kind, _describe_proxy)(self, path, body)
        if value is None and self.kind == LM_STUDIO:
            return 200, {"error": f"Unexpected endpoint or method. (GET {path})"}
        if value is None:
            return 404, {"error": UNKNOWN_PATH}
        return 200, value

    def answer(self, request: dict[str, Any]) -> Answer:
        if self._takes_a_loading_answer():
            return Answer(status=503, error=LOADING)
        if self.refuses and self.window is not None:
            prompt = sum(len(m["content"]) for m in request["messages"])
            tokens = prompt // _BYTES_PER_TOKEN
            limit = 0
            if self.kind == VLLM:
                limit = request.get("max_tokens") or 0
            if tokens + limit > self.window:
                return _refusal(self.kind, self.window, tokens, limit)
        return super().answer(request)

    def _takes_a_loading_answer(self) -> bool:
        if self.loading:
            self.loading -= 1
            return True
        return False


def _refusal(kind: str, window: int, tokens: int, limit: int) -> Answer:
    """Return the answer to a prompt that is too long."""
    if kind == LLAMA_CPP:
        words = (
            f"request ({tokens} tokens) exceeds the available context size "
            f"({window} tokens), try increasing it"
        )
        error: JsonObject = {"type": "exceed_context_size_error", "code": 400}
        error |= {"n_prompt_tokens": tokens, "n_ctx": window}
        return Answer(status=400, error={"message": words, **error})
    if kind == VLLM:
        words = (
            f"This model's maximum context length is {window} tokens. However, you "
            f"requested {tokens + limit} tokens ({tokens} in the messages, {limit} in "
            "the completion)."
        )
        return Answer(status=400, error={"message": words, "type": "BadRequestError"})
    words = (
        "the prompt is longer than the context length currently available to the model"
    )
    if kind == LM_STUDIO:
        words = f"Cannot truncate prompt with n_keep ({tokens}) >= n_ctx ({window})"
    return Answer(status=400, error={"message": words, "type": "invalid_request_error"})


def _describe_llama_cpp(server: ModelServer, path: str, body: Any) -> Any:
    entry: JsonObject = {
        "id": server.name,
        "object": "model",
        "created": 1,
        "aliases": [],
    }
    entry["owned_by"] = "llamacpp"
    entry["meta"] = {"n_ctx": server.window, "n_ctx_train": 32768, "size": 485452288}
    details = {"format": "gguf"}
    tag = {"name": server.name, "model": server.name, "digest": "", "details": details}
    props = {
        "default_generation_settings": {"n_ctx": server.window},
        "total_slots": server.slots,
        "model_alias": server.name,
        "model_path": "/models/qwen.gguf",
    }
    listing = {"object": "list", "models": [tag], "data": _with_other(server, entry)}
    return {"/v1/models": listing, "/props": props}.get(path)


def _describe_vllm(server: ModelServer, path: str, body: Any) -> Any:
    entry: JsonObject = {
        "id": server.name,
        "object": "model",
        "created": 1,
        "owned_by": "vllm",
    }
    entry |= {"root": server.name, "parent": None, "max_model_len": server.window}
    adapter: JsonObject = {"id": "adapter", "object": "model", "owned_by": "vllm"}
    adapter |= {"root": "/adapters/a", "parent": server.name, "max_model_len": None}
    listing = {"object": "list", "data": [*_with_other(server, entry), adapter]}
    return {"/v1/models": listing, "/version": {"version": "0.11.0"}}.get(path)


def _describe_lm_studio(server: ModelServer, path: str, body: Any) -> Any:
    plain = {"id": server.name, "object": "model", "owned_by": "organization_owner"}
    entry: JsonObject = {"id": server.name, "object": "model", "type": "llm"}
    entry |= {"compatibility_type": "gguf", "max_context_length": 262144}
    entry["state"] = "not-loaded"
    instances = []
    if server.window is not None:
        entry |= {"state": "loaded", "loaded_context_length": server.window}
        config = {"context_length": server.window, "parallel": server.slots}
        instances.append({"id": server.name, "config": config})
    newer = {"key": server.name, "type": "llm", "loaded_instances": instances}
    return {
        "/v1/models": {"object": "list", "data": _with_other(server, plain)},
        "/api/v0/models": {"object": "list", "data": _with_other(server, entry)},
        "/api/v1/models": {"models": [newer]},
    }.get(path)


def _describe_ollama(server: ModelServer, path: str, body: Any) -> Any:
    name = server.name
    if ":" not in name:
        name += ":latest"
    tag: JsonObject = {
        "name": name,
        "model": name,
        "size": 4683075271,
        "digest": "0a8c",
    }
    tag["details"] = {"format": "gguf", "family": "qwen2"}
    shown: JsonObject = {
        "model_info": {"qwen2.context_length": 32768, "qwen2.block_count": 24}
    }
    shown["parameters"] = 'stop "<|im_end|>"'
    if server.window is not None:
        shown["parameters"] += f"\nnum_ctx                        {server.window}"
    if server.cloud:
        remote = {"remote_model": "big", "remote_host": "https://ollama.com:443"}
        tag |= remote | {"size": 384}
        shown |= remote
    asked = (body or {}).get("model")
    if path == "/api/show" and asked not in (name, name.removesuffix(":latest")):
        return None
    return {
        "/v1/models": {"object": "list", "data": [{"id": name, "owned_by": "library"}]},
        "/api/version": {"version": "0.12.0"},
        "/api/tags": {"models": _with_other(server, tag)},
        "/api/ps": {"models": []},
        "/api/show": shown,
    }.get(path)


def _describe_proxy(server: ModelServer, path: str, body: Any) -> Any:
    entry: JsonObject = {"id": server.name, "object": "model", "owned_by": "openai"}
    if server.window is not None:
        entry["max_model_len"] = server.window
    return {"/v1/models": {"data": _with_other(server, entry)}}.get(path)


def _with_other(server: ModelServer, entry: JsonObject) -> list[JsonObject]:
    """Return the entry of the server's model, and the same one under its other name."""
    entries = [entry]
    if server.other:
        other: JsonObject = {
            key: server.other for key in ("id", "name") if key in entry
        }
        entries.append({**entry, **other})
    return entries


_DIALECTS = {
    LLAMA_CPP: _describe_llama_cpp,
    OLLAMA: _describe_ollama,
    VLLM: _describe_vllm,
    LM_STUDIO: _describe_lm_studio,
}
