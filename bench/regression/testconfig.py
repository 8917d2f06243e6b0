"""The tree under test: a candidate without its changes of tests and of how tests run. Pure.

The parsers of the test runners decide what their settings are: iniconfig is pytest's, configparser
is that of coverage, tox and setuptools.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import iniconfig

from agent.workspace import TextFile
from bench.regression.runners.shell import Read
from core.worktree import Changes
from runs.patches import (
    RUNNER_CONFIGURATION,
    SOURCE_ROOTS,
    STARTUP_MODULES,
    TEST_CONFIGURATION,
    is_excluded,
    split_patch,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class FileEdit(Enum):
    """What an edit changes in a file that holds settings of test runners beside others."""

    OTHERS = "others"
    SETTINGS = "settings"
    BOTH = "both"


def _compare(
    base: Mapping[str, Any],
    new: Mapping[str, Any],
    is_setting: Callable[..., bool],
) -> FileEdit:
    before = dict(_named_values((), base))
    after = dict(_named_values((), new))
    settings = 0
    others = 0
    for name in before.keys() | after.keys():
        if before.get(name) == after.get(name):
            continue
        if is_setting(*name):
            settings += 1
        else:
            others += 1
    if not settings:
        return FileEdit.OTHERS
    return FileEdit.BOTH if others else FileEdit.SETTINGS


def _named_values(
    name: tuple[str, ...], value: object
) -> Iterator[tuple[tuple[str, ...], object]]:
    # An empty table is a value: an empty section may decide where pytest starts.
    if not isinstance(value, Mapping) or not value:
        yield name, value
        return
    for key, inner in value.items():
        yield from _named_values((*name, key), inner)


# Per line: the time of TOML's parser grows with the square of a dotted name's length.
_MAX_DOTS = 150
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


def _compare_toml(base: str, new: str) -> FileEdit:
    return _compare(_toml_values(base), _toml_values(new), _is_in_table)


def _toml_values(text: str) -> Mapping[str, Any]:
    for line in text.split("\n"):
        if line.count(".") > _MAX_DOTS:
            raise ValueError("a line has too many dots")
    values: Mapping[str, Any] = tomllib.loads(text)
    return values


def _is_in_table(*name: str) -> bool:
    return any(name[: len(table)] == table for table in _TABLES)


# Only some parsers end a line at these. The time of configparser grows with the square of a run of
# spaces.
_REFUSED = re.compile(r"[\r\v\f\x1c-\x1e\x85\u2028\u2029]|[^\S\n]{100}")
# Sections of pytest (docs.pytest.org, "Configuration"); configparser adds the options of DEFAULT to
# every section; coverage imports the plugins in its sections.
_SECTION = re.compile(r"(tool:)?pytest|DEFAULT|coverage:.*")
# tox's sections set the command and variables, and also dependencies.
_TOX_SECTION = re.compile(r"(tox:)?tox|testenv(:.*)?")
# pytest imports the entry points of the group pytest11 when it starts.
_ENTRY_POINTS = frozenset(
    {("options.entry_points", "pytest11"), ("options", "entry_points")}
)
_DEPENDENCIES = frozenset(
    {"deps", "extras", "requires", "dependency_groups", "constraints"}
)
_REFERENCE = re.compile(r"\{\[([^\[\]\n]+)\]")


def _compare_ini(base: str, new: str) -> FileEdit:
    references = _REFERENCE.findall(base + new)
    referenced = set(map(str.strip, references))

    def is_setting(_parser: str, section: str, option: str = "") -> bool:
        if _SECTION.fullmatch(section):
            return True
        if _TOX_SECTION.fullmatch(section) or section in referenced:
            return option not in _DEPENDENCIES
        return (section, option) in _ENTRY_POINTS

    return _compare(_ini_values(base), _ini_values(new), is_setting)


def _ini_values(text: str) -> Mapping[str, Any]:
    if _REFUSED.search(text):
        raise ValueError("parsers may read it differently")
    # pytest's parser comes first: it refuses much on which the other one takes long.
    sections = iniconfig.IniConfig("", data=text).sections
    parser = configparser.RawConfigParser(default_section="")
    parser.read_string(text)
    # A file without sections is no empty table, which would be a value.
    return {
        "iniconfig": {"": {}, **sections},
        "configparser": parser,
    }


# With installed entry points.
_CONFIGURATION_FILES = (
    TEST_CONFIGURATION
    | {f"{name}.py" for name in STARTUP_MODULES}
    | {"entry_points.txt"}
)
_SYMPY_RUNNER = "bin/test"


class ConfigurationEdits(Enum):
    """How much of a candidate is test configuration."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True)
class TreeUnderTest:
    """The tree in which a candidate's tests run.

    Attributes:
        configuration: sorted files whose edits were left out, because of test configuration.
        mixed: those of them whose edits change other things too, so that tests cannot tell.
    """

    changes: Changes
    configuration: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()

    def edits(self, plugins: Collection[str]) -> ConfigurationEdits:
        """Tell how much of the candidate is test configuration, including its ``plugins``."""
        others = self.mixed or self.changes.keys() - set(plugins)
        if not others and (plugins or self.configuration):
            return ConfigurationEdits.ALL
        if self.configuration:
            return ConfigurationEdits.SOME
        return ConfigurationEdits.NONE


def may_configure_tests(path: str) -> bool:
    """Return whether an edit of the existing file ``path`` may change how tests run."""
    name = PurePosixPath(path).name
    if (
        name in _CONFIGURATION_FILES
        or name in _FORMATS
        or RUNNER_CONFIGURATION.fullmatch(name)
    ):
        return True
    return path == _SYMPY_RUNNER or path.endswith(".pth")


def plugins_of(patch: str) -> frozenset[str]:
    """Return the new modules of a raw patch that are named in its edits of test configuration.

    Without these edits they do nothing.
    """
    new_modules = []
    edits = []
    for part in split_patch(patch.encode("utf-8", "surrogateescape")):
        if may_configure_tests(part.path):
            edits.append(part.data)
        if part.new and part.path.endswith(".py"):
            new_modules.append(part.path)
    settings = b"\n".join(edits)
    plugins = set()
    for path in new_modules:
        # Not a part of a longer dotted name.
        name = re.escape(os.fsencode(_module_name(path)))
        if re.search(rb"(?<![\w.])" + name + rb"(?!\w)", settings):
            plugins.add(path)
    return frozenset(plugins)


def _module_name(path: str) -> str:
    module = PurePosixPath(path.removesuffix("/__init__.py"))
    parts = module.with_suffix("").parts
    if parts[0] in SOURCE_ROOTS and len(parts) > 1:
        parts = parts[1:]
    return ".".join(parts)


def tree_under_test(
    changes: Changes, files: Collection[str], read: Read
) -> TreeUnderTest:
    """Return the tree of ``changes`` with the base commit's tests and test configuration.

    A file is taken from the base commit as a whole where one of its settings changes.
    """
    base_files = frozenset(files)
    remaining: dict[str, bytes | None] = {}
    configuration = []
    mixed = []
    for path, data in changes.items():
        new = path not in base_files
        if is_excluded(path, new=new):
            continue
        if not may_configure_tests(path) or (new and not _is_shared(path)):
            remaining[path] = data
            continue
        base = "" if new else read(path)
        edit = _edit_of(path, base, data)
        if edit is FileEdit.OTHERS:
            remaining[path] = data
            continue
        configuration.append(path)
        if edit is FileEdit.BOTH:
            mixed.append(path)
    return TreeUnderTest(
        changes=remaining,
        configuration=tuple(sorted(configuration)),
        mixed=tuple(sorted(mixed)),
    )


# Characters. Real files have up to 30,000; longer ones could slow down a parser.
_MAX_CHARACTERS = 100_000
# Parsers of other versions may see settings elsewhere, so a change may not add these words.
_SETTING_WORDS = re.compile(r"ini_options|pytest11|tool:pytest|\[pytest\]")


def _edit_of(
    path: str,
    base: str | None,
    data: bytes | None,
) -> FileEdit:
    """Return what an edit changes; settings, where a parser refuses the file."""
    if data is not None and TextFile.decode(data).text == base:
        return FileEdit.OTHERS
    if base is None or not _is_shared(path):
        return FileEdit.SETTINGS
    try:
        new = (data or b"").decode("utf-8")
        new = new.replace("\r\n", "\n")
        if max(len(base), len(new)) > _MAX_CHARACTERS:
            return FileEdit.SETTINGS
        compare = _FORMATS[PurePosixPath(path).name]
        edit = compare(base, new)
    except (ValueError, RecursionError, configparser.Error, iniconfig.ParseError):
        return FileEdit.SETTINGS
    words_before = len(_SETTING_WORDS.findall(base))
    words_after = len(_SETTING_WORDS.findall(new))
    if words_after > words_before and edit is FileEdit.OTHERS:
        return FileEdit.SETTINGS
    return edit


def _is_shared(path: str) -> bool:
    """Return whether ``path`` may hold settings of test runners beside others."""
    return PurePosixPath(path).name in _FORMATS


_FORMATS: Mapping[str, Callable[[str, str], FileEdit]] = {
    "pyproject.toml": _compare_toml,
    "setup.cfg": _compare_ini,
    # Code under test, unless its change mentions plugins of pytest.
    "setup.py": lambda _base, _new: FileEdit.OTHERS,
}
