"""What small trees say about set-up, tests and lint; any content is only found or not found."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_retry.core.errors import UserError
from swe_retry.frameworks import Runner
from swe_retry.frameworks.commands import find_runner
from swe_retry.instances.instance import Commands
from swe_retry.own.discovery import FoundCommands, discover, read_saved

PROJECT = "[project]\nname = 'x'\n"
TEST = {"tests/test_a.py": "def test_a(): pass\n"}
JEST = {"package.json": '{"scripts": {"test": "jest", "lint": "eslint ."}}'}
NO_TEST = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})
SETUP = {"setup.py": ""}
EDITABLE = "pip install -e ."
PYTEST = "pip install pytest"


def discovery_of(files: Mapping[str, str]) -> FoundCommands:
    return discover(list(files), files.get)


def setup_of(files: Mapping[str, str]) -> str:
    setup = discovery_of(files).commands.setup
    return "; ".join(setup)


# Files, their set-up, the command of the tests, and the runner that reads its results.
LANGUAGES: list[tuple[dict[str, str], str, str, str]] = [
    ({}, "", "", ""),
    ({"README.md": "pytest"}, "", "", ""),
    (TEST, PYTEST, "pytest", "pytest"),
    ({**SETUP, **TEST}, f"{EDITABLE}; {PYTEST}", "pytest", "pytest"),
    (
        {"setup.py": "tests_require=['pytest']"},
        f"{EDITABLE}; {PYTEST}",
        "pytest",
        "pytest",
    ),
    (
        {"requirements.txt": "six", **TEST},
        f"pip install -r requirements.txt; {PYTEST}",
        "pytest",
        "pytest",
    ),
    ({**JEST, "package-lock.json": ""}, "npm ci", "npm test", "jest"),
    ({**JEST, "scripts/test_x.py": ""}, "npm install", "npm test", "jest"),
    (
        {**JEST, "pnpm-lock.yaml": ""},
        "pnpm install --frozen-lockfile",
        "pnpm test",
        "jest",
    ),
    (
        {**JEST, "yarn.lock": "", "Makefile": "test:"},
        "yarn install --frozen-lockfile",
        "yarn test",
        "jest",
    ),
    ({"package.json": NO_TEST}, "npm install", "", ""),
    (
        {"package.json": NO_TEST, "go.mod": ""},
        "go mod download",
        "go test ./...",
        "go",
    ),
    ({"Cargo.toml": "", "a_test.py": ""}, "cargo fetch", "cargo test", "cargo"),
    (
        {"pom.xml": ""},
        "mvn -q -B -DskipTests dependency:go-offline",
        "mvn -B test",
        "maven",
    ),
    (
        {"build.gradle.kts": "", "gradlew": "#!"},
        "./gradlew testClasses",
        "./gradlew test",
        "gradle",
    ),
    ({"Makefile": "all:\n\ntest: all\n\t./t\n"}, "", "make test", "script"),
    ({"Makefile": "test := 1\ntest ::= 1\ncheck:\n"}, "", "make check", "script"),
    ({**SETUP, "Makefile": "test:"}, EDITABLE, "make test", "script"),
]


def assert_sources_are_named(discovery: FoundCommands) -> None:
    names = [name for name, command in discovery.commands if command]
    assert set(discovery.sources) == set(names)


def test_each_language_has_its_way() -> None:
    for files, setup, test, runner in LANGUAGES:
        discovery = discovery_of(files)
        assert setup_of(files) == setup
        assert discovery.commands.test == test, files
        assert_sources_are_named(discovery)
        # The harness can read the results of these commands.
        if test:
            runner_of_test = find_runner(test, "", files.get)
            assert runner_of_test is Runner[runner.upper()]


EXTRAS = "[options.extras_require]\ndocs =\n  x\ndev =\n  pytest\n[a]\ntest = x\n"
GROUPS = "[dependency-groups]\ndev = ['ruff']\ntest = [\r\n  'pytest>=8',\n]\n"
OPTIONAL = "[project.optional-dependencies]"
PACKAGES: list[tuple[dict[str, str], str]] = [
    (
        {"pyproject.toml": f"{OPTIONAL}\ntests = ['pytest']\n{GROUPS}"},
        f"{EDITABLE}; pip install --group test",
    ),
    (
        {"pyproject.toml": f"{OPTIONAL}\ntests = [\n 'pytest',\n]"},
        "pip install -e '.[tests]'",
    ),
    (
        {"pyproject.toml": f"{PROJECT}optional-dependencies.testing = ['mock']\n"},
        f"pip install -e '.[testing]'; {PYTEST}",
    ),
    ({"setup.cfg": f"[metadata]\n{EXTRAS}"}, "pip install -e '.[dev]'"),
    (
        {"setup.py": "{'testing': ['mock']}"},
        f"pip install -e '.[testing]'; {PYTEST}",
    ),
    (
        {**SETUP, "requirements/dev.txt": "", "requirements/tests.txt": "pytest"},
        f"{EDITABLE}; pip install -r requirements/tests.txt",
    ),
    (
        {**SETUP, "tests/requirements.txt": "x"},
        f"{EDITABLE}; pip install -r tests/requirements.txt; {PYTEST}",
    ),
    (
        {"setup.cfg": f"[metadata]\n{EXTRAS}", "requirements-dev.txt": "pytest-mock"},
        "pip install -e '.[dev]' -r requirements-dev.txt",
    ),
    (
        {**SETUP, "requirements-test.txt": "mock", "requirements-dev.txt": "pytest"},
        f"{EDITABLE}; pip install -r requirements-test.txt -r requirements-dev.txt",
    ),
    (
        {
            "pyproject.toml": f"{PROJECT}[tool.hatch.envs.test]\ndependencies=['pytest', '-r x']"
        },
        f"{EDITABLE}; pip install pytest",
    ),
    (
        {
            "pyproject.toml": PROJECT,
            "hatch.toml": "[envs.default]\ndependencies=['pytest>=8']",
        },
        f"{EDITABLE}; pip install 'pytest>=8'",
    ),
    ({**SETUP, "requirements-test;x.txt": "pytest"}, f"{EDITABLE}; {PYTEST}"),
]


def test_packages_of_tests_are_found() -> None:
    for files, setup in PACKAGES:
        assert setup_of({**files, **TEST}) == setup


IN_TOOLS = (
    "python -m venv --without-pip ~/tools && "
    "PIP_UPLOADED_PRIOR_TO= pip --python ~/tools/bin/python install -q "
)
POETRY = """[tool.poetry]
[tool.poetry.group.dev.dependencies]
pytest = "^8.1"
mock = {version = ">=5,<6", extras = ["x"]}
six = "*"
tomli = {git = "https://example.org/x"}
"""
PDM = f"{PROJECT}[tool.pdm.dev-dependencies]\ntest = ['pytest']\n"
UV = f"{PROJECT}[tool.uv]\ndev-dependencies = ['pytest']\n"
TOX = "[testenv]\ndeps =\n  mock\n  -r{toxinidir}/r.txt\n"
NOX = "import nox\n\n@nox.session\ndef lint(s):\n  pass\n\n@nox.session\ndef unit_tests(s):\n"
# The tool, its command, and what pip installs then; for tox and nox what pip installs before.
TOOLS: list[tuple[dict[str, str], str, str, str]] = [
    (
        {"pyproject.toml": POETRY, "poetry.lock": ""},
        "poetry",
        "poetry install --no-interaction || pip install -e .",
        "pip install 'pytest>=8.1' 'mock>=5,<6' six tomli",
    ),
    (
        {"pyproject.toml": PDM},
        "pdm",
        "pdm install --frozen-lockfile || pip install -e .",
        "pip install pytest",
    ),
    (
        {"pyproject.toml": UV, "uv.lock": ""},
        "uv",
        "uv sync --active --frozen --inexact || pip install -e .",
        "pip install pytest",
    ),
    ({**SETUP, "tox.ini": TOX}, "tox", "tox run -e py --notest", EDITABLE),
    ({**SETUP, "noxfile.py": NOX}, "nox", "nox -s unit_tests --install-only", EDITABLE),
]


def test_a_project_is_installed_by_its_own_tool() -> None:
    for files, tool, command, pip in TOOLS:
        setup = discovery_of({**files, **TEST}).commands.setup
        (line,) = [line for line in setup if f"{IN_TOOLS}{tool} && " in line]
        assert f" && {command}" in line
        assert pip in setup
    smoke_tests = NOX.replace("unit_", "smoke_")
    for files in (
        {**SETUP, "noxfile.py": smoke_tests},
        {"tox.ini": "[tox]\n"},
    ):
        assert IN_TOOLS not in setup_of({**files, **TEST})
    # What is named for tests has pytest, so the environments of tox are not needed.
    files = {**SETUP, "tox.ini": TOX, "requirements-dev.txt": "pytest"}
    assert "tox" not in setup_of(files)


RUFF = "ruff check --output-format concise"
LINTERS: list[tuple[dict[str, str], str]] = [
    ({"pyproject.toml": f"{PROJECT}[tool.ruff]\nline-length = 9\n"}, RUFF),
    ({**SETUP, "ruff.toml": "", "Makefile": "lint:\n"}, RUFF),
    ({**SETUP, "tox.ini": "[flake8]\nx = 1\n"}, "flake8"),
    ({**SETUP, "Makefile": "lint:\n"}, "make lint"),
    (SETUP, ""),
    ({"go.mod": ""}, "go vet ./..."),
    (JEST, "npm run lint"),
]


def test_lint_is_found_where_it_is_configured() -> None:
    for files, lint in LINTERS:
        commands = discovery_of(files).commands
        assert commands.lint == lint, files
        tool = lint.partition(" ")[0]
        installs = f"pip install {tool}" in commands.setup
        assert installs is (tool in ("ruff", "flake8"))


def test_the_image_of_a_devcontainer_and_the_pinned_python_are_found() -> None:
    path = ".devcontainer/devcontainer.json"
    text = '{\n // "image": "old",\n "name": "x", "image": "reg/py:3", // a comment\n}'
    discovery = discovery_of({path: text, ".python-version": "3.9.7\n"})
    assert discovery.commands.image == "reg/py:3"
    assert discovery.sources["image"] == path
    assert discovery.commands.python == "3.9"
    assert discovery.sources["python"] == ".python-version"
    for other in (
        '{"image": "a b"}',
        '{"image": "-v"}',
        '{"image":',
        '{"image": ["x"]}',
    ):
        files = {path: other, ".python-version": "pypy3.10"}
        assert discovery_of(files).commands == Commands()


def test_sources_name_the_files() -> None:
    files = {
        "pyproject.toml": PROJECT,
        "requirements-dev.txt": "pytest",
        **TEST,
    }
    assert discovery_of(files).sources == {
        "setup": "pyproject.toml, requirements-dev.txt",
        "test": "tests/test_a.py",
    }


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


WRONG_FILES = {
    "test-cmd = ": "is not TOML: Invalid value (at end of document)",
    "test = 'x'": (
        "'test': Extra inputs are not permitted; its keys are setup-cmd, test-cmd"
    ),
    "test-cmd = 1": "'test-cmd': Input should be a valid string",
    "setup-cmd = [1]": "'setup-cmd[0]': Input should be a valid string",
    "setup-cmd = {a = 1}": "'setup-cmd': Input should be a valid tuple",
    "a" + ".a" * 100_000 + " = 1": "too many dots",
    "a = " + "[" * 100_000: "is not TOML",
    "#" * (1 << 19): "too large",
}


def test_a_wrong_saved_file_is_one_line() -> None:
    for text, message in WRONG_FILES.items():
        with pytest.raises(UserError) as caught:
            read_saved(text)
        line = str(caught.value)
        assert line.startswith(".retry-harness.toml: ")
        assert message in line
        assert "\n" not in line


NAMES = """
pyproject.toml setup.cfg setup.py tox.ini package.json requirements-dev.txt Makefile
.devcontainer.json .python-version go.mod tests/test_a.py yarn.lock
"""
PARTS = [
    "[project.optional-dependencies]\n", "[dependency-groups]\n", "[options.extras_require]\n",
    "[testenv]\n", "test = [1]\n", "deps =\n  -r x\n", "optional-dependencies.test = 3\n",
    '{"scripts":', '{"test":', '"image": "', "[1]", "null", "}", '"', "\\", "\0", "\ufeff", "{}",
]  # fmt: skip
TEXT_PARTS = st.sampled_from(PARTS) | st.text(max_size=9)
TEXTS = st.lists(TEXT_PARTS, max_size=9).map("".join)
PATHS = st.sampled_from(NAMES.split())


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(PATHS, TEXTS))
def test_no_content_is_an_error(files: dict[str, str]) -> None:
    assert_sources_are_named(discovery_of(files))


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
        repetitions = (1 << 16) // len(part)
        text = start + part * repetitions
        files = dict.fromkeys(NAMES.split(), text)
        discovery_of(files)
    assert time.process_time() - began < 2


def test_a_file_that_is_too_large_or_unreadable_is_as_an_empty_one() -> None:
    unreadable = discover(["package.json", "setup.py"], lambda _: None)
    assert unreadable.commands.setup == (EDITABLE,)
    large = {"setup.py": "", "tox.ini": "pytest" + " " * (1 << 18)}
    assert not discovery_of(large).commands.test
