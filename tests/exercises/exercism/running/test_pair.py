"""Architect and editor: two models on one exercise, with the calls and costs of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent.formats.base import Notation
from core.errors import UserError
from exercises.exercism.settings import model_or_pair
from llm.options import ModelChoice
from tests.support.exercism import (
    ExerciseProvider,
    ExerciseRun,
    examples,
    main,
    needs_bubblewrap,
    rendered,
    requests,
    six,
)
from tests.support.provider import Answer

CLOCK = "cuckoo-clock"
FAST = (
    "--set",
    "exercises.profile=2023",
    "--set",
    f"exercises.ids={CLOCK}",
    "--models",
    "o1+gpt-4o@diff",
)
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
        said = request["messages"]
        if request["model"] == "o1":
            return Answer(BAD_PLAN if len(said) == 2 else PLAN)
        if BAD_PLAN in said[1]["content"]:
            return rendered(self.form(request), exercise.stubs(), BAD)
        if len(said) == 2:  # a block whose lines are not there: it is told so once
            return Answer(
                "cuckoo_clock.py\n```\n<<<<<<< ORIGINAL\nno\n=======\n>>>>>>> UPDATED\n```\n"
            )
        return rendered(self.form(request), BAD, exercise.example())


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture
def provider() -> Iterator[PairProvider]:
    with PairProvider([*six().values()], examples, Notation.OF_2023) as made:
        yield made


def read(run: ExerciseRun) -> dict[str, Any]:
    (found,) = run.results().values()
    return dict(found)


@needs_bubblewrap
def test_a_pair_plans_edits_and_is_counted(
    tmp_path: Path,
    provider: PairProvider,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = ExerciseRun(tmp_path / "one", tmp_path / "cache", FAST)
    assert run.run(provider) == 0
    asked = []
    for r in provider.requests:
        asked.append((r["model"], [m["role"] for m in r["messages"]]))
    first = ["system", "user"]
    later = [*first, "assistant", "user"]
    assert asked == [
        ("o1", first),
        ("gpt-4o", first),
        ("o1", later),
        ("gpt-4o", first),
        ("gpt-4o", later),
    ]
    plans = provider.requests[2]["messages"]
    edits = provider.requests[3]["messages"]
    assert "ORIGINAL" not in plans[0]["content"] and "ORIGINAL" in edits[0]["content"]
    assert (
        plans[2]["content"] == BAD_PLAN and "FAIL: test_silence" in plans[3]["content"]
    )
    assert edits[1]["content"].endswith(f"```\n\n{PLAN}")
    for said in (plans[3], edits[1]):
        assert BAD["cuckoo_clock.py"].decode() in said["content"]
    found = read(run)
    assert (found["model"], found["edit_format"]) == ("o1 + gpt-4o", "architect")
    assert (found["editor_model"], found["editor_edit_format"]) == ("gpt-4o", "diff")
    assert found["tests_outcomes"] == [False, True]
    assert (found["num_malformed_responses"], len(found["chat_hashes"])) == (1, 5)
    ledger = [
        json.loads(li) for li in (run.folder / "ledger.jsonl").read_text().splitlines()
    ]
    costs = [Decimal(str(li["cost"])) for li in ledger if li.get("cost")]
    models = [li["model"] for li in ledger if li.get("cost")]
    assert sorted(models) == ["gpt-4o"] * 3 + ["o1"] * 2
    assert Decimal(str(found["cost"])) == sum(costs) and len({*costs}) > 1
    usage = [call["usage"] for call in calls(run)]
    assert found["prompt_tokens"] == sum(one["prompt_tokens"] for one in usage)
    record = run.records()["architect"]
    assert [*record][2:7] == [
        "model",
        "edit_format",
        "commit_hash",
        "editor_model",
        "editor_edit_format",
    ]
    assert (record["model"], record["editor_edit_format"]) == ("o1 + gpt-4o", "diff")
    assert main(["report", run.folder, "--set", "report.page=false"]) == 0
    assert "o1 + gpt-4o@architect" in " ".join(capsys.readouterr().out.split())
    text = next(run.folder.rglob("cuckoo-clock.md")).read_text()
    assert BAD_PLAN in text and PLAN in text and "ORIGINAL" in text

    again = ExerciseRun(tmp_path / "a" / "deeper", tmp_path / "other", FAST)
    with PairProvider([*six().values()], examples, Notation.OF_2023) as other:
        assert again.run(other) == 0
    assert requests(other) == requests(provider)
    replayed = ExerciseRun(tmp_path / "replayed", tmp_path / "cache", FAST)
    assert replayed.run(None, "--replay", str(run.folder)) == 0
    assert read(replayed) == read(again) == found
    assert calls(replayed) == calls(run)


def calls(run: ExerciseRun) -> list[dict[str, Any]]:
    (path,) = (run.folder / "trajectories").glob("*.json")
    assert path.stem == "o1_+_gpt-4o.architect.1.python.cuckoo-clock"
    (attempt,) = json.loads(path.read_text())["attempts"]
    return [
        {k: v for k, v in call.items() if k != "seconds"} for call in attempt["calls"]
    ]


@needs_bubblewrap
@pytest.mark.parametrize(("refused", "made"), [("o1", 0), ("gpt-4o", 1)])
def test_what_either_cannot_do_ends_the_exercise(
    tmp_path: Path, provider: PairProvider, refused: str, made: int
) -> None:
    run = ExerciseRun(tmp_path, tmp_path / "cache", FAST)
    provider.refused = refused
    assert run.run(provider) == (0 if made else 1)
    if made:
        found = read(run)
        assert (found["extra"]["status"], len(found["chat_hashes"])) == (
            "refused",
            made,
        )


@needs_bubblewrap
def test_a_limit_of_calls_counts_both_and_a_higher_one_goes_on(
    tmp_path: Path, provider: PairProvider
) -> None:
    run = ExerciseRun(tmp_path, tmp_path / "cache", FAST)
    run.run(provider, "--set", "budget.calls=1")
    assert read(run)["extra"]["status"] == "budget"
    assert run.run(provider, "--set", "budget.calls=5") == 0
    assert read(run)["tests_outcomes"] == [False, True]
    assert len(provider.requests) == 5, "no reply is paid for twice"


def test_which_names_are_pairs() -> None:
    def one(text: str) -> ModelChoice:
        if not text:
            raise UserError("empty")
        return ModelChoice(
            text.partition("@")[0], f"p/{text.partition('@')[0]}", "diff"
        )

    pair = model_or_pair("a+b", one)
    assert (pair.text, pair.label, [part.text for part in pair.parts]) == (
        "a+b",
        "p/a + p/b",
        ["a", "b"],
    )
    for text in ("a", "command-r+", "command-r+@diff"):
        assert model_or_pair(text, one).architect is None
    assert (
        main(["run", "--models", "o1+gpt-4o,o1+gpt-4o@whole", "--environment", "local"])
        == 2
    )
