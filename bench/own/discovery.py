"""Find how a repository is set up, tested and linted, from the files of a commit. Pure.

The files are not trusted: what cannot be read is as if it were not there.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import iniconfig
from pydantic import BaseModel, ValidationError

from bench.instances.shape import Commands
from bench.regression.runners.shell import Read
from core.errors import UserError
from core.jsontypes import JsonMapping, JsonObject
from core.parsing.untrusted import DamagedError, fault_of, object_of
from core.plaintext import abbreviate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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

_PYPROJECT = "pyproject.toml"
_SETUP_CFG = "setup.cfg"
_SETUP_PY = "setup.py"
_TOX = "tox.ini"
_REQUIREMENTS = "requirements.txt"
# Places: a file, and the keys of a table in it.
_PACKAGE = (
    (_PYPROJECT, "project"),
    (_PYPROJECT, "build-system"),
    (_PYPROJECT, "tool", "poetry"),
    (_SETUP_PY,),
    (_SETUP_CFG, "metadata"),
)
_RUFF = (("ruff.toml",), (".ruff.toml",), (_PYPROJECT, "tool", "ruff"))
_FLAKE8 = ((".flake8",), (_SETUP_CFG, "flake8"), (_TOX, "flake8"))
_PYTHON_FILES = (
    _PYPROJECT,
    _SETUP_PY,
    _SETUP_CFG,
    _TOX,
    "noxfile.py",
    _REQUIREMENTS,
)
_PYTEST_FILES = ("pytest.ini", "conftest.py", "tests/conftest.py")
_PYTEST = re.compile(r"\bpytest\b")
_TEST_MODULE = re.compile(r"(.*/)?(test_[^/]*|[^/]*_test)\.py")
# Extras, groups and files with what tests need have one of these names, best first.
_TEST_NAMES = ("test", "tests", "testing", "dev")
# What pip installs, and the keys of a table by the name; several names for pip itself.
_PACKAGE_TABLES = (
    ("-e '.[{}]'", (_PYPROJECT, "project", "optional-dependencies", "{}")),
    ("-e '.[{}]'", (_SETUP_CFG, "options.extras_require", "{}")),
    ("--group {}", (_PYPROJECT, "dependency-groups", "{}")),
    ("", (_PYPROJECT, "tool", "poetry", "group", "{}", "dependencies")),
    ("", (_PYPROJECT, "tool", "poetry", "{}-dependencies")),
    ("", (_PYPROJECT, "tool", "pdm", "dev-dependencies", "{}")),
    ("", (_PYPROJECT, "tool", "uv", "{}-dependencies")),
    ("", (_PYPROJECT, "tool", "hatch", "envs", "{}", "dependencies")),
    ("", (_PYPROJECT, "tool", "hatch", "envs", "hatch-{}", "extra-dependencies")),
    ("", (_PYPROJECT, "tool", "hatch", "envs", "default", "dependencies")),
    ("", ("hatch.toml", "envs", "{}", "dependencies")),
    ("", ("hatch.toml", "envs", "hatch-{}", "extra-dependencies")),
    ("", ("hatch.toml", "envs", "default", "dependencies")),
)
# Tools that install a project with what its tests need, and the places by which they are known.
_INSTALLERS = (
    ("uv", ("uv.lock",), "uv sync --active --frozen --inexact"),
    ("poetry", (_PYPROJECT, "tool", "poetry"), "poetry install --no-interaction"),
    ("pdm", (_PYPROJECT, "tool", "pdm"), "pdm install --frozen-lockfile"),
)
# Tools that make an environment for tests, whose packages are installed afterwards.
_TESTERS = (
    ("nox", ("noxfile.py",), "nox -s {} --install-only -P python3 --envdir ~/env"),
    ("tox", (_TOX, "testenv"), "tox run -e py --notest --workdir ~/env"),
)
_NOX_SESSION = re.compile(r"^def (tests?|unit\w*)\(", re.MULTILINE)
_COPY_PACKAGES = (
    "~/env/*/bin/python -m pip freeze --exclude-editable | grep -v ' @ file:' | "
    "pip install -r /dev/stdin"
)
_REQUIREMENT_FILES = (
    "requirements/{}.txt",
    "requirements-{}.txt",
    "requirements_{}.txt",
    "{}-requirements.txt",
    "{}_requirements.txt",
    "{}/requirements.txt",
)
# No option of pip.
_REQUIREMENT = re.compile(r"\w[\w.-]*")
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
MANIFESTS = (
    CONFIG_FILE,
    _PYPROJECT,
    _SETUP_PY,
    _SETUP_CFG,
    _REQUIREMENTS,
    *(path for path, *_ in _BUILDS),
)
"""The files that make a folder a project."""
_SCRIPTED = re.compile("p?npm|yarn")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MAKE_TARGETS = (("test", "test"), ("test", "check"), ("lint", "lint"))
_DEVCONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json")
# The file is JSON with comments.
_IMAGE = re.compile(
    r'^(?![ \t]*//).*?"image"\s*:\s*"([a-z0-9][\w./:@-]{0,254})"', re.MULTILINE
)
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
        value: Any = _parse(path, self.text(path))
        for key in keys:
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

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


def discover(
    files: Collection[str],
    read: Read,
) -> FoundCommands:
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
    package = tree.first(_PACKAGE)
    requirements = _test_requirements(tree)
    installer = _own_tool(tree, _INSTALLERS)
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
    tester = _own_tool(tree, _TESTERS)
    if tester and "pytest" not in requirements.packages:
        yield Discovery(
            "setup", f"{tester.value} && {_COPY_PACKAGES} || true", tester.path
        )
    for field, command, path in (
        ("test", "pytest", _pytest_file(tree)),
        ("lint", "ruff check --output-format concise", tree.first(_RUFF)),
        ("lint", "flake8", tree.first(_FLAKE8)),
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


def _own_tool(
    tree: CommitFiles, tools: Iterable[tuple[str, tuple[str, ...], str]]
) -> Discovery | None:
    """Return the command of the first tool that the project is made for, which it installs."""
    for tool, table, command in tools:
        path = tree.first([table])
        session = _NOX_SESSION.search(tree.text(path))
        if not path or (tool == "nox" and not session):
            continue
        if session:
            command = command.format(session[1])
        install = f"pip --python ~/tools/bin/python install -q {tool}"
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
    for name in _TEST_NAMES:
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
    for arguments, keys in _PACKAGE_TABLES:
        path, *names = [key.format(name) for key in keys]
        packages = tree.value(path, *names)
        if arguments and packages is not None:
            yield Requirements(arguments.format(name), path, str(packages))
        elif packages:
            arguments_of_pip = shlex.join(_requirement_texts(packages))
            yield Requirements(arguments_of_pip, path, arguments_of_pip)
    for template in _REQUIREMENT_FILES:
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
    for path, setup, test, lint in _BUILDS:
        if path not in tree.files:
            continue
        findings = [Discovery("setup", setup, path)]
        for field, command in (("test", test), ("lint", lint)):
            is_defined = field in scripts or not _SCRIPTED.match(setup)
            if command and is_defined:
                findings.append(Discovery(field, command, path))
        yield findings


def _package_scripts(tree: CommitFiles) -> set[str]:
    """Return the names of the scripts in ``package.json`` but for the one that npm writes."""
    names = set()
    scripts = tree.value("package.json", "scripts")
    if isinstance(scripts, dict):
        for name, script in scripts.items():
            if script and "no test specified" not in str(script):
                names.add(name)
    return names


def _other_findings(tree: CommitFiles) -> Iterator[Discovery]:
    """Yield what counts besides any language."""
    for field, target in _MAKE_TARGETS:
        rule = re.compile(rf"^{target}[ \t]*::?(?![:=])", re.MULTILINE)
        for path in _MAKEFILES:
            if rule.search(tree.text(path)):
                yield Discovery(field, f"make {target}", path)
                break
    for path in _DEVCONTAINERS:
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
