"""What the user writes for dollars, prices and rates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

import pytest

from swe_retry.core.errors import UserError
from swe_retry.core.settings import EVERY
from swe_retry.core.sources import SourcedValue, check_settings, merge_layers
from swe_retry.llm.prices import Price
from swe_retry.runner.settings import CommonSettings, Spending, make_rates

ALIASES = {"opus": "anthropic/claude-opus-4"}


def resolve(name: str) -> str:
    if name == "nobody":
        raise UserError("unknown model 'nobody'")
    return ALIASES.get(name, name)


def read(setting: str, *texts: str) -> CommonSettings:
    layers = [{setting: SourcedValue(setting, text)} for text in texts]
    layer = merge_layers(CommonSettings, layers)
    return check_settings(CommonSettings, layer)


def spending(setting: str, *texts: str) -> Spending:
    return Spending.of(read(setting, *texts).budget, resolve)


def prices(*texts: str) -> dict[str, Price]:
    return dict(spending("budget.prices", *texts).prices)


def rate(text: str) -> Mapping[str, int]:
    calls = read("calls.per_minute", text).calls
    return make_rates(calls, resolve).requests_per_minute


def test_dollars() -> None:
    limits = spending("budget.usd", "12.50")
    assert limits.usd == Decimal("12.5")
    limits = spending("budget.usd", " 1e2 ")
    assert limits.usd == 100
    limits = spending("budget.usd_per_model", "gpt-4o=50, opus = 200.5")
    assert limits.usd_per_model == {
        "gpt-4o": Decimal(50),
        "anthropic/claude-opus-4": Decimal("200.5"),
    }


def test_prices_are_given_per_million_and_kept_per_token() -> None:
    by_model = prices("opus=15,75", "ollama/llama3=0,0", "a=b=1,2.5")
    opus = by_model["anthropic/claude-opus-4"]
    assert opus.input == Decimal("0.000015")
    assert opus.bound(1_000_000, 2) == Decimal("15.00015")
    llama = by_model["ollama/llama3"]
    assert llama.bound(10**9, 10**9) == 0
    odd = by_model["a=b"]
    assert odd.output == Decimal("0.0000025")
    assert prices() == {}


def test_rates_for_all_and_for_one() -> None:
    assert rate("500") == {EVERY: 500}
    assert rate("500,opus=50") == {EVERY: 500, "anthropic/claude-opus-4": 50}
    assert rate("gpt-4o=7") == {"gpt-4o": 7}


NINES = "9" * 99
# What users may write wrongly, and what the one line of the refusal says.
MALFORMED = {
    "budget.usd": (r"^budget\.usd .*{text}.*: ", (
        "0", "-0", "0.00", "-1", "nan", "sNaN", "inf", "-Infinity", "12,50", "$5", "1e10",
        "1e-999999", "1e999999", "five",
    )),
    "budget.prices": (r"^budget\.prices.*: ", (
        "m=1", "m=1,2,3", "m=1,x,2", "m=,", "m=1,", "m=-1,2", "m=1,nan", "m=inf,1", "m=a,b", "m",
        "=1,2",
    )),
    "calls.per_minute": (r"^calls\.per_minute", (
        "0", "-5", "1.5", "many", "5,6", "gpt-4o=0", "gpt-4o=1e3", "gpt-4o=", "=5", "5,", NINES,
        "gpt-4o=5,gpt-4o=6", "gpt-4o=²",
    )),
}  # fmt: skip


def refusal(setting: str, *texts: str) -> str:
    with pytest.raises(UserError) as caught:
        common = read(setting, *texts)
        Spending.of(common.budget, resolve)
        make_rates(common.calls, resolve)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("setting", MALFORMED)
def test_what_is_no_amount_is_refused(setting: str) -> None:
    pattern, texts = MALFORMED[setting]
    for text in texts:
        message = refusal(setting, text)
        expected = pattern.format(text=re.escape(text))
        assert re.search(expected, message), message


def test_wrong_dollars_per_model() -> None:
    opus = "anthropic/claude-opus-4"
    messages = {
        "50": "give MODEL=VALUE",
        "=50": "give MODEL=VALUE",
        "gpt-4o=": "must be a valid decimal",
        "gpt-4o=50,": "must be a valid decimal",
        "gpt-4o=0": "budget.usd_per_model gpt-4o 0: give dollars above 0",
        "gpt-4o=nan": "budget.usd_per_model gpt-4o nan: must be a finite number",
        f"opus=1,{opus}=2": ") stands twice",
        "nobody=1": "unknown model 'nobody'",
    }
    for text, message in messages.items():
        assert message in refusal("budget.usd_per_model", text), text
    assert f"{opus} (" in refusal("budget.usd_per_model", f"opus=1,{opus}=2")


def test_a_price_stands_once() -> None:
    assert "stands twice" in refusal("budget.prices", "m=1,2,m=1,2")
    twice = ("opus=1,2", "anthropic/claude-opus-4=1,2")
    assert "stands twice" in refusal("budget.prices", *twice)
