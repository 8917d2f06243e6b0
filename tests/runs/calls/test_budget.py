"""No limit is passed, whoever reserves and settles when."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.calls.budget import Budget, BudgetLimits, LimitScope, OverBudgetError, Reservation

D = Decimal
MODELS = ("gpt", "opus")
INSTANCES = ("a-1", "b-2")


def held(
    budget: Budget, bound: str | None, instance: str = "a-1", model: str = "gpt"
) -> Reservation:
    reservation = budget.reserve(instance, model, None if bound is None else D(bound))
    assert reservation is not None
    return reservation


def refused(
    budget: Budget, bound: str | None, instance: str = "a-1", model: str = "gpt"
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
def test_what_is_reserved_by_others_may_come_back(scope: LimitScope) -> None:
    budget = Budget(ONE_DOLLAR[scope])
    first = held(budget, "0.7")
    assert budget.reserve("a-1", "gpt", D("0.4")) is None
    assert budget.spent.usd == 0
    assert budget.settle(first, D("0.6")) == 0
    second = held(budget, "0.4")
    assert budget.settle(second, D("0.4")) == 0
    assert budget.spent.usd == 1
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


def test_a_limit_concerns_its_own_instance_or_model_alone() -> None:
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
    assert budget.spent.calls == 0
    budget.settle(first, Decimal(0))
    assert budget.settle(second, D(5)) == 0
    assert (budget.spent.calls, budget.spent.usd) == (2, 5)
    assert refused(budget, None) is LimitScope.CALLS


def test_an_error_counts_as_a_call_and_costs_nothing() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    budget.settle(held(budget, "1"), Decimal(0))
    assert (budget.spent.calls, budget.spent.usd) == (1, 0)
    held(budget, "1")


def test_what_was_spent_before_counts() -> None:
    budget = Budget(BudgetLimits(usd=D(10), calls=9))
    budget.charge("a-1", "gpt", D("1.5"), calls=3)
    budget.charge("a-1", "opus", D("2.25"))
    budget.charge("b-2", "opus", None, calls=4)
    spent = budget.spent
    assert (spent.usd, spent.calls) == (D("3.75"), 8)
    assert spent.by_model == {"gpt": D("1.5"), "opus": D("2.25")}
    assert spent.by_instance == {"a-1": D("3.75"), "b-2": D(0)}
    assert refused(budget, "6.26") is LimitScope.RUN
    held(budget, "6.25")


def test_an_unknown_cost_is_the_bound_and_not_0() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    assert budget.settle(held(budget, "0.4"), None) == 0
    assert budget.settle(held(budget, None), None) == 0
    assert budget.spent.usd == D("0.4")


def test_a_model_without_a_price_counts_calls_only() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    full = held(budget, "1")
    budget.settle(held(budget, None), Decimal(0))
    budget.settle(full, D(1))
    unpriced = held(budget, None)
    assert budget.settle(unpriced, D("0.01")) == 0
    assert refused(budget, None) is LimitScope.RUN


@pytest.mark.parametrize("scope", ONE_DOLLAR)
def test_an_excess_is_charged_and_stops_where_it_passes_a_limit(scope: LimitScope) -> None:
    budget = Budget(ONE_DOLLAR[scope])
    assert budget.settle(held(budget, "0.3"), D("0.5")) == D("0.2")
    last = held(budget, "0.5")
    assert budget.settle(last, D("0.75")) == D("0.25")
    assert budget.spent.usd == D("1.25")
    assert refused(budget, "0") is scope
    assert refused(budget, None) is scope
    if scope is LimitScope.RUN:
        assert refused(budget, "0", "b-2", "opus") is scope
    else:
        held(budget, "1", "b-2", "opus")


def test_an_excess_is_taken_from_what_others_may_reserve() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    first, second = held(budget, "0.5"), held(budget, "0.5")
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
    assert (budget.spent.usd, budget.spent.calls) == (1, 1)


@pytest.mark.parametrize("cost", ["-0.01", "NaN", "Infinity"])
def test_what_is_no_cost_changes_nothing(cost: str) -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    one = held(budget, "1")
    for attempt in (
        lambda: budget.settle(one, D(cost)),
        lambda: budget.charge("a-1", "gpt", D(cost)),
        lambda: budget.reserve("a-1", "gpt", D(cost)),
    ):
        with pytest.raises(ValueError, match="is no sum of dollars"):
            attempt()
    assert (budget.spent.usd, budget.spent.calls) == (0, 0)
    budget.settle(one, D(1))


def test_the_last_digit_counts() -> None:
    """Decimals round a sum at 28 digits: 10 + 1e-40 would be 10."""
    budget = Budget(BudgetLimits(usd=D(10)))
    budget.charge("a-1", "gpt", D("1e-40"))
    assert refused(budget, "10") is LimitScope.RUN
    budget = Budget(BudgetLimits(usd=D(1)))
    for _ in range(10):
        budget.settle(held(budget, "0.1"), D("0.1"))
    assert budget.spent.usd == 1


def test_hostile_sums_are_counted() -> None:
    budget = Budget(BudgetLimits(usd=D(1)))
    budget.charge("a-1", "gpt", D(str(1.7e308)))
    assert budget.spent.usd > 10**300
    assert refused(budget, "0") is LimitScope.RUN


@dataclass(frozen=True)
class Call:
    """A call, and which part of its bound it costs."""

    instance: str
    model: str
    bound: Decimal | None
    share: Decimal | None


_MONEY = st.decimals(0, 5, allow_nan=False, allow_infinity=False, places=6)
_CALLS = st.builds(
    Call,
    st.sampled_from(INSTANCES),
    st.sampled_from(MODELS),
    st.none() | _MONEY,
    st.none() | st.decimals(0, 1, places=3),
)
_LIMITS = st.builds(
    BudgetLimits,
    st.none() | _MONEY,
    st.none() | _MONEY,
    st.dictionaries(st.sampled_from(MODELS), _MONEY),
    st.none() | st.integers(0, 12),
)


def within(budget: Budget, limits: BudgetLimits) -> bool:
    spent = budget.spent
    dollars = [
        (spent.usd, limits.usd),
        *((usd, limits.usd_per_instance) for usd in spent.by_instance.values()),
        *((usd, limits.usd_per_model.get(model)) for model, usd in spent.by_model.items()),
    ]
    calls = limits.calls is None or spent.calls <= limits.calls
    return calls and all(limit is None or usd <= limit for usd, limit in dollars)


@given(_LIMITS, st.lists(_CALLS, max_size=40), st.lists(st.integers(0, 99), max_size=40))
def test_no_order_of_reserving_and_settling_passes_a_limit(
    limits: BudgetLimits, calls: Sequence[Call], order: Sequence[int]
) -> None:
    budget = Budget(limits)
    under_way: list[tuple[Reservation, Call]] = []
    turns = iter(order)
    made, expected = 0, D(0)

    def settle(index: int) -> Decimal:
        reservation, call = under_way.pop(index % len(under_way))
        bound = call.bound or D(0)
        cost = None if call.share is None else bound * call.share
        assert budget.settle(reservation, cost) == 0
        assert within(budget, limits)
        return bound if cost is None else cost

    for call in calls:
        never = False
        try:
            reservation = budget.reserve(call.instance, call.model, call.bound)
        except OverBudgetError:
            reservation, never = None, True
        if reservation:
            under_way.append((reservation, call))
        else:
            # "Not now" is only said while somebody holds something.
            assert never or under_way
        while under_way and next(turns, 1) % 2:
            expected, made = expected + settle(next(turns, 0)), made + 1
    while under_way:
        expected, made = expected + settle(0), made + 1
    assert (budget.spent.usd, budget.spent.calls) == (expected, made)
    assert sum(budget.spent.by_model.values()) == sum(budget.spent.by_instance.values()) == expected


@given(_LIMITS, st.lists(_CALLS, max_size=20), _MONEY)
def test_when_all_is_settled_a_call_fits_or_never_will(
    limits: BudgetLimits, calls: Sequence[Call], bound: Decimal
) -> None:
    budget = Budget(limits)
    for call in calls:
        budget.charge(call.instance, call.model, call.bound)
    for instance, model in product(INSTANCES, MODELS):
        try:
            reservation = budget.reserve(instance, model, bound)
        except OverBudgetError:
            continue
        assert reservation is not None
        budget.settle(reservation, Decimal(0))


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Let threads take turns so often that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
def test_64_threads_do_not_pass_a_limit_together() -> None:
    limits = BudgetLimits(D("2.5"), D("1.5"), {"gpt": D(1)}, 300)
    budget = Budget(limits)
    begin = threading.Barrier(64)
    passed: list[int] = []
    done: list[Decimal] = []

    def work(worker: int) -> None:
        random = Random(worker)
        begin.wait()
        while True:
            bound = D(random.randrange(1, 2000)) / 100_000
            try:
                reservation = budget.reserve(random.choice(INSTANCES), random.choice(MODELS), bound)
            except OverBudgetError as error:
                if error.scope in (LimitScope.RUN, LimitScope.CALLS):
                    return
                continue
            if reservation:
                cost = bound * random.randrange(0, 101) / 100
                budget.settle(reservation, cost)
                done.append(cost)
                if not within(budget, limits):
                    passed.append(worker)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not passed
    spent = budget.spent
    assert (spent.usd, spent.calls) == (sum(done), len(done))
    # That nothing was passed would be no wonder had nothing been spent.
    assert spent.calls > 250 or spent.usd > 2
