"""What small trees say about set-up, tests and lint; any content is only found or not found."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.own.discovery import Commands, Found, discover, read_saved, saved_text
from bench.regression.runners import Runner
from bench.regression.runners.commands import find_runner
from core.errors import UserError

PYPROJECT = "[project]\nname = 'x'\n"
TEST = {"tests/test_a.py": "def test_a(): pass\n"}
PACKAGE: dict[str, Any] = {"devDependencies": {"jest": "1"}, "scripts": {"test": "jest"}}


def found_in(files: Mapping[str, str]) -> Found:
    return discover([*files], files.get)


def setup_of(files: Mapping[str, str]) -> list[str]:
    return [*found_in(files).commands.setup]


@pytest.mark.parametrize(
    ("files", "setup", "test", "runner"),
    [
        ({}, [], "", None),
        ({"README.md": "pytest"}, [], "", None),
        (TEST, ["pip install pytest"], "pytest", Runner.PYTEST),
        (
            {"setup.py": "", **TEST},
            ["pip install -e .", "pip install pytest"],
            "pytest",
            Runner.PYTEST,
        ),
        (
            {"requirements.txt": "six", **TEST},
            ["pip install -r requirements.txt", "pip install pytest"],
            "pytest",
            Runner.PYTEST,
        ),
        (
            {"setup.py": "", "tests.py": "import unittest"},
            ["pip install -e ."],
            "python -m unittest discover -v",
            Runner.UNITTEST,
        ),
        (
            {"setup.py": "", "tests/runtests.py": "#", "tests/a/tests.py": "import unittest"},
            ["pip install -e ."],
            "python tests/runtests.py",
            Runner.DJANGO,
        ),
        (
            {"requirements.txt": "django", "manage.py": "import django"},
            ["pip install -r requirements.txt"],
            "python manage.py test",
            Runner.SCRIPT,
        ),
        (
            {"package.json": json.dumps(PACKAGE), "package-lock.json": "{}"},
            ["npm ci"],
            "npm test",
            Runner.JEST,
        ),
        (
            {"package.json": json.dumps(PACKAGE), "pnpm-lock.yaml": ""},
            ["pnpm install --frozen-lockfile"],
            "pnpm test",
            Runner.JEST,
        ),
        (
            {"package.json": json.dumps(PACKAGE), "yarn.lock": "# yarn lockfile v1"},
            ["yarn install --frozen-lockfile"],
            "yarn test",
            Runner.JEST,
        ),
        (
            {"package.json": json.dumps(PACKAGE), "yarn.lock": "#\n__metadata:\n" + "x" * 300_000},
            ["yarn install --immutable"],
            "yarn test",
            Runner.JEST,
        ),
        (
            {"package.json": '{"scripts": {"test": "vitest run"}}'},
            [],
            "npm test",
            Runner.VITEST,
        ),
        (
            {"package.json": "{}", "test/a.test.js": "require('node:test')"},
            [],
            "node --test",
            Runner.NODE,
        ),
        (
            {
                "package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}',
                "test/a.test.js": "require('node:test')",
            },
            [],
            "node --test",
            Runner.NODE,
        ),
        ({"Cargo.toml": ""}, ["cargo fetch"], "cargo test", Runner.CARGO),
        ({"go.mod": "module x"}, [], "go test ./...", Runner.GO),
        (
            {"go.mod": "require y v1", "scripts/test_x.py": ""},
            ["go mod download"],
            "go test ./...",
            Runner.GO,
        ),
        (
            {"pom.xml": ""},
            ["mvn -q -B -DskipTests dependency:go-offline"],
            "mvn -B test",
            Runner.MAVEN,
        ),
        (
            {"build.gradle.kts": "", "gradlew": "#!"},
            ["./gradlew testClasses"],
            "./gradlew test",
            Runner.GRADLE,
        ),
        (
            {"Gemfile": "", "spec/a_spec.rb": ""},
            ["bundle install"],
            "bundle exec rspec",
            Runner.RSPEC,
        ),
        (
            {"Gemfile": "", "Rakefile": "", "test/a_test.rb": ""},
            ["bundle install"],
            "bundle exec rake test",
            Runner.MINITEST,
        ),
        (
            {"composer.json": "{}", "phpunit.xml.dist": ""},
            ["composer install --no-interaction"],
            "vendor/bin/phpunit",
            Runner.PHPUNIT,
        ),
        (
            {"composer.json": '{"scripts": {"test": "phpunit --testdox"}}'},
            ["composer install --no-interaction"],
            "composer test",
            Runner.PHPUNIT,
        ),
        ({"Makefile": "all:\n\ntest: all\n\t./t\n"}, [], "make test", Runner.SCRIPT),
        ({"Makefile": "test := 1\ncheck:\n"}, [], "make check", Runner.SCRIPT),
        ({"Makefile": "test:\n", "go.mod": ""}, [], "go test ./...", Runner.GO),
    ],
)  # fmt: skip
def test_each_language_has_its_way(
    files: Mapping[str, str], setup: list[str], test: str, runner: Runner | None
) -> None:
    found = found_in(files)
    assert [*found.commands.setup] == setup
    assert found.commands.test == test
    # The harness can read the results of what is found.
    assert not test or find_runner(test, "", files.get) is runner
    assert {*found.sources} == {name for name, value in found.commands if value}


@pytest.mark.parametrize(
    ("files", "install"),
    [
        (
            {"pyproject.toml": PYPROJECT + "optional-dependencies.tests = ['pytest']"},
            ["pip install -e '.[tests]'"],
        ),
        (
            {"setup.cfg": "[metadata]\n[options.extras_require]\ndev =\n  pytest\n"},
            ["pip install -e '.[dev]'"],
        ),
        (
            {"setup.py": "setup(extras_require={'testing': ['pytest-cov']})"},
            ["pip install -e '.[testing]'"],
        ),
        (
            {
                "pyproject.toml": PYPROJECT + "[dependency-groups]\n"
                "dev = ['ruff']\ntest = ['pytest>=8', {include-group = 'more'}]\n"
                "more = ['six', '-r x', {include-group = 'test'}]\n",
            },
            ["pip install -e .", "pip install 'pytest>=8' six"],
        ),
        (
            {
                "pyproject.toml": "[tool.poetry]\nname = 'x'\n[tool.poetry.group.test.dependencies]"
                "\npytest = '^7.4'\nsix = '*'\nmock = {version = '5.1'}\nown = {path = '.'}\n",
            },
            ["pip install -e .", "pip install 'pytest>=7.4,<8' six mock==5.1"],
        ),
        (
            {"setup.py": "", "Pipfile": "[dev-packages]\npytest = '>=3'\n'e18' = {path = '.'}\n"},
            ["pip install -e .", "pip install 'pytest>=3'"],
        ),
        (
            {"setup.py": "", "requirements/dev.txt": "", "requirements/tests.txt": "pytest"},
            ["pip install -e .", "pip install -r requirements/tests.txt"],
        ),
        (
            {"setup.py": "", "requirements-dev.txt": "-e .\npytest"},
            ["pip install -e .", "pip install -r requirements-dev.txt"],
        ),
        (
            {"setup.py": "", "tests/requirements.txt": "x"},
            ["pip install -e .", "pip install -r tests/requirements.txt", "pip install pytest"],
        ),
        (
            {
                "setup.py": "",
                "tox.ini": "[testenv]\ndeps =\n  -rr.txt\n  -r gone.txt\n  pytest>=3\n"
                "  py27: mock\n  {env:X}\ncommands = pytest\n",
                "r.txt": "",
            },
            ["pip install -e .", "pip install -r r.txt 'pytest>=3'"],
        ),
    ],
)  # fmt: skip
def test_packages_of_tests_are_found(files: Mapping[str, str], install: list[str]) -> None:
    assert setup_of({**files, **TEST}) == install


def test_nothing_of_the_repository_is_read_by_the_shell() -> None:
    text = PYPROJECT + "[dependency-groups]\ntest = ['pytest; $(touch x)', '$(touch y)']\n"
    assert setup_of({"pyproject.toml": text, **TEST})[1] == "pip install 'pytest; $(touch x)'"
    files = {"setup.py": "", "requirements-test;x.txt": "pytest", **TEST}
    assert "requirements" not in str(setup_of(files))


def test_lint_is_found_where_it_is_configured() -> None:
    for files, lint in [
        ({"pyproject.toml": PYPROJECT + "[tool.ruff]\nline-length = 9\n"}, "ruff check"),
        ({"setup.py": "", "ruff.toml": ""}, "ruff check"),
        ({"setup.py": "", "tox.ini": "[flake8]\nx = 1\n"}, "flake8"),
        ({"setup.py": "", ".flake8": "", "Makefile": "lint:\n"}, "flake8"),
        ({"setup.py": "", "Makefile": "lint:\n"}, "make lint"),
        ({"setup.py": ""}, ""),
        ({"go.mod": ""}, "go vet ./..."),
        ({"package.json": '{"scripts": {"lint": "eslint ."}}'}, "npm run lint"),
    ]:
        found = found_in({**files, **(TEST if "setup.py" in files else {})})
        assert found.commands.lint == lint
        tool = lint.partition(" ")[0]
        if tool in ("ruff", "flake8"):
            assert tool in found.commands.setup[-1].split()


def test_an_older_python_is_found() -> None:
    now = sys.version_info.minor
    for text, version in [
        ("requires-python = '>=3.6'", ""),
        ("requires-python = '>=3.6,<3.9'", "3.8"),
        ("requires-python = '<=3.9'", "3.9"),
        ("requires-python = '==3.7.*'", "3.7"),
        ("requires-python = '>=3.6,<4'", ""),
        (f"requires-python = '<3.{now + 2}'", ""),
        ("requires-python = 3", ""),
    ]:
        assert found_in({"pyproject.toml": PYPROJECT + text}).commands.python == version, text
    files = {"setup.cfg": "[metadata]\n[options]\npython_requires = <3.9\n"}
    assert found_in(files).commands.python == "3.8"
    assert found_in({"setup.py": "", ".python-version": "3.9.7\n"}).commands.python == "3.9"
    assert found_in({"setup.py": "", ".python-version": "pypy"}).commands.python == ""


def test_the_image_of_a_devcontainer_is_found() -> None:
    path = ".devcontainer/devcontainer.json"
    text = '{\n // a "comment"\n "image": "reg/py:3", /* , } */ "x": ["//", 1,],\n}'
    found = found_in({path: text})
    assert (found.commands.image, found.sources["image"]) == ("reg/py:3", path)
    for other in (
        '{"image": "a b"}',
        '{"image": "-v"}',
        '{"image": "x", "build": {}}',
        '{"image":',
    ):
        assert found_in({path: other}).commands == Commands()


def test_sources_name_the_files() -> None:
    found = found_in({"pyproject.toml": PYPROJECT, "requirements-dev.txt": "pytest", **TEST})
    assert found.sources == {
        "setup": "pyproject.toml, requirements-dev.txt",
        "test": "tests/test_a.py",
    }
    text = saved_text(found.commands, found.sources)
    assert "# From pyproject.toml, requirements-dev.txt\nsetup-cmd = [" in text
    assert read_saved(text) == found.commands
    assert read_saved("setup-cmd = 'make'").setup == ("make",)
    assert read_saved("") == Commands()
    odd = Commands(setup=("a\x7f\n\\",), test="'\"\0")
    assert read_saved(saved_text(odd)) == odd


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("test-cmd = ", "is not TOML: Invalid value (at end of document)"),
        ("test_cmd = 'x'", "there is no key 'test_cmd'; did you mean test-cmd?"),
        ("zzz = 1", "there is no key 'zzz'; known are setup-cmd, test-cmd, lint-cmd, image"),
        ("test-cmd = 1", "test-cmd: Input should be a valid string"),
        ("setup-cmd = [1]", "setup-cmd: Input should be a valid string"),
        ("setup-cmd = {a = 1}", "setup-cmd: Input should be a valid tuple"),
        ("a" + ".a" * 200 + " = 1", "too many dots"),
    ],
)
def test_a_wrong_saved_file_is_one_line(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_saved(text)
    assert str(caught.value).startswith(".retry-harness.toml: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(WORDS, max_size=3), WORDS, WORDS, WORDS)
def test_a_saved_file_is_read_as_it_was(setup: list[str], test: str, lint: str, why: str) -> None:
    commands = Commands(setup=tuple(setup), test=test, lint=lint)
    assert read_saved(saved_text(commands, {"setup": why, "test": why})) == commands


NAMES = [
    "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "package.json", "composer.json",
    "requirements-dev.txt", "Makefile", ".devcontainer.json", ".python-version", "go.mod",
    "Pipfile", "tests/test_a.py", "yarn.lock", "manage.py",
]  # fmt: skip
PARTS = [
    "[project]\n", "[tool.poetry]\n", "[tool]\nruff = 1\n", "[dependency-groups]\n", "test = [1]\n",
    "test = [{include-group = 'test'}]\n", "optional-dependencies = 3\n", "[options]\n",
    "[testenv]", "deps =\n  x\n", "\n  indented\n", "{",
    '"scripts":', '"test"', "[1]", ": 1", "}", '"', "\\", "=",
    "\0", "\ufeff", "3.9", "requires-python = []\n", "[tool.poetry.group.test.dependencies]\n",
    "a = {version = 1}\n", "[[project]]\n", "[options.extras_require]\n", "/*", "//", ",",
]  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(PARTS) | st.text(max_size=9), max_size=9).map("".join)
        | st.binary(max_size=60).map(lambda data: data.decode("utf-8", "replace")),
    )
)
def test_no_content_is_an_error(files: dict[str, str]) -> None:
    assert find_runner(found_in(files).commands.test, "", files.get)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 50_000,
        "a = " + "[" * 50_000,
        "/*" * 100_000,
        '"\\' * 100_000,
        "a." * 100_000,
        " " * 200_000 + "a",
        "a" + " " * 200_000 + "b",
        "," * 200_000,
        ("[x" + " " * 290 + "y\n") * 800,
        ("a" + " " * 290 + "b\n") * 800,
        "'test' " * 30_000,
        "extras_require" + "'test'" + " " * 200_000,
        "\n".join(f"[a{n}]" for n in range(20_000)),
        "x" * (1 << 20),
    ],
)
def test_no_content_takes_long(text: str) -> None:
    began = time.process_time()
    found_in(dict.fromkeys(NAMES, text))
    found_in(dict.fromkeys(NAMES, f"[metadata]\n[testenv]\ndeps=x\n {text}"))
    assert time.process_time() - began < 10


def test_a_file_that_cannot_be_read_is_not_there() -> None:
    assert discover(["package.json", "setup.py"], lambda _: None).commands.setup == (
        "pip install -e .",
    )
