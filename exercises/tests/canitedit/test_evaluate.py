"""The report evaluates what is not evaluated: files of completions in, evaluated files out."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.commands import CANITEDIT, Ended
from exercises.tests.support.canitedit import (
    ROWS,
    completion_file,
    passed,
    plain,
    problems,
)
from swe_retry_exercises.canitedit.evaluation import needed_modules
from swe_retry_exercises.canitedit.problems import Problem
from swe_retry_exercises.canitedit.results import (
    CompletionFile,
    EvaluatedProgram,
    read_file,
    write_file,
)
from tests.support import TOP
from tests.support.commands import Preloaded

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")
CLAMP, COUNT, *_ = problems()
FROM_ROWS = f"--set problems.source={ROWS}"
EVALUATED = "*.results.json.gz"


def report_line(arguments: str, cache: Path) -> str:
    interpreter = f"evaluation.interpreter={sys.executable}"
    return f"report {arguments} --set {interpreter} --set folders.cache={cache}"


def evaluate(arguments: str, cache: Path) -> Ended:
    """Run the report, whose outcomes are kept in ``cache``."""
    ended = CANITEDIT.run(report_line(arguments, cache))
    assert ended.code == 0, ended
    return ended


def evaluation_error(arguments: str, cache: Path) -> str:
    """Return the messages of a report that is refused."""
    ended = CANITEDIT.run(report_line(arguments, cache))
    assert ended.code == 2, ended
    return ended.err


def unevaluated_file(problem: Problem, *programs: str) -> CompletionFile:
    return completion_file(
        problem,
        completions=programs,
        truncated=[False] * len(programs),
        temperature=0.2,
        top_p=0.95,
        max_tokens=99,
    )


def with_values(problem: Problem, **values: Any) -> Problem:
    return problem.model_copy(update=values)


@pytest.fixture(scope="module")
def evaluated_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with solution, ``before`` and solution again for each problem, evaluated."""
    folder = tmp_path_factory.mktemp("gold")
    for problem in problems():
        programs = (problem.after, problem.before, problem.after)
        write_file(folder, unevaluated_file(problem, *programs))
    evaluate(f"{folder} --workers 1", folder / "cache")
    return folder


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the evaluated files without times."""
    by_name = {}
    for path in sorted(folder.glob(EVALUATED)):
        by_name[path.name] = plain(path)
        for result in by_name[path.name]["results"]:
            assert result.pop("timestamp") > 1.7e9
    return by_name


def only_result(folder: Path) -> EvaluatedProgram:
    [path] = folder.glob(EVALUATED)
    [result] = read_file(path).results
    return result


def test_solutions_pass_with_full_coverage_and_others_fail(
    evaluated_folder: Path,
) -> None:
    by_name = results(evaluated_folder)
    assert len(by_name) == 6
    for problem in problems():
        file = by_name[f"{problem.full_name}_instruction_lazy.results.json.gz"]
        after, before, again = file["results"]
        assert file["completions"] == [problem.after, problem.before, problem.after]
        assert after == again
        assert after["status"] == "OK"
        assert after["exit_code"] == 0
        assert after["coverage"] == 100
        assert after["coverage_missing"] == []
        assert before["status"] == "Exception"
        assert before["exit_code"] == 1
        assert before["coverage"] is None
        assert after["program"] == f"{problem.after}\n{problem.tests}"


def test_the_report_reads_what_was_written(evaluated_folder: Path) -> None:
    ended = CANITEDIT.run(f"report {evaluated_folder} --format json --set report.k=1")
    [row] = json.loads(ended.out)["rows"]
    assert ended.code == 0
    assert row["pass@1"] == pytest.approx(2 / 3)
    assert {row[f"excess_{name}"] for name in ("code", "changed", "v1")} == {0.0}
    assert ended.err == "", "nothing is run again"


def test_all_models_of_a_run_are_evaluated(
    evaluated_folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    first = run / "first"
    second = run / "second"
    cache = evaluated_folder / "cache"
    write_file(first, unevaluated_file(CLAMP, CLAMP.after))
    write_file(second, unevaluated_file(CLAMP, CLAMP.before, CLAMP.after))
    ended = evaluate(f"{run}", cache)
    for part in (
        "2 distinct programs",
        "2 known, 0 to run",
        f"3 completions: 2 OK, 1 Exception\n2 files written to {first}, {second}",
    ):
        assert part in ended.err
    assert "first: 1 problem" in ended.out
    assert "second: 1 problem" in ended.out
    for folder, statuses in ((first, ["OK"]), (second, ["Exception", "OK"])):
        [file] = results(folder).values()
        assert [result["status"] for result in file["results"]] == statuses
    # A file that came later is evaluated, and no other.
    write_file(first, unevaluated_file(COUNT, COUNT.after))
    messages = evaluate(f"{run}", cache).err
    assert f"1 file written to {first}" in messages
    assert "second" not in messages
    error = evaluation_error(f"{run} --set evaluation.output={tmp_path}", cache)
    assert "evaluation.output is for one folder" in error


def test_four_workers_write_the_same(evaluated_folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    options = f"--set evaluation.output={again} --workers 4"
    evaluate(f"{evaluated_folder} {options}", tmp_path)
    assert results(again) == results(evaluated_folder)


def test_known_outcomes_are_not_run_again_and_damaged_ones_are(
    evaluated_folder: Path, tmp_path: Path
) -> None:
    cache = evaluated_folder / "cache"
    again = f"{evaluated_folder} --set evaluation.output={tmp_path}"
    messages = evaluate(again, cache).err
    assert "12 distinct programs" in messages
    assert "12 known, 0 to run" in messages
    for path in evaluated_folder.glob(EVALUATED):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
        (tmp_path / path.name).unlink()
    first, second, *_ = sorted((cache / "canitedit").rglob("*.json"))
    first.write_bytes(b"{")
    text = second.read_text().replace('"status":"OK"', '"status":"Well"')
    second.write_text(f"{text} ")
    messages = evaluate(again, cache).err
    assert "10 known, 2 to run" in messages or "11 known, 1 to run" in messages
    assert results(tmp_path) == results(evaluated_folder)


def test_an_evaluated_folder_of_others_is_evaluated_again(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    ours = tmp_path / "ours"
    program = f"{CLAMP.before}\n"
    write_file(theirs, completion_file(CLAMP, results=[passed(program)]))
    assert evaluate(f"{theirs}", tmp_path).err == "", "their outcomes are reported"
    error = evaluation_error(f"{theirs} {FROM_ROWS}", tmp_path)
    assert "evaluated files alone; evaluation.output=DIR" in error
    evaluate(f"{theirs} --set evaluation.output={ours}", tmp_path)
    result = only_result(ours)
    assert result.status == "Exception"
    assert result.program_no_test == program


def test_a_missing_library_is_named_before_anything_runs(tmp_path: Path) -> None:
    tests = f"{CLAMP.tests}\n    import numpyy.linalg, os.path\n"
    write_file(tmp_path, unevaluated_file(with_values(CLAMP, tests=tests), CLAMP.after))
    write_file(tmp_path, unevaluated_file(COUNT, COUNT.after))
    messages = evaluation_error(f"{tmp_path}", tmp_path)
    [error] = [line for line in messages.splitlines() if line.startswith("error: ")]
    assert "numpyy (ModuleNotFoundError" in error
    assert "1 problem need them: 1001_clamp; " in error
    assert "report.allow_missing=true" in error
    assert not [*tmp_path.glob(EVALUATED), *tmp_path.glob("canitedit/*/*")]
    allowed = f"{tmp_path} --set report.allow_missing=true"
    messages = evaluation_error(allowed, tmp_path)
    assert "not evaluated: " in messages
    assert "1001_clamp" in messages
    assert "1 completion: 1 OK" in messages
    incomplete = "incomplete: 1 file not evaluated (1001_clamp_instruction_lazy); "
    assert incomplete in messages
    assert list(results(tmp_path)) == [
        "1002_word_count_instruction_lazy.results.json.gz"
    ]
    out = evaluate(f"{allowed} --set report.allow_partial=true", tmp_path).out
    assert "partial: " in out
    assert "1 file not evaluated" in out


def test_modules_that_a_problem_needs() -> None:
    tests = "from vllm import LLM\nimport numpy.linalg as la, sys\nfrom .own import x"
    imports = with_values(CLAMP, after="def f(): import torch", tests=tests)
    assert needed_modules(imports) == {"vllm", "numpy", "torch"}
    assert needed_modules(with_values(CLAMP, after="def f(:")) == set()


def test_problems_from_rows_replace_those_in_files(tmp_path: Path) -> None:
    untested = with_values(CLAMP, tests="pass")
    write_file(tmp_path, unevaluated_file(untested, CLAMP.before))
    evaluate(f"{tmp_path}", tmp_path)
    assert only_result(tmp_path).status == "OK"
    evaluate(f"{tmp_path} {FROM_ROWS}", tmp_path)
    assert only_result(tmp_path).status == "Exception"


def test_wrong_input_is_one_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    wrong = tmp_path / "wrong"
    empty.mkdir()
    path = write_file(wrong, unevaluated_file(CLAMP, "x"))
    other_problem = with_values(CLAMP, full_name="9_other", name="other")
    other = unevaluated_file(other_problem, "x")

    def check(arguments: str, problem: str) -> None:
        [error] = evaluation_error(arguments, tmp_path).splitlines()
        assert problem in error

    check("", "no folder given")
    check(f"{tmp_path / 'none'}", "is not a folder")
    check(f"{empty}", "has no file *.results.json.gz")
    check(f"{empty} --set evaluation.output={wrong}", "has no file *.json.gz")
    check(f"{wrong} --workers 1000", "at most")
    check(f"{wrong} --environment none", "1 file not evaluated (1001_clamp")
    path.rename(wrong / other.file_name)
    check(f"{wrong}", "holds what belongs into 1001_clamp")
    (wrong / other.file_name).write_bytes(b"\x1f\x8b")
    check(f"{wrong}", "is broken")
    check(
        f"{wrong} --set report.allow_partial=true",
        "1 file not evaluated (9_other_instruction_lazy)",
    )
    (wrong / other.file_name).unlink()
    write_file(wrong, other)
    check(f"{wrong} {FROM_ROWS}", "is about a problem that problems.source lacks")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_what_ended_is_kept(
    tmp_path: Path, preloaded: Preloaded, number: signal.Signals
) -> None:
    write_file(tmp_path, unevaluated_file(CLAMP, CLAMP.after, "while True: pass"))
    _, *words = shlex.split(report_line(f"{tmp_path} --workers 1", tmp_path))
    process = preloaded.start(*words, script="canitedit-report", cwd=TOP)
    while not list(tmp_path.glob("canitedit/*/*/*.json")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    messages, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in messages
    assert not list(tmp_path.glob(EVALUATED))
    write_file(tmp_path, unevaluated_file(CLAMP, CLAMP.after, CLAMP.before))
    messages = evaluate(f"{tmp_path}", tmp_path).err
    assert "2 distinct programs" in messages
    assert "1 known, 1 to run" in messages
