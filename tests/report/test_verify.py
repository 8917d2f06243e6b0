"""``report.py verify`` accepts a run of the harness and names each planted change."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swe_retry.record.runlock import run_lock
from swe_retry.record.store import RunStore
from swe_retry.results.read import read_predictions
from swe_retry.results.verdicts import eval_log
from tests.support import contents_below, write_files
from tests.support.evaluated import TEXTKIT, UNITS, change_json, whole_output
from tests.support.reported import Printed, differs, replay, report_run, verify_run

TRAJECTORY = f"predictions/r/trajectories/{TEXTKIT}.json"
FALLBACK = f"predictions/r/trajectories/{UNITS}.json"
RUN = "predictions/r/run.json"
PREDICTION = f"predictions/r/{TEXTKIT}.json"
VERDICT = f"predictions/r/verdicts/{TEXTKIT}.json"
RESULTS = "predictions/r/results.json"
STATS = "predictions/r/stats.json"
LEDGER = "predictions/r/ledger.jsonl"
TRANSCRIPT = f"predictions/r/{TEXTKIT}.md"
PREDS = "predictions/r/all_preds.jsonl"
REPORT = f"logs/r/{TEXTKIT}.report.json"
CHECKSUMS = "predictions/r/checksums.txt"


@pytest.fixture(scope="module")
def reported_run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of two instances with its report and verdicts like those of swebench."""
    out = tmp_path_factory.mktemp("made")
    run = replay(out, cache, TEXTKIT, UNITS, all_attempts=True)
    predictions = read_predictions(RunStore.of_folder(run))
    hashes = {each.instance_id: each.patch_sha256 for each in predictions}
    names = ("reason", "image", "evaluated", "swebench", "tool", "created_at")
    verdict: dict[str, Any] = {
        **dict.fromkeys(names, ""),
        "instance_id": TEXTKIT,
        "status": "resolved",
        "resolved": True,
        "evaluator": "docker",
        "official": True,
        "patch_sha256": hashes[TEXTKIT],
        "dropped_files": [],
        "gold_files": [],
        "repo": None,
    }
    report = {TEXTKIT: {"resolved": True}}
    write_files(
        out,
        {
            VERDICT: json.dumps(verdict),
            REPORT: json.dumps(report),
        },
    )
    report_run(run, cache)
    return out


@pytest.fixture
def out(reported_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(reported_run, tmp_path / "out")


@pytest.fixture
def run(out: Path) -> Path:
    return out / "predictions/r"


@pytest.fixture
def run_alone(out: Path, run: Path) -> Path:
    """A run without checksums, in which only what can be derived is compared."""
    (out / CHECKSUMS).unlink()
    return run


def only_line_on(printed: Printed, name: str) -> str:
    """Return the only line on a file that differs; all are lines indeed."""
    assert printed.code == 1
    assert "\n" not in "".join(printed.lines)
    (line,) = printed.starting(f"{name}: ")
    return line


def test_nothing_differs_in_a_run_without_checksums(run_alone: Path) -> None:
    assert not differs(run_alone)


def test_nothing_differs_in_a_run_as_it_was_made(out: Path, run: Path) -> None:
    before = contents_below(out)
    assert verify_run(run) == Printed(0, [f"{run}: nothing differs"])
    assert contents_below(out) == before


Edit = Callable[[Any], object]


def set_value(*keys: Any, to: Any) -> Edit:
    def edit(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return edit


def drop(name: str) -> Edit:
    return lambda value: value.pop(name)


FIRST = ("attempts", 0)
DERIVED: list[tuple[str, Edit, str]] = [
    (TRAJECTORY, set_value("winner", to=2), "winner is 2, but should be"),
    (TRAJECTORY, set_value("reason", to="because"), 'outcomes: reason is "because"'),
    (
        TRAJECTORY,
        set_value("attempts", to=[{}]),
        "is not a trajectory: 'attempts[0].attempt': Field required",
    ),
    (
        TRAJECTORY,
        set_value(*FIRST, "traits", "context", to=True),
        "is not a trajectory: 'attempts[0].traits.context': Input should be a valid int",
    ),
    (TRAJECTORY, set_value("attempts", to=[]), "has no attempts"),
    (TRAJECTORY, drop("instance_id"), "instance_id is missing"),
    (FALLBACK, set_value("status", to="empty"), 'outcomes: status is "empty"'),
    (PREDICTION, set_value("model_patch", to=""), "model_patch is"),
    (PREDICTION, set_value("cost", to=3), "cost is 3, but should be 0.0"),
    (
        PREDICTION,
        set_value("all_results", 0, "edit_outcome", to=None),
        "all_results[0].edit_outcome",
    ),
    (VERDICT, set_value("created_at", to="soon"), "is not a verdict"),
    (VERDICT, set_value("status", to="unresolved"), "the report in logs/ does not"),
    (REPORT, set_value(TEXTKIT, "resolved", to=False), "the report in logs/ does not"),
    (RESULTS, set_value("resolved", to=[]), "resolved[0] is missing, but should be"),
    (STATS, set_value("run", to="else"), 'run is "else"'),
]
"""Changes that are noticed without checksums, of a JSON file, and in which words."""


@pytest.mark.parametrize(("name", "edit", "problem"), DERIVED)
def test_what_can_be_derived_is_compared_also_without_checksums(
    out: Path,
    run: Path,
    name: str,
    edit: Edit,
    problem: str,
) -> None:
    change_json(out / name, edit)
    only_line_on(verify_run(run), name)
    (out / CHECKSUMS).unlink()
    printed = verify_run(run)
    assert printed.lines[0].startswith("note: no report wrote checksums.txt")
    # What a verdict and its report differ in is said of the verdict.
    subject = VERDICT if name == REPORT else name
    assert printed.code == 1
    lines = printed.starting(f"{subject}: ")
    assert any(problem in line for line in lines), printed.lines
    assert "\n" not in "".join(printed.lines)


RECORDED: list[tuple[str, Edit]] = [
    (TRAJECTORY, set_value(*FIRST, "messages", 1, "content", to="Ask else.")),
    (TRAJECTORY, set_value(*FIRST, "calls", 0, "request_sha256", to="0" * 64)),
    (TRAJECTORY, set_value(*FIRST, "calls", 1, "seconds", to=7)),
    (TRAJECTORY, set_value(*FIRST, "traits", "reminder", to="user")),
    (TRAJECTORY, set_value("config", "map_tokens", to=1)),
    (RUN, drop("deciding")),
    (RUN, set_value("versions", "harness", to="0.0.1")),
    (RUN, set_value("dataset", "sha256", to="0" * 64)),
    (RUN, set_value("evaluation", "evaluators", to={"docker": 2})),
    (VERDICT, set_value("official", to=False)),
    (VERDICT, drop("tool")),
    (REPORT, set_value(TEXTKIT, "more", to=1)),
]
"""Changes that no other file shows."""


def rounds_of_changes() -> list[dict[str, Edit]]:
    """Return the changes in rounds, each with one of a file."""
    by_file: dict[str, list[Edit]] = defaultdict(list)
    for name, edit in RECORDED:
        by_file[name].append(edit)
    counts = [len(edits) for edits in by_file.values()]
    rounds = []
    for number in range(max(counts)):
        changed = {}
        for name, edits in by_file.items():
            if number < len(edits):
                changed[name] = edits[number]
        rounds.append(changed)
    return rounds


@pytest.mark.parametrize("changed", rounds_of_changes())
def test_each_changed_file_is_named(
    out: Path, run: Path, changed: dict[str, Edit]
) -> None:
    for name, edit in changed.items():
        change_json(out / name, edit)
    printed = verify_run(run)
    for name in changed:
        line = only_line_on(printed, name)
        assert line == f"{name}: was changed after the run was reported"


@pytest.mark.parametrize(
    ("name", "old", "new", "pattern"),
    [
        (PREDS, "model_patch", "model_match", "line 1: it is"),
        (TRANSCRIPT, "## Attempt 1", "## Attempt 9", "Attempt 9"),
        (LEDGER, '"attempt": 1', '"attempt": 8', "lacks 2 calls that attempt 1 of"),
        (LEDGER, '"scripted-a"', '"scripted-b"', "lacks"),
        (LEDGER, f"{TEXTKIT}:", "own__thing-1:", "lacks|changed"),
        (LEDGER, '{"call"', '{"all"', "line 1: 'call': Field required"),
        (LEDGER, ":1:2", ":1:1", "line 2: it is the same call as line 1"),
    ],
)
def test_a_change_in_a_text_is_named(
    out: Path,
    run: Path,
    name: str,
    old: str,
    new: str,
    pattern: str,
) -> None:
    text = (out / name).read_text()
    assert old in text
    count = 1 if "required" in pattern else -1
    (out / name).write_text(text.replace(old, new, count))
    line = only_line_on(verify_run(run), name)
    assert re.search(pattern, line)


@pytest.mark.parametrize(
    "name",
    [TRANSCRIPT, PREDICTION, TRAJECTORY, VERDICT, REPORT],
)
def test_a_missing_file_is_named(
    out: Path,
    run: Path,
    name: str,
) -> None:
    (out / name).unlink()
    printed = verify_run(run)
    assert printed.code == 1
    assert printed.starting(f"{name}: is missing"), printed.lines


def test_files_of_instances_that_came_later_are_named(out: Path, run: Path) -> None:
    names = (
        "predictions/r/verdicts/own__thing-1.json",
        "predictions/r/trajectories/own__thing-1.json",
        "predictions/r/own__thing-1.md",
        "logs/r/own__thing-1.report.json",
        f"logs/r/{TEXTKIT}.else.eval.log",
        "logs/r/journals/own__thing-1.jsonl",
    )
    for name in names:
        write_files(out, {name: None})
        printed = verify_run(run)
        (out / name).unlink()
        assert printed.code == 1
        assert f"{name}: was not there when the run was reported" in printed.lines


def test_notes_of_users_are_no_difference(
    out: Path,
    run: Path,
    cache: Path,
) -> None:
    (run / "NOTES.md").touch()
    (out / "logs/r/slurm.log").touch()
    assert not differs(run)
    for name in (b"a\n__b.md", b"\xff.md", "a\u2028b  c.md".encode()):
        (run / os.fsdecode(name)).touch()
    report_run(run, cache)
    assert not differs(run)


def test_another_program_checks_the_checksums(out: Path) -> None:
    command = ["sha256sum", "--check", "--quiet", CHECKSUMS]
    subprocess.run(command, cwd=out, check=True)
    (out / TRANSCRIPT).write_text("x")
    changed = subprocess.run(
        command,
        cwd=out,
        capture_output=True,
        check=False,
    )
    assert TRANSCRIPT in changed.stdout.decode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"\xff\x00\n",
        lambda data: data[:-9],
        lambda data: data + data,
        lambda data: data.partition(b"\n")[2],
        lambda data: (b"1" if data[:1] == b"0" else b"0") + data[1:],
    ],
    ids=["empty", "no text", "cut", "twice", "a line less", "another hash"],
)
def test_damaged_checksums_are_named_and_nothing_else(
    out: Path,
    run: Path,
    damage: Callable[[bytes], bytes],
) -> None:
    path = out / CHECKSUMS
    path.write_bytes(damage(path.read_bytes()))
    printed = verify_run(run)
    problem = f"{CHECKSUMS}: is not as it was written; report again"
    assert printed.code == 1
    assert printed.lines[0] == problem
    assert len(printed.lines) == 2


def test_a_report_that_was_killed_leaves_no_checksums(
    out: Path,
    run: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("swe_retry.report.report.collect", stop)
    with pytest.raises(KeyboardInterrupt):
        report_run(run, cache)
    assert not (out / CHECKSUMS).exists()


def test_a_run_that_is_worked_on_gets_no_checksums(
    out: Path, run: Path, cache: Path
) -> None:
    with run_lock(run):
        report_run(run, cache)
    assert not (out / CHECKSUMS).exists()
    report_run(run, cache)
    assert (out / CHECKSUMS).exists()
    assert not differs(run)


def test_a_verdict_whose_tests_are_not_seen_to_end_is_named(run_alone: Path) -> None:
    store = RunStore.of_folder(run_alone)
    predictions = read_predictions(store)
    by_id = {prediction.instance_id: prediction for prediction in predictions}
    log = eval_log(store, by_id[TEXTKIT])
    log.write_text(whole_output("PASSED a\n"))
    assert not differs(run_alone)
    cut, _, _ = log.read_text().partition(">>>>> End")
    log.write_text(cut)
    problem = "is conclusive, but the output in logs/ shows no end of the tests"
    assert only_line_on(verify_run(run_alone), VERDICT) == f"{VERDICT}: {problem}"


@pytest.mark.parametrize(
    "removed",
    [
        {"stop": "agreement"},
        {"equal_failures": 2},
        {"history": "summary"},
        {"full_suite": "always"},
        {"stop": "value", "value_usd": "1", "prior_runs": ["predictions/old"]},
    ],
)
def test_options_of_version_0_12_that_are_gone_are_no_difference(
    run_alone: Path, removed: dict[str, Any]
) -> None:
    def make_older(content: Any) -> None:
        content["config"].update(removed)
        content["versions"]["harness"] = "0.12.0"
        if "deciding" in content:
            content["deciding"].update(
                removed,
                past_sha256="0" * 64,
                harness="0.12.0",
            )

    trajectories = run_alone.glob("trajectories/*.json")
    for path in (run_alone / "run.json", *trajectories):
        change_json(path, make_older)
    assert not differs(run_alone)


def test_a_reason_in_the_words_of_version_0_12_is_no_difference(
    out: Path, run_alone: Path
) -> None:
    assert "no test could run (plausible, untested)" in (out / TRAJECTORY).read_text()
    for pattern in ("*.json", "*.md"):
        for path in run_alone.rglob(pattern):
            text = path.read_text()
            path.write_text(text.replace("no test could run", "no test could speak"))
    assert not differs(run_alone)
