"""Whole runs that stop by evidence or value, and attempts that are told of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.config import HistoryChoice, validate_config
from bench.policy import StopRule
from core.errors import UserError
from environments.base import EnvironmentKind
from tests.support.evidence import (
    NAME,
    by_evidence,
    recording,
    verified,
)
from tests.support.provider import Provider
from tests.support.runs import EDIT, config, live, options, read


def test_a_black_box_has_no_model_to_ask() -> None:
    with pytest.raises(UserError, match=r"choice\.select=evidence asks the models"):
        validate_config(by_evidence(replay=None, agent="command:true"))


def test_the_next_attempt_is_told_what_became_of_the_others(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    failing = EDIT.replace(
        "        elif letters and letters[-1] != ", "        elif letters == "
    )
    provider.will_answer(
        "textkit/slug.py", failing, failing, failing, failing, "textkit/slug.py"
    )
    for told, words in (
        (HistoryChoice.OUTCOMES, "1 attempt was made on this issue before yours"),
        (HistoryChoice.NONE, ""),
    ):
        out = tmp_path / told.value
        provider.requests.clear()
        given = {
            "history": told,
            "environment": EnvironmentKind.LOCAL,
            "all_attempts": True,
        }
        run_command(live(provider, **given), options(out, cache, NAME), lambda _: None)
        firsts = []
        for request in provider.requests:
            if not any(m["role"] == "assistant" for m in request["messages"]):
                firsts.append(request["messages"])
        openings = []
        for said in firsts:
            if "Which files must be seen" in said[-1]["content"]:
                openings.append(said)
        assert len(openings) == 2
        assert "before yours" not in openings[0][-1]["content"]
        assert words in openings[1][-1]["content"]
        second = read(out, NAME)["all_results"][1]
        assert second.get("told_of", []) == ([] if told is HistoryChoice.NONE else [1])
        assert verified(out, cache)[-1].endswith("nothing differs")


def test_an_attempt_gives_one_script(tmp_path: Path, cache: Path) -> None:
    """Its own tests are dropped from the prediction; each shows the issue."""
    test = (
        "tests/test_{0}.py\n```python\n<<<<<<< SEARCH\n=======\n"
        "from textkit import slugify\n\n\ndef test_it():\n"
        '    assert slugify("a  b") == "a-b"\n>>>>>>> REPLACE\n```\n'
    )

    def with_tests(raw: dict[str, Any]) -> None:
        said = raw["attempts"][1]["messages"][1]
        said["content"] += test.format("new") + test.format("other")

    replies = recording(tmp_path / "replies", with_tests)
    run = by_evidence(replay=replies)
    assert run_command(run, options(tmp_path, cache, NAME), print) == 0
    scripts = read(tmp_path, NAME)["evidence"]["scripts"]
    own = [one for one in scripts if one["source"] == "attempt"]
    assert len(own) == 1
    assert own[0]["base"] == [2, 2]
    assert "tests/test_new.py" in own[0]["text"]


def test_stop_all_decides_as_all_attempts_does() -> None:
    made = validate_config(config(stop=StopRule.ALL))
    assert made.deciding() == validate_config(config(all_attempts=True)).deciding()
    assert made.deciding() != validate_config(config()).deciding()
