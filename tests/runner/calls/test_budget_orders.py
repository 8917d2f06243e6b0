"""No order of reservations, and no number of threads, exceeds a budget."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.runner.calls.budget import (
    Budget,
    BudgetLimits,
    LimitScope,
    OverBudgetError,
    Reservation,
)
from tests.support.runner import in_threads
from tests.support.runs import spent_of

D = Decimal
MODELS = ("gpt", "opus")
INSTANCES = ("a-1", "b-2")


@dataclass(frozen=True)
class Call:
    """A call, and the share of its bound that it costs."""

    instance: str
    model: str
    bound: Decimal | None
    share: Decimal | None


_MONEY = st.decimals(
    0,
    5,
    allow_nan=False,
    allow_infinity=False,
    places=6,
)
_SHARE = st.decimals(0, 1, places=3)
_CALLS = st.builds(
    Call,
    st.sampled_from(INSTANCES),
    st.sampled_from(MODELS),
    st.none() | _MONEY,
    st.none() | _SHARE,
)
_LIMITS = st.builds(
    BudgetLimits,
    st.none() | _MONEY,
    st.none() | _MONEY,
    st.dictionaries(st.sampled_from(MODELS), _MONEY),
    st.none() | st.integers(0, 12),
)


def within(budget: Budget, limits: BudgetLimits) -> bool:
    spent = spent_of(budget)
    sums: list[tuple[Decimal, Decimal | int | None]] = [
        (spent.usd, limits.usd),
        (Decimal(spent.calls), limits.calls),
    ]
    for usd in spent.by_instance.values():
        sums.append((usd, limits.usd_per_instance))
    for model, usd in spent.by_model.items():
        sums.append((usd, limits.usd_per_model.get(model)))
    return all(limit is None or value <= limit for value, limit in sums)


@given(
    _LIMITS,
    st.lists(_CALLS, max_size=40),
    st.lists(st.integers(0, 99), max_size=40),
)
def test_no_order_of_reserving_and_settling_passes_a_limit(
    limits: BudgetLimits,
    calls: Sequence[Call],
    order: Sequence[int],
) -> None:
    budget = Budget(limits)
    under_way: list[tuple[Reservation, Call]] = []
    turns = iter(order)
    costs: list[Decimal] = []

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
            reservation = None
            never = True
        if reservation:
            under_way.append((reservation, call))
        else:
            # "Not now" is only answered while there are reservations.
            assert never or under_way
        while under_way and next(turns, 1) % 2:
            costs.append(settle(next(turns, 0)))
    while under_way:
        costs.append(settle(0))
    spent = spent_of(budget)
    assert spent.usd == sum(costs)
    assert spent.calls == len(costs)
    assert sum(spent.by_model.values()) == spent.usd
    assert sum(spent.by_instance.values()) == spent.usd


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


@pytest.mark.usefixtures("eager_switches")
def test_64_threads_do_not_pass_a_limit_together() -> None:
    limits = BudgetLimits(
        usd=D("2.5"),
        usd_per_instance=D("1.5"),
        usd_per_model={"gpt": D(1)},
        calls=300,
    )
    budget = Budget(limits)
    begin = threading.Barrier(64)
    passed: list[int] = []
    done: list[Decimal] = []

    def work(worker: int) -> None:
        random = Random(worker)
        begin.wait()
        while True:
            bound = D(random.randrange(1, 2000)) / 100_000
            instance = random.choice(INSTANCES)
            model = random.choice(MODELS)
            try:
                reservation = budget.reserve(instance, model, bound)
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

    in_threads(64, work)
    assert not passed
    spent = spent_of(budget)
    assert spent.usd == sum(done)
    assert spent.calls == len(done)
    # The limits were really tested: nearly all of a budget was spent.
    assert spent.calls > 250 or spent.usd > 2
