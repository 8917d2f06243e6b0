"""Find how a repository is set up, tested and linted, from the files of a commit. Pure.

The files are not trusted: what cannot be read is as if it were not there.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ValidationError

from bench.instances.shape import Commands
from core.errors import UserError
from core.parsing.untrusted import DamagedError, fault_of, object_of
from core.plaintext import one_line, shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SAVED = ".retry-harness.toml"
_MOST_CHARACTERS, _MOST_INI = 1 << 18, 1 << 15
# Readers take time by the square of a dotted name's parts, and of the spaces in a line.
_MOST_DOTS, _LONGEST_LINE = 150, 200
_MOST_TESTS = 20  # files of tests that are read
# What holds tests' packages, best first.
_OF_TESTS = ("test", "tests", "testing", "dev", "develop", "development")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,. -]*\])?\s*([<>=!~;@(].*)?")
_REQUIREMENTS_FILE = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*\.txt")
_PYTHON_ROOT = re.compile(
    r"pyproject\.toml|setup\.(py|cfg)|requirements[^/]*\.txt|tox\.ini|noxfile\.py|test[^/]*\.py"
)
_PYTEST_FILE = re.compile(r"(.*/)?(test_[^/]*|[^/]*_test)\.py")
_UNITTEST_FILE = re.compile(r"(.*/)?tests?[^/]*\.py")
_JS_TEST_FILE = re.compile(r"(.*/)?([^/]*[._-]test|test[^/]*)\.[cm]?[jt]s|(.*/)?test/.*\.[cm]?js")
# Text in quotes is matched first, and stays.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)
_IMAGE = re.compile(r"[a-z0-9][\w./:@-]{0,254}")

# A field of Commands, a value, and where it was found.
_Said = tuple[str, str, str]


class Found(BaseModel, frozen=True):
    """Commands, and by field the files that they were found in."""

    commands: Commands
    sources: Mapping[str, str]


_KEYS = {"setup-cmd": "setup", "test-cmd": "test", "lint-cmd": "lint"} | {
    name: name for name in ("image", "python")
}


@dataclass(frozen=True)
class _Tree:
    files: Collection[str]
    given: Callable[[str], str | None] = field(repr=False)

    def text(self, path: str) -> str:
        text = self.given(path) if path in self.files else None
        return text if text and len(text) <= _MOST_CHARACTERS else ""

    def json(self, path: str) -> Mapping[str, Any]:
        try:
            return object_of(_COMMA.sub(r"\1", _COMMENT.sub(r"\1", self.text(path))))
        except DamagedError:
            return {}

    def ini(self, path: str) -> configparser.RawConfigParser:
        parser = configparser.RawConfigParser(strict=False)
        lines = self.text(path)[:_MOST_INI].split("\n")
        try:
            parser.read_string("\n".join(one for one in lines if len(one) <= _LONGEST_LINE))
        except (configparser.Error, AttributeError, ValueError):
            return configparser.RawConfigParser()
        return parser

    def toml(self, path: str) -> Mapping[str, Any]:
        try:
            return _toml_of(self.text(path))
        except DamagedError:
            return {}

    @cached_property
    def pyproject(self) -> Mapping[str, Any]:
        return self.toml("pyproject.toml")

    def first(self, *paths: str) -> str:
        return next((path for path in paths if path in self.files), "")

    def tests(self, name: re.Pattern[str], word: str) -> str:
        """Return the first of a few files of tests that has ``word``."""
        paths = sorted(path for path in self.files if name.fullmatch(path))[:_MOST_TESTS]
        return next((path for path in paths if word in self.text(path)), "")


def discover(files: Collection[str], read: Callable[[str], str | None]) -> Found:
    """Return what the files of a commit say; ``read`` gives the text of a file, if it has one.

    The first language that has tests counts; a Makefile where no language has any.
    """
    tree = _Tree(frozenset(files), read)
    said: list[_Said] = []
    for language in _LANGUAGES:
        told = [*language(tree)]
        tested = any(name == "test" for name, _, _ in told)
        said = told if tested else said or told
        if tested:
            break
    setup: list[str] = []
    found: dict[str, str] = {}
    sources: dict[str, str] = {}
    for name, value, source in [*said, *_makefile(tree), *_devcontainer(tree)]:
        if name == "setup":
            setup.append(value)
        elif name in found:
            continue
        found[name] = value
        known = sources.get(name, "")
        if source not in known.split(", "):
            sources[name] = f"{known}, {source}" if known else source
    commands = Commands.model_validate({**found, "setup": setup})
    return Found(commands=commands, sources=sources)


def read_saved(text: str) -> Commands:
    """Return the commands of a file ``.retry-harness.toml``.

    Raises:
        UserError: it is not TOML, has other keys, or values of other types.
    """
    try:
        given = _toml_of(text)
    except DamagedError as error:
        raise UserError(f"{SAVED}: is not TOML: {error}; correct it") from error
    for key in given:
        if key not in _KEYS:
            close = get_close_matches(key, _KEYS, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(_KEYS)}"
            raise UserError(f"{SAVED}: there is no key {shortened(key, 80)!r}; {hint}")
    for key, value in given.items():
        try:
            Commands.model_validate({_KEYS[key]: value})
        except ValidationError as error:
            words = fault_of(error).partition(": ")[2]
            raise UserError(f"{SAVED}: {key}: {words}") from error
    return Commands.model_validate({_KEYS[key]: value for key, value in given.items()})


def saved_text(commands: Commands, sources: Mapping[str, str] | None = None) -> str:
    """Return the file that ``read_saved`` reads, with a comment on where each value is from."""
    lines = ["# How this repository is set up, tested and linted; correct what is wrong."]
    for key, name in _KEYS.items():
        value = getattr(commands, name)
        if value:
            if source := (sources or {}).get(name):
                lines.append(f"# From {one_line(source)}")
            # JSON's strings are TOML's, but for one character.
            words = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{key} = {words}")
    return "\n".join(lines) + "\n"


def _toml_of(text: str) -> dict[str, Any]:
    if len(text) > _MOST_CHARACTERS or any(
        line.count(".") > _MOST_DOTS for line in text.split("\n")
    ):
        raise DamagedError("it is too large, or a line has too many dots")
    try:
        found: dict[str, Any] = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(shortened(str(error), 200)) from error
    return found


def _at(value: object, *keys: str) -> Any:  # noqa: ANN401 - whatever a file has
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _table(value: object, *keys: str) -> Mapping[str, Any]:
    found = _at(value, *keys)
    return found if isinstance(found, Mapping) else {}


def _strings(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _python(tree: _Tree) -> Iterator[_Said]:
    # Other projects have a few scripts of Python with tests: then their own language counts.
    if any(_PYTHON_ROOT.fullmatch(path) for path in tree.files):
        yield from _any_python(tree)


def _any_python(tree: _Tree) -> Iterator[_Said]:
    project, setup_cfg = tree.pyproject, tree.ini("setup.cfg")
    packaged = "setup.py" in tree.files or setup_cfg.has_section("metadata")
    packaged = packaged or any(
        _at(project, *keys) for keys in (("project",), ("build-system",), ("tool", "poetry"))
    )
    test, why = _python_test(tree)
    lint, configured = _python_lint(tree, setup_cfg)
    if packaged or test:
        install, brought, source = _test_packages(tree, setup_cfg)
        extra = next((one for one in install if one.startswith(".[")), "")
        if packaged:
            by = tree.first("pyproject.toml", "setup.py", "setup.cfg")
            yield "setup", f"pip install -e {shlex.quote(extra or '.')}", source if extra else by
        elif "requirements.txt" in tree.files:
            yield "setup", "pip install -r requirements.txt", "requirements.txt"
        if install and not extra:
            yield "setup", f"pip install {shlex.join(install)}", source
        tools = [tool for tool in ("pytest", "ruff", "flake8") if tool in f"{test} {lint}".split()]
        if missing := [tool for tool in tools if not re.search(rf"\b{tool}\b", brought)]:
            yield "setup", f"pip install {' '.join(missing)}", why or configured
    if test:
        yield "test", test, why
    if lint:
        yield "lint", lint, configured
    asked = _at(project, "project", "requires-python")
    asked = asked or _at(project, "tool", "poetry", "dependencies", "python")
    asked = asked or setup_cfg.get("options", "python_requires", fallback="")
    pinned = tree.text(".python-version").strip()
    if version := _older_python(f"=={pinned}" if pinned else str(asked)):
        by = ".python-version" if pinned else tree.first("pyproject.toml", "setup.cfg")
        yield "python", version, by


def _older_python(specifier: str) -> str:
    """Return the newest version that ``specifier`` allows, if this interpreter's is too new."""
    found = re.search(r"(<=?|==)\s*3\.(\d{1,3})", specifier)
    newest = int(found[2]) - (found[1] == "<") if found else sys.version_info.minor
    return f"3.{newest}" if 0 <= newest < sys.version_info.minor else ""


def _python_test(tree: _Tree) -> tuple[str, str]:
    """Return the command and why; pytest runs the tests of unittest as well."""
    named = tree.first("pytest.ini", "conftest.py", "tests/conftest.py")
    for path in ("pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py", "setup.py"):
        named = named or (path if re.search(r"\bpytest\b", tree.text(path)) else "")
    for path, command in _OWN_RUNNERS.items():
        if not named and tree.text(path) and ("manage" not in path or "django" in tree.text(path)):
            return command, path
    found = min(filter(_PYTEST_FILE.fullmatch, tree.files), default="")
    if named or found:
        return "pytest", named or found
    by_unittest = tree.tests(_UNITTEST_FILE, "unittest")
    # Without -v it names no test.
    return ("python -m unittest discover -v", by_unittest) if by_unittest else ("", "")


def _python_lint(tree: _Tree, setup_cfg: configparser.RawConfigParser) -> tuple[str, str]:
    ruff = tree.first("ruff.toml", ".ruff.toml")
    if ruff or _at(tree.pyproject, "tool", "ruff"):
        return "ruff check", ruff or "pyproject.toml"
    flake8 = ".flake8" if ".flake8" in tree.files else ""
    flake8 = flake8 or ("setup.cfg" if setup_cfg.has_section("flake8") else "")
    flake8 = flake8 or ("tox.ini" if tree.ini("tox.ini").has_section("flake8") else "")
    return ("flake8", flake8) if flake8 else ("", "")


def _test_packages(
    tree: _Tree, setup_cfg: configparser.RawConfigParser
) -> tuple[list[str], str, str]:
    """Return arguments of ``pip install`` for tests, the packages' text, and where they are named.

    Groups are written out, because an older pip does not know ``--group``.
    """
    poetry, project = _table(tree.pyproject, "tool", "poetry"), _table(tree.pyproject, "project")
    extras = {**_table(poetry, "extras"), **_table(project, "optional-dependencies")}
    groups = _table(tree.pyproject, "dependency-groups")
    files = sorted(filter(_REQUIREMENTS_FILE.fullmatch, tree.files), key=lambda p: (len(p), p))
    setup_py = tree.text("setup.py").partition("extras_require")[2]
    for name in _OF_TESTS:
        if name in extras:
            return [f".[{name}]"], str(extras[name]), "pyproject.toml"
        if setup_cfg.has_option("options.extras_require", name):
            listed = setup_cfg.get("options.extras_require", name)
            return [f".[{name}]"], listed, "setup.cfg"
        if found := _group(groups, name, set()):
            return found, " ".join(found), f"pyproject.toml: dependency-groups.{name}"
        members = _table(poetry, "group", name, "dependencies")
        if found := _poetry_group(members or _table(poetry, f"{name}-dependencies")):
            return found, " ".join(found), f"pyproject.toml: the group {name} of Poetry"
        for path in files:
            if "req" in path and name in re.split(r"[^a-z]+", path.lower()):
                return ["-r", path], tree.text(path), path
        if re.search(rf"""["']{name}["']\s*:""", setup_py):
            return [f".[{name}]"], setup_py, "setup.py"
    if found := _poetry_group(_table(tree.toml("Pipfile"), "dev-packages")):
        return found, " ".join(found), "Pipfile"
    deps = tree.ini("tox.ini").get("testenv", "deps", fallback="").split("\n")
    found = [word for line in deps for word in _tox_line(line.strip(), tree)]
    return found, " ".join(found), "tox.ini"


def _group(groups: Mapping[str, Any], name: str, seen: set[str]) -> list[str]:
    listed = groups.get(name)
    if name in seen or not isinstance(listed, list):
        return []
    seen.add(name)
    included = (_at(one, "include-group") for one in listed)
    found = [one for one in _strings(listed) if _REQUIREMENT.fullmatch(one)]
    return found + [one for other in included if other for one in _group(groups, str(other), seen)]


def _poetry_group(members: Mapping[str, Any]) -> list[str]:
    found = []
    for name, value in members.items():
        version = value if isinstance(value, str) else _at(value, "version")
        # What has no version is a folder or an address, and its name may be any.
        named = isinstance(version, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]*", name)
        if not named or name == "python":
            continue
        if major := re.fullmatch(r"\^([1-9]\d{0,5})[\d.]*", version):
            version = f">={version[1:]},<{int(major[1]) + 1}"
        elif re.fullmatch(r"\d[\d.]*", version):
            version = f"=={version}"
        found.append(name + (version if re.fullmatch(r"([<>=!]=?[\d.]+,? *)+", version) else ""))
    return found


def _tox_line(line: str, tree: _Tree) -> list[str]:
    file = re.fullmatch(r"-r\s*(\w[\w./-]*)", line)
    if file:
        return ["-r", file[1]] if file[1] in tree.files else []
    return [line] if _REQUIREMENT.fullmatch(line) else []


_OWN_RUNNERS = {
    "tests/runtests.py": "python tests/runtests.py",
    "runtests.py": "python runtests.py",
    "manage.py": "python manage.py test",
}
# Lock file, installation, and the program that runs scripts.
_MANAGERS = (
    ("package-lock.json", "npm ci", "npm"),
    ("npm-shrinkwrap.json", "npm ci", "npm"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile", "pnpm"),
    ("yarn.lock", "yarn install --frozen-lockfile", "yarn"),
    ("bun.lock", "bun install --frozen-lockfile", "bun"),
    ("bun.lockb", "bun install --frozen-lockfile", "bun"),
    ("package.json", "npm install", "npm"),
)


def _javascript(tree: _Tree) -> Iterator[_Said]:
    if "package.json" not in tree.files:
        return
    package = tree.json("package.json")
    lock, install, manager = next(one for one in _MANAGERS if one[0] in tree.files)
    if manager == "yarn" and "__metadata:" in (tree.given(lock) or "")[:1000]:
        install = "yarn install --immutable"
    kinds = ("dependencies", "devDependencies", "optionalDependencies", "workspaces")
    if any(package.get(kind) for kind in kinds):
        yield "setup", install, lock
    scripts = _table(package, "scripts")
    run = {"test": "bun run test" if manager == "bun" else f"{manager} test"}
    run["lint"] = f"{manager} run lint"
    for name, command in run.items():
        text = scripts.get(name)
        if isinstance(text, str) and text.strip() and "no test specified" not in text:
            yield name, command, f"package.json: scripts.{name}"
        elif name == "test" and (path := tree.tests(_JS_TEST_FILE, "node:test")):
            yield name, "node --test", path


def _ruby(tree: _Tree) -> Iterator[_Said]:
    if "Gemfile" not in tree.files:
        return
    yield "setup", "bundle install", "Gemfile"
    spec = min((path for path in tree.files if re.fullmatch(r"spec/.*_spec\.rb", path)), default="")
    if spec:
        yield "test", "bundle exec rspec", spec
    elif "Rakefile" in tree.files and any(path.startswith("test/") for path in tree.files):
        yield "test", "bundle exec rake test", "Rakefile"


def _php(tree: _Tree) -> Iterator[_Said]:
    if "composer.json" not in tree.files:
        return
    yield "setup", "composer install --no-interaction", "composer.json"
    configured = tree.first("phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml")
    if _at(tree.json("composer.json"), "scripts", "test"):
        yield "test", "composer test", "composer.json: scripts.test"
    elif configured or "phpunit/phpunit" in tree.text("composer.json"):
        yield "test", "vendor/bin/phpunit", configured or "composer.json"


# Languages with one way: the files that show them, a wrapper that is taken if it is there, its
# program, and the arguments for set-up, tests and lint.
_PLAIN = (
    (("Cargo.toml",), "", "cargo", "fetch", "test", ""),
    (("go.mod",), "", "go", "mod download", "test ./...", "vet ./..."),
    (("pom.xml",), "mvnw", "mvn", "-q -B -DskipTests dependency:go-offline", "-B test", ""),
    (("build.gradle", "build.gradle.kts"), "gradlew", "gradle", "testClasses", "test", ""),
)


def _plain(tree: _Tree) -> Iterator[_Said]:
    for marks, wrapper, program, *arguments in _PLAIN:
        if source := tree.first(*marks):
            start = f"./{wrapper}" if wrapper in tree.files else program
            for name, words in zip(("setup", "test", "lint"), arguments, strict=True):
                # A module of Go that requires nothing has nothing to download.
                nothing = name == "setup" and source == "go.mod" and not _requires(tree)
                if words and not nothing:
                    yield name, f"{start} {words}", source
            return


def _requires(tree: _Tree) -> bool:
    return "go.sum" in tree.files or "require" in tree.text("go.mod")


_LANGUAGES = (_python, _javascript, _plain, _ruby, _php, _any_python)


def _makefile(tree: _Tree) -> Iterator[_Said]:
    path = tree.first("GNUmakefile", "makefile", "Makefile")
    for target, name in (("test", "test"), ("check", "test"), ("lint", "lint")):
        if re.search(rf"^{target}[ \t]*::?(?!=)", tree.text(path), re.MULTILINE):
            yield name, f"make {target}", path


def _devcontainer(tree: _Tree) -> Iterator[_Said]:
    path = tree.first(".devcontainer/devcontainer.json", ".devcontainer.json")
    found = tree.json(path)
    image = found.get("image")
    builds = {"build", "dockerFile", "dockerComposeFile"} & found.keys()
    if isinstance(image, str) and _IMAGE.fullmatch(image) and not builds:
        yield "image", image, path
