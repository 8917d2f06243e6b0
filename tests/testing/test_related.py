from __future__ import annotations

import pytest

from swe_retry.frameworks import Runner, runner_of
from swe_retry.testing.related import RelatedTests, directive
from swe_retry.testing.testlogs import missing_passes, read_run
from tests.fixtures import an_instance

FILES = {
    "src/flask/blueprints.py": "def register(): ...\n",
    "src/flask/cli.py": "",
    "tests/test_blueprints.py": "import flask\n",
    "tests/test_scaffold.py": "import flask\n",
    "tests/test_basic.py": "from flask import blueprints\n",
    "tests/test_cli.py": "from flask.cli import main\n",
    "tests/conftest.py": "import flask.cli\n",
    "sympy/core/basic.py": "",
    "sympy/core/tests/test_basic.py": "",
    "sphinx/ext/autodoc/__init__.py": "",
    "tests/test_ext_autodoc_configs.py": "",
    "tests/test_ext_autodoc.py": "",
    "lib/thing/_parser.py": "",
    "tests/test_parser.py": "",
    "requests/models.py": "class Response: ...\n",
    "test_requests.py": "import requests\n\nrequests.Response()\n",
}


RELATED = {
    "src/flask/blueprints.py": ["tests/test_blueprints.py", "tests/test_basic.py"],
    "src/flask/cli.py": ["tests/test_cli.py"],
    "sympy/core/basic.py": ["sympy/core/tests/test_basic.py", "tests/test_basic.py"],
    "sphinx/ext/autodoc/__init__.py": [
        "tests/test_ext_autodoc.py",
        "tests/test_ext_autodoc_configs.py",
    ],
    "lib/thing/_parser.py": ["tests/test_parser.py"],
    "requests/models.py": ["test_requests.py"],
    "tests/test_cli.py": [],
    "README.md": [],
}


def test_tests_that_point_at_a_file() -> None:
    for edited, expected in RELATED.items():
        tests = RelatedTests(sorted(FILES), FILES.get)
        related = list(tests.of([edited]))
        assert related[: len(expected)] == expected
        assert bool(related) is bool(expected)
        assert "tests/conftest.py" not in related


@pytest.mark.parametrize(
    ("edited", "files", "expected"),
    [
        (  # The top package's name alone says nothing.
            "sympy/core/mod.py",
            {
                "sympy/core/mod.py": "class Mod: ...\n",
                "sympy/unify/tests/test_sympy.py": "from sympy import S\n",
                "sympy/strategies/tests/test_core.py": "from sympy import S\n",
                "sympy/core/tests/test_args.py": "from sympy import Mod\n",
                "sympy/core/tests/test_var.py": "from sympy import S\n",
                "sympy/core/tests/test_arit.py": "def test_Mod(): Mod()\n",
            },
            ["sympy/core/tests/test_arit.py", "sympy/core/tests/test_args.py"],
        ),
        (  # A test that is called like a package of the module tests all of it.
            "sympy/printing/pretty/pretty.py",
            {
                "sympy/printing/pretty/pretty.py": "class Form: ...\nclass Other: ...\n",
                "sympy/printing/pretty/tests/test_pretty.py": "Form(Other())\n",
                "sympy/printing/tests/test_latex.py": "from sympy import S\n",
                "sympy/vector/tests/test_printing.py": "Form()\n",
                "sympy/vector/tests/test_functions.py": "Form()\n",
            },
            [
                "sympy/printing/pretty/tests/test_pretty.py",
                "sympy/vector/tests/test_printing.py",
            ],
        ),
        (  # A package that is joined to the name is as near as one in front of it.
            "sphinx/ext/autodoc/typehints.py",
            {
                "sphinx/ext/autodoc/typehints.py": "def record_typehints(): ...\n",
                "tests/test_ext_autodoc_configs.py": "autodoc_typehints = record_typehints\n",
                "tests/test_ext_todo.py": "",
            },
            ["tests/test_ext_autodoc_configs.py"],
        ),
        (  # A folder of tests may be named after the module.
            "src/_pytest/python.py",
            {
                "src/_pytest/python.py": "",
                "tox.ini": "[tox]\nenvlist = a\n[pytest]\npython_files = test_*.py\n"
                "    testing/python/*.py  # its folder\nxfail_strict = true\n",
                "testing/python/fixtures.py": "",
                "testing/test_mark.py": "",
                "testing/example/fixtures.py": "",
            },
            ["testing/python/fixtures.py"],
        ),
        (  # A test that the candidate edits cannot tell.
            "checks/check_a.py",
            {
                "setup.cfg": "[tool:pytest]\npython_files = check_*.py\n",
                "checks/check_a.py": "",
            },
            [],
        ),
    ],
)
def test_name_place_and_mention_decide(
    edited: str,
    files: dict[str, str],
    expected: list[str],
) -> None:
    related = RelatedTests(list(files), files.get).of([edited])
    assert list(related) == expected


CHANGED_TOGETHER = {
    "thing/core.py": [
        {"thing/core.py", "tests/test_self.py"},
        {"thing/core.py", "tests/test_self.py", "tests/test_rare.py", "README.md"},
        # A large change says nothing.
        {"thing/core.py", "tests/test_all.py", *map(str, range(20))},
    ]
}


def test_tests_that_changed_with_a_file_are_related() -> None:
    edited = "thing/core.py"
    tests = ["tests/test_all.py", "tests/test_rare.py", "tests/test_self.py"]
    files = dict.fromkeys([edited, *tests], "")

    def history(path: str) -> list[set[str]]:
        return CHANGED_TOGETHER.get(path, [])

    def related(path: str) -> tuple[str, ...]:
        return RelatedTests(list(files), files.get, history).of([path])

    assert related(edited) == ("tests/test_self.py", "tests/test_rare.py")
    assert related("thing/other.py") == ()


SETTINGS = [
    (
        "pytest.ini",
        "[pytest]\naddopts = -q\npython_files =\n    unittest_*.py\n    *_t.py\n",
    ),
    ("tox.ini", "[pytest]\npython_files = unittest_*.py\n"),
    (
        "setup.cfg",
        "[metadata]\nname = a\n[tool:pytest]\npython_files=unittest_*.py test_*.py\n",
    ),
    ("pyproject.toml", '[tool.pytest.ini_options]\npython_files = ["unittest_*.py"]\n'),
    (
        "pyproject.toml",
        "[tool.pytest]\nini_options.python_files = [\n  'unittest_*.py',\n]\n",
    ),
    ("pytest.toml", "[pytest]\npython_files = 'unittest_*.py'\n"),
]


def test_a_title_names_tests_of_the_packages_around_a_file() -> None:
    files = {
        "lib/matrices/expr.py": "",
        "lib/matrices/tests/test_expr.py": "",
        "lib/matrices/tests/test_block_matrix.py": "",
        "lib/tests/test_zero.py": "",
        "lib/core/tests/test_block.py": "",
    }

    def related(title: str) -> tuple[str, ...]:
        tests = RelatedTests(sorted(files), files.get, title=title)
        return tests.of(["lib/matrices/expr.py"])

    assert related("") == ("lib/matrices/tests/test_expr.py",)
    assert related("A Block of a matrix with zero") == (
        "lib/matrices/tests/test_expr.py",
        "lib/tests/test_zero.py",
        "lib/matrices/tests/test_block_matrix.py",
    )


def test_the_project_says_what_a_test_file_is() -> None:
    edited = "pylint/checkers/misc.py"
    test = "tests/checkers/unittest_misc.py"
    paths = [edited, test, "tests/checkers/misc.py"]
    files = dict.fromkeys(paths, "")
    assert RelatedTests(paths, files.get).of([edited]) == ()
    for name, settings in SETTINGS:
        read = {**files, name: settings}.get
        assert RelatedTests(paths, read).of([edited]) == (test,), settings


def test_each_test_file_is_read_once() -> None:
    paths_read: list[str] = []

    def read(path: str) -> str | None:
        paths_read.append(path)
        return FILES.get(path)

    tests = RelatedTests(sorted(FILES), read)
    assert tests.of(["src/flask/cli.py"]) == tests.of(["src/flask/cli.py"])
    tests.of(["sympy/core/basic.py"])
    assert paths_read.count("tests/test_basic.py") == 1


def test_directives_of_the_runners() -> None:
    assert directive(Runner.DJANGO, "tests/admin/test_a.py") == "admin.test_a"
    assert directive(Runner.UNITTEST, "pkg/test_a.py") == "pkg.test_a"
    assert directive(Runner.PYTEST, "tests/test_a.py") == "tests/test_a.py"


def test_runners() -> None:
    runners = {
        "./tests/runtests.py --verbosity 2": Runner.DJANGO,
        "PYTHONWARNINGS=x bin/test -C": Runner.SYMPY,
        "python -m pytest -rA": Runner.PYTEST,
        "python -m unittest -v": Runner.UNITTEST,
        "make test": None,
    }
    for command, runner in runners.items():
        assert runner_of(command) is runner, command


@pytest.mark.parametrize(
    ("runner", "output", "results"),
    [
        (
            Runner.SYMPY,
            "test_a ok\ntest_b F\ntest_c E\n"
            "= tests finished: 1 passed, 1 failed, 1 exceptions, in 0.10 seconds =\n",
            {"test_a": "PASSED", "test_b": "FAILED", "test_c": "ERROR"},
        ),
        (  # sympy breaks its closing line at 80 columns
            Runner.SYMPY,
            "test_a ok\ntest_b f\n"
            "================ tests finished: 1 passed, 15 expected to fail, \n"
            "1 expected to fail but passed, in 6.54 seconds =================\n",
            {"test_a": "PASSED"},
        ),
    ],
)
def test_results_per_test(
    runner: Runner,
    output: str,
    results: dict[str, str],
) -> None:
    run = read_run(output, an_instance(), runner, "", ())
    assert run.results == results


def test_tests_that_passed_must_be_reported_as_passed() -> None:
    """A skipped test, an expected failure and a missing test are none of them a pass."""
    before = dict.fromkeys("abdg", "PASSED") | {"c": "FAILED", "e": "XFAIL"}
    after = {
        "a": "FAILED",
        "c": "FAILED",
        "d": "SKIPPED",
        "e": "PASSED",
        "g": "XFAIL",
    }
    assert missing_passes(before, after) == {"a", "b", "d", "g"}
    assert missing_passes(before, before) == frozenset()
