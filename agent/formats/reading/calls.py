"""Read the calls of edit functions, and repair them where that is unambiguous."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from swe_retry.agent.formats.matching.lines import numbers_where
from swe_retry.agent.formats.protocol import MalformedReplyError
from swe_retry.agent.formats.reading.answer import answer_of
from swe_retry.agent.formats.reading.fences import fence_of
from swe_retry.llm.chat import Reply, Tool, ToolCall

PATH_NAMES = ("path", "file", "filename", "file_path", "filepath", "file_name", "name")
# json-repair reads far ahead at every mark.
_MAX_REPAIRED = 30_000
# Marks of JSON and white space, which a repair may add or remove.
_STRUCTURE = re.compile(r"[\s{}\[\]\"',:]")


def calls_of(reply: Reply) -> Sequence[ToolCall]:
    """Return the calls of ``reply``; without any, a call that its text holds as JSON."""
    if reply.tool_calls:
        return reply.tool_calls
    text = answer_of(reply.content).removeprefix("\ufeff").strip()
    lines = text.split("\n")
    fences = numbers_where(lines, fence_of)
    if len(fences) > 1:
        first = fences[0] + 1
        lines = lines[first : fences[-1]]
    data = _load("\n".join(lines))
    if not isinstance(data, dict):
        return ()
    name = data.get("name")
    if not isinstance(name, str):
        return ()
    arguments = data.get("arguments", data.get("parameters"))
    if arguments is None:
        return ()
    if not isinstance(arguments, str):
        arguments = _dump(arguments)
    return (ToolCall(name, arguments),)


def unknown_calls(reply: Reply, tools: Sequence[Tool]) -> int:
    """Return how many calls of ``reply`` name a function that is not among ``tools``.

    They count whether or not the format understands them. Without tools only real calls count:
    JSON in the text of a reply may be a file's content.
    """
    names = {tool["name"] for tool in tools}
    calls = calls_of(reply) if tools else reply.tool_calls
    return sum(call.name not in names for call in calls)


def arguments_of(call: ToolCall, names: Collection[str] = ()) -> dict[str, Any]:
    """Return the arguments of ``call``, repaired where its JSON is broken but complete.

    Args:
        call: the call.
        names: names of arguments; a repair that finds others has split a value.
    """
    text = call.arguments.strip()
    for read in (_load, _close_braces, _load_literal):
        data = read(text)
        if isinstance(data, dict):
            return data
    data = _repair(text)
    if isinstance(data, dict) and set(data) <= set(names):
        return data
    if text.startswith("{"):
        raise MalformedReplyError(
            f"The arguments of {call.name} are broken or end in the middle of a value, so nothing "
            "of the call was carried out. Send it again, complete; split a long one into several."
        )
    raise MalformedReplyError(
        f"The arguments of {call.name} are not a JSON object: {call.arguments[:200]!r}"
    )


def first_of(arguments: Mapping[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    """Return the value of the first of ``names`` that exists, None without any."""
    for name in names:
        if name in arguments:
            return arguments[name]
    return None


def text_of(value: Any) -> str | None:  # noqa: ANN401 - JSON
    """Return a text given as a string or as a list of lines; None for anything else."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n")
    if not isinstance(value, list):
        return None
    if not all(isinstance(line, str) for line in value):
        return None
    lines = [line.rstrip("\n") + "\n" for line in value]
    return "".join(lines)


def _load(text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        # strict=False accepts raw line ends in strings, as models write them.
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _close_braces(text: str) -> Any:  # noqa: ANN401 - JSON
    """Read an object that lacks only closing braces: no value of it can be missing."""
    brackets = []
    in_string = False
    escaped = False
    for mark in text:
        if in_string:
            in_string = escaped or mark != '"'
            escaped = mark == "\\" and not escaped
        elif mark == '"':
            in_string = True
        elif mark in "{[":
            brackets.append(mark)
        elif mark in "}]" and brackets:
            brackets.pop()
    is_in_list = "[" in brackets
    if in_string or is_in_list or text.endswith((",", ":")):
        return None
    return _load(text + "}" * len(brackets))


def _load_literal(text: str) -> Any:  # noqa: ANN401 - JSON
    """Read Python literals in place of JSON: single quotes, triple quotes, True."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _repair(text: str) -> Any:  # noqa: ANN401 - JSON
    """Try json-repair; a result that loses or adds more than marks of structure is not a repair."""
    from json_repair import repair_json

    if not text.endswith("}") or len(text) > _MAX_REPAIRED:
        return None
    try:
        data = repair_json(text, return_objects=True)
    except (ValueError, TypeError, IndexError, RecursionError):
        return None
    if _substance(_dump(data)) != _substance(text):
        return None
    return data


def _dump(data: Any) -> str:  # noqa: ANN401 - JSON
    try:
        return json.dumps(data, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return ""


def _substance(text: str) -> str:
    return _STRUCTURE.sub("", text)
