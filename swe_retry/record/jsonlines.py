"""Files with one JSON object per line: damaged lines are reported and moved to another file."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from swe_retry.core.atomic import write_bytes_atomic
from swe_retry.core.errors import DamagedFileError
from swe_retry.core.untrusted import (
    DamagedError,
    fault_of,
    object_of,
    read_bytes,
)

T = TypeVar("T")
_FIX = "move the file away, or fix it"
DAMAGED = ".damaged"
"""Suffix of the files that damaged lines are moved to."""


@dataclass(frozen=True)
class LineFormat(Generic[T]):
    """The model of a file's lines, and a value that no two of them share; None without one."""

    model: TypeAdapter[T]
    key: Callable[[T], Hashable]


@dataclass(frozen=True)
class DamagedLine:
    """A line that cannot be used.

    Attributes:
        number: of the line, from 1.
        torn: it is the last line and has no line end: a process was killed while it wrote.
    """

    path: Path
    number: int
    problem: str
    torn: bool

    def __str__(self) -> str:
        return f"{self.path}, line {self.number}: {self.problem}"


@dataclass(frozen=True)
class JsonLines(Generic[T]):
    """A file's whole lines, in order, and its damaged ones."""

    values: tuple[T, ...]
    damaged: tuple[DamagedLine, ...]

    @property
    def broken(self) -> tuple[DamagedLine, ...]:
        """The damaged lines that no kill explains."""
        return tuple(damage for damage in self.damaged if not damage.torn)


def read_lines(path: Path, kind: LineFormat[T]) -> JsonLines[T]:
    """Return the lines of the file at ``path``, none where there is no such file."""
    values = []
    damaged = []
    for _, value in _lines(path, kind):
        if isinstance(value, DamagedLine):
            damaged.append(value)
        else:
            values.append(value)
    return JsonLines(tuple(values), tuple(damaged))


def set_aside(path: Path, kind: LineFormat[T]) -> tuple[DamagedLine, ...]:
    """Move the damaged lines of a file to another one, and return them.

    They are on the disk there before they are removed here, so that nothing is lost.
    """
    intact = []
    damaged = []
    problems = []
    for raw, value in _lines(path, kind):
        if isinstance(value, DamagedLine):
            damaged.append(raw + b"\n")
            problems.append(value)
        else:
            intact.append(raw + b"\n")
    if damaged:
        with path.with_name(path.name + DAMAGED).open("ab") as stream:
            stream.writelines(damaged)
            stream.flush()
            os.fsync(stream.fileno())
        write_bytes_atomic(path, b"".join(intact))
    return tuple(problems)


def _lines(path: Path, kind: LineFormat[T]) -> Iterator[tuple[bytes, T | DamagedLine]]:
    first_lines: dict[Hashable, int] = {}
    try:
        lines = read_bytes(path).split(b"\n")
    except FileNotFoundError:
        return
    except DamagedError as error:
        raise DamagedFileError(path, f"is broken ({error})", _FIX) from error
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            value = _parsed(raw, kind)
            key = kind.key(value)
            if key in first_lines:
                raise DamagedError(f"it is the same call as line {first_lines[key]}")
            if key is not None:
                first_lines[key] = number
        except DamagedError as error:
            yield raw, DamagedLine(path, number, str(error), torn=number == len(lines))
        else:
            yield raw, value


def _parsed(raw: bytes, kind: LineFormat[T]) -> T:
    try:
        data = object_of(raw)
    except DamagedError as error:
        # The parser saw one line alone, so its line number means nothing.
        raise DamagedError(str(error).removeprefix("line 1").lstrip(":, ")) from error
    try:
        return kind.model.validate_python(data)
    except ValidationError as error:
        raise DamagedError(fault_of(error)) from error
