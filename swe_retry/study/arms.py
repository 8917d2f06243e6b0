"""The arms of a study in turn: each part of the instances by all arms, under one budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from swe_retry.attempts.benchmark import InstanceBenchmark
from swe_retry.core.errors import StoppedError
from swe_retry.core.money import in_words, known_sum
from swe_retry.core.plaintext import Say, some
from swe_retry.record.records import PLAUSIBLE
from swe_retry.record.result import InstanceResult, InstanceStatus
from swe_retry.runner.calls.budget import LimitScope
from swe_retry.runner.calls.ledger import read_ledger
from swe_retry.runner.session import start_run
from swe_retry.runner.signals import INTERRUPTED

_BROKEN = (InstanceStatus.ERROR, InstanceStatus.INFRA_ERROR)
_REPEATS = 2


@dataclass(frozen=True)
class ArmLoop:
    """The work on all arms; a repeated loop goes on where it stopped, by the files of the runs.

    Attributes:
        arms: the runs by the names of the arms, of the same instances.
        usd: what all may spend; None without a limit.
    """

    arms: Mapping[str, InstanceBenchmark]
    usd: Decimal | None
    say: Say

    def run(self) -> None:
        """Work on the instances in parts, arm after arm, and repeat at the end what broke.

        Raises:
            StoppedError: a signal ended a run, or a provider that stays away.
        """
        every = [list(arm.jobs) for arm in self.arms.values()]
        shared = set(every[0]).intersection(*every)
        keys = [key for key in every[0] if key in shared]
        size = max(arm.config.workers for arm in self.arms.values())
        for start in range(0, len(keys), size):
            part = keys[start : start + size]
            if self._run_part(part) < len(part):
                self.say("the budget ended: raise budget.usd and repeat the command")
                break
        for _ in range(_REPEATS):
            for name, arm in self.arms.items():
                broken = _select(arm, keys, is_broken)
                self._start(name, broken, redo=",".join(_BROKEN))

    def _run_part(self, part: Sequence[str]) -> int:
        """Return how many instances all arms worked on; an arm does what all before it did."""
        for name, arm in self.arms.items():
            self._start(name, _select(arm, part, is_left))
            left = _select(arm, part, is_left)
            part = [key for key in part if key not in left]
        return len(part)

    def _start(self, name: str, keys: Sequence[str], redo: str = "") -> None:
        """Start the run of an arm, which may spend what the others have left of the budget."""
        if not keys:
            return
        spent = {other: _dollars_of(arm) for other, arm in self.arms.items()}
        total = known_sum(spent.values())
        limit = "no limit" if self.usd is None else in_words(self.usd)
        self.say(f"arm {name}: {some(keys, 4)}; spent {in_words(total)} of {limit}")
        arm = self.arms[name]
        money = arm.config.money
        if self.usd is not None:
            money = replace(money, usd=max(self.usd - total + spent[name], Decimal()))
        config = replace(arm.config, money=money, redo=redo)
        if start_run(replace(arm, config=config, part=keys)) == INTERRUPTED:
            raise StoppedError


def is_left(result: InstanceResult | None) -> bool:
    """Return whether an instance was not started, or is to go on without a fault."""
    if result is None or result.status == InstanceStatus.INTERRUPTED:
        return True
    return result.status == InstanceStatus.BUDGET and ended_by_budget(result)


def is_broken(result: InstanceResult | None) -> bool:
    return result is not None and result.status in _BROKEN


def ended_by_budget(result: InstanceResult) -> bool:
    """Return whether the money of the study ended it; limits of its own are a part of an arm."""
    if result.status in PLAUSIBLE:
        return False
    limit = f"{LimitScope.RUN}:"
    return any(attempt.error.startswith(limit) for attempt in result.attempts)


def _select(
    arm: InstanceBenchmark,
    keys: Sequence[str],
    holds: Callable[[InstanceResult | None], bool],
) -> list[str]:
    """Return the keys for which something holds of what an arm did there."""
    selected = []
    for key in keys:
        result = arm.store.result(key)
        if arm.store.prediction(key).exists():
            # Predictions lack the errors of attempts.
            result = arm.store.read_trajectory(key)
        if holds(result):
            selected.append(key)
    return selected


def _dollars_of(arm: InstanceBenchmark) -> Decimal:
    """Return the dollars of an arm; a call of unknown cost counts with its bound."""
    ledger = read_ledger(arm.store.ledger)
    return known_sum(line.cost_at_most for line in ledger.values)
