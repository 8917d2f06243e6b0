"""Find how a repository is set up, tested and linted, from the files of a commit. Pure.

The files are not trusted: what cannot be read is as if it were not there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from bench.instances.shape import Commands
from core.errors import UserError
from core.parsing.untrusted import fault_of, object_of
from core.plaintext import shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONFIG_FILE = ".retry-harness.toml"
_KEYS = {field: f"{field}-cmd" for field in ("setup", "test", "lint")}
_KEYS |= {field: field for field in ("image", "python")}
_MOST = 1 << 18  # characters

# Files, and a pattern that each of them has to contain. The first that does counts.
_PACKAGE = {
    "pyproject.toml": r"^\[(project|build-system|tool\.poetry)\b",
    "setup.py": "",
}
_PACKAGE["setup.cfg"] = r"^\[metadata\]"
_OF_PYTHON = (*_PACKAGE, "tox.ini", "noxfile.py", "requirements.txt")
_PYTEST = dict.fromkeys(("pytest.ini", "conftest.py", "tests/conftest.py"), "")
_PYTEST |= dict.fromkeys(_OF_PYTHON, r"\bpytest\b")
_PYTEST_FILE = re.compile(r"(.*/)?(test_[^/]*|[^/]*_test)\.py")
_RUFF = {"ruff.toml": "", ".ruff.toml": "", "pyproject.toml": r"^\[tool\.ruff\b"}
_FLAKE8 = {".flake8": "", "setup.cfg": r"^\[flake8\]", "tox.ini": r"^\[flake8\]"}
_LINTERS = (
    ("lint", "ruff check --output-format concise", _RUFF),
    ("lint", "flake8", _FLAKE8),
)
# What pip installs for tests, where it is named, and by what pattern; the group lists packages.
# NAME is one of these, best first.
_OF_TESTS = ("test", "tests", "testing", "dev")
_LINES = r"\](?:\n(?!\[).*)*?\n"  # from the name of a section to any line of it
_NAMED = r"NAME *=(.*(?:\n[ \t\]].*)*)"
_FILES = ["requirements/NAME.txt", "requirements-NAME.txt", "requirements_NAME.txt"]
_FILES += ["NAME-requirements.txt", "NAME_requirements.txt", "NAME/requirements.txt"]
_NEEDED = (
    (
        "-e '.[NAME]'",
        "pyproject.toml",
        rf"^\[project\.optional-dependencies{_LINES}{_NAMED}",
    ),
    ("-e '.[NAME]'", "pyproject.toml", rf"^optional-dependencies\.{_NAMED}"),
    ("-e '.[NAME]'", "setup.cfg", rf"^\[options\.extras_require{_LINES}{_NAMED}"),
    ("-e '.[NAME]'", "setup.py", r"[\"']NAME[\"']\s*:\s*[\[(]"),
    ("--group NAME", "pyproject.toml", rf"^\[dependency-groups{_LINES}{_NAMED}"),
    *((f"-r {file}", file, r"(?s)\A.*") for file in _FILES),
)
_TOX = {"tox.ini": rf"^\[testenv{_LINES}(?:deps *=)?[ \t]*-r[ \t]*(\w[\w./-]*)[ \t]*$"}
# Lock or build file, and the commands for set-up, tests and lint.
_BUILDS = (
    ("package-lock.json", "npm ci", "npm test", "npm run lint"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile", "pnpm test", "pnpm run lint"),
    ("yarn.lock", "yarn install --frozen-lockfile", "yarn test", "yarn run lint"),
    ("package.json", "npm install", "npm test", "npm run lint"),
    ("Cargo.toml", "cargo fetch", "cargo test", ""),
    ("go.mod", "go mod download", "go test ./...", "go vet ./..."),
    ("mvnw", "./mvnw -q -B -DskipTests dependency:go-offline", "./mvnw -B test", ""),
    ("pom.xml", "mvn -q -B -DskipTests dependency:go-offline", "mvn -B test", ""),
    ("gradlew", "./gradlew testClasses", "./gradlew test", ""),
    ("build.gradle", "gradle testClasses", "gradle test", ""),
)
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_DEVCONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json")
_IMAGE = r'^(?![ \t]*//).*?"image"\s*:\s*"([a-z0-9][\w./:@-]{0,254})"'
# What counts besides any language, with the group of a pattern in place of {}.
_OTHERS = (
    ("test", "make test", dict.fromkeys(_MAKEFILES, r"^test[ \t]*::?(?![:=])")),
    ("test", "make check", dict.fromkeys(_MAKEFILES, r"^check[ \t]*::?(?![:=])")),
    ("lint", "make lint", dict.fromkeys(_MAKEFILES, r"^lint[ \t]*::?(?![:=])")),
    ("image", "{}", dict.fromkeys(_DEVCONTAINERS, _IMAGE)),
    ("python", "{}", {".python-version": r"\A(3\.\d{1,2})\b"}),
)
_Said = tuple[str, str, str]  # a field of Commands, a value, and where it was found


class Found(BaseModel, frozen=True):
    """Commands, and by field the files that they were found in."""

    commands: Commands
    sources: Mapping[str, str]


class _Saved(Commands, frozen=True, alias_generator=_KEYS.__getitem__):
    """Commands by the keys that they have in a file."""


class _Tree(NamedTuple):
    files: frozenset[str]
    read: Callable[[str], str | None]

    def text(self, path: str) -> str:
        if path not in self.files:
            return ""
        text = self.read(path)
        if not text or len(text) > _MOST:
            return ""
        return text.replace("\r", "")

    def find(self, places: Mapping[str, str]) -> tuple[str, str]:
        """Return the first place that counts, and what the last group of its pattern matched."""
        for path, pattern in places.items():
            if path in self.files and (
                found := re.search(pattern, self.text(path), re.MULTILINE)
            ):
                return path, found[found.lastindex or 0]
        return "", ""


def discover(files: Collection[str], read: Callable[[str], str | None]) -> Found:
    """Return what the files of a commit say; ``read`` gives the text of a file, if it has one.

    The first language that has tests counts; a Makefile where no language has any.
    """
    tree = _Tree(frozenset(files), cache(read))
    languages = [[*_python(tree)], *_builds(tree)]
    if tree.files.isdisjoint((*_OF_PYTHON, *_PYTEST)):
        languages.append(
            languages.pop(0)
        )  # other projects have a few scripts of Python with tests
    tested = [said for said in languages if "test" in {field for field, _, _ in said}]
    said = next(filter(None, (*tested, *languages)), [])
    for field, command, places in _OTHERS:
        path, value = tree.find(places)
        said += [(field, command.format(value), path)] if path else []
    values: dict[str, object] = {field: value for field, value, _ in reversed(said)}
    sources = {field: path for field, _, path in reversed(said)}
    if setup := {value: path for field, value, path in said if field == "setup"}:
        values["setup"], sources["setup"] = (
            [*setup],
            ", ".join(dict.fromkeys(setup.values())),
        )
    return Found(commands=Commands.model_validate(values), sources=sources)


def _python(tree: _Tree) -> Iterator[_Said]:
    package, (needed, source, listed) = tree.find(_PACKAGE)[0], _needed(tree)
    if package and not needed.startswith("-e"):
        yield "setup", "pip install -e .", package
    elif not package and "requirements.txt" in tree.files:
        yield "setup", "pip install -r requirements.txt", "requirements.txt"
    if needed:
        yield "setup", f"pip install {needed}", source
    file = min(filter(_PYTEST_FILE.fullmatch, tree.files), default="")
    pytest = ("test", "pytest", {**_PYTEST, file: ""})
    for field, command, places in (pytest, *_LINTERS):
        if path := tree.find(places)[0]:
            if (tool := command.partition(" ")[0]) not in listed:
                yield "setup", f"pip install {tool}", path
            yield field, command, path


def _needed(tree: _Tree) -> tuple[str, str, str]:
    """Return what pip installs for tests, the file that names it, and the packages' text."""
    for name in _OF_TESTS:
        for needed in _NEEDED:
            argument, path, pattern = (word.replace("NAME", name) for word in needed)
            if path == (found := tree.find({path: pattern}))[0]:
                return argument, *found
    path, file = tree.find(_TOX)
    return (f"-r {file}", path, tree.text(file)) if file in tree.files else ("", "", "")


def _builds(tree: _Tree) -> Iterator[list[_Said]]:
    known = {"setup"}
    with suppress(ValueError, LookupError, AttributeError, TypeError):
        scripts = object_of(tree.text("package.json"))["scripts"].items()
        known |= {
            name for name, text in scripts if text and "no test specified" not in text
        }
    for file, *commands in _BUILDS:
        if file in tree.files:
            told = zip(("setup", "test", "lint"), commands, strict=True)
            scripted = re.match("p?npm|yarn", commands[0])
            yield [(f, c, file) for f, c in told if c and (f in known or not scripted)]


def read_saved(text: str) -> Commands:
    """Return the commands of a file ``.retry-harness.toml``.

    Raises:
        UserError: it is not TOML, has other keys, or values of other types.
    """
    try:
        # The reader takes time by the square of a dotted name's parts.
        if (
            len(text) > _MOST
            or max(line.count(".") for line in text.split("\n")) > 1000
        ):
            raise ValueError("it is too large, or a line has too many dots")
        found = _Saved.model_validate(tomllib.loads(text.removeprefix("\ufeff")))
    except (ValueError, RecursionError) as error:
        words = (
            fault_of(error)
            if isinstance(error, ValidationError)
            else f"is not TOML: {error}"
        )
        keys = ", ".join(_KEYS.values())
        raise UserError(
            f"{CONFIG_FILE}: {shortened(words, 200)}; its keys are {keys}"
        ) from error
    return Commands.model_validate(dict(found))
