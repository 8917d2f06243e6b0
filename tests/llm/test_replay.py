from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from swe_retry.core.errors import UserError
from swe_retry.llm.chat import Message, ReplayExhaustedError, Reply, request_sha256
from swe_retry.llm.replay import ReplayModel
from swe_retry.runner.modelsource import read_recording, recorded_calls

ONE = [Message("user", "one")]
TWO = [Message("user", "two")]


def test_a_matching_hash_comes_before_order_and_each_reply_is_served_once() -> None:
    replies = (
        Reply("a"),
        Reply("b", request_sha256=request_sha256(TWO)),
        Reply("c", request_sha256=request_sha256(TWO)),
    )
    model = ReplayModel(replies)
    assert model.complete(TWO).content == "b"
    assert model.complete(ONE).content == "a"
    assert model.complete(TWO).content == "c"
    with pytest.raises(ReplayExhaustedError):
        model.complete(ONE)


def test_without_hashes_replies_come_in_order() -> None:
    model = ReplayModel((Reply("a"), Reply("b")))
    assert model.complete(ONE).content == "a"
    assert model.complete(ONE).content == "b"


def test_a_foreign_trajectory_has_only_messages(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    messages = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "!"},
    ]
    raw = {
        "attempt": 2,
        "model": "opus",
        "edit_format": "diff",
        "messages": messages,
        "recorded": {"cost": 0.5},
    }
    path.write_text(json.dumps({"attempts": [raw]}))
    recorded = read_recording(path)[2]
    assert recorded.model == "opus"
    assert recorded_calls(recorded)[0] == Reply("!", cost=Decimal("0.5"))


@pytest.mark.parametrize("cost", [True, False, None])
def test_a_cost_that_is_not_a_number_is_unknown(tmp_path: Path, cost: object) -> None:
    path = tmp_path / "t.json"
    call = {"content": "!", "cost": cost}
    message = {"role": "assistant", "content": "!"}
    for key, value in (("calls", call), ("messages", message)):
        raw = {
            "attempt": 2,
            "model": "opus",
            "edit_format": "diff",
            "recorded": {"cost": cost},
            key: [value],
        }
        path.write_text(json.dumps({"attempts": [raw]}))
        recorded = read_recording(path)[2]
        assert recorded.cost is None
        assert recorded_calls(recorded)[0] == Reply("!")


@pytest.mark.parametrize("text", ["{", "{}", '{"attempts": [{}]}', "[]"])
def test_broken_trajectories_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"t\.json is (broken|not a trajectory)"):
        read_recording(path)
