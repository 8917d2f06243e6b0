"""The report evaluates what is not evaluated: files of completions in, evaluated files out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from bench.cli.cli import run_cli
from exercises.canitedit.evaluation import needed_modules
from exercises.canitedit.problems import Problem
from exercises.canitedit.report import main as report_main
from exercises.canitedit.results import CompletionFile, read_file, write_file
from tests.support import TOP
from tests.support.canitedit import ROWS, completion_file, passed, plain, problems

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


def run_command(
    name: str,
    main: Callable[..., int],
    *words: object,
) -> tuple[int, str, str]:
    """Return exit code, output and messages of a command of this process: starting one is slow."""
    out = StringIO()
    err = StringIO()
    argv = patch.object(sys, "argv", [name, *map(str, words)])
    with argv, redirect_stdout(out), redirect_stderr(err):
        code = run_cli(main, name)
    return code, out.getvalue(), err.getvalue()


def evaluate(
    *words: object,
    cache: Path,
    code: int = 0,
) -> tuple[str, str]:
    """Return output and messages of the command, whose outcomes are kept in ``cache``."""
    given = (
        *words,
        "--set",
        f"evaluation.interpreter={sys.executable}",
        "--set",
        f"folders.cache={cache}",
    )
    found, out, err = run_command("report", report_main, *given)
    assert found == code, out + err
    return out, err


def completed(problem: Problem, programs: Sequence[str]) -> CompletionFile:
    """Return a file that is not evaluated."""
    return completion_file(
        problem,
        completions=programs,
        truncated=[False] * len(programs),
        temperature=0.2,
        top_p=0.95,
        max_tokens=99,
    )


def evaluated_name(problem: Problem) -> str:
    return f"{problem.full_name}_instruction_lazy.results.json.gz"


def changed(problem: Problem, **values: Any) -> Problem:
    return problem.model_copy(update=values)


@pytest.fixture(scope="module")
def gold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with solution, ``before`` and solution again for each problem, evaluated."""
    folder = tmp_path_factory.mktemp("gold")
    for problem in problems():
        write_file(
            folder, completed(problem, [problem.after, problem.before, problem.after])
        )
    evaluate(folder, "--workers", 1, cache=folder / "cache")
    return folder


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the evaluated files without times."""
    found = {}
    for path in sorted(folder.glob("*.results.json.gz")):
        found[path.name] = plain(path)
    for file in found.values():
        for result in file["results"]:
            assert result.pop("timestamp") > 1.7e9
    return found


def test_solutions_pass_with_full_coverage_and_others_fail(gold: Path) -> None:
    found = results(gold)
    assert len(found) == 6
    for problem in problems():
        file = found[evaluated_name(problem)]
        after, before, again = file["results"]
        assert file["completions"] == [problem.after, problem.before, problem.after]
        assert after == again
        assert (after["status"], after["exit_code"]) == ("OK", 0)
        assert (after["coverage"], after["coverage_missing"]) == (100, [])
        assert (before["status"], before["exit_code"]) == ("Exception", 1)
        assert before["coverage"] is None
        assert after["program"] == f"{problem.after}\n{problem.tests}"


def test_the_report_reads_what_was_written(gold: Path) -> None:
    code, out, said = run_command(
        "report", report_main, gold, "--format", "json", "--set", "report.k=1"
    )
    [row] = json.loads(out)["rows"]
    assert (code, row["pass@1"]) == (0, pytest.approx(2 / 3))
    assert {row[f"excess_{name}"] for name in ("code", "changed", "v1")} == {0.0}
    assert said == "", "nothing is run again"


def test_all_models_of_a_run_are_evaluated(gold: Path, tmp_path: Path) -> None:
    first = tmp_path / "run" / "first"
    second = tmp_path / "run" / "second"
    problem = problems()[0]
    write_file(first, completed(problem, [problem.after]))
    write_file(second, completed(problem, [problem.before, problem.after]))
    out, said = evaluate(tmp_path / "run", cache=gold / "cache")
    assert "2 distinct programs" in said and "2 known, 0 to run" in said
    assert (
        f"3 completions: 2 OK, 1 Exception\n2 files written to {first}, {second}"
        in said
    )
    assert "first: 1 problem" in out and "second: 1 problem" in out
    for folder, statuses in ((first, ["OK"]), (second, ["Exception", "OK"])):
        [file] = results(folder).values()
        assert [result["status"] for result in file["results"]] == statuses
    # A file that came later is evaluated, and no other.
    write_file(first, completed(problems()[1], [problems()[1].after]))
    _, said = evaluate(tmp_path / "run", cache=gold / "cache")
    assert f"1 file written to {first}" in said and "second" not in said
    _, refused = evaluate(
        tmp_path / "run", "--set", f"evaluation.output={tmp_path}", cache=gold, code=2
    )
    assert "evaluation.output is for one folder" in refused


def test_four_workers_write_the_same(gold: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    evaluate(
        gold, "--set", f"evaluation.output={again}", "--workers", 4, cache=tmp_path
    )
    assert results(again) == results(gold)


def test_what_is_known_is_not_run_again(gold: Path, tmp_path: Path) -> None:
    _, said = evaluate(
        gold, "--set", f"evaluation.output={tmp_path}", cache=gold / "cache"
    )
    assert "12 distinct programs" in said
    assert "12 known, 0 to run" in said
    for path in gold.glob("*.results.json.gz"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_a_damaged_outcome_is_run_again(gold: Path, tmp_path: Path) -> None:
    first, second, *_ = sorted((gold / "cache" / "canitedit").rglob("*.json"))
    first.write_bytes(b"{")
    second.write_text(
        second.read_text().replace('"status":"OK"', '"status":"Well"') + " "
    )
    _, said = evaluate(
        gold, "--set", f"evaluation.output={tmp_path}", cache=gold / "cache"
    )
    assert "10 known, 2 to run" in said or "11 known, 1 to run" in said
    assert results(tmp_path) == results(gold)


def test_an_evaluated_folder_of_others_is_evaluated_again(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    ours = tmp_path / "ours"
    problem = problems()[0]
    file = completion_file(problem, results=[passed(f"{problem.before}\n")])
    write_file(theirs, file)
    _, said = evaluate(theirs, cache=tmp_path)
    assert said == "", "their outcomes are reported"
    rows = ("--set", f"problems.source={ROWS}")
    _, refused = evaluate(theirs, *rows, cache=tmp_path, code=2)
    assert "evaluated files alone; evaluation.output=DIR" in refused
    evaluate(theirs, "--set", f"evaluation.output={ours}", cache=tmp_path)
    [result] = read_file(ours / file.file_name).results
    assert (result.status, result.program_no_test) == (
        "Exception",
        f"{problem.before}\n",
    )


def test_a_missing_library_is_named_before_anything_runs(tmp_path: Path) -> None:
    first, second, *_ = problems()
    tests = f"{first.tests}\n    import numpyy.linalg, os.path\n"
    write_file(tmp_path, completed(changed(first, tests=tests), [first.after]))
    write_file(tmp_path, completed(second, [second.after]))
    _, words = evaluate(tmp_path, cache=tmp_path, code=2)
    [line] = [line for line in words.splitlines() if line.startswith("error: ")]
    assert "numpyy (ModuleNotFoundError" in line
    assert "1 problem need them: 1001_clamp; " in line
    assert "report.allow_missing=true" in line
    assert not [*tmp_path.glob("*.results.json.gz"), *tmp_path.glob("canitedit/*/*")]
    options = ("--set", "report.allow_missing=true")
    _, said = evaluate(tmp_path, *options, cache=tmp_path, code=2)
    assert "not evaluated: " in said and "1001_clamp" in said
    assert "1 completion: 1 OK" in said
    assert "incomplete: 1 file not evaluated (1001_clamp_instruction_lazy); " in said
    assert [*results(tmp_path)] == ["1002_word_count_instruction_lazy.results.json.gz"]
    options += ("--set", "report.allow_partial=true")
    out, _ = evaluate(tmp_path, *options, cache=tmp_path)
    assert "partial: " in out and "1 file not evaluated" in out


def test_modules_that_a_problem_needs() -> None:
    problem = problems()[0]
    tests = "from vllm import LLM\nimport numpy.linalg as la, sys\nfrom .own import x"
    assert needed_modules(
        changed(problem, after="def f(): import torch", tests=tests)
    ) == {
        "vllm",
        "numpy",
        "torch",
    }
    assert needed_modules(changed(problem, after="def f(:")) == set()


def test_problems_from_rows_replace_those_in_files(tmp_path: Path) -> None:
    problem = problems()[0]
    write_file(tmp_path, completed(changed(problem, tests="pass"), [problem.before]))
    evaluate(tmp_path, cache=tmp_path)
    [result] = read_file(tmp_path / evaluated_name(problem)).results
    assert result.status == "OK"
    evaluate(tmp_path, "--set", f"problems.source={ROWS}", cache=tmp_path)
    [result] = read_file(tmp_path / evaluated_name(problem)).results
    assert result.status == "Exception"


def test_wrong_input_is_one_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    wrong = tmp_path / "wrong"
    empty.mkdir()
    problem = problems()[0]
    path = write_file(wrong, completed(problem, ["x"]))
    cases: list[tuple[list[object], str]] = [
        ([], "no folder given"),
        ([tmp_path / "none"], "is not a folder"),
        ([empty], "has no file *.results.json.gz"),
        ([empty, "--set", f"evaluation.output={wrong}"], "has no file *.json.gz"),
        ([wrong, "--workers", 1000], "at most"),
        ([wrong, "--environment", "none"], "1 file not evaluated (1001_clamp"),
    ]
    for words, part in cases:
        _, said = evaluate(*words, cache=tmp_path, code=2)
        assert part in said and len(said.splitlines()) == 1, said
    other = completed(changed(problem, full_name="9_other", name="other"), ["x"])
    path.rename(wrong / other.file_name)
    assert (
        "holds what belongs into 1001_clamp"
        in evaluate(wrong, cache=tmp_path, code=2)[1]
    )
    (wrong / other.file_name).write_bytes(b"\x1f\x8b")
    assert "is broken" in evaluate(wrong, cache=tmp_path, code=2)[1]
    allowed = ("--set", "report.allow_partial=true")
    [left_out] = evaluate(wrong, *allowed, cache=tmp_path, code=2)[1].splitlines()
    assert "1 file not evaluated (9_other_instruction_lazy)" in left_out
    (wrong / other.file_name).unlink()
    write_file(wrong, other)
    _, said = evaluate(
        wrong, "--set", f"problems.source={ROWS}", cache=tmp_path, code=2
    )
    assert "is about a problem that problems.source lacks" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_what_ended_is_kept(
    tmp_path: Path, number: signal.Signals
) -> None:
    problem = problems()[0]
    write_file(tmp_path, completed(problem, [problem.after, "while True: pass"]))
    argv = [sys.executable, "-m", "exercises.canitedit", "report", tmp_path]
    argv += [
        "--set",
        f"evaluation.interpreter={sys.executable}",
        "--set",
        f"folders.cache={tmp_path}",
        "--workers",
        "1",
    ]
    process = subprocess.Popen(argv, cwd=TOP, stderr=subprocess.PIPE, text=True)
    while not [*tmp_path.glob("canitedit/*/*/*.json")]:
        assert process.poll() is None
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not [*tmp_path.glob("*.results.json.gz")]
    write_file(tmp_path, completed(problem, [problem.after, problem.before]))
    _, said = evaluate(tmp_path, cache=tmp_path)
    assert "2 distinct programs" in said and "1 known, 1 to run" in said
