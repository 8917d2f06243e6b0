"""Pure: the budget of a run, reserved before each call and settled after it.

While a call runs, other workers spend too. So a call first reserves the most that it can cost, and
starts only when all that is spent and reserved fits every limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from threading import Lock

from core.options import option, option_group
from runs.calls.amounts import parse_per_model, parse_usd

MONEY = "Money and time"
_ZERO = Fraction(0)


class LimitScope(str, Enum):
    """The scope of a limit; the value is the option that sets it."""

    RUN = "--budget-usd"
    INSTANCE = "--budget-usd-per-instance"
    MODEL = "--budget-usd-per-model"
    CALLS = "--max-calls"


class OverBudgetError(Exception):
    """A call cannot fit even if all other reservations are cancelled; one line for the user.

    Attributes:
        limit: dollars or calls, as the option of ``scope`` sets them.
    """

    def __init__(self, scope: LimitScope, message: str, limit: Decimal) -> None:
        super().__init__(message)
        self.scope = scope
        self.limit = limit


def _read_usd(option: str, text: str, _: object) -> Decimal:
    return parse_usd(option, text)


@option_group
class BudgetLimits:
    """The most dollars and calls; None, or a model that is not named, means no limit."""

    usd: Decimal | None = option(
        None, "Dollars for the run.", LimitScope.RUN.value, panel=MONEY, given=str, read=_read_usd
    )
    usd_per_instance: Decimal | None = option(
        None,
        "Dollars for an instance.",
        LimitScope.INSTANCE.value,
        panel=MONEY,
        given=str,
        read=_read_usd,
    )
    usd_per_model: Mapping[str, Decimal] = option(
        None,
        "As gpt-4o=50,opus=200.",
        LimitScope.MODEL.value,
        panel=MONEY,
        factory=dict,
        given=str,
        read=lambda name, text, resolve: parse_per_model(text, resolve, name),
    )
    # A limit of 0 is sound, but on a command line it is a slip.
    calls: int | None = option(
        None,
        "Requests of the run.",
        LimitScope.CALLS.value,
        panel=MONEY,
        least=1,
        given=int,
        read=lambda _, calls, __: calls,
    )

    def of(self, scope: LimitScope, model: str) -> Decimal | None:
        """Return the limit of ``scope``, for ``model`` where it has one of its own."""
        if scope is LimitScope.CALLS:
            return None if self.calls is None else Decimal(self.calls)
        if scope is LimitScope.MODEL:
            return self.usd_per_model.get(model)
        return self.usd if scope is LimitScope.RUN else self.usd_per_instance


@dataclass(frozen=True, eq=False)
class Reservation:
    """The share of one call; compared by identity.

    Attributes:
        bound: the most dollars that the call should cost; None when the model has no price.
    """

    instance_id: str
    model: str
    bound: Decimal | None


@dataclass(frozen=True)
class SpentSoFar:
    """Dollars spent so far, as far as prices are known, and calls."""

    usd: Decimal
    by_model: Mapping[str, Decimal]
    by_instance: Mapping[str, Decimal]
    calls: int


@dataclass
class _Account:
    """One limit. In fractions, because sums of decimals are rounded and a limit must be exact."""

    limit: Fraction | None
    spent: Fraction = _ZERO
    reserved: Fraction = _ZERO

    def never(self, amount: Fraction) -> bool:
        return self.limit is not None and self.spent + amount > self.limit

    def not_now(self, amount: Fraction) -> bool:
        return self.limit is not None and self.spent + self.reserved + amount > self.limit


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
        self._run = _Account(_fraction(limits.usd))
        self._calls = _Account(None if limits.calls is None else Fraction(limits.calls))
        self._instances: dict[str, _Account] = {}
        self._models: dict[str, _Account] = {}
        self._open: set[Reservation] = set()

    def charge(self, instance_id: str, model: str, cost: Decimal | None, calls: int = 1) -> None:
        """Count spending without a reservation: by earlier starts, or by outside agents.

        Args:
            instance_id: the instance it was spent on.
            model: the model it was spent on.
            cost: dollars; None, when unknown, counts the calls alone.
            calls: their number.
        """
        amount = _fraction(cost) or _ZERO
        with self._lock:
            self._spend(instance_id, model, amount, calls)

    def reserve(self, instance_id: str, model: str, bound: Decimal | None) -> Reservation | None:
        """Reserve one call and ``bound`` dollars; None: not now, ask again later.

        None means that other reservations hold the rest, and may settle for less. A ``bound`` of
        None (no known price) reserves the call alone, but still stops at an exceeded limit. Of
        several limits that refuse, the widest is named: calls, run, model, instance.
        """
        amount = _fraction(bound) or _ZERO
        with self._lock:
            wanted = list(self._wanted(instance_id, model, amount))
            for scope, account, part in wanted:
                if account.never(part):
                    raise _over(scope, account, part, instance_id, model)
            if any(account.not_now(part) for _, account, part in wanted):
                return None
            for _, account, part in wanted:
                account.reserved += part
            reservation = Reservation(instance_id, model, bound)
            self._open.add(reservation)
            return reservation

    def settle(self, reservation: Reservation, cost: Decimal | None) -> Decimal:
        """Charge what the call cost; return the excess over its bound in dollars, 0 when none.

        A ``cost`` of None (no usage was reported) charges the bound: unknown is not 0. A call
        without a bound has no excess.
        """
        bound = _fraction(reservation.bound)
        amount = _fraction(cost)
        if amount is None:
            amount = bound or _ZERO
        with self._lock:
            self._close(reservation)
            self._spend(reservation.instance_id, reservation.model, amount, 1)
        return _decimal(_ZERO if bound is None else max(_ZERO, amount - bound))

    def cancel(self, reservation: Reservation) -> None:
        """Cancel the reservation of a call that was not made."""
        with self._lock:
            self._close(reservation)

    @property
    def spent(self) -> SpentSoFar:
        """Charges so far, without reservations."""
        with self._lock:
            return SpentSoFar(
                usd=_decimal(self._run.spent),
                by_model=_amounts(self._models),
                by_instance=_amounts(self._instances),
                calls=int(self._calls.spent),
            )

    def _wanted(
        self, instance_id: str, model: str, amount: Fraction
    ) -> Iterator[tuple[LimitScope, _Account, Fraction]]:
        per_instance = self._limits.usd_per_instance
        per_model = self._limits.usd_per_model.get(model)
        yield LimitScope.CALLS, self._calls, Fraction(1)
        yield LimitScope.RUN, self._run, amount
        yield LimitScope.MODEL, _account(self._models, model, per_model), amount
        yield LimitScope.INSTANCE, _account(self._instances, instance_id, per_instance), amount

    def _close(self, reservation: Reservation) -> None:
        if reservation not in self._open:
            raise ValueError(f"{reservation} is not open: settled twice?")
        self._open.remove(reservation)
        bound = _fraction(reservation.bound) or _ZERO
        of = reservation.instance_id, reservation.model
        for _, account, part in self._wanted(*of, bound):
            account.reserved -= part

    def _spend(self, instance_id: str, model: str, amount: Fraction, calls: int) -> None:
        for scope, account, _ in self._wanted(instance_id, model, amount):
            account.spent += calls if scope is LimitScope.CALLS else amount


def _account(accounts: dict[str, _Account], name: str, limit: Decimal | None) -> _Account:
    return accounts.setdefault(name, _Account(_fraction(limit)))


def _over(
    scope: LimitScope, account: _Account, amount: Fraction, instance_id: str, model: str
) -> OverBudgetError:
    limit = account.limit or _ZERO
    if scope is LimitScope.CALLS:
        words = f"{account.spent} of {limit} calls are made"
    else:
        spent, whole, call = (f"${_decimal(x):.6f}" for x in (account.spent, limit, amount))
        words = f"{spent} of {whole} are spent, and the next call may cost {call}"
    of = {LimitScope.INSTANCE: f" for {instance_id}", LimitScope.MODEL: f" for {model}"}.get(
        scope, ""
    )
    return OverBudgetError(scope, f"{scope.value}: {words}{of}; raise it to go on", _decimal(limit))


def _amounts(accounts: Mapping[str, _Account]) -> dict[str, Decimal]:
    return {name: _decimal(account.spent) for name, account in accounts.items()}


def _fraction(dollars: Decimal | None) -> Fraction | None:
    if dollars is None:
        return None
    if not dollars.is_finite() or dollars < 0:
        raise ValueError(f"{dollars} is no sum of dollars")
    return Fraction(dollars)


def _decimal(dollars: Fraction) -> Decimal:
    return Decimal(dollars.numerator) / Decimal(dollars.denominator)
