"""Related tests of other languages, run with their own tools where these are installed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.hashing import sha256_of
from swe_retry.core.worktree import Changes
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.testing.suite import RegressionTests, SuiteReport
from swe_retry.testing.testsettings import Tests
from tests.fixtures import an_instance
from tests.support.environments import FILES, FolderSession, regression_tests


@dataclass(frozen=True)
class Sample:
    """A tiny project, an edit of it that is right, one that breaks a test, and one of its syntax.

    Attributes:
        needs: programs.
        command: runs all tests.
        source: the edited file.
        right, wrong: texts of it.
        failing: the test that `wrong` breaks, and a word of the reason.
        command_part: a part of the command that ran.
    """

    needs: tuple[str, ...]
    command: str
    files: dict[str, str]
    source: str
    right: str
    wrong: str
    failing: tuple[str, str]
    command_part: str


GO = Sample(
    ("go",),
    "go test ./...",
    {
        "go.mod": "module example.org/thing\n\ngo 1.18\n",
        "calc/calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n",
        "calc/calc_test.go": (
            'package calc\n\nimport "testing"\n\n'
            "func TestAdd(t *testing.T) {\n"
            '\tif got := Add(1, 2); got != 3 {\n\t\tt.Errorf("got %d", got)\n\t}\n}\n\n'
            "func TestKnownToFail(t *testing.T) {\n\tif Add(1, 1) != 3 {\n\t\tt.Fail()\n\t}\n}\n"
        ),
        "other/other_test.go": "package other\n",
    },
    "calc/calc.go",
    "package calc\n\nfunc Add(a, b int) int { return b + a }\n",
    "package calc\n\nfunc Add(a, b int) int { return a - b }\n",
    ("example.org/thing/calc::TestAdd", "got -1"),
    "go test -v ./calc",
)
RUST = Sample(
    ("cargo",),
    "cargo test --offline",
    {
        "Cargo.toml": '[package]\nname = "thing"\nversion = "0.1.0"\nedition = "2021"\n',
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "thing"\nversion = "0.1.0"\n',
        "src/lib.rs": "pub mod calc;\n",
        "src/calc.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\n",
        "tests/calc.rs": (
            "#[test]\nfn adds() { assert_eq!(thing::calc::add(1, 2), 3); }\n\n"
            "#[test]\nfn known_to_fail() { assert_eq!(thing::calc::add(1, 1), 3); }\n"
        ),
    },
    "src/calc.rs",
    "pub fn add(a: i32, b: i32) -> i32 { b + a }\n",
    "pub fn add(a: i32, b: i32) -> i32 { a - b }\n",
    ("calc tests/calc.rs: adds", "left: -1"),
    "--test calc",
)
NODE = Sample(
    ("node",),
    "npm test",
    {
        "package.json": '{"scripts": {"test": "node --test"}}',
        "lib/calc.js": "module.exports = (a, b) => a + b\n",
        "test/calc.test.js": (
            "const {test} = require('node:test')\nconst assert = require('node:assert')\n"
            "const add = require('../lib/calc')\n"
            "test('adds', () => assert.equal(add(1, 2), 3))\n"
            "test('known to fail', () => assert.equal(add(1, 1), 3))\n"
        ),
        "test/other.test.js": "require('node:test').test('other', () => {})\n",
    },
    "lib/calc.js",
    "module.exports = (a, b) => b + a\n",
    "module.exports = (a, b) => a - b\n",
    ("adds", ""),
    "npm test -- test/calc.test.js",
)
CPP = Sample(
    ("cmake", "g++"),
    "cmake -S . -B out >/dev/null && cmake --build out && ctest --test-dir out",
    {
        "CMakeLists.txt": (
            "cmake_minimum_required(VERSION 3.10)\nproject(thing CXX)\nenable_testing()\n"
            "add_executable(calc_test test/calc_test.cpp src/calc.cpp)\n"
            "add_test(NAME calc COMMAND calc_test)\nadd_test(NAME bad COMMAND false)\n"
        ),
        "src/calc.cpp": "int add(int a, int b) { return a + b; }\n",
        "test/calc_test.cpp": "int add(int, int);\nint main() { return add(1, 2) == 3 ? 0 : 1; }\n",
    },
    "src/calc.cpp",
    "int add(int a, int b) { return b + a; }\n",
    "int add(int a, int b) { return a - b; }\n",
    ("calc", ""),
    "ctest --test-dir out",
)
SCRIPT = Sample(
    ("gcc",),
    "bash run.sh",
    {
        "run.sh": (
            "gcc -o a.out src/calc.c && ./a.out && echo 'ok 1 - adds' || echo 'not ok 1 - adds'\n"
            "echo 'not ok 2 - known to fail'\n"
        ),
        "src/calc.c": "int main(void) { return 1 - 1; }\n",
    },
    "src/calc.c",
    "int main(void) { return 0; }\n",
    "int main(void) { return 1; }\n",
    ("adds", ""),
    "bash run.sh",
)
SAMPLES = {
    "go": GO,
    "rust": RUST,
    "node": NODE,
    "c++": CPP,
    "script": SCRIPT,
}
SLOW = ("rust", "c++")
TOOLS = os.environ.get("PATH", "/usr/bin:/bin")


def related_tests(session: FolderSession, **changes: Any) -> RegressionTests:
    """Return tests of a session's files."""
    files = session.files
    folder = session.folder.parent
    tests = regression_tests(folder, session=session, read=files.get, **changes)
    return replace(tests, files=list(files))


Run = Callable[[Sample, Changes], tuple[SuiteReport, FolderSession]]


@pytest.fixture(scope="module")
def run_sample(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the tests of a sample; its baselines are measured once."""
    root = tmp_path_factory.mktemp("samples")

    def run_tests(sample: Sample, edits: Changes) -> tuple[SuiteReport, FolderSession]:
        digest = sha256_of(repr((sample.command, sample.files)))
        return run(sample, root / digest[:8], edits)

    return run_tests


def run(
    sample: Sample,
    folder: Path,
    edits: Changes,
) -> tuple[SuiteReport, FolderSession]:
    for name in sample.needs:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    variables = {
        "PATH": TOOLS,
        "HOME": str(Path.home()),
        "GOFLAGS": "-mod=mod",
        "GOPROXY": "off",
    }
    root = folder / "folder"
    files = sample.files
    session = FolderSession(root, sample.command, files=files, variables=variables)
    limits = Tests(timeout=120, baseline_timeout=120)
    tests = related_tests(session, limits=limits)
    return tests.run(edits), session


def edit_of(sample: Sample, text: str) -> dict[str, bytes | None]:
    return {sample.source: text.encode()}


def samples(*names: str) -> list[object]:
    rows: list[object] = []
    for name in names:
        marks = []
        if name in SLOW:
            marks.append(pytest.mark.long)
        rows.append(pytest.param(name, marks=marks))
    return rows


@pytest.mark.parametrize("name", samples(*SAMPLES))
def test_only_what_newly_fails_makes_a_candidate_fail(
    name: str, run_sample: Run
) -> None:
    sample = SAMPLES[name]
    right, session = run_sample(sample, edit_of(sample, sample.right))
    assert right.outcome is True
    assert right.failures == ()
    assert sample.command_part in session.commands[0]
    # The base commit's tests judge, also where a candidate rewrites them.
    tests = [path for path in sample.files if path.startswith("test/")]
    emptied = dict.fromkeys(tests, b"")
    edits = edit_of(sample, sample.wrong)
    wrong, _ = run_sample(sample, {**edits, **emptied})
    assert wrong.outcome is False
    (failure,) = wrong.failures
    name_of_test, reason = sample.failing
    assert failure.name == name_of_test
    assert reason in failure.detail


@pytest.mark.parametrize("name", samples("go", "c++"))
def test_a_candidate_that_does_not_compile_fails_with_the_compiler_s_reason(
    name: str, run_sample: Run
) -> None:
    sample = SAMPLES[name]
    unclosed = sample.right.replace("}", "")
    report, _ = run_sample(sample, edit_of(sample, unclosed))
    assert report.outcome is False
    source = Path(sample.source)
    assert source.name in report.failures[0].detail


PARSER = "def parser(log):\n    return {'all': 'pass' if 'DONE' in log else 'fail'}\n"


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap does not work here")
def test_the_row_s_parser_reads_what_a_script_prints(tmp_path: Path) -> None:
    files = {
        "run.sh": ". ./src/a.sh\n",
        "src/a.sh": "echo DONE\n",
        "src/a.c": "",
    }
    session = FolderSession(tmp_path / "folder", "bash run.sh", files=files)
    tests = related_tests(session, instance=an_instance(parser_source=PARSER))
    edit: Changes = {"src/a.c": b"int a;\n"}
    report = tests.run(edit)
    assert report.outcome is True
    assert report.failures == ()
    wrong = tests.run({**edit, "src/a.sh": b"echo failed\n"})
    names = [failure.name for failure in wrong.failures]
    assert names == ["all"]


def test_a_script_without_results_is_named(tmp_path: Path) -> None:
    files = {"src/a.c": "", "run.sh": "echo nothing\n"}
    session = FolderSession(tmp_path / "folder", "bash run.sh", files=files)
    report = related_tests(session).run({"src/a.c": b"int a;\n"})
    assert report.outcome is None
    assert report.untested == "no result of a test in the output of 'bash run.sh'"


def test_a_runner_gets_no_tests_of_another_language(tmp_path: Path) -> None:
    rust = "#[test]\nfn f() {}\n"
    files = {
        **FILES,
        "web/a.js": "",
        "web/a.test.js": "",
        "src/b.rs": rust,
    }
    session = FolderSession(tmp_path / "folder", files=files)
    report = related_tests(session).run({"web/a.js": b"x", "src/b.rs": b"x"})
    assert report.outcome is None
    assert not session.commands


TAP = "printf 'ok 1 - adds\\nnot ok 2 - known to fail\\n'"
SCRIPTS = {"scripts": {"test": "sh tools/test.sh"}}
BY_SCRIPT = replace(
    NODE,
    files={
        **NODE.files,
        "package.json": json.dumps(SCRIPTS),
        "tools/test.sh": "node --test --test-reporter tap test/calc.test.js\n",
    },
)
BY_MAKE = replace(
    NODE,
    needs=("node", "make"),
    command="make check",
    files={
        **BY_SCRIPT.files,
        "Makefile": "check:\n\t@sh tools/test.sh\n",
    },
)
TAP_SCRIPTS = json.dumps({"scripts": {"test": TAP}})
REWRITTEN: list[tuple[str, Sample, dict[str, str]]] = [
    ("scripts", NODE, {"package.json": TAP_SCRIPTS}),
    ("scripts", BY_SCRIPT, {"package.json": TAP_SCRIPTS}),
    ("the script that scripts start", BY_SCRIPT, {"tools/test.sh": f"{TAP}\n"}),
    ("a shell", BY_SCRIPT, {".npmrc": "script-shell=./fake\n", "fake": f"{TAP}\n"}),
    ("Makefile", BY_MAKE, {"Makefile": f"check:\n\t@{TAP}\n"}),
    ("a file before Makefile", BY_MAKE, {"GNUmakefile": f"check:\n\t@{TAP}\n"}),
    ("the script of a recipe", BY_MAKE, {"tools/test.sh": f"{TAP}\n"}),
]


@pytest.mark.parametrize(
    ("sample", "rewritten"),
    [pytest.param(sample, texts, id=name) for name, sample, texts in REWRITTEN],
)
def test_what_a_test_command_reads_is_that_of_the_base(
    run_sample: Run, sample: Sample, rewritten: dict[str, str]
) -> None:
    """A candidate that breaks a test and rewrites what runs it is never clean."""
    edits = edit_of(sample, sample.wrong)
    for path, text in rewritten.items():
        edits[path] = text.encode()
    report, _ = run_sample(sample, edits)
    assert report.outcome is not True
    assert report.outcome is False or report.untested
