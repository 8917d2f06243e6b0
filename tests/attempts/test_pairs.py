"""An architect that plans what an editor edits: both models, their calls and their costs."""

from __future__ import annotations

from typing import Any

import pytest

from swe_retry.attempts.config import RunConfig, RunSettings, validate_config
from swe_retry.cli.configuration import make_configuration
from swe_retry.core.errors import UserError
from swe_retry.core.sources import SourcedValue, check_settings, merge_layers
from swe_retry.environments.base import EnvironmentKind
from swe_retry.runner.config import read_models
from swe_retry.runner.settings import Spending
from tests.support.evidence import verified
from tests.support.harness import Harness
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, live

pytestmark = pytest.mark.quick
ID = "demo__textkit-1"
ASK = "textkit/slug.py"
PLAN = "In textkit/slug.py, add a hyphen only if the last letter is not one."
# What a call costs.
O1 = 15e-6 * 100 + 60e-6 * 10
GPT = 2.5e-6 * 100 + 10e-6 * 10


def settings_for(names: str) -> RunSettings:
    return RunSettings.model_validate({"models": {"names": names}})


def pair(provider: Provider, **changes: Any) -> RunConfig:
    models, _ = read_models(settings_for("o1+gpt-4o@diff"), any_name=True)
    return live(provider, models=models, **changes)


def called_models(provider: Provider) -> list[str]:
    return [request["model"] for request in provider.requests]


def test_an_editor_makes_the_edits_of_an_architects_plan(
    harness: Harness, provider: Provider
) -> None:
    broken = EDIT.replace("letters.append", "l.append")
    expected_replies = [ASK, f"Wait.\n{PLAN}", broken, EDIT]
    provider.will_answer(*expected_replies)
    prediction = harness.solve(pair(provider), ID)
    assert called_models(provider) == ["o1", "o1", "gpt-4o", "gpt-4o"]
    assert prediction["status"] == "plausible"
    assert prediction["model"] == "o1 + gpt-4o"
    cost = 2 * O1 + 2 * GPT
    assert prediction["cost"] == pytest.approx(cost)
    planning = provider.requests[1]["messages"]
    rules = "Your edit format is plain text: a plan"
    assert rules in planning[0]["content"] + planning[-1]["content"]
    editing = provider.requests[2]["messages"]
    opening = editing[1]["content"]
    assert PLAN in opening
    assert "def slugify" in opening, "the editor sees the architect's files"
    assert "<issue>" not in str(editing)
    replies = []
    for message in harness.attempts(ID)[0]["messages"]:
        if message["role"] == "assistant":
            replies.append(message["content"])
    assert replies == expected_replies
    assert harness.description["model_name_or_path"] == "retry--o1--gpt-4o"
    harness.assert_replays(pair(provider), ID)
    assert len(provider.requests) == 4
    lines = verified(harness.folder, harness.cache)
    assert lines[-1].endswith("nothing differs")


def test_an_architect_that_is_refused_ends_the_attempt(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer(ASK, Answer(status=400))
    run = pair(provider)
    prediction = harness.solve(run, ID, code=1)
    assert called_models(provider) == ["o1", "o1"]
    assert prediction["status"] == "error"
    assert prediction["model_patch"] == ""
    harness.assert_replays(run, ID, code=1)


def test_a_budget_of_the_architects_model_stops_the_attempt_and_it_goes_on(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer(ASK, PLAN, EDIT)
    run = pair(provider)
    money = Spending(calls=2, allow_unpriced=True)
    harness.run(run, ID, code=1, money=money)
    assert len(provider.requests) == 2
    prediction = harness.solve(run, ID)
    assert called_models(provider) == ["o1", "o1", "gpt-4o"]
    assert prediction["status"] == "plausible"


@pytest.mark.parametrize("agent", ["codex", "command:true {message_file}", "a:b"])
def test_other_agents_take_no_pairs(provider: Provider, agent: str) -> None:
    run = pair(provider, agent=agent)
    with pytest.raises(UserError, match=r"o1.gpt-4o: only the builtin agent"):
        validate_config(run)


def test_each_model_of_a_pair_has_a_price_of_its_own() -> None:
    layer = {
        "models.names": SourcedValue("--models", "o1+gpt-4o"),
        "budget.prices": SourcedValue("--price", "o1=1,2"),
    }
    values = merge_layers(RunSettings, [layer])
    settings = check_settings(RunSettings, values)
    config = make_configuration(settings, EnvironmentKind.NONE)
    assert list(config.money.prices) == ["o1"]


def test_completions_take_no_pairs() -> None:
    (model,), _ = read_models(settings_for("a+b"), any_name=True, pairs=False)
    assert model.text == "a+b"
    assert model.architect is None
