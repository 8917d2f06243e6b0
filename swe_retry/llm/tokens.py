"""Count the tokens of texts and messages for a model, without the network."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.metadata import version

from swe_retry.llm.chat import Request, estimate_tokens
from swe_retry.llm.registry import load_litellm

Count = Callable[[str], int]

MAX_REPLY = 8192
"""Tokens of the longest reply where the model's own limit is unknown."""

ESTIMATE = "four characters a token"
"""The name of the estimate, in place of a ``counter_name``."""

# litellm would download the tokenizers of these; that of GPT-4 is close enough.
_ON_A_HUB = re.compile(r"llama-[23]|replicate|command-r", re.IGNORECASE)

_PER_MESSAGE = 4
"""Tokens of a message besides its text (OpenAI's counting guide gives three or four)."""

_REMEMBERED = 1024
_LONGEST = 50_000
"""The longest text, in characters, that is kept with its count."""


def count_tokens(name: str, text: str) -> int:
    """Return the tokens of ``text`` for litellm's ``name``, estimated if counting fails."""
    counted = _counted if len(text) > _LONGEST else _remembered
    try:
        return counted(_bare(name), text)
    except Exception:  # a failing tokenizer must not end an attempt
        return estimate_tokens(text)


def _counted(bare: str, text: str) -> int:
    return int(load_litellm().token_counter(model=bare, text=text))


# Each request repeats all messages of the request before.
_remembered = lru_cache(maxsize=_REMEMBERED)(_counted)


@cache
def counter_name(name: str) -> str:
    """Return the name of the tokenizer of ``count_tokens``; equal names give equal counts."""
    return f"litellm {version('litellm')} {_bare(name)}"


# Anthropic scales an image down to about 1,600 tokens; OpenAI counts 1,105 for a large one.
_PER_IMAGE = 1600


def _bare(name: str) -> str:
    return "" if _ON_A_HUB.search(name) else name.rpartition("/")[2]


def size(messages: Request, count: Count) -> int:
    """Return the tokens of ``messages``, or of a text to continue."""
    if isinstance(messages, str):
        return count(messages)
    tokens = 0
    for message in messages:
        calls = "".join(call.name + call.arguments for call in message.tool_calls)
        tokens += _PER_MESSAGE + count(message.content + calls)
        tokens += _PER_IMAGE * len(message.images)
    return tokens


_LONGEST_BOUND = 2_000_000
"""The longest request in characters that is counted; it exceeds most windows."""
# Not all tokenizers are published: Claude's newer ones count up to 1.8 times the tokens.
_UNPUBLISHED = 1.8


def token_bound(name: str, text: str) -> int:
    """Return how many tokens the provider of ``name`` counts at most for ``text``."""
    bound = most_tokens(text)
    if len(text) > _LONGEST_BOUND:
        return bound
    return min(bound, math.ceil(_UNPUBLISHED * count_tokens(name, text)))


def most_tokens(text: str) -> int:
    """Return an upper bound of the tokens of ``text``: each has at least one byte."""
    return len(text.encode("utf-8", "surrogatepass"))
