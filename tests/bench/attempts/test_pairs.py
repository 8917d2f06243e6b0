"""An architect that plans what an editor edits: both models, their calls and their costs."""

from __future__ import annotations

from typing import Any

import pytest

from bench.cli.command_line import make_configuration
from bench.config import RunConfig, RunSettings, validate_config
from core.errors import UserError
from core.settings import SourcedValue, check_settings, merge_layers
from environments.base import EnvironmentKind
from llm.settings import our_settings
from runs.calls.budget import BudgetLimits
from runs.options import parse_models
from runs.settings import Spending
from tests.bench.conftest import Harness
from tests.support.evidence import verified
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, live

pytestmark = pytest.mark.quick
ID = "demo__textkit-1"
ASK = "textkit/slug.py"
PLAN = "In textkit/slug.py, add a hyphen only if the last letter is not one."
O1, GPT = (15e-6 * 100 + 60e-6 * 10), (2.5e-6 * 100 + 10e-6 * 10)


def pair(provider: Provider, **changes: Any) -> RunConfig:
    book = our_settings()
    models = parse_models(["o1+gpt-4o@diff"], book, any_name=True, replay=False)
    return live(provider, models=models, **changes)


def asked_models(provider: Provider) -> list[str]:
    return [request["model"] for request in provider.requests]


def test_an_editor_makes_the_edits_of_an_architects_plan(
    harness: Harness, provider: Provider
) -> None:
    broken = EDIT.replace("letters.append", "l.append")
    provider.will_answer(ASK, "Wait.\n" + PLAN, broken, EDIT)
    prediction = harness.solve(pair(provider), ID)
    assert asked_models(provider) == ["o1", "o1", "gpt-4o", "gpt-4o"]
    assert (prediction["status"], prediction["model"]) == ("plausible", "o1 + gpt-4o")
    assert prediction["cost"] == pytest.approx(2 * O1 + 2 * GPT)
    planning = provider.requests[1]["messages"]
    editing = provider.requests[2]["messages"]
    rules = "Your edit format is plain text: a plan"
    assert rules in planning[0]["content"] + planning[-1]["content"]
    assert PLAN in editing[1]["content"]
    assert "def slugify" in editing[1]["content"], (
        "the editor sees the architect's files"
    )
    assert "<issue>" not in str(editing)
    transcript = harness.attempts(ID)[0]["messages"]
    replies = [m["content"] for m in transcript if m["role"] == "assistant"]
    assert replies == [ASK, "Wait.\n" + PLAN, broken, EDIT]
    assert harness.description["model_name_or_path"] == "retry--o1--gpt-4o"
    harness.assert_replays(pair(provider), ID)
    assert len(provider.requests) == 4
    assert verified(harness.folder, harness.cache)[-1].endswith("nothing differs")


def test_an_architect_that_is_refused_ends_the_attempt(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer(ASK, Answer(status=400))
    prediction = harness.solve(pair(provider), ID, code=1)
    assert asked_models(provider) == ["o1", "o1"]
    assert (prediction["status"], prediction["model_patch"]) == ("error", "")
    harness.assert_replays(pair(provider), ID, code=1)


def test_a_budget_of_the_architects_model_stops_the_attempt_and_it_goes_on(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer(ASK, PLAN, EDIT)
    few = Spending(BudgetLimits(calls=2), allow_unpriced=True)
    harness.run(pair(provider), ID, code=1, money=few)
    assert len(provider.requests) == 2
    harness.run(pair(provider), ID)
    assert asked_models(provider) == ["o1", "o1", "gpt-4o"]
    assert harness.prediction(ID)["status"] == "plausible"


@pytest.mark.parametrize("agent", ["codex", "command:true {message_file}", "a:b"])
def test_other_agents_take_no_pairs(provider: Provider, agent: str) -> None:
    with pytest.raises(UserError, match=r"o1.gpt-4o: only the builtin agent"):
        validate_config(pair(provider, agent=agent))


def test_each_model_of_a_pair_has_a_price_of_its_own() -> None:
    layer = {
        "models.names": SourcedValue("--models", "o1+gpt-4o"),
        "budget.prices": SourcedValue("--price", "o1=1,2"),
    }
    settings = check_settings(RunSettings, merge_layers(RunSettings, [layer]))
    _, made = make_configuration(settings, EnvironmentKind.NONE)
    assert list(made.money.prices) == ["o1"]


def test_completions_take_no_pairs() -> None:
    (model,) = parse_models(
        ["a+b"], our_settings(), any_name=True, replay=False, pairs=False
    )
    assert (model.text, model.architect) == ("a+b", None)
