"""Money is exact from the provider's answer to the last file, also in runs of version 0.5.0."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli.commands import run_command
from core import money
from core.money import as_text
from llm.prices import Price
from reports.report import report_command
from runs.settings import Spending
from tests.reports.test_verify import verify
from tests.support.evaluated import report_settings
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, live, options

ODD = Price(Decimal("0.00000333333"), Decimal("0.0000151"))


@pytest.fixture
def priced(tmp_path: Path, cache: Path, provider: Provider) -> Path:
    """A live run whose calls cost fractions of a cent that no float holds exactly."""
    tokens = (12_347, 1_231)
    provider.will_answer(
        Answer("textkit/slug.py", tokens=tokens),
        Answer(EDIT.replace("else:\n            l", "nothing:\n"), tokens=tokens),
        Answer(EDIT, tokens=tokens),
    )
    config = live(provider)
    prices = {model.name: ODD for model in config.models}
    run = options(
        tmp_path / "out", cache, "demo__textkit-1", money=Spending(prices=prices)
    )
    assert run_command(config, run, lambda _: None) == 0
    report_command(
        [tmp_path / "out/predictions/r"],
        report_settings(cache, page=True),
        lambda _: None,
    )
    return tmp_path / "out"


def rewritten(path: Path, change: Any) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_an_untouched_run_verifies_and_prints_exact_sums(
    priced: Path, cache: Path
) -> None:
    folder = priced / "predictions/r"
    assert verify(priced, cache) == (0, [f"{folder}: nothing differs"])
    lines = [
        json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()
    ]
    each = money.dollars(ODD.input * 12_347 + ODD.output * 1_231)
    assert [line["cost"] for line in lines] == [as_text(each)] * 3
    stats = json.loads((folder / "stats.json").read_text())
    assert stats["effort"]["dollars"]["known"] == as_text(3 * each)
    prediction = json.loads((folder / "demo__textkit-1.json").read_text())
    assert Decimal(repr(prediction["cost"])) == 3 * each
    assert isinstance(prediction["cost"], float)


# A number of JSON tells ten decimals apart below 2**19 dollars.
@given(st.decimals(0, 2**19, places=12))
def test_amounts_are_rounded_once(amount: Decimal) -> None:
    once = money.dollars(amount)
    assert money.dollars(once) == once
    assert abs(once - amount) <= Decimal("5e-11")
    assert money.dollars(money.as_text(once) or "") == once
    assert money.dollars(money.as_number(once) or 0) == once


@pytest.mark.parametrize(
    "amount", [-1, float("nan"), float("inf"), "x", "1e40", Decimal("-0.1")]
)
def test_what_is_no_amount_is_named(amount: Any) -> None:
    with pytest.raises(ValueError, match="not an amount of dollars"):
        money.dollars(amount)


def test_a_column_has_one_format() -> None:
    costs = [Decimal("4.71"), Decimal("0.1683"), None, Decimal(1100)]
    assert money.column(costs) == ["$4.7100", "$0.1683", "unknown", "$1,100.0000"]
    assert money.column([Decimal(0), Decimal(3)]) == ["$0.00", "$3.00"]
