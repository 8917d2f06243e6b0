"""A provider that says that a request is too long: once more with less, then the end `context`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.builtin import Coder
from swe_retry.agent.conversation.limits import ConversationLimits, Reflections
from swe_retry.agent.conversation.result import Ending
from swe_retry.attempts.config import ModelChoice
from swe_retry.llm.chat import RequestRefusedError, WindowExceededError
from swe_retry.llm.provider_errors import RetryPolicy, stated_sizes
from tests.llm.test_client import ASK, model
from tests.support.formats import BAD, GOOD, make_coder, run_coder
from tests.support.modelserver import LLAMA_CPP, LM_STUDIO, VLLM, ModelServer
from tests.support.provider import Answer, Provider
from tests.support.runs import live, options, read
from tests.support.start import run_command

OPENAI = {
    "message": "This model's maximum context length is 8192 tokens. However, your messages "
    "resulted in 9000 tokens. Please reduce the length of the messages.",
    "type": "invalid_request_error",
    "code": "context_length_exceeded",
}
BODIES: list[tuple[int, Any]] = [
    (400, {"error": OPENAI}),
    (400, {  # vLLM
        "object": "error", "type": "BadRequestError", "code": 400,
        "message": "This model's maximum context length is 4096 tokens. However, you requested "
        "5000 tokens (4000 in the messages, 1000 in the completion).",
    }),
    (400, {"error": {"type": "BadRequestError", "code": 400, "message":
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}}),
    (400, {"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 4096, "message":
        "the request exceeds the available context size (4096 tokens), try increasing it"}}),
    (500, {"error": {"code": 500, "type": "server_error", "message":
        "the request exceeds the available context size. try increasing the context size"}}),
    (400, {"error": "the input length exceeds the context length"}),  # Ollama
    (422, {"error": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5"}),
    (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"}),  # TGI
    (422, {"detail": "The request exceeds the context length of 4096 tokens."}),  # FastAPI
]  # fmt: skip
MESSAGES = [
    # SGLang
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    # LM Studio
    "Trying to keep the first 5000 tokens when context the overflows. However, the "
    "model is loaded with context length of only 4096 tokens",
    # Mistral
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
    "maximum context length",
    # xAI
    "This model's maximum prompt length is 131072 but the request contains 200000 "
    "tokens.",
    # Gemini
    "The input token count (1200000) exceeds the maximum number of tokens allowed "
    "(1048576).",
]
PROMPT = "prompt is too long: 210000 tokens > 200000 maximum"
OVERFLOW = "input length exceeds maximum context length"
BODIES.append((500, {"error": {"message": OVERFLOW}}))
BODIES.append((413, {"error": {"message": PROMPT}}))
for text in MESSAGES:
    BODIES.append((400, {"error": {"message": text}}))
ANTHROPIC = [
    PROMPT,
    "input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000, decrease input "
    "length or `max_tokens` and try again",
]
OTHER: list[tuple[int, str]] = [
    (
        400,
        "max_tokens is too large: 99999. This model supports at most 16384 completion tokens.",
    ),
    (
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000",
    ),
    (400, "Unsupported value: 'temperature' does not support 0.4 with this model."),
    (400, "Invalid type for 'input': expected a text."),
]

SIZES: list[tuple[str, int | None, int | None]] = [
    (OPENAI["message"], 8192, 9000),
    (
        "request (9030 tokens) exceeds the available context size (8192 tokens)",
        8192,
        9030,
    ),
    (
        "exceeds the available context size. - {'n_ctx': 64, 'n_prompt_tokens': 99}",
        64,
        99,
    ),
    ("Requested tokens (2285) exceed context window of 2048", 2048, 2285),
    (
        "maximum context length is 16384 tokens. However, you requested 122946 tokens "
        "(112946 in the messages, 10000 in the completion).",
        16384,
        112946,
    ),
    (
        "maximum context length is 4096 tokens. However, you requested 8 output tokens and "
        "your prompt contains at least 4097 input tokens",
        4096,
        None,
    ),
    (
        "You passed 9000 input tokens and requested 10 output tokens. However, the model's "
        "context length is only 8192 tokens, resulting in a maximum input length of 8182 "
        "tokens.",
        8192,
        9000,
    ),
    ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", 7424, 15028),
    (MESSAGES[0], 8192, 9000),
    (MESSAGES[1], 4096, 5000),
    ("the prompt is longer than the context length currently available", None, None),
    ("Context size has been exceeded.", None, None),
]


@pytest.mark.parametrize(("status", "body"), BODIES)
def test_each_server_s_words_are_understood(
    provider: Provider, status: int, body: Any
) -> None:
    provider.will_answer(Answer(status=status, body=body))
    with pytest.raises(WindowExceededError):
        model(provider).complete(ASK)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(("message", "window", "prompt"), SIZES)
def test_the_numbers_in_a_refusal_are_read(
    message: str, window: int | None, prompt: int | None
) -> None:
    assert stated_sizes(message) == (window, prompt)


@pytest.mark.parametrize("message", ANTHROPIC)
def test_anthropic_s_words_are_understood(
    provider: Provider, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_BASE", provider.url.removesuffix("/v1"))
    error = {"type": "invalid_request_error", "message": message}
    provider.will_answer(Answer(status=400, error=error))
    claude = model(provider, name="anthropic/claude-sonnet-4-5", api_base=None)
    with pytest.raises(WindowExceededError):
        claude.complete(ASK)


@pytest.mark.parametrize(("status", "message"), OTHER)
def test_other_refusals_are_no_full_window(
    provider: Provider, status: int, message: str
) -> None:
    provider.will_answer(Answer(status=status, error={"message": message}))
    with pytest.raises(RequestRefusedError) as error:
        model(provider).complete(ASK)
    assert type(error.value) is RequestRefusedError


@dataclass
class Small(Provider):
    """A server with a window of so many characters."""

    window: int = 0
    replies: list[str] = field(default_factory=list)
    refused: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def answer(self, request: dict[str, Any]) -> Answer:
        lengths = [len(str(message["content"])) for message in request["messages"]]
        if sum(lengths) > self.window:
            self.refused += 1
            return Answer(status=400, error=OPENAI)
        return Answer(self.replies.pop(0))


def converse(
    root: Path,
    server: Small,
    repo_map: str = "the map",
) -> tuple[Any, Coder]:
    limits = ConversationLimits(Reflections(shared=9))
    local = model(server, name="a-local-model")
    coder = make_coder(
        root, local, limits=limits, issue="f is wrong", repo_map=repo_map
    )
    return run_coder(coder), coder


def test_rounds_are_dropped_and_the_request_is_sent_once_more(tmp_path: Path) -> None:
    long = "word " * 1500
    replies = [f"I look at app/main.py. {long}", f"{BAD}{long}", f"{BAD}{long}", GOOD]
    with Small(window=24_000, replies=replies) as server:
        result, _ = converse(tmp_path, server)
    assert result.ending is Ending.DONE
    assert result.edit is True
    assert server.refused == 1
    assert len(server.requests) == 5
    prompt = server.requests[-1]["messages"][-1]["content"]
    assert "left out because it grew too long" in prompt
    assert "def f():" in prompt


def test_a_refused_map_is_left_out(tmp_path: Path) -> None:
    with Small(window=10_000, replies=[GOOD]) as server:
        result, _ = converse(tmp_path, server, repo_map="x" * 20_000)
    assert result.edit is True
    assert server.refused == 1
    assert len(server.requests) == 2


def test_an_attempt_whose_request_fits_in_no_way_ends_as_context(
    tmp_path: Path, cache: Path
) -> None:
    choice = ModelChoice.parse("a-local-model@diff", any_name=True)
    name = "demo__textkit-1"
    run_options = options(tmp_path, cache, name, retries=RetryPolicy(3, 0.01, 0.01))
    lines: list[str] = []
    with Small(window=10) as server:
        run_config = live(server, models=(choice,))
        run_command(run_config, run_options, lines.append)
    assert server.refused == 2, "with the map, and without"
    (attempt,) = read(tmp_path, name, "trajectories")["attempts"]
    assert attempt["status"] == "context"
    assert "longer than the model's window" in attempt["error"]
    ending = "; attempt 1 did not fit into the model's window"
    prediction = read(tmp_path, name)
    assert prediction["status"] == "empty"
    assert prediction["model_patch"] == ""
    assert prediction["reason"].endswith(ending)
    assert any(name in line and ending in line for line in lines)


@pytest.mark.parametrize("kind", [LLAMA_CPP, VLLM, LM_STUDIO])
def test_the_window_in_a_refusal_decides_the_next_request(
    tmp_path: Path, kind: str
) -> None:
    with ModelServer(kind, window=2000) as server:
        server.refuses = True
        server.will_answer(GOOD)
        local = model(server, name="a-local-model")
        limits = ConversationLimits(Reflections(shared=9))
        repo_map = "x = 1\n" * 2000
        coder = make_coder(
            tmp_path, local, limits=limits, issue="f is wrong", repo_map=repo_map
        )
        result = run_coder(coder)
    assert result.ending is Ending.DONE
    assert result.edit is True
    # vLLM then refuses the limit of the reply, too, whose window is not known before.
    requests = 3 if kind == VLLM else 2
    assert [len(server.requests), len(coder.calls)] == [requests, 1]


def test_a_conversation_goes_on_within_the_window_that_a_refusal_states(
    tmp_path: Path,
) -> None:
    long = "word " * 600
    with ModelServer(LLAMA_CPP, window=4000) as server:
        server.refuses = True
        server.will_answer(*[f"{BAD}{number}{long}" for number in range(6)], GOOD)
        limits = ConversationLimits(Reflections(shared=9))
        local = model(server, name="a-local-model")
        coder = make_coder(
            tmp_path, local, limits=limits, issue="f is wrong", repo_map="the map"
        )
        result = run_coder(coder)
    assert result.edit is True
    assert len(server.requests) - len(coder.calls) == 1, "one refusal is enough"
