"""What the user writes for dollars, prices and rates."""

from __future__ import annotations

from decimal import Decimal

import pytest

from core.errors import UserError
from core.settings import SourcedValue, check_settings, merge_layers
from llm.prices import Price
from runs.calls.budget import PerModel
from runs.settings import CommonSettings, Spending, make_rates

ALIASES = {"opus": "anthropic/claude-opus-4"}


def resolve(name: str) -> str:
    if name == "nobody":
        raise UserError("unknown model 'nobody'")
    return ALIASES.get(name, name)


def read(setting: str, *texts: str) -> CommonSettings:
    layers = [{setting: SourcedValue(setting, text)} for text in texts]
    return check_settings(CommonSettings, merge_layers(CommonSettings, layers))


def spending(setting: str, *texts: str) -> Spending:
    return Spending.of(read(setting, *texts).budget, resolve)


def prices(*texts: str) -> dict[str, Price]:
    return dict(spending("budget.prices", *texts).prices)


def rate(text: str) -> PerModel:
    calls = read("calls.per_minute", text).calls
    return make_rates(calls, resolve).requests_per_minute


def test_dollars() -> None:
    assert spending("budget.usd", "12.50").limits.usd == Decimal("12.5")
    assert spending("budget.usd", " 1e2 ").limits.usd == 100
    limits = spending("budget.usd_per_model", "gpt-4o=50, opus = 200.5").limits
    assert limits.usd_per_model == {
        "gpt-4o": Decimal(50),
        "anthropic/claude-opus-4": Decimal("200.5"),
    }


NO_SUMS = ["0", "-0", "0.00", "-1", "nan", "sNaN", "inf", "-Infinity", "12,50", "$5", "1e10",
           "1e-999999", "1e999999", "five"]  # fmt: skip


@pytest.mark.parametrize("text", NO_SUMS)
def test_no_sums_of_dollars(text: str) -> None:
    with pytest.raises(UserError, match=r"^budget\.usd .*: ") as caught:
        spending("budget.usd", text)
    assert text in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("50", "give MODEL=VALUE"),
        ("=50", "give MODEL=VALUE"),
        ("gpt-4o=", "must be a valid decimal"),
        ("gpt-4o=50,", "must be a valid decimal"),
        ("gpt-4o=0", r"budget\.usd_per_model gpt-4o 0: give dollars above 0"),
        ("gpt-4o=nan", r"budget\.usd_per_model gpt-4o nan: must be a finite number"),
        (
            "opus=1,anthropic/claude-opus-4=2",
            r"anthropic/claude-opus-4 \(.*\) stands twice",
        ),
        ("nobody=1", "unknown model 'nobody'"),
    ],
)
def test_wrong_dollars_per_model(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        spending("budget.usd_per_model", text)
    assert "\n" not in str(caught.value)


def test_prices_are_given_per_million_and_kept_per_token() -> None:
    by_model = prices("opus=15,75", "ollama/llama3=0,0", "a=b=1,2.5")
    opus = by_model["anthropic/claude-opus-4"]
    assert opus.input == Decimal("0.000015")
    assert opus.bound(1_000_000, 2) == Decimal("15.00015")
    assert by_model["ollama/llama3"].bound(10**9, 10**9) == 0
    assert by_model["a=b"].output == Decimal("0.0000025")
    assert prices() == {}


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
    with pytest.raises(UserError, match=r"^budget\.prices.*: ") as caught:
        prices(text)
    assert "\n" not in str(caught.value)


def test_a_price_stands_once() -> None:
    with pytest.raises(UserError, match="stands twice"):
        prices("m=1,2,m=1,2")
    with pytest.raises(UserError, match="stands twice"):
        prices("opus=1,2", "anthropic/claude-opus-4=1,2")


def test_rates_for_all_and_for_one() -> None:
    assert rate("500") == PerModel(500)
    both = rate("500,opus=50")
    assert (both.of("anthropic/claude-opus-4"), both.of("gpt-4o")) == (50, 500)
    one = rate("gpt-4o=7")
    assert (one.of("gpt-4o"), one.of("other")) == (7, None)


@pytest.mark.parametrize(
    "text",
    [
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
    with pytest.raises(UserError, match=r"^calls\.per_minute") as caught:
        rate(text)
    assert "\n" not in str(caught.value)
