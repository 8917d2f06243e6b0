"""What a run is likely to cost, and how near that comes to what recorded runs cost."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from swe_retry.cli.likely import (
    ExpectedAttempt,
    expect_attempt,
    likely_dollars,
    recorded_attempts,
)
from swe_retry.core.errors import UserError
from swe_retry.core.money import in_words, known_sum
from swe_retry.llm.prices import Price
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.record.store import RunStore
from tests.support import TOP, read_json

RUNS = TOP / "tests/data/run-0.12/predictions"
OTHERS = TOP / "tests/data/costs/aider-lite.json"


@dataclass(frozen=True)
class RecordedRun:
    """A run with the attempts on each instance; ``stops`` after the first plausible one."""

    name: str
    models: Sequence[str]
    tries: int
    stops: bool
    instances: Sequence[Sequence[Attempt]]

    @property
    def attempts(self) -> list[Attempt]:
        return [attempt for instance in self.instances for attempt in instance]

    @property
    def dollars(self) -> Decimal:
        return known_sum(attempt.cost for attempt in self.attempts)

    def likely(self, others: Sequence[RecordedRun]) -> Decimal | None:
        """Return what it was likely to cost by the attempts of other runs."""
        by_model = defaultdict(list)
        for run in others:
            for attempt in run.attempts:
                by_model[attempt.model].append(attempt)
        turns = []
        for model in self.models:
            expected = expect_attempt(by_model[model], None)
            if expected is None:
                return None
            turns.append(expected)
        each = likely_dollars(turns, self.tries, stops=self.stops)
        return each * len(self.instances)


def runs_of_harness() -> Iterator[RecordedRun]:
    """Yield our recorded runs of instances; neither a combination nor an exercise is one."""
    for folder in sorted(RUNS.iterdir()):
        store = RunStore(RUNS.parent, folder.name)
        try:
            described = store.read_run()
        except UserError:
            continue
        paths = list(store.prediction_paths())
        if described.is_combined or not paths or "tries" not in described.config:
            continue
        models = [model.label for model in described.configuration.models]
        attempts = [store.read_prediction(path).attempts for path in paths]
        config = described.config
        stops = not config["all_attempts"]
        yield RecordedRun(folder.name, models, config["tries"], stops, attempts)


def runs_of_others() -> Iterator[RecordedRun]:
    """Yield the instances of each repository as a run: all were made in one."""
    by_repository = defaultdict(list)
    for name, rows in read_json(OTHERS).items():
        attempts = []
        for model, cost, plausible in rows:
            status = AttemptStatus.TESTS_FAILED
            if plausible:
                status = AttemptStatus.PLAUSIBLE
            attempts.append(Attempt(model=f"2024 {model}", cost=cost, status=status))
        by_repository[name.rpartition("__")[0]].append(attempts)
    models = ("2024 gpt-4o", "2024 claude-3-opus")
    for name, instances in by_repository.items():
        yield RecordedRun(name, models, 3, True, instances)


def test_the_likely_cost_is_near_that_of_most_recorded_runs() -> None:
    """Each run by all others; a run whose models no other one has is listed without a figure.

    Eight of eleven are within a factor of two, and three of the eight cost nothing. Too far are
    two small runs with other scripted answers, and pytest, whose first attempts were right.
    """
    runs = [*runs_of_harness(), *runs_of_others()]
    near = {}
    for run in runs:
        likely = run.likely([other for other in runs if other is not run])
        verdict = "unknown"
        if likely is not None:
            near[run.name] = run.dollars / 2 <= likely <= run.dollars * 2
            verdict = "near" if near[run.name] else "far"
        print(
            f"{run.name:<16}{in_words(run.dollars):>10}{in_words(likely):>10}  {verdict}"
        )
    assert len(near) >= 11
    assert sum(near.values()) >= 8


def test_further_attempts_follow_as_far_as_those_before_are_not_plausible() -> None:
    turns = [
        ExpectedAttempt(Decimal(1), Decimal("0.5")),
        ExpectedAttempt(Decimal(4), Decimal(0)),
    ]
    assert likely_dollars(turns, 1, stops=True) == 3
    assert likely_dollars(turns, 2, stops=True) == Decimal("4.5")
    assert likely_dollars(turns, 2, stops=False) == 10


def test_an_attempt_without_a_record_is_assumed_from_its_price() -> None:
    price = Price(Decimal("0.00001"), Decimal("0.0001"))
    assert expect_attempt((), price) == (Decimal("0.6"), Decimal("0.125"))
    assert expect_attempt((), None) is None
    recorded = [
        Attempt(cost=Decimal(2), status=AttemptStatus.PLAUSIBLE),
        Attempt(cost=Decimal(1)),
    ]
    assert expect_attempt(recorded, price) == (Decimal("1.5"), Decimal("0.5"))


@pytest.mark.parametrize("damage", ["", "{"])
def test_attempts_are_read_from_runs_that_can_be_read(
    tmp_path: Path, damage: str
) -> None:
    broken = tmp_path / "predictions/broken"
    broken.mkdir(parents=True)
    (broken / "run.json").write_text(damage)
    (broken / "a.json").write_text(damage)
    folders = [*RUNS.iterdir(), broken]
    recorded = recorded_attempts(folders, {"gpt-4o", "scripted-a"})
    # Of `history` and `evidence`; `combined` has the same ones.
    assert len(recorded["gpt-4o"]) == 9 + 2
    assert set(recorded) == {"gpt-4o", "scripted-a"}
    assert json.loads((RUNS / "combined/run.json").read_text())["combined"]
