"""The coding agents of others, through the gateway in the sandbox; and how they are chosen."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from agent.formats import format_names
from agent.gateway.dialects import DIALECTS
from agent.named import AGENTS
from agent.named.base import NamedAgent
from bench.config import ModelChoice, RunConfig, validate_config
from core.errors import UserError
from environments.base import AgentSandbox
from runs.calls.budget import BudgetLimits
from runs.settings import Spending
from tests.agent.gateway.conftest import (
    COSTS,
    NEW,
    PYTHON,
    GatewayRuns,
    needs_bubblewrap,
)
from tests.support.dialects import AGENT, MODELS, Fault, Turn
from tests.support.runs import but, config

SED = (
    f"sed -i 's/^        else:/{NEW}/'".replace("'-'", "\\x27-\\x27")
    + " textkit/slug.py"
)
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude-code": ("Bash", {"command": SED, "description": "edit"}),
    "codex": ("exec_command", {"cmd": SED}),
    "gemini-cli": ("run_shell_command", {"command": SED, "description": "edit"}),
    "opencode": ("bash", {"command": SED, "description": "edit"}),
    "qwen-code": (
        "run_shell_command",
        {"command": SED, "description": "e", "is_background": False},
    ),
    "goose": ("shell", {"command": SED}),
    "openhands": ("terminal", {"command": SED, "security_risk": "LOW"}),
    "mini-swe-agent": ("bash", {"command": SED}),
}
SUBMIT = ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})
BLOCK = (
    "textkit/slug.py\n```python\n<<<<<<< SEARCH\n        else:\n=======\n"
    f"{NEW}\n>>>>>>> REPLACE\n```\n"
)


def dialect_of(agent: NamedAgent) -> str:
    if agent.api == "gemini":
        return "gemini"
    return agent.dialect


def turns_of(agent: NamedAgent) -> tuple[Turn, ...]:
    if agent.name == "aider":
        return (Turn(BLOCK),)
    last = None
    if agent.name == "mini-swe-agent":
        last = SUBMIT
    return (Turn("I edit.", TOOLS[agent.name]), Turn("It is done.", last))


def config_of(agent: NamedAgent, **changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "agent": agent.name,
        "models": (ModelChoice.parse(MODELS[dialect_of(agent)]),),
        "replay": None,
        "tries": 1,
        "agent_timeout": 240,
        **changes,
    }
    return config(**values)


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> NamedAgent:
    named: NamedAgent = request.param
    if not shutil.which(named.program):
        pytest.skip(f"{named.name} is not installed: {named.install}")
    return named


@needs_bubblewrap
@pytest.mark.agents
def test_a_real_agent_edits_at_an_exact_cost_and_is_replayed_without_a_provider(
    runs: GatewayRuns, agent: NamedAgent
) -> None:
    with runs.serve(turns=turns_of(agent)) as stub:
        prediction = runs.solve(config_of(agent))
    assert prediction["status"] == "plausible", (prediction["reason"], runs.log())
    assert NEW in prediction["model_patch"]
    assert stub.billed == len(runs.ledger()) >= 1
    assert Decimal(str(prediction["cost"])) == stub.billed * COSTS[dialect_of(agent)]
    runs.report()
    again = runs.solve(but(config_of(agent, run="again"), replay=runs.recorded))
    assert again["model_patch"] == prediction["model_patch"], again["reason"]
    (attempt,) = runs.attempts()
    assert stub.billed == len(attempt["calls"])


@needs_bubblewrap
@pytest.mark.agents
def test_a_budget_stops_a_real_agent(runs: GatewayRuns, agent: NamedAgent) -> None:
    money = Spending(BudgetLimits(usd=Decimal("0.000001")))
    with runs.serve(turns=turns_of(agent)) as stub:
        started = time.monotonic()
        runs.fail(config_of(agent), money=money)
        # Its start, a refused call, and ten seconds.
        assert time.monotonic() - started < 60
    assert not stub.requests


@needs_bubblewrap
@pytest.mark.agents
def test_a_dead_provider_is_a_failure_of_the_infrastructure(
    runs: GatewayRuns, agent: NamedAgent
) -> None:
    with runs.serve(*[Fault(500)] * 500, turns=turns_of(agent)):
        note = runs.fail(config_of(agent))
    assert note["status"] == "infra_error", note


@needs_bubblewrap
def test_reports_name_the_agent_and_agree_with_its_ledger(runs: GatewayRuns) -> None:
    """The program of an agent is our small one here."""
    program = runs.folder / "bin/qwen"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {PYTHON} {AGENT} chat "$OPENAI_MODEL" "$7" stream\n'
    )
    program.chmod(0o755)
    patch = runs.monkeypatch
    patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    (qwen,) = (agent for agent in AGENTS if agent.name == "qwen-code")
    small = replace(qwen, argv=("qwen", *["-"] * 6, "{message_file}"))
    patch.setattr("agent.agents.named_agent", {"qwen-code": small}.get)
    with runs.serve():
        prediction = runs.solve(config_of(qwen, agent_sandbox_read=(AGENT, program)))
    assert prediction["status"] == "plausible", runs.log()
    assert "gpt-4o@qwen-code" in "\n".join(runs.report(format="markdown"))


def test_each_agent_has_a_program_and_a_protocol() -> None:
    assert len({agent.program for agent in AGENTS}) == 9
    assert len({agent.name for agent in AGENTS}) == 9
    assert {agent.dialect for agent in AGENTS} == {dialect.name for dialect in DIALECTS}
    others = {agent.name: agent.api for agent in AGENTS if agent.api != "openai"}
    assert others == {"claude-code": "anthropic", "gemini-cli": "gemini"}


CLAUDE = "anthropic/claude-sonnet-4-5-20250929@claude-code"


def validated_config(*texts: str, **changes: Any) -> RunConfig:
    known_formats = (*format_names(), *(agent.name for agent in AGENTS))
    models = tuple(ModelChoice.parse(text, formats=known_formats) for text in texts)
    return validate_config(config(models=models, replay=None, **changes))


def test_models_and_their_agents_are_chosen_together() -> None:
    mixed = validated_config(CLAUDE, "gpt-5.1-codex@codex")
    assert mixed.named_agents == ("claude-code", "codex")
    assert mixed.agent_sandbox is AgentSandbox.MODEL and mixed.calls_models
    assert validated_config("gpt-4o", agent="goose").named_agents == ("goose",)
    assert validated_config("deepseek/deepseek-chat", agent="goose")
    closed = validated_config("gpt-4o", agent="goose", agent_sandbox="closed")
    assert closed.agent_sandbox is AgentSandbox.MODEL
    opened = validated_config("gpt-4o", agent="goose", agent_sandbox="open")
    assert opened.agent_sandbox is AgentSandbox.NETWORK


@pytest.mark.parametrize(
    ("models", "changes", "problem"),
    [
        (["gpt-5.1-codex@codex", "gpt-4o@diff"], {}, "give gpt-4o an agent too"),
        (["gpt-4o@goose", "gpt-4o@diff"], {}, "give gpt-4o an agent too"),
        (
            ["gpt-4o"],
            {"agent": "claude-code"},
            "speaks the protocol messages, and gpt-4o",
        ),
        (
            ["deepseek/deepseek-chat"],
            {"agent": "codex"},
            "responses, and deepseek/deepseek-chat",
        ),
        (["gpt-5.1-codex@codex"], {"agent": "goose"}, "differ; give one agent"),
        (
            ["gpt-4o"],
            {"agent": "goose", "agent_env": ("ANTHROPIC_API_KEY",)},
            "gets no keys of providers",
        ),
    ],
)
def test_models_and_agents_that_do_not_fit_are_refused(
    models: list[str], changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        validated_config(*models, **changes)
