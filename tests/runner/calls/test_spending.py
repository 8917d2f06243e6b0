"""Whole runs with many workers and little money: no limit is passed, and nothing is forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import RunConfig
from swe_retry.demo.setup import build_mirrors
from swe_retry.instances.dataset import load_dataset
from swe_retry.runner.calls.ledger import LedgerLine, by_instance, total
from tests.support.provider import Answer
from tests.support.runner import Outcome, Runner

COUNT = 20
# Fewer tokens than the prompts have, and as many as a reply may have: within the bound.
WITHIN = Answer("I would look at bank/account.py.", tokens=(400, 100))
BEYOND = Answer("I would look at bank/account.py.", tokens=(1_000_000, 100))
CALL = Decimal("0.002")
"""Dollars of an answer WITHIN by gpt-4o: 400 at 2.5 and 100 at 10 dollars per million."""


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A data set of instances that differ in nothing but their ids and issues."""
    rows = load_dataset("demo", "test").rows
    (row,) = [row for row in rows if row["instance_id"] == "demo__bank-1"]
    path = tmp_path / "many.jsonl"
    with path.open("w") as stream:
        for n in range(1000, 1000 + COUNT):
            instance = {
                **row,
                "instance_id": f"demo__bank-{n}",
                "problem_statement": f"Issue {n} of the bank.",
            }
            stream.write(json.dumps(instance, default=str) + "\n")
    return path


@dataclass(frozen=True)
class Spender:
    """Starts one run again and again, with other limits each time."""

    runner: Runner
    dataset: Path
    config: RunConfig

    def start(self, redo: str = "", workers: int = 16, **limits: Any) -> Outcome:
        return self.runner.start(
            self.config,
            limits,
            dataset=str(self.dataset),
            ids=(),
            repos=build_mirrors(self.runner.cache / "demo-mirrors"),
            redo=redo,
            workers=workers,
        )

    def lines(self) -> list[LedgerLine]:
        return self.runner.ledger()

    def requests(self) -> int:
        return len(self.runner.provider.requests)

    def predictions(self) -> list[dict[str, Any]]:
        store = self.runner.store
        return [store.raw_prediction(path) for path in store.prediction_paths()]


MakeSpender = Callable[..., Spender]


@pytest.fixture
def spender(runner: Runner, dataset: Path) -> MakeSpender:
    def make(*names: str, answer: Answer = WITHIN) -> Spender:
        runner.provider.will_answer(answer)
        models = [f"{name}@diff" for name in names]
        config = runner.live(*models, max_output_tokens=100, call_timeout=60)
        return Spender(runner, dataset, config)

    return make


def sum_of(lines: list[LedgerLine]) -> Decimal:
    dollars = total(lines)
    assert dollars is not None
    return dollars


def test_many_workers_never_pass_the_budget_and_more_money_finishes_the_run(
    spender: MakeSpender,
) -> None:
    run = spender("gpt-4o")
    started = run.start(usd="0.03")
    assert started.code == 1
    assert "ended early: --budget-usd: $0." in started.output
    assert "raise it to go on" in started.output
    spent = sum_of(run.lines())
    assert spent <= Decimal("0.03")
    # It did not give up early either: what is left is less than a call's bound.
    assert spent > Decimal("0.03") - 5 * CALL
    assert len(run.lines()) == run.requests()
    assert run.requests() == spent / CALL
    assert len(run.predictions()) < COUNT
    # More money, and the same command: what was cut short, and then what was not started.
    started = run.start(redo="budget", usd="5")
    assert "ended early" not in started.output
    started = run.start(usd="5")
    predictions = run.predictions()
    assert started.code == 0
    assert len(predictions) == COUNT
    assert {prediction["status"] for prediction in predictions} == {"empty"}
    # Nothing was bought twice, and the books agree to the last digit.
    lines = run.lines()
    assert len(lines) == run.requests()
    assert len({line.call for line in lines}) == len(lines)
    assert {line.kind for line in lines} == {"answered"}
    assert sum_of(lines) == CALL * len(lines)
    costs = {}
    for prediction in predictions:
        name = prediction["instance_id"]
        costs[name] = Decimal(repr(prediction["cost"]))
    assert costs == by_instance(lines)
    assert f"cost ${float(sum_of(lines)):.4f}" in started.output


def test_many_workers_never_make_more_calls_than_they_may(spender: MakeSpender) -> None:
    run = spender("gpt-4o", "gpt-4o-mini")
    started = run.start(calls=11)
    assert started.code == 1
    assert run.requests() == 11
    assert len(run.lines()) == 11
    assert "ended early: budget.calls: 11 of 11 calls are made" in started.output
    started = run.start(redo="budget", calls=16)
    assert started.code == 1
    assert run.requests() == 16
    assert len(run.lines()) == 16


def test_a_budget_per_instance_ends_each_by_itself(spender: MakeSpender) -> None:
    run = spender("gpt-4o")
    started = run.start(usd_per_instance="0.005")
    assert started.code == 1
    assert "ended early" not in started.output
    over_budget = f"{COUNT} over budget (--budget-usd-per-instance): raise the limit"
    assert over_budget in started.output
    sums = by_instance(run.lines())
    assert len(sums) == COUNT
    for spent in sums.values():
        assert spent is not None
        assert 0 < spent <= Decimal("0.005")
    statuses = {prediction["status"] for prediction in run.predictions()}
    assert statuses == {"budget"}


def test_a_budget_per_model_leaves_the_other_model_its_money(
    spender: MakeSpender,
) -> None:
    run = spender("gpt-4o", "gpt-4o-mini")
    started = run.start(usd_per_model="gpt-4o=0.025")
    assert "ended early" not in started.output
    of_first = []
    asked_of_other = set()
    for line in run.lines():
        if line.model == "gpt-4o":
            of_first.append(line)
        else:
            asked_of_other.add(line.instance_id)
    assert 0 < sum_of(of_first) <= Decimal("0.025")
    predicted = {prediction["instance_id"] for prediction in run.predictions()}
    assert asked_of_other == predicted
    assert len(predicted) == COUNT


def test_a_server_that_charges_more_than_the_bound_is_logged_and_stops_new_calls(
    spender: MakeSpender,
) -> None:
    run = spender("gpt-4o", answer=BEYOND)
    started = run.start(workers=1, usd="0.06")
    assert started.code == 1
    assert run.requests() == 1
    message = "ended early: --budget-usd: $2.501000 of $0.060000 are spent"
    assert message in started.output
    assert sum_of(run.lines()) == Decimal("2.501")
    log = run.runner.store.log_file.read_text()
    assert "more than its bound of $0.0" in log
    assert ": charged" in log


def test_what_many_workers_pass_is_the_excess_of_the_calls_under_way(
    spender: MakeSpender,
) -> None:
    run = spender("gpt-4o", answer=BEYOND)
    run.start(usd="0.06")
    # So many bounds fit the budget, and no more calls were let through.
    assert 1 <= run.requests() <= 0.06 / float(CALL)
