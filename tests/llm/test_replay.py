from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import UserError
from llm.chat import Message, ReplayExhaustedError, Reply, request_sha256
from llm.replay import ReplayModel
from runs.modelsource import read_recording, recorded_calls

ONE = [Message("user", "one")]
TWO = [Message("user", "two")]


def test_a_matching_hash_comes_before_order_and_each_reply_is_served_once() -> None:
    model = ReplayModel(
        (
            Reply("a"),
            Reply("b", request_sha256=request_sha256(TWO)),
            Reply("c", request_sha256=request_sha256(TWO)),
        )
    )
    assert [model.complete(m).content for m in (TWO, ONE, TWO)] == ["b", "a", "c"]
    with pytest.raises(ReplayExhaustedError):
        model.complete(ONE)


def test_without_hashes_replies_come_in_order() -> None:
    model = ReplayModel((Reply("a"), Reply("b")))
    assert [model.complete(ONE).content, model.complete(ONE).content] == ["a", "b"]


def test_a_foreign_trajectory_has_only_messages(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    raw = {"attempt": 2, "model": "opus", "edit_format": "diff", "messages": messages}
    path.write_text(json.dumps({"attempts": [{**raw, "recorded": {"cost": 0.5}}]}))
    recorded = read_recording(path)[2]
    assert (recorded.model, recorded_calls(recorded)[0]) == (
        "opus",
        Reply("!", cost=0.5),
    )


@pytest.mark.parametrize("cost", [True, False, None])
def test_a_cost_that_is_not_a_number_is_unknown(tmp_path: Path, cost: object) -> None:
    path = tmp_path / "t.json"
    ours = {"calls": [{"content": "!", "cost": cost}]}
    foreign = {"messages": [{"role": "assistant", "content": "!"}]}
    for calls in (ours, foreign):
        raw = {
            "attempt": 2,
            "model": "opus",
            "edit_format": "diff",
            "recorded": {"cost": cost},
        }
        path.write_text(json.dumps({"attempts": [raw | calls]}))
        recorded = read_recording(path)[2]
        assert (recorded.cost, recorded_calls(recorded)[0]) == (None, Reply("!"))


@pytest.mark.parametrize("text", ["{", "{}", '{"attempts": [{}]}', "[]"])
def test_broken_trajectories_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"t\.json is (broken|not a trajectory)"):
        read_recording(path)
