"""The coding agents of others, through the gateway in the sandbox; and how they are chosen."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.formats import format_names
from swe_retry.agent.named import AGENTS
from swe_retry.agent.named.description import NamedAgent
from swe_retry.agent.named.installed import agent_in_path, cached_agent
from swe_retry.attempts.config import ModelChoice, RunConfig, validate_config
from swe_retry.core.errors import UserError
from swe_retry.environments.base import AgentSandbox
from swe_retry.runner.settings import Spending, default_cache
from tests.agent.gateway.conftest import (
    BY_NAME,
    COSTS,
    NEW,
    PYTHON,
    GatewayRuns,
    cost_of,
    needs_bubblewrap,
)
from tests.support import read_json
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


def config_of(agent: NamedAgent, /, **changes: Any) -> RunConfig:
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
def agent(request: pytest.FixtureRequest, runs: GatewayRuns) -> NamedAgent:
    named: NamedAgent = request.param
    cache = default_cache()
    if not (cached_agent(named, cache) or agent_in_path(named)):
        pytest.skip(f"{named.name} is not installed: harness.py install {named.name}")
    runs.use_installed(cache)
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
    assert cost_of(prediction) == stub.billed * COSTS[dialect_of(agent)]
    runs.report()
    again = runs.solve(but(config_of(agent, run="again"), replay=runs.recorded))
    assert again["model_patch"] == prediction["model_patch"], again["reason"]
    (attempt,) = runs.attempts()
    assert stub.billed == len(attempt["calls"])


@needs_bubblewrap
@pytest.mark.agents
def test_a_budget_stops_a_real_agent(runs: GatewayRuns, agent: NamedAgent) -> None:
    money = Spending(usd=Decimal("0.000001"))
    with runs.serve(turns=turns_of(agent)) as stub:
        started = time.monotonic()
        runs.fail(config_of(agent), money=money)
        # Its start, a refused call, and ten seconds; it would go on for more than 200.
        assert time.monotonic() - started < 150
    assert not stub.requests


@needs_bubblewrap
@pytest.mark.agents
def test_a_dead_provider_is_a_failure_of_the_infrastructure(
    runs: GatewayRuns, agent: NamedAgent
) -> None:
    # Most do not end before: the run waits for the provider, and their call with it.
    limited = config_of(agent, agent_timeout=100)
    with runs.serve(*[Fault(500)] * 500, turns=turns_of(agent)) as stub:
        note = runs.fail(limited)
    assert note["status"] == "infra_error", note
    assert stub.requests


def install_small(runs: GatewayRuns, version: str) -> None:
    """Put our small agent into the cache as a version of qwen-code, which shows its home."""
    program = runs.cache / "agents/qwen-code" / version / "bin/qwen"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\nmessage=$1; shift; echo "arguments: $*"\n'
        "head ~/.qwen/* ~/skills/* ~/.gateway/*\n"
        f'exec {PYTHON} {AGENT} chat "$OPENAI_MODEL" "$message" stream\n'
    )
    program.chmod(0o755)
    current = program.parents[2] / "current"
    current.unlink(missing_ok=True)
    current.symlink_to(version)


@needs_bubblewrap
def test_an_agent_has_arguments_a_home_and_a_version(
    runs: GatewayRuns, tmp_path: Path
) -> None:
    # The agents of the session's cache may be those of the user.
    runs.cache = tmp_path / "cache"
    (qwen,) = [agent for agent in AGENTS if agent.name == "qwen-code"]
    small = replace(qwen, line='qwen "$message_file" "$@"')
    runs.monkeypatch.setattr("swe_retry.agent.agents.named_agent", lambda _: small)
    home = tmp_path / "configuration"
    settings: dict[str, Any] = {"mcpServers": {"x": {}}}
    for name, text in {
        ".qwen/settings.json": json.dumps(settings),
        ".qwen/output-language.md": "Answer in French.",
        "skills/x.md": "a skill",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    chosen = config_of(
        qwen,
        agent="qwen-code --effort 'very high'",
        agent_home=home,
        agent_sandbox_read=(AGENT,),
    )
    install_small(runs, "9.9.9")
    lines: list[str] = []
    with runs.serve() as stub:
        prediction = runs.solve(chosen, say=lines.append)
    assert prediction["status"] == "plausible", runs.log()
    assert any("qwen-code 9.9.9 is not the tested" in line for line in lines)
    log = runs.log()
    assert "arguments: --effort very high" in log
    assert "a skill" in log
    assert "Answer in French." in log
    assert json.dumps(settings) in log, "the user's is as it was"
    assert '"selectedType": "openai"' in log, "and ours is elsewhere"
    # What is recorded of it.
    described = read_json(runs.recorded / "run.json")
    assert described["config"]["agent"] == "qwen-code --effort 'very high'"
    assert set(described["deciding"]["agent_home"]) == {
        ".qwen/settings.json",
        ".qwen/output-language.md",
        "skills/x.md",
    }
    assert described["versions"]["qwen-code"] == "9.9.9"
    assert prediction["agent_version"] == "9.9.9"
    assert runs.attempts()[0]["agent_version"] == "9.9.9"
    assert "gpt-4o@qwen-code" in "\n".join(runs.report(format="markdown"))
    program = runs.export_atif()["subagent_trajectories"][0]["agent"]
    assert program["name"] == "qwen-code"
    assert program["version"] == "9.9.9"
    # Another version, and other files of the home.
    install_small(runs, "9.9.10")
    lines.clear()
    replayed = but(chosen, run="again", replay=runs.recorded)
    again = runs.solve(replayed, say=lines.append)
    assert again["model_patch"] == prediction["model_patch"]
    assert len(stub.requests) == 2
    assert any("qwen-code 9.9.10 is not the recorded 9.9.9" in line for line in lines)
    (home / "skills/x.md").write_text("another skill")
    with pytest.raises(UserError, match=r"agent\.home \(its files\)"):
        runs.solve(but(chosen))
    with pytest.raises(UserError, match=r"agent\.home .*/nowhere: there is no"):
        runs.solve(but(chosen, run="other", agent_home=tmp_path / "nowhere"))


def test_each_agent_has_a_program_and_a_protocol() -> None:
    assert len({agent.program for agent in AGENTS}) == 9
    assert len({agent.name for agent in AGENTS}) == 9
    assert {agent.dialect for agent in AGENTS} == set(BY_NAME)
    apis = {agent.name: agent.api for agent in AGENTS}
    assert apis.pop("claude-code") == "anthropic"
    assert apis.pop("gemini-cli") == "gemini"
    assert set(apis.values()) == {"openai"}


CLAUDE = "anthropic/claude-sonnet-4-5-20250929@claude-code"


def validated_config(*texts: str, **changes: Any) -> RunConfig:
    formats = [*format_names(), *(agent.name for agent in AGENTS)]
    models = [ModelChoice.parse(text, formats=formats) for text in texts]
    run_config = config(models=tuple(models), replay=None, **changes)
    return validate_config(run_config)


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
    ("agent", "api", "sandbox", "network"),
    [
        ("goose", (), None, AgentSandbox.MODEL),
        ("goose --debug", (), None, AgentSandbox.MODEL),
        ("command:true", ("openai",), None, AgentSandbox.MODEL),
        ("command:true", ("openai",), "none", None),
        ("goose", (), "none", None),
        ("command:true", (), None, None),
        ("command:true", (), "closed", AgentSandbox.OFFLINE),
        ("builtin", ("openai",), None, None),
    ],
)
def test_an_agent_behind_the_gateway_is_shut_in_by_default(
    agent: str, api: tuple[str, ...], sandbox: str | None, network: AgentSandbox | None
) -> None:
    chosen = validated_config(
        "gpt-4o", agent=agent, agent_api=api, agent_sandbox=sandbox
    )
    assert chosen.agent_sandbox is network


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
