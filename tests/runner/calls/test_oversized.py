"""A call that is too dear ends its own attempt; the run goes on for those that are not."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.demo.setup import build_mirrors
from swe_retry.llm.chat import AttemptLimitError, BudgetUsedError, Reply
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import Failed, OpenGate, PlannedCall
from swe_retry.llm.prices import Price, cost_bound
from swe_retry.record.records import AttemptStatus
from swe_retry.runner.calls.budget import Budget, BudgetLimits
from swe_retry.runner.calls.coordinator import (
    CallCoordinator,
    charge_budget,
)
from swe_retry.runner.calls.ledger import Ledger, read_ledger
from swe_retry.runner.calls.rate_limiter import RateLimiter, RateLimiterPolicy, Rates
from tests.runner.calls.test_spending import CALL, COUNT, WITHIN, dataset
from tests.support.provider import Answer
from tests.support.runner import Runner

__all__ = ["dataset"]
D = Decimal
PLAIN = "0.1"
OVERSIZED = "22.16"


def coordinator(folder: Path, usd: str = "10", **limits: Any) -> CallCoordinator:
    """Return the coordinator of a start of the run in ``folder``."""
    calls = CallCoordinator(
        journals=folder / "journals",
        ledger=Ledger.load(folder / "ledger.jsonl"),
        budget=Budget(BudgetLimits(usd=D(usd), **limits)),
        rate_limiter=RateLimiter(Rates(), RateLimiterPolicy()),
        stop=None,  # type: ignore[arg-type]
    )
    calls.stop = type("Never", (), {"reason": ""})()
    charge_budget(calls)
    return calls


def begin(
    calls: CallCoordinator, instance: str, bound: str, attempt: int = 1
) -> str | float:
    call = PlannedCall("gpt", "openai", "hash", 1, D(bound))
    return calls.begin(instance, attempt, call)


def make_call(
    calls: CallCoordinator,
    instance: str,
    bound: str = PLAIN,
    cost: str = "0.01",
    attempt: int = 1,
) -> None:
    ticket = begin(calls, instance, bound, attempt)
    assert isinstance(ticket, str)
    calls.end(ticket, Reply("hi", cost=D(cost)))


def test_a_call_that_is_dearer_than_what_is_left_ends_its_attempt_alone(
    tmp_path: Path,
) -> None:
    calls = coordinator(tmp_path)
    make_call(calls, "a")
    make_call(calls, "b")
    with pytest.raises(AttemptLimitError, match="the next call may cost \\$22"):
        begin(calls, "b", OVERSIZED)
    with pytest.raises(AttemptLimitError):
        begin(calls, "c", OVERSIZED)
    assert not calls.budget_reason
    make_call(calls, "d")
    # A limit that the user may raise keeps no instance from its next call.
    assert not [entry for entry in calls.entries("b") if entry.kind == "denied"]


def test_the_first_call_of_a_run_does_not_end_it_either(tmp_path: Path) -> None:
    calls = coordinator(tmp_path)
    for attempt in (1, 2):
        with pytest.raises(BudgetUsedError):
            begin(calls, "a", OVERSIZED, attempt)
    assert not calls.budget_reason
    make_call(calls, "b")
    with pytest.raises(AttemptLimitError):
        begin(calls, "c", OVERSIZED)


def test_a_run_whose_budget_is_too_small_for_any_call_ends(tmp_path: Path) -> None:
    calls = coordinator(tmp_path, "0.05")
    for instance in ("a", "b"):
        assert not calls.budget_reason
        with pytest.raises(BudgetUsedError) as denied:
            begin(calls, instance, PLAIN)
        assert not isinstance(denied.value, AttemptLimitError)
    assert "raise it to go on" in calls.budget_reason


def test_a_run_ends_when_the_dearest_calls_of_most_attempts_do_not_fit(
    tmp_path: Path,
) -> None:
    calls = coordinator(tmp_path, "1")
    for instance, bound in {"a": "0.3", "b": "0.5", "c": "0.1"}.items():
        make_call(calls, instance, "0.01", "0.01")
        make_call(calls, instance, bound, "0.2")
    # $0.37 are left: enough for the median attempt.
    with pytest.raises(AttemptLimitError):
        begin(calls, "d", "0.4")
    assert not calls.budget_reason
    make_call(calls, "d", "0.3", "0.08")
    with pytest.raises(BudgetUsedError) as denied:
        begin(calls, "e", "0.31")
    assert not isinstance(denied.value, AttemptLimitError)
    assert calls.budget_reason


def test_the_next_start_of_a_run_without_money_ends_it_too(tmp_path: Path) -> None:
    calls = coordinator(tmp_path, "1")
    for instance in "abc":
        make_call(calls, instance, "0.3", "0.25")
    again = coordinator(tmp_path, "1")
    for instance in "de":
        assert not again.budget_reason
        with pytest.raises(BudgetUsedError) as denied:
            begin(again, instance, "0.3")
        assert not isinstance(denied.value, AttemptLimitError)
    assert again.budget_reason


def test_a_call_that_only_reservations_of_others_exclude_waits(tmp_path: Path) -> None:
    calls = coordinator(tmp_path, "1")
    others = [begin(calls, name, "0.3") for name in ("a", "b", "c")]
    assert isinstance(begin(calls, "d", "0.9"), float)
    for ticket in others:
        assert isinstance(ticket, str)
        failed = Failed("connection refused", reached=False)
        calls.end(ticket, failed)
    assert isinstance(begin(calls, "d", "0.9"), str)
    assert not calls.budget_reason


def test_one_instance_with_an_oversized_request_leaves_the_others_their_money(
    runner: Runner, dataset: Path
) -> None:
    rows = [json.loads(line) for line in dataset.read_text().splitlines()]
    rows[1]["problem_statement"] += " word" * 60_000
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    runner.provider.will_answer(WITHIN)
    config = runner.live("gpt-4o@diff", max_output_tokens=100, call_timeout=60)
    oversized = rows[1]["instance_id"]
    started = runner.start(
        config,
        {"usd": "0.12"},
        dataset=str(dataset),
        ids=(),
        repos=build_mirrors(runner.cache / "demo-mirrors"),
    )
    assert "ended early" not in started.output
    assert len(list(runner.store.prediction_paths())) == COUNT
    attempt = runner.prediction(oversized)["all_results"][0]
    assert attempt["status"] == AttemptStatus.LIMIT
    others = {line.instance_id for line in read_ledger(runner.store.ledger).values}
    assert len(others) == COUNT - 1
    assert len(runner.provider.requests) * CALL <= D("0.12")


def test_a_bound_is_at_most_that_of_the_window() -> None:
    window = Price(D("0.0000025"), D("0.00001")).bound(128_000, 128_000)
    model = LiteLLMModel("gpt-4o", 0.0, 5.0, gate=OpenGate())
    call = model.plan_call("a", "b", 28_000_000, 10_000_000, model.traits.context)
    assert call.bound == window


FREE = Price(D(), D())


@pytest.mark.parametrize("tokens", [0, 5, None])
@pytest.mark.parametrize("output", [0, 5, None])
def test_what_is_free_has_the_bound_0(tokens: int | None, output: int | None) -> None:
    assert cost_bound("my-own", FREE, tokens, output) == 0
    priced = Price(D(1), D(1))
    is_known = tokens is not None and output is not None
    assert (cost_bound("my-own", priced, tokens, output) is not None) is is_known


def test_a_free_model_without_a_known_longest_reply_runs_under_a_budget(
    runner: Runner,
) -> None:
    chosen = runner.live("my-own@diff", call_timeout=1)
    runner.provider.will_answer(Answer("late", hang=5), Answer("hi", usage=False))
    money = {"usd": "1", "prices": ["my-own=0,0"]}
    started = runner.start(chosen, money)
    assert "unknown" not in started.output
    assert "cost $0.00," in started.output
    lines = runner.ledger()
    assert {line.kind for line in lines} == {"failed", "answered"}
    assert {line.cost for line in lines} == {D()}
    assert runner.prediction()["cost"] == 0
