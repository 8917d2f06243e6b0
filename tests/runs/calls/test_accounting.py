"""What a run charges, how it counts what did not end well, and what the same command continues."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice
from llm.client import RetryPolicy
from llm.settings import ModelSettings
from runs.calls.budget import Budget, Reservation
from runs.calls.journal import JOURNAL
from runs.calls.ledger import read_ledger
from runs.storage.jsonlines import read_lines
from runs.storage.store import RunStore
from tests.bench.attempts.test_agents import FIX, outside
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, but, config, live, options, read, read_money

ID = "demo__textkit-1"
OTHER = "demo__bank-1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(chosen: Any, run: Any) -> tuple[int, str]:
    said: list[str] = []
    return run_command(chosen, run, said.append), "\n".join(said)


@pytest.mark.parametrize(
    "address",
    [
        lambda port: f"http://127.0.0.1:{port}/v1",
        lambda _: "http://no-such-host.invalid/v1",
        lambda port: f"https://127.0.0.1:{port}/v1",
    ],
    ids=["refused", "unknown host", "TLS refused"],
)
@pytest.mark.parametrize("name", ["gpt-4o", "anthropic/claude-sonnet-4-5"])
def test_an_unreachable_provider_costs_nothing(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    address: Callable[[int], str],
    name: str,
) -> None:
    model = (ModelChoice.parse(f"{name}@diff", any_name=True),)
    chosen = live(provider, models=model, api_base=address(free_port()))
    money = read_money(model, usd="2")
    run = options(tmp_path, cache, ID, money=money, retries=RetryPolicy(3, 0.01, 0.01))
    code, said = start(chosen, run)
    assert code == 1
    assert "this start: 1 infra_error; run so far: cost $0.00, 0 calls" in said
    assert "Cannot connect to host" in said and "SSLContext" not in said
    store = RunStore(tmp_path, "r")
    assert list(read_ledger(store.ledger).values) == []
    assert not store.prediction(ID).exists()
    # The same command continues once the server is up.
    provider.will_answer("textkit/slug.py", EDIT)
    code, said = start(but(chosen, api_base=provider.url), run)
    assert code == 0, said
    assert read(tmp_path, ID)["status"] == "plausible"


def test_a_server_without_tls_costs_nothing(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    chosen = live(provider, api_base=provider.url.replace("http:", "https:"))
    money = read_money(chosen.models, usd="0.9")
    code, said = start(
        chosen, options(tmp_path, cache, ID, money=money, retries=RetryPolicy(1))
    )
    assert (code, provider.requests) == (1, [])
    assert "1 infra_error; run so far: cost $0.00, 0 calls" in said


class Reset:
    """A server that reads a request, and closes the connection without an answer."""

    def __init__(self) -> None:
        self.requests = 0
        self.socket = socket.create_server(("127.0.0.1", 0))

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.recv(65536)
            self.requests += 1
            linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"


@pytest.mark.parametrize("name", ["gpt-4o", "anthropic/claude-sonnet-4-5"])
def test_a_request_that_was_lost_after_sending_keeps_its_reservation(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be billed; and it is sent once, also by litellm's own handler of connections."""
    import threading

    server = Reset()
    threading.Thread(target=server.serve, daemon=True).start()
    models = (ModelChoice.parse(f"{name}@diff", any_name=True),)
    changes: dict[str, Any] = {"api_base": server.url}
    if "/" in name:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_API_BASE", server.url.removesuffix("/v1"))
        changes = {"api_base": None}
    chosen = live(provider, models=models, **changes)
    run = options(tmp_path, cache, ID, retries=RetryPolicy(1))
    code, _ = start(chosen, run)
    server.socket.close()
    (line,) = read_ledger(RunStore(tmp_path, "r").ledger).values
    assert (code, line.kind, server.requests) == (1, "failed", 1)
    assert line.cost is not None and line.cost > 0


def test_an_instance_that_could_not_start_for_lack_of_budget_is_not_finished(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    chosen = live(provider)
    small = options(tmp_path, cache, ID, money=read_money(chosen.models, usd="0.0001"))
    code, said = start(chosen, small)
    assert code == 1
    assert not RunStore(tmp_path, "r").prediction(ID).exists()
    assert (
        "1 over budget (--budget-usd): raise the limit and repeat the command" in said
    )
    # The same limit again: no instance starts again, and the exit code still tells.
    code, said = start(chosen, small)
    assert (code, provider.requests) == (1, [])
    assert "0 to do" in said and "1 over budget (--budget-usd)" in said
    code, _ = start(chosen, replace(small, money=read_money(chosen.models, usd="9")))
    assert (code, read(tmp_path, ID)["status"]) == (0, "plausible")


@pytest.mark.parametrize(
    ("low", "high", "option"),
    [
        (
            {"usd_per_instance": "0.25"},
            {"usd_per_instance": "9"},
            "--budget-usd-per-instance",
        ),
        ({"usd_per_instance": "0.25"}, {}, "--budget-usd-per-instance"),
        (
            {"usd_per_model": "gpt-4o=0.25"},
            {"usd_per_model": "gpt-4o=9"},
            "budget.usd_per_model",
        ),
        ({"calls": 1}, {"calls": 9}, "budget.calls"),
    ],
    ids=["instance", "no limit any more", "model", "calls"],
)
def test_an_instance_cut_short_by_a_limit_continues_when_it_is_higher(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    low: dict[str, Any],
    high: dict[str, Any],
    option: str,
) -> None:
    # The first reply costs what the limit allows, and asks for a file.
    provider.will_answer(Answer("textkit/slug.py", tokens=(100, 10_000)), EDIT)
    chosen = live(provider, models=(ModelChoice.parse("gpt-4o", any_name=True),))
    cut = options(tmp_path, cache, ID, money=read_money(chosen.models, **low))
    code, said = start(chosen, cut)
    assert (code, len(provider.requests)) == (1, 1)
    assert "this start: 1 budget; run so far: cost $0.1002, 1 call" in said
    assert f"1 over budget ({option}): raise the limit and repeat the command" in said
    assert read(tmp_path, ID)["status"] == "budget"
    assert start(chosen, cut)[0] == 1
    assert len(provider.requests) == 1
    code, said = start(chosen, replace(cut, money=read_money(chosen.models, **high)))
    assert (code, read(tmp_path, ID)["status"]) == (0, "plausible")
    assert len(provider.requests) == 2, "the first reply was paid for"


def test_the_summary_says_what_is_of_this_start_and_what_of_the_run(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    run = options(tmp_path, cache, ID)
    start(live(provider), run)
    _, said = start(live(provider), run)
    last = said.splitlines()[-1]
    assert "this start: nothing to do; run so far: cost $0.0007, 2 calls" in last


def test_a_broken_agent_is_not_a_weak_model(tmp_path: Path, cache: Path) -> None:
    code = (
        "import sys; print('out'); print('no module named x', file=sys.stderr); exit(4)"
    )
    broken = outside(code)
    run = options(tmp_path, cache, ID)
    code, said = start(broken, run)
    assert code == 1
    words = "no attempt ended normally (2 attempts); the last: the agent ended with exit code 4: no"
    assert words in said
    assert "1 error: repeat with --redo error" in said
    prediction = read(tmp_path, ID)
    assert (prediction["status"], prediction["model_patch"]) == ("error", "")
    assert [r["status"] for r in prediction["all_results"]] == ["error", "error"]
    # The plain command leaves it, and still says so; --redo repeats it.
    assert start(broken, run)[0] == 1
    works = but(broken, agent=outside(FIX).settings.agent.name)
    with pytest.raises(Exception, match="different settings"):
        start(works, replace(run, redo="error"))
    code, said = start(broken, replace(run, redo="error"))
    assert (code, "1 to redo" in said) == (1, True)


def test_an_agent_that_times_out_and_one_that_does_nothing(
    tmp_path: Path, cache: Path
) -> None:
    hangs = outside("import time; time.sleep(99)", agent_timeout=2, tries=1)
    code, said = start(hangs, options(tmp_path / "one", cache, ID))
    assert (code, read(tmp_path / "one", ID)["status"]) == (1, "error")
    assert "the agent was stopped after 2 s" in said
    assert {r["status"] for r in read(tmp_path / "one", ID)["all_results"]} == {
        "timeout"
    }
    code, said = start(outside("pass"), options(tmp_path / "two", cache, ID))
    assert (code, read(tmp_path / "two", ID)["status"]) == (0, "empty")


def test_one_normal_attempt_is_enough_to_judge_the_model(
    tmp_path: Path, cache: Path
) -> None:
    code = "import sys; sys.exit(3 if sys.argv[1] == 'my-a' else 0)"
    exit_code, _ = start(outside(code, "{model}"), options(tmp_path, cache, ID))
    prediction = read(tmp_path, ID)
    assert (exit_code, prediction["status"]) == (0, "empty")
    assert [r["status"] for r in prediction["all_results"]] == ["error", "empty"]


def test_an_instance_without_a_recording_is_an_error(
    tmp_path: Path, cache: Path
) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / f"{OTHER}.json").write_text(json.dumps({"attempts": []}))
    code, said = start(config(replay=folder), options(tmp_path, cache, ID, OTHER))
    assert (code, read(tmp_path, ID)["status"]) == (1, "error")
    assert f"the last: --replay {folder} has no recording of it" in said


def test_calls_that_nobody_bills_leave_the_number_of_calls_alone(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(
        Answer(status=500), Answer(status=500), "textkit/slug.py", EDIT
    )
    chosen = live(provider)
    money = read_money(chosen.models, calls=2)
    run = options(tmp_path, cache, ID, money=money, retries=RetryPolicy(4, 0.01, 0.01))
    code, _ = start(chosen, run)
    assert (code, len(provider.requests)) == (0, 4)
    assert read(tmp_path, ID)["cost"] == float(2 * Decimal("0.00035"))


BAD: list[dict[str, Any]] = [
    {"prompt_tokens": -5},
    {"prompt_tokens": 1e18},
    {"prompt_tokens": True},
    {"prompt_tokens_details": {"cached_tokens": -50}},
]


@pytest.mark.parametrize(
    "answer",
    [
        *(Answer("textkit/slug.py", counts=bad) for bad in BAD),
        Answer("textkit/slug.py", usage=False),
        Answer(body={"choices": 5}),
        Answer(body=[]),
    ],
    ids=str,
)
def test_every_answer_that_may_be_billed_counts(
    tmp_path: Path, cache: Path, provider: Provider, answer: Answer
) -> None:
    """The provider's own count is that of the harness, and the most calls are the most."""
    provider.will_answer(answer)
    chosen = live(provider, models=(ModelChoice.parse("gpt-4o@diff", any_name=True),))
    money = read_money(chosen.models, calls=2)
    run = options(tmp_path, cache, ID, money=money, retries=RetryPolicy(3, 0.01, 0.01))
    for _ in range(2):
        start(chosen, run)
        store = RunStore(tmp_path, "r")
        assert len(provider.requests) == len(read_ledger(store.ledger).values) == 2
        assert not read_ledger(store.ledger).damaged
        assert not read_lines(store.journals / f"{ID}.jsonl", JOURNAL).damaged
    for line in read_ledger(store.ledger).values:
        assert line.cost is None or line.cost >= 0


def test_what_is_assumed_of_a_known_name_at_ones_own_server_is_said_first(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    chosen = live(provider, models=(ModelChoice.parse("gpt-4o@diff", any_name=True),))
    run = options(tmp_path, cache, ID, money=read_money(chosen.models, usd="9"))
    _, said = start(chosen, run)
    _, first, second, *rest = said.splitlines()
    assert first.startswith(
        f"gpt-4o at {provider.url}: assumed $2.50 in, $10.00 out per million"
    )
    assert "--price gpt-4o=0,0" in first and "models.file" in second
    assert "assumed a window of 128000 tokens" in second
    assert not any(": assumed " in line for line in rest)
    # With both given, and for a name that litellm does not know, nothing is assumed.
    (tmp_path / "again").mkdir()
    own = replace(chosen.models[0], settings=ModelSettings(context=8000))
    free = read_money(chosen.models, usd="0.000001", prices=["gpt-4o=0,0"])
    run = options(tmp_path / "again", cache, ID, money=free)
    code, said = start(replace(chosen, models=(own,)), run)
    assert (code, ": assumed " in said) == (0, False), said


MOST = 4


def passed(frame: FrameType | None) -> list[str]:
    """Return the classes of ours whose methods are on the stack, up to the agent."""
    found: list[str] = []
    while frame is not None:
        kind = type(frame.f_locals.get("self"))
        room = kind.__module__.partition(".")[0]
        if room == "agent":
            return found
        if room in ("llm", "runs") and kind.__name__ not in found:
            found.append(kind.__name__)
        frame = frame.f_back
    raise AssertionError("no agent made this call")


def test_a_call_reaches_the_budget_through_at_most_four_classes(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways: list[list[str]] = []
    reserve = Budget.reserve

    def watched(self: Budget, *arguments: Any) -> Reservation | None:
        ways.append(passed(sys._getframe(1)))
        return reserve(self, *arguments)

    monkeypatch.setattr(Budget, "reserve", watched)
    provider.will_answer("textkit/slug.py", EDIT)
    run_command(
        live(provider), options(tmp_path, cache, "demo__textkit-1"), lambda _: None
    )
    assert ways and all(0 < len(way) <= MOST for way in ways), ways
