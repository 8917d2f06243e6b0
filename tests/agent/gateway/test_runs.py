"""Whole runs of coding agents through the gateway, in the sandbox, against a stub of providers."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice, RunConfig
from core.errors import UserError
from environments.local.bubblewrap import bubblewrap_works
from llm.provider_errors import RetryPolicy
from reports.foreign.export import export_command
from reports.foreign.layouts import ExportLayout
from reports.report import report_command
from reports.verify import verify_command
from runs.calls.ledger import read_ledger
from runs.storage.store import RunStore
from tests.support.dialects import (
    ADDRESSES,
    AGENT,
    APIS,
    DIALECTS,
    KEYS,
    MODELS,
    Fault,
    Stub,
    Turn,
)
from tests.support.evaluated import report_settings
from tests.support.runs import but, config, options, read

needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap_works(), reason="bubblewrap is not installed"
)
ID = "demo__textkit-1"
OLD = "        else:"
NEW = "        elif letters and letters[-1] != '-':"
EDIT = {"path": "textkit/slug.py", "old": OLD, "new": NEW}
TURNS = (Turn("I edit.", ("replace", EDIT)), Turn("It is done."))
# By litellm's prices, computed by hand.
COSTS = {
    "messages": Decimal("0.00459"),
    "chat": Decimal("0.003875"),  # 1,200 plain, 300 cached
    "responses": Decimal("0.0020375"),
    "gemini": Decimal("0.0020375"),
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, f"sk-sentinel-{name}")


@contextmanager
def served(
    monkeypatch: pytest.MonkeyPatch,
    *faults: Fault,
    turns: tuple[Turn, ...] = TURNS,
) -> Iterator[Stub]:
    with Stub(turns, faults) as stub:
        for name in ADDRESSES:
            monkeypatch.setenv(name, stub.url)
        yield stub


def agent_of(
    dialect: str,
    *words: str,
    **changes: Any,
) -> RunConfig:
    argv = [
        str(Path(sys.executable).resolve()),
        str(AGENT),
        dialect,
        "{model}",
        "{message_file}",
    ]
    values: dict[str, Any] = {
        "agent": f"command:{shlex.join([*argv, *words])}",
        "models": (ModelChoice.parse(MODELS[dialect]),),
        "replay": None,
        "tries": 1,
        "agent_timeout": 60,
        "agent_api": (APIS[dialect],),
        "agent_sandbox": "closed",
        "agent_sandbox_read": (AGENT,),
        **changes,
    }
    return config(**values)


def solve(
    chosen: RunConfig,
    tmp_path: Path,
    cache: Path,
    **changes: Any,
) -> dict[str, Any]:
    quick = {"retries": RetryPolicy(attempts=3, first_wait=0.05), **changes}
    run_command(chosen, options(tmp_path, cache, ID, **quick), lambda _: None)
    return read(tmp_path, ID)


def attempt_of(tmp_path: Path) -> dict[str, Any]:
    (found,) = read(tmp_path, ID, "trajectories")["attempts"]
    return found


def ledger_of(tmp_path: Path) -> list[Any]:
    return [*read_ledger(RunStore(tmp_path, "r").ledger).values]


@needs_bubblewrap
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("words", [("stream",), ()])
def test_an_agent_edits_through_the_gateway_and_is_replayed_without_a_provider(
    dialect: str,
    words: tuple[str, ...],
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(monkeypatch) as stub:
        found = solve(agent_of(dialect, *words), tmp_path, cache)
    assert found["status"] == "plausible", found["reason"]
    assert NEW in found["model_patch"]
    assert stub.billed == len(stub.requests) == len(ledger_of(tmp_path)) == 2
    assert Decimal(str(found["cost"])) == 2 * COSTS[dialect]
    key = {"messages": "x-api-key", "gemini": "x-goog-api-key"}.get(
        dialect, "authorization"
    )
    assert "sk-sentinel-" in stub.headers[0][key]
    attempt = attempt_of(tmp_path)
    roles = [message["role"] for message in attempt["messages"]]
    assert (roles[0], roles[-1]) == ("user", "assistant") and "tool" in roles
    assert attempt["messages"][-1]["content"] == "It is done."
    calls = [c for m in attempt["messages"] for c in m.get("tool_calls", [])]
    assert [call["name"] for call in calls] == ["replace"]
    recorded = but(
        agent_of(dialect, *words, run="again"), replay=tmp_path / "predictions" / "r"
    )
    solve(recorded, tmp_path, cache)
    again = json.loads((tmp_path / "predictions/again" / f"{ID}.json").read_text())
    assert again["model_patch"] == found["model_patch"]
    assert len(stub.requests) == 2


@needs_bubblewrap
@pytest.mark.parametrize("dialect", DIALECTS[:2])
def test_reports_read_what_an_agent_did(
    dialect: str,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(monkeypatch):
        solve(agent_of(dialect, "stream"), tmp_path, cache)
    folder = tmp_path / "predictions/r"
    said = list[str]()
    report_command([folder], report_settings(cache, page=True), said.append)
    assert verify_command([folder], said.append) == 0, said
    assert "nothing differs" in said[-1]
    out = tmp_path / "atif"
    export_command(folder, ExportLayout.ATIF, out, said.append)
    (path,) = out.rglob("*.json")
    exported = json.loads(path.read_text())
    steps = exported["subagent_trajectories"][0]["steps"]
    calls = [call for step in steps for call in step.get("tool_calls") or ()]
    assert exported["schema_version"] == "ATIF-v1.8"
    assert [call["arguments"] for call in calls] == [EDIT]
    assert [s["source"] for s in steps] == ["user", "agent", "agent"]
    assert "replaced" in json.dumps(steps[1]["observation"])
    # Versions before 0.13 marked answers that litellm had translated.
    path = folder / f"trajectories/{ID}.json"
    text = path.read_text()
    path.write_text(text.replace('"body": ', '"translated": true, "body": '))
    assert path.read_text() != text
    said.clear()
    verify_command([folder], said.append)
    assert not [line for line in said if "that of its journal" in line]


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
    dialect: str,
    model: str,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = (ModelChoice.parse(MODELS[model]),)
    with (
        served(monkeypatch) as stub,
        pytest.raises(UserError, match="speaks the protocol") as said,
    ):
        solve(agent_of(dialect, models=models), tmp_path, cache)
    assert str(said.value).endswith("choose another model or another agent")
    assert not stub.requests
