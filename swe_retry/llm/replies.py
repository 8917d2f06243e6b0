"""What litellm's answer to a request says, as our reply."""

from __future__ import annotations

import json
from typing import Any

from swe_retry.llm.chat import REPLY, Reply, RequestRefusedError, ToolCall, Usage
from swe_retry.llm.prices import Price, cost_of
from swe_retry.llm.usage import is_priced

_MAX_NAME = 200
# A shorter beginning may occur twice by chance.
_MIN_ECHO = 16


def reply_of(
    response: Any,  # noqa: ANN401 - litellm's
    name: str,
    price: Price | None,
    prefix: str,
    *,
    is_counted: bool,
) -> Reply:
    """Return the reply of the model ``name`` to a request that ended with ``prefix``.

    ``is_counted``: the tokens can be read, and all have a known price.

    Raises:
        RequestRefusedError: the provider refuses the content.
    """
    choice = response.choices[0] if response.choices else None
    message = choice.message if choice else None
    finish = choice.finish_reason if choice else ""
    content = (message.content if message else None) or ""
    extra = getattr(message, "provider_specific_fields", None) or {}
    tool_calls = tool_calls_of(message)
    counts = getattr(response, "usage", None)
    usage = None
    if is_counted:
        usage = usage_of(counts, is_empty=not (content or tool_calls))
    tier = getattr(response, "service_tier", None)
    tier = tier or getattr(counts, "service_tier", None)
    cost = cost_of(name, price, usage, counts, tier)
    if finish == "content_filter" or extra.get("refusal"):
        why = extra.get("refusal") or content[:200]
        raise RequestRefusedError(f"{name} refused to answer: {why}", cost)
    reply = Reply(
        content=continuation(prefix, content),
        truncated=finish == "length",
        usage=usage,
        cost=cost,
        model=str(response.model or "")[:_MAX_NAME],
        tool_calls=tool_calls,
    )
    # What a journal gets must be readable when the reply is needed again.
    journaled = json.dumps(REPLY.dump_python(reply, mode="json"))
    REPLY.validate_python(json.loads(journaled))
    return reply


def continuation(prefix: str, content: str) -> str:
    """Return the text after ``prefix`` in a reply to a request that ended with it.

    Some providers repeat ``prefix``; the reply may also begin with its final white space, which was
    not sent.
    """
    if not prefix:
        return content
    stem = prefix.rstrip()
    if len(stem) >= _MIN_ECHO:
        content = content.removeprefix(stem)
    for lost in prefix[len(stem) :]:
        if not content.startswith(lost):
            break
        content = content[1:]
    return content


def tool_calls_of(message: Any) -> tuple[ToolCall, ...]:  # noqa: ANN401 - litellm's
    """Return the calls in a message of litellm, with ids for calls without one."""
    calls = []
    for number, call in enumerate(getattr(message, "tool_calls", None) or (), 1):
        name = call.function.name or ""
        arguments = call.function.arguments or ""
        calls.append(ToolCall(name, arguments, call.id or f"call_{number}"))
    return tuple(calls)


def usage_of(counts: Any, *, is_empty: bool) -> Usage | None:  # noqa: ANN401 - litellm's
    """Return the tokens, None if any number in the provider's counts is missing or impossible.

    litellm replaces a missing count by 0, which no prompt has, nor an answer that says something.
    """
    if not counts or not counts.prompt_tokens or not is_priced(counts.model_dump()):
        return None
    if not counts.completion_tokens and not is_empty:
        return None
    details = getattr(counts, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or 0
    if cached > counts.prompt_tokens:
        return None
    return Usage(counts.prompt_tokens, counts.completion_tokens or 0, cached)
