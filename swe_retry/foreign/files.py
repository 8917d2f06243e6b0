"""Read the files of others, which are hostile input: limits, no links, one line for any damage."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from swe_retry.core.errors import DamagedFileError, UserError
from swe_retry.core.jsontypes import JsonObject, object_at, text_at
from swe_retry.core.untrusted import (
    MIB,
    DamagedError,
    json_of,
    object_of,
    read_json,
    read_object,
)
from swe_retry.llm.chat import Reply, ToolCall
from swe_retry.record.keys import is_safe_key, quoted_name
from swe_retry.record.records import Totals
from swe_retry.results.jsonvalues import dollars, integer, number

FIX = "fix it, or move it away"
_MAX_FILES = 100_000
_MAX_FOLDERS = 8
_MAX_ID = 200
# A line holds one prediction.
_MAX_LINE = 128 * MIB


def files_below(root: Path) -> list[Path]:
    """Return the regular files below a folder, sorted, without links; of a file itself alone."""
    if root.is_file():
        return [root]
    paths = []
    for folder, subfolders, names in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        if depth >= _MAX_FOLDERS:
            subfolders.clear()
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                paths.append(path)
        if len(paths) > _MAX_FILES:
            raise UserError(
                f"{root} holds more than {_MAX_FILES:,} files; name one run"
            )
    return sorted(paths)


def files_ending(paths: Sequence[Path], suffix: str) -> list[Path]:
    return [path for path in paths if path.name.endswith(suffix)]


def broken(path: Path, reason: str) -> DamagedFileError:
    return DamagedFileError(path, f"is broken ({reason})", FIX)


def json_of_file(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    return read_json(path, FIX)


def object_of_file(path: Path) -> JsonObject:
    return read_object(path, FIX)


def objects_of_lines(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield the objects of a file of JSON lines, each with its number, without blank lines.

    A literal ``\\n`` between objects also ends a line: SWE-agent's documented converter writes it.
    """
    try:
        with path.open("rb") as stream:
            lines = iter(partial(stream.readline, _MAX_LINE + 1), b"")
            for number, line in enumerate(lines, 1):
                if len(line) > _MAX_LINE:
                    raise broken(
                        path, f"line {number} has more than {_MAX_LINE:,} bytes"
                    )
                line = line.strip()
                if line:
                    line = line.removesuffix(b"\\n")
                    line = line.replace(b"}\\n{", b"}\n{")
                    for part in line.split(b"\n"):
                        yield number, object_of(part)
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise DamagedFileError(path, problem, FIX) from error
    except DamagedError as error:
        reason = str(error).removeprefix("line 1")
        reason = reason.lstrip(":, ")
        raise broken(path, f"line {number}: {reason}") from error


def checked_id(path: Path, name: object) -> str:
    if type(name) is int:
        name = str(name)
    if isinstance(name, str) and is_safe_key(name) and len(name) <= _MAX_ID:
        return name
    raise broken(path, f"{quoted_name(name)} cannot be an instance id")


def checked_patch(path: Path, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise broken(path, f"the patch {quoted_name(value)} is not a text")
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


def arguments_of(arguments: object) -> JsonObject:
    """Return the arguments of a call; a text that is not a JSON object stands under ``input``."""
    parsed = arguments
    if isinstance(arguments, str):
        try:
            parsed = json_of(arguments)
        except DamagedError:
            parsed = None
    if isinstance(parsed, dict):
        return dict(_finite(parsed))
    if arguments:
        return {"input": _finite(arguments)}
    return {}


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with NaN and infinities as texts: no JSON standard has them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_finite, value))
    return value


def tool_call_of(name: object, arguments: object, id: object) -> ToolCall:
    written = json.dumps(arguments_of(arguments), ensure_ascii=False)
    return ToolCall(text_at(name), written, text_at(id))


def totals_of(value: object) -> Totals:
    """Return the totals in a value of a file; None where one is unknown."""
    values = object_at(value)
    counts = {}
    for name in Totals().counts():
        counts[name] = integer(values.get(name))
    return Totals(**counts, cost=dollars(values.get("cost")))


def reply_of(totals: object, seconds: object = None) -> Reply:
    """Return what a message of the model cost; its text stands in the message."""
    usage = totals_of(totals)
    return Reply(
        content="",
        usage=usage,
        cost=usage.cost,
        seconds=number(seconds) or 0.0,
    )
