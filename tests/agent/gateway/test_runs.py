"""Whole runs of coding agents through the gateway, in the sandbox, against a stub of providers."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree

import pytest

from swe_retry.attempts.config import ModelChoice
from swe_retry.core.errors import UserError
from swe_retry.demo.setup import DEMO_DATASET, build_mirrors
from swe_retry.environments.base import EnvironmentKind
from swe_retry.report.verify import verify_command
from tests.agent.gateway.conftest import (
    COSTS,
    EDIT,
    ID,
    NEW,
    GatewayRuns,
    agent_config,
    cost_of,
    needs_bubblewrap,
)
from tests.fixtures import ShareVenvs
from tests.support import read_json
from tests.support.dialects import DIALECTS, MODELS
from tests.support.runs import but

KEY_HEADERS = {
    "messages": "x-api-key",
    "chat": "authorization",
    "responses": "authorization",
    "gemini": "x-goog-api-key",
}


@needs_bubblewrap
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("options", [("stream",), ()])
def test_an_agent_edits_through_the_gateway_and_is_replayed_without_a_provider(
    runs: GatewayRuns, dialect: str, options: tuple[str, ...]
) -> None:
    with runs.serve() as stub:
        prediction = runs.solve(agent_config(dialect, *options))
    assert prediction["status"] == "plausible", prediction["reason"]
    assert NEW in prediction["model_patch"]
    assert stub.billed == len(stub.requests) == len(runs.ledger()) == 2
    assert cost_of(prediction) == 2 * COSTS[dialect]
    assert "sk-sentinel-" in stub.headers[0][KEY_HEADERS[dialect]]
    (attempt,) = runs.attempts()
    messages = attempt["messages"]
    roles = [message["role"] for message in messages]
    assert roles[0] == "user"
    assert roles[-1] == "assistant"
    assert "tool" in roles
    assert messages[-1]["content"] == "It is done."
    calls = []
    for message in messages:
        calls.extend(message.get("tool_calls", []))
    assert [call["name"] for call in calls] == ["replace"]
    replayed = agent_config(dialect, *options, run="again")
    again = runs.solve(but(replayed, replay=runs.recorded))
    assert again["model_patch"] == prediction["model_patch"]
    assert len(stub.requests) == 2


@needs_bubblewrap
@pytest.mark.parametrize("dialect", DIALECTS[:2])
def test_reports_read_what_an_agent_did(runs: GatewayRuns, dialect: str) -> None:
    with runs.serve():
        runs.solve(agent_config(dialect, "stream"))
    assert "nothing differs" in runs.report()[-1]
    exported = runs.export_atif()
    assert exported["schema_version"] == "ATIF-v1.8"
    steps = exported["subagent_trajectories"][0]["steps"]
    assert [step["source"] for step in steps] == ["user", "agent", "agent"]
    (call,) = steps[1]["tool_calls"]
    assert call["arguments"] == EDIT
    assert not steps[2].get("tool_calls")
    assert "replaced" in json.dumps(steps[1]["observation"])
    # Versions before 0.13 marked answers that litellm had translated.
    path = runs.recorded / f"trajectories/{ID}.json"
    text = path.read_text()
    path.write_text(text.replace('"body": ', '"translated": true, "body": '))
    assert path.read_text() != text
    lines: list[str] = []
    verify_command([runs.recorded], lines.append)
    assert "that of its journal" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("dialect", "model"),
    [
        ("messages", "responses"),
        ("messages", "gemini"),
        ("chat", "messages"),
        ("responses", "messages"),
        ("gemini", "chat"),
    ],
)
def test_a_model_whose_provider_speaks_another_protocol_is_refused(
    runs: GatewayRuns, dialect: str, model: str
) -> None:
    models = (ModelChoice.parse(MODELS[model]),)
    with runs.serve() as stub, pytest.raises(UserError) as error:
        runs.solve(agent_config(dialect, models=models))
    problem = str(error.value)
    assert "speaks the protocol" in problem
    assert problem.endswith("choose another model or another agent")
    assert not stub.requests


@needs_bubblewrap
def test_instances_of_one_commit_share_their_environment_and_baselines(
    runs: GatewayRuns, tmp_path: Path, share_venvs: ShareVenvs
) -> None:
    ids = [f"demo__textkit-{number}" for number in (101, 102)]
    tasks = tmp_path / "set/tasks"
    for name in ids:
        copytree(DEMO_DATASET / "tasks" / ID, tasks / name)
        row = tasks / name / "task.yaml"
        row.write_text(row.read_text().replace(ID, name))
    runs.cache = tmp_path / "cache"
    share_venvs(runs.cache / "environments")
    chosen = agent_config("chat", environment=EnvironmentKind.LOCAL)
    mirrors = build_mirrors(tmp_path / "mirrors")
    dataset = str(tasks.parent)
    with runs.serve() as stub:
        runs.start(chosen, dataset=dataset, ids=ids, repos=mirrors, workers=2)
    assert len(stub.requests) == 4
    for name in ids:
        status = read_json(runs.recorded / f"{name}.json")["status"]
        assert status == "plausible"
    assert len(list(runs.cache.glob("environments/instances/*/.complete"))) == 1
    assert len(list(runs.cache.glob("baselines/*.json"))) == 2
