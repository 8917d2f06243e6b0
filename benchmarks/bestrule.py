"""The best rule of a generated world, against which ``benchmarks.worlds`` compares others.

No rule can choose right more often on average, so it says how much there is to gain.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from benchmarks.worlds import (
    BROKEN_BY_RIGHT,
    MISTAKES,
    RIGHT_FORMS,
    LabelledInstance,
    World,
    draw_odds,
    passing_chance,
)
from swe_retry.study.matrix import MatrixCandidate, MatrixScript

_DIFFICULTIES = 400


@dataclass(frozen=True)
class _Candidates:
    """The candidates of an instance by class, and a guess which classes are right."""

    attempts: Mapping[str, Sequence[MatrixCandidate]]
    right: Collection[str]

    @property
    def wrong(self) -> list[str]:
        return [name for name in self.attempts if name not in self.right]

    def size(self, name: str) -> int:
        return len(self.attempts[name])


class BestRule:
    """Chooses the class that is most likely right, knowing the world."""

    def __init__(self, world: World) -> None:
        self.world = world
        generator = random.Random("difficulties")
        odds = [draw_odds(world, generator) for _ in range(_DIFFICULTIES)]
        self.chances = {}
        for number, strength in enumerate(world.models, 1):
            exponents = -np.array(odds) - strength
            self.chances[f"m{number}"] = 1 / (1 + np.exp(exponents))

    def choose(self, labelled: LabelledInstance) -> MatrixCandidate:
        attempts: dict[str, list[MatrixCandidate]] = defaultdict(list)
        for candidate in labelled.candidates:
            attempts[candidate.class_key].append(candidate)
        weights = dict.fromkeys(attempts, 0.0)
        for size in range(len(attempts) + 1):
            for right in combinations(attempts, size):
                guess = _Candidates(attempts, right)
                weight = self._weigh(guess, labelled)
                for name in right:
                    weights[name] += weight
        best = max(weights, key=weights.__getitem__)
        return attempts[best][0]

    def _weigh(self, guess: _Candidates, labelled: LabelledInstance) -> float:
        weight = self._right_forms(guess) * self._mistakes(guess)
        if not weight:
            return 0.0
        weight *= self._attempts(guess) * self._tests(guess)
        for script in labelled.instance.scripts:
            weight *= self._script(script, guess)
        return weight

    def _attempts(self, guess: _Candidates) -> float:
        """Return how likely it is that just these attempts are right."""
        likelihood = np.ones(_DIFFICULTIES)
        for name, members in guess.attempts.items():
            for candidate in members:
                chance = self.chances[candidate.model]
                likelihood *= chance if name in guess.right else 1 - chance
        return float(likelihood.mean())

    def _right_forms(self, guess: _Candidates) -> float:
        """Return how likely right attempts fall into their classes: a usual form and others."""
        other = (1 - self.world.forms) / RIGHT_FORMS
        total = 0.0
        for usual in (None, *guess.right):
            likelihood = 1.0
            free = RIGHT_FORMS
            for name in guess.right:
                if name == usual:
                    likelihood *= self.world.forms ** guess.size(name)
                else:
                    likelihood *= free * other ** guess.size(name)
                    free -= 1
            total += likelihood
        return total

    def _mistakes(self, guess: _Candidates) -> float:
        """Return how likely wrong attempts fall into their classes: popular ones and others."""
        shared = self.world.shared
        first, second = MISTAKES.values()
        total = 0.0
        for popular, less_popular in _pairs(guess.wrong):
            likelihood = 1.0
            for name in guess.wrong:
                size = guess.size(name)
                if name == popular:
                    likelihood *= (shared * first) ** size
                elif name == less_popular:
                    likelihood *= (shared * second) ** size
                else:
                    likelihood *= (1 - shared) * (size == 1)
            total += likelihood
        return total

    def _tests(self, guess: _Candidates) -> float:
        likelihood = 1.0
        for name, members in guess.attempts.items():
            failing = members[0].failing_tests
            rejected = self.world.reject
            if name in guess.right:
                rejected = BROKEN_BY_RIGHT
            if failing == 0:
                likelihood *= 1 - rejected
            elif failing is not None:
                likelihood *= rejected
        return likelihood

    def _script(self, script: MatrixScript, guess: _Candidates) -> float:
        """Return how likely the results of a script are, whatever its kind."""
        author = None
        for name, members in guess.attempts.items():
            if script.author in [candidate.id for candidate in members]:
                author = name
        total = 0.0
        for kind, share in self.world.kinds.items():
            favourites: Sequence[str] = ("",)
            if kind == "strict" and guess.right:
                favourites = tuple(guess.right)
            elif kind == "echo" and guess.wrong:
                favourites = guess.wrong
                if author in guess.wrong:
                    favourites = (author,)
            for favourite in favourites:
                likelihoods = []
                for name, members in guess.attempts.items():
                    chance = passing_chance(
                        self.world,
                        kind,
                        is_right=name in guess.right,
                        is_favourite=name == favourite,
                        is_author=name == author,
                    )
                    passed = members[0].id in script.passed_by
                    likelihoods.append(chance if passed else 1 - chance)
                total += share * prod(likelihoods) / len(favourites)
        return total


def _pairs(names: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Yield which of ``names`` are the first and the second popular mistake, if any is."""
    for first in (None, *names):
        for second in (None, *names):
            if first is None or first != second:
                yield first, second
