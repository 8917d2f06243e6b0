"""What a run is likely to cost, by the attempts that its models made in recorded runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence, Set
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from swe_retry.core.errors import UserError
from swe_retry.core.money import known_sum
from swe_retry.llm.prices import Price
from swe_retry.record.records import Attempt
from swe_retry.record.store import RunStore

# The share is that of 177 attempts that were recorded in 2024 (tests/data/costs).
ASSUMPTION = "assumed: 4 calls of 10,000 tokens in and 500 out for an attempt, an eighth plausible"


class ExpectedAttempt(NamedTuple):
    """The mean cost of a model's attempts, and the share of them that are plausible."""

    dollars: Decimal
    plausible: Decimal


def recorded_attempts(
    folders: Iterable[Path], labels: Set[str]
) -> dict[str, list[Attempt]]:
    """Return the attempts of models whose cost is known, by label; damaged files are left out."""
    attempts = defaultdict(list)
    for folder in sorted(folders):
        store = RunStore(folder.parent.parent, folder.name)
        with suppress(UserError, OSError):
            described = store.read_run()
            models = described.configuration.models
            by_name = {model.name_of_turn: model.label for model in models}
            # A combination repeats what its runs hold.
            if described.is_combined or labels.isdisjoint(by_name.values()):
                continue
            for path in store.prediction_paths():
                for attempt in store.read_prediction(path).attempts:
                    label = by_name.get(attempt.model, "")
                    if label in labels and attempt.cost is not None:
                        attempts[label].append(attempt)
    return attempts


def expect_attempt(
    attempts: Collection[Attempt], price: Price | None
) -> ExpectedAttempt | None:
    """Return what an attempt is expected to be, by others or by the price of its model."""
    if attempts:
        dollars = known_sum(attempt.cost for attempt in attempts)
        plausible = sum(attempt.plausible for attempt in attempts)
        number = len(attempts)
        return ExpectedAttempt(dollars / number, Decimal(plausible) / number)
    if price:
        return ExpectedAttempt(4 * price.bound(10_000, 500), Decimal("0.125"))
    return None


def likely_dollars(
    turns: Sequence[ExpectedAttempt], tries: int, *, stops: bool
) -> Decimal:
    """Return the expected dollars of an instance; ``stops`` after the first plausible attempt."""
    reached = Decimal(1)
    dollars = Decimal()
    for expected in tuple(turns) * tries:
        dollars += reached * expected.dollars
        if stops:
            reached *= 1 - expected.plausible
    return dollars
