"""The sections of ``setup.cfg`` and ``tox.ini`` that test runners read. Pure.

pytest reads them with iniconfig, coverage and tox 4 with configparser. Both parsers accept more
than the grammar here, in different ways: a section for one can be text for the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_HEADER = re.compile(r"\[([^\[\]#;\n]+)\]\s*([#;].*)?$")
_OPTION = re.compile(r"([^\s\[=:#;][^=:\n]*)[=:]")
# Some parsers end a line at these.
_ODD = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff]|\r(?!\n)")
# Sections of pytest (docs.pytest.org, "Configuration"); configparser adds the options of DEFAULT to
# every section; coverage imports the plugins in its sections.
_SECTIONS = frozenset({"pytest", "tool:pytest", "DEFAULT"})
_COVERAGE = "coverage:"
# tox's sections set the command and variables, and also dependencies.
_TOX = frozenset({"tox", "tox:tox", "testenv"})
_TOX_ENVIRONMENT = "testenv:"
# pytest imports the entry points of the group pytest11 when it starts.
_KEYS = frozenset({("options.entry_points", "pytest11"), ("options", "entry_points")})
_DEPENDENCIES = frozenset({"deps", "extras", "requires", "dependency_groups", "constraints"})
_REFERENCE = re.compile(r"\{\[([^\]\n]+)\]")


@dataclass(frozen=True)
class _Block:
    """The lines of one option, or a section's head with the comments below it.

    Attributes:
        section: empty before the first one.
        key: in lower case; empty for the head.
    """

    section: str
    key: str
    text: str

    @property
    def setting(self) -> str:
        """The text without comments and blank space, which parsers ignore."""
        lines = (line.strip() for line in self.text.splitlines())
        return "\n".join(line for line in lines if line and line[0] not in "#;")


Watched = Callable[[_Block], bool]


def with_ini_settings_of(base: str, new: str) -> str:
    """Return ``new`` with the sections that test runners read taken from ``base``.

    Raises:
        ValueError: parsers could read one of them differently.
    """
    before, after = _blocks(base), _blocks(new)
    watched = _watching({name.strip() for name in _REFERENCE.findall(base + new)} - {""})
    settings = _settings(before, watched)
    if _settings(after, watched) == settings:
        return new
    merged = _put_back(before, after, watched)
    if _settings(_blocks(merged), watched) != settings:
        raise ValueError("the settings cannot be put back")
    return merged


def _blocks(text: str) -> list[_Block]:
    """Return the blocks of ``text``, in a grammar that iniconfig and configparser share."""
    if _ODD.search(text):
        raise ValueError("odd characters")
    found: list[tuple[str, str, list[str]]] = [("", "", [])]
    for line in text.splitlines(keepends=True):
        section, key, lines = found[-1]
        if line[:1] == "[":
            found.append((_head(line), "", [line]))
        elif not line.strip() or line.lstrip()[0] in "#;" or (line[0].isspace() and key):
            lines.append(line)
        elif section and (option := _OPTION.match(line)):
            found.append((section, option[1].strip().lower(), [line]))
        else:
            raise ValueError(f"neither an option nor a section: {line[:80]!r}")
    names = [(section, key) for section, key, _ in found]
    if len({*names}) < len(names):
        raise ValueError("a section or an option stands there twice")
    return [_Block(section, key, "".join(lines)) for section, key, lines in found]


def _head(line: str) -> str:
    match = _HEADER.match(line.rstrip())
    if not match or match[1] != match[1].strip():
        raise ValueError(f"not the head of a section: {line[:80]!r}")
    return match[1]


def _watching(referenced: set[str]) -> Watched:
    """Return a function that selects blocks that a runner reads; tox follows references."""

    def watched(block: _Block) -> bool:
        name, key = block.section, block.key
        of_tox = name in _TOX or name.startswith(_TOX_ENVIRONMENT) or name in referenced
        whole = name in _SECTIONS or name.startswith(_COVERAGE)
        return whole or (of_tox and key not in _DEPENDENCIES) or (name, key) in _KEYS

    return watched


def _settings(blocks: Sequence[_Block], watched: Watched) -> dict[tuple[str, str], str]:
    return {
        (block.section, block.key): block.setting if block.key else ""
        for block in blocks
        if watched(block)
    }


def _put_back(before: Sequence[_Block], after: Sequence[_Block], watched: Watched) -> str:
    """Return the text of ``after`` with its watched blocks replaced by those of ``before``."""
    base = {block.section for block in before}
    parts: list[str] = []
    placed: set[str] = set()
    for block in after:
        # A new section that a runner reads is removed completely.
        gone = block.section not in base and _is_read(block.section, watched)
        if not watched(block) and not gone:
            parts.append(block.text)
        if not block.key and not gone:
            placed.add(block.section)
            parts += [b.text for b in before if b.section == block.section and watched(b)]
    for block in before:
        if watched(block) and block.section not in placed:
            head = "" if not block.key or _is_read(block.section, watched) else block.section
            parts += [f"[{head}]\n"] if head else []
            parts.append(block.text)
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts if part)


def _is_read(section: str, watched: Watched) -> bool:
    return watched(_Block(section, "", ""))
