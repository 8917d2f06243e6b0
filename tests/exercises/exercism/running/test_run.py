"""Whole runs of our six exercises: all formats, two tries, other folders, replay, status."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.formats import format_names
from agent.formats.base import Notation
from harness import main as harness
from report import main as report
from runs.modelsource import read_recording
from tests.support.exercism import (
    NOTHING,
    SIX,
    THREE,
    ExerciseProvider,
    ExerciseRun,
    examples,
    late_examples,
    main,
    needs_bubblewrap,
    requests,
    six,
)

pytestmark = needs_bubblewrap
# unittest starts faster than pytest.
FAST = (
    "--set",
    "exercises.profile=2023",
    "--set",
    f"exercises.ids={THREE}",
    "--formats",
    "diff",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exercism")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture(scope="module")
def late(place: Path) -> Iterator[tuple[ExerciseRun, ExerciseProvider]]:
    """A run whose model writes the stub first, and the example then."""
    with ExerciseProvider(
        [*six().values()], late_examples, Notation.OF_2023
    ) as provider:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", "none")
            run = ExerciseRun(place / "late", place / "cache", FAST)
            assert run.run(provider) == 0
        yield run, provider


@pytest.mark.parametrize(
    ("profile", "ids"),
    [
        ("2023", [*six()]),
        # pytest starts slowly: one exercise with one file, and one with two.
        ("current", ["cuckoo-clock", "garden-path"]),
        pytest.param("current", [*six()], marks=pytest.mark.long),
    ],
)
def test_examples_as_replies_solve_all_in_each_format(
    place: Path, profile: str, ids: list[str]
) -> None:
    notation = Notation.CURRENT
    if profile == "2023":
        notation = Notation.OF_2023
    names = format_names(notation)
    options = (
        "--set",
        f"exercises.profile={profile}",
        "--formats",
        ",".join(names),
        "--set",
        f"exercises.ids={','.join(ids)}",
    )
    run = ExerciseRun(place / f"{profile}-{len(ids)}", place / "cache", options)
    with ExerciseProvider([*six().values()], examples, notation) as provider:
        assert run.run(provider) == 0
    assert {
        n: (r["pass_num_1"], r["total_tests"]) for n, r in run.records().items()
    } == dict.fromkeys(names, (len(ids), len(ids)))
    assert len(provider.requests) == len(ids) * len(names)
    assert {r["percent_cases_well_formed"] for r in run.records().values()} == {100.0}


def test_the_second_try_sees_the_failures_of_the_first(
    late: tuple[ExerciseRun, ExerciseProvider],
) -> None:
    run, provider = late
    record = run.records()["diff"]
    assert (record["pass_rate_1"], record["pass_rate_2"]) == (33.3, 100.0)
    assert (record["pass_num_1"], record["pass_num_2"], record["test_cases"]) == (
        1,
        3,
        3,
    )
    assert (record["profile"], record["tries"], record["timeout"]) == ("2023", 2, 60.0)
    first = run.one("diff", "cuckoo-clock")
    assert first["tests_outcomes"] == [False, True]
    assert [one["patch"] == "" for one in first["extra"]["tries"]] == [True, False]
    assert first["extra"]["tries"][0]["tests_failed"] > 0
    assert [len(pair) for pair in first["chat_hashes"]] == [2, 2]
    (asked,) = (
        r for r in provider.requests if len(r["messages"]) == 4 and "clock" in str(r)
    )
    system, opening, reply, failures = (m["content"] for m in asked["messages"])
    assert "<<<<<<< ORIGINAL" in system and reply == NOTHING
    stub = (SIX / "cuckoo-clock" / "cuckoo_clock.py").read_text()
    assert opening.startswith(
        f"These are the files:\n\n```\ncuckoo_clock.py\n{stub}```\n\n# Introduc"
    )
    assert "assert" not in opening, "tests are never shown"
    assert failures.endswith("Fix the code in cuckoo_clock.py to resolve the errors.\n")
    output = first["extra"]["tries"][0]["output"]
    assert failures.startswith("\n".join(output.splitlines()[:50]) + "\n####\n")
    assert asked["temperature"] == 0


def test_requests_and_results_are_equal_in_other_folders(
    late: tuple[ExerciseRun, ExerciseProvider], place: Path
) -> None:
    run, provider = late
    copied = place / "a" / "deeper" / "place" / "exercises"
    for name in sorted(six(), reverse=True):
        for path in sorted((SIX / name).rglob("*"), reverse=True):
            if path.is_file():
                to = copied / path.relative_to(SIX)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, to)
    again = ExerciseRun(
        place / "a" / "deeper" / "place", place / "other" / "cache", FAST
    )
    with ExerciseProvider([*six().values()], late_examples, Notation.OF_2023) as other:
        assert again.run(other, exercises=copied) == 0
    assert requests(other) == requests(provider)
    assert again.results() == run.results()


def test_a_replay_gives_the_results_again(
    late: tuple[ExerciseRun, ExerciseProvider], place: Path
) -> None:
    run, provider = late
    before = len(provider.requests)
    replayed = ExerciseRun(place / "replayed", place / "cache", FAST)
    assert replayed.run(None, "--replay", str(run.folder)) == 0
    assert replayed.results() == run.results()
    assert len(provider.requests) == before
    # An exercise without a recording is no result.
    more = ExerciseRun(
        place / "more", place / "cache", (*FAST[:2], "--formats", "diff")
    )
    assert (
        more.run(
            None,
            "--replay",
            str(run.folder),
            "--set",
            "exercises.ids=cuckoo-clock,name-tags",
        )
        == 1
    )
    assert len(more.results()) == 1
    assert more.records()["diff"]["not_completed"] == ["python/name-tags"]


def test_transcript_and_trajectory(late: tuple[ExerciseRun, ExerciseProvider]) -> None:
    run, _ = late
    (path,) = (run.folder / "trajectories").glob("*cuckoo-clock.json")
    assert path.stem == "gpt-4o.diff.1.python.cuckoo-clock"
    (attempt,) = read_recording(path).values()
    assert (attempt.model, attempt.edit_format, len(attempt.calls)) == (
        "gpt-4o",
        "diff",
        2,
    )
    text = (run.folder / "results/gpt-4o.diff.1/python/cuckoo-clock.md").read_text()
    assert "- solved: solved in try 2" in text
    assert "| 1 | failed | 0 |" in text and "## 5. ASSISTANT" in text


def test_the_report_reads_the_run(
    late: tuple[ExerciseRun, ExerciseProvider], capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = late
    assert main(["report", run.folder, "--set", "report.page=false"]) == 0
    assert "gpt-4o@diff 3 of 3 33.3 %" in " ".join(capsys.readouterr().out.split())
    # Nothing is left to do, and nothing is asked.
    assert run.run(None) == 0
    assert "this start: nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (report, ["{run}"]),
        (
            harness,
            ["--dataset", "demo", "--models", "gpt-4o", "--run", "r", "--out", "{out}"],
        ),
        (harness, ["status", "r", "--out", "{out}"]),
        (harness, ["--continue", "{run}"]),
    ],
)
def test_other_commands_name_the_one_that_reads_it(
    late: tuple[ExerciseRun, ExerciseProvider],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: Callable[[], int],
    words: list[str],
) -> None:
    run, _ = late
    given = [word.format(run=run.folder, out=run.out) for word in words]
    monkeypatch.setattr(sys, "argv", ["harness.py", *given])
    assert command() == 2
    said = capsys.readouterr().err
    assert "python -m exercises.exercism report" in said and said.count("\n") == 1
