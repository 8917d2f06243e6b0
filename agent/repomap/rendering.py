"""Render the chosen files and definitions as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from agent.repomap.scanning.tags import Definition

_WIDTH = 100
_NAMES_WIDTH = 100
_MOST_DECORATORS = 3


class Form(IntEnum):
    """How much of a definition is shown."""

    NAME = 1
    SIGNATURE = 2
    DOCUMENTED = 3


@dataclass(frozen=True)
class FileEntry:
    """One file of the map.

    Attributes:
        definitions: by place in the file, at least those that are shown and those around them.
        shown: place to form; definitions around a shown one are shown at least by name.
    """

    path: str
    definitions: Mapping[int, Definition]
    shown: Mapping[int, Form]

    def visible(self) -> set[int]:
        """Return the places of all definitions that the map names: shown ones and those around."""
        wanted = set(self.shown)
        for number in self.shown:
            parent = self.definitions[number].parent
            while parent >= 0 and parent not in wanted:
                wanted.add(parent)
                parent = self.definitions[parent].parent
        return wanted


def render_file(entry: FileEntry) -> list[str]:
    """Return the lines for one file: its path, then definitions in their order, nested by indent.

    Definitions that are shown by name share lines after those with signatures.
    """
    children: dict[int, list[int]] = {}
    for number in sorted(entry.visible()):
        children.setdefault(entry.definitions[number].parent, []).append(number)
    lines = [f"{_printable(entry.path)}:"]
    _render_level(entry, children, -1, " ", lines)
    return lines


def _render_level(
    entry: FileEntry, children: Mapping[int, list[int]], parent: int, indent: str, lines: list[str]
) -> None:
    plain: list[str] = []
    for number in children.get(parent, ()):
        definition = entry.definitions[number]
        form = entry.shown.get(number, Form.NAME)
        if form is Form.NAME and number not in children:
            plain.append(definition.name)
            continue
        lines += _head(definition, form, indent)
        _render_level(entry, children, number, indent + " ", lines)
    lines += _wrapped(plain, indent)


def _head(definition: Definition, form: Form, indent: str) -> list[str]:
    if form is Form.NAME:
        before = definition.signature.partition(definition.name)[0]
        return [_clipped(f"{indent}{before}{definition.name}")]
    lines = [_clipped(indent + d) for d in definition.decorators[:_MOST_DECORATORS]]
    lines.append(_clipped(indent + definition.signature))
    if form is Form.DOCUMENTED and definition.doc:
        lines.append(_clipped(f"{indent}  # {definition.doc}"))
    return lines


def _wrapped(names: Sequence[str], indent: str) -> list[str]:
    """Return ``names`` after ``+``, in lines of a limited width."""
    lines: list[str] = []
    for name in dict.fromkeys(names):
        if lines and len(lines[-1]) + len(name) < _NAMES_WIDTH:
            lines[-1] += f", {name}"
        else:
            lines.append(f"{indent}+ {name}")
    return lines


def _printable(path: str) -> str:
    """Return ``path`` for a model: on one line, with ``?`` for bytes that are no UTF-8."""
    return "?".join(path.splitlines()).encode("utf-8", "replace").decode()


def _clipped(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
