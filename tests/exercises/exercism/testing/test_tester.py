"""What a test of a solution returns, what is kept, and which languages can be tested."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import InfrastructureError, StoppedError, UserError
from environments.base import EnvironmentKind
from environments.folders import FolderCommand, FolderResult
from exercises.exercism.conversation import error_count
from exercises.exercism.languages import LANGUAGES
from exercises.exercism.results import TryResult
from exercises.exercism.tester import ExerciseTester, tool_folders, usable_languages
from exercises.exercism.verdict import TestCounts, printed_counts
from tests.exercises.exercism.testing.conftest import MakeTester
from tests.support.exercism import profile_of, six

UNITTEST = profile_of(unittest=True)


def counts_of(result: TryResult) -> tuple[int | None, int | None]:
    return result.tests_passed, result.tests_failed


def test_examples_pass_and_stubs_fail(make_tester: MakeTester) -> None:
    tester = make_tester(True)
    for name, exercise in six().items():
        assert tester.test(exercise, exercise.example()).solved, name
        tried = tester.test(exercise, exercise.stubs())
        assert tried.solved == (name == "tidy-receipt")
        assert None not in (tried.tests_passed, tried.tests_failed, tried.tests_skipped)
        assert "/sandbox" not in tried.output


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
def test_errors_of_syntax_are_counted_under_both_runners(
    make_tester: MakeTester, unittest: bool
) -> None:
    exercise = six()["lost-property"]
    kinds = ("SyntaxError", "IndentationError")
    for code, counts in {b"def f(:\n": [1, 0], b"if 1:\nx = 1\n": [0, 1]}.items():
        files = dict.fromkeys(exercise.stubs(), code)
        output = make_tester(unittest).test(exercise, files).output
        assert [error_count(kind, output) for kind in kinds] == counts


def test_many_threads_test_at_once_and_the_example_is_counted_once(
    make_tester: MakeTester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercise = six()["garden-path"]
    example = exercise.example()
    tester = make_tester(True, cache=tmp_path)
    tester.versions("python")
    folders = tester._folders["python"]
    ran = list[int]()
    run = type(folders).run

    def count_run(self: object, command: FolderCommand) -> FolderResult:
        ran.append(1)
        return run(folders, command)

    def solved(solution: Mapping[str, bytes]) -> bool:
        ran.clear()
        return make_tester(True, cache=tmp_path).test(exercise, solution).solved

    monkeypatch.setattr(type(folders), "run", count_run)
    solutions = [example, exercise.stubs(), example]
    with ThreadPoolExecutor(3) as pool:
        results = pool.map(lambda solution: tester.test(exercise, solution), solutions)
    assert [result.solved for result in results] == [True, False, True]
    # Three, tests that must fail for one or both, and the example.
    assert 3 + 2 + 1 <= len(ran) <= 3 + 2 * 2 + 1
    [counts_path] = (tmp_path / "exercism" / "expected").glob("*.json")
    counts = {"passed": 4, "failed": 0, "skipped": 0}
    assert json.loads(counts_path.read_text()) == {"counts": counts}
    assert solved(example)
    # The versions; for a solution that was seen to be right no tests must fail.
    assert len(ran) == 2
    [right] = (tmp_path / "exercism" / "right").glob("*.json")
    assert solved({path: data + b"\n" for path, data in example.items()})
    assert len(ran) == 2 + 2
    right.unlink()
    # Counts that are kept are used, and broken ones are counted again.
    counts_path.write_text(json.dumps({"counts": counts | {"passed": 5}}))
    assert not solved(example)
    counts_path.write_text('{"counts": {"pas')
    assert solved(example)


def test_an_example_that_fails_is_no_verdict(
    make_tester: MakeTester, tmp_path: Path
) -> None:
    exercise = six()["cuckoo-clock"]
    wrong = {exercise.examples[0]: b"def strikes(*_): return 1"}
    failing = replace(exercise, files={**exercise.files, **wrong})
    tester = make_tester(True, cache=tmp_path)
    error = "example of python/cuckoo-clock does not"
    for _ in range(2):
        with pytest.raises(InfrastructureError, match=error):
            tester.test(failing, exercise.stubs())
    assert not (tmp_path / "exercism" / "expected").exists()


def test_a_run_that_stops_ends_its_tests(tmp_path: Path) -> None:
    def check() -> None:
        raise StoppedError("stop")

    tester = ExerciseTester(UNITTEST, EnvironmentKind.LOCAL, tmp_path, check=check)
    exercise = six()["cuckoo-clock"]
    with pytest.raises(StoppedError):
        tester.test(exercise, exercise.stubs())


def test_a_language_without_its_tools_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    local = EnvironmentKind.LOCAL
    versions, reasons = usable_languages(["python"], UNITTEST, local)
    assert versions["python"].startswith("Python 3.")
    assert not reasons
    monkeypatch.setattr("exercises.exercism.tester.shutil.which", lambda _: None)
    tool_folders.cache_clear()  # another test may have found the tools
    try:
        versions, reasons = usable_languages(["python", "go"], UNITTEST, local)
    finally:
        tool_folders.cache_clear()
    assert list(versions) == ["python"]
    assert reasons == {"go": "go not found; install it"}
    _, reasons = usable_languages(["python"], UNITTEST, EnvironmentKind.NONE)
    assert "use local or docker" in reasons["python"]
    broken = ExerciseTester(UNITTEST, local, tmp_path, python=Path("/usr/bin/false"))
    with pytest.raises(UserError, match="cannot test python exercises"):
        broken.versions("python")


def test_without_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("environments.local.folders.bubblewrap_works", lambda: False)
    tester = ExerciseTester(UNITTEST, EnvironmentKind.LOCAL, tmp_path)
    with pytest.raises(UserError, match="bubblewrap is not installed"):
        tester.test(six()["cuckoo-clock"], {})


@pytest.mark.docker
def test_in_docker(tmp_path: Path) -> None:
    tester = ExerciseTester(UNITTEST, EnvironmentKind.DOCKER, tmp_path, "t")
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
    assert usable_languages(["go"], UNITTEST, EnvironmentKind.DOCKER)[0] == {}


def test_counts_that_tools_print() -> None:
    for language, output, expected in (
        (
            "rust",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n" * 2,
            (6, 0, 2),
        ),
        ("rust", "test result: FAILED. 3 passed; 2 failed; 0 ignored\n", (3, 2, 0)),
        ("rust", "error: could not compile\n", None),
        ("go", "ok  \tzebra\t0.003s\n", (1, 0, 0)),
        ("go", "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tzebra\t0.003s\nFAIL\n", (0, 1, 0)),
        ("cpp", "All tests passed (21 assertions in 20 test cases)\n", (20, 0, 0)),
        (
            "cpp",
            "test cases: 3 | 1 passed | 2 failed\nassertions: 9 | 9 failed\n",
            (1, 2, 0),
        ),
        ("cpp", "test cases: 1 | 1 failed\n", (0, 1, 0)),
        (
            "javascript",
            "Tests:       2 failed, 1 skipped, 9 passed, 12 total\n",
            (9, 2, 1),
        ),
        ("javascript", "Tests:       16 passed, 16 total\n", (16, 0, 0)),
        ("java", "ATest > a PASSED\n\nATest > b FAILED\nATest > c PASSED\n", (2, 1, 0)),
    ):
        counts = printed_counts(LANGUAGES[language].counted, output)
        assert counts == (TestCounts(*expected) if expected else None)
