"""A generated world for the lab: known chances, shared mistakes, scripts that may be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from swe_retry.record.records import Attempt
from swe_retry.record.store import RunStore
from swe_retry.results.read import read_run
from swe_retry.results.rundata import InstanceData, RunData
from swe_retry.study.lab.recorded import lab_data
from swe_retry.study.lab.report import lab_report
from tests.support.rundata import a_run, a_verdict, an_attempt, an_instance

SAMPLES = 300
RIGHT = "+right\n"
SHARED = "+the mistake that all make\n"


@dataclass(frozen=True)
class World:
    """What is true of each attempt, independently.

    Attributes:
        solves: the chance that an attempt of a model on an instance is right.
        shared: the chance that a wrong attempt is the mistake that all make; else it is its own.
        accepted: the chance that the tests accept a wrong attempt; they accept right ones.
        scripts: for each script the chance to be right: a right one passes right patches alone, a
            wrong one passes the shared mistake alone.
    """

    solves: Callable[[str, int], float]
    models: tuple[str, ...] = ("a", "b")
    tries: int = 3
    shared: float = 0.0
    accepted: float = 1.0
    scripts: tuple[float, ...] = ()
    cost: Decimal | None = Decimal(1)

    def run(self, instances: int, seed: int = 1) -> RunData:
        dice = Random(seed)
        return a_run(*(self._instance(number, dice) for number in range(instances)))

    def _instance(self, number: int, dice: Random) -> InstanceData:
        name = f"own__thing-{number:04d}"
        attempts: list[Attempt] = []
        for try_ in range(1, self.tries + 1):
            for model in self.models:
                attempts.append(
                    self._attempt(name, number, len(attempts) + 1, model, try_, dice)
                )
        right = [dice.random() < chance for chance in self.scripts]
        classes = [*dict.fromkeys(attempt.patch for attempt in attempts)]
        by_class = {
            patch: [a.attempt for a in attempts if a.patch == patch]
            for patch in classes
        }
        evidence: dict[str, Any] = {
            "classes": [
                {"id": patch, "attempts": own, "models": []}
                for patch, own in by_class.items()
            ],
            "scripts": [
                {"id": f"s{n}", "source": "issue", "base": [2, 2]}
                for n in range(len(right))
            ],
            "outcomes": {
                f"s{n}": {
                    p: 0 if p == (RIGHT if good else SHARED) else 2 for p in classes
                }
                for n, good in enumerate(right)
            },
        }
        first = next((a for a in attempts if a.plausible), attempts[0])
        return an_instance(
            name,
            attempts=tuple(attempts),
            attempt=first.attempt,
            model_patch=first.patch,
            verdicts={
                a.attempt: a_verdict(name, resolved=a.patch == RIGHT) for a in attempts
            },
            resolved=first.patch == RIGHT,
            evidence=evidence if self.scripts else None,
        )

    def _attempt(
        self,
        name: str,
        number: int,
        attempt: int,
        model: str,
        try_: int,
        dice: Random,
    ) -> Attempt:
        good = dice.random() < self.solves(model, number)
        patch = SHARED if dice.random() < self.shared else f"+mistake {attempt}\n"
        if good:
            patch = RIGHT
        test = good or dice.random() < self.accepted
        return an_attempt(
            attempt,
            try_=try_,
            model=model,
            test_outcome=test,
            status="plausible" if test else "tests_failed",
            model_patch=patch,
            cost=self.cost,
            seconds=60.0,
        )


def lab(
    runs: Sequence[Path | RunData],
    *policies: object,
    samples: int = SAMPLES,
) -> dict[str, Any]:
    """Return the report as ``report.py lab --format json`` prints it."""
    data = []
    for run in runs:
        if isinstance(run, Path):
            run = read_run(RunStore.of_folder(run))
        data.append(run)
    names = list(map(str, policies))
    report = lab_report(lab_data(data, samples), names)
    content: dict[str, Any] = json.loads(json.dumps(report))
    return content


def results(run: RunData, *policies: object) -> dict[str, dict[str, Any]]:
    """Return what policies give, with the run's own and the oracle."""
    return {row["name"]: row for row in lab([run], *policies)["policies"]}


def limits(share: dict[str, float]) -> tuple[float, float]:
    """Return the ends of the range of a share."""
    return share["low"], share["high"]
