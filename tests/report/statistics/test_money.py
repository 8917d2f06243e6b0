"""Money is exact from the provider's answer to the last file, also in runs of version 0.5.0."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.core import money
from swe_retry.core.money import as_text
from swe_retry.llm.prices import Price
from swe_retry.runner.settings import Spending
from tests.architecture import ROOMS
from tests.support import TOP, read_json
from tests.support.evaluated import TEXTKIT
from tests.support.provider import Answer, Provider
from tests.support.reported import differs, report_run
from tests.support.runs import EDIT, live, options
from tests.support.start import run_command

ODD = Price(Decimal("0.00000333333"), Decimal("0.0000151"))


@pytest.fixture
def priced_run(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
) -> Path:
    """A live run whose calls cost fractions of a cent that no float holds exactly."""
    edits = (EDIT.replace("else:\n            l", "nothing:\n"), EDIT)
    for text in ("textkit/slug.py", *edits):
        answer = Answer(text, tokens=(12_347, 1_231))
        provider.will_answer(answer)
    config = live(provider)
    prices = {model.name: ODD for model in config.models}
    spending = Spending(prices=prices)
    run = options(tmp_path / "out", cache, TEXTKIT, money=spending)
    assert run_command(config, run, lambda _: None) == 0
    folder = tmp_path / "out/predictions/r"
    report_run(folder, cache, page=True)
    return folder


def test_an_untouched_run_verifies_and_prints_exact_sums(priced_run: Path) -> None:
    assert not differs(priced_run)
    input_dollars = ODD.input * 12_347
    output_dollars = ODD.output * 1_231
    each = money.dollars(input_dollars + output_dollars)
    lines = (priced_run / "ledger.jsonl").read_text().splitlines()
    assert len(lines) == 3
    for line in lines:
        assert json.loads(line)["cost"] == as_text(each)
    stats = read_json(priced_run / "stats.json")
    dollars = stats["effort"]["dollars"]
    assert dollars["known"] == as_text(3 * each)
    cost = read_json(priced_run / f"{TEXTKIT}.json")["cost"]
    assert Decimal(repr(cost)) == 3 * each
    assert isinstance(cost, float)


# A number of JSON tells ten decimals apart below 2**19 dollars.
@given(st.decimals(0, 2**19, places=12))
def test_amounts_are_rounded_once(amount: Decimal) -> None:
    once = money.dollars(amount)
    assert money.dollars(once) == once
    assert abs(once - amount) <= Decimal("5e-11")
    assert money.dollars(money.as_text(once) or "") == once
    assert money.dollars(money.as_number(once) or 0) == once


@pytest.mark.parametrize(
    "amount",
    [
        -1,
        float("nan"),
        float("inf"),
        "x",
        "1e40",
        Decimal("-0.1"),
    ],
)
def test_what_is_no_amount_is_named(amount: Any) -> None:
    with pytest.raises(ValueError, match="not an amount of dollars"):
        money.dollars(amount)


def test_a_sum_says_where_a_part_is_unknown() -> None:
    assert money.sum_words(Decimal("1.5"), complete=True) == "$1.50"
    assert money.sum_words(Decimal("1.5"), complete=False) == "at least $1.50"
    assert money.sum_words(Decimal(0), complete=True) == "$0.00"
    assert money.sum_words(Decimal(0), complete=False) == "unknown"


# A dollar sign before a number: f"${cost:.2f}", "${x:,.4g}", f"${as_text(cost)}", "$%.2f".
WRITES_DOLLARS = re.compile(r"\$\{+[^{}:\n]+:[,.\d{]|\$%[.\d]|\$\{as_")
SUFFIXES = (".py", ".html", ".md", ".txt", ".js")


def test_one_module_writes_dollars() -> None:
    modules = []
    for room in ROOMS:
        for suffix in SUFFIXES:
            for path in (TOP / room).rglob(f"*{suffix}"):
                if WRITES_DOLLARS.search(path.read_text()):
                    modules.append(path.relative_to(TOP).as_posix())
    assert modules == ["swe_retry/core/money.py"]


def test_a_column_has_one_format() -> None:
    texts = {
        "$4.7100": Decimal("4.71"),
        "$0.1683": Decimal("0.1683"),
        "unknown": None,
        "$1,100.0000": Decimal(1100),
    }
    assert money.column(list(texts.values())) == list(texts)
    whole_dollars = [Decimal(0), Decimal(3)]
    assert money.column(whole_dollars) == ["$0.00", "$3.00"]
