"""Read untrusted JSON within limits; one exception describes any problem.

The depth is limited because code that walks through a value is recursive, the size because a file
is held in memory several times.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError

MIB = 1 << 20
MOST_BYTES = 256 * MIB
"""The largest file of a run; large trajectories have tens of MiB."""
DEEPEST = 100
"""The deepest nesting of lists and objects; the harness writes ten levels."""

Keys = tuple[str | int, ...]
"""The path of names and positions to a value within a JSON value."""


class DamagedError(ValueError):
    """A text cannot be read; the message is one line, with the place if the parser knows it."""


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Raises:
        OSError: the file does not exist or cannot be read.
        DamagedError: it is no regular file, or too large.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise DamagedError("it is no regular file")
    if found.st_size > most:
        raise DamagedError(f"it has {found.st_size:,} bytes, and {most:,} are the most")
    return path.read_bytes()


def read_object(path: Path, fix: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it holds no JSON, or no object.
    """
    try:
        value = json_of(read_bytes(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        words = f"cannot be read ({error.strerror or error})"
        raise DamagedFileError(path, words, fix) from error
    except DamagedError as error:
        raise DamagedFileError(path, f"is broken ({error})", fix) from error
    if not isinstance(value, dict):
        raise DamagedFileError(path, "is broken (line 1: it is not a JSON object)", fix)
    return value


def object_of(data: bytes | str) -> dict[str, Any]:
    """Return the object of a JSON text, such as one line of a file of JSON lines.

    Raises:
        DamagedError: as ``json_of``, or it is another value.
    """
    value = json_of(data)
    if not isinstance(value, dict):
        raise DamagedError("it is not a JSON object")
    return value


def damage_at(path: Path, keys: Keys, problem: str, fix: str) -> DamagedFileError:
    """Return the error about the value at ``keys`` in a JSON file, with its line."""
    line = line_of(path.read_bytes().decode("utf-8", "replace"), keys)
    return DamagedFileError(path, f"{problem} (line {line})", fix)


def json_of(data: bytes | str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text.

    Raises:
        DamagedError: it is not UTF-8, not JSON, or nested more than ``DEEPEST`` deep.
    """
    text = data if isinstance(data, str) else text_of(data)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        words = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise DamagedError(words) from error
    except RecursionError as error:
        raise DamagedError(f"line {_deep_line(text)}: {TOO_DEEP}") from error
    except ValueError as error:  # Python's own limit of digits
        raise DamagedError("a number is too long") from error
    if _is_deep(value):
        raise DamagedError(f"line {_deep_line(text)}: {TOO_DEEP}")
    return value


_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
# Strings, so that their content is skipped, and brackets.
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)
TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"


def text_of(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DamagedError(f"line {line}: it is not UTF-8") from error


def _deep_line(text: str) -> int:
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > DEEPEST:
            return text.count("\n", 0, token.start()) + 1
    return 1


def _is_deep(value: object) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(DEEPEST):
        if not level:
            return False
        parts = [part for one in level for part in (one.values() if isinstance(one, dict) else one)]
        level = [part for part in parts if isinstance(part, (dict, list))]
    return bool(level)


def line_of(text: str, keys: Keys) -> int:
    """Return the line of the value at ``keys`` in a JSON text.

    Without such a value, returns the line of the innermost existing value.
    """
    place = _after_space(text, 0)
    for key in keys:
        found = next((start for name, start in _members(text, place) if name == key), None)
        if found is None:
            break
        place = found
    return text.count("\n", 0, place) + 1


def _members(text: str, place: int) -> Iterator[tuple[str | int, int]]:
    if text[place : place + 1] not in ("{", "["):
        return
    named, number = text[place] == "{", 0
    place = _after_space(text, place + 1)
    while text[place : place + 1] not in ("}", "]"):
        key: str | int = number
        if named:
            key, place = _DECODER.raw_decode(text, place)
            place = _after_space(text, _after_space(text, place) + 1)
        yield key, place
        _, place = _DECODER.raw_decode(text, place)
        place = _after_space(text, place)
        if text[place] == ",":
            place = _after_space(text, place + 1)
        number += 1


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place
