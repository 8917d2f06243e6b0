"""Read the files of others, which are hostile input: limits, no links, one line for any damage."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from reports.data.jsonvalues import dollars, mapping, number, objects, text, whole
from reports.foreign.model import TOOL
from runs.keys import is_safe_key, shown
from runs.records import Totals

FIX = "fix it, or move it away"
_MOST_FILES = 100_000
_DEEPEST_FOLDER = 8
# A line holds one prediction.
_LONGEST_LINE = 128 * MIB


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
        found: list[Path] = []
        for folder, names, files in os.walk(root):
            place = Path(folder)
            if len(place.relative_to(root).parts) >= _DEEPEST_FOLDER:
                names.clear()
            found += (
                p
                for name in files
                if not (p := place / name).is_symlink() and p.is_file()
            )
            if len(found) > _MOST_FILES:
                raise UserError(
                    f"{root} holds more than {_MOST_FILES:,} files; name one run"
                )
        return cls(root, tuple(sorted(found)), labels)

    def ending(self, suffix: str) -> tuple[Path, ...]:
        return tuple(path for path in self.paths if path.name.endswith(suffix))

    def named(self, *names: str) -> tuple[Path, ...]:
        return tuple(path for path in self.paths if path.name in names)


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
            while line := stream.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    words = f"line {number} has more than {_LONGEST_LINE:,} bytes"
                    raise DamagedFileError(path, f"is broken ({words})", FIX)
                line = line.strip()
                for part in line.split(b"}\\n{") if line else ():
                    part = part.removesuffix(b"\\n")
                    start = b"" if line.startswith(part) else b"{"
                    end = b"" if line.removesuffix(b"\\n").endswith(part) else b"}"
                    yield number, object_of(start + part + end)
    except OSError as error:
        words = f"cannot be read ({error.strerror or error})"
        raise DamagedFileError(path, words, FIX) from error
    except DamagedError as error:
        words = str(error).removeprefix("line 1").lstrip(":, ")
        raise DamagedFileError(
            path, f"is broken (line {number}: {words})", FIX
        ) from error


def checked_id(path: Path, name: object) -> str:
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not is_safe_key(name) or len(name) > 200:
        raise DamagedFileError(
            path, f"is broken ({shown(name)} cannot be an instance id)", FIX
        )
    return name


def patch_of(path: Path, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise DamagedFileError(
            path, f"is broken (the patch {shown(value)} is not a text)", FIX
        )
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise DamagedFileError(
            path, "is broken (a patch contains an unpaired surrogate)", FIX
        ) from None
    return value


def content_text(value: object) -> str:
    """Return the text of a message's content: a text, or a list of parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    parts = (part.get("text") if isinstance(part, Mapping) else part for part in value)
    return "\n".join(part for part in parts if isinstance(part, str))


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
    return {"input": finite(arguments)} if arguments else {}


def tool_call_of(name: object, arguments: object, id: object = "") -> ToolCall:
    written = json.dumps(arguments_of(arguments), ensure_ascii=False)
    return ToolCall(text(name), written, text(id))


def finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with NaN and infinities as texts: no JSON standard has them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list) else value


def tool_calls_of(calls: object) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message in OpenAI's form, flat or with ``function`` nested."""
    tool_calls = []
    for call in objects(calls):
        nested = call.get("function")
        function = nested if isinstance(nested, Mapping) else call
        name, arguments = function.get("name"), function.get("arguments")
        tool_calls.append(tool_call_of(name, arguments, call.get("id")))
    return tuple(tool_calls)


def totals_of(value: object) -> Totals:
    """Return the totals in a value of a file; None where one is unknown."""
    values = mapping(value)
    counts = {name: whole(values.get(name)) for name in Totals().counts()}
    return Totals(**counts, cost=dollars(values.get("cost")))


def reply_of(totals: Totals, seconds: object = None) -> Reply:
    """Return what a message of the model cost; its text stands in the message."""
    return Reply("", usage=totals, cost=totals.cost, seconds=number(seconds) or 0.0)


def message_of(message: Mapping[str, Any], role: str) -> Message:
    """Return a message in OpenAI's form."""
    answered = text(message.get("tool_call_id")) if role == TOOL else ""
    calls = () if role == TOOL else tool_calls_of(message.get("tool_calls"))
    return Message(
        role=role or "unknown",
        content=content_text(message.get("content")),
        tool_calls=calls,
        tool_call_id=answered,
        lane=whole(message.get("lane")) or 0,
        reasoning=text(message.get("reasoning_content")),
    )
