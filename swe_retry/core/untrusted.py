"""Read untrusted JSON within limits; one exception describes any problem.

The depth is limited because code that walks through a value is recursive, the size because a file
is held in memory several times.
"""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from swe_retry.core.errors import DamagedFileError
from swe_retry.core.plaintext import abbreviate

if TYPE_CHECKING:
    from pydantic import ValidationError

MIB = 1 << 20
MAX_BYTES = 256 * MIB
"""The largest file of a run; large trajectories have tens of MiB."""
MAX_DEPTH = 100
"""The deepest nesting of lists and objects; the harness writes ten levels."""
_MAX_FAULT = 300

Keys = tuple[str | int, ...]
"""The path of names and positions to a value within a JSON value."""


class DamagedError(ValueError):
    """A text cannot be read; the message is one line, with the place if the parser knows it."""


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    Raises:
        OSError: the file does not exist or cannot be read.
        DamagedError: it is not a regular file, or too large.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DamagedError("it is not a regular file")
    _check_size(status.st_size, limit)
    return path.read_bytes()


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise DamagedError(f"it has {size:,} bytes, and {limit:,} are the most")


def read_json(path: Path, fix: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON file.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it cannot be read.
    """
    try:
        return json_of(read_bytes(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise DamagedFileError(path, problem, fix) from error
    except DamagedError as error:
        raise DamagedFileError(path, f"is broken ({error})", fix) from error


def read_object(path: Path, fix: str) -> dict[str, Any]:
    """Return the object in a JSON file; raises like ``read_json``, also for another value."""
    value = read_json(path, fix)
    if not isinstance(value, dict):
        raise DamagedFileError(path, "is broken (it is not a JSON object)", fix)
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


def key_path(keys: Keys) -> str:
    """Return the path to a value in words: ``attempts[0].recorded``; empty for the whole value."""
    path = ""
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        else:
            path += f".{key}"
    return path.removeprefix(".")


def damage_at(path: Path, keys: Keys, problem: str, fix: str) -> DamagedFileError:
    """Return the error about the value at ``keys`` in a JSON file, with its path of keys."""
    if keys:
        problem += f" (at {key_path(keys)!a})"
    return DamagedFileError(path, problem, fix)


def invalid(
    path: Path,
    error: ValidationError,
    what: str,
    fix: str,
) -> DamagedFileError:
    """Return the error about a JSON file that does not fit its model, in one line.

    Args:
        what: what the file is not, such as ``a verdict``.
    """
    return DamagedFileError(path, f"is not {what}: {fault_of(error)}", fix)


def fault_of(error: ValidationError) -> str:
    """Return the first fault of a value in one line: the path of keys, and what was expected."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    message = errors[0]["msg"].removeprefix("Value error, ")
    # The names of our classes tell a user nothing.
    message = message.partition(" or instance of ")[0]
    fault = abbreviate(message, _MAX_FAULT)
    keys = errors[0]["loc"]
    if keys:
        fault = f"{key_path(keys)!a}: {fault}"
    return fault


def json_of(data: bytes | str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text.

    Raises:
        DamagedError: it is not UTF-8, not JSON, or nested more than ``MAX_DEPTH`` deep.
    """
    text = data if isinstance(data, str) else text_of(data)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise DamagedError(f"{position}: {error.msg}") from error
    except RecursionError as error:
        line = _deep_line(text) or 1
        raise DamagedError(f"line {line}: {TOO_DEEP}") from error
    except ValueError as error:  # Python's own limit of digits
        raise DamagedError("a number is too long") from error
    if _is_deep(value):
        raise DamagedError(f"line {_deep_line(text)}: {TOO_DEEP}")
    return value


# Strings, so that their content is skipped, and brackets.
_TOKENS = re.compile(r'(?s)"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]')
TOO_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"


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
        if depth > MAX_DEPTH:
            return text.count("\n", 0, token.start()) + 1
    return 0


def _is_deep(value: object) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        parts: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                parts.extend(container.values())
            else:
                parts.extend(container)
        level = [part for part in parts if isinstance(part, (dict, list))]
    return bool(level)


MAX_YAML = 32 * 1024
"""The largest YAML text in bytes: PyYAML reads it in a second."""


class ShallowNodes(yaml.composer.Composer):
    """Refuses deep nesting while reading, because PyYAML takes minutes for it."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401 - PyYAML's own types
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[attr-defined]
            raise yaml.MarkedYAMLError(None, None, TOO_DEEP, mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class PlainLoader(ShallowNodes, yaml.SafeLoader):
    """Loads YAML without aliases, because a few of them can expand to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, "it uses aliases (`*name`)", mark)
        return super().compose_node(parent, index)


class OnceOnly(yaml.constructor.BaseConstructor):
    """Refuses a repeated key, of which YAML silently takes the last."""

    def get_mark(self) -> yaml.Mark:
        reader: Any = self
        return yaml.Mark(reader.name, reader.index, reader.line, reader.column, None, 0)

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        keys: list[object] = []
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in keys:
                problem = f"{key!r} stands twice"
                raise yaml.MarkedYAMLError(None, None, problem, key_node.start_mark)
            keys.append(key)
        return super().construct_mapping(node, deep)


class TextLoader(ShallowNodes, OnceOnly, yaml.BaseLoader):
    """Loads every scalar as text: 1:30 is not a number of base 60."""


def yaml_of(
    text: str,
    loader: type[ShallowNodes] = PlainLoader,
    limit: int = MAX_YAML,
) -> Any:  # noqa: ANN401
    """Return the value of a YAML text.

    Raises:
        DamagedError: ``loader`` cannot read it, or it is too large or nested too deep.
    """
    _check_size(len(text.encode("utf-8", "surrogatepass")), limit)
    try:
        return yaml.load(text, loader)  # type: ignore[arg-type]
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DamagedError(
            f"line {line}: a character that YAML does not allow"
        ) from error
    except (
        yaml.YAMLError,
        RecursionError,
        TypeError,
        ValueError,
        OverflowError,
    ) as error:
        text = " ".join(str(error).split())
        raise DamagedError(text[:300]) from error
