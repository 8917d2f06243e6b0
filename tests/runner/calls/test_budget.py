"""A budget reserves, settles and refuses calls by its limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from swe_retry.runner.calls.budget import (
    Budget,
    BudgetLimits,
    LimitScope,
    OverBudgetError,
    Reservation,
)
from tests.support.runs import spent_of

# Instance and model of a call.
FIRST = ("a-1", "gpt")
OTHER = ("b-2", "opus")
DOLLAR = Decimal(1)
ONE_DOLLAR = {
    LimitScope.RUN: BudgetLimits(usd=DOLLAR),
    LimitScope.INSTANCE: BudgetLimits(usd_per_instance=DOLLAR),
    LimitScope.MODEL: BudgetLimits(usd_per_model={"gpt": DOLLAR}),
}
each_limit = pytest.mark.parametrize("scope", ONE_DOLLAR)


def dollars(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


class Purse:
    """A budget whose amounts are given as texts."""

    def __init__(self, limits: BudgetLimits | None = None) -> None:
        self.budget = Budget(limits or ONE_DOLLAR[LimitScope.RUN])

    def ask(
        self,
        bound: str | None,
        call: tuple[str, str] = FIRST,
    ) -> Reservation | None:
        return self.budget.reserve(*call, dollars(bound))

    def hold(self, bound: str | None, call: tuple[str, str] = FIRST) -> Reservation:
        reservation = self.ask(bound, call)
        assert reservation is not None
        return reservation

    def refusal(self, bound: str | None, call: tuple[str, str] = FIRST) -> LimitScope:
        """Return the limit that refuses a call for good."""
        with pytest.raises(OverBudgetError) as caught:
            self.ask(bound, call)
        message = str(caught.value)
        assert "\n" not in message
        assert message.startswith(f"{caught.value.scope.value}: ")
        return caught.value.scope

    def settle(self, reservation: Reservation, cost: str | None) -> str:
        """Return by how much the call passed its bound."""
        excess = self.budget.settle(reservation, dollars(cost))
        return str(excess)

    def excess(self, bound: str | None, cost: str | None) -> str:
        """Reserve and settle a call; return by how much it passed its bound."""
        return self.settle(self.hold(bound), cost)

    def charge(
        self,
        cost: str | None,
        call: tuple[str, str] = FIRST,
        calls: int = 1,
    ) -> None:
        self.budget.charge(*call, dollars(cost))
        for _ in range(calls - 1):
            self.budget.charge(*call, None)

    @property
    def spent(self) -> tuple[Decimal, int]:
        """Dollars and calls."""
        spent = spent_of(self.budget)
        return spent.usd, spent.calls


@each_limit
def test_reservations_of_others_may_be_returned(scope: LimitScope) -> None:
    purse = Purse(ONE_DOLLAR[scope])
    first = purse.hold("0.7")
    assert purse.ask("0.4") is None
    assert purse.spent == (Decimal(0), 0)
    assert purse.settle(first, "0.6") == "0"
    second = purse.hold("0.4")
    assert purse.settle(second, "0.4") == "0"
    assert purse.spent == (Decimal(1), 2)
    assert purse.refusal("0.000000000000000000000000000001") is scope
    assert purse.excess("0", "0") == "0"


@each_limit
def test_a_bound_over_what_is_left_can_never_fit(scope: LimitScope) -> None:
    purse = Purse(ONE_DOLLAR[scope])
    assert purse.refusal("1.01") is scope
    purse.charge("0.5")
    other = purse.hold("0.1")
    assert purse.refusal("0.51") is scope
    assert purse.ask("0.5") is None
    purse.settle(other, "0")
    purse.hold("0.5")


def test_a_limit_applies_only_to_its_instance_or_model() -> None:
    limits = BudgetLimits(usd_per_instance=DOLLAR, usd_per_model={"gpt": DOLLAR})
    purse = Purse(limits)
    purse.charge("1")
    assert purse.refusal("0.1", ("a-1", "opus")) is LimitScope.INSTANCE
    assert purse.refusal("0.1", ("b-2", "gpt")) is LimitScope.MODEL
    purse.hold("1", OTHER)


def test_the_widest_limit_that_refuses_is_named() -> None:
    limits = BudgetLimits(
        usd=DOLLAR,
        usd_per_instance=DOLLAR,
        usd_per_model={"gpt": DOLLAR},
        calls=1,
    )
    without_calls = replace(limits, calls=None)
    without_dollars = replace(without_calls, usd=None)
    per_instance = replace(without_dollars, usd_per_model={})
    scopes = [
        (limits, LimitScope.CALLS),
        (without_calls, LimitScope.RUN),
        (without_dollars, LimitScope.MODEL),
        (per_instance, LimitScope.INSTANCE),
    ]
    for narrower, scope in scopes:
        purse = Purse(narrower)
        purse.charge("1")
        assert purse.refusal("0.1") is scope


def test_calls_are_reserved_too() -> None:
    purse = Purse(BudgetLimits(calls=2))
    first = purse.hold(None)
    second = purse.hold("5")
    assert purse.ask("0", OTHER) is None
    assert purse.spent == (Decimal(0), 0)
    purse.settle(first, "0")
    assert purse.settle(second, "5") == "0"
    assert purse.spent == (Decimal(5), 2)
    assert purse.refusal(None) is LimitScope.CALLS


def test_an_error_counts_as_a_call_and_costs_nothing() -> None:
    purse = Purse()
    purse.excess("1", "0")
    assert purse.spent == (Decimal(0), 1)
    purse.hold("1")


def test_earlier_spending_counts() -> None:
    limits = BudgetLimits(usd=Decimal(10), calls=9)
    purse = Purse(limits)
    purse.charge("1.5", calls=3)
    purse.charge("2.25", ("a-1", "opus"))
    purse.charge(None, OTHER, calls=4)
    spent = spent_of(purse.budget)
    assert spent.usd == Decimal("3.75")
    assert spent.calls == 8
    assert spent.by_model == {
        "gpt": Decimal("1.5"),
        "opus": Decimal("2.25"),
    }
    assert spent.by_instance == {"a-1": Decimal("3.75"), "b-2": 0}
    assert purse.refusal("6.26") is LimitScope.RUN
    purse.hold("6.25")


def test_an_unknown_cost_is_the_bound_and_not_0() -> None:
    purse = Purse()
    assert purse.excess("0.4", None) == "0"
    assert purse.excess(None, None) == "0"
    assert purse.spent == (Decimal("0.4"), 2)


def test_a_model_without_a_price_counts_calls_only() -> None:
    purse = Purse()
    full = purse.hold("1")
    purse.excess(None, "0")
    purse.settle(full, "1")
    assert purse.excess(None, "0.01") == "0"
    assert purse.refusal(None) is LimitScope.RUN


@each_limit
def test_an_excess_is_charged_and_stops_where_it_passes_a_limit(
    scope: LimitScope,
) -> None:
    purse = Purse(ONE_DOLLAR[scope])
    assert purse.excess("0.3", "0.5") == "0.2"
    assert purse.excess("0.5", "0.75") == "0.25"
    assert purse.spent == (Decimal("1.25"), 2)
    assert purse.refusal("0") is scope
    assert purse.refusal(None) is scope
    if scope is LimitScope.RUN:
        assert purse.refusal("0", OTHER) is scope
    else:
        purse.hold("1", OTHER)


def test_an_excess_is_taken_from_what_others_may_reserve() -> None:
    purse = Purse()
    first = purse.hold("0.5")
    second = purse.hold("0.5")
    purse.settle(first, "0.6")
    assert purse.ask("0") is None
    purse.settle(second, "0.4")
    purse.hold("0")
    assert purse.refusal("0.1") is LimitScope.RUN


def test_settling_twice_is_an_error_and_charges_once() -> None:
    purse = Purse(BudgetLimits())
    reservation = purse.hold("1")
    purse.settle(reservation, "1")
    for cost in ("1", "0"):
        with pytest.raises(ValueError, match="settled twice"):
            purse.settle(reservation, cost)
    with pytest.raises(ValueError, match="settled twice"):
        Purse().settle(purse.hold("1"), "1")
    assert purse.spent == (Decimal(1), 1)


@pytest.mark.parametrize("cost", ["-0.01", "NaN", "Infinity"])
def test_an_invalid_cost_changes_nothing(cost: str) -> None:
    purse = Purse()
    reservation = purse.hold("1")
    attempts: list[Callable[[], object]] = [
        lambda: purse.settle(reservation, cost),
        lambda: purse.charge(cost),
        lambda: purse.ask(cost),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match="is not a sum of dollars"):
            attempt()
    assert purse.spent == (Decimal(0), 0)
    purse.settle(reservation, "1")


def test_the_last_digit_counts() -> None:
    """Decimal rounds sums to 28 digits: 1 + 1e-40 would be 1."""
    purse = Purse()
    purse.charge("1e-40")
    assert purse.refusal("1") is LimitScope.RUN
    purse = Purse()
    for _ in range(10):
        purse.excess("0.1", "0.1")
    assert purse.spent == (Decimal(1), 10)


def test_hostile_sums_are_counted() -> None:
    purse = Purse()
    purse.charge(str(1.7e308))
    assert purse.spent[0] > 10**300
    assert purse.refusal("0") is LimitScope.RUN
