"""What the user writes for dollars, prices and rates."""

from __future__ import annotations

from decimal import Decimal

import pytest

from core.errors import UserError
from runs.calls.budget import (
    PerModel,
    parse_per_model,
    parse_prices,
    parse_rates,
    parse_usd,
)

ALIASES = {"opus": "anthropic/claude-opus-4"}


def resolve(name: str) -> str:
    if name == "nobody":
        raise UserError("unknown model 'nobody'")
    return ALIASES.get(name, name)


def test_dollars() -> None:
    assert parse_usd("--budget-usd", "12.50") == Decimal("12.5")
    assert parse_usd("--budget-usd", " 1e2 ") == 100
    assert parse_per_model("gpt-4o=50, opus = 200.5", resolve) == {
        "gpt-4o": Decimal(50),
        "anthropic/claude-opus-4": Decimal("200.5"),
    }


NO_SUMS = ["", "0", "-0", "0.00", "-1", "nan", "sNaN", "inf", "-Infinity", "12,50", "$5", "1e10",
           "1e-999999", "1e999999", "five"]  # fmt: skip


@pytest.mark.parametrize("text", NO_SUMS)
def test_no_sums_of_dollars(text: str) -> None:
    with pytest.raises(
        UserError, match=r"^--budget-usd '.*': give dollars above 0, as 12\.50$"
    ):
        parse_usd("--budget-usd", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--budget-usd-per-model '': give MODEL=VALUE"),
        ("50", "--budget-usd-per-model '50': give MODEL=VALUE"),
        ("=50", "give MODEL=VALUE"),
        ("gpt-4o=", "give MODEL=VALUE"),
        ("gpt-4o=50,", "give MODEL=VALUE"),
        ("gpt-4o=0", "--budget-usd-per-model gpt-4o '0': give dollars above 0"),
        ("gpt-4o=nan", "--budget-usd-per-model gpt-4o 'nan': give dollars above 0"),
        (
            "opus=1,anthropic/claude-opus-4=2",
            r"anthropic/claude-opus-4 \(.*\) stands twice",
        ),
        ("nobody=1", "unknown model 'nobody'"),
    ],
)
def test_wrong_dollars_per_model(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        parse_per_model(text, resolve)
    assert "\n" not in str(caught.value)


def test_prices_are_given_per_million_and_kept_per_token() -> None:
    prices = parse_prices(["opus=15,75", "ollama/llama3=0,0", "a=b=1,2.5"], resolve)
    opus = prices["anthropic/claude-opus-4"]
    assert opus.input == Decimal("0.000015")
    assert opus.bound(1_000_000, 2) == Decimal("15.00015")
    assert prices["ollama/llama3"].bound(10**9, 10**9) == 0
    assert prices["a=b"].output == Decimal("0.0000025")
    assert parse_prices([]) == {}


@pytest.mark.parametrize(
    "text",
    [
        "m=1",
        "m=1,2,3",
        "m=1,x,2",
        "m=,",
        "m=1,",
        "m=-1,2",
        "m=1,nan",
        "m=inf,1",
        "m=a,b",
        "m",
        "=1,2",
    ],
)
def test_wrong_prices(text: str) -> None:
    with pytest.raises(UserError, match=r"^--price .*: give MODEL="):
        parse_prices([text])


def test_a_price_stands_once() -> None:
    with pytest.raises(UserError, match="stands twice"):
        parse_prices(["m=1,2", "m=1,2"])


def test_rates_for_all_and_for_one() -> None:
    assert parse_rates("--rpm", "500", resolve) == PerModel(500)
    both = parse_rates("--rpm", "500,opus=50", resolve)
    assert (both.of("anthropic/claude-opus-4"), both.of("gpt-4o")) == (50, 500)
    one = parse_rates("--rpm", "gpt-4o=7", resolve)
    assert (one.of("gpt-4o"), one.of("other")) == (7, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-5",
        "1.5",
        "many",
        "5,6",
        "gpt-4o=0",
        "gpt-4o=1e3",
        "gpt-4o=",
        "=5",
        "5,",
        "9" * 99,
        "gpt-4o=5,gpt-4o=6",
        "gpt-4o=²",
    ],
)
def test_wrong_rates(text: str) -> None:
    with pytest.raises(UserError, match=r"^--rpm") as caught:
        parse_rates("--rpm", text, resolve)
    assert "\n" not in str(caught.value)
