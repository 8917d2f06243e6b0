"""``report.py THEIRS`` imports runs of others as their files say; what these lack is unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reports.foreign.conftest import Report
from tests.support import read_json
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
LAYOUTS: dict[Callable[[Talk, Path], Path], tuple[str, int | None, str]] = {
    mini: ("mini-swe-agent", 2, "Submitted"),
    mini_text: ("mini-swe-agent", 2, "Submitted"),
    atif: ("ATIF", None, "unknown"),
}
"""How each layout is named, and the calls and the status that its run has."""
NO_TOTALS = {
    "prompt_tokens": None,
    "completion_tokens": None,
    "cached_tokens": None,
    "calls": None,
}


def steps_of(converted: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of the only attempt of an instance that was converted to ATIF."""
    (attempt,) = converted[f"{NAME}.json"]["subagent_trajectories"]
    steps: list[dict[str, Any]] = attempt["steps"]
    return steps


@pytest.mark.parametrize("write", LAYOUTS)
def test_each_layout_is_recognised_and_read(
    write: Callable[[Talk, Path], Path],
    report: Report,
    tmp_path: Path,
) -> None:
    path = write(TALK, tmp_path / "run")
    layout, calls, status = LAYOUTS[write]
    ((prediction, trajectory),) = report.records(path).values()
    described = read_json(report.out / "predictions/run/run.json")
    assert described["imported"]["layout"] == layout
    (attempt,) = trajectory["attempts"]
    assert prediction["instance_id"] == NAME
    assert "resolved" not in prediction
    assert prediction["model"] == attempt["model"] == "m"
    assert (attempt["cost"], attempt["status"]) == (0.5, status)
    assert attempt["totals"] == {
        "prompt_tokens": 20,
        "completion_tokens": 4,
        "cached_tokens": None,
        "calls": calls,
    }
    # ATIF has no place for a patch.
    assert attempt.get("patch_known", True) is (write is not atif)
    assert prediction["model_patch"] == ("" if write is atif else PATCH)
    opening, look, seen, edit, _ = attempt["messages"]
    assert opening == {"role": "user", "content": "Resolve the issue."}
    assert (look["content"], edit["content"]) == ("I look.", "I edit.")
    commands = []
    for message in (look, edit):
        (call,) = message["tool_calls"]
        commands.append(json.loads(call["arguments"])["command"])
    assert commands == ["ls", "sed -i s/1/2/ a.py"]
    assert (seen["role"], seen["content"]) == ("tool", "a.py")


@pytest.mark.parametrize("write", LAYOUTS)
def test_calls_keep_their_costs_and_answers(
    write: Callable[[Talk, Path], Path],
    report: Report,
    tmp_path: Path,
) -> None:
    path = write(TALK, tmp_path / "run")
    _, look, edit = steps_of(report.converted(path, "atif", tmp_path / "atif"))
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
    write: Callable[[Talk, Path], Path],
    cost: bool,
    report: Report,
    tmp_path: Path,
) -> None:
    path = write(TALK, tmp_path / "run")
    (file,) = path.rglob("*.json")
    file.write_text(json.dumps(with_costs(read_json(file), cost)))
    ((prediction, trajectory),) = report.records(path).values()
    assert prediction["cost"] is None
    assert trajectory["attempts"][0]["cost"] is None
    for step in steps_of(report.converted(path, "atif", tmp_path / "atif")):
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
    assert attempt["totals"] == {
        "prompt_tokens": 3900,
        "completion_tokens": 170,
        "cached_tokens": None,
        "calls": 4,
    }
    messages = attempt["messages"]
    replies = [message for message in messages if message["role"] == "assistant"]
    texts = [message["content"] for message in replies]
    assert texts == ["I only talk.", *["I run it."] * 3]
    answer = messages[messages.index(replies[1]) + 1]
    assert answer["role"] == "tool"
    assert answer["content"].startswith("exit code 0\n")
    assert records[WRONG][0]["cost"] == 0.006
    prediction, trajectory = records[CRASHED]
    assert (prediction["model_patch"], prediction["status"]) == ("", "BadRequestError")
    assert trajectory["winner"] is None


def preds(
    folder: Path,
    value: object,
    name: str = "preds.json",
) -> Path:
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
        ("preds.json", ONE),
        ("all_preds.jsonl", json.dumps(ONE) + "\n\n"),
        ("all_preds.jsonl", json.dumps(ONE) + "\\n\n"),
        (
            "all_preds.jsonl",
            json.dumps(ONE) + "\\n" + json.dumps({**ONE, "instance_id": "a__b-2"}),
        ),
    ],
)
def test_files_of_predictions_alone(
    name: str, value: object, report: Report, tmp_path: Path
) -> None:
    path = preds(tmp_path / "run", value, name)
    result = {"resolved_ids": ["a__b-1"], "unresolved_ids": []}
    (path / "m.r1.json").write_text(json.dumps(result))
    prediction, trajectory = report.records(path)["a__b-1"]
    described = read_json(report.out / "predictions/run/run.json")
    assert described["imported"]["layout"] == "predictions"
    assert (prediction["model_name_or_path"], prediction["model_patch"]) == ("m", PATCH)
    assert (prediction["resolved"], prediction["cost"]) == (True, None)
    assert (trajectory, prediction["model"]) == (None, "")
    # The file alone is a run, too, without the verdicts beside it.
    ((prediction, _), *_) = report.records(path / name).values()
    assert "resolved" not in prediction


@pytest.mark.parametrize(
    ("results", "resolved"),
    [
        ([{"resolved_ids": ["a__b-1"]}], True),
        ([{"resolved_ids": [], "unresolved_ids": ["a__b-1"]}], False),
        (
            [
                {"resolved_ids": ["a__b-1"]},
                {"resolved_ids": [], "unresolved_ids": ["a__b-1"]},
            ],
            None,
        ),
        ([{"resolved_ids": "a__b-1"}, {"unresolved_ids": ["a__b-1"]}, [1]], None),
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
    preds(path / "below", {"resolved_ids": [], "unresolved_ids": ["a__b-1"]}, "x.json")
    ((prediction, _),) = report.records(path).values()
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
    assert (prediction["model_patch"], trajectory) == ("", None)


@pytest.mark.parametrize("predicted", ["", "of the file"])
def test_of_several_attempts_the_file_of_predictions_changes_the_last(
    predicted: str, report: Report, tmp_path: Path
) -> None:
    """Without a patch there it does not say which attempt is meant, and changes none."""
    folder = mini(TALK, tmp_path / "run") / NAME
    path = folder / f"{NAME}.traj.json"
    (folder / f"{NAME}.attempt-2.traj.json").write_bytes(path.read_bytes())
    preds(folder.parent, {NAME: {"model_patch": predicted}})
    ((prediction, _),) = report.records(folder.parent).values()
    assert prediction["model_patch"] == predicted
    patches = [attempt["model_patch"] for attempt in prediction["all_results"]]
    assert patches == [PATCH, predicted or PATCH]


def test_prices_that_were_not_known_are_not_zero(
    report: Report, tmp_path: Path
) -> None:
    folder = mini(TALK, tmp_path / "run")
    (path,) = folder.rglob("*.traj.json")
    data = read_json(path)
    data["info"]["model_stats"]["instance_cost"] = 0.0
    data["info"]["config"]["model"]["cost_tracking"] = "ignore_errors"
    path.write_text(json.dumps(data))
    ((prediction, _),) = report.records(folder).values()
    assert prediction["cost"] is None


def test_messages_of_every_form_of_mini_swe_agent(
    report: Report, tmp_path: Path
) -> None:
    """Rejected replies, OpenAI's responses, and replies whose commands stand in their text."""
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    choice = {"message": {"content": "I talk."}}
    rejected = {"cost": 0.1, "response": {"usage": usage, "choices": [choice]}}
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
        {"type": "function_call_output", "call_id": "c", "output": [{"text": "a.py"}]},
        {"role": "assistant", "content": "pwd", "extra": {"actions": ["pwd", 5]}},
        {"role": "user", "content": "/", "extra": {"returncode": 0}},
        {"role": "exit", "content": "Submitted", "extra": {"exit_status": "Submitted"}},
        {"role": "exit", "content": "a remark"},
    ]
    data = {"info": {}, "messages": messages, "instance_id": NAME}
    path = tmp_path / "x.traj.json"
    path.write_text(json.dumps(data))
    ((_, trajectory),) = report.records(path).values()
    (attempt,) = trajectory["attempts"]
    told = [(m["role"], m["content"]) for m in attempt["messages"]]
    assert told == [
        ("assistant", "I talk."),
        ("user", "Call a tool."),
        ("assistant", "Hello"),
        ("tool", "a.py"),
        ("assistant", "pwd"),
        ("tool", "/"),
        ("exit", "a remark"),
    ]
    calls = [call for m in attempt["messages"] for call in m.get("tool_calls", ())]
    assert [json.loads(call["arguments"]) for call in calls] == [
        {"command": "ls"},
        {"command": "pwd"},
        {"command": 5},
    ]
    assert attempt["totals"] == NO_TOTALS
    steps = steps_of(report.converted(path, "atif", tmp_path / "atif"))
    assert [step["metrics"] for step in steps if step.get("metrics")] == [
        {"prompt_tokens": 10, "completion_tokens": 2, "cost_usd": 0.1},
        {
            "prompt_tokens": 11,
            "completion_tokens": 4,
            "cached_tokens": 5,
            "cost_usd": 0.2,
        },
    ]


@pytest.mark.parametrize(
    ("reward", "resolved"), [(1.0, True), (0.5, False), (None, None), ("1", None)]
)
def test_the_result_of_a_trial_of_harbor(
    reward: object,
    resolved: bool | None,
    report: Report,
    tmp_path: Path,
) -> None:
    folder = atif(TALK, tmp_path / "run")
    file = folder / "trial/agent/trajectory.json"
    data = read_json(file)
    del data["session_id"]
    file.write_text(json.dumps(data))
    rewards = {"reward": reward}
    result = {"task_name": f"x/{NAME}", "verifier_result": {"rewards": rewards}}
    (folder / "trial/result.json").write_text(json.dumps(result))
    (name, (prediction, _)), *others = report.records(folder).items()
    assert (name, others) == (NAME, [])
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
    ((_, trajectory),) = report.records(folder).values()
    texts = [m["content"] for m in trajectory["attempts"][0]["messages"]]
    assert texts == [
        "Resolve the issue.",
        "I look.",
        "a.py",
        "I edit.",
        "",
        "I am below.",
    ]
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
    file = tmp_path / "run" / name
    file.parent.mkdir()
    file.write_bytes(OTHERS[name])
    for path in (file, file.parent):
        assert "of ATIF" in report.refusal(path)


def test_predictions_are_read_beside_trajectories_that_are_not(
    report: Report, tmp_path: Path
) -> None:
    folder = preds(tmp_path / "run", {"a__b-1": ONE})
    (folder / "a__b-1.traj").write_text('{"trajectory": [], "info": {}}')
    ((prediction, _),) = report.records(folder).values()
    assert prediction["model_patch"] == PATCH
