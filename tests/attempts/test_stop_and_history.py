"""Whole runs that stop by evidence or value, and attempts that are told of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import HistoryChoice, validate_config
from swe_retry.attempts.policy import StopRule
from swe_retry.core.errors import UserError
from swe_retry.environments.base import EnvironmentKind
from tests.support.evidence import (
    NAME,
    by_evidence,
    recording,
    verified,
)
from tests.support.harness import Harness
from tests.support.provider import Provider
from tests.support.runs import EDIT, config, live


def test_a_black_box_has_no_model_to_ask() -> None:
    run = by_evidence(replay=None, agent="command:true")
    with pytest.raises(UserError, match=r"choice\.select=evidence asks the models"):
        validate_config(run)


def opening_requests(provider: Provider) -> list[str]:
    """Return the first question of each attempt."""
    openings = []
    for request in provider.requests:
        roles = [message["role"] for message in request["messages"]]
        last = request["messages"][-1]["content"]
        if "assistant" not in roles and "Which files must be seen" in last:
            openings.append(last)
    return openings


@pytest.mark.parametrize("history", [HistoryChoice.OUTCOMES, HistoryChoice.NONE])
def test_the_next_attempt_is_told_what_became_of_the_others(
    harness: Harness, provider: Provider, history: HistoryChoice
) -> None:
    has_outcomes = history is HistoryChoice.OUTCOMES
    failing = EDIT.replace(
        "        elif letters and letters[-1] != ", "        elif letters == "
    )
    provider.will_answer("textkit/slug.py", *[failing] * 4, "textkit/slug.py")
    run = live(
        provider,
        history=history,
        environment=EnvironmentKind.LOCAL,
        all_attempts=True,
    )
    prediction = harness.solve(run, NAME)
    first, second = opening_requests(provider)
    assert "before yours" not in first
    sentence = "1 attempt was made on this issue before yours"
    assert (sentence in second) is has_outcomes
    told_of = prediction["all_results"][1].get("told_of", [])
    if has_outcomes:
        assert told_of == [1]
    else:
        assert told_of == []
    lines = verified(harness.folder, harness.cache)
    assert lines[-1].endswith("nothing differs")


def test_an_attempt_gives_one_script(harness: Harness, tmp_path: Path) -> None:
    """Its own tests are dropped from the prediction; each shows the issue."""
    test = (
        "tests/test_{0}.py\n```python\n<<<<<<< SEARCH\n=======\n"
        "from textkit import slugify\n\n\ndef test_it():\n"
        '    assert slugify("a  b") == "a-b"\n>>>>>>> REPLACE\n```\n'
    )

    def with_tests(raw: dict[str, Any]) -> None:
        reply = raw["attempts"][1]["messages"][1]
        reply["content"] += test.format("new") + test.format("other")

    replies = recording(tmp_path / "replies", with_tests)
    prediction = harness.solve(by_evidence(replay=replies), NAME)
    scripts = prediction["evidence"]["scripts"]
    (own,) = [script for script in scripts if script["source"] == "attempt"]
    assert own["base"] == [2, 2]
    assert "tests/test_new.py" in own["text"]


def test_stop_all_decides_as_all_attempts_does() -> None:
    stop_all = validate_config(config(stop=StopRule.ALL))
    all_attempts = validate_config(config(all_attempts=True))
    assert stop_all.deciding() == all_attempts.deciding()
    usual = validate_config(config())
    assert stop_all.deciding() != usual.deciding()
