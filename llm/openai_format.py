"""Convert messages, tools and replies from and to the format of litellm. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from llm.chat import Message, Request, Tool, ToolCall, Usage

_MOST_MARKERS_AT_END = 2
_MARKER = {"type": "ephemeral"}
# These need a mark on the last message that the model continues.
_PREFIX_PROVIDERS = frozenset({"deepseek", "mistral", "codestral"})
_LONGEST_NAME = 64
# Of a call; more than a hundred times the longest window.
_MOST_TOKENS = 1_000_000_000
# A shorter beginning may occur twice by chance.
_SHORTEST_ECHO = 16


def messages_as_sent(
    messages: Request, *, markers: bool = False, provider: str = ""
) -> list[dict[str, Any]]:
    """Return ``messages`` in the OpenAI protocol.

    Args:
        messages: a conversation; the model continues a last message of the assistant. A text to
            continue becomes one message: litellm takes it out of that for ``/v1/completions``.
        markers: mark the messages that Anthropic shall cache.
        provider: litellm's name of the provider.
    """
    if isinstance(messages, str):
        return [_as_sent(Message("user", messages), marked=False)]
    marked = _marked(messages) if markers else ()
    sent = [_as_sent(message, number in marked) for number, message in enumerate(messages)]
    if prefill(messages):
        # Anthropic refuses white space there, and no provider needs it.
        sent[-1]["content"] = _encodable(messages[-1].content.rstrip())
        if provider in _PREFIX_PROVIDERS:
            sent[-1]["prefix"] = True
    return sent


def prefill(messages: Request) -> str:
    """Return the text that the model shall continue in its own name, empty without one."""
    if isinstance(messages, str):
        return ""
    last = messages[-1] if messages else Message("user", "")
    return last.content if last.role == "assistant" and not last.tool_calls else ""


def continuation(prefix: str, content: str) -> str:
    """Return the text after ``prefix`` in a reply to a request that ended with it.

    Some providers repeat ``prefix``; the reply may also begin with its final white space, which was
    not sent.
    """
    if not prefix:
        return content
    stem = prefix.rstrip()
    content = content.removeprefix(stem) if len(stem) >= _SHORTEST_ECHO else content
    for lost in prefix[len(stem) :]:
        if not content.startswith(lost):
            break
        content = content[1:]
    return content


def tools_as_sent(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return ``tools`` in the OpenAI protocol."""
    return [{"type": "function", "function": dict(tool)} for tool in tools]


def tool_calls_of(message: Any) -> tuple[ToolCall, ...]:  # noqa: ANN401 - litellm's
    """Return the calls in a message of litellm, with ids for calls without one."""
    calls = getattr(message, "tool_calls", None) or ()
    return tuple(
        ToolCall(call.function.name or "", call.function.arguments or "", call.id or f"call_{n}")
        for n, call in enumerate(calls, 1)
    )


def usage_of(response: Any) -> Usage | None:  # noqa: ANN401
    """Return the tokens, None if any number in the provider's counts is missing or impossible.

    litellm replaces a missing count by 0, which no prompt has.
    """
    usage = getattr(response, "usage", None)
    if not usage or not usage.prompt_tokens or not _possible(usage.model_dump()):
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or 0
    found = Usage(usage.prompt_tokens, usage.completion_tokens or 0, cached)
    return found if cached <= found.prompt_tokens else None


def _possible(counts: object) -> bool:
    """Return whether no number in ``counts``, at any depth, is one that no call has."""
    if isinstance(counts, dict):
        counts = [*counts.values()]
    if isinstance(counts, list):
        return all(map(_possible, counts))
    number = isinstance(counts, (int, float)) and not isinstance(counts, bool)
    return not number or 0 <= counts <= _MOST_TOKENS  # type: ignore[operator]


def _marked(messages: Sequence[Message]) -> Collection[int]:
    """Return the messages that end a part which the next request repeats: four at most.

    The system message and the first of the user never change; of the last two, the request before
    wrote one to the cache, and this one writes the other for the next.
    """
    system = [n for n, message in enumerate(messages) if message.role == "system"][:1]
    asked = [n for n, message in enumerate(messages) if message.role in ("user", "tool")]
    wanted = {*system, *asked[:1], *asked[-_MOST_MARKERS_AT_END:]}
    return {n for n in wanted if messages[n].content.strip()}


def _as_sent(message: Message, marked: bool) -> dict[str, Any]:
    content = _encodable(message.content)
    sent: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        sent["content"] = content or None
        sent["tool_calls"] = [_call_as_sent(call) for call in message.tool_calls]
    if message.tool_call_id:
        sent["tool_call_id"] = message.tool_call_id
    if marked and message.role == "tool":
        sent["cache_control"] = _MARKER
    elif marked:
        sent["content"] = [{"type": "text", "text": content, "cache_control": _MARKER}]
    if message.images:
        parts = sent["content"] if marked else [{"type": "text", "text": content}]
        sent["content"] = [*parts, *map(_image_as_sent, message.images)]
    return sent


def _image_as_sent(address: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": _encodable(address)}}


def _call_as_sent(call: ToolCall) -> dict[str, Any]:
    # Providers check both, and refuse the whole conversation for one broken call.
    name = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:_LONGEST_NAME] or "unknown"
    function = {"name": name, "arguments": _readable(_encodable(call.arguments))}
    return {"id": call.id, "type": "function", "function": function}


def _encodable(text: str) -> str:
    """Return ``text`` with question marks in place of lone surrogates, which cannot be sent."""
    return text.encode("utf-8", "replace").decode()


def _readable(arguments: str) -> str:
    """Return ``arguments`` if they are a JSON object, else an object that contains them."""
    try:
        readable = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        readable = False
    return arguments if readable else json.dumps({"unreadable": arguments})
