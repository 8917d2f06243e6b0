"""``--verify`` accepts a run of the harness and names each planted change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from environments.base import EnvironmentKind
from reports.command_line import report_command
from reports.data.rundata import read_predictions
from reports.data.verdicts import eval_log
from runs.storage.store import RunStore
from tests.support import runs
from tests.support.evaluated import report_options, whole_output

ONE, SIX = "demo__textkit-1", "demo__units-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of two instances with its report and verdicts like those of swebench."""
    out = tmp_path_factory.mktemp("made")
    config = runs.config(environment=EnvironmentKind.NONE, all_attempts=True)
    assert run_command(config, runs.options(out, cache, ONE, SIX), lambda _: None) == 0
    folder = out / "predictions/r"
    report_command([folder], report_options(cache, page=True), lambda _: None)
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
    report_command([folder], report_options(cache, page=True), lambda _: None)
    return out


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "out")


def verify(out: Path, cache: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    code = report_command(
        [out / "predictions/r"],
        report_options(cache, page=True, verify=True),
        said.append,
    )
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
PLANTS: list[tuple[str, Edit, str]] = [
    (
        TRAJECTORY,
        _set("attempts", 0, "messages", 1, "content", to="Ask else."),
        "request hash of",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "calls", 0, "request_sha256", to="0" * 64),
        "of call 1 is",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "messages", -1, "content", to="No."),
        "the last message is",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "cost", to=7.5),
        "cost is 7.5, but should be 0.0",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "dropped_files", to=["x"]),
        'dropped_files[0] is "x"',
    ),
    (
        TRAJECTORY,
        _set("winner", to=2),
        "the choice from the recorded outcomes: winner is 2",
    ),
    (TRAJECTORY, _set("reason", to="because"), 'outcomes: reason is "because"'),
    (
        TRAJECTORY,
        _set("attempts", 0, "lint_outcome", to=False),
        'status is "plausible_untested", but should be "lint_failed"',
    ),
    (
        TRAJECTORY,
        _set("attempts", to=[{}]),
        "is not a trajectory: 'attempts[0].attempt': Field required",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "edit_format", to="udiff"),
        "not those of the format udiff",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "traits", "reminder", to="user"),
        "with the reminder user",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "calls", 0, "content", to="Else."),
        "the replies of the calls",
    ),
    (
        TRAJECTORY,
        _set("config", "map_tokens", to=1),
        "config.map_tokens is 1, but should be 2048",
    ),
    (
        TRAJECTORY,
        _drop("config", "api_base"),
        "config.api_base is missing, but should be null",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "traits", "context", to=True),
        "is not a trajectory: 'attempts[0].traits.context': Input should be a valid int",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "traits", "prefill", to=True),
        "traits.prefill is true, but",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "calls", 1, "seconds", to=7),
        "call 2 is not one of the repl",
    ),
    (
        TRAJECTORY,
        _set("attempts", 0, "calls", 0, "truncated", to=True),
        "call 1 is not one of the",
    ),
    (
        TRAJECTORY,
        _both(
            _set("attempts", 0, "test_outcome", to=True),
            _set("attempts", 0, "untested", to="a plugin is new"),
        ),
        "untested says why the test outcome is unknown, but it is known",
    ),
    (RUN, _drop("deciding"), "deciding is missing"),
    (RUN, _drop("versions"), "versions is missing"),
    (RUN, _drop("starts", 0, "ended"), "starts[0].ended is missing"),
    (TRAJECTORY, _drop("instance_id"), "instance_id is missing"),
    (RUN, _drop("config", "tries"), "config.tries is missing"),
    (
        RUN,
        _set("config", "map_tokens", to=1),
        "deciding.map_tokens is 2048, but should be 1",
    ),
    (RUN, _set("dataset", "sha256", to="0" * 64), "sha256 is not that of the rows"),
    (
        RUN,
        _set("deciding", "dataset_sha256", to="0" * 64),
        "deciding.dataset_sha256 is",
    ),
    (RUN, _set("selected", to=[SIX]), f"selected lacks {ONE}"),
    (RUN, _set("versions", "harness", to="0.0.1"), "deciding.harness is"),
    (
        RUN,
        _set("evaluation", "evaluators", to={"docker": 2}),
        "evaluation.evaluators.docker is 2",
    ),
    (FALLBACK, _set("status", to="empty"), 'outcomes: status is "empty"'),
    (PREDICTION, _set("model_patch", to=""), ": model_patch is"),
    (PREDICTION, _set("cost", to=3), "cost is 3, but should be 0.0"),
    (
        PREDICTION,
        _set("all_results", 0, "edit_outcome", to=None),
        "all_results[0].edit_outcome",
    ),
    (VERDICT, _set("patch_sha256", to="0"), "is about another patch"),
    (VERDICT, _set("status", to="unresolved"), "resolved is true, but should be false"),
    (VERDICT, _set("official", to=False), "official is false, but should be true"),
    (
        VERDICT,
        _set("evaluator", to="dokker"),
        "evaluator is 'dokker', which is unknown",
    ),
    (VERDICT, _set("created_at", to="soon"), "is not a verdict"),
    (VERDICT, _drop("tool"), 'tool is missing, but should be ""'),
    (
        "predictions/r/results.json",
        _set("resolved", to=[]),
        "resolved[0] is missing, but should",
    ),
    ("predictions/r/stats.json", _set("run", to="else"), 'run is "else"'),
]


@pytest.mark.parametrize(("name", "edit", "words"), PLANTS)
def test_a_planted_change_is_named(
    out: Path, cache: Path, name: str, edit: Edit, words: str
) -> None:
    path = out / name
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))
    code, said = verify(out, cache)
    assert code == 1
    assert any(line.startswith(f"{name}: ") and words in line for line in said), said
    assert all("\n" not in line for line in said)


TEXTS = [
    ("predictions/r/all_preds.jsonl", "model_patch", "model_match", "line 1: it is"),
    (f"predictions/r/{ONE}.md", "## Attempt 1", "## Attempt 9", "Attempt 9"),
    ("predictions/r/ledger.jsonl", '"attempt": 1', '"attempt": 8', "lacks 2 calls of "),
    ("predictions/r/ledger.jsonl", '"scripted-a"', '"scripted-b"', "line 1: model is"),
    (
        "predictions/r/ledger.jsonl",
        f"{ONE}:1:1",
        f"{ONE}:1:7",
        f"lacks the call {ONE}:1:1",
    ),
    (
        "predictions/r/ledger.jsonl",
        '{"call"',
        '{"all"',
        "line 1: 'call': Field required",
    ),
    (
        "predictions/r/ledger.jsonl",
        ":1:2",
        ":1:1",
        "line 2: it is the same call as line 1",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "words"), TEXTS)
def test_a_change_in_a_text_is_named(
    out: Path, cache: Path, name: str, old: str, new: str, words: str
) -> None:
    path = out / name
    assert old in path.read_text()
    path.write_text(
        path.read_text().replace(old, new, 1 if "required" in words else -1)
    )
    code, said = verify(out, cache)
    assert code == 1
    assert any(line.startswith(f"{name}: ") and words in line for line in said), said


def test_a_missing_transcript_and_a_strange_verdict_are_named(
    out: Path, cache: Path
) -> None:
    (out / f"predictions/r/{ONE}.md").unlink()
    shutil.copy(out / VERDICT, out / "predictions/r/verdicts/own__thing-1.json")
    _, said = verify(out, cache)
    assert f"predictions/r/{ONE}.md: is missing" in said
    assert (
        "predictions/r/verdicts/own__thing-1.json: belongs to no patch of this run"
        in said
    )


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (TRAJECTORY, "predictions/r/trajectories/own__thing-1.json"),
        (f"predictions/r/{ONE}.md", "predictions/r/own__thing-1.md"),
        (f"logs/r/{ONE}.report.json", "logs/r/own__thing-1.report.json"),
        (f"logs/r/{ONE}.log", "logs/r/own__thing-1.log"),
        (f"logs/r/{ONE}.log", f"logs/r/{ONE}.else.eval.log"),
        (f"logs/r/{ONE}.log", "logs/r/journals/own__thing-1.jsonl"),
        (f"logs/r/{ONE}.log", f"logs/r/attempts/{ONE}.0123456789abcdef.eval.log"),
    ],
)
def test_a_file_of_another_instance_or_patch_is_named(
    out: Path, cache: Path, name: str, other: str
) -> None:
    (out / other).parent.mkdir(exist_ok=True)
    shutil.copy(out / name, out / other)
    code, said = verify(out, cache)
    assert (code, said[0]) == (
        1,
        f"{other}: belongs to no instance or patch of this run",
    )


def test_files_of_selected_instances_without_a_prediction_belong_to_the_run(
    out: Path, cache: Path
) -> None:
    run = out / RUN
    described = json.loads(run.read_text())
    name = "demo__bank-1"
    run.write_text(
        json.dumps({**described, "selected": [*described["selected"], name]})
    )
    before = verify(out, cache)
    log = "retry--scripted-a--scripted-b.eval.log"
    for kind in ("log", "unfinished.json", log, "report.json"):
        (out / f"logs/r/{name}.{kind}").write_text('{"status": "budget"}')
    (out / "logs/r/redo.json").write_text("{}")
    (out / "logs/r/journals").mkdir(exist_ok=True)
    (out / f"logs/r/journals/{name}.1.jsonl").touch()
    assert [line for line in verify(out, cache)[1] if "belongs to no" in line] == []
    assert [line for line in before[1] if "belongs to no" in line] == []


def test_notes_of_users_and_leftovers_of_a_start_without_results_are_no_difference(
    out: Path, cache: Path
) -> None:
    run = out / RUN
    described = json.loads(run.read_text())
    before = verify(out, cache)
    (out / "predictions/r/NOTES.md").touch()
    (out / "logs/r/slurm.log").touch()
    assert verify(out, cache) == before
    (out / "logs/r/journals").mkdir(exist_ok=True)
    for name in (
        "demo__bank-1.log",
        "demo__bank-1.unfinished.json",
        "journals/demo__bank-1.jsonl",
    ):
        (out / "logs/r" / name).touch()
    named = [line for line in verify(out, cache)[1] if "belongs to no instance" in line]
    assert len(named) == 3
    run.write_text(json.dumps({**described, "starts": described["starts"] * 2}))
    assert verify(out, cache) == before


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
    out: Path, cache: Path, removed: dict[str, Any]
) -> None:
    for path in (out / RUN, *(out / "predictions/r/trajectories").glob("*.json")):
        content = json.loads(path.read_text())
        content["config"].update(removed)
        content["versions"]["harness"] = "0.12.0"
        if "deciding" in content:
            content["deciding"].update(removed, past_sha256="0" * 64, harness="0.12.0")
        path.write_text(json.dumps(content))
    assert verify(out, cache) == (0, [f"{out}/predictions/r: nothing differs"])


def test_a_reason_in_the_words_of_version_0_12_is_no_difference(
    out: Path, cache: Path
) -> None:
    written = [
        *(out / "predictions/r").rglob("*.json"),
        *(out / "predictions/r").rglob("*.md"),
    ]
    assert "no test could run (plausible, untested)" in (out / TRAJECTORY).read_text()
    for path in written:
        path.write_text(
            path.read_text().replace("no test could run", "no test could speak")
        )
    assert verify(out, cache) == (0, [f"{out}/predictions/r: nothing differs"])


def test_what_another_program_writes_of_its_run_needs_no_more(
    out: Path, cache: Path
) -> None:
    described = json.loads((out / RUN).read_text())
    kept = {
        key: described[key]
        for key in ("run", "model_name_or_path", "dataset", "selected")
    }
    (out / RUN).write_text(json.dumps({**kept, "config": {"agent": "theirs"}}))
    _, said = verify(out, cache)
    assert [line for line in said if line.startswith(RUN)] == []


def test_options_of_another_version_are_no_difference(out: Path, cache: Path) -> None:
    described = json.loads((out / RUN).read_text())
    for part in ("versions", "deciding"):
        described[part]["harness"] = "0.0.1"
    for part in ("config", "deciding"):
        described[part]["an_option_that_went"] = ["openai"]
        del described[part]["map_tokens"]
    (out / RUN).write_text(json.dumps(described))
    _, said = verify(out, cache)
    assert [line for line in said if line.startswith(RUN)] == []
    described["deciding"]["tries"] = 9
    (out / RUN).write_text(json.dumps(described))
    _, said = verify(out, cache)
    assert [line for line in said if line.startswith(RUN)] == [
        f"{RUN}: deciding.tries is 9, but should be 3"
    ]


def test_an_output_that_no_evaluation_wrote_is_named(out: Path, cache: Path) -> None:
    store = RunStore.of_folder(out / "predictions/r")
    log = next(
        eval_log(store, p) for p in read_predictions(store) if p.instance_id == ONE
    )
    log.touch()
    code, said = verify(out, cache)
    name = f"logs/r/{log.name}"
    assert (code, said[0]) == (
        1,
        f"{name}: is empty, but the output of an evaluation is not",
    )
    log.write_text(whole_output("PASSED a\n"))
    assert verify(out, cache)[0] == 0
    verdict = json.loads((out / VERDICT).read_text())
    changed = {**verdict, "evaluator": "local", "official": False}
    (out / VERDICT).write_text(json.dumps(changed))
    _, said = verify(out, cache)
    assert f"{name}: does not begin as the output of a local evaluation" in said


def test_a_report_that_says_otherwise_is_named(out: Path, cache: Path) -> None:
    (out / f"logs/r/{ONE}.report.json").write_text(
        json.dumps({ONE: {"resolved": False}})
    )
    code, said = verify(out, cache)
    assert (code, said[0]) == (
        1,
        f"{VERDICT}: says resolved, but the report in logs/ says the opposite",
    )


def test_a_verdict_whose_tests_are_not_seen_to_end_is_named(
    out: Path, cache: Path
) -> None:
    store = RunStore.of_folder(out / "predictions/r")
    log = next(
        eval_log(store, p) for p in read_predictions(store) if p.instance_id == ONE
    )
    log.write_text(whole_output("PASSED a\n"))
    assert verify(out, cache)[0] == 0
    log.write_text(log.read_text().partition(">>>>> End")[0])
    code, said = verify(out, cache)
    words = "is conclusive, but the test output in logs/ shows no end of the tests"
    assert (code, said[0]) == (1, f"{VERDICT}: {words}")


def test_another_version_in_a_trajectory_switches_no_check_off(
    out: Path, cache: Path
) -> None:
    path = out / TRAJECTORY
    value = json.loads(path.read_text())
    value["versions"]["harness"] = "0.0.1"
    path.write_text(json.dumps(value))
    prediction = out / PREDICTION
    prediction.write_text(
        json.dumps({**json.loads(prediction.read_text()), "model_patch": "gold"})
    )
    _, said = verify(out, cache)
    assert any('versions.harness is "0.0.1", but should be "' in line for line in said)
    assert any(
        line.startswith(f"{PREDICTION}: ") and "model_patch is" in line for line in said
    )
