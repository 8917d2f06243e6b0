"""Whole runs of our six exercises: all formats, two tries, other folders, replay, status."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exercises.tests.commands import EXERCISM
from exercises.tests.exercism.running.conftest import FAST, start
from exercises.tests.support.exercism import (
    NOTHING,
    SIX,
    THREE,
    ExerciseProvider,
    ExerciseRun,
    examples,
    late_examples,
    needs_bubblewrap,
    requests,
    six,
)
from swe_retry.agent.formats import format_names
from swe_retry.agent.formats.protocol import Notation
from swe_retry.cli.harness import main as harness
from swe_retry.cli.report import main as report
from swe_retry.runner.modelsource import read_recording

pytestmark = needs_bubblewrap
THREE_FAST = (*FAST, "--set", f"exercises.ids={THREE}")
LateRun = tuple[ExerciseRun, ExerciseProvider]


@pytest.fixture(scope="module")
def run_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exercism")


@pytest.fixture(autouse=True)
def api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture(scope="module")
def late_run(run_root: Path) -> Iterator[LateRun]:
    """A run whose model writes the stub first, and the example then."""
    run = ExerciseRun(run_root / "late", run_root / "cache", THREE_FAST)
    with late_provider() as provider:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", "none")
            assert start(run, provider).code == 0
        yield run, provider


def late_provider() -> ExerciseProvider:
    return ExerciseProvider(list(six().values()), late_examples, Notation.OF_2023)


@pytest.mark.parametrize(
    ("profile", "ids"),
    [
        # One exercise with one file, and one with two.
        ("2023", ["cuckoo-clock", "garden-path"]),
        ("current", ["cuckoo-clock", "garden-path"]),
        pytest.param("2023", list(six()), marks=pytest.mark.long),
        pytest.param("current", list(six()), marks=pytest.mark.long),
    ],
)
def test_examples_as_replies_solve_all_in_each_format(
    run_root: Path,
    profile: str,
    ids: list[str],
) -> None:
    notation = Notation.CURRENT
    if profile == "2023":
        notation = Notation.OF_2023
    names = format_names(notation)
    run = ExerciseRun(run_root / f"{profile}-{len(ids)}", run_root / "cache")
    options = f"--set exercises.profile={profile} --set exercises.ids={','.join(ids)}"
    with ExerciseProvider(list(six().values()), examples, notation) as provider:
        ended = start(run, provider, f"{options} --formats {','.join(names)}")
    assert ended.code == 0
    columns = f"in {len(names)} columns: {len(ids) * len(names)}"
    assert f"{len(ids)} exercises {columns} selected, 0 done" in ended.out
    records = run.records()
    assert set(records) == set(names)
    for record in records.values():
        assert record["pass_num_1"] == len(ids)
        assert record["total_tests"] == len(ids)
        assert record["percent_cases_well_formed"] == 100.0
    assert len(provider.requests) == len(ids) * len(names)


def test_the_second_try_sees_the_failures_of_the_first(late_run: LateRun) -> None:
    run, provider = late_run
    record = run.records()["diff"]
    expected = {
        "pass_rate_1": 33.3,
        "pass_rate_2": 100.0,
        "pass_num_1": 1,
        "pass_num_2": 3,
        "test_cases": 3,
        "profile": "2023",
        "tries": 2,
        "timeout": 60.0,
    }
    assert {key: record[key] for key in expected} == expected
    result = run.result("diff", "cuckoo-clock")
    assert result["tests_outcomes"] == [False, True]
    first_try, second_try = result["extra"]["tries"]
    assert first_try["patch"] == ""
    assert second_try["patch"] != ""
    assert first_try["tests_failed"] > 0
    assert [len(pair) for pair in result["chat_hashes"]] == [2, 2]
    second_requests = []
    for request in provider.requests:
        if "clock" in str(request) and len(request["messages"]) == 4:
            second_requests.append(request)
    [request] = second_requests
    contents = [message["content"] for message in request["messages"]]
    system, opening, reply, failures = contents
    assert "<<<<<<< ORIGINAL" in system
    assert reply == NOTHING
    stub = (SIX / "cuckoo-clock" / "cuckoo_clock.py").read_text()
    files = f"These are the files:\n\n```\ncuckoo_clock.py\n{stub}```\n\n# Introduc"
    assert opening.startswith(files)
    assert "assert" not in opening, "tests are never shown"
    assert failures.endswith("Fix the code in cuckoo_clock.py to resolve the errors.\n")
    lines = first_try["output"].splitlines()
    output = "\n".join(lines[:50])
    assert failures.startswith(f"{output}\n####\n")
    assert request["temperature"] == 0


def test_requests_and_results_are_equal_in_other_folders(
    late_run: LateRun,
    run_root: Path,
) -> None:
    run, provider = late_run
    out = run_root / "a" / "deeper" / "place"
    copy = out / "exercises"
    for path in sorted(SIX.rglob("*"), reverse=True):
        if path.is_file():
            target = copy / path.relative_to(SIX)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    again = ExerciseRun(out, run_root / "other" / "cache", THREE_FAST)
    with late_provider() as other:
        assert start(again, other, folder=copy).code == 0
    assert requests(other) == requests(provider)
    assert again.results() == run.results()


def test_a_replay_gives_the_results_again(late_run: LateRun, run_root: Path) -> None:
    run, provider = late_run
    before = len(provider.requests)
    replayed = ExerciseRun(run_root / "replayed", run_root / "cache", THREE_FAST)
    assert start(replayed, None, f"--replay {run.folder}").code == 0
    assert replayed.results() == run.results()
    assert len(provider.requests) == before
    # An exercise without a recording is no result.
    incomplete = ExerciseRun(run_root / "more", run_root / "cache", FAST)
    ids = "--set exercises.ids=cuckoo-clock,name-tags"
    assert start(incomplete, None, f"--replay {run.folder} {ids}").code == 1
    assert len(incomplete.results()) == 1
    assert incomplete.records()["diff"]["not_completed"] == ["python/name-tags"]


def test_transcript_and_trajectory(late_run: LateRun) -> None:
    run, _ = late_run
    [path] = (run.folder / "trajectories").glob("*cuckoo-clock.json")
    assert path.stem == "gpt-4o.diff.1.python.cuckoo-clock"
    [attempt] = read_recording(path).values()
    assert attempt.model == "gpt-4o"
    assert attempt.edit_format == "diff"
    assert attempt.calls is not None
    assert len(attempt.calls) == 2
    text = (run.folder / "results/gpt-4o.diff.1/python/cuckoo-clock.md").read_text()
    for part in ("- solved: solved in try 2", "| 1 | failed | 0 |", "## 5. ASSISTANT"):
        assert part in text


def test_the_report_reads_the_run(late_run: LateRun) -> None:
    run, _ = late_run
    out = EXERCISM.output(f"report {run.folder} --set report.page=false")
    assert "gpt-4o@diff 3 of 3 33.3 %" in " ".join(out.split())
    # Nothing is left to do, and nothing is asked.
    ended = start(run, None)
    assert ended.code == 0
    assert "this start: nothing to do" in ended.out


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (report, "{run}"),
        (harness, "--dataset demo --models gpt-4o --run r --out {out}"),
        (harness, "status r --out {out}"),
        (harness, "--continue {run}"),
    ],
)
def test_other_commands_name_the_one_that_reads_it(
    late_run: LateRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: Callable[[], int],
    line: str,
) -> None:
    run, _ = late_run
    arguments = line.format(run=run.folder, out=run.out)
    monkeypatch.setattr(sys, "argv", ["harness.py", *arguments.split()])
    assert command() == 2
    error = capsys.readouterr().err
    assert "python -m swe_retry_exercises.exercism report" in error
    assert error.count("\n") == 1
