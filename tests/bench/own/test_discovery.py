"""What small trees say about set-up, tests and lint; any content is only found or not found."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.own.discovery import Commands, FoundCommands, discover, read_saved
from bench.regression.runners import Runner
from bench.regression.runners.commands import find_runner
from core.errors import UserError

PROJECT = "[project]\nname = 'x'\n"
TEST = {"tests/test_a.py": "def test_a(): pass\n"}
JEST = {"package.json": '{"scripts": {"test": "jest", "lint": "eslint ."}}'}
NO_TEST = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})
EDITABLE = "pip install -e ."
PYTEST = "pip install pytest"


def found_in(files: Mapping[str, str]) -> FoundCommands:
    return discover([*files], files.get)


@pytest.mark.parametrize(
    ("files", "setup", "test", "runner"),
    [
        ({}, [], "", None),
        ({"README.md": "pytest"}, [], "", None),
        (TEST, [PYTEST], "pytest", Runner.PYTEST),
        ({"setup.py": "", **TEST}, [EDITABLE, PYTEST], "pytest", Runner.PYTEST),
        (
            {"setup.py": "tests_require=['pytest']"},
            [EDITABLE, PYTEST],
            "pytest",
            Runner.PYTEST,
        ),
        (
            {"requirements.txt": "six", **TEST},
            ["pip install -r requirements.txt", PYTEST],
            "pytest",
            Runner.PYTEST,
        ),
        ({**JEST, "package-lock.json": ""}, ["npm ci"], "npm test", Runner.JEST),
        ({**JEST, "scripts/test_x.py": ""}, ["npm install"], "npm test", Runner.JEST),
        (
            {**JEST, "pnpm-lock.yaml": ""},
            ["pnpm install --frozen-lockfile"],
            "pnpm test",
            Runner.JEST,
        ),
        (
            {**JEST, "yarn.lock": "", "Makefile": "test:"},
            ["yarn install --frozen-lockfile"],
            "yarn test",
            Runner.JEST,
        ),
        ({"package.json": NO_TEST}, ["npm install"], "", None),
        (
            {"package.json": NO_TEST, "go.mod": ""},
            ["go mod download"],
            "go test ./...",
            Runner.GO,
        ),
        (
            {"Cargo.toml": "", "a_test.py": ""},
            ["cargo fetch"],
            "cargo test",
            Runner.CARGO,
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
        ({"Makefile": "all:\n\ntest: all\n\t./t\n"}, [], "make test", Runner.SCRIPT),
        (
            {"Makefile": "test := 1\ntest ::= 1\ncheck:\n"},
            [],
            "make check",
            Runner.SCRIPT,
        ),
        ({"setup.py": "", "Makefile": "test:"}, [EDITABLE], "make test", Runner.SCRIPT),
    ],
)
def test_each_language_has_its_way(
    files: Mapping[str, str],
    setup: list[str],
    test: str,
    runner: Runner | None,
) -> None:
    found = found_in(files)
    assert [*found.commands.setup] == setup
    assert found.commands.test == test
    # The harness can read the results of what is found.
    assert not test or find_runner(test, "", files.get) is runner
    assert {*found.sources} == {name for name, value in found.commands if value}


EXTRAS = "[options.extras_require]\ndocs =\n  x\ndev =\n  pytest\n[a]\ntest = x\n"
GROUPS = "[dependency-groups]\ndev = ['ruff']\ntest = [\r\n  'pytest>=8',\n]\n"


@pytest.mark.parametrize(
    ("files", "install"),
    [
        (
            {
                "pyproject.toml": f"[project.optional-dependencies]\ntests = ['pytest']\n{GROUPS}"
            },
            [EDITABLE, "pip install --group test"],
        ),
        (
            {
                "pyproject.toml": "[project.optional-dependencies]\ntests = [\n 'pytest',\n]"
            },
            ["pip install -e '.[tests]'"],
        ),
        (
            {"pyproject.toml": PROJECT + "optional-dependencies.testing = ['mock']\n"},
            ["pip install -e '.[testing]'", PYTEST],
        ),
        ({"setup.cfg": f"[metadata]\n{EXTRAS}"}, ["pip install -e '.[dev]'"]),
        (
            {"setup.py": "{'testing': ['mock']}"},
            ["pip install -e '.[testing]'", PYTEST],
        ),
        (
            {
                "setup.py": "",
                "requirements/dev.txt": "",
                "requirements/tests.txt": "pytest",
            },
            [EDITABLE, "pip install -r requirements/tests.txt"],
        ),
        (
            {"setup.py": "", "tests/requirements.txt": "x"},
            [EDITABLE, "pip install -r tests/requirements.txt", PYTEST],
        ),
        (
            {
                "setup.py": "",
                "r.txt": "x",
                "tox.ini": "[testenv]\ndeps =\n  six\n  -rr.txt\n",
            },
            [EDITABLE, "pip install -r r.txt", PYTEST],
        ),
        (
            {"setup.py": "", "tox.ini": "[testenv]\ndeps = -r gone.txt\n"},
            [EDITABLE, PYTEST],
        ),
        ({"setup.py": "", "requirements-test;x.txt": "pytest"}, [EDITABLE, PYTEST]),
    ],
)
def test_packages_of_tests_are_found(
    files: Mapping[str, str], install: list[str]
) -> None:
    assert [*found_in({**files, **TEST}).commands.setup] == install


RUFF = "ruff check --output-format concise"


@pytest.mark.parametrize(
    ("files", "lint"),
    [
        (
            {"pyproject.toml": PROJECT + "[tool.ruff]\nline-length = 9\n"},
            RUFF,
        ),
        (
            {"setup.py": "", "ruff.toml": "", "Makefile": "lint:\n"},
            RUFF,
        ),
        ({"setup.py": "", "tox.ini": "[flake8]\nx = 1\n"}, "flake8"),
        ({"setup.py": "", "Makefile": "lint:\n"}, "make lint"),
        ({"setup.py": ""}, ""),
        ({"go.mod": ""}, "go vet ./..."),
        (JEST, "npm run lint"),
    ],
)
def test_lint_is_found_where_it_is_configured(
    files: Mapping[str, str], lint: str
) -> None:
    commands = found_in(files).commands
    assert commands.lint == lint
    tool = lint.partition(" ")[0]
    assert (f"pip install {tool}" in commands.setup) is (tool in ("ruff", "flake8"))


def test_the_image_of_a_devcontainer_and_the_pinned_python_are_found() -> None:
    path = ".devcontainer/devcontainer.json"
    text = '{\n // "image": "old",\n "name": "x", "image": "reg/py:3", // a comment\n}'
    found = found_in({path: text, ".python-version": "3.9.7\n"})
    assert (found.commands.image, found.sources["image"]) == ("reg/py:3", path)
    assert (found.commands.python, found.sources["python"]) == (
        "3.9",
        ".python-version",
    )
    for other in (
        '{"image": "a b"}',
        '{"image": "-v"}',
        '{"image":',
        '{"image": ["x"]}',
    ):
        files = {path: other, ".python-version": "pypy3.10"}
        assert found_in(files).commands == Commands()


def test_sources_name_the_files() -> None:
    found = found_in(
        {"pyproject.toml": PROJECT, "requirements-dev.txt": "pytest", **TEST}
    )
    setup = "pyproject.toml, requirements-dev.txt"
    assert found.sources == {"setup": setup, "test": "tests/test_a.py"}


def test_commands_are_read_from_a_file() -> None:
    text = """
        setup-cmd = ["pip install -r requirements.txt", "make"]
        test-cmd = "pytest"  # all tests
        lint-cmd = "ruff check"
        image = "python:3.12"
        python = "3.9"
    """
    assert read_saved(text) == Commands(
        setup=("pip install -r requirements.txt", "make"),
        test="pytest",
        lint="ruff check",
        image="python:3.12",
        python="3.9",
    )
    assert read_saved("setup-cmd = 'make'").setup == ("make",)
    assert read_saved("") == Commands()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("test-cmd = ", "is not TOML: Invalid value (at end of document)"),
        (
            "test = 'x'",
            "'test': Extra inputs are not permitted; its keys are setup-cmd, test-cmd",
        ),
        ("test-cmd = 1", "'test-cmd': Input should be a valid string"),
        ("setup-cmd = [1]", "'setup-cmd[0]': Input should be a valid string"),
        ("setup-cmd = {a = 1}", "'setup-cmd': Input should be a valid tuple"),
        ("a" + ".a" * 100_000 + " = 1", "too many dots"),
        ("a = " + "[" * 100_000, "is not TOML"),
        ("#" * (1 << 19), "too large"),
    ],
)
def test_a_wrong_saved_file_is_one_line(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_saved(text)
    assert str(caught.value).startswith(".retry-harness.toml: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


NAMES = [
    "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "package.json", "requirements-dev.txt",
    "Makefile", ".devcontainer.json", ".python-version", "go.mod", "tests/test_a.py", "yarn.lock",
]  # fmt: skip
PARTS = [
    "[project.optional-dependencies]\n", "[dependency-groups]\n", "[options.extras_require]\n",
    "[testenv]\n", "test = [1]\n", "deps =\n  -r x\n", "optional-dependencies.test = 3\n",
    '{"scripts":', '{"test":', '"image": "', "[1]", "null", "}", '"', "\\", "\0", "\ufeff", "{}",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=9), max_size=9).map("".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(NAMES), TEXTS))
def test_no_content_is_an_error(files: dict[str, str]) -> None:
    found = found_in(files)
    assert {*found.sources} == {name for name, value in found.commands if value}


@pytest.mark.parametrize(
    "part",
    [
        "[", '{"a":', "\\'", "\n", " ", ",", "'test' ", "'test':", "\ntest = [\n ]", '"image" :\n',
        "[dependency-groups]\n", "extras_require", "-r ", "-r a\t", "\ttest\t:", "pytes", "//", "x",
    ],
)  # fmt: skip
def test_no_content_takes_long(part: str) -> None:
    """Patterns that go back take time by the square of a text: minutes instead of a second."""
    began = time.process_time()
    for start in ("", "[testenv]\n", "[dependency-groups]\n", "'test'", '"image"'):
        text = start + part * ((1 << 16) // len(part))
        found_in(dict.fromkeys(NAMES, text))
    assert time.process_time() - began < 2


def test_a_file_that_is_too_large_or_unreadable_is_as_an_empty_one() -> None:
    assert discover(["package.json", "setup.py"], lambda _: None).commands.setup == (
        EDITABLE,
    )
    large = {"setup.py": "", "tox.ini": "pytest" + " " * (1 << 18)}
    assert not found_in(large).commands.test
