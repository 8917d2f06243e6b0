"""A conversation in the OpenAI protocol, in which litellm takes it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from swe_retry.llm.chat import Message, Request, Tool, ToolCall

_MAX_MARKERS_AT_END = 2
_MARKER = {"type": "ephemeral"}
# These need a mark on the last message that the model continues.
_PREFIX_PROVIDERS = frozenset({"deepseek", "mistral", "codestral"})
_MAX_TOOL_NAME = 64


def messages_as_sent(
    messages: Request,
    *,
    markers: bool = False,
    provider: str = "",
) -> list[dict[str, Any]]:
    """Return ``messages`` in the OpenAI protocol.

    Args:
        messages: a conversation; the model continues a last message of the assistant. A text to
            continue becomes one message: litellm takes it out of that for ``/v1/completions``.
        markers: mark the messages that Anthropic shall cache.
        provider: litellm's name of the provider.
    """
    if isinstance(messages, str):
        return [_message_as_sent(Message("user", messages), marked=False)]
    marked: Collection[int] = ()
    if markers:
        marked = _positions_to_mark(messages)
    sent = []
    for position, message in enumerate(messages):
        sent.append(_message_as_sent(message, position in marked))
    if prefill(messages):
        # Anthropic refuses white space there, and no provider needs it.
        last = messages[-1].content
        sent[-1]["content"] = _encodable(last.rstrip())
        if provider in _PREFIX_PROVIDERS:
            sent[-1]["prefix"] = True
    return sent


def tools_as_sent(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": dict(tool)} for tool in tools]


def prefill(messages: Request) -> str:
    """Return the text that the model shall continue in its own name, empty without one."""
    if isinstance(messages, str) or not messages:
        return ""
    last = messages[-1]
    if last.role != "assistant" or last.tool_calls:
        return ""
    return last.content


def _positions_to_mark(messages: Sequence[Message]) -> Collection[int]:
    """Return the messages that end a part which the next request repeats: four at most.

    The system message and the first of the user never change; of the last two, the request before
    wrote one to the cache, and this one writes the other for the next.
    """
    system = []
    requests = []
    for number, message in enumerate(messages):
        if message.role == "system":
            system.append(number)
        elif message.role in ("user", "tool"):
            requests.append(number)
    ends = {*system[:1], *requests[:1], *requests[-_MAX_MARKERS_AT_END:]}
    return {number for number in ends if messages[number].content.strip()}


def _message_as_sent(message: Message, marked: bool) -> dict[str, Any]:
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
        parts: list[dict[str, Any]] = [{"type": "text", "text": content}]
        if marked:
            parts = list(sent["content"])
        for address in message.images:
            image = {"url": _encodable(address)}
            parts.append({"type": "image_url", "image_url": image})
        sent["content"] = parts
    return sent


def _call_as_sent(call: ToolCall) -> dict[str, Any]:
    # Providers check both, and refuse the whole conversation for one broken call.
    name = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:_MAX_TOOL_NAME] or "unknown"
    arguments = _encodable(call.arguments)
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        arguments = json.dumps({"unreadable": arguments})
    function = {"name": name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
