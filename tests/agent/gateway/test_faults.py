"""What agents and providers do wrong: nothing is paid twice, lost, shown or reached by it."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent.gateway import gateway as gateway_module
from bench.cli.commands import run_command
from bench.config import RunConfig, validate_config
from core.errors import UserError
from llm.gate import OpenGate
from reports.foreign.export import export_command
from reports.foreign.layouts import ExportLayout
from runs.calls.budget import BudgetLimits
from runs.calls.ledger import LedgerLine
from runs.modelsource import ReplayedModels
from runs.settings import Spending
from tests.agent.gateway.test_runs import (
    COSTS,
    ID,
    NEW,
    OLD,
    TURNS,
    agent_of,
    attempt_of,
    ledger_of,
    needs_bubblewrap,
    served,
    solve,
)
from tests.agent.gateway.test_runs import keys as keys  # a fixture
from tests.support import command_lines, wait_until
from tests.support.commands import Preloaded
from tests.support.dialects import AGENT, DIALECTS, KEYS, MODELS, Fault, Turn
from tests.support.runs import but, config, options

pytestmark = needs_bubblewrap


def failed(
    chosen: RunConfig,
    tmp_path: Path,
    cache: Path,
    **changes: Any,
) -> str:
    """Return the reason of an instance that must be done again."""
    with pytest.raises(FileNotFoundError):
        solve(chosen, tmp_path, cache, **changes)
    found = json.loads((tmp_path / f"logs/r/{ID}.unfinished.json").read_text())
    assert found["status"] == "infra_error"
    return str(found["reason"])


def billed(tmp_path: Path) -> list[LedgerLine]:
    return ledger_of(tmp_path)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_errors_that_pass_are_tried_again_by_the_gateway(
    dialect: str,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = (Fault(429, {"retry-after": "0.1"}), Fault(500), Fault(), Fault(529))
    with served(monkeypatch, *faults) as stub:
        found = solve(agent_of(dialect, "stream"), tmp_path, cache)
    assert found["status"] == "plausible"
    assert (len(stub.requests), stub.billed, len(billed(tmp_path))) == (5, 2, 2)


@pytest.mark.parametrize("fault", [Fault(broken=True), Fault(error_event=True)])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_that_breaks_off_is_booked_and_used_by_nobody(
    dialect: str,
    fault: Fault,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(monkeypatch, fault) as stub:
        found = solve(agent_of(dialect, "stream", "loop"), tmp_path, cache)
    assert found["status"] == "plausible"
    lines = billed(tmp_path)
    assert (stub.billed, len(lines)) == (3, 3)
    assert [line.kind for line in lines] == ["failed", "answered", "answered"]
    assert lines[0].cost is not None and lines[0].cost > COSTS[dialect], "its bound"


@pytest.mark.parametrize("dialect", ["messages", "chat"])
def test_an_agent_that_hangs_up_pays_for_the_whole_answer(
    dialect: str,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(
        monkeypatch, turns=(Turn("word " * 200, TURNS[0].tool), TURNS[1])
    ) as stub:
        found = solve(agent_of(dialect, "stream", "hang-up"), tmp_path, cache)
    assert found["status"] == "plausible"
    assert [line.kind for line in billed(tmp_path)] == ["answered"] * stub.billed
    assert stub.billed == 3
    assert Decimal(str(found["cost"])) == 3 * COSTS[dialect]


def test_fifty_calls_at_once_are_each_answered_and_booked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(monkeypatch) as stub:
        found = solve(agent_of("messages", "stream", "burst=50"), tmp_path, cache)
    assert found["status"] == "plausible", found["reason"]
    assert stub.billed == len(stub.requests) == len(billed(tmp_path)) == 52
    folder = tmp_path / "predictions/r"
    out = tmp_path / "atif"
    export_command(folder, ExportLayout.ATIF, out, lambda _: None)
    (whole,) = (json.loads(path.read_text()) for path in out.rglob("*.json"))
    (attempt,) = whole["subagent_trajectories"]
    lanes = [attempt, *attempt["subagent_trajectories"]]
    assert len({lane["trajectory_id"] for lane in lanes}) == 51
    assert sorted(len(lane["steps"]) for lane in lanes) == [2] * 50 + [3]
    metrics = [
        step["metrics"] for lane in lanes for step in lane["steps"] if "metrics" in step
    ]
    assert len(metrics) == 52, "each answer has its tokens and its cost"


@pytest.mark.parametrize("dialect", ["messages", "gemini"])
def test_another_model_is_refused_and_an_agent_that_loops_is_ended(
    dialect: str,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway_module, "GRACE", 1.0)
    started = time.monotonic()
    with served(monkeypatch) as stub:
        reason = failed(
            agent_of(dialect, "stream", "loop", "model=dear"), tmp_path, cache
        )
    assert "requests failed in turn" in reason and "alone, not 'dear'" in reason
    assert time.monotonic() - started < 300, "it may run for half an hour"
    assert not stub.requests


@pytest.mark.parametrize("words", [("stream",), ("stream", "loop")])
def test_a_budget_ends_an_attempt_in_its_middle(
    words: tuple[str, ...],
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway_module, "GRACE", 1.0)
    money = Spending(BudgetLimits(calls=1))
    with served(monkeypatch) as stub:
        found = solve(agent_of("messages", *words), tmp_path, cache, money=money)
    assert found["status"] == "plausible", "what it did until then counts"
    assert "budget.calls: 1 of 1 calls" in attempt_of(tmp_path)["error"]
    assert stub.billed == 1


def test_a_reservation_that_does_not_fit_is_not_sent(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    money = Spending(BudgetLimits(usd=Decimal("0.0001")))
    with served(monkeypatch) as stub, pytest.raises(FileNotFoundError):
        solve(agent_of("responses"), tmp_path, cache, money=money)
    assert not stub.requests


def test_the_calls_of_an_attempt_are_limited_and_the_next_attempt_has_its_own(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = agent_of("chat", "stream", max_calls_per_attempt=1, tries=2)
    with served(monkeypatch) as stub:
        found = solve(chosen, tmp_path, cache)
    attempts = read_attempts(tmp_path)
    assert [attempt["status"] for attempt in attempts] == ["timeout", "timeout"]
    assert "agent.max_calls: all calls" in attempts[0]["error"]
    assert NEW in found["model_patch"] and stub.billed == 2


def read_attempts(tmp_path: Path) -> list[dict[str, Any]]:
    text = (tmp_path / f"predictions/r/trajectories/{ID}.json").read_text()
    found: list[dict[str, Any]] = json.loads(text)["attempts"]
    return found


@pytest.mark.parametrize("dialect", ["messages", "gemini"])
def test_a_dead_provider_is_a_failure_of_the_infrastructure(
    dialect: str,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(monkeypatch, *[Fault(500)] * 9):
        assert "did not answer" in failed(agent_of(dialect, "stream"), tmp_path, cache)


def test_a_refused_key_ends_the_run(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        served(monkeypatch, Fault(401)),
        pytest.raises(UserError, match="check the key"),
    ):
        solve(agent_of("messages"), tmp_path, cache)


def test_a_request_that_is_refused_after_an_answer_does_not_end_the_run(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(monkeypatch, Fault(), Fault(404), Fault(403)) as stub:
        found = solve(agent_of("messages", "stream", "loop"), tmp_path, cache)
    assert found["status"] == "plausible" and len(stub.requests) == 4


def test_no_call_begins_after_the_agent_has_ended(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = (Fault(), *[Fault(429, {"retry-after": "1"})] * 3)
    with served(monkeypatch, *faults) as stub:
        chosen = agent_of("messages", "burst=2", "hurry")
        run_command(chosen, options(tmp_path, cache, ID), lambda _: None)
        seen = len(stub.requests)
        time.sleep(2.5)
        assert len(stub.requests) == seen
    assert stub.billed == len(billed(tmp_path))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_of_the_provider_are_removed_and_counted(
    dialect: str,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for allowed, run in ((False, "r"), (True, "allowed")):
        with served(monkeypatch) as stub:
            solve(
                agent_of(dialect, "web", run=run, agent_allow_web=allowed),
                tmp_path,
                cache,
            )
        asked = json.dumps(stub.requests).lower().replace("_", "")
        assert ("websearch" in asked or "googlesearch" in asked) == allowed
    assert " removed from 2 requests" in (tmp_path / f"logs/r/{ID}.log").read_text()


def test_the_agent_reaches_nothing_but_the_gateway_and_sees_no_key(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(monkeypatch) as stub:
        port = stub.server.server_address[1]
        found = solve(agent_of("messages", f"probe={port}"), tmp_path, cache)
    assert found["status"] == "plausible"
    said = (tmp_path / f"logs/r/{ID}.log").read_text()
    line = next(line for line in said.splitlines() if '"metadata"' in line)
    probe = json.loads(line)
    assert "connected" not in (probe["metadata"], probe["stub"], probe["name"])
    assert "sk-sentinel" not in probe["environment"]
    interfaces = [
        line.split(":")[0].strip() for line in probe["counters"].splitlines()[2:]
    ]
    assert interfaces == ["lo"], "so no byte can leave"
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not any(b"sk-sentinel" in path.read_bytes() for path in written)
    assert all(os.environ[name].startswith("sk-sentinel") for name in KEYS)


def test_findings_go_back_to_the_agent_in_the_same_checkout(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"path": "textkit/slug.py", "old": OLD, "new": f"{OLD} broken("}
    fixed = {"path": "textkit/slug.py", "old": f"{OLD} broken(", "new": NEW}
    for feedback, status in ((0, "fallback"), (1, "plausible")):
        run = f"feedback-{feedback}"
        with served(
            monkeypatch, turns=(Turn("I break.", ("replace", broken)), TURNS[1])
        ) as stub:
            stub.after(
                "not finished yet", (Turn("I fix.", ("replace", fixed)), TURNS[1])
            )
            chosen = agent_of("messages", "stream", run=run, feedback=feedback)
            run_command(chosen, options(tmp_path, cache, ID), lambda _: None)
        found = json.loads((tmp_path / f"predictions/{run}/{ID}.json").read_text())
        assert found["status"] == status
        assert stub.billed == 2 + 2 * feedback
    with served(
        monkeypatch, turns=(Turn("I break.", ("replace", broken)), TURNS[1])
    ) as other:
        limit = agent_of("chat", run="limit", feedback=3, max_calls_per_attempt=3)
        run_command(limit, options(tmp_path, cache, ID), lambda _: None)
    assert other.billed == 3, "of all sessions of the attempt"
    asked = json.dumps(stub.requests[2])
    assert "linter finds new problems" in asked and "slugify: runs of dashes" in asked


def test_what_an_agent_did_before_it_was_killed_is_booked_and_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(monkeypatch) as stub:
        found = solve(agent_of("messages", "stream", "killed"), tmp_path, cache)
    assert (found["status"], attempt_of(tmp_path)["status"]) == ("error", "error")
    assert "the agent ended with exit code 137" in attempt_of(tmp_path)["error"]
    assert NEW in found["model_patch"] and len(billed(tmp_path)) == stub.billed == 1
    assert Decimal(str(found["cost"])) == COSTS["messages"]


def test_no_process_of_an_agent_outlives_its_attempt(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"daemon-{secrets.token_hex(8)}"
    with served(monkeypatch):
        found = solve(agent_of("messages", f"daemon={name}"), tmp_path, cache)
    assert found["status"] == "plausible"
    lines = (read_or_nothing(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    assert not [line for line in lines if name.encode() in line]


def test_an_interrupt_ends_a_run_whose_agent_is_silent(
    tmp_path: Path,
    cache: Path,
    preloaded: Preloaded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It makes no call, so that no gate tells it to stop."""
    name = f"silent-{secrets.token_hex(8)}"
    code = "import time; time.sleep(600)"
    agent = shlex.join([str(Path(sys.executable).resolve()), "-c", code, name])
    words = [
        "--dataset",
        "demo",
        "--instances",
        ID,
        "--models",
        MODELS["messages"],
        "--tries",
        "1",
        "--run",
        "r",
        "--out",
        str(tmp_path),
        "--set",
        f"folders.cache={cache}",
        "--environment",
        "none",
        "--agent",
        f"command:{agent}",
        "--set",
        "agent.api=anthropic",
        "--set",
        "agent.sandbox=closed",
    ]
    process = preloaded.start(*words)
    wait_until(lambda: command_lines(name))
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        said, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130 and f"{ID}: interrupted" in said, said
    assert time.monotonic() - asked < 300, "the agent sleeps ten minutes"
    assert not command_lines(name)


def read_or_nothing(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_changed_request_is_served_by_its_turn_and_reported(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(monkeypatch) as stub:
        first = solve(agent_of("chat", "stream", "clock"), tmp_path, cache)
        again = agent_of("chat", "stream", "clock", run="again")
        solve(but(again, replay=tmp_path / "predictions/r"), tmp_path, cache)
    replayed = json.loads((tmp_path / f"predictions/again/{ID}.json").read_text())
    assert replayed["model_patch"] == first["model_patch"] and len(stub.requests) == 2
    said = (tmp_path / f"logs/again/{ID}.log").read_text()
    assert "1 of 2 answers served to a changed request" in said


def test_another_agent_than_the_recorded_one_is_not_replayed(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(monkeypatch) as stub:
        solve(agent_of("chat", "stream"), tmp_path, cache)
        recorded = tmp_path / "predictions/r"
        models = agent_of("chat").models
        again = agent_of("responses", "stream", run="again", models=models)
        run_command(
            but(again, replay=recorded),
            options(tmp_path, cache, ID),
            lambda _: None,
        )
        assert len(stub.requests) == 2
    left = json.loads((tmp_path / f"logs/again/{ID}.unfinished.json").read_text())
    assert (
        "no answer to this request; give the agent that was recorded" in left["reason"]
    )
    named = config(agent="goose", models=models, replay=recorded, run="named", tries=1)
    with pytest.raises(
        UserError, match="another agent is recorded, but --agent goose is asked"
    ):
        validated_run(named, tmp_path, cache)


def validated_run(chosen: RunConfig, tmp_path: Path, cache: Path) -> None:
    source = ReplayedModels(tmp_path / "predictions/r/trajectories")
    (model,) = validate_config(chosen).models
    source.turn(ID, 1, model, 0.0, OpenGate())


def test_a_forwarder_without_a_sandbox_is_a_port_of_the_loopback_address(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ones: dict[str, Any] = {"agent_sandbox": None, "agent_sandbox_read": ()}
    shown = (AGENT, Path(sys.base_prefix))
    shut = {"agent_sandbox": "open", "agent_sandbox_read": shown}
    for run, changes in (("r", open_ones), ("shut", shut)):
        with served(monkeypatch) as stub:
            solve(agent_of("gemini", "stream", run=run, **changes), tmp_path, cache)
        assert stub.billed == 2
    assert attempt_of(tmp_path)["status"] == "plausible_untested"
