"""A budget reserves, settles and refuses calls by its limits."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from runs.calls.budget import (
    Budget,
    BudgetLimits,
    LimitScope,
    OverBudgetError,
    Reservation,
)
from tests.support.runs import spent_of

D = Decimal
MODELS = ("gpt", "opus")
INSTANCES = ("a-1", "b-2")


def held(
    budget: Budget,
    bound: str | None,
    instance: str = "a-1",
    model: str = "gpt",
) -> Reservation:
    reservation = budget.reserve(instance, model, None if bound is None else D(bound))
    assert reservation is not None
    return reservation


def refused(
    budget: Budget,
    bound: str | None,
    instance: str = "a-1",
    model: str = "gpt",
) -> LimitScope:
    with pytest.raises(OverBudgetError) as caught:
        budget.reserve(instance, model, None if bound is None else D(bound))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{caught.value.scope.value}: ")
    return caught.value.scope


ONE_DOLLAR = {
    LimitScope.RUN: BudgetLimits(usd=D(1)),
    LimitScope.INSTANCE: BudgetLimits(usd_per_instance=D(1)),
    LimitScope.MODEL: BudgetLimits(usd_per_model={"gpt": D(1)}),
}


@pytest.mark.parametrize("scope", ONE_DOLLAR)
def test_reservations_of_others_may_be_returned(scope: LimitScope) -> None:
    budget = Budget(ONE_DOLLAR[scope])
    first = held(budget, "0.7")
    assert budget.reserve("a-1", "gpt", D("0.4")) is None
    assert spent_of(budget).usd == 0
    assert budget.settle(first, D("0.6")) == 0
    second = held(budget, "0.4")
    assert budget.settle(second, D("0.4")) == 0
    assert spent_of(budget).usd == 1
    assert refused(budget, "0.000000000000000000000000000001") is scope
    assert budget.settle(held(budget, "0"), D(0)) == 0


@pytest.mark.parametrize("scope", ONE_DOLLAR)
def test_a_bound_over_what_is_left_can_never_fit(scope: LimitScope) -> None:
    budget = Budget(ONE_DOLLAR[scope])
    assert refused(budget, "1.01") is scope
    budget.charge("a-1", "gpt", D("0.5"))
    other = held(budget, "0.1")
    assert refused(budget, "0.51") is scope
    assert budget.reserve("a-1", "gpt", D("0.5")) is None
    budget.settle(other, Decimal(0))
    held(budget, "0.5")


def test_a_limit_applies_only_to_its_instance_or_model() -> None:
    limits = BudgetLimits(usd_per_instance=D(1), usd_per_model={"gpt": D(1)})
    budget = Budget(limits)
    budget.charge("a-1", "gpt", D(1))
    assert refused(budget, "0.1", "a-1", "opus") is LimitScope.INSTANCE
    assert refused(budget, "0.1", "b-2", "gpt") is LimitScope.MODEL
    held(budget, "1", "b-2", "opus")


def test_the_widest_limit_that_refuses_is_named() -> None:
    limits = BudgetLimits(D(1), D(1), {"gpt": D(1)}, 1)
    for narrower, scope in (
        (limits, LimitScope.CALLS),
        (replace(limits, calls=None), LimitScope.RUN),
        (replace(limits, calls=None, usd=None), LimitScope.MODEL),
        (replace(limits, calls=None, usd=None, usd_per_model={}), LimitScope.INSTANCE),
    ):
        budget = Budget(narrower)
        budget.charge("a-1", "gpt", D(1))
        assert refused(budget, "0.1") is scope


def test_calls_are_reserved_too() -> None:
    budget = Budget(BudgetLimits(calls=2))
    first = held(budget, None)
    second = held(budget, "5")
    assert budget.reserve("b-2", "opus", D(0)) is None
    assert spent_of(budget).calls == 0
    budget.settle(first, Decimal(0))
    assert budget.settle(second, D(5)) == 0
    assert (spent_of(budget).calls, spent_of(budget).usd) == (2, 5)
    assert refused(budget, None) is LimitScope.CALLS


def test_an_error_counts_as_a_call_and_costs_nothing() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    budget.settle(held(budget, "1"), Decimal(0))
    assert (spent_of(budget).calls, spent_of(budget).usd) == (1, 0)
    held(budget, "1")


def test_earlier_spending_counts() -> None:
    budget = Budget(BudgetLimits(usd=D(10), calls=9))
    budget.charge("a-1", "gpt", D("1.5"), calls=3)
    budget.charge("a-1", "opus", D("2.25"))
    budget.charge("b-2", "opus", None, calls=4)
    spent = spent_of(budget)
    assert (spent.usd, spent.calls) == (D("3.75"), 8)
    assert spent.by_model == {"gpt": D("1.5"), "opus": D("2.25")}
    assert spent.by_instance == {"a-1": D("3.75"), "b-2": D(0)}
    assert refused(budget, "6.26") is LimitScope.RUN
    held(budget, "6.25")


def test_an_unknown_cost_is_the_bound_and_not_0() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    assert budget.settle(held(budget, "0.4"), None) == 0
    assert budget.settle(held(budget, None), None) == 0
    assert spent_of(budget).usd == D("0.4")


def test_a_model_without_a_price_counts_calls_only() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    full = held(budget, "1")
    budget.settle(held(budget, None), Decimal(0))
    budget.settle(full, D(1))
    unpriced = held(budget, None)
    assert budget.settle(unpriced, D("0.01")) == 0
    assert refused(budget, None) is LimitScope.RUN


@pytest.mark.parametrize("scope", ONE_DOLLAR)
def test_an_excess_is_charged_and_stops_where_it_passes_a_limit(
    scope: LimitScope,
) -> None:
    budget = Budget(ONE_DOLLAR[scope])
    assert budget.settle(held(budget, "0.3"), D("0.5")) == D("0.2")
    last = held(budget, "0.5")
    assert budget.settle(last, D("0.75")) == D("0.25")
    assert spent_of(budget).usd == D("1.25")
    assert refused(budget, "0") is scope
    assert refused(budget, None) is scope
    if scope is LimitScope.RUN:
        assert refused(budget, "0", "b-2", "opus") is scope
    else:
        held(budget, "1", "b-2", "opus")


def test_an_excess_is_taken_from_what_others_may_reserve() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    first = held(budget, "0.5")
    second = held(budget, "0.5")
    budget.settle(first, D("0.6"))
    assert budget.reserve("a-1", "gpt", D(0)) is None
    budget.settle(second, D("0.4"))
    held(budget, "0")
    assert refused(budget, "0.1") is LimitScope.RUN


def test_settling_twice_is_an_error_and_charges_once() -> None:
    budget = Budget(BudgetLimits())
    one = held(budget, "1")
    budget.settle(one, D(1))
    with pytest.raises(ValueError, match="settled twice"):
        budget.settle(one, D(1))
    with pytest.raises(ValueError, match="settled twice"):
        budget.settle(one, Decimal(0))
    with pytest.raises(ValueError, match="settled twice"):
        Budget(BudgetLimits()).settle(held(budget, "1"), D(1))
    assert (spent_of(budget).usd, spent_of(budget).calls) == (1, 1)


@pytest.mark.parametrize("cost", ["-0.01", "NaN", "Infinity"])
def test_an_invalid_cost_changes_nothing(cost: str) -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    one = held(budget, "1")
    for attempt in (
        lambda: budget.settle(one, D(cost)),
        lambda: budget.charge("a-1", "gpt", D(cost)),
        lambda: budget.reserve("a-1", "gpt", D(cost)),
    ):
        with pytest.raises(ValueError, match="is not a sum of dollars"):
            attempt()
    assert (spent_of(budget).usd, spent_of(budget).calls) == (0, 0)
    budget.settle(one, D(1))


def test_the_last_digit_counts() -> None:
    """Decimal rounds sums to 28 digits: 10 + 1e-40 would be 10."""
    budget = Budget(BudgetLimits(usd=D(10)))
    budget.charge("a-1", "gpt", D("1e-40"))
    assert refused(budget, "10") is LimitScope.RUN
    budget = Budget(BudgetLimits(usd=D(1)))
    for _ in range(10):
        budget.settle(held(budget, "0.1"), D("0.1"))
    assert spent_of(budget).usd == 1


def test_hostile_sums_are_counted() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    budget.charge("a-1", "gpt", D(str(1.7e308)))
    assert spent_of(budget).usd > 10**300
    assert refused(budget, "0") is LimitScope.RUN
