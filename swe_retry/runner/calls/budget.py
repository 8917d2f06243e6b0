"""Pure: the budget of a run, reserved before each call and settled after it.

While a call runs, other workers spend too. So a call first reserves the most that it can cost, and
starts only when all that is spent and reserved fits every limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from enum import StrEnum
from threading import Lock
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from swe_retry.core.money import in_words
from swe_retry.core.settings import EVERY, Pairs, Section, split_commas

Resolve = Callable[[str], str]
# Amounts outside these limits are typing errors, and exact sums of them would be slow.
_MOST = 1_000_000_000
_LEAST = Decimal("1e-9")


def _check_limits(amount: Decimal) -> Decimal:
    if amount and not _LEAST <= amount < _MOST:
        raise ValueError("give dollars above 0, as 12.50")
    return amount


def _check_above_0(amount: Decimal) -> Decimal:
    if not amount:
        raise ValueError("give dollars above 0, as 12.50")
    return amount


def _check_named(values: Any) -> Any:  # noqa: ANN401 - of any source
    if isinstance(values, dict) and EVERY in values:
        raise ValueError("give MODEL=VALUE, as gpt-4o=50")
    return values


def _parse_price(value: Any) -> Any:  # noqa: ANN401 - of any source
    amounts = split_commas(value)
    if not isinstance(amounts, (list, tuple)) or len(amounts) != 2:
        raise ValueError("give MODEL=IN,OUT in dollars per million tokens")
    return amounts


UsdAmount = Annotated[Decimal, AfterValidator(_check_limits), Field(ge=0)]
UsdLimit = Annotated[UsdAmount, AfterValidator(_check_above_0)]


class BudgetSettings(Section):
    """Limits of what a run spends, and what it costs."""

    usd: UsdLimit | None = None
    """Spend at most this many dollars on the run."""

    usd_per_instance: UsdLimit | None = None
    """Spend at most this many dollars on an instance."""

    usd_per_model: Annotated[
        dict[str, UsdLimit], BeforeValidator(_check_named), Pairs
    ] = Field(default={})
    """Spend at most so many dollars on a model: MODEL=USD,MODEL=USD."""

    calls: int | None = Field(default=None, ge=1)
    """Make at most this many calls in the run."""

    seconds_per_attempt: float | None = Field(default=None, ge=1)
    """Stop calling the model this many seconds after an attempt started."""

    prices: Annotated[
        dict[
            str,
            Annotated[tuple[UsdAmount, UsdAmount], BeforeValidator(_parse_price)],
        ],
        BeforeValidator(_check_named),
        Pairs,
    ] = Field(default={})
    """Count a model at IN,OUT dollars per million tokens; 0,0 is free; repeatable."""

    allow_unpriced: bool = False
    """Run models without a known price."""


_ZERO = Decimal()
# A limit must be exact, and sums of decimals are rounded to 28 digits by default.
_EXACT = Context(prec=1000)


class LimitScope(StrEnum):
    """The scope of a limit; the value is the option or the setting of it."""

    RUN = "--budget-usd"
    INSTANCE = "--budget-usd-per-instance"
    MODEL = "budget.usd_per_model"
    CALLS = "budget.calls"

    @classmethod
    def _missing_(cls, value: object) -> LimitScope | None:
        # As journals up to version 0.12 name them.
        former = {"--budget-usd-per-model": cls.MODEL, "--max-calls": cls.CALLS}
        return former.get(str(value))


class OverBudgetError(Exception):
    """A call cannot fit even if all other reservations are cancelled; one line for the user.

    Attributes:
        limit: dollars or calls, as the option of ``scope`` sets them.
        left: of the limit, without regard to what is reserved.
    """

    def __init__(
        self,
        scope: LimitScope,
        message: str,
        limit: Decimal,
        left: Decimal,
    ) -> None:
        super().__init__(message)
        self.scope = scope
        self.limit = limit
        self.left = left


@dataclass(frozen=True)
class BudgetLimits:
    """The most dollars and calls; None, or a model that is not named, means no limit."""

    usd: Decimal | None = None
    usd_per_instance: Decimal | None = None
    usd_per_model: Mapping[str, Decimal] = field(default_factory=dict)
    calls: int | None = None

    def limit_of(self, scope: LimitScope, model: str) -> Decimal | None:
        """Return the limit of ``scope``, for ``model`` where it has one of its own."""
        if scope is LimitScope.CALLS:
            if self.calls is None:
                return None
            return Decimal(self.calls)
        if scope is LimitScope.MODEL:
            return self.usd_per_model.get(model)
        if scope is LimitScope.RUN:
            return self.usd
        return self.usd_per_instance


@dataclass(frozen=True, eq=False)
class Reservation:
    """The share of one call; compared by identity.

    Attributes:
        bound: the most dollars that the call should cost; None when the model has no price.
    """

    instance_id: str
    model: str
    bound: Decimal | None


@dataclass
class _Account:
    limit: Decimal | None
    spent: Decimal = _ZERO
    reserved: Decimal = _ZERO

    def never(self, amount: Decimal) -> bool:
        return self.limit is not None and _EXACT.add(self.spent, amount) > self.limit

    def not_now(self, amount: Decimal) -> bool:
        return self.never(_EXACT.add(self.reserved, amount))


class Budget:
    """The money and the calls of one run, shared by all its workers (threads).

    As long as no call costs more than its bound, no limit is exceeded. A bound counts tokens, and
    for some providers the count is an estimate, so a call may cost more. That excess is charged
    and returned, for the log. It stops new calls in each scope whose limit it exceeds: the run,
    that instance, or that model. An excess within every limit stops nothing: a run of days must
    not end with money left because an estimate was a few tokens short. A limit is exceeded at most
    by the excess of the calls that were pending.

    Every reservation must be settled or cancelled in a ``finally``: a reservation that stays open
    makes other workers wait for ever.
    """

    def __init__(self, limits: BudgetLimits) -> None:
        self._limits = limits
        self._lock = Lock()
        self._accounts: dict[tuple[LimitScope, str], _Account] = {}
        self._open: set[Reservation] = set()

    def charge(self, instance_id: str, model: str, cost: Decimal | None) -> None:
        """Count a call without a reservation; an unknown ``cost`` counts the call alone."""
        amount = _checked(cost or _ZERO)
        with self._lock:
            self._spend(instance_id, model, amount)

    def reserve(
        self,
        instance_id: str,
        model: str,
        bound: Decimal | None,
    ) -> Reservation | None:
        """Reserve one call and ``bound`` dollars; None: not now, ask again later.

        None means that other reservations hold the rest, and may settle for less. A ``bound`` of
        None (no known price) reserves the call alone, but still stops at an exceeded limit. Of
        several limits that refuse, the widest is named: calls, run, model, instance.
        """
        amount = _checked(bound or _ZERO)
        with self._lock:
            parts = list(self._parts(instance_id, model, amount))
            for scope, account, part in parts:
                if account.never(part):
                    raise _over(scope, account, part, instance_id, model)
            if any(account.not_now(part) for _, account, part in parts):
                return None
            for _, account, part in parts:
                account.reserved = _EXACT.add(account.reserved, part)
            reservation = Reservation(instance_id, model, bound)
            self._open.add(reservation)
            return reservation

    def settle(self, reservation: Reservation, cost: Decimal | None) -> Decimal:
        """Charge what the call cost; return the excess over its bound in dollars, 0 when none.

        A ``cost`` of None (no usage was reported) charges the bound: unknown is not 0. A call
        without a bound has no excess.
        """
        bound = reservation.bound
        amount = _checked((bound or _ZERO) if cost is None else cost)
        with self._lock:
            self._close(reservation)
            self._spend(reservation.instance_id, reservation.model, amount)
        if bound is None:
            return _ZERO
        return max(_ZERO, _EXACT.subtract(amount, bound))

    def cancel(self, reservation: Reservation) -> None:
        """Cancel the reservation of a call that was not made."""
        with self._lock:
            self._close(reservation)

    def _parts(
        self,
        instance_id: str,
        model: str,
        amount: Decimal,
    ) -> Iterator[tuple[LimitScope, _Account, Decimal]]:
        names = {
            LimitScope.CALLS: "",
            LimitScope.RUN: "",
            LimitScope.MODEL: model,
            LimitScope.INSTANCE: instance_id,
        }
        for scope, name in names.items():
            limit = self._limits.limit_of(scope, model)
            account = self._accounts.setdefault((scope, name), _Account(limit))
            part = amount
            if scope is LimitScope.CALLS:
                part = Decimal(1)
            yield scope, account, part

    def _close(self, reservation: Reservation) -> None:
        if reservation not in self._open:
            raise ValueError(f"{reservation} is not open: settled twice?")
        self._open.remove(reservation)
        of = reservation.instance_id, reservation.model
        for _, account, part in self._parts(*of, reservation.bound or _ZERO):
            account.reserved = _EXACT.subtract(account.reserved, part)

    def _spend(self, instance_id: str, model: str, amount: Decimal) -> None:
        for _, account, part in self._parts(instance_id, model, amount):
            account.spent = _EXACT.add(account.spent, part)


def _over(
    scope: LimitScope,
    account: _Account,
    amount: Decimal,
    instance_id: str,
    model: str,
) -> OverBudgetError:
    limit = account.limit or _ZERO
    if scope is LimitScope.CALLS:
        problem = f"{account.spent} of {limit} calls are made"
    else:
        spent, maximum, call = (in_words(x, 6) for x in (account.spent, limit, amount))
        problem = f"{spent} of {maximum} are spent, and the next call may cost {call}"
    names = {
        LimitScope.INSTANCE: f" for {instance_id}",
        LimitScope.MODEL: f" for {model}",
    }
    of = names.get(scope, "")
    return OverBudgetError(
        scope,
        f"{scope.value}: {problem}{of}; raise it to go on",
        limit,
        limit - account.spent,
    )


def _checked(dollars: Decimal) -> Decimal:
    if not dollars.is_finite() or dollars < 0:
        raise ValueError(f"{dollars} is not a sum of dollars")
    return dollars
