"""The tree under test: a candidate without its changes of tests and of how tests run. Pure.

What the command of the tests reads is taken from the base commit. An edit of a file that says how
tests run and how the project is built at once leaves the outcome unknown. The parsers of the test
runners decide what their settings are: iniconfig is pytest's, configparser is that of coverage, tox
and setuptools.
"""

from __future__ import annotations

import configparser
import os
import posixpath
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import PurePosixPath

import iniconfig

from swe_retry.agent.workspace import TextFile
from swe_retry.core.jsontypes import JsonMapping
from swe_retry.core.untrusted import object_of
from swe_retry.core.worktree import Changes
from swe_retry.frameworks import OF_PYTHON, Runner, runner_of
from swe_retry.frameworks.shell import Read, expand_scripts, simple_commands
from swe_retry.record.patches import (
    RUNNER_CONFIGURATION,
    STARTUP_MODULES,
    TEST_CONFIGURATION,
    is_excluded,
    split_patch,
)
from swe_retry.testing.related import module_parts


class FileEdit(Enum):
    """What an edit changes in a file that holds settings of test runners beside others."""

    OTHERS = "others"
    SETTINGS = "settings"
    BOTH = "both"


def _compare(
    base: str,
    new: str,
    read: Callable[[str], JsonMapping],
    is_setting: Callable[..., bool],
) -> FileEdit:
    before = dict(_named_values((), read(base)))
    after = dict(_named_values((), read(new)))
    names = before.keys() | after.keys()
    changed = [name for name in names if before.get(name) != after.get(name)]
    settings = [name for name in changed if is_setting(*name)]
    if not settings:
        return FileEdit.OTHERS
    return FileEdit.SETTINGS if settings == changed else FileEdit.BOTH


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


def _toml_values(text: str) -> JsonMapping:
    for line in text.split("\n"):
        if line.count(".") > _MAX_DOTS:
            raise ValueError("a line has too many dots")
    return tomllib.loads(text)


def _is_in_table(*name: str) -> bool:
    return any(name[: len(table)] == table for table in _TABLES)


# Only some parsers end a line at these. The time of configparser grows with the square of a run of
# spaces.
_REFUSED = re.compile(r"[\r\v\f\x1c-\x1e\x85\u2028\u2029]|[^\S\n]{100}")
# Sections of pytest (docs.pytest.org, "Configuration"); configparser adds the options of DEFAULT to
# every section; coverage imports the plugins in its sections.
_SECTION = re.compile(r"(tool:)?pytest|DEFAULT|coverage:.*|aliases")
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

    return _compare(base, new, _ini_values, is_setting)


def _ini_values(text: str) -> JsonMapping:
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


# Keys of manifests that start nothing: what a package is, and what it needs.
_STARTS_NOTHING = re.compile(
    r"name|version|description|keywords|licen[sc]e|authors?|main|module|types?|exports|files"
    r"|autoload|features|require(-dev)?|(.*-?[dD])?ependencies"
)


def _manifest_values(text: str) -> JsonMapping:
    if text.lstrip().startswith("{"):
        return object_of(text)
    return _toml_values(text)


def _starts(*name: str) -> bool:
    if name[:1] in (("package",), ("project",)):
        name = name[1:]
    # A path may lead to another library of tests.
    return not all(map(_STARTS_NOTHING.fullmatch, name[:1])) or "path" in name


_FORMATS: Mapping[str, Callable[[str, str], FileEdit]] = {
    "pyproject.toml": partial(_compare, read=_toml_values, is_setting=_is_in_table),
    "setup.cfg": _compare_ini,
    # Code under test, unless its change mentions plugins of pytest.
    "setup.py": lambda _base, _new: FileEdit.OTHERS,
}
# Other commands than a runner of Python also read manifests, hidden files, those that are called
# configuration, libraries of others in the tree, and what defines the build.
_MANIFEST = re.compile(r"(package|composer)\.json|(Cargo|pyproject)\.toml")
_OF_TOOLS = re.compile(
    r"(.*/)?(\.(?!git|/)[^/]+(/.*)?|gulpfile\.\w+|Gruntfile\.\w+|(node_modules|vendor)/.*)"
    r"|(?!(.*/)?src/)(.*/)?[\w.-]+\.conf(ig)?\.\w+"
)
_BUILD = re.compile(
    r"(.*/)?((GNU)?[Mm]akefile(\.am|\.in)?|[^/]*\.(mk|cmake|bzl|gradle|gradle\.kts|sbt)"
    r"|CMakeLists\.txt|CMakePresets\.json|meson\.build|configure(\.ac)?|BUILD(\.bazel)?|WORKSPACE"
    r"|MODULE\.bazel|SCons(truct|cript)|[Jj]ustfile|Taskfile\.ya?ml|build\.(rs|xml|zig)|pom\.xml"
    r"|go\.(mod|work)|gradle(-wrapper)?\.properties|Rakefile|Gemfile|noxfile\.py"
    r"|(ts|js)config.*\.json|(angular|deno|lerna|nx|project|turbo)\.jsonc?|bunfig\.toml"
    r"|pnpm-workspace\.yaml)"
)
# The text up to the program, or to what an interpreter runs, and the word behind it.
_START = re.compile(
    r"(\w+=\S* )*((?P<interpreter>(\S*/)?((ba|da|k|z)?sh|source|\.|python[\d.]*|node|ruby|perl|php"
    r"|deno|bun|make)) (-(?!m)\S+ )*\S+( \S+)?|\S+)"
)
_OPTION_VALUE = re.compile(r" -[^ =]+[ =](\S+)")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_RECIPE = re.compile(r"(?m)^\t[@+-]*(.*)")


@dataclass(frozen=True)
class TestCommand:
    """What the command of the tests reads, besides the settings of Python's runners.

    Attributes:
        files: that it starts, or that options name.
        builds: whether it may start other tools than a runner of Python.
    """

    __test__ = False

    files: frozenset[str] = frozenset()
    builds: bool = False

    @classmethod
    def of(cls, command: str, runner: Runner, read: Read) -> TestCommand:
        """Return what a command reads, also by scripts and recipes of the base commit."""
        lines = [expand_scripts(command, read)]
        builds = runner not in OF_PYTHON
        if builds:
            for makefile in _MAKEFILES:
                text = read(makefile) or ""
                lines += _RECIPE.findall(text[:_MAX_CHARACTERS])
        return cls(frozenset(_files_in(lines)), builds)

    def is_read(self, path: str) -> bool:
        """Return whether ``path`` counts as a whole."""
        if self.builds and (_OF_TOOLS.fullmatch(path) or _BUILD.fullmatch(path)):
            return True
        return path in self.files

    def format_of(self, path: str) -> Callable[[str, str], FileEdit] | None:
        """Return what compares a file that may hold settings beside others."""
        name = PurePosixPath(path).name
        if self.builds and _MANIFEST.fullmatch(name):
            return partial(_compare, read=_manifest_values, is_setting=_starts)
        return _FORMATS.get(name)


_NO_COMMAND = TestCommand()


def _files_in(lines: Iterable[str]) -> Iterator[str]:
    """Yield the files that lines of shell start, and those in options of what they start."""
    for line in lines:
        for simple in simple_commands(line):
            text = re.sub("['\"]", "", simple.text)
            start = _START.search(text)
            if start is None:
                continue
            paths = start[0].split()
            if start["interpreter"] or runner_of(text):
                paths += _OPTION_VALUE.findall(text)
            for path in paths:
                yield posixpath.normpath(posixpath.join(simple.folder, path))


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

    def configuration_edits(self, plugins: Collection[str]) -> ConfigurationEdits:
        """Tell how much of the candidate is test configuration, including its ``plugins``."""
        others = self.mixed or self.changes.keys() - set(plugins)
        if not others and (plugins or self.configuration):
            return ConfigurationEdits.ALL
        if self.configuration:
            return ConfigurationEdits.SOME
        return ConfigurationEdits.NONE


def may_configure_tests(path: str, command: TestCommand = _NO_COMMAND) -> bool:
    """Return whether an edit of the existing file ``path`` may change how tests run."""
    name = PurePosixPath(path).name
    if name in _CONFIGURATION_FILES or RUNNER_CONFIGURATION.fullmatch(name):
        return True
    if command.format_of(path) or command.is_read(path):
        return True
    return path == _SYMPY_RUNNER or path.endswith(".pth")


def plugins_of(patch: str) -> frozenset[str]:
    """Return the new modules of a raw patch that are named in its edits of test configuration.

    Without these edits they do nothing.
    """
    new_modules = []
    edits = []
    for part in split_patch(patch):
        if may_configure_tests(part.path):
            edits.append(part.data)
        if part.new and part.path.endswith(".py"):
            new_modules.append(part.path)
    settings = b"\n".join(edits)
    plugins = set()
    for path in new_modules:
        # Not a part of a longer dotted name.
        module = ".".join(module_parts(path))
        name = re.escape(os.fsencode(module))
        if re.search(rb"(?<![\w.])" + name + rb"(?!\w)", settings):
            plugins.add(path)
    return frozenset(plugins)


def tree_under_test(
    changes: Changes,
    files: Collection[str],
    read: Read,
    command: TestCommand = _NO_COMMAND,
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
        counts_if_new = command.format_of(path) or command.is_read(path)
        if not may_configure_tests(path, command) or (new and not counts_if_new):
            remaining[path] = data
            continue
        base = "" if new else read(path)
        edit = _edit_of(path, base, data, command)
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
    command: TestCommand,
) -> FileEdit:
    """Return what an edit changes; settings, where a parser refuses the file."""
    if data is not None and TextFile.decode(data).text == base:
        return FileEdit.OTHERS
    compare = command.format_of(path)
    if compare is None and command.is_read(path) and _BUILD.fullmatch(path):
        return FileEdit.BOTH
    if base is None or compare is None:
        return FileEdit.SETTINGS
    try:
        new = (data or b"").decode("utf-8").replace("\r\n", "\n")
        if max(len(base), len(new)) > _MAX_CHARACTERS:
            return FileEdit.SETTINGS
        edit = compare(base, new)
    except (ValueError, RecursionError, configparser.Error, iniconfig.ParseError):
        return FileEdit.SETTINGS
    words_before = len(_SETTING_WORDS.findall(base))
    words_after = len(_SETTING_WORDS.findall(new))
    if words_after > words_before and edit is FileEdit.OTHERS:
        return FileEdit.SETTINGS
    return edit
