"""The tree under test: a candidate without its changes of tests and of how tests run. Pure.

Settings are put back by our own readers, which refuse what parsers read differently: ConfigUpdater
takes a section behind a form feed or a lone return, and text behind a section's head; tomlkit takes
six to thirteen times as long as tomllib.
"""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from agent.workspace import TextFile
from bench.regression.runners.shell import Read
from bench.repos.patches import (
    RUNNER_CONFIGURATION,
    SOURCE_ROOTS,
    STARTUP_MODULES,
    TEST_CONFIGURATION,
    is_excluded,
    split_patch,
)
from core.worktree import Changes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Per line: the time of TOML's parser grows with the square of a dotted name's length.
_MOST_DOTS = 150
# Elements of arrays look similar, but are indented or end in a comma.
_TABLE = re.compile(r"\[[^,\n]*\]\s*(#.*)?$")
# As for ini files below; tox's dependencies are in the same tables as its commands.
_TABLES = (
    ("tool", "pytest"),
    ("tool", "coverage"),
    ("tool", "tox"),
    ("project", "entry-points", "pytest11"),
    ("tool", "poetry", "plugins", "pytest11"),
    ("tool", "flit", "entrypoints", "pytest11"),
    ("tool", "setuptools", "dynamic", "entry-points"),
)


def with_toml_settings_of(base: str, new: str) -> str:
    """Return ``new`` with the tables that test runners read taken from ``base``."""
    if max(line.count(".") for line in [*base.split("\n"), *new.split("\n")]) > _MOST_DOTS:
        raise ValueError("a line has too many dots")
    before, after = tomllib.loads(base), tomllib.loads(new)
    if _picked(before) == _picked(after):
        return new
    taken, left = _parted(base)[0], _parted(new)[1]
    merged = "\n".join((left.removesuffix("\n"), taken)) if taken else left
    found = tomllib.loads(merged)
    if _picked(found) != _picked(before) or _without_picked(found) != _without_picked(after):
        raise ValueError("the settings cannot be put back")
    return merged


def _parted(text: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if _TABLE.match(line)]
    ours: list[str] = []
    others = lines[: starts[0] if starts else len(lines)]
    for start, end in pairwise([*starts, len(lines)]):
        names = _table(lines[start])
        read = any(names[: len(table)] == table for table in _TABLES)
        (ours if read else others).extend(lines[start:end])
    return "".join(ours), "".join(others)


def _table(line: str) -> tuple[str, ...]:
    try:
        found: Any = tomllib.loads(line)
    except ValueError:
        return ()
    names: list[str] = []
    while found:
        (name, found) = next(iter(found.items())) if isinstance(found, dict) else ("", found[0])
        names += [name] if name else []
    return tuple(names)


def _picked(document: Mapping[str, Any]) -> list[Any]:
    return [_at(document, table) for table in _TABLES]


def _at(document: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - whatever TOML has
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _without_picked(document: Mapping[str, Any]) -> Mapping[str, Any]:
    rest = copy.deepcopy(dict(document))
    for table in _TABLES:
        above = _at(rest, table[:-1])
        if isinstance(above, dict):
            above.pop(table[-1], None)
        for depth in range(len(table) - 1, 0, -1):
            above = _at(rest, table[: depth - 1])
            if isinstance(above, dict) and above.get(table[depth - 1]) == {}:
                del above[table[depth - 1]]
    return rest


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
        lines = (line.strip() for line in self.text.splitlines())
        return "\n".join(line for line in lines if line and line[0] not in "#;")


Watched = Callable[[_Block], bool]


def with_ini_settings_of(base: str, new: str) -> str:
    """Return ``new`` with the sections that test runners read taken from ``base``."""
    before, after = _blocks(base), _blocks(new)
    referenced = {name.strip() for name in _REFERENCE.findall(base + new)} - {""}

    def watched(block: _Block) -> bool:
        name, key = block.section, block.key
        of_tox = name in _TOX or name.startswith(_TOX_ENVIRONMENT) or name in referenced
        whole = name in _SECTIONS or name.startswith(_COVERAGE)
        return whole or (of_tox and key not in _DEPENDENCIES) or (name, key) in _KEYS

    settings = _settings(before, watched)
    if _settings(after, watched) == settings:
        return new
    merged = _put_back(before, after, watched)
    if _settings(_blocks(merged), watched) != settings:
        raise ValueError("the settings cannot be put back")
    return merged


def _blocks(text: str) -> list[_Block]:
    if _ODD.search(text):
        raise ValueError("odd characters")
    found: list[tuple[str, str, list[str]]] = [("", "", [])]
    for line in text.splitlines(keepends=True):
        section, key, lines = found[-1]
        if line[:1] == "[":
            head = _HEADER.match(line.rstrip())
            if not head or head[1] != head[1].strip():
                raise ValueError(f"not the head of a section: {line[:80]!r}")
            found.append((head[1], "", [line]))
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


def _settings(blocks: Sequence[_Block], watched: Watched) -> dict[tuple[str, str], str]:
    return {
        (block.section, block.key): block.setting if block.key else ""
        for block in blocks
        if watched(block)
    }


def _put_back(before: Sequence[_Block], after: Sequence[_Block], watched: Watched) -> str:
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


# With installed entry points; below, sympy's runner.
_WHOLE = TEST_CONFIGURATION | {f"{name}.py" for name in STARTUP_MODULES} | {"entry_points.txt"}
_RUNNERS = frozenset({"bin/test"})


class ConfigurationEdits(Enum):
    """How much of a candidate is test configuration."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True)
class TreeUnderTest:
    """The tree in which a candidate's tests run.

    Attributes:
        configuration: sorted files whose edits of test configuration were removed.
    """

    changes: Changes
    configuration: tuple[str, ...] = ()

    def edits(self, plugins: Collection[str]) -> ConfigurationEdits:
        """Tell how much of the candidate is test configuration, including its ``plugins``."""
        if not self.changes.keys() - {*plugins} and (plugins or self.configuration):
            return ConfigurationEdits.ALL
        return ConfigurationEdits.SOME if self.configuration else ConfigurationEdits.NONE


def may_configure_tests(path: str) -> bool:
    """Return whether an edit of the existing file ``path`` may change how tests run."""
    name = PurePosixPath(path).name
    named = name in _WHOLE or RUNNER_CONFIGURATION.fullmatch(name) is not None
    return named or path in _RUNNERS or path.endswith(".pth") or is_shared(path)


def plugins_of(patch: str) -> frozenset[str]:
    """Return the new modules of a raw patch that are named in its edits of test configuration.

    Without these edits they do nothing.
    """
    parts = tuple(split_patch(patch.encode("utf-8", "surrogateescape")))
    edits = b"\n".join(part.data for part in parts if may_configure_tests(part.path))
    new = [part.path for part in parts if part.new and part.path.endswith(".py")]
    found = set()
    for path in new if edits else ():
        names = PurePosixPath(path.removesuffix("/__init__.py")).with_suffix("").parts
        dotted = ".".join(names[1:] if names[0] in SOURCE_ROOTS and len(names) > 1 else names)
        if re.search(rb"(?<![\w.])" + re.escape(os.fsencode(dotted)) + rb"(?!\w)", edits):
            found.add(path)
    return frozenset(found)


def tree_under_test(changes: Changes, files: Collection[str], read: Read) -> TreeUnderTest:
    """Return the tree of ``changes`` with the base commit's tests and test configuration."""
    known = frozenset(files)
    kept: dict[str, bytes | None] = {}
    configuration = []
    for path, data in changes.items():
        new = path not in known
        if is_excluded(path, new=new):
            continue
        if not may_configure_tests(path) or (new and not is_shared(path)):
            kept[path] = data
            continue
        file = _kept_file(path, "" if new else read(path), data)
        kept.update(file)
        if file != {path: data}:
            configuration.append(path)
    return TreeUnderTest(kept, tuple(sorted(configuration)))


def _kept_file(path: str, base: str | None, data: bytes | None) -> Changes:
    """Return the change of a file with the base's test configuration; empty if nothing is left."""
    if data is not None and TextFile.decode(data).text == base:
        return {path: data}
    try:
        text = "" if data is None else data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return {}
    if base is None or not is_shared(path):
        return {}
    found = with_settings_of(path, base, text)
    if found == text:
        return {path: data}
    # A deleted file can only be restored completely.
    kept = None not in (found, data) and found != base
    return {path: found.encode()} if kept and found else {}


# Characters. Real files have up to 30,000; longer ones could slow down a parser.
_LARGEST = 100_000
# Parsers differ in where they see settings, so a change may not add these words anywhere.
_TELLING = re.compile(r"ini_options|pytest11|tool:pytest|\[pytest\]")


def with_settings_of(path: str, base: str, new: str) -> str | None:
    """Return ``new`` with the settings that a test runner reads taken from ``base``."""
    if max(len(base), len(new)) > _LARGEST:
        return None
    try:
        found = _FORMATS[PurePosixPath(path).name](base, new)
    except (ValueError, RecursionError):
        return None
    brought_in = len(_TELLING.findall(found)) > len(_TELLING.findall(base))
    return None if brought_in else found


def is_shared(path: str) -> bool:
    """Return whether ``path`` may hold settings of test runners beside others."""
    return PurePosixPath(path).name in _FORMATS


_FORMATS: Mapping[str, Callable[[str, str], str]] = {
    "pyproject.toml": with_toml_settings_of,
    "setup.cfg": with_ini_settings_of,
    # Code under test, unless its change mentions plugins of pytest.
    "setup.py": lambda _, new: new,
    "tox.ini": with_ini_settings_of,
}
