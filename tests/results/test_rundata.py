"""Reading a run from its files: both layouts, missing values, and folders that are no run."""

from __future__ import annotations

import json
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.record.layouts import number_attempts
from swe_retry.record.store import RunStore
from swe_retry.results.read import read_predictions, read_run
from swe_retry.results.rundata import RunData
from tests.support import write_files
from tests.support.rundata import GPT, LABEL, OPUS, PATCH, old_prediction, write_run


def read(folder: Path, **options: Any) -> RunData:
    return read_run(RunStore.of_folder(folder), **options)


def test_the_older_layout(tmp_path: Path) -> None:
    files = [
        old_prediction("a__b-1", 4, resolved=True),
        old_prediction(
            "a__b-2",
            2,
            resolved=False,
            good=False,
            patch=None,
        ),
    ]
    run = read(write_run(tmp_path / "r", files))
    first, second = run.instances
    assert run.models == (GPT, OPUS)
    turns = [(a.attempt, a.try_, a.model) for a in first.attempts]
    assert turns == [
        (1, 1, GPT),
        (2, 1, OPUS),
        (3, 2, GPT),
        (4, 2, OPUS),
    ]
    statuses = [attempt.status for attempt in first.attempts]
    assert statuses == ["tests_failed", "tests_failed", "tests_failed", "plausible"]
    assert first.winner is first.attempts[3]
    assert first.attempt == 4
    assert first.model == OPUS
    assert first.resolved is True
    assert first.cost == Decimal(2)
    assert first.repo == "a/b"
    assert first.year is None
    assert first.gold_files == ("a.py",)
    assert second.attempt == 2
    assert second.winner is None
    assert second.resolved is False
    assert second.chosen is not None
    assert second.chosen.status == "empty"
    assert run.selected == ("a__b-1", "a__b-2")


def test_attempts_without_a_model_are_whose_turn_it_was(tmp_path: Path) -> None:
    content = old_prediction("a__b-1", 3, resolved=True)
    for result in (content, *content["all_results"]):
        del result["model"]
    run = read(write_run(tmp_path / LABEL, [content]))
    instance = run.instances[0]
    numbers = [attempt.attempt for attempt in instance.attempts]
    assert numbers == [1, 2, 3]
    makers = [attempt.model.partition("-")[0] for attempt in instance.attempts]
    assert makers == ["gpt", "openrouter", "gpt"]
    assert instance.attempt == 3
    assert instance.model == GPT


@pytest.mark.parametrize(
    ("label", "folder", "seen", "order"),
    [
        (LABEL, "r", [OPUS, GPT], (GPT, OPUS)),
        ("retry--gpt-4o--claude-3-opus", "r", [OPUS], (GPT, OPUS)),
        ("gpt-4o--claude-3-opus", "r", [OPUS, GPT], (GPT, OPUS)),
        ("me", LABEL, [], (GPT, "openrouter-anthropic-claude-3-opus")),
        ("me", "r", [GPT, OPUS], (GPT, OPUS)),
        ("x--y--z", "r", [GPT, OPUS], (GPT, OPUS)),
        ("me", "r", [], ()),
    ],
)
def test_the_order_of_turns(
    tmp_path: Path,
    label: str,
    folder: str,
    seen: list[str],
    order: tuple[str, ...],
) -> None:
    content = {
        "instance_id": "a__b-1",
        "model_name_or_path": label,
        "model_patch": "",
        "all_results": [{"model": model} for model in seen],
    }
    run = write_run(tmp_path / folder, [content])
    assert read(run).models == order
    models = [{"name": "b"}, {"name": "a"}]
    configured = {"config": {"models": models}}
    (run / "run.json").write_text(json.dumps(configured))
    assert read(run).models == ("b", "a")


def test_the_older_layouts_attempts_follow_from_tries_and_models(
    tmp_path: Path,
) -> None:
    turns = [
        (GPT, 1),
        (OPUS, 1),
        (GPT, 2),
        (OPUS, 2),
    ]
    results = [{"model": model, "try": try_} for model, try_ in turns]
    old = {
        "instance_id": "a__b-1",
        "model": OPUS,
        "try": 2,
        "model_patch": "",
        "all_results": results,
    }
    folder = write_run(tmp_path / "r", [old])
    (instance,) = read(folder).instances
    numbers = [attempt.attempt for attempt in instance.attempts]
    assert numbers == [1, 2, 3, 4]
    assert instance.attempt == 4
    attempts = number_attempts({"attempt": 7, "model": "x"}, ("x",))
    assert attempts[0]["attempt"] == 7


def new_run(folder: Path) -> Path:
    """Write a run of one instance with its trajectory and ledger."""
    result = {
        "instance_id": "own__thing-1",
        "model_name_or_path": "me",
        "model_patch": PATCH,
        "model": "m",
        "cost": 0.25,
        "try": 1,
        "attempt": 1,
        "status": "plausible_untested",
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": None,
        "added_files": ["a.py"],
        "edited_files": ["a.py"],
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 4}
    opening = (
        "Here is a part:\n\nsrc/a.py:\n def f\n   x:\nsrc/b.py:\n\n<issue>\n"
        "not/a/map.py:\n</issue>"
    )
    messages = [
        {"role": "system", "content": ""},
        {"role": "user", "content": opening},
    ]
    call = {
        "content": "",
        "usage": usage,
        "cost": 0.25,
        "seconds": 3,
    }
    attempt = {
        "attempt": 1,
        "model": "m",
        "edit_format": "diff",
        "reflections": 2,
        "seconds": 7.5,
        "messages": messages,
        "calls": [{**call, "model": "m-2024"}],
        "recorded": {"model_patch": PATCH},
    }
    line = {
        "call": "c",
        "kind": "answered",
        "instance_id": "own__thing-1",
        "attempt": 1,
        "model": "m",
        "cost": "0.30",
        "usage": None,
    }
    described = {
        "selected": ["own__thing-1", "own__thing-2"],
        "dataset": {"name": "lite"},
    }
    choice = {
        "status": "plausible",
        "reason": "why",
        "all_results": [result],
    }
    write_run(folder, [{**result, **choice}])
    files = {
        "trajectories/own__thing-1.json": json.dumps({"attempts": [attempt]}),
        "ledger.jsonl": json.dumps(line) + "\n",
        "run.json": json.dumps(described),
    }
    return write_files(folder, files)


def test_a_run_of_ours_with_its_trajectory_and_ledger(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "predictions" / "r")
    unfinished = '{"status": "infra_error", "reason": "x"}'
    write_files(tmp_path / "logs/r", {"own__thing-2.unfinished.json": unfinished})
    row = {
        "instance_id": "own__thing-1",
        "repo": "Own/Thing",
        "created_at": "2019-03-01T00:00:00Z",
    }
    row_with_gold = {**row, "patch": PATCH}
    run = read(folder, rows=[row_with_gold])
    (instance,) = run.instances
    (attempt,) = instance.attempts
    assert attempt.edit_format == "diff"
    assert attempt.reflections == 2
    assert attempt.seconds == 7.5
    assert attempt.status == "plausible_untested"
    assert attempt.plausible is True
    assert attempt.calls is not None
    call = attempt.calls[0]
    assert call.usage is not None
    assert call.usage.cached_tokens == 4
    assert call.model == "m-2024"
    assert instance.cost == Decimal("0.30")
    assert run.cost == Decimal("0.30")
    assert instance.repo == "Own/Thing"
    assert instance.year == 2019
    assert instance.gold_files == ("a.py",)
    assert instance.map_files is not None
    assert {"src/a.py", "src/b.py"} <= {*instance.map_files}
    assert "not/a/map.py" not in instance.map_files
    assert run.selected == ("own__thing-1", "own__thing-2")
    (ended,) = run.unfinished
    assert ended.instance_id == "own__thing-2"
    assert ended.status == "infra_error"
    assert instance.resolved is None
    assert instance.verdict is None


def test_values_of_another_kind_are_as_good_as_missing(tmp_path: Path) -> None:
    odd = {
        "instance_id": "a__b-1",
        "model_patch": PATCH,
        "model": 5,
        "try": "x",
        "cost": float("nan"),
        "all_results": [
            {
                "edit_outcome": "yes",
                "cost": True,
                "added_files": 3,
                "calls": 1,
                "attempt": 9**400,
            },
            {
                "attempt": 2,
                "cost": "",
                "model_patch": 0,
                "model_name_or_path": [],
            },
        ],
    }
    folder = write_run(tmp_path / "r", [odd])
    trajectory = '{"attempts": [{"attempt": 1, "model": "m", "calls": 3}]}'
    write_files(folder, {"trajectories/a__b-1.json": trajectory})
    with pytest.raises(UserError, match=r"b-1\.json is not a trajectory: .*calls"):
        read(folder)
    (folder / "trajectories/a__b-1.json").unlink()
    (instance,) = read(folder).instances
    attempt, empty = sorted(instance.attempts, key=attrgetter("attempt"))
    assert empty.cost is None
    assert empty.patch == ""
    assert instance.cost is None
    assert instance.model == ""
    assert instance.map_files is None
    assert attempt.edit_outcome is None
    assert attempt.cost is None
    assert attempt.added_files == ()
    assert attempt.calls is None


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_trajectory_is_named(tmp_path: Path, content: str) -> None:
    folder = new_run(tmp_path / "r")
    (folder / "trajectories/own__thing-1.json").write_text(content)
    with pytest.raises(UserError, match=r"trajectories/own__thing-1\.json"):
        read(folder)


def test_a_trajectory_is_read_by_itself_where_there_is_one(tmp_path: Path) -> None:
    store = RunStore.of_folder(new_run(tmp_path / "r"))
    trajectory = store.read_trajectory("own__thing-1")
    assert trajectory
    assert len(trajectory.attempts) == 1
    assert store.read_trajectory("own__thing-2") is None


def test_predictions_of_several_models_are_refused_with_a_file_of_each(
    tmp_path: Path,
) -> None:
    names = ("a__b-1", "a__b-2", "a__b-3")
    files = [old_prediction(name, 1, resolved=True) for name in names]
    files[1]["model_name_or_path"] = "other"
    store = RunStore.of_folder(write_run(tmp_path / "r", files))
    with pytest.raises(UserError, match=r" other \(a__b-2\.json\)"):
        read_predictions(store)
