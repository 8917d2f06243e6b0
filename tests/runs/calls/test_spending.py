"""Whole runs with many workers and little money: no limit is passed, and nothing is forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice, RunConfig
from bench.instances.dataset import load_dataset
from core.errors import UserError
from demo.setup import build_mirrors
from runs.calls.ledger import LedgerLine, by_instance, read_ledger, total
from runs.storage.store import RunStore
from tests.support.provider import Answer, Provider
from tests.support.runs import live, options, read_money

COUNT = 40
WORKERS = 32
# Fewer tokens than the prompts have, and as many as a reply may have: within the bound.
WITHIN = Answer("I would look at bank/account.py.", tokens=(400, 100))
BEYOND = Answer("I would look at bank/account.py.", tokens=(1_000_000, 100))
CALL = Decimal("0.002")
"""Dollars of an answer WITHIN by gpt-4o: 400 at 2.5 and 100 at 10 dollars per million."""


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A data set of instances that differ in nothing but their ids and issues."""
    rows = load_dataset("demo", "test").rows
    row = next(row for row in rows if row["instance_id"] == "demo__bank-1")
    path = tmp_path / "many.jsonl"
    lines = []
    for n in range(1000, 1000 + COUNT):
        lines.append(
            {
                **row,
                "instance_id": f"demo__bank-{n}",
                "problem_statement": f"Issue {n} of the bank.",
            }
        )
    path.write_text("".join(json.dumps(line, default=str) + "\n" for line in lines))
    return path


@dataclass(frozen=True)
class Spender:
    """Starts one run again and again, with other limits each time."""

    place: Path
    cache: Path
    dataset: Path
    config: RunConfig

    def run(
        self,
        redo: str = "",
        workers: int = WORKERS,
        **limits: Any,
    ) -> tuple[int, str]:
        """Return the exit code, and what was said."""
        said: list[str] = []
        given = options(
            self.place,
            self.cache,
            dataset=str(self.dataset),
            ids=(),
            repos=build_mirrors(self.cache / "demo-mirrors"),
            redo=redo,
            workers=workers,
            money=read_money(self.config.models, **limits),
        )
        return run_command(self.config, given, said.append), "\n".join(said)

    @property
    def store(self) -> RunStore:
        return RunStore(self.place, self.config.run_name)

    def lines(self) -> list[LedgerLine]:
        return list(read_ledger(self.store.ledger).values)

    def predictions(self) -> list[dict[str, Any]]:
        return [
            self.store.raw_prediction(path) for path in self.store.prediction_paths()
        ]


MakeSpender = Callable[..., Spender]


@pytest.fixture
def spender(
    tmp_path: Path,
    cache: Path,
    many: Path,
    provider: Provider,
) -> MakeSpender:
    def make(*names: str) -> Spender:
        models = tuple(
            ModelChoice.parse(f"{name}@diff", any_name=True) for name in names
        )
        config = live(provider, models=models, max_output_tokens=100, call_timeout=60)
        return Spender(tmp_path, cache, many, config)

    return make


def sum_of(lines: list[LedgerLine]) -> Decimal:
    whole = total(lines)
    assert whole is not None
    return whole


def test_many_workers_never_pass_the_budget_and_more_money_finishes_the_run(
    spender: MakeSpender, provider: Provider
) -> None:
    provider.will_answer(WITHIN)
    run = spender("gpt-4o")
    code, said = run.run(usd="0.06")
    assert code == 1
    assert "ended early: --budget-usd: $0." in said and "raise it to go on" in said
    spent = sum_of(run.lines())
    assert spent <= Decimal("0.06")
    # It did not give up early either: what is left is less than a call's bound.
    assert spent > Decimal("0.06") - 5 * CALL
    assert len(run.lines()) == len(provider.requests) == spent / CALL
    assert len(run.predictions()) < COUNT
    # More money, and the same command: what was cut short, and then what was not started.
    code, said = run.run(redo="budget", usd="5")
    assert "ended early" not in said
    code, said = run.run(usd="5")
    assert (code, len(run.predictions())) == (0, COUNT)
    assert {p["status"] for p in run.predictions()} == {"empty"}
    # Nothing was bought twice, and the books agree to the last digit.
    lines = run.lines()
    assert len({line.call for line in lines}) == len(lines) == len(provider.requests)
    assert {line.kind for line in lines} == {"answered"}
    assert sum_of(lines) == CALL * len(lines)
    costs = {p["instance_id"]: Decimal(repr(p["cost"])) for p in run.predictions()}
    assert costs == by_instance(lines)
    assert f"cost ${float(sum_of(lines)):.4f}" in said


def test_many_workers_never_make_more_calls_than_they_may(
    spender: MakeSpender, provider: Provider
) -> None:
    provider.will_answer(WITHIN)
    run = spender("gpt-4o", "gpt-4o-mini")
    code, said = run.run(calls=21)
    assert (code, len(provider.requests), len(run.lines())) == (1, 21, 21)
    assert "ended early: budget.calls: 21 of 21 calls are made" in said
    code, said = run.run(redo="budget", calls=30)
    assert (code, len(provider.requests), len(run.lines())) == (1, 30, 30)


def test_a_budget_per_instance_ends_each_by_itself(
    spender: MakeSpender, provider: Provider
) -> None:
    provider.will_answer(WITHIN)
    run = spender("gpt-4o")
    code, said = run.run(usd_per_instance="0.005")
    assert "ended early" not in said
    assert f"{COUNT} over budget (--budget-usd-per-instance): raise the limit" in said
    assert code == 1
    sums = by_instance(run.lines())
    assert len(sums) == COUNT
    assert all(0 < spent <= Decimal("0.005") for spent in sums.values())
    assert {p["status"] for p in run.predictions()} == {"budget"}


def test_a_budget_per_model_leaves_the_other_model_its_money(
    spender: MakeSpender, provider: Provider
) -> None:
    provider.will_answer(WITHIN)
    run = spender("gpt-4o", "gpt-4o-mini")
    _, said = run.run(usd_per_model="gpt-4o=0.05")
    assert "ended early" not in said
    first = [line for line in run.lines() if line.model == "gpt-4o"]
    assert 0 < sum_of(first) <= Decimal("0.05")
    assert {
        line.instance_id for line in run.lines() if line.model == "gpt-4o-mini"
    } == {p["instance_id"] for p in run.predictions()}
    assert len(run.predictions()) == COUNT


def test_a_server_that_charges_more_than_the_bound_is_logged_and_stops_new_calls(
    spender: MakeSpender, provider: Provider
) -> None:
    provider.will_answer(BEYOND)
    run = spender("gpt-4o")
    code, said = run.run(workers=1, usd="0.06")
    assert (code, len(provider.requests)) == (1, 1)
    assert "ended early: --budget-usd: $2.501000 of $0.060000 are spent" in said
    assert sum_of(run.lines()) == Decimal("2.501")
    log_file = run.store.log_file.read_text()
    assert "more than its bound of $0.0" in log_file and ": charged" in log_file


def test_what_many_workers_pass_is_the_excess_of_the_calls_under_way(
    spender: MakeSpender, provider: Provider
) -> None:
    provider.will_answer(BEYOND)
    run = spender("gpt-4o")
    run.run(usd="0.06")
    # So many bounds fit the budget, and no more calls were let through.
    assert 1 <= len(provider.requests) <= 0.06 / float(CALL)


def test_a_price_of_the_users_own_is_what_is_counted(
    spender: MakeSpender, provider: Provider
) -> None:
    provider.will_answer(WITHIN)
    run = spender("my-own")
    code, _ = run.run(calls=10, prices=["my-own=5,20"])
    assert code == 1
    assert {line.cost for line in run.lines()} == {Decimal("0.004")}
    assert sum_of(run.lines()) == Decimal("0.04")


def test_a_model_without_a_price_is_refused_in_one_line(
    spender: MakeSpender, provider: Provider
) -> None:
    with pytest.raises(
        UserError, match=r"no price is known for my-own: give --price my-own=IN,OUT"
    ) as error:
        spender("my-own").run(usd="1")
    assert "\n" not in str(error.value)
    assert not provider.requests
