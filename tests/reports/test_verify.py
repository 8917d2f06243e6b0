"""``report.py verify`` accepts a run of the harness and names each planted change."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from environments.base import EnvironmentKind
from reports.data.rundata import read_predictions
from reports.data.verdicts import eval_log
from reports.report import report_command
from reports.verify import verify_command
from runs.storage.runlock import run_lock
from runs.storage.store import RunStore
from tests.support import runs
from tests.support.evaluated import report_settings, whole_output

ONE = "demo__textkit-1"
SIX = "demo__units-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of two instances with its report and verdicts like those of swebench."""
    out = tmp_path_factory.mktemp("made")
    config = runs.config(environment=EnvironmentKind.NONE, all_attempts=True)
    assert run_command(config, runs.options(out, cache, ONE, SIX), lambda _: None) == 0
    folder = out / "predictions/r"
    report_command([folder], report_settings(cache, page=True), lambda _: None)
    predictions = read_predictions(RunStore.of_folder(folder))
    sha256 = next(p.patch_sha256 for p in predictions if p.instance_id == ONE)
    verdict = {
        "instance_id": ONE,
        "status": "resolved",
        "resolved": True,
        "evaluator": "docker",
        "official": True,
        "reason": "",
        "patch_sha256": sha256,
        "dropped_files": [],
        "image": "",
        "evaluated": "",
        "swebench": "",
        "tool": "",
        "gold_files": [],
        "repo": None,
        "created_at": "",
    }
    (folder / "verdicts").mkdir()
    (folder / f"verdicts/{ONE}.json").write_text(json.dumps(verdict))
    (out / "logs/r").mkdir(parents=True, exist_ok=True)
    (out / f"logs/r/{ONE}.report.json").write_text(
        json.dumps({ONE: {"resolved": True}})
    )
    report_command([folder], report_settings(cache, page=True), lambda _: None)
    return out


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "out")


def verify(out: Path, cache: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    code = verify_command([out / "predictions/r"], said.append)
    return code, said


def test_nothing_differs_in_a_run_as_it_was_made(out: Path, cache: Path) -> None:
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert verify(out, cache) == (0, [f"{out}/predictions/r: nothing differs"])
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


Edit = Callable[[Any], None]


def _set(*keys: Any, to: Any) -> Edit:
    def edit(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return edit


def _drop(*keys: Any) -> Edit:
    def edit(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        del value[keys[-1]]

    return edit


def _both(one: Edit, other: Edit) -> Edit:
    def edit(value: Any) -> None:
        one(value)
        other(value)

    return edit


TRAJECTORY = f"predictions/r/trajectories/{ONE}.json"
FALLBACK = f"predictions/r/trajectories/{SIX}.json"
RUN = "predictions/r/run.json"
PREDICTION = f"predictions/r/{ONE}.json"
VERDICT = f"predictions/r/verdicts/{ONE}.json"
RESULTS = "predictions/r/results.json"
STATS = "predictions/r/stats.json"
LEDGER = "predictions/r/ledger.jsonl"
TRANSCRIPT = f"predictions/r/{ONE}.md"
PREDS = "predictions/r/all_preds.jsonl"
REPORT = f"logs/r/{ONE}.report.json"
CHECKSUMS = "predictions/r/checksums.txt"

DERIVED: list[tuple[str, Edit, str]] = [
    (
        TRAJECTORY,
        _set("winner", to=2),
        "winner is 2, but should be",
    ),
    (TRAJECTORY, _set("reason", to="because"), 'outcomes: reason is "because"'),
    (
        TRAJECTORY,
        _set("attempts", to=[{}]),
        "is not a trajectory: 'attempts[0].attempt': Field required",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "traits", "context", to=True),
        "is not a trajectory: 'attempts[0].traits.context': Input should be a valid int",
    ),
    (TRAJECTORY, _drop("instance_id"), "instance_id is missing"),
    (FALLBACK, _set("status", to="empty"), 'outcomes: status is "empty"'),
    (PREDICTION, _set("model_patch", to=""), "model_patch is"),
    (PREDICTION, _set("cost", to=3), "cost is 3, but should be 0.0"),
    (
        PREDICTION,
        _set("all_results", 0, "edit_outcome", to=None),
        "all_results[0].edit_outcome",
    ),
    (VERDICT, _set("created_at", to="soon"), "is not a verdict"),
    (VERDICT, _set("status", to="unresolved"), "the report in logs/ does not"),
    (REPORT, _set(ONE, "resolved", to=False), "the report in logs/ does not"),
    (RESULTS, _set("resolved", to=[]), "resolved[0] is missing, but should be"),
    (STATS, _set("run", to="else"), 'run is "else"'),
]
"""Changes that are noticed without checksums, of a JSON file, and in which words."""


@pytest.mark.parametrize(("name", "edit", "words"), DERIVED)
def test_what_can_be_derived_is_compared_without_checksums(
    out: Path,
    cache: Path,
    name: str,
    edit: Edit,
    words: str,
) -> None:
    (out / CHECKSUMS).unlink()
    assert verify(out, cache)[0] == 0
    _change(out / name, edit)
    code, lines = verify(out, cache)
    assert code == 1
    assert lines[0].startswith("note: no report wrote checksums.txt")
    named = name
    if name == REPORT:
        named = VERDICT
    assert any(line.startswith(f"{named}: ") and words in line for line in lines), lines
    assert all("\n" not in line for line in lines)


def _change(path: Path, edit: Edit) -> None:
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))


RECORDED: list[tuple[str, Edit]] = [
    (TRAJECTORY, _set("attempts", 0, "messages", 1, "content", to="Ask else.")),
    (TRAJECTORY, _set("attempts", 0, "calls", 0, "request_sha256", to="0" * 64)),
    (TRAJECTORY, _set("attempts", 0, "calls", 1, "seconds", to=7)),
    (TRAJECTORY, _set("attempts", 0, "traits", "reminder", to="user")),
    (TRAJECTORY, _set("config", "map_tokens", to=1)),
    (RUN, _drop("deciding")),
    (RUN, _set("versions", "harness", to="0.0.1")),
    (RUN, _set("dataset", "sha256", to="0" * 64)),
    (RUN, _set("evaluation", "evaluators", to={"docker": 2})),
    (VERDICT, _set("official", to=False)),
    (VERDICT, _drop("tool")),
    (REPORT, _set(ONE, "more", to=1)),
]
"""Changes of what nothing else tells."""


@pytest.mark.parametrize(
    ("name", "edit"), [*RECORDED, *((name, edit) for name, edit, _ in DERIVED)]
)
def test_each_changed_file_is_named(
    out: Path, cache: Path, name: str, edit: Edit
) -> None:
    _change(out / name, edit)
    code, lines = verify(out, cache)
    assert code == 1
    assert sum(line.startswith(f"{name}: ") for line in lines) == 1, lines
    assert all("\n" not in line for line in lines)


TEXTS = [
    (PREDS, "model_patch", "model_match", "line 1: it is"),
    (TRANSCRIPT, "## Attempt 1", "## Attempt 9", "Attempt 9"),
    (LEDGER, '"attempt": 1', '"attempt": 8', "lacks 2 calls that attempt 1 of"),
    (LEDGER, '"scripted-a"', '"scripted-b"', "lacks"),
    (LEDGER, f"{ONE}:", "own__thing-1:", "lacks|changed"),
    (LEDGER, '{"call"', '{"all"', "line 1: 'call': Field required"),
    (LEDGER, ":1:2", ":1:1", "line 2: it is the same call as line 1"),
]


@pytest.mark.parametrize(("name", "old", "new", "words"), TEXTS)
def test_a_change_in_a_text_is_named(
    out: Path,
    cache: Path,
    name: str,
    old: str,
    new: str,
    words: str,
) -> None:
    path = out / name
    assert old in path.read_text()
    times = -1
    if "required" in words:
        times = 1
    path.write_text(path.read_text().replace(old, new, times))
    code, lines = verify(out, cache)
    assert code == 1
    (line,) = [line for line in lines if line.startswith(f"{name}: ")]
    assert re.search(words, line)


@pytest.mark.parametrize("name", [TRANSCRIPT, PREDICTION, TRAJECTORY, VERDICT, REPORT])
def test_a_missing_file_is_named(out: Path, cache: Path, name: str) -> None:
    (out / name).unlink()
    code, lines = verify(out, cache)
    assert code == 1
    assert any(line.startswith(f"{name}: is missing") for line in lines), lines


@pytest.mark.parametrize(
    "name",
    [
        "predictions/r/verdicts/own__thing-1.json",
        "predictions/r/trajectories/own__thing-1.json",
        "predictions/r/own__thing-1.md",
        "logs/r/own__thing-1.report.json",
        f"logs/r/{ONE}.else.eval.log",
        "logs/r/journals/own__thing-1.jsonl",
    ],
)
def test_a_file_of_an_instance_that_came_later_is_named(
    out: Path, cache: Path, name: str
) -> None:
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).touch()
    code, lines = verify(out, cache)
    assert code == 1
    assert f"{name}: was not there when the run was reported" in lines


def test_notes_of_users_are_no_difference(out: Path, cache: Path) -> None:
    (out / "predictions/r/NOTES.md").touch()
    (out / "logs/r/slurm.log").touch()
    assert verify(out, cache) == (0, [f"{out}/predictions/r: nothing differs"])
    for name in (b"a\n__b.md", b"\xff.md", "a\u2028b  c.md".encode()):
        (out / "predictions/r" / os.fsdecode(name)).touch()
    report_command(
        [out / "predictions/r"], report_settings(cache, page=False), lambda _: None
    )
    assert verify(out, cache) == (0, [f"{out}/predictions/r: nothing differs"])


def test_another_program_checks_the_checksums(out: Path) -> None:
    command = ["sha256sum", "--check", "--quiet", CHECKSUMS]
    assert subprocess.run(command, cwd=out, check=False).returncode == 0
    (out / TRANSCRIPT).write_text("x")
    changed = subprocess.run(command, cwd=out, capture_output=True, check=False)
    assert TRANSCRIPT in changed.stdout.decode()


def _without_first_line(data: bytes) -> bytes:
    return data.partition(b"\n")[2]


def _with_other_hash(data: bytes) -> bytes:
    return (b"1" if data[:1] == b"0" else b"0") + data[1:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"\xff\x00\n",
        lambda data: data[:-9],
        lambda data: data + data,
        _without_first_line,
        _with_other_hash,
    ],
)
def test_damaged_checksums_are_named_and_nothing_else(
    out: Path,
    cache: Path,
    damage: Callable[[bytes], bytes],
) -> None:
    path = out / CHECKSUMS
    path.write_bytes(damage(path.read_bytes()))
    code, lines = verify(out, cache)
    assert code == 1
    assert lines[0] == f"{CHECKSUMS}: is not as it was written; report again"
    assert len(lines) == 2


def test_a_report_that_was_killed_leaves_no_checksums(
    out: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reports.report.collect", stop)
    with pytest.raises(KeyboardInterrupt):
        report_command(
            [out / "predictions/r"], report_settings(cache, page=False), lambda _: None
        )
    assert not (out / CHECKSUMS).exists()


def test_a_run_that_is_worked_on_gets_no_checksums(out: Path, cache: Path) -> None:
    folder = out / "predictions/r"
    with run_lock(folder):
        report_command([folder], report_settings(cache, page=False), lambda _: None)
    assert not (out / CHECKSUMS).exists()
    report_command([folder], report_settings(cache, page=False), lambda _: None)
    assert verify(out, cache) == (0, [f"{folder}: nothing differs"])


def test_a_verdict_whose_tests_are_not_seen_to_end_is_named(
    out: Path, cache: Path
) -> None:
    (out / CHECKSUMS).unlink()
    store = RunStore.of_folder(out / "predictions/r")
    for prediction in read_predictions(store):
        if prediction.instance_id == ONE:
            log = eval_log(store, prediction)
    log.write_text(whole_output("PASSED a\n"))
    assert verify(out, cache)[0] == 0
    log.write_text(log.read_text().partition(">>>>> End")[0])
    code, lines = verify(out, cache)
    problem = "is conclusive, but the output in logs/ shows no end of the tests"
    assert (code, lines[1]) == (1, f"{VERDICT}: {problem}")


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
    out: Path,
    cache: Path,
    removed: dict[str, Any],
) -> None:
    (out / CHECKSUMS).unlink()
    for path in (out / RUN, *(out / "predictions/r/trajectories").glob("*.json")):
        content = json.loads(path.read_text())
        content["config"].update(removed)
        content["versions"]["harness"] = "0.12.0"
        if "deciding" in content:
            content["deciding"].update(removed, past_sha256="0" * 64, harness="0.12.0")
        path.write_text(json.dumps(content))
    assert verify(out, cache)[1][1:] == [f"{out}/predictions/r: nothing differs"]


def test_a_reason_in_the_words_of_version_0_12_is_no_difference(
    out: Path, cache: Path
) -> None:
    (out / CHECKSUMS).unlink()
    written = [
        *(out / "predictions/r").rglob("*.json"),
        *(out / "predictions/r").rglob("*.md"),
    ]
    assert "no test could run (plausible, untested)" in (out / TRAJECTORY).read_text()
    for path in written:
        path.write_text(
            path.read_text().replace("no test could run", "no test could speak")
        )
    assert verify(out, cache)[1][1:] == [f"{out}/predictions/r: nothing differs"]
