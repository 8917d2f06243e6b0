"""What a test of a solution returns, what is kept, and which languages can be tested."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from exercises.tests.exercism.testing.conftest import MakeTester
from exercises.tests.support.exercism import profile_of, six
from swe_retry.core.errors import InfrastructureError, StoppedError, UserError
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.folders import FolderCommand, FolderResult
from swe_retry_exercises.exercism.conversation import error_count
from swe_retry_exercises.exercism.languages import LANGUAGES
from swe_retry_exercises.exercism.results import TryResult
from swe_retry_exercises.exercism.tester import (
    ExerciseTester,
    tool_folders,
    usable_languages,
)
from swe_retry_exercises.exercism.verdict import TestCounts, printed_counts

UNITTEST = profile_of(unittest=True)
LOCAL = EnvironmentKind.LOCAL
DOCKER = EnvironmentKind.DOCKER


def counts_of(result: TryResult) -> tuple[int | None, int | None]:
    return result.tests_passed, result.tests_failed


def test_examples_pass_and_stubs_fail(make_tester: MakeTester) -> None:
    tester = make_tester(True)
    for name, exercise in six().items():
        assert tester.test(exercise, exercise.example()).solved, name
        result = tester.test(exercise, exercise.stubs())
        assert result.solved == (name == "tidy-receipt")
        assert result.tests_passed is not None
        assert result.tests_failed is not None
        assert result.tests_skipped is not None
        assert "/sandbox" not in result.output


def test_the_same_under_pytest(make_tester: MakeTester) -> None:
    exercise = six()["lost-property"]
    tester = make_tester(False)
    good = tester.test(exercise, exercise.example())
    assert good.solved
    assert counts_of(good) == (2, 0)
    assert "generated xml" not in good.output
    bad = tester.test(exercise, exercise.stubs())
    assert not bad.solved
    assert counts_of(bad) == (0, 2)
    assert "==== FAILURES ====" in bad.output
    assert "guard" not in bad.output


@pytest.mark.parametrize("unittest", [True, False])
@pytest.mark.parametrize(
    ("code", "syntax_errors", "indentation_errors"),
    [
        (b"def f(:\n", 1, 0),
        (b"if 1:\nx = 1\n", 0, 1),
    ],
)
def test_errors_of_syntax_are_counted_under_both_runners(
    make_tester: MakeTester,
    unittest: bool,
    code: bytes,
    syntax_errors: int,
    indentation_errors: int,
) -> None:
    exercise = six()["lost-property"]
    files = dict.fromkeys(exercise.stubs(), code)
    output = make_tester(unittest).test(exercise, files).output
    assert error_count("SyntaxError", output) == syntax_errors
    assert error_count("IndentationError", output) == indentation_errors


def test_many_threads_test_at_once_and_the_example_is_counted_once(
    make_tester: MakeTester,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exercise = six()["garden-path"]
    example = exercise.example()
    tester = make_tester(True, cache=tmp_path)
    tester.versions("python")
    folders = tester._folders["python"]
    environment = type(folders)
    commands: list[FolderCommand] = []
    run = environment.run

    def note_run(self: object, command: FolderCommand) -> FolderResult:
        commands.append(command)
        return run(folders, command)

    def solved(solution: Mapping[str, bytes]) -> bool:
        commands.clear()
        tester = make_tester(True, cache=tmp_path)
        return tester.test(exercise, solution).solved

    monkeypatch.setattr(environment, "run", note_run)
    test_exercise = partial(tester.test, exercise)
    solutions = [example, exercise.stubs(), example]
    with ThreadPoolExecutor(3) as pool:
        results = pool.map(test_exercise, solutions)
    assert [result.solved for result in results] == [True, False, True]
    # Three, tests that must fail for one or both, and the example.
    assert 3 + 2 + 1 <= len(commands) <= 3 + 2 * 2 + 1
    stored = tmp_path / "exercism"
    [counts_path] = (stored / "expected").glob("*.json")
    counts = {"passed": 4, "failed": 0, "skipped": 0}
    assert json.loads(counts_path.read_text()) == {"counts": counts}
    assert solved(example)
    # The versions; for a solution that was seen to be right no tests must fail.
    assert len(commands) == 2
    [right] = (stored / "right").glob("*.json")
    longer = {path: data + b"\n" for path, data in example.items()}
    assert solved(longer)
    assert len(commands) == 2 + 2
    right.unlink()
    # Counts that are kept are used, and broken ones are counted again.
    counts["passed"] = 5
    counts_path.write_text(json.dumps({"counts": counts}))
    assert not solved(example)
    counts_path.write_text('{"counts": {"pas')
    assert solved(example)


def test_an_example_that_fails_is_no_verdict(
    make_tester: MakeTester, tmp_path: Path
) -> None:
    exercise = six()["cuckoo-clock"]
    files = dict(exercise.files)
    files[exercise.examples[0]] = b"def strikes(*_): return 1"
    failing = replace(exercise, files=files)
    tester = make_tester(True, cache=tmp_path)
    error = "example of python/cuckoo-clock does not"
    for _ in range(2):
        with pytest.raises(InfrastructureError, match=error):
            tester.test(failing, exercise.stubs())
    assert not (tmp_path / "exercism" / "expected").exists()


def test_a_run_that_stops_ends_its_tests(tmp_path: Path) -> None:
    def check() -> None:
        raise StoppedError("stop")

    tester = ExerciseTester(UNITTEST, LOCAL, tmp_path, check=check)
    exercise = six()["cuckoo-clock"]
    with pytest.raises(StoppedError):
        tester.test(exercise, exercise.stubs())


def test_a_language_without_its_tools_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    versions, reasons = usable_languages(["python"], UNITTEST, LOCAL)
    assert versions["python"].startswith("Python 3.")
    assert not reasons
    monkeypatch.setattr(
        "swe_retry_exercises.exercism.tester.shutil.which", lambda _: None
    )
    tool_folders.cache_clear()  # another test may have found the tools
    try:
        versions, reasons = usable_languages(["python", "go"], UNITTEST, LOCAL)
    finally:
        tool_folders.cache_clear()
    assert list(versions) == ["python"]
    assert reasons == {"go": "go not found; install it"}
    _, reasons = usable_languages(["python"], UNITTEST, EnvironmentKind.NONE)
    assert "use local or docker" in reasons["python"]
    python = Path("/usr/bin/false")
    broken = ExerciseTester(UNITTEST, LOCAL, tmp_path, python=python)
    with pytest.raises(UserError, match="cannot test python exercises"):
        broken.versions("python")


def test_without_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "swe_retry.environments.local.folders.bubblewrap_works", lambda: False
    )
    tester = ExerciseTester(UNITTEST, LOCAL, tmp_path)
    with pytest.raises(UserError, match="bubblewrap is not installed"):
        tester.test(six()["cuckoo-clock"], {})


@pytest.mark.docker
def test_in_docker(tmp_path: Path) -> None:
    tester = ExerciseTester(UNITTEST, DOCKER, tmp_path, "t")
    exercise = six()["cuckoo-clock"]
    try:
        good = tester.test(exercise, exercise.example())
        assert good.solved
        assert counts_of(good) == (5, 0)
        bad = tester.test(exercise, exercise.stubs())
        assert not bad.solved
        assert counts_of(bad) == (0, 6)
        forged = b"import os\nprint('Ran 5 tests in 0.001s\\n\\nOK', flush=True)\nos._exit(0)\n"
        assert not tester.test(exercise, {"cuckoo_clock.py": forged}).solved
    finally:
        tester.close()
    versions, _ = usable_languages(["go"], UNITTEST, DOCKER)
    assert versions == {}


# Passed, failed and skipped tests.
OUTPUTS = {
    "rust": {
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n" * 2: (6, 0, 2),
        "test result: FAILED. 3 passed; 2 failed; 0 ignored\n": (3, 2, 0),
    },
    "go": {
        "ok  \tzebra\t0.003s\n": (1, 0, 0),
        "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tzebra\t0.003s\nFAIL\n": (0, 1, 0),
    },
    "cpp": {
        "All tests passed (21 assertions in 20 test cases)\n": (20, 0, 0),
        "test cases: 3 | 1 passed | 2 failed\nassertions: 9 | 9 failed\n": (1, 2, 0),
        "test cases: 1 | 1 failed\n": (0, 1, 0),
    },
    "javascript": {
        "Tests:       2 failed, 1 skipped, 9 passed, 12 total\n": (9, 2, 1),
        "Tests:       16 passed, 16 total\n": (16, 0, 0),
    },
    "java": {
        "ATest > a PASSED\n\nATest > b FAILED\nATest > c PASSED\n": (2, 1, 0),
    },
}


@pytest.mark.parametrize("language", OUTPUTS)
def test_counts_that_tools_print(language: str) -> None:
    patterns = LANGUAGES[language].counted
    for output, counts in OUTPUTS[language].items():
        assert printed_counts(patterns, output) == TestCounts(*counts)


def test_output_of_a_compiler_counts_no_tests() -> None:
    patterns = LANGUAGES["rust"].counted
    assert printed_counts(patterns, "error: could not compile\n") is None
