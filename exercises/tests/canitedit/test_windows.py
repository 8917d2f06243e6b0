"""Servers with a small window: a limit that leaves no room for the prompt is lowered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.canitedit.conftest import generate
from exercises.tests.support.canitedit import (
    Solver,
    asked_text,
    bytes_of,
    files,
    run_folder,
)
from swe_retry.llm.provider_errors import room_for_reply
from tests.support.provider import Answer

LAZY = "--set completions.kinds=lazy"
WINDOW = 2048
VLLM = (
    "This model's maximum context length is {window} tokens. However, you requested "
    "{total} tokens ({prompt} in the messages, {limit} in the completion). Please reduce "
    "the length of the messages or completion."
)
VLLM_CHECK = (
    "'max_tokens' or 'max_completion_tokens' is too large: {limit}. This model's maximum "
    "context length is {window} tokens and your request has {prompt} input tokens "
    "({limit} > {window} - {prompt})."
)
# It reads no more of the prompt than the limit leaves.
VLLM_AT_LEAST = (
    "This model's maximum context length is {window} tokens. However, you requested "
    "{limit} output tokens and your prompt contains at least 1 input tokens, for a total "
    "of at least {total} tokens."
)
SGLANG = (
    "Requested token count exceeds the model's maximum context length of {window} tokens. "
    "You requested a total of {total} tokens: {prompt} tokens from the input messages and "
    "{limit} tokens for the completion."
)
TGI = (
    "`inputs` tokens + `max_new_tokens` must be <= {window}. Given: {prompt} `inputs` "
    "tokens and {limit} `max_new_tokens`"
)
MESSAGES = {
    "vllm": VLLM,
    "vllm's check": VLLM_CHECK,
    "vllm, at least": VLLM_AT_LEAST,
    "sglang": SGLANG,
    "tgi": TGI,
}


def message_of(text: str, window: int, prompt: int, limit: int = 900) -> str:
    return text.format(
        window=window,
        prompt=prompt,
        limit=limit,
        total=prompt + limit,
    )


class SmallWindow(Solver):
    """Refuses what does not fit into a window, a word being a token."""

    message = VLLM

    def answer(self, request: dict[str, Any]) -> Answer:
        prompt = len(asked_text(request).split())
        limit = request["max_tokens"]
        if prompt + limit <= WINDOW:
            return super().answer(request)
        text = message_of(self.message, WINDOW, prompt, limit)
        error = {"message": text, "code": 400}
        return Answer(status=400, error=error)


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("chat", "vllm"),
        ("chat", "vllm, at least"),
        ("editcoder", "tgi"),
    ],
)
def test_the_limit_becomes_the_window_less_the_prompt(
    tmp_path: Path,
    prompt: str,
    name: str,
) -> None:
    with SmallWindow() as provider:
        provider.message = MESSAGES[name]
        ended = generate(provider, tmp_path, f"{LAZY} --prompt {prompt}")
    assert ended.code == 0
    assert len(files(tmp_path)) == 6
    for file in files(tmp_path).values():
        assert all(file.replies)
    limits = []
    for request in provider.requests:
        size = len(asked_text(request).split())
        limits.append((request["max_tokens"], size))
    first_limits = [limit for limit, _ in limits if limit == 8192]
    assert len(first_limits) == 6, "for each file a request"
    assert len(limits) == 6 + 12
    for limit, size in limits:
        if "at least" in name:
            assert limit == 8192 or WINDOW / 2 < limit < WINDOW
        else:
            assert limit in (8192, WINDOW - size)
    for path in run_folder(tmp_path).glob("gpt-4o-*.json"):
        record = json.loads(path.read_text())
        assert record["refused"] == 0
        assert record["max_tokens"] < WINDOW


def test_a_run_that_ended_early_goes_on_with_the_lowered_limit(tmp_path: Path) -> None:
    with SmallWindow() as provider:
        early = generate(provider, tmp_path, f"{LAZY} --set budget.calls=8")
        assert early.code == 1
        assert generate(provider, tmp_path, LAZY).code == 0
    assert len(provider.requests) == 6 + 12, "nothing is asked for twice"
    with SmallWindow() as provider:
        assert generate(provider, tmp_path / "other", LAZY).code == 0
    assert bytes_of(tmp_path) == bytes_of(tmp_path / "other")


@pytest.mark.parametrize(
    ("problem", "window", "room"),
    [
        (message_of(VLLM, 900, 100), None, 800),
        # What the server says of its window goes before what is known of its model.
        (message_of(VLLM, 900, 100), 128_000, 800),
        ("too many tokens", 500, 400),
        ("too many tokens", None, None),
        (message_of(VLLM_CHECK, 900, 200), None, 700),
        (message_of(SGLANG, 900, 200), None, 700),
        (message_of(TGI, 900, 200), None, 700),
        # The prompt alone fills the window.
        (message_of(VLLM, 90, 100), None, None),
        ("This model's maximum context length is 9 tokens.", None, None),
        (message_of(TGI, 10**9, 1, limit=1), None, None),
    ],
)
def test_the_room_for_a_reply(
    problem: str,
    window: int | None,
    room: int | None,
) -> None:
    assert room_for_reply(problem, limit=900, window=window, prompt=80) == room
