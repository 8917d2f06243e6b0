"""The conversations of an attempt in a file: a message that stands there already is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializerFunctionWrapHandler, WrapSerializer

from swe_retry.core.jsontypes import count_at, object_at, value_at
from swe_retry.llm.chat import Message


def _expand_repeats(value: object) -> object:
    """Return the messages of a file, each in full."""
    if not isinstance(value, list):
        return value
    messages: list[object] = []
    for raw in value:
        position = count_at(raw, "same_as")
        if value_at(raw, "same_as") == position < len(messages):
            raw = {**object_at(messages[position]), "lane": raw.get("lane", 0)}
        messages.append(raw)
    return messages


def _name_repeats(
    messages: tuple[Message, ...] | None, dump: SerializerFunctionWrapHandler
) -> Any:  # noqa: ANN401
    """Return messages for a file, where further conversations name those that they repeat."""
    values = dump(messages)
    if messages is None:
        return values
    values = list(values)
    positions: dict[Message, int] = {}
    for number, message in enumerate(messages):
        first = positions.setdefault(replace(message, lane=0), number)
        if message.lane and first != number:
            values[number] = {"lane": message.lane, "same_as": first}
    return values


Conversations = Annotated[
    tuple[Message, ...] | None,
    BeforeValidator(_expand_repeats),
    WrapSerializer(_name_repeats),
]
"""The conversations of an attempt; a file holds equal messages of several once."""
