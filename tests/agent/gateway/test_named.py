"""The coding agents of others, through the gateway in the sandbox; and how they are chosen."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent.gateway.dialects import DIALECTS
from agent.named import AGENTS
from agent.named.base import NamedAgent
from bench.config import ModelChoice, RunConfig, validate_config
from core.errors import UserError
from environments.base import AgentSandbox
from reports.report import report_command
from reports.verify import verify_command
from runs.calls.budget import BudgetLimits
from runs.settings import Spending
from tests.agent.gateway.test_runs import (
    COSTS,
    ID,
    NEW,
    TURNS,
    attempt_of,
    ledger_of,
    needs_bubblewrap,
    served,
    solve,
)
from tests.agent.gateway.test_runs import keys as keys  # a fixture
from tests.support.dialects import AGENT, MODELS, Fault, Turn
from tests.support.evaluated import report_settings
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


def of(agent: NamedAgent, **changes: Any) -> RunConfig:
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
    if not shutil.which(request.param.program):
        pytest.skip(f"{request.param.name} is not installed: {request.param.install}")
    found: NamedAgent = request.param
    return found


@needs_bubblewrap
@pytest.mark.agents
def test_a_real_agent_edits_at_an_exact_cost_and_is_replayed_without_a_provider(
    agent: NamedAgent,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(monkeypatch, turns=turns_of(agent)) as stub:
        found = solve(of(agent), tmp_path, cache)
    assert found["status"] == "plausible", (found["reason"], log_of(tmp_path))
    assert NEW in found["model_patch"]
    assert stub.billed == len(ledger_of(tmp_path)) >= 1
    assert Decimal(str(found["cost"])) == stub.billed * COSTS[dialect_of(agent)]
    folder = tmp_path / "predictions/r"
    said = list[str]()
    report_command([folder], report_settings(cache, page=True), said.append)
    assert verify_command([folder], said.append) == 0, said
    again = but(of(agent, run="again"), replay=tmp_path / "predictions/r")
    solve(again, tmp_path, cache)
    replayed = json.loads((tmp_path / "predictions/again" / f"{ID}.json").read_text())
    assert replayed["model_patch"] == found["model_patch"], replayed["reason"]
    assert stub.billed == len(attempt_of(tmp_path)["calls"])


@needs_bubblewrap
@pytest.mark.agents
def test_a_budget_stops_a_real_agent(
    agent: NamedAgent,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = BudgetLimits(usd=Decimal("0.000001"))
    with served(monkeypatch, turns=turns_of(agent)) as stub:
        started = time.monotonic()
        solve_to_nothing(of(agent), tmp_path, cache, money=Spending(limits))
        assert time.monotonic() - started < 60, (
            "its start, a refused call, and ten seconds"
        )
    assert not stub.requests


@needs_bubblewrap
@pytest.mark.agents
def test_a_dead_provider_is_a_failure_of_the_infrastructure(
    agent: NamedAgent,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(monkeypatch, *[Fault(500)] * 500, turns=turns_of(agent)):
        said = solve_to_nothing(of(agent), tmp_path, cache)
    assert said["status"] == "infra_error", said


def solve_to_nothing(
    chosen: RunConfig,
    tmp_path: Path,
    cache: Path,
    **changes: Any,
) -> dict[str, Any]:
    with suppress(FileNotFoundError):
        solve(chosen, tmp_path, cache, **changes)
    found: dict[str, Any] = json.loads(
        (tmp_path / f"logs/r/{ID}.unfinished.json").read_text(),
    )
    return found


def log_of(tmp_path: Path) -> str:
    return (tmp_path / "logs" / "r" / f"{ID}.log").read_text()[-3000:]


@needs_bubblewrap
def test_reports_name_the_agent_and_agree_with_its_ledger(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of an agent is our small one here."""
    python = str(Path(sys.executable).resolve())
    place = tmp_path / "bin/qwen"
    place.parent.mkdir()
    place.write_text(
        f'#!/bin/sh\nexec {python} {AGENT} chat "$OPENAI_MODEL" "$7" stream\n'
    )
    place.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place.parent}:{os.environ['PATH']}")
    (agent,) = (one for one in AGENTS if one.name == "qwen-code")
    shown = (AGENT, place)
    small = replace(agent, argv=("qwen", *["-"] * 6, "{message_file}"))
    monkeypatch.setattr("agent.agents.named_agent", {"qwen-code": small}.get)
    with served(monkeypatch, turns=TURNS):
        found = solve(of(agent, agent_sandbox_read=shown, tries=1), tmp_path, cache)
    assert found["status"] == "plausible", log_of(tmp_path)
    folder = tmp_path / "predictions/r"
    said = list[str]()
    report_command(
        [folder], report_settings(cache, page=True), said.append, format="markdown"
    )
    assert "gpt-4o@qwen-code" in "\n".join(said)
    assert verify_command([folder], said.append) == 0, said


def test_each_agent_has_a_program_and_a_protocol() -> None:
    assert (
        len({agent.program for agent in AGENTS})
        == len({agent.name for agent in AGENTS})
        == 9
    )
    assert {agent.dialect for agent in AGENTS} == {dialect.name for dialect in DIALECTS}
    assert {agent.name: agent.api for agent in AGENTS if agent.api != "openai"} == {
        "claude-code": "anthropic",
        "gemini-cli": "gemini",
    }


def test_models_and_their_agents_are_chosen_together() -> None:
    names = tuple(agent.name for agent in AGENTS)

    def chosen(*texts: str, **changes: Any) -> RunConfig:
        from agent.formats import format_names

        known = (*format_names(), *names)
        models = tuple(ModelChoice.parse(text, formats=known) for text in texts)
        return validate_config(config(models=models, replay=None, **changes))

    mixed = chosen(
        "anthropic/claude-sonnet-4-5-20250929@claude-code", "gpt-5.1-codex@codex"
    )
    assert mixed.named_agents == ("claude-code", "codex")
    assert mixed.agent_sandbox is AgentSandbox.MODEL and mixed.calls_models
    assert chosen("gpt-4o", agent="goose").named_agents == ("goose",)
    with pytest.raises(UserError, match="give gpt-4o an agent too"):
        chosen("gpt-5.1-codex@codex", "gpt-4o@diff")
    with pytest.raises(UserError, match="speaks the protocol messages, and gpt-4o"):
        chosen("gpt-4o", agent="claude-code")
    with pytest.raises(UserError, match="responses, and deepseek/deepseek-chat"):
        chosen("deepseek/deepseek-chat", agent="codex")
    assert chosen("deepseek/deepseek-chat", agent="goose")
    with pytest.raises(UserError, match="give gpt-4o an agent too"):
        chosen("gpt-4o@goose", "gpt-4o@diff")
    with pytest.raises(UserError, match="differ; give one agent"):
        chosen("gpt-5.1-codex@codex", agent="goose")
    with pytest.raises(UserError, match="gets no keys of providers"):
        chosen("gpt-4o", agent="goose", agent_env=("ANTHROPIC_API_KEY",))
    closed = chosen("gpt-4o", agent="goose", agent_sandbox="closed")
    assert closed.agent_sandbox is AgentSandbox.MODEL
    opened = chosen("gpt-4o", agent="goose", agent_sandbox="open")
    assert opened.agent_sandbox is AgentSandbox.NETWORK
