"""What a run charges, how it counts what did not end well, and what the same command continues."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from swe_retry.llm.model_settings import ModelSettings
from swe_retry.llm.provider_errors import RetryPolicy
from swe_retry.record.jsonlines import read_lines
from swe_retry.runner.calls.budget import Budget, Reservation
from swe_retry.runner.calls.journal import JOURNAL
from swe_retry.runner.calls.ledger import read_ledger
from tests.attempts.test_agents import FIX, outside
from tests.support.provider import Answer
from tests.support.runner import ID, OTHER, Runner
from tests.support.runs import EDIT, but, config

FILE = "textkit/slug.py"
BOTH_PROTOCOLS = ("gpt-4o", "anthropic/claude-sonnet-4-5")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("name", BOTH_PROTOCOLS)
def test_an_unreachable_provider_costs_nothing(runner: Runner, name: str) -> None:
    closed = f"127.0.0.1:{free_port()}/v1"
    addresses = {
        "without-tls": runner.provider.url.replace("http:", "https:"),
        "unknown-host": "http://no-such-host.invalid/v1",
        "refused-tls": f"https://{closed}",
        "refused": f"http://{closed}",
    }
    retries = RetryPolicy(3, 0.01, 0.01)
    budget = {"usd": "2"}
    chosen = runner.live(f"{name}@diff")
    for folder, address in addresses.items():
        run = runner.below(folder)
        unreachable = but(chosen, api_base=address)
        started = run.start(unreachable, budget, retries=retries)
        assert started.code == 1, address
        summary = "this start: 1 infra_error; run so far: cost $0.00, 0 calls"
        assert summary in started.output, address
        assert "Cannot connect to host" in started.output, address
        assert "SSLContext" not in started.output, address
        assert run.ledger() == []
        assert not run.store.prediction(ID).exists()
    assert not runner.provider.requests
    # The same command continues once the server is up.
    runner.provider.will_answer(FILE, EDIT)
    started = run.start(chosen, budget, retries=retries)
    assert started.code == 0, started.output
    assert run.status() == "plausible"


class Reset:
    """A server that reads a request, and closes the connection without an answer."""

    def __init__(self) -> None:
        self.requests = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.recv(65536)
            self.requests += 1
            # Linger for 0 seconds: the connection is reset.
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()


@pytest.mark.parametrize("name", BOTH_PROTOCOLS)
def test_a_request_that_was_lost_after_sending_keeps_its_reservation(
    runner: Runner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be billed; and it is sent once, also by litellm's own handler of connections."""
    server = Reset()
    address: str | None = server.url
    if "/" in name:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_API_BASE", server.url.removesuffix("/v1"))
        address = None
    chosen = runner.live(f"{name}@diff", api_base=address)
    started = runner.start(chosen, retries=RetryPolicy(1))
    server.socket.close()
    (line,) = runner.ledger()
    assert started.code == 1
    assert line.kind == "failed"
    assert server.requests == 1
    assert line.cost is not None
    assert line.cost > 0


def test_an_instance_that_could_not_start_for_lack_of_budget_is_not_finished(
    runner: Runner,
) -> None:
    runner.provider.will_answer(FILE, EDIT)
    chosen = runner.live()
    over_budget = "1 over budget (--budget-usd)"
    too_little = {"usd": "0.0001"}
    started = runner.start(chosen, too_little)
    assert started.code == 1
    assert not runner.store.prediction(ID).exists()
    assert f"{over_budget}: raise the limit and repeat the command" in started.output
    # The same limit again: no instance starts again, and the exit code still tells.
    started = runner.start(chosen, too_little)
    assert started.code == 1
    assert runner.provider.requests == []
    assert "0 to do" in started.output
    assert over_budget in started.output
    started = runner.start(chosen, {"usd": "9"})
    assert started.code == 0
    assert runner.status() == "plausible"


@pytest.mark.parametrize(
    ("low", "high", "option"),
    [
        ({"usd_per_instance": "0.25"}, {"usd_per_instance": "9"}, "--budget-usd-per-instance"),
        ({"usd_per_instance": "0.25"}, {}, "--budget-usd-per-instance"),
        ({"usd_per_model": "gpt-4o=0.25"}, {"usd_per_model": "gpt-4o=9"}, "budget.usd_per_model"),
        ({"calls": 1}, {"calls": 9}, "budget.calls"),
    ],
    ids=["instance", "no limit any more", "model", "calls"],
)  # fmt: skip
def test_an_instance_cut_short_by_a_limit_continues_when_it_is_higher(
    runner: Runner,
    low: dict[str, Any],
    high: dict[str, Any],
    option: str,
) -> None:
    # The first reply costs what the limit allows, and asks for a file.
    dear = Answer(FILE, tokens=(100, 10_000))
    runner.provider.will_answer(dear, EDIT)
    requests = runner.provider.requests
    chosen = runner.live("gpt-4o")
    started = runner.start(chosen, low)
    assert started.code == 1
    assert len(requests) == 1
    assert "this start: 1 budget; run so far: cost $0.1002, 1 call" in started.output
    advice = f"1 over budget ({option}): raise the limit and repeat the command"
    assert advice in started.output
    assert runner.status() == "budget"
    started = runner.start(chosen, low)
    assert started.code == 1
    assert len(requests) == 1
    started = runner.start(chosen, high)
    assert started.code == 0
    assert runner.status() == "plausible"
    assert len(requests) == 2, "the first reply was paid for"


def test_a_broken_agent_is_not_a_weak_model(runner: Runner) -> None:
    code = (
        "import sys; print('out'); print('no module named x', file=sys.stderr); exit(4)"
    )
    broken = outside(code)
    started = runner.start(broken)
    assert started.code == 1
    message = (
        "no attempt ended normally (2 attempts); "
        "the last: the agent ended with exit code 4: no"
    )
    assert message in started.output
    assert "1 error: repeat with --redo error" in started.output
    prediction = runner.prediction()
    assert prediction["status"] == "error"
    assert prediction["model_patch"] == ""
    assert attempt_statuses(runner) == ["error", "error"]
    # The plain command leaves it, and still says so; --redo repeats it.
    assert runner.start(broken).code == 1
    working_agent = outside(FIX).settings.agent.name
    works = but(broken, agent=working_agent)
    with pytest.raises(Exception, match="different settings"):
        runner.start(works, redo="error")
    started = runner.start(broken, redo="error")
    assert started.code == 1
    assert "1 to redo" in started.output


def attempt_statuses(runner: Runner) -> list[str]:
    attempts = runner.prediction()["all_results"]
    return [attempt["status"] for attempt in attempts]


SLEEP = "import time; time.sleep(99)"
FAIL_OF_ONE_MODEL = "import sys; sys.exit(3 if sys.argv[1] == 'my-a' else 0)"


@pytest.mark.parametrize(
    ("agent", "code", "status", "attempts"),
    [
        (outside(SLEEP, agent_timeout=2), 1, "error", ["timeout", "timeout"]),
        (outside("pass"), 0, "empty", ["empty", "empty"]),
        (outside(FAIL_OF_ONE_MODEL, "{model}"), 0, "empty", ["error", "empty"]),
    ],
    ids=["times out", "does nothing", "fails with one model"],
)
def test_one_normal_attempt_is_enough_to_judge_a_model(
    runner: Runner,
    agent: Any,
    code: int,
    status: str,
    attempts: list[str],
) -> None:
    started = runner.start(agent)
    assert started.code == code
    assert runner.status() == status
    assert attempt_statuses(runner) == attempts
    was_stopped = "the agent was stopped after 2 s" in started.output
    assert was_stopped is ("timeout" in attempts)


def test_an_instance_without_a_recording_is_an_error(runner: Runner) -> None:
    folder = runner.out / "recorded"
    folder.mkdir()
    recording = folder / f"{OTHER}.json"
    recording.write_text('{"attempts": []}')
    started = runner.start(config(replay=folder), ids=(ID, OTHER))
    assert started.code == 1
    assert runner.status() == "error"
    assert f"the last: --replay {folder} has no recording of it" in started.output


def test_calls_that_nobody_bills_leave_the_number_of_calls_alone(
    runner: Runner,
) -> None:
    failure = Answer(status=500)
    runner.provider.will_answer(failure, failure, FILE, EDIT)
    chosen = runner.live()
    budget = {"calls": 2}
    retries = RetryPolicy(4, 0.01, 0.01)
    started = runner.start(chosen, budget, retries=retries)
    assert started.code == 0
    assert len(runner.provider.requests) == 4
    assert runner.prediction()["cost"] == 0.0007
    # The summary says what is of this start, and what of the run.
    started = runner.start(chosen, budget)
    summary = "this start: nothing to do; run so far: cost $0.0007, 2 calls"
    assert summary in started.lines[-1]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(FILE, counts={"prompt_tokens": -5}),
        Answer(FILE, counts={"prompt_tokens": 1e18}),
        Answer(FILE, counts={"prompt_tokens": True}),
        Answer(FILE, counts={"prompt_tokens_details": {"cached_tokens": -50}}),
        Answer(FILE, usage=False),
        Answer(body={"choices": 5}),
        Answer(body=[]),
    ],
    ids=str,
)
def test_every_answer_that_may_be_billed_counts(runner: Runner, answer: Answer) -> None:
    """The provider's own count is that of the harness, and the most calls are the most."""
    runner.provider.will_answer(answer)
    chosen = runner.live("gpt-4o@diff")
    store = runner.store
    retries = RetryPolicy(3, 0.01, 0.01)
    for _ in range(2):
        runner.start(chosen, {"calls": 2}, retries=retries)
        ledger = read_ledger(store.ledger)
        assert len(runner.provider.requests) == 2
        assert len(ledger.values) == 2
        assert not ledger.damaged
        journal = read_lines(store.journals / f"{ID}.jsonl", JOURNAL)
        assert not journal.damaged
    for line in runner.ledger():
        assert line.cost is None or line.cost >= 0


def test_what_is_assumed_of_a_known_name_at_ones_own_server_is_said_first(
    runner: Runner,
) -> None:
    runner.provider.will_answer(FILE, EDIT)
    chosen = runner.live("gpt-4o@diff")
    started = runner.start(chosen, {"usd": "9"})
    first = started.lines[1]
    second = started.lines[2]
    prices = "assumed $2.50 in, $10.00 out per million"
    assert first.startswith(f"gpt-4o at {runner.provider.url}: {prices}")
    assert "--price gpt-4o=0,0" in first
    assert "models.file" in second
    assert "assumed a window of 128000 tokens" in second
    for line in started.lines[3:]:
        assert ": assumed " not in line
    # With both given, and for a name that litellm does not know, nothing is assumed.
    settings = ModelSettings(context=8000)
    own = replace(chosen.models[0], settings=settings)
    chosen = replace(chosen, models=(own,))
    free = {"usd": "0.000001", "prices": ["gpt-4o=0,0"]}
    started = runner.below("again").start(chosen, free)
    assert started.code == 0, started.output
    assert ": assumed " not in started.output


MAX_CLASSES = 4


def classes_on_the_stack(frame: FrameType | None) -> list[str]:
    """Return the classes of ours whose methods are on the stack, up to the agent."""
    names: list[str] = []
    while frame is not None:
        kind = type(frame.f_locals.get("self"))
        name = kind.__name__
        _, _, inside = kind.__module__.partition("swe_retry.")
        room = inside.partition(".")[0]
        if room == "agent":
            return names
        if room in ("llm", "runs") and name not in names:
            names.append(name)
        frame = frame.f_back
    raise AssertionError("no agent made this call")


def test_a_call_reaches_the_budget_through_at_most_four_classes(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []
    reserve = Budget.reserve

    def reserve_and_note(self: Budget, *arguments: Any) -> Reservation | None:
        stacks.append(classes_on_the_stack(sys._getframe(1)))
        return reserve(self, *arguments)

    monkeypatch.setattr(Budget, "reserve", reserve_and_note)
    runner.provider.will_answer(FILE, EDIT)
    runner.start(runner.live())
    assert stacks
    for names in stacks:
        assert 0 < len(names) <= MAX_CLASSES, names
