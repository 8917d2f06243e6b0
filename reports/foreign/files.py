"""Read the files of others, which are hostile input: limits, no links, one line for any damage."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError, UserError
from core.parsing.untrusted import (
    MIB,
    DamagedError,
    json_of,
    object_of,
    read_json,
    read_object,
)
from llm.chat import Message, Reply, ToolCall
from reports.data.jsonvalues import dollars, integer, mapping, number, objects, text
from reports.foreign.model import TOOL
from runs.keys import is_safe_key, shown
from runs.records import Totals

FIX = "fix it, or move it away"
_MAX_FILES = 100_000
_MAX_FOLDERS = 8
# A line holds one prediction.
_MAX_LINE = 128 * MIB


@dataclass(frozen=True)
class RunFiles:
    """A file, or the regular files below a folder; links are left out."""

    root: Path  # as the user named it
    paths: tuple[Path, ...]  # sorted
    labels: bool = True  # whether files of verdicts beside the run are read

    @classmethod
    def below(cls, root: Path, *, labels: bool = True) -> RunFiles:
        if root.is_file():
            return cls(root, (root,), labels)
        paths: list[Path] = []
        for folder, subfolders, names in os.walk(root):
            parts = Path(folder).relative_to(root).parts
            if len(parts) >= _MAX_FOLDERS:
                subfolders.clear()
            for name in names:
                path = Path(folder, name)
                if not path.is_symlink() and path.is_file():
                    paths.append(path)
            if len(paths) > _MAX_FILES:
                raise UserError(
                    f"{root} holds more than {_MAX_FILES:,} files; name one run"
                )
        paths.sort()
        return cls(root, tuple(paths), labels)

    def ending(self, suffix: str) -> tuple[Path, ...]:
        return tuple(path for path in self.paths if path.name.endswith(suffix))

    def named(self, *names: str) -> tuple[Path, ...]:
        return tuple(path for path in self.paths if path.name in names)


def broken(path: Path, reason: str) -> DamagedFileError:
    return DamagedFileError(path, f"is broken ({reason})", FIX)


def json_at(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    return read_json(path, FIX)


def object_at(path: Path) -> dict[str, Any]:
    return read_object(path, FIX)


def objects_of_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines, each with its number, without blank lines.

    A literal ``\\n`` between objects also ends a line: SWE-agent's documented converter writes it.
    """
    number = 0
    try:
        with path.open("rb") as stream:
            while line := stream.readline(_MAX_LINE + 1):
                number += 1
                if len(line) > _MAX_LINE:
                    raise broken(
                        path, f"line {number} has more than {_MAX_LINE:,} bytes"
                    )
                line = line.strip()
                if not line:
                    continue
                line = line.removesuffix(b"\\n")
                line = line.replace(b"}\\n{", b"}\n{")
                for part in line.split(b"\n"):
                    yield number, object_of(part)
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise DamagedFileError(path, problem, FIX) from error
    except DamagedError as error:
        reason = str(error).removeprefix("line 1").lstrip(":, ")
        raise broken(path, f"line {number}: {reason}") from error


def value_at(value: object, *keys: str) -> object:
    """Return the value at a path of keys in a JSON value, None if there is none."""
    for key in keys:
        value = mapping(value).get(key)
    return value


def checked_id(path: Path, name: object) -> str:
    if type(name) is int:
        name = str(name)
    if isinstance(name, str) and is_safe_key(name) and len(name) <= 200:
        return name
    raise broken(path, f"{shown(name)} cannot be an instance id")


def patch_of(path: Path, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise broken(path, f"the patch {shown(value)} is not a text")
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise broken(path, "a patch contains an unpaired surrogate") from None
    return value


def content_text(value: object) -> str:
    """Return the text of a message's content: a text, or a list of parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    lines = []
    for part in value:
        if isinstance(part, Mapping):
            part = part.get("text")
        if isinstance(part, str):
            lines.append(part)
    return "\n".join(lines)


def arguments_of(arguments: object) -> dict[str, Any]:
    """Return the arguments of a call; a text that is not a JSON object stands under ``input``."""
    parsed = arguments
    if isinstance(arguments, str):
        try:
            parsed = json_of(arguments)
        except DamagedError:
            parsed = None
    if isinstance(parsed, dict):
        return dict(finite(parsed))
    if arguments:
        return {"input": finite(arguments)}
    return {}


def tool_call_of(
    name: object,
    arguments: object,
    id: object = "",
) -> ToolCall:
    written = json.dumps(arguments_of(arguments), ensure_ascii=False)
    return ToolCall(text(name), written, text(id))


def finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with NaN and infinities as texts: no JSON standard has them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(finite, value))
    return value


def tool_calls_of(calls: object) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message in OpenAI's form, flat or with ``function`` nested."""
    tool_calls = []
    for call in objects(calls):
        function = call.get("function")
        if not isinstance(function, Mapping):
            function = call
        tool_call = tool_call_of(
            function.get("name"),
            function.get("arguments"),
            call.get("id"),
        )
        tool_calls.append(tool_call)
    return tuple(tool_calls)


def totals_of(value: object) -> Totals:
    """Return the totals in a value of a file; None where one is unknown."""
    values = mapping(value)
    counts = {name: integer(values.get(name)) for name in Totals().counts()}
    cost = dollars(values.get("cost"))
    return Totals(**counts, cost=cost)


def reply_of(totals: Totals, seconds: object = None) -> Reply:
    """Return what a message of the model cost; its text stands in the message."""
    return Reply(
        content="",
        usage=totals,
        cost=totals.cost,
        seconds=number(seconds) or 0.0,
    )


def message_of(
    message: Mapping[str, Any],
    role: str,
) -> Message:
    """Return a message in OpenAI's form."""
    result = Message(
        role=role or "unknown",
        content=content_text(message.get("content")),
        lane=integer(message.get("lane")) or 0,
        reasoning=text(message.get("reasoning_content")),
    )
    if role == TOOL:
        id = text(message.get("tool_call_id"))
        return replace(result, tool_call_id=id)
    tool_calls = tool_calls_of(message.get("tool_calls"))
    return replace(result, tool_calls=tool_calls)
