"""Pure: the JSON of requests and answers: the events of a stream, their pieces, and texts."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from swe_retry.core.jsontypes import JsonObject, objects, text_at, value_at
from swe_retry.core.redaction import Redactor

_LINE = re.compile(r"\r\n|\n|\r")
# What a stream says piece by piece; other texts, such as ids, come whole, perhaps several times.
_GROWING = (
    *("content", "reasoning", "reasoning_content", "thinking", "refusal", "summary"),
    *("text", "response", "name", "arguments", "input"),
)


def sse(event: JsonObject) -> bytes:
    """Return one server-sent event, whose name is its type."""
    lines = f"data: {json.dumps(event)}\n\n"
    if "type" in event:
        lines = f"event: {event['type']}\n{lines}"
    return lines.encode()


def events_of(text: str) -> Iterator[JsonObject]:
    """Yield the JSON objects in a stream of server-sent events."""
    # Only these end a line, and JSON may hold others as they are.
    for block in re.split(r"\r\n\r\n|\n\n|\r\r", text):
        data = []
        for line in _LINE.split(block):
            if line.startswith("data:"):
                data.append(line.removeprefix("data:").strip())
        event = parse_json("\n".join(data))
        if isinstance(event, dict):
            yield event


def redact_answer(text: str, redact: Redactor) -> str:
    """Return an answer as it came, without secrets, also those that a stream splits."""
    events = list(events_of(text))
    fragments = defaultdict(list)
    for event in events:
        for key, holder, name in _fragments_in(event):
            fragments[key].append((holder, name))
    is_split = False
    for parts in fragments.values():
        joined = "".join(holder[name] for holder, name in parts)
        if len(parts) > 1 and redact.named_in(joined):
            is_split = True
            for holder, name in parts:
                holder[name] = ""
            holder, name = parts[0]
            holder[name] = redact(joined)
    if not is_split:
        return redact(text)
    end = "data: [DONE]\n\n" if "[DONE]" in text else ""
    return redact(b"".join(map(sse, events)).decode() + end)


def _fragments_in(
    value: Any,  # noqa: ANN401
    path: tuple[object, ...] = (),
) -> Iterator[tuple[tuple[object, ...], Any, Any]]:
    """Yield the texts of an event: which text of the answer each is a part of, and its place."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        path += tuple(v for k, v in value.items() if k == "type" or k.endswith("index"))
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        if isinstance(item, str):
            yield (*path, key), value, key
        else:
            yield from _fragments_in(item, (*path, key))


def join_parts(value: Any, part: Any, key: str = "") -> Any:  # noqa: ANN401
    """Return a value of a stream with the next part of it, which stands at ``key``.

    Objects are joined by their keys, and lists of objects by their ``index``.
    """
    if part is None:
        return value
    if isinstance(value, dict) and isinstance(part, dict):
        joined = dict(value)
        for name, item in part.items():
            joined[name] = join_parts(value.get(name), item, name)
        return joined
    if isinstance(part, list):
        return _join_lists(value if isinstance(value, list) else [], part)
    if key in _GROWING and isinstance(value, str) and isinstance(part, str):
        return value + part
    return part


def _join_lists(items: list[Any], parts: list[Any]) -> list[Any]:
    joined = list(items)
    indices = [value_at(item, "index") for item in items]
    for part in parts:
        index = value_at(part, "index")
        if isinstance(index, int) and index in indices:
            position = indices.index(index)
            joined[position] = join_parts(joined[position], part)
        else:
            joined.append(part)
            indices.append(index)
    return joined


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts in a part of an answer."""
    if isinstance(value, str):
        yield value
    if isinstance(value, dict):
        value = [item for key, item in value.items() if key not in ("type", "role")]
    if isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def tool_name(tool: JsonObject) -> str:
    name = tool.get("name") or value_at(tool, "function", "name") or tool.get("type")
    if name and isinstance(name, str):
        return name
    return next(iter(tool), "")


def join_texts(content: object) -> str:
    """Return a content that is a text, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    texts = [text_at(part, "text") for part in objects(content)]
    return "\n".join(filter(None, texts))


def result_text(content: object) -> str:
    """Return the result of a tool; a part that is no text is named by its type."""
    if isinstance(content, str):
        return content
    lines = []
    for part in objects(content):
        name = text_at(part, "tool_name")
        kind = text_at(part, "type")
        if name:
            kind += f": {name}"
        lines.append(text_at(part, "text") or f"[{kind}]")
    return "\n".join(lines)


def as_json(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def parse_json(text: str | bytes | bytearray) -> Any:  # noqa: ANN401
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
