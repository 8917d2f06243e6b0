"""How many tokens a text is for a model, counted on this machine alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version

from llm.chat import Message, estimate_tokens
from llm.registry import the_litellm

Count = Callable[[str], int]

ESTIMATE = "four characters a token"
"""Names the estimate, as ``counter_name`` does the tokenizers."""

# litellm would fetch the tokenizers of these from a hub; GPT-4's is near enough.
_ON_A_HUB = re.compile(r"llama-[23]|replicate|command-r", re.IGNORECASE)

_PER_MESSAGE = 4
"""Tokens that a message costs beside its text (OpenAI's counting guide gives three or four)."""

_REMEMBERED = 1024
_LONGEST = 50_000
"""Characters of a text whose count is remembered, with the text itself."""


def count_tokens(name: str, text: str) -> int:
    """Return the tokens of ``text`` for litellm's ``name``: counted, or estimated where need be."""
    counted = _counted if len(text) > _LONGEST else _remembered
    try:
        return counted(_bare(name), text)
    except Exception:  # a tokenizer that chokes on a text must not end an attempt
        return estimate_tokens(text)


def _counted(bare: str, text: str) -> int:
    return int(the_litellm().token_counter(model=bare, text=text))


# Each request holds all messages of the one before.
_remembered = lru_cache(maxsize=_REMEMBERED)(_counted)


@cache
def counter_name(name: str) -> str:
    """Return a name for what ``count_tokens`` counts with: equal names count alike."""
    return f"litellm {version('litellm')} {_bare(name)}"


def _bare(name: str) -> str:
    return "" if _ON_A_HUB.search(name) else name.rpartition("/")[2]


def size(messages: Sequence[Message], count: Count) -> int:
    """Return the tokens of ``messages``."""
    return sum(_PER_MESSAGE + count(_text(message)) for message in messages)


def most_tokens(text: str) -> int:
    """Return the most tokens that ``text`` can be: tokenizers make none of less than a byte."""
    return len(text.encode("utf-8", "surrogatepass"))


def _text(message: Message) -> str:
    calls = "".join(call.name + call.arguments for call in message.tool_calls)
    return message.content + calls
