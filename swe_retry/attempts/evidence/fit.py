"""Fit what a belief takes as given to all instances of a run, without labels. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swe_retry.attempts.evidence.belief import (
    KEEP,
    Array,
    Batch,
    Likelihoods,
    RunArrays,
    odds_by_difficulty,
)
from swe_retry.attempts.evidence.facts import (
    BELIEVED,
    DETECTION,
    MISLED,
    RIGHT,
    SLIP,
    WRONG_CONCENTRATION,
    InstanceFacts,
    stated_fit,
)
from swe_retry.record.evidence import BeliefFit

_SLIP_RANGE = (0.1, 0.93)
_DETECTION_RANGE = (0.2, 0.95)
_MISLED_RANGE = (0.05, 0.95)
_CONCENTRATIONS = (2.0, 3.5, 5.0, 7.0, 10.0, 14.0, 20.0)
_CONCENTRATION_DEVIATION = 0.5
"""Of the concentration's logarithm around the stated one: about ten instances outweigh it."""
_STRENGTH_ROUNDS = 5
_ROUNDS = 40
_MOVE = 2e-3
"""The change of a share below which a fit ends."""
_GAIN = 0.002
_START_GAIN = 5.0
"""Scripts are believed if that explains them better than noise: by ``_GAIN`` for each script, but
``_START_GAIN`` less. The unit is the natural logarithm of the likelihood."""
_FIRM = 20.0
"""How many attempts or scripts the stated start of a fit counts for."""
_FIRM_RATES = 100.0
NOISE = {
    "faithful": 0.0,
    "strict": 0.0,
    "nobody": 0.3,
    "everybody": 0.15,
    "echo": 0.12,
    "misled": 0.03,
    "random": 0.4,
}


@dataclass
class _Counts:
    """How many scripts of each kind a run has under a belief, and what they did."""

    kinds: dict[str, float]
    detected: float = _FIRM_RATES * DETECTION
    wrong: float = _FIRM_RATES
    misled: float = _FIRM_RATES * MISLED
    could_mislead: float = _FIRM_RATES

    @property
    def shares(self) -> dict[str, float]:
        total = sum(self.kinds.values())
        return {kind: count / total for kind, count in self.kinds.items()}

    def add(self, batch: Batch, weights: Array, likelihoods: Likelihoods) -> None:
        per_likelihood = weights[:, None, :] / likelihoods.total * batch.mask
        kinds = {}
        for kind, likelihood in likelihoods.by_kind.items():
            kinds[kind] = per_likelihood * likelihood
            self.kinds[kind] += float(kinds[kind].sum())
        wrong = batch.wrong_passed + batch.wrong_failed
        self.detected += float((kinds["faithful"] * batch.wrong_failed).sum())
        self.wrong += float((kinds["faithful"] * wrong).sum())
        self.misled += float((kinds["misled"] * batch.wrong_passed).sum())
        self.could_mislead += float((kinds["misled"] * wrong).sum())


def fit_slip(run: RunArrays, right: float) -> float:
    clean = 0.0
    tested = 0.0
    for batch in run.batches:
        votes = batch.votes.sum(axis=2)
        clean += float(votes[batch.failing == 0].sum())
        tested += float(votes[~np.isnan(batch.failing)].sum())
    of_wrong = _FIRM * SLIP + clean - KEEP * right * tested
    return _within(_SLIP_RANGE, of_wrong / (_FIRM + (1 - right) * tested))


def fit_concentration(run: RunArrays, fit: BeliefFit) -> BeliefFit:
    """Return ``fit`` with the most likely concentration of wrong attempts.

    Scripts count too: attempts may have ended because of what scripts said, and without them the
    attempts that were made would look more unlike than they are.
    """

    def rate(fitted: BeliefFit) -> float:
        distance = np.log(fitted.wrong_concentration / WRONG_CONCENTRATION)
        total = -0.5 * (distance / _CONCENTRATION_DEVIATION) ** 2
        for batch in run.batches:
            prior, of_classes = batch.prior(fitted, run.models)
            _, of_scripts = batch.weigh(prior, batch.likelihoods(fitted))
            total += of_classes + of_scripts
        return float(total)

    choices = []
    for concentration in _CONCENTRATIONS:
        changes = {"wrong_concentration": concentration}
        choices.append(fit.model_copy(update=changes))
    return max(choices, key=rate)


def fit_strengths(run: RunArrays, fit: BeliefFit) -> BeliefFit:
    """Return ``fit`` with the models' strengths, from witnesses and tests alone.

    A strength is right if the model made as many right attempts as expected, at the difficulties
    that its instances seem to have. Strengths are relative to that of all models together.
    """
    strengths = np.ones(len(run.models))
    odds = odds_by_difficulty(fit)
    for _ in range(_STRENGTH_ROUNDS):
        odds_of_model = strengths[:, None] * odds
        chances = odds_of_model / (1 + odds_of_model)
        usual = odds / (1 + odds)
        # As many attempts of usual strength as the stated start counts for.
        votes = np.full(len(strengths), _FIRM)
        right = votes * usual.mean()
        expected = votes * chances.mean(axis=1)
        for batch in run.batches:
            weights = batch.by_difficulty(fit, run.models)
            weights /= weights.sum(axis=(1, 2), keepdims=True)
            by_class = weights.sum(axis=2) @ batch.sets
            of_right = batch.votes * by_class[:, :, None]
            right += of_right.sum(axis=(0, 1))
            of_model = batch.votes.sum(axis=1)
            expected_chances = weights.sum(axis=1) @ chances.T
            expected += (of_model * expected_chances).sum(axis=0)
            votes += of_model.sum(axis=0)
        of_all = _odds_ratio(right.sum(), expected.sum(), votes.sum())
        strengths *= _odds_ratio(right, expected, votes) / of_all
        by_model = dict(zip(run.models, map(float, strengths), strict=True))
        fit = fit.model_copy(update={"strengths": by_model})
    return fit


def _odds_ratio(right: Array, expected: Array, votes: Array) -> Array:
    odds = right / (votes - right)
    expected_odds = expected / (votes - expected)
    return odds / expected_odds


def fit_shares(
    run: RunArrays, fit: BeliefFit, start: Mapping[str, float]
) -> tuple[BeliefFit, float]:
    """Return ``fit`` with the shares and rates of scripts, and their log likelihood."""
    fit = fit.model_copy(update={"shares": start})
    priors = [batch.prior(fit, run.models)[0] for batch in run.batches]
    likelihood = 0.0
    for _ in range(_ROUNDS):
        likelihood, counts = _count_kinds(run, fit, priors, start)
        shares = counts.shares
        moves = [abs(shares[kind] - fit.shares[kind]) for kind in shares]
        detection = _within(_DETECTION_RANGE, counts.detected / counts.wrong)
        misled = _within(_MISLED_RANGE, counts.misled / counts.could_mislead)
        fitted = {"shares": shares, "detection": detection, "misled": misled}
        fit = fit.model_copy(update=fitted)
        if max(moves) < _MOVE:
            break
    return fit, likelihood


def _count_kinds(
    run: RunArrays, fit: BeliefFit, priors: Sequence[Array], start: Mapping[str, float]
) -> tuple[float, _Counts]:
    counts = _Counts({kind: _FIRM * share for kind, share in start.items()})
    likelihood = 0.0
    for batch, prior in zip(run.batches, priors, strict=True):
        likelihoods = batch.likelihoods(fit)
        weights, of_batch = batch.weigh(prior, likelihoods)
        likelihood += of_batch
        counts.add(batch, weights, likelihoods)
    return likelihood, counts


def _within(bounds: tuple[float, float], value: float) -> float:
    return float(np.clip(value, *bounds))


def fit_run(instances: Sequence[InstanceFacts], right: float = RIGHT) -> BeliefFit:
    """BeliefFit to all instances of a run what is not stated; labels are not needed.

    Scripts are taken as noise where that explains their results nearly as well.
    """
    run = RunArrays.of(instances)
    fit = stated_fit(right).model_copy(update={"slip": fit_slip(run, right)})
    fit = fit_concentration(run, fit)
    fit = fit_strengths(run, fit)
    believed, likelihood = fit_shares(run, fit, BELIEVED)
    noise, likelihood_of_noise = fit_shares(run, fit, NOISE)
    scripts = sum(len(instance.telling_scripts) for instance in instances)
    if likelihood - likelihood_of_noise > _GAIN * scripts - _START_GAIN:
        return fit_concentration(run, believed)
    return fit_concentration(run, noise)
