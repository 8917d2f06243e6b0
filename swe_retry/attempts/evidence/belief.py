"""How likely each class of equal candidates is right, and how likely none is. Pure.

A hypothesis is a set of classes: these are right, all others are wrong. Its weight is

    prior × tests × scripts

- Prior: an attempt is right with the odds o × strength of its model. The difficulty of the
  instance is unknown, so o takes five values around the share of right attempts that is expected.
  Right attempts repeat each other more than wrong ones do: both are partitioned by Ewens' formula,
  with a smaller concentration for right ones. Equal attempts of one model count little more than
  one, and not at all where more models made another class.
- Tests: a right patch seldom breaks an existing test; how often a wrong one passes is fitted.
- Scripts: of which kind a script is, is unknown: faithful (right candidates pass, wrong ones are
  detected at a fitted rate), over-strict (one right class passes), passed by nobody, by everybody,
  by one wrong class, by some wrong classes but no right one, or random. The shares of kinds start
  from stated values and are fitted over all instances by expectation-maximisation, without labels.
  A script does not speak for the class of the attempt that wrote it.

Shared shares follow Dawid and Skene (Applied Statistics 28, 1979), agreement of candidates and
scripts CodeT (arXiv 2207.10397) and SWE-RL (arXiv 2502.18449), classes of equal patches Agentless
(arXiv 2407.01489). docs/selection.md has the formula and what was measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from swe_retry.attempts.evidence.facts import InstanceFacts, ScriptFacts
from swe_retry.record.evidence import BeliefFit

Array = NDArray[np.float64]

_DIFFICULTIES = np.array([0.1, 0.4, 1.0, 2.5, 10.0])
_RIGHT_CONCENTRATION = 1.0
KEEP = 0.95
"""How often a right patch breaks no existing test."""
_MISS = 0.03
"""How often a right candidate fails a faithful script."""
_MAX_SETS = 600
_MAX_PAIRS = 5_000
_BATCH = 500_000
_TINY = 1e-12
_EQUAL_STRENGTH = 0.8


@dataclass(frozen=True)
class Weights:
    """The weights that no candidate is right, and that each class is.

    Several differing classes can be right, so the weights of classes may sum to more than one.
    """

    none: float
    classes: tuple[float, ...]


@dataclass(frozen=True)
class Likelihoods:
    """The likelihood of each script under each hypothesis, weighted by the shares of kinds.

    Each array has the axes instance, script, hypothesis; the last may be one long.
    """

    by_kind: Mapping[str, Array]

    @property
    def total(self) -> Array:
        return np.asarray(sum(self.by_kind.values())) + _TINY


class Batch:
    """Instances with the same number of classes, as arrays.

    Attributes:
        members: the positions of the instances in their run.
        sets: which classes are right (1), by hypothesis; the first says that none is.
        votes: by instance, class and model.
        failing: by instance and class; NaN if unknown.
        mask: by instance and script: 1, or 0 where the instance has fewer scripts.
    """

    def __init__(
        self,
        members: Sequence[int],
        run: Sequence[InstanceFacts],
        models: Sequence[str],
    ) -> None:
        self.members = members
        self.instances = [run[member] for member in members]
        classes = len(self.instances[0].classes)
        self.sets = hypotheses(classes)
        self.votes = np.zeros((len(members), classes, len(models)))
        self.failing = np.full((len(members), classes), np.nan)
        positions = {model: position for position, model in enumerate(models)}
        for row, instance in enumerate(self.instances):
            for number, votes in enumerate(instance.votes):
                for model, vote in votes.items():
                    self.votes[row, number, positions[model]] = vote
            for number, facts in enumerate(instance.classes):
                if facts.failing is not None:
                    self.failing[row, number] = facts.failing
        self._read_scripts(classes)

    def _read_scripts(self, classes: int) -> None:
        scripts = [instance.telling_scripts for instance in self.instances]
        most = max(map(len, scripts))
        self.mask = np.zeros((len(scripts), most, 1))
        counted = np.zeros((len(scripts), most, classes))
        passed = np.zeros_like(counted)
        for row, members in enumerate(scripts):
            for column, script in enumerate(members):
                self.mask[row, column] = 1
                counted[row, column] = 1
                passed[row, column, list(script.passed)] = 1
                counted[row, column, list(script.left_out)] = 0
                passed[row, column, list(script.left_out)] = 0
        right = self.sets.T
        votes = self.votes.sum(axis=2)[:, None, :]
        self.right_passed = passed @ right
        self.right_failed = counted @ right - self.right_passed
        self.passed = passed.sum(axis=2, keepdims=True)
        self.counted = counted.sum(axis=2, keepdims=True)
        divides = (self.passed > 0) & (self.passed < self.counted)
        self.dividing = self.mask * divides
        self.wrong_passed = self.passed - self.right_passed
        self.wrong_failed = self.counted - self.passed - self.right_failed
        self.passer_votes = (passed * votes).sum(axis=2, keepdims=True)
        self.wrong_votes = (counted * votes) @ (1 - right)

    def prior(self, fit: BeliefFit, models: Sequence[str]) -> tuple[Array, float]:
        """Return the weights of the hypotheses by instance, from witnesses and tests alone.

        The second value is the logarithm of the likelihood of these.
        """
        return _normalize(self.by_difficulty(fit, models).sum(axis=2))

    def by_difficulty(self, fit: BeliefFit, models: Sequence[str]) -> Array:
        """Return weights by instance, hypothesis and difficulty, from witnesses and tests alone."""
        strengths = np.array([fit.strengths.get(model, 1.0) for model in models])
        odds_by_model = strengths[:, None] * odds_by_difficulty(fit)
        witnesses = self.votes @ np.log(odds_by_model)
        evidence = witnesses + self._tests(fit)[:, :, None]
        any_outcome = (self.votes @ np.log1p(odds_by_model)).sum(axis=1)
        logs = np.einsum("icd,hc->ihd", evidence, self.sets) - any_outcome[:, None, :]
        partitions = self._partitions(fit.wrong_concentration)
        return np.asarray(np.exp(logs + partitions[:, :, None]))

    def _tests(self, fit: BeliefFit) -> Array:
        """Return the logarithm of how much more likely a right class has its test outcome."""
        clean = np.log(KEEP / fit.slip)
        count = np.maximum(1, self.failing)
        broken = np.log((1 - KEEP) / (1 - fit.slip) / count)
        ratios = np.where(self.failing == 0, clean, broken)
        return np.where(np.isnan(self.failing), 0.0, ratios)

    def _partitions(self, wrong_concentration: float) -> Array:
        """Return the logarithms of Ewens' formula for right and for wrong attempts."""
        votes = self.votes.sum(axis=2)
        right = votes @ self.sets.T
        wrong = votes.sum(axis=1, keepdims=True) - right
        right_classes = self.sets.sum(axis=1)
        wrong_classes = self.sets.shape[1] - right_classes
        return _ewens(_RIGHT_CONCENTRATION, right, right_classes) + _ewens(
            wrong_concentration, wrong, wrong_classes
        )

    def likelihoods(self, fit: BeliefFit) -> Likelihoods:
        one = self.passed == 1
        right = self.right_passed + self.right_failed
        wrong = self.wrong_passed + self.wrong_failed
        faithful = (
            (1 - _MISS) ** self.right_passed
            * _MISS**self.right_failed
            * (1 - fit.detection) ** self.wrong_passed
            * fit.detection**self.wrong_failed
        )
        only_right = one & (self.wrong_passed == 0)
        only_wrong = one & (self.right_passed == 0)
        share = self.passer_votes / np.maximum(_TINY, self.wrong_votes)
        some_wrong = (self.passed > 0) & (self.right_passed == 0)
        misled = (
            some_wrong
            * fit.misled**self.wrong_passed
            * (1 - fit.misled) ** self.wrong_failed
        )
        chance_of_some = 1 - (1 - fit.misled) ** wrong
        kinds = {
            "faithful": faithful,
            "strict": self._or_nobody(right, only_right / np.maximum(1, right)),
            "nobody": self.passed == 0,
            "everybody": self.passed == self.counted,
            "echo": self._or_nobody(wrong, only_wrong * share),
            "misled": self._or_nobody(
                wrong, misled / np.maximum(_TINY, chance_of_some)
            ),
            "random": 0.5**self.counted,
        }
        return Likelihoods(
            {kind: fit.shares.get(kind, 0.0) * kinds[kind] for kind in kinds}
        )

    def _or_nobody(self, classes: Array, likelihood: Array) -> Array:
        """Return ``likelihood``; where there are no such ``classes``, that nobody passes."""
        return np.where(classes > 0, likelihood, self.passed == 0)

    def weigh(self, prior: Array, likelihoods: Likelihoods) -> tuple[Array, float]:
        """Return the weights of the hypotheses, and the logarithm of the scripts' likelihood."""
        return _posterior(prior, np.log(likelihoods.total) * self.mask)

    def believe(self, prior: Array, likelihoods: Likelihoods) -> Array:
        """Return the weights of the hypotheses, of which classes are compared.

        A script that all pass or none tells whether a class is right, but not which.
        """
        logs = np.log(likelihoods.total)
        none = _posterior(prior, logs * self.mask)[0][:, :1]
        weights = _posterior(prior, logs * self.dividing)[0]
        factor = (1 - none) / (1 - weights[:, :1])
        some = weights[:, 1:] * factor
        return np.concatenate([none, some], axis=1)


def odds_by_difficulty(fit: BeliefFit) -> Array:
    """Return the odds that an attempt of usual strength is right, at each difficulty."""
    return np.asarray(_DIFFICULTIES * fit.right / (1 - fit.right))


def _posterior(prior: Array, logs: Array) -> tuple[Array, float]:
    return _normalize(prior * np.exp(logs.sum(axis=1)))


def _normalize(weights: Array) -> tuple[Array, float]:
    """Return weights that sum to one, and the logarithm of their sums' product."""
    sums = weights.sum(axis=1, keepdims=True)
    return weights / sums, float(np.log(sums).sum())


def _ewens(concentration: float, attempts: Array, classes: Array) -> Array:
    """Return the logarithm of Ewens' formula, but for what all hypotheses share."""
    log_gamma = np.vectorize(lgamma, otypes=[float])
    rising = log_gamma(concentration + attempts) - lgamma(concentration)
    return np.asarray(classes * np.log(concentration) - rising)


@lru_cache
def hypotheses(classes: int) -> Array:
    """Return all sets of right classes as rows, the small ones first.

    Of many classes only a few are right together: larger sets are left out where there would be
    more than ``_MAX_SETS``, pairs where there would be more than ``_MAX_PAIRS``.
    """
    members: list[tuple[int, ...]] = [()]
    for size in range(1, classes + 1):
        larger = list(combinations(range(classes), size))
        most = _MAX_PAIRS if size < 3 else _MAX_SETS
        if size > 1 and len(members) + len(larger) > most:
            break
        members += larger
    sets = np.zeros((len(members), classes))
    for row, numbers in enumerate(members):
        sets[row, list(numbers)] = 1
    return sets


@dataclass(frozen=True)
class RunArrays:
    """All instances of a run as arrays."""

    batches: Sequence[Batch]
    models: Sequence[str]

    @classmethod
    def of(cls, instances: Sequence[InstanceFacts]) -> RunArrays:
        models: dict[str, None] = {}
        by_size = defaultdict(list)
        for position, instance in enumerate(instances):
            by_size[len(instance.classes)].append(position)
            for facts in instance.classes:
                models |= dict.fromkeys(facts.witnesses)
        names = list(models)
        batches = []
        for size, members in sorted(by_size.items()):
            step = max(1, _BATCH // len(hypotheses(size)))
            for start in range(0, len(members), step):
                part = members[start : start + step]
                batches.append(Batch(part, instances, names))
        return cls(batches, names)


def hypothesis_weights(
    instances: Sequence[InstanceFacts], fit: BeliefFit
) -> Iterator[tuple[int, Array, Array]]:
    """Yield position, weights of the hypotheses, and their sets, of each instance."""
    run = RunArrays.of(instances)
    for batch in run.batches:
        prior, _ = batch.prior(fit, run.models)
        weights = batch.believe(prior, batch.likelihoods(fit))
        for row, position in enumerate(batch.members):
            yield position, weights[row], batch.sets


def weigh(instances: Sequence[InstanceFacts], fit: BeliefFit) -> list[Weights]:
    """Return the belief about each instance."""
    beliefs = {}
    for position, weights, sets in hypothesis_weights(instances, fit):
        classes = tuple(map(float, weights @ sets))
        beliefs[position] = Weights(float(weights[0]), classes)
    return [beliefs[position] for position in range(len(instances))]


def expected_gain(
    instance: InstanceFacts, fit: BeliefFit, first: int, second: int
) -> float:
    """Return by how much a script about two classes is expected to raise the greatest weight."""
    others = frozenset(range(len(instance.classes))) - {first, second}
    scripts = []
    for passed in ((), (first,), (second,), (first, second)):
        scripts.append(ScriptFacts(frozenset(passed), unknown=others))
    ((_, weights, sets),) = hypothesis_weights([instance], fit)
    (outcomes,) = RunArrays.of([InstanceFacts(instance.classes, scripts)]).batches
    likelihoods = outcomes.likelihoods(fit).total[0]
    chances = likelihoods / likelihoods.sum(axis=0)
    after = (weights * chances) @ sets
    greatest_after = after.max(axis=1).sum()
    greatest = (weights @ sets).max()
    return float(greatest_after - greatest)


def best_class(
    instance: InstanceFacts, weights: Weights, fit: BeliefFit, numbers: Sequence[int]
) -> int:
    """Return the class of the greatest weight among ``numbers``.

    Where a class of equal witnesses and tests passes the same scripts and more, that one is
    returned: passing a script never harms. Of equal weights, the class with fewer failing tests
    and more votes, then the first in ``numbers``.
    """
    votes = instance.votes

    def order(number: int) -> tuple[float, ...]:
        failing: float | None = instance.classes[number].failing
        if failing is None:
            failing = 0.5
        # Equal classes differ in the last bits.
        weight = round(weights.classes[number], 9)
        return -weight, failing, -sum(votes[number].values())

    def surpasses(other: int, number: int) -> bool:
        is_equal = (
            instance.classes[other].failing == instance.classes[number].failing
            and len(votes[other]) == len(votes[number])
            and sum(votes[other].values()) == sum(votes[number].values())
        )
        strength = fit.strength(votes[other]) / fit.strength(votes[number])
        passes_more = instance.passed_by(other) > instance.passed_by(number)
        return is_equal and strength > _EQUAL_STRENGTH and passes_more

    best = min(numbers, key=order)
    while True:
        better = [number for number in numbers if surpasses(number, best)]
        if not better:
            return best
        best = min(better, key=order)
