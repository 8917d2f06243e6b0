"""``report.py THEIRS`` imports runs of others as their files say; what these lack is unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.conftest import Report
from tests.support import read_json, write_files, write_json
from tests.support.evaluated import change_json
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

SAMPLES = Path(__file__).parents[1] / "data/foreign"
"""Made by mini-swe-agent 2.4.6 against a loopback model (``test_peers.py``)."""

TALK = Talk(
    (
        Turn("I look.", "ls", "a.py"),
        Turn("I edit.", "sed -i s/1/2/ a.py", ""),
    )
)
Write = Callable[[Talk, Path], Path]
LAYOUTS: dict[Write, tuple[str, int | None, str]] = {
    mini: ("mini-swe-agent", 2, "Submitted"),
    mini_text: ("mini-swe-agent", 2, "Submitted"),
    atif: ("ATIF", None, "unknown"),
}
"""How each layout is named, and the calls and the status that its run has."""


def totals(
    prompt: int | None = None,
    completion: int | None = None,
    calls: int | None = None,
) -> dict[str, int | None]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_tokens": None,
        "calls": calls,
    }


def steps_of(converted: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of the only attempt of an instance that was converted to ATIF."""
    (attempt,) = converted[f"{NAME}.json"]["subagent_trajectories"]
    steps: list[dict[str, Any]] = attempt["steps"]
    return steps


@pytest.mark.parametrize("write", LAYOUTS)
def test_each_layout_is_recognised_and_read(
    write: Write, report: Report, tmp_path: Path
) -> None:
    path = write(TALK, tmp_path / "run")
    layout, calls, status = LAYOUTS[write]
    prediction, trajectory = report.record(path)
    described = read_json(report.out / "predictions/run/run.json")
    assert described["imported"]["layout"] == layout
    (attempt,) = trajectory["attempts"]
    assert prediction["instance_id"] == NAME
    assert "resolved" not in prediction
    assert prediction["model"] == attempt["model"] == "m"
    assert attempt["cost"] == 0.5
    assert attempt["status"] == status
    assert attempt["totals"] == totals(20, 4, calls)
    # ATIF has no place for a patch.
    assert attempt.get("patch_known", True) is (write is not atif)
    assert prediction["model_patch"] == ("" if write is atif else PATCH)
    opening, look, seen, edit, _ = attempt["messages"]
    assert opening == {"role": "user", "content": "Resolve the issue."}
    assert look["content"] == "I look."
    assert edit["content"] == "I edit."
    commands = []
    for message in (look, edit):
        (call,) = message["tool_calls"]
        arguments = json.loads(call["arguments"])
        commands.append(arguments["command"])
    assert commands == ["ls", "sed -i s/1/2/ a.py"]
    assert seen["role"] == "tool"
    assert seen["content"] == "a.py"


@pytest.mark.parametrize("write", LAYOUTS)
def test_calls_keep_their_costs_and_answers(
    write: Write, report: Report, tmp_path: Path
) -> None:
    path = write(TALK, tmp_path / "run")
    converted = report.convert(path, "atif", tmp_path / "atif")
    _, look, edit = steps_of(converted)
    for step in (look, edit):
        assert step["metrics"]["cost_usd"] == 0.25
    (call,) = look["tool_calls"]
    assert call["arguments"] == {"command": "ls"}
    (result,) = look["observation"]["results"]
    assert result["content"] == "a.py"


def with_costs(value: Any, cost: bool) -> Any:
    """Return a JSON value with ``cost`` for each number whose name says that it is a cost."""
    if isinstance(value, list):
        return [with_costs(part, cost) for part in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for key, part in value.items():
        if "cost" in key and not isinstance(part, (dict, list, str)):
            part = cost
        changed[key] = with_costs(part, cost)
    return changed


@pytest.mark.parametrize("cost", [True, False])
@pytest.mark.parametrize("write", LAYOUTS)
def test_true_and_false_are_not_costs(
    write: Write, cost: bool, report: Report, tmp_path: Path
) -> None:
    path = write(TALK, tmp_path / "run")
    (file,) = path.rglob("*.json")
    changed = with_costs(read_json(file), cost)
    write_json(file, changed)
    prediction, trajectory = report.record(path)
    assert prediction["cost"] is None
    assert trajectory["attempts"][0]["cost"] is None
    converted = report.convert(path, "atif", tmp_path / "atif")
    for step in steps_of(converted):
        assert "cost_usd" not in step.get("metrics", {})


def test_a_real_run_of_mini_swe_agent(report: Report) -> None:
    records = report.records(SAMPLES / "mini")
    prediction, trajectory = records[RESOLVED]
    (attempt,) = trajectory["attempts"]
    assert trajectory["winner"] == 1
    assert prediction["model_patch"] == ROWS[RESOLVED]["patch"]
    assert prediction["model_name_or_path"] == "gpt-4o"
    # The reply that it rejected was billed, too: 4 calls of 10 cents a 1,000 tokens or so.
    assert prediction["cost"] == attempt["cost"] == 0.01145
    assert attempt["totals"] == totals(3900, 170, 4)
    messages = attempt["messages"]
    replies = [message for message in messages if message["role"] == "assistant"]
    texts = [message["content"] for message in replies]
    assert texts == ["I only talk.", *["I run it."] * 3]
    answer = messages[messages.index(replies[1]) + 1]
    assert answer["role"] == "tool"
    assert answer["content"].startswith("exit code 0\n")
    assert records[WRONG][0]["cost"] == 0.006
    prediction, trajectory = records[CRASHED]
    assert prediction["model_patch"] == ""
    assert prediction["status"] == "BadRequestError"
    assert trajectory["winner"] is None


def preds(
    folder: Path,
    value: object,
    name: str = "preds.json",
) -> Path:
    """Write a file of predictions, from a value of JSON or its text."""
    if not isinstance(value, str):
        value = json.dumps(value)
    return write_files(folder, {name: value})


ONE = {"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": PATCH}
PREDICTION = {**ONE, "instance_id": NAME}
LINE = json.dumps(ONE)
RESOLVES = {"resolved_ids": ["a__b-1"]}
RESOLVES_NOT = {"resolved_ids": [], "unresolved_ids": ["a__b-1"]}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("preds.json", {"a__b-1": ONE}),
        ("preds.json", [ONE]),
        ("preds.json", ONE),
        ("all_preds.jsonl", f"{LINE}\n\n"),
        ("all_preds.jsonl", f"{LINE}\\n\n"),
        ("all_preds.jsonl", f"{LINE}\\n{LINE.replace('b-1', 'b-2')}"),
    ],
)
def test_files_of_predictions_alone(
    name: str, value: object, report: Report, tmp_path: Path
) -> None:
    path = preds(tmp_path / "run", value, name)
    preds(path, {**RESOLVES, "unresolved_ids": []}, "m.r1.json")
    prediction, trajectory = report.records(path)["a__b-1"]
    described = read_json(report.out / "predictions/run/run.json")
    assert described["imported"]["layout"] == "predictions"
    assert prediction["model_name_or_path"] == "m"
    assert prediction["model_patch"] == PATCH
    assert prediction["resolved"] is True
    assert prediction["cost"] is None
    assert trajectory is None
    assert prediction["model"] == ""
    # The file alone is a run, too, without the verdicts beside it.
    records = report.records(path / name)
    prediction, _ = records["a__b-1"]
    assert "resolved" not in prediction


@pytest.mark.parametrize(
    ("results", "resolved"),
    [
        ([RESOLVES], True),
        ([RESOLVES_NOT], False),
        ([RESOLVES, RESOLVES_NOT], None),
        (
            [
                {"resolved_ids": "a__b-1"},
                {"unresolved_ids": ["a__b-1"]},
                [1],
            ],
            None,
        ),
    ],
)
@pytest.mark.parametrize("beside", ["mini", "predictions"])
def test_result_files_give_verdicts_unless_they_disagree(
    beside: str,
    results: list[Any],
    resolved: bool | None,
    report: Report,
    tmp_path: Path,
) -> None:
    path = tmp_path / "run"
    if beside == "mini":
        mini(Talk(TALK.turns, name="a__b-1"), path)
    preds(path, [ONE])
    for number, value in enumerate(results):
        preds(path, value, f"m.r{number}.json")
    preds(path / "below", RESOLVES_NOT, "x.json")
    prediction, _ = report.record(path)
    assert prediction.get("resolved") is resolved


def test_the_file_of_predictions_decides_and_adds_instances(
    report: Report, tmp_path: Path
) -> None:
    folder = mini(TALK, tmp_path / "run")
    other = {**ONE, "model_patch": ""}
    predicted = {**ONE, "instance_id": NAME, "model_patch": "other"}
    preds(folder, {NAME: predicted, "a__b-1": other})
    records = report.records(folder)
    prediction, trajectory = records[NAME]
    assert prediction["model_patch"] == "other"
    assert prediction["model_name_or_path"] == "m"
    assert trajectory["attempts"][0]["model_patch"] == "other"
    prediction, trajectory = records["a__b-1"]
    assert prediction["model_patch"] == ""
    assert trajectory is None


@pytest.mark.parametrize("predicted", ["", "of the file"])
def test_of_several_attempts_the_file_of_predictions_changes_the_last(
    predicted: str, report: Report, tmp_path: Path
) -> None:
    """Without a patch there it does not say which attempt is meant, and changes none."""
    folder = mini(TALK, tmp_path / "run") / NAME
    path = folder / f"{NAME}.traj.json"
    (folder / f"{NAME}.attempt-2.traj.json").write_bytes(path.read_bytes())
    preds(folder.parent, {NAME: {"model_patch": predicted}})
    prediction, _ = report.record(folder.parent)
    assert prediction["model_patch"] == predicted
    patches = [attempt["model_patch"] for attempt in prediction["all_results"]]
    assert patches == [PATCH, predicted or PATCH]


def test_prices_that_were_not_known_are_not_zero(
    report: Report, tmp_path: Path
) -> None:
    folder = mini(TALK, tmp_path / "run")
    (path,) = folder.rglob("*.traj.json")

    def forget_prices(data: Any) -> None:
        data["info"]["model_stats"]["instance_cost"] = 0.0
        data["info"]["config"]["model"]["cost_tracking"] = "ignore_errors"

    change_json(path, forget_prices)
    prediction, _ = report.record(folder)
    assert prediction["cost"] is None


def test_messages_of_every_form_of_mini_swe_agent(
    report: Report, tmp_path: Path
) -> None:
    """Rejected replies, OpenAI's responses, and replies whose commands stand in their text."""
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    choice = {"message": {"content": "I talk."}}
    rejected = {
        "cost": 0.1,
        "response": {"usage": usage, "choices": [choice]},
    }
    response = {
        "object": "response",
        "output": [
            {"type": "reasoning"},
            {"type": "message", "content": [{"text": "Hello"}]},
            {
                "type": "function_call",
                "name": "bash",
                "arguments": '{"command": "ls"}',
                "call_id": "c",
            },
        ],
        "usage": {
            "input_tokens": 11,
            "output_tokens": 4,
            "input_tokens_details": {"cached_tokens": 5},
        },
        "extra": {"cost": 0.2},
    }
    messages = [
        {"role": "user", "content": "Call a tool.", "extra": rejected},
        response,
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"text": "a.py"}],
        },
        {
            "role": "assistant",
            "content": "pwd",
            "extra": {"actions": ["pwd", 5]},
        },
        {
            "role": "user",
            "content": "/",
            "extra": {"returncode": 0},
        },
        {
            "role": "exit",
            "content": "Submitted",
            "extra": {"exit_status": "Submitted"},
        },
        {"role": "exit", "content": "a remark"},
    ]
    data = {"info": {}, "messages": messages, "instance_id": NAME}
    path = tmp_path / "x.traj.json"
    path.write_text(json.dumps(data))
    _, trajectory = report.record(path)
    (attempt,) = trajectory["attempts"]
    conversation = []
    commands = []
    for message in attempt["messages"]:
        conversation.append((message["role"], message["content"]))
        for call in message.get("tool_calls", ()):
            commands.append(json.loads(call["arguments"]))
    assert conversation == [
        ("assistant", "I talk."),
        ("user", "Call a tool."),
        ("assistant", "Hello"),
        ("tool", "a.py"),
        ("assistant", "pwd"),
        ("tool", "/"),
        ("exit", "a remark"),
    ]
    assert commands == [
        {"command": "ls"},
        {"command": "pwd"},
        {"command": 5},
    ]
    assert attempt["totals"] == totals()
    converted = report.convert(path, "atif", tmp_path / "atif")
    metrics = [step.get("metrics") for step in steps_of(converted)]
    rejection, answer = filter(None, metrics)
    assert rejection == {**usage, "cost_usd": 0.1}
    tokens = {"prompt_tokens": 11, "completion_tokens": 4, "cached_tokens": 5}
    assert answer == {**tokens, "cost_usd": 0.2}


def write_result(
    folder: Path,
    name: str,
    reward: object,
) -> None:
    result = {
        "task_name": name,
        "verifier_result": {"rewards": {"reward": reward}},
    }
    write_json(folder / "trial/result.json", result)


@pytest.mark.parametrize(
    ("reward", "resolved"),
    [
        (1.0, True),
        (0.5, False),
        (None, None),
        ("1", None),
    ],
)
def test_the_result_of_a_trial_of_harbor(
    reward: object,
    resolved: bool | None,
    report: Report,
    tmp_path: Path,
) -> None:
    folder = atif(TALK, tmp_path / "run")
    change_json(
        folder / "trial/agent/trajectory.json", lambda data: data.pop("session_id")
    )
    write_result(folder, f"x/{NAME}", reward)
    records = report.records(folder)
    assert list(records) == [NAME]
    prediction, _ = records[NAME]
    assert prediction.get("resolved") is resolved


def test_steps_of_subagents_follow_those_of_their_trajectory(
    report: Report, tmp_path: Path
) -> None:
    folder = atif(TALK, tmp_path / "run")
    file = folder / "trial/agent/trajectory.json"
    data = read_json(file)
    below = {"steps": [{"source": "agent", "message": "I am below."}]}
    data["subagent_trajectories"] = [below]
    file.write_text(json.dumps(data))
    _, trajectory = report.record(folder)
    (attempt,) = trajectory["attempts"]
    texts = [message["content"] for message in attempt["messages"]]
    assert texts[:2] == ["Resolve the issue.", "I look."]
    assert texts[2:] == ["a.py", "I edit.", "", "I am below."]
    for _ in range(25):
        data = {**data, "subagent_trajectories": [data]}
    file.write_text(json.dumps(data))
    assert "has no `steps`" in report.refusal(folder)


OTHERS = {
    "log.eval": b"PK",
    "log.json": b'{"version": 2, "status": "success", "eval": {}, "samples": []}',
    "output.jsonl": b'{"instance_id": "a__b-1", "test_result": {"git_patch": ""}}\n',
    "a__b-1.traj": b'{"trajectory": [], "info": {}}',
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_layout_that_is_not_read_gives_one_line(
    name: str, report: Report, tmp_path: Path
) -> None:
    files = {name: OTHERS[name]}
    folder = write_files(tmp_path / "run", files)
    for path in (folder / name, folder):
        assert "of ATIF" in report.refusal(path)


def test_predictions_are_read_beside_trajectories_that_are_not(
    report: Report, tmp_path: Path
) -> None:
    folder = preds(tmp_path / "run", {"a__b-1": ONE})
    write_files(folder, {"a__b-1.traj": OTHERS["a__b-1.traj"]})
    prediction, _ = report.record(folder)
    assert prediction["model_patch"] == PATCH
