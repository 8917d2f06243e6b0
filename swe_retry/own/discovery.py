"""Find how a repository is set up, tested and linted, from the files of a commit. Pure.

The files are not trusted: what cannot be read is as if it were not there.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import iniconfig
from pydantic import BaseModel, ValidationError

from swe_retry.core.data import read_yaml
from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonMapping, JsonObject, value_at
from swe_retry.core.plaintext import abbreviate
from swe_retry.core.untrusted import DamagedError, fault_of, object_of
from swe_retry.frameworks.shell import Read, read_scripts
from swe_retry.instances.instance import Commands

CONFIG_FILE = ".retry-harness.toml"
_KEYS = {
    "setup": "setup-cmd",
    "test": "test-cmd",
    "lint": "lint-cmd",
    "image": "image",
    "python": "python",
}
_MAX_CHARACTERS = 1 << 18
_MAX_DOTS = 1000

_SETUP_PY = "setup.py"
_REQUIREMENTS = "requirements.txt"
_TABLES = read_yaml(__file__, "discovery.yaml")
_PYTHON_FILES: list[str] = _TABLES["python_files"]
_PYTEST_FILES: list[str] = _TABLES["pytest_files"]
_PYTEST = re.compile(r"\bpytest\b")
_TEST_MODULE = re.compile(r"(.*/)?(test_[^/]*|[^/]*_test)\.py")
_NOX_SESSION = re.compile(r"(?m)^def (tests?|unit\w*)\(")
_COPY_PACKAGES = (
    "~/env/*/bin/python -m pip freeze --exclude-editable | grep -v ' @ file:' | "
    "pip install -r /dev/stdin"
)
# No option of pip.
_REQUIREMENT = re.compile(r"\w[\w.-]*")
MANIFESTS = (
    CONFIG_FILE,
    "pyproject.toml",
    _SETUP_PY,
    "setup.cfg",
    _REQUIREMENTS,
    *(path for path, *_ in _TABLES["builds"]),
)
"""The files that make a folder a project."""
_SCRIPTED = re.compile("p?npm|yarn")
# The file is JSON with comments.
_IMAGE = re.compile(r'(?m)^(?![ \t]*//).*?"image"\s*:\s*"([a-z0-9][\w./:@-]{0,254})"')
_PYTHON_VERSION = re.compile(r"\A(3\.\d{1,2})\b")


class FoundCommands(BaseModel, frozen=True):
    """Commands, and by field the files that they were found in."""

    commands: Commands
    sources: Mapping[str, str]


class _SavedCommands(Commands, frozen=True, alias_generator=_KEYS.__getitem__):
    """Commands by the keys that they have in a file."""


class Discovery(NamedTuple):
    """The value of a field of ``Commands``, and the file that it was found in."""

    field: str
    value: str
    path: str


class Requirements(NamedTuple):
    """What pip installs for tests: its arguments, the file that names it, and its packages."""

    arguments: str = ""
    path: str = ""
    packages: str = ""


@dataclass(frozen=True)
class CommitFiles:
    """The files of a commit; those of others' formats are empty if they cannot be read."""

    files: frozenset[str]
    read: Read

    def text(self, path: str) -> str:
        if path not in self.files:
            return ""
        text = self.read(path)
        if not text or len(text) > _MAX_CHARACTERS:
            return ""
        return text.replace("\r", "")

    def value(self, path: str, *keys: str) -> Any:  # noqa: ANN401 - of any format
        """Return the value at some keys of a TOML, INI or JSON file; None without one."""
        return value_at(_parse(path, self.text(path)), *keys)

    def first(self, places: Iterable[Sequence[str]]) -> str:
        """Return the file of the first place that is there; empty if none is."""
        for path, *keys in places:
            if path in self.files and self.value(path, *keys) is not None:
                return path
        return ""


@lru_cache(maxsize=64)
def _parse(path: str, text: str) -> JsonMapping:
    try:
        if path.endswith(".toml"):
            return _parse_toml(text)
        if path.endswith((".cfg", ".ini")):
            return iniconfig.IniConfig("", data=text).sections
        if path.endswith(".json"):
            return object_of(text)
    except (ValueError, RecursionError, iniconfig.ParseError, DamagedError):
        pass
    return {}


def discover(files: Collection[str], read: Read) -> FoundCommands:
    """Return what the files of a commit say; ``read`` gives the text of a file, if it has one.

    The first language that has tests counts; a Makefile where no language has any.
    """
    tree = CommitFiles(frozenset(files), cache(read))
    languages = list(_build_findings(tree))
    python = list(_python_findings(tree))
    # Projects in other languages have a few scripts of Python with tests.
    is_python = not tree.files.isdisjoint((*_PYTHON_FILES, *_PYTEST_FILES))
    position = 0 if is_python else len(languages)
    languages.insert(position, python)
    findings = [*_choose_language(languages), *_other_findings(tree)]
    values: JsonObject = {}
    sources: dict[str, str] = {}
    setup: dict[str, str] = {}
    for finding in findings:
        if finding.field == "setup":
            setup[finding.value] = finding.path
        else:
            values.setdefault(finding.field, finding.value)
            sources.setdefault(finding.field, finding.path)
    if setup:
        values["setup"] = list(setup)
        sources["setup"] = ", ".join(dict.fromkeys(setup.values()))
    return FoundCommands(commands=Commands.model_validate(values), sources=sources)


def _choose_language(languages: Sequence[Sequence[Discovery]]) -> Sequence[Discovery]:
    """Return the findings of the first language with tests, else of the first with any."""
    for findings in languages:
        fields = [finding.field for finding in findings]
        if "test" in fields:
            return findings
    return next(filter(None, languages), ())


def _python_findings(tree: CommitFiles) -> Iterator[Discovery]:
    package = tree.first(_TABLES["packages"])
    requirements = _test_requirements(tree)
    installer = _own_tool(tree, "installers")
    if package and installer:
        # In a container it would make an environment that the tests do not use.
        command = f'test "$VIRTUAL_ENV" && {installer.value} || pip install -e .'
        yield Discovery("setup", command, installer.path)
    elif package and not requirements.arguments.startswith("-e"):
        yield Discovery("setup", "pip install -e .", package)
    elif not package and _REQUIREMENTS in tree.files:
        yield Discovery("setup", f"pip install -r {_REQUIREMENTS}", _REQUIREMENTS)
    if requirements.arguments:
        command = f"pip install {requirements.arguments}"
        yield Discovery("setup", command, requirements.path)
    tester = _own_tool(tree, "testers")
    if tester and "pytest" not in requirements.packages:
        yield Discovery(
            "setup",
            f"{tester.value} && {_COPY_PACKAGES} || true",
            tester.path,
        )
    for field, command, path in (
        ("test", "pytest", _pytest_file(tree)),
        ("lint", "ruff check --output-format concise", tree.first(_TABLES["ruff"])),
        ("lint", "flake8", tree.first(_TABLES["flake8"])),
    ):
        tool = command.partition(" ")[0]
        if path and tool not in requirements.packages:
            yield Discovery("setup", f"pip install {tool}", path)
        if path:
            yield Discovery(field, command, path)


def _pytest_file(tree: CommitFiles) -> str:
    """Return the file by which the tests are those of pytest; empty without one."""
    for path in _PYTEST_FILES:
        if path in tree.files:
            return path
    for path in _PYTHON_FILES:
        if _PYTEST.search(tree.text(path)):
            return path
    return min(filter(_TEST_MODULE.fullmatch, tree.files), default="")


def _own_tool(tree: CommitFiles, kind: str) -> Discovery | None:
    """Return the command of the first tool that the project is made for, which it installs."""
    for tool, command, *location in _TABLES[kind]:
        path = tree.first([location])
        session = _NOX_SESSION.search(tree.text(path))
        if not path or (tool == "nox" and not session):
            continue
        if session:
            command = command.format(session[1])
        # Of today, also where the packages of the project are those of a date.
        tools = "PIP_UPLOADED_PRIOR_TO= pip --python ~/tools/bin/python"
        install = f"{tools} install -q {tool}"
        parts = (
            "python -m venv --without-pip ~/tools",
            install,
            "PATH=$PATH:~/tools/bin",
        )
        return Discovery("setup", " && ".join((*parts, command)), path)
    return None


def _test_requirements(tree: CommitFiles) -> Requirements:
    """Return what is named for tests, up to the name whose packages have pytest."""
    lists: dict[Requirements, None] = {}
    for name in _TABLES["test_names"]:
        lists |= dict.fromkeys(_requirements_named(tree, name))
        if any("pytest" in requirements.packages for requirements in lists):
            break
    if not lists:
        return Requirements()
    columns = [dict.fromkeys(column) for column in zip(*lists, strict=True)]
    arguments, paths, packages = columns
    return Requirements(
        arguments=" ".join(arguments),
        path=", ".join(paths),
        packages=" ".join(packages),
    )


def _requirements_named(tree: CommitFiles, name: str) -> Iterator[Requirements]:
    if re.search(rf"[\"']{name}[\"']\s*:\s*[\[(]", tree.text(_SETUP_PY)):
        yield Requirements(f"-e '.[{name}]'", _SETUP_PY)
    for arguments, path, *keys in _TABLES["package_tables"]:
        names = [key.format(name) for key in keys]
        packages = tree.value(path, *names)
        if arguments and packages is not None:
            yield Requirements(arguments.format(name), path, str(packages))
        elif packages:
            arguments_of_pip = shlex.join(_requirement_texts(packages))
            yield Requirements(arguments_of_pip, path, arguments_of_pip)
    for template in _TABLES["requirement_files"]:
        path = template.format(name)
        if path in tree.files:
            yield Requirements(f"-r {path}", path, tree.text(path))


def _requirement_texts(packages: Any) -> Iterator[str]:  # noqa: ANN401 - of a file
    """Yield the requirements of a list, or of a table with versions as Poetry writes them."""
    if isinstance(packages, list):
        yield from filter(_REQUIREMENT.match, map(str, packages))
    if isinstance(packages, dict):
        for name, value in packages.items():
            if isinstance(value, dict):
                value = value.get("version", "*")
            version = re.sub(r"^[~^]?(?=\d)", ">=", str(value))
            if version.startswith("*"):
                version = ""
            if _REQUIREMENT.match(name):
                yield f"{name}{version}"


def _build_findings(tree: CommitFiles) -> Iterator[list[Discovery]]:
    """Yield the findings of each language that has a lock or build file."""
    scripts = _package_scripts(tree)
    for path, setup, test, lint in _TABLES["builds"]:
        if path not in tree.files:
            continue
        findings = [Discovery("setup", setup, path)]
        for field, command in (("test", test), ("lint", lint)):
            is_defined = field in scripts or not _SCRIPTED.match(setup)
            if command and is_defined:
                findings.append(Discovery(field, command, path))
        yield findings


def _package_scripts(tree: CommitFiles) -> set[str]:
    """Return the names of the scripts of npm but for the one that it writes itself."""
    names = set()
    for name, script in read_scripts("", "npm", tree.text).items():
        if script and "no test specified" not in script:
            names.add(name)
    return names


def _other_findings(tree: CommitFiles) -> Iterator[Discovery]:
    """Yield what counts besides any language."""
    for field, target in _TABLES["make_targets"]:
        rule = re.compile(rf"(?m)^{target}[ \t]*::?(?![:=])")
        for path in _TABLES["makefiles"]:
            if rule.search(tree.text(path)):
                yield Discovery(field, f"make {target}", path)
                break
    for path in _TABLES["devcontainers"]:
        image = _IMAGE.search(tree.text(path))
        if image:
            yield Discovery("image", image[1], path)
            break
    version = _PYTHON_VERSION.search(tree.text(".python-version"))
    if version:
        yield Discovery("python", version[1], ".python-version")


def _parse_toml(text: str) -> JsonObject:
    """Return the values of a TOML file.

    Raises:
        ValueError, RecursionError: it is not TOML, or would take too long.
    """
    # The reader takes time by the square of a dotted name's parts.
    dots = max(line.count(".") for line in text.split("\n"))
    if len(text) > _MAX_CHARACTERS or dots > _MAX_DOTS:
        raise ValueError("it is too large, or a line has too many dots")
    content: JsonObject = tomllib.loads(text.removeprefix("\ufeff"))
    return content


def read_saved(text: str) -> Commands:
    """Return the commands of a file ``.retry-harness.toml``.

    Raises:
        UserError: it is not TOML, has other keys, or values of other types.
    """
    try:
        saved = _SavedCommands.model_validate(_parse_toml(text))
    except ValidationError as error:
        raise _wrong_saved_file(fault_of(error)) from error
    except (ValueError, RecursionError) as error:
        raise _wrong_saved_file(f"is not TOML: {error}") from error
    return Commands.model_validate(dict(saved))


def _wrong_saved_file(problem: str) -> UserError:
    keys = ", ".join(_KEYS.values())
    return UserError(f"{CONFIG_FILE}: {abbreviate(problem, 200)}; its keys are {keys}")
