"""Read the calls of edit functions: as they came, repaired where that is unambiguous, or not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from json_repair import repair_json

from agent.chat import Reply, ToolCall
from agent.formats.base import MalformedReplyError
from agent.formats.fences import fence_of

PATH_NAMES = ("path", "file", "filename", "file_path", "filepath", "file_name", "name")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def calls_of(reply: Reply) -> Sequence[ToolCall]:
    """Return the calls of ``reply``: the real ones, else one that its text spells out as JSON."""
    if reply.tool_calls:
        return reply.tool_calls
    data = _json_object(_unfenced(reply.content))
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        return ()
    given = data.get("arguments", data.get("parameters"))
    text = given if isinstance(given, str) else json.dumps(given)
    return (ToolCall(data["name"], text),) if given is not None else ()


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of ``call``, repaired where its JSON is broken but complete.

    Raises:
        MalformedReplyError: they are cut off inside a value, or no object at all.
    """
    data = _json_object(call.arguments)
    if data is None and "{" in call.arguments[:1] and not _cut_off(call.arguments):
        data = repair_json(call.arguments, return_objects=True)
    if isinstance(data, dict):
        return data
    if _cut_off(call.arguments):
        raise MalformedReplyError(
            f"The arguments of {call.name} end in the middle of a value, so nothing of the call "
            "was carried out. Send it again, complete; split a long one into several calls."
        )
    raise MalformedReplyError(
        f"The arguments of {call.name} are not a JSON object: {call.arguments[:200]!r}"
    )


def first_of(arguments: Mapping[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    """Return the value under the first of ``names`` that is there, None without any."""
    return next((arguments[name] for name in names if name in arguments), None)


def text_of(value: Any) -> str | None:  # noqa: ANN401 - JSON
    """Return a text given as a string or as a list of lines; None for anything else."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n")
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(line.rstrip("\n") + "\n" for line in value)
    return None


def _json_object(text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        # strict=False lets raw line ends stand in strings, as models write them.
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _cut_off(text: str) -> bool:
    """Tell whether ``text`` ends inside a string, or right after a key, a comma or a bracket."""
    bare = _STRING.sub("0", text).rstrip()
    return '"' in bare or bare.endswith((":", ",", "{", "[")) or not bare.rstrip("}] \n")


def _unfenced(text: str) -> str:
    lines = text.removeprefix("\ufeff").strip().split("\n")
    marks = [n for n, line in enumerate(lines) if fence_of(line)]
    return "\n".join(lines[marks[0] + 1 : marks[-1]]) if len(marks) > 1 else "\n".join(lines)
