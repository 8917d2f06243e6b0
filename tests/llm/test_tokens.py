"""Token counts: real ones, without the network."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from swe_retry.llm.tokens import count_tokens

CODE = "def f(x):\n    return x\n" * 10


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("counting went to the network")

    for name in ("connect", "connect_ex", "send"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o",
        "openai/gpt-5",
        "anthropic/claude-opus-4-5",
        "my-own-model",
        "together_ai/meta-llama/Llama-3-70b",
        "replicate/meta/llama-2-70b",
        "command-r-plus",
    ],
)
def test_tokens_are_counted_on_this_machine(name: str) -> None:
    # 24 characters a pair of lines, 8 tokens.
    assert count_tokens(name, CODE) in range(70, 100)
    assert count_tokens(name, "") == 0


def test_models_have_their_own_counts() -> None:
    text = "Übergrößenträger und Weißwürste"
    assert count_tokens("gpt-4o", text) < count_tokens("gpt-4", text)


def test_odd_texts_are_counted() -> None:
    assert count_tokens("gpt-4o", "<|endoftext|>") > 1
    assert count_tokens("gpt-4o", "\udcff") >= 1
    assert count_tokens("gpt-4o", "x" * 300_000) > 1000
