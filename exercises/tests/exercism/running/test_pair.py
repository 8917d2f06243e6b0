"""Architect and editor: two models on one exercise, with the calls and costs of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.commands import EXERCISM
from exercises.tests.exercism.running.conftest import FAST, start
from exercises.tests.support.exercism import (
    ExerciseProvider,
    ExerciseRun,
    examples,
    needs_bubblewrap,
    rendered,
    requests,
    six,
)
from swe_retry.agent.formats.protocol import Notation
from swe_retry.core.errors import UserError
from swe_retry.llm.options import ModelChoice
from swe_retry.runner.config import model_or_pair
from tests.support.provider import Answer

CLOCK = "cuckoo-clock"
PAIR = (*FAST, "--set", f"exercises.ids={CLOCK}", "--models", "o1+gpt-4o@diff")
BAD_PLAN = "Return nothing at any time."
PLAN = "Return the hour, of twelve."
BAD = {"cuckoo_clock.py": b"def strikes(hour, minute):\n    return 'nothing'\n"}


class PairProvider(ExerciseProvider):
    """``o1`` is wrong at first, and then right; ``gpt-4o`` does as it is told."""

    refused = ""

    def answer(self, request: dict[str, Any]) -> Answer:
        if request["model"] == self.refused:
            return Answer(status=400)
        exercise = six()[CLOCK]
        messages = request["messages"]
        if request["model"] == "o1":
            return Answer(BAD_PLAN if len(messages) == 2 else PLAN)
        if BAD_PLAN in messages[1]["content"]:
            return rendered(self.form(request), exercise.stubs(), BAD)
        if len(messages) == 2:  # a block whose lines are not there: it is told so once
            return Answer(
                "cuckoo_clock.py\n```\n<<<<<<< ORIGINAL\nno\n=======\n>>>>>>> UPDATED\n```\n"
            )
        return rendered(self.form(request), BAD, exercise.example())


@pytest.fixture(autouse=True)
def api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def pair_provider() -> PairProvider:
    return PairProvider(list(six().values()), examples, Notation.OF_2023)


@pytest.fixture
def provider() -> Iterator[PairProvider]:
    with pair_provider() as server:
        yield server


@pytest.fixture
def run(tmp_path: Path) -> ExerciseRun:
    return ExerciseRun(tmp_path / "one", tmp_path / "cache", PAIR)


def only_result(run: ExerciseRun) -> dict[str, Any]:
    [result] = run.results().values()
    return dict(result)


@needs_bubblewrap
def test_a_pair_plans_edits_and_is_counted(
    run: ExerciseRun,
    tmp_path: Path,
    provider: PairProvider,
) -> None:
    assert start(run, provider).code == 0
    models = []
    roles = []
    contents = []
    for request in provider.requests:
        messages = request["messages"]
        models.append(request["model"])
        roles.append([message["role"] for message in messages])
        contents.append([message["content"] for message in messages])
    assert models == ["o1", "gpt-4o", "o1", "gpt-4o", "gpt-4o"]
    first = ["system", "user"]
    later = [*first, "assistant", "user"]
    assert roles == [first, first, later, first, later]
    plans = contents[2]
    edits = contents[3]
    assert "ORIGINAL" not in plans[0]
    assert "ORIGINAL" in edits[0]
    assert plans[2] == BAD_PLAN
    assert "FAIL: test_silence" in plans[3]
    assert edits[1].endswith(f"```\n\n{PLAN}")
    for content in (plans[3], edits[1]):
        assert BAD["cuckoo_clock.py"].decode() in content
    result = only_result(run)
    expected = {
        "model": "o1 + gpt-4o",
        "edit_format": "architect",
        "editor_model": "gpt-4o",
        "editor_edit_format": "diff",
        "tests_outcomes": [False, True],
        "num_malformed_responses": 1,
    }
    assert {key: result[key] for key in expected} == expected
    assert len(result["chat_hashes"]) == 5
    costs = []
    paid_models = []
    ledger = (run.folder / "ledger.jsonl").read_text()
    for line in ledger.splitlines():
        entry = json.loads(line)
        if entry.get("cost"):
            costs.append(Decimal(str(entry["cost"])))
            paid_models.append(entry["model"])
    assert sorted(paid_models) == ["gpt-4o"] * 3 + ["o1"] * 2
    assert Decimal(str(result["cost"])) == sum(costs)
    assert len(set(costs)) > 1
    prompt_tokens = [call["usage"]["prompt_tokens"] for call in calls(run)]
    assert result["prompt_tokens"] == sum(prompt_tokens)
    record = run.records()["architect"]
    keys = "model edit_format commit_hash editor_model editor_edit_format"
    assert list(record)[2:7] == keys.split()
    assert record["model"] == "o1 + gpt-4o"
    assert record["editor_edit_format"] == "diff"
    out = EXERCISM.output(f"report {run.folder} --set report.page=false")
    assert "o1 + gpt-4o@architect" in " ".join(out.split())
    [transcript] = run.folder.rglob("cuckoo-clock.md")
    text = transcript.read_text()
    for part in (BAD_PLAN, PLAN, "ORIGINAL"):
        assert part in text

    again = ExerciseRun(tmp_path / "a" / "deeper", tmp_path / "other", PAIR)
    with pair_provider() as other:
        assert start(again, other).code == 0
    assert requests(other) == requests(provider)
    replayed = ExerciseRun(tmp_path / "replayed", tmp_path / "cache", PAIR)
    assert start(replayed, None, f"--replay {run.folder}").code == 0
    assert only_result(again) == result
    assert only_result(replayed) == result
    assert calls(replayed) == calls(run)


def calls(run: ExerciseRun) -> list[dict[str, Any]]:
    [path] = (run.folder / "trajectories").glob("*.json")
    assert path.stem == "o1_+_gpt-4o.architect.1.python.cuckoo-clock"
    [attempt] = json.loads(path.read_text())["attempts"]
    return [call | {"seconds": 0} for call in attempt["calls"]]


@needs_bubblewrap
def test_what_either_cannot_do_ends_the_exercise(
    run: ExerciseRun,
    tmp_path: Path,
    provider: PairProvider,
) -> None:
    provider.refused = "o1"
    assert start(run, provider).code == 1
    provider.refused = "gpt-4o"
    edited = ExerciseRun(tmp_path / "edited", tmp_path / "cache", PAIR)
    assert start(edited, provider).code == 0
    result = only_result(edited)
    assert result["extra"]["status"] == "refused"
    assert len(result["chat_hashes"]) == 1


@needs_bubblewrap
def test_a_limit_of_calls_counts_both_and_a_higher_one_goes_on(
    run: ExerciseRun,
    provider: PairProvider,
) -> None:
    start(run, provider, "--set budget.calls=1")
    assert only_result(run)["extra"]["status"] == "budget"
    assert start(run, provider, "--set budget.calls=5").code == 0
    assert only_result(run)["tests_outcomes"] == [False, True]
    assert len(provider.requests) == 5, "no reply is paid for twice"


def test_which_names_are_pairs() -> None:
    def choice(text: str) -> ModelChoice:
        if not text:
            raise UserError("empty")
        name, _, _ = text.partition("@")
        return ModelChoice(name, f"p/{name}", "diff")

    pair = model_or_pair("a+b", choice)
    assert pair.text == "a+b"
    assert pair.label == "p/a + p/b"
    assert [part.text for part in pair.parts] == ["a", "b"]
    for text in ("a", "command-r+", "command-r+@diff"):
        assert model_or_pair(text, choice).architect is None
    EXERCISM.refusal("run --models o1+gpt-4o,o1+gpt-4o@whole --environment local")
