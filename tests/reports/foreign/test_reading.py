"""Runs of other harnesses are read as their files say; what these do not hold is unknown."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from reports.data.rundata import InstanceData
from reports.foreign.files import arguments_of
from reports.foreign.importing import import_run
from reports.foreign.model import RunLayout, steps_by_lane, totals_of_call
from reports.foreign.recognise import is_foreign, layout_of, read_any
from runs.records import Attempt, Totals
from tests.support.foreign import (
    CRASHED,
    NAME,
    PATCH,
    RESOLVED,
    ROWS,
    WRONG,
    Talk,
    Turn,
    atif,
    mini,
    mini_text,
)

SAMPLES = Path(__file__).parents[2] / "data/foreign"
"""Made by mini-swe-agent 2.4.6 against a loopback model (``test_peers.py``)."""

TALK = Talk((Turn("I look.", "ls", "a.py"), Turn("I edit.", "sed -i s/1/2/ a.py", "")))
KNOWN: list[
    tuple[Callable[[Talk, Path], Path], RunLayout, Totals, str | None, bool | None]
] = [
    (
        mini,
        RunLayout.MINI,
        Totals(
            calls=2,
            prompt_tokens=20,
            cached_tokens=None,
            completion_tokens=4,
            cost=Decimal("0.5"),
        ),
        "Submitted",
        None,
    ),
    (
        mini_text,
        RunLayout.MINI,
        Totals(
            calls=2,
            prompt_tokens=20,
            cached_tokens=None,
            completion_tokens=4,
            cost=Decimal("0.5"),
        ),
        "Submitted",
        None,
    ),
    (
        atif,
        RunLayout.ATIF,
        Totals(
            calls=None,
            prompt_tokens=20,
            cached_tokens=None,
            completion_tokens=4,
            cost=Decimal("0.5"),
        ),
        None,
        None,
    ),
]


@pytest.mark.parametrize(("layout", "kind", "totals", "status", "resolved"), KNOWN)
def test_each_layout_is_recognised_and_read(
    layout: Callable[[Talk, Path], Path],
    kind: RunLayout,
    totals: Totals,
    status: str | None,
    resolved: bool | None,
    tmp_path: Path,
) -> None:
    path = layout(TALK, tmp_path / "run")
    assert layout_of(path) is kind
    (instance,) = read_any(path).instances
    (attempt,) = instance.attempts
    assert (instance.instance_id, instance.resolved_said) == (NAME, resolved)
    assert (attempt.sums, attempt.status) == (totals, status or "")
    assert attempt.patch_known is (layout is not atif)
    assert attempt.patch == ("" if layout is atif else PATCH)
    assert attempt.model == "m"
    opening, look, edit = steps_by_lane(attempt)[0]
    assert (opening.message.role, opening.message.content) == (
        "user",
        "Resolve the issue.",
    )
    assert (look.message.content, edit.message.content) == ("I look.", "I edit.")
    calls = [*look.message.tool_calls, *edit.message.tool_calls]
    assert [arguments_of(call.arguments)["command"] for call in calls] == [
        "ls",
        "sed -i s/1/2/ a.py",
    ]
    assert [answer.content for answer in look.answers] == ["a.py"]
    assert totals_of_call(look.call).cost == Decimal("0.25")


def _costs_to(value: Any, cost: bool) -> Any:
    if isinstance(value, list):
        return [_costs_to(part, cost) for part in value]
    if not isinstance(value, dict):
        return value
    plain = {
        key: part if "cost" not in key or isinstance(part, (dict, list, str)) else cost
        for key, part in value.items()
    }
    return {key: _costs_to(part, cost) for key, part in plain.items()}


@pytest.mark.parametrize("cost", [True, False])
@pytest.mark.parametrize("layout", [mini, mini_text, atif])
def test_true_and_false_are_not_costs(
    layout: Callable[[Talk, Path], Path], cost: bool, tmp_path: Path
) -> None:
    path = layout(TALK, tmp_path / "run")
    for file in (
        [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    ):
        lines = (
            file.read_text().splitlines()
            if file.suffix == ".jsonl"
            else [file.read_text()]
        )
        changed = [json.dumps(_costs_to(json.loads(line), cost)) for line in lines]
        file.write_text("\n".join(changed))
    (instance,) = read_any(path).instances
    (attempt,) = instance.attempts
    assert (instance.cost, attempt.sums.cost) == (None, None)
    assert {call.cost for call in attempt.calls or ()} == {None}


def sample(folder: str) -> dict[str, tuple[Attempt, InstanceData]]:
    run = read_any(SAMPLES / folder)
    return {i.instance_id: (i.attempts[0], i) for i in run.instances}


def test_a_real_run_of_mini_swe_agent() -> None:
    instances = sample("mini")
    attempt, instance = instances[RESOLVED]
    assert instance.winner is attempt
    assert attempt.patch == ROWS[RESOLVED]["patch"]
    assert instance.model_name_or_path == "gpt-4o"
    # The reply that it rejected was billed, too: 4 calls of 10 cents a 1,000 tokens or so.
    assert attempt.sums == Totals(
        calls=4,
        prompt_tokens=3900,
        cached_tokens=None,
        completion_tokens=170,
        cost=Decimal("0.01145"),
    )
    steps = steps_by_lane(attempt)[0]
    replies = [step for step in steps if step.message.role == "assistant"]
    texts = [step.message.content for step in replies]
    assert texts == ["I only talk.", *["I run it."] * 3]
    assert replies[1].answers[0].content.startswith("exit code 0\n")
    assert instances[WRONG][0].cost == Decimal("0.006")
    crashed, instance = instances[CRASHED]
    assert (crashed.patch, crashed.status) == ("", "BadRequestError")
    assert instance.winner is None


def preds(folder: Path, value: object, name: str = "preds.json") -> Path:
    folder.mkdir(exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text)
    return folder


ONE = {"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": PATCH}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("preds.json", {"a__b-1": ONE}),
        ("preds.json", [ONE]),
        ("all_preds.jsonl", json.dumps(ONE) + "\n\n"),
        (
            "all_preds.jsonl",
            json.dumps(ONE) + "\\n" + json.dumps({**ONE, "instance_id": "a__b-2"}),
        ),
    ],
)
def test_files_of_predictions_alone(name: str, value: object, tmp_path: Path) -> None:
    path = preds(tmp_path / "run", value, name)
    (path / "m.r1.json").write_text(
        json.dumps({"resolved_ids": ["a__b-1"], "unresolved_ids": []})
    )
    assert layout_of(path) is RunLayout.PREDICTIONS
    first, *_ = read_any(path).instances
    assert (first.model_name_or_path, first.patch) == ("m", PATCH)
    assert (first.resolved_said, first.cost) == (True, None)
    (attempt,) = first.attempts
    assert (attempt.messages, attempt.sums, attempt.model) == (None, Totals(), "")


def test_the_file_of_predictions_decides_and_adds_instances(tmp_path: Path) -> None:
    folder = mini(TALK, tmp_path / "run")
    other = {**ONE, "model_patch": ""}
    preds(
        folder,
        {NAME: {**ONE, "instance_id": NAME, "model_patch": "other"}, "a__b-1": other},
    )
    known, bare = read_any(folder).instances
    assert (known.patch, known.model_name_or_path) == ("other", "m")
    assert (bare.instance_id, bare.patch, bare.winner) == ("a__b-1", "", None)


def test_prices_that_were_not_known_are_not_zero(tmp_path: Path) -> None:
    folder = mini(TALK, tmp_path / "run")
    path = next(folder.rglob("*.traj.json"))
    data = json.loads(path.read_text())
    data["info"]["model_stats"]["instance_cost"] = 0.0
    data["info"]["config"]["model"]["cost_tracking"] = "ignore_errors"
    path.write_text(json.dumps(data))
    (instance,) = read_any(folder).instances
    assert instance.cost is None


def nested(depth: int) -> str:
    return '{"info": {}, "messages": ' + "[" * depth + "]" * depth + "}"


HOSTILE: list[tuple[str, str, Any]] = [
    ("x.traj.json", "", "is broken"),
    ("x.traj.json", "[1]", "not a JSON object"),
    ("x.traj.json", nested(5000), "levels deep"),
    ("x.traj.json", '{"a": ' + "9" * 9000 + "}", "a number is too long"),
    (
        "x.traj.json",
        '{"instance_id": "../../etc", "info": {}}',
        "cannot be an instance id",
    ),
    *(
        (
            "x.traj.json",
            json.dumps({"instance_id": name, "info": {}}),
            "cannot be an instance id",
        )
        for name in ("run", "stats", "results", "Run")
    ),
    ("x.traj.json", '{"info": {"submission": 7}}', "is not a text"),
    ("x.traj.json", '{"info": {"submission": "\\ud800"}}', "an unpaired surrogate"),
    ("x.traj.json", "{", "line 1"),
    ("preds.json", '{"a": 1}', "`model_patch`"),
    ("preds.json", "[]", "no instance"),
    (
        "all_preds.jsonl",
        '{"instance_id": "a", "model_patch": ""}\n' * 2,
        "two predictions of a",
    ),
    (
        "all_preds.jsonl",
        '{"instance_id": null, "model_patch": ""}\n',
        "cannot be an instance id",
    ),
    ("all_preds.jsonl", "\xff{", "line 1"),
    ("t.json", '{"schema_version": "ATIF-v1.8"}', "no `steps`"),
]


@pytest.mark.parametrize(("name", "text", "words"), HOSTILE)
def test_damaged_files_give_one_clear_line(
    name: str, text: str, words: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=words) as caught:
        import_run(folder, tmp_path / "out", lambda _: None)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_wrong_types_and_numbers_count_as_unknown(tmp_path: Path) -> None:
    extra = {"cost": float("nan"), "response": [1], "actions": "x"}
    said = {"role": "assistant", "content": {"a": 1}, "tool_calls": 5, "extra": extra}
    odd = [said, 7, {"role": ["x"], "content": [None, {"text": 5}]}, {"role": "tool"}]
    stats = {"instance_cost": -1, "api_calls": 1e300}
    data = {
        "info": {"model_stats": stats, "config": 3, "exit_status": {}},
        "messages": odd,
    }
    (tmp_path / "a.traj.json").write_text(json.dumps(data))
    (instance,) = read_any(tmp_path).instances
    assert instance.attempts[0].sums == Totals()
    assert instance.attempts[0].patch_known is False
    import_run(tmp_path, tmp_path / "out", lambda _: None)


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_links_and_pipes_are_left_out(tmp_path: Path) -> None:
    folder = mini(TALK, tmp_path / "run")
    (tmp_path / "secret.traj.json").write_text("{")
    (folder / "b.traj.json").symlink_to(tmp_path / "secret.traj.json")
    os.mkfifo(folder / "c.traj.json")
    assert [i.instance_id for i in read_any(folder).instances] == [NAME]


def test_what_is_no_run(tmp_path: Path) -> None:
    assert not is_foreign(tmp_path)
    assert not is_foreign(tmp_path / "missing")
    (tmp_path / "x.json").write_text("{}")
    for path in (tmp_path, tmp_path / "x.json"):
        with pytest.raises(UserError, match="trajectories of mini-swe-agent"):
            is_foreign(path)


OTHERS = {
    "log.eval": b"PK",
    "log.json": b'{"version": 2, "status": "success", "eval": {}, "samples": []}',
    "output.jsonl": b'{"instance_id": "a__b-1", "test_result": {"git_patch": ""}}\n',
    "a__b-1.traj": b'{"trajectory": [], "info": {}}',
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_layout_that_is_not_read_gives_one_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "run" / name
    file.parent.mkdir()
    file.write_bytes(OTHERS[name])
    for path in (file, file.parent):
        with pytest.raises(UserError, match="of ATIF") as caught:
            is_foreign(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_predictions_are_read_beside_trajectories_that_are_not(tmp_path: Path) -> None:
    folder = preds(tmp_path / "run", {"a__b-1": ONE})
    (folder / "a__b-1.traj").write_text('{"trajectory": [], "info": {}}')
    assert layout_of(folder) is RunLayout.PREDICTIONS


@pytest.mark.parametrize("embedded", [[], [{"steps": []}], [3]])
def test_damaged_values_of_our_exports_count_as_unknown(
    embedded: list[Any], tmp_path: Path
) -> None:
    known = {"try": "x", "edit_format": 3, "edit_outcome": 5, "added_files": "x"}
    attempt = {"attempt": -1, "model": 5, "totals": [], "steps": "x", "known": known}
    kept = {"instance_id": NAME, "winner": True, "status": [], **attempt}
    for one in embedded:
        if isinstance(one, dict):
            one["extra"] = {"swe_retry_harness": kept}
    data = {
        "schema_version": "ATIF-v1.8",
        "steps": [],
        "extra": {"swe_retry_harness": kept},
        "subagent_trajectories": embedded,
    }
    (tmp_path / "x.json").write_text(json.dumps(data))
    (instance,) = read_any(tmp_path).instances
    (one,) = instance.attempts
    assert (one.attempt, one.try_, one.model, one.messages) == (1, 1, "", None)
    assert (instance.winner, one.edit_outcome, one.edit_format) == (None, None, None)
    import_run(tmp_path, tmp_path / "out", lambda _: None)
