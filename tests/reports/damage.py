"""Pure: random damages of a file, by kind."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

# A value in JSON or YAML.
_VALUE = re.compile(rb"(?<=[:\[,]) *(\"[^\"\n]*\"|-?\d[\d.e+-]*|true|false|null)")
_OTHERS = (
    b"null", b"true", b"5", b"-1", b"1e999", b"NaN", b"9" * 5000, b'""', b'"../../x"', b'"\\ud800"',
    b"[]", b"{}", b"[5]", b'{"a": null}', b'"' + b"x" * 5000 + b'"',
)  # fmt: skip


@dataclass(frozen=True)
class DamagedLine:
    """One damage of one file."""

    number: int
    kind: str
    file: Path

    def __str__(self) -> str:
        return f"number {self.number}, {self.kind} of {'/'.join(self.file.parts[-3:])}"


def _bits(data: bytes, source: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 8))):
        place = source.randrange(len(data))
        changed[place] ^= 1 << source.randrange(8)
    return bytes(changed)


def _truncation(data: bytes, source: random.Random) -> bytes:
    # Half of the cuts are near the end.
    start = source.choice((0, max(0, len(data) - 80)))
    return data[: source.randrange(start, len(data))]


def _duplicated(data: bytes, source: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    number = source.randrange(len(lines))
    return b"".join([*lines[: number + 1], *lines[number:]])


def _swapped(data: bytes, source: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    one, other = (source.randrange(len(lines)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _nested(data: bytes, source: random.Random) -> bytes:
    depth = source.choice((90, 150, 950, 5_000, 100_000))
    begin, end = source.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"- ", b"")))
    deep = begin * depth + (b"1" + end * depth if source.random() < 0.7 else b"")
    return deep if source.random() < 0.2 else _in_place(data, deep, source)


def _other_value(data: bytes, source: random.Random) -> bytes:
    return _in_place(data, source.choice(_OTHERS), source)


def _in_place(data: bytes, value: bytes, source: random.Random) -> bytes:
    """Return ``data`` with one of its values, or else one of its lines, replaced by ``value``."""
    places = [match.span(1) for match in _VALUE.finditer(data)]
    if places:
        start, end = source.choice(places)
        return data[:start] + value + data[end:]
    lines = data.splitlines(keepends=True)
    lines[source.randrange(len(lines))] = value + b"\n"
    return b"".join(lines)


KINDS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "bit flips": _bits,
    "truncation": _truncation,
    "duplicated line": _duplicated,
    "swapped lines": _swapped,
    "deep nesting": _nested,
    "other value": _other_value,
}
