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

import pytest

from swe_retry.agent.gateway import gateway as gateway_module
from swe_retry.attempts.config import validate_config
from swe_retry.core.errors import UserError
from swe_retry.llm.gate import OpenGate
from swe_retry.llm.provider_errors import RetryPolicy
from swe_retry.runner.modelsource import ReplayedModels
from swe_retry.runner.settings import Spending
from tests.agent.gateway.conftest import (
    COSTS,
    EDIT,
    ID,
    NEW,
    OLD,
    PYTHON,
    TURNS,
    GatewayRuns,
    agent_config,
    cost_of,
    needs_bubblewrap,
)
from tests.support import command_lines, still_running, wait_until
from tests.support.commands import Preloaded
from tests.support.dialects import AGENT, DIALECTS, KEYS, Fault, Turn
from tests.support.runs import but, config

pytestmark = needs_bubblewrap


@pytest.mark.parametrize("dialect", DIALECTS)
def test_errors_that_pass_are_tried_again_by_the_gateway(
    runs: GatewayRuns, dialect: str
) -> None:
    faults = (Fault(429, {"retry-after": "0.1"}), Fault(500), Fault(), Fault(529))
    with runs.serve(*faults) as stub:
        prediction = runs.solve(agent_config(dialect, "stream"))
    assert prediction["status"] == "plausible"
    assert len(stub.requests) == 5
    assert stub.billed == 2
    assert len(runs.ledger()) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_that_breaks_off_is_booked_and_used_by_nobody(
    runs: GatewayRuns, dialect: str
) -> None:
    with runs.serve(Fault(broken=True), Fault(error_event=True)) as stub:
        prediction = runs.solve(agent_config(dialect, "stream", "loop"))
    assert prediction["status"] == "plausible"
    lines = runs.ledger()
    kinds = [line.kind for line in lines]
    assert kinds == ["failed", "failed", "answered", "answered"]
    assert stub.billed == 4
    cost = 2 * COSTS[dialect]
    paid = cost
    bound = cost
    for line in lines[:2]:
        assert line.paid is not None
        assert line.cost is not None
        assert 0 < line.paid < cost < line.cost, "arrived, and its bound"
        paid += line.paid
        bound += line.cost
    assert cost_of(prediction) == cost
    assert Decimal(str(prediction["cost_at_most"])) == bound
    (printed,) = [line for line in runs.report() if line.startswith("cost ")]
    assert f"${paid:.4f} (at most ${bound:.4f})" in printed


@pytest.mark.parametrize("dialect", ["messages", "chat"])
def test_an_agent_that_hangs_up_pays_for_the_whole_answer(
    runs: GatewayRuns, dialect: str
) -> None:
    long = Turn("word " * 200, TURNS[0].tool)
    with runs.serve(turns=(long, TURNS[1])) as stub:
        prediction = runs.solve(agent_config(dialect, "stream", "hang-up"))
    assert prediction["status"] == "plausible"
    assert [line.kind for line in runs.ledger()] == ["answered"] * 3
    assert stub.billed == 3
    assert cost_of(prediction) == 3 * COSTS[dialect]


def test_fifty_calls_at_once_are_each_answered_and_booked(runs: GatewayRuns) -> None:
    with runs.serve() as stub:
        prediction = runs.solve(agent_config("messages", "stream", "burst=50"))
    assert prediction["status"] == "plausible", prediction["reason"]
    assert stub.billed == len(stub.requests) == len(runs.ledger()) == 52
    (attempt,) = runs.export_atif()["subagent_trajectories"]
    lanes = [attempt, *attempt["subagent_trajectories"]]
    assert len({lane["trajectory_id"] for lane in lanes}) == 51
    assert sorted(len(lane["steps"]) for lane in lanes) == [2] * 50 + [3]
    steps = []
    for lane in lanes:
        steps.extend(lane["steps"])
    measured = [step for step in steps if "metrics" in step]
    assert len(measured) == 52, "each answer has its tokens and its cost"


@pytest.mark.parametrize("dialect", ["messages", "gemini"])
def test_another_model_is_refused_and_an_agent_that_loops_is_ended(
    runs: GatewayRuns, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "GRACE", 1.0)
    started = time.monotonic()
    with runs.serve() as stub:
        note = runs.fail(agent_config(dialect, "stream", "loop", "model=dear"))
    assert note["status"] == "infra_error"
    assert "requests failed in turn" in note["reason"]
    assert "alone, not 'dear'" in note["reason"]
    assert time.monotonic() - started < 300, "it may run for half an hour"
    assert not stub.requests


@pytest.mark.parametrize("options", [("stream",), ("stream", "loop")])
@pytest.mark.parametrize(
    ("calls", "max_calls", "limit"),
    [
        (1, None, "budget.calls: 1 of 1 calls"),
        (None, 1, "agent.max_calls: all calls"),
    ],
)
def test_a_limit_ends_an_attempt_in_its_middle(
    runs: GatewayRuns,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    calls: int | None,
    max_calls: int | None,
    limit: str,
) -> None:
    monkeypatch.setattr(gateway_module, "GRACE", 1.0)
    money = Spending(calls=calls)
    limited = agent_config("messages", *options, max_calls_per_attempt=max_calls)
    with runs.serve() as stub:
        prediction = runs.solve(limited, money=money)
    assert prediction["status"] == "plausible", "what it did until then counts"
    (attempt,) = runs.attempts()
    assert limit in attempt["error"]
    assert f"it did not end by itself: {limit}" in prediction["reason"]
    assert stub.billed == 1


def test_the_record_of_an_attempt_is_limited_by_a_setting(runs: GatewayRuns) -> None:
    with runs.serve(turns=(Turn("I edit." * 200_000, ("replace", EDIT)),)) as stub:
        # Its streams have an event for each few letters.
        stub.ignores_streams = True
        limited = agent_config("messages", agent_max_record=1)
        prediction = runs.solve(limited)
    assert prediction["status"] == "plausible", "what it did until then counts"
    (attempt,) = runs.attempts()
    assert "agent.max_record: the record of this attempt" in attempt["error"]


def test_a_reservation_that_does_not_fit_is_not_sent(runs: GatewayRuns) -> None:
    money = Spending(usd=Decimal("0.0001"))
    with runs.serve() as stub, pytest.raises(FileNotFoundError):
        runs.solve(agent_config("responses"), money=money)
    assert not stub.requests


def test_the_calls_of_an_attempt_are_limited_and_the_next_attempt_has_its_own(
    runs: GatewayRuns,
) -> None:
    limited = agent_config("chat", "stream", max_calls_per_attempt=1, tries=2)
    unchanged = Turn("I look.", ("replace", {**EDIT, "new": OLD}))
    with runs.serve(turns=(unchanged, TURNS[1])) as stub:
        prediction = runs.solve(limited)
    assert [attempt["status"] for attempt in runs.attempts()] == ["limit", "limit"]
    assert prediction["status"] == "empty"
    assert stub.billed == 2


@pytest.mark.parametrize("dialect", ["messages", "gemini"])
def test_a_dead_provider_is_a_failure_of_the_infrastructure(
    runs: GatewayRuns, dialect: str
) -> None:
    with runs.serve(*[Fault(500)] * 9):
        note = runs.fail(agent_config(dialect, "stream"))
    assert note["status"] == "infra_error"
    assert "did not answer" in note["reason"]


def test_time_that_a_dead_provider_uses_up_is_not_the_agent_s(
    runs: GatewayRuns,
) -> None:
    # After five failures the run waits for the provider, however often a call is tried.
    patient = RetryPolicy(attempts=9, first_wait=0.05)
    with runs.serve(Fault(), *[Fault(500)] * 99) as stub:
        runs.start(agent_config("messages", agent_timeout=8), retries=patient)
    assert stub.billed == 1
    note = runs.unfinished()
    assert note["status"] == "infra_error"
    assert "did not answer" in note["reason"]


def test_a_refused_key_ends_the_run(runs: GatewayRuns) -> None:
    with runs.serve(Fault(401)), pytest.raises(UserError, match="check the key"):
        runs.solve(agent_config("messages"))


def test_a_request_that_is_refused_after_an_answer_does_not_end_the_run(
    runs: GatewayRuns,
) -> None:
    with runs.serve(Fault(), Fault(404), Fault(403)) as stub:
        prediction = runs.solve(agent_config("messages", "stream", "loop"))
    assert prediction["status"] == "plausible"
    assert len(stub.requests) == 4


def test_no_call_begins_after_the_agent_has_ended(runs: GatewayRuns) -> None:
    later = Fault(429, {"retry-after": "1"})
    with runs.serve(Fault(), later, later, later) as stub:
        runs.start(agent_config("messages", "burst=2", "hurry"))
        before = len(stub.requests)
        time.sleep(2.5)
        assert len(stub.requests) == before
    assert stub.billed == len(runs.ledger())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_of_the_provider_are_removed_and_counted(
    runs: GatewayRuns, dialect: str
) -> None:
    for allowed, run in ((False, "r"), (True, "allowed")):
        with runs.serve() as stub:
            runs.solve(agent_config(dialect, "web", run=run, agent_allow_web=allowed))
        requests = json.dumps(stub.requests).lower().replace("_", "")
        searches = "websearch" in requests or "googlesearch" in requests
        assert searches == allowed
    assert " removed from 2 requests" in runs.log()


def test_the_agent_reaches_nothing_but_the_gateway_and_sees_no_key(
    runs: GatewayRuns,
) -> None:
    with runs.serve() as stub:
        port = stub.server.server_address[1]
        prediction = runs.solve(agent_config("messages", f"probe={port}"))
    assert prediction["status"] == "plausible"
    (line,) = [line for line in runs.log().splitlines() if '"metadata"' in line]
    probe = json.loads(line)
    for address in ("metadata", "stub", "name"):
        assert probe[address] != "connected"
    assert "sk-sentinel" not in probe["environment"]
    counters = probe["counters"].splitlines()[2:]
    interfaces = [counter.split(":")[0].strip() for counter in counters]
    assert interfaces == ["lo"], "so no byte can leave"
    files = [path for path in runs.folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert b"sk-sentinel" not in path.read_bytes()
    for name in KEYS:
        assert os.environ[name].startswith("sk-sentinel")


def test_findings_go_back_to_the_agent_in_the_same_checkout(runs: GatewayRuns) -> None:
    broken = f"{OLD} broken("
    breaking = (Turn("I break.", ("replace", {**EDIT, "new": broken})), TURNS[1])
    fixing = (Turn("I fix.", ("replace", {**EDIT, "old": broken})), TURNS[1])
    for feedback, status in ((0, "fallback"), (1, "plausible")):
        run = f"feedback-{feedback}"
        with runs.serve(turns=breaking) as stub:
            stub.after("not finished yet", fixing)
            runs.start(agent_config("messages", "stream", run=run, feedback=feedback))
        assert runs.prediction(run)["status"] == status
        assert stub.billed == 2 + 2 * feedback
    request = json.dumps(stub.requests[2])
    assert "linter finds new problems" in request
    assert "slugify: runs of dashes" in request
    limited = agent_config("chat", run="limit", feedback=3, max_calls_per_attempt=3)
    with runs.serve(turns=breaking) as stub:
        runs.start(limited)
    assert stub.billed == 3, "of all sessions of the attempt"


def test_what_an_agent_did_before_it_was_killed_is_booked_and_kept(
    runs: GatewayRuns,
) -> None:
    with runs.serve() as stub:
        prediction = runs.solve(agent_config("messages", "stream", "killed"))
    (attempt,) = runs.attempts()
    assert prediction["status"] == "error"
    assert attempt["status"] == "error"
    assert "the agent ended with exit code 137" in attempt["error"]
    assert NEW in prediction["model_patch"]
    assert len(runs.ledger()) == stub.billed == 1
    assert cost_of(prediction) == COSTS["messages"]


def test_no_process_of_an_agent_outlives_its_attempt(runs: GatewayRuns) -> None:
    name = f"daemon-{secrets.token_hex(8)}"
    with runs.serve():
        prediction = runs.solve(agent_config("messages", f"daemon={name}"))
    assert prediction["status"] == "plausible"
    assert not still_running(name)


def test_an_interrupt_ends_a_run_whose_agent_is_silent(
    runs: GatewayRuns, preloaded: Preloaded
) -> None:
    """It makes no call, so that no gate tells it to stop."""
    name = f"silent-{secrets.token_hex(8)}"
    agent = shlex.join([PYTHON, "-c", "import time; time.sleep(600)", name])
    process = preloaded.start(*runs.command_line(f"command:{agent}"))
    wait_until(lambda: command_lines(name))
    interrupted = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert f"{ID}: interrupted" in output
    assert time.monotonic() - interrupted < 300, "the agent sleeps ten minutes"
    assert not still_running(name)


def test_a_changed_request_is_served_by_its_turn_and_reported(
    runs: GatewayRuns,
) -> None:
    with runs.serve() as stub:
        first = runs.solve(agent_config("chat", "stream", "clock"))
        replayed = agent_config("chat", "stream", "clock", run="again")
        again = runs.solve(but(replayed, replay=runs.recorded))
    assert again["model_patch"] == first["model_patch"]
    assert len(stub.requests) == 2
    assert "1 of 2 answers served to a changed request" in runs.log("again")


def test_another_agent_than_the_recorded_one_is_not_replayed(runs: GatewayRuns) -> None:
    with runs.serve() as stub:
        runs.solve(agent_config("chat", "stream"))
        models = agent_config("chat").models
        replayed = agent_config("responses", "stream", run="again", models=models)
        runs.start(but(replayed, replay=runs.recorded))
        assert len(stub.requests) == 2
    reason = runs.unfinished("again")["reason"]
    assert "no answer to this request; give the agent that was recorded" in reason
    goose = config(agent="goose", models=models, replay=runs.recorded, tries=1)
    (model,) = validate_config(goose).models
    source = ReplayedModels(runs.recorded / "trajectories")
    problem = "another agent is recorded, but --agent goose is asked"
    with pytest.raises(UserError, match=problem):
        source.turn(ID, 1, model, 0.0, OpenGate())


def test_a_forwarder_without_a_sandbox_is_a_port_of_the_loopback_address(
    runs: GatewayRuns,
) -> None:
    without = agent_config(
        "gemini",
        "stream",
        agent_sandbox="none",
        agent_sandbox_read=(),
    )
    shut_in = agent_config(
        "gemini",
        "stream",
        run="shut",
        agent_sandbox="open",
        agent_sandbox_read=(AGENT, Path(sys.base_prefix)),
    )
    for run_config in (without, shut_in):
        with runs.serve() as stub:
            runs.solve(run_config)
        assert stub.billed == 2
    (attempt,) = runs.attempts()
    assert attempt["status"] == "plausible_untested"
