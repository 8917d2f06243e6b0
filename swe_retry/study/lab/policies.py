"""The policies of the lab: plain functions from what is recorded so far to the next step.

A policy returns the ``ModelTurn`` to make next, or ``Chosen`` with the attempt to predict. It is
asked again after each attempt, and never sees a verdict. To add one, write a function and its row
in ``_WITHOUT_VALUE``, or name it in ``_policy_of_name`` if it takes a value;
``--policy FILE.py:NAME`` adds one of another file (docs/lab.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from math import inf
from pathlib import Path
from runpy import run_path

from swe_retry.attempts.choose import choose, rank
from swe_retry.attempts.evidence.choice import choose_by_evidence
from swe_retry.attempts.policy import StopRule
from swe_retry.attempts.stop import is_enough, stop_reason
from swe_retry.core.errors import UserError
from swe_retry.core.money import dollars, known_sum, total
from swe_retry.core.plaintext import abbreviate, one_line, quantity
from swe_retry.record.evidence import BeliefFit, Evidence
from swe_retry.study.lab.recorded import LabData, ModelTurn, Tried


@dataclass(frozen=True)
class Seen:
    """What a policy may know when it decides.

    Attributes:
        turns: those of the run, in its order; for the policy ``random`` in a random one.
        left: those of them that were not made.
        made: the turns so far.
        tried: what they gave; ``attempt.attempt`` is the place in this order, from 1.
        evidence: what is known of these attempts, by these places.
        fit: what the run took as holding for all its instances; None for what is stated.
    """

    turns: tuple[ModelTurn, ...]
    left: tuple[ModelTurn, ...]
    made: tuple[ModelTurn, ...]
    tried: tuple[Tried, ...]
    require_tests: bool
    evidence: Evidence = field(default_factory=Evidence)
    fit: BeliefFit | None = None


@dataclass(frozen=True)
class Chosen:
    """The end of an instance: the place of the chosen attempt; 0 for an empty prediction."""

    attempt: int = 0


Decision = ModelTurn | Chosen
Decide = Callable[[Seen], Decision]
Select = Callable[[Sequence[Tried], bool], Sequence[Tried]]
"""Selects the best ones of what was tried, which are equally good."""


@dataclass(frozen=True)
class Policy:
    """A policy of the lab.

    Attributes:
        any_order: it is replayed with random orders of the turns.
        scripts: it needs the scripts that the run has recorded, and pays for them.
        total_usd: no instance is started once all instances together have cost this much.
        settle: chooses where the policy asks for an attempt that was never made, if that could not
            change the choice.
    """

    name: str
    decide: Decide
    any_order: bool = False
    scripts: bool = False
    total_usd: Decimal | None = None
    settle: Decide | None = None


def least_bad(tried: Sequence[Tried], require_tests: bool) -> Sequence[Tried]:
    """Select as ``swe_retry.attempts.choose``: a plausible attempt, else the least bad."""

    def order(candidate: Tried) -> tuple[int, ...]:
        attempt = candidate.attempt
        if attempt.plausible and not attempt.suspect:
            untested = require_tests and not attempt.test_outcome
            return (0, attempt.ranks_low, untested)
        return (1, *rank(attempt)[:-1])

    usable = [candidate for candidate in tried if candidate.attempt.usable]
    best = min(map(order, usable), default=None)
    return [candidate for candidate in usable if order(candidate) == best]


def most_agreed(tried: Sequence[Tried], require_tests: bool) -> Sequence[Tried]:
    """Select the largest class of equal patches; of equally large ones the least bad.

    Of the plausible attempts, else of all with a patch.
    """
    usable = []
    enough = []
    for candidate in tried:
        if candidate.attempt.usable:
            usable.append(candidate)
        if is_enough(candidate.attempt, require_tests=require_tests):
            enough.append(candidate)
    pool = enough or usable
    classes = Counter(candidate.equals for candidate in pool)
    size = max(classes.values(), default=0)
    largest = [candidate for candidate in pool if classes[candidate.equals] == size]
    return least_bad(largest, require_tests)


def until(
    seen: Seen,
    stop: StopRule = StopRule.PLAUSIBLE,
    *,
    limit: float = inf,
    usd: Decimal = Decimal("inf"),
    by_evidence: bool = False,
) -> Decision:
    """Make the turns that are left until the stop rule or a limit ends it, and choose."""
    attempts = [candidate.attempt for candidate in seen.tried]
    if seen.left and len(attempts) < limit:
        spent = known_sum(attempt.cost for attempt in attempts)
        reason = stop_reason(attempts, stop, require_tests=seen.require_tests)
        if spent < usd and not reason:
            return seen.left[0]
    if by_evidence:
        choice = choose_by_evidence(
            attempts, seen.evidence, seen.fit, require_tests=seen.require_tests
        )
    else:
        choice = choose(attempts, require_tests=seen.require_tests)
    if choice.winner is None:
        return Chosen()
    return Chosen(choice.winner.attempt)


def only_model(seen: Seen, model: str) -> Decision:
    left = []
    for turn in seen.left:
        if turn.model == model:
            left.append(turn)
    return until(replace(seen, left=tuple(left)))


def reversed_models(seen: Seen) -> Decision:
    models = [turn.model for turn in seen.turns]

    def order(turn: ModelTurn) -> tuple[int, int]:
        return turn.try_, -models.index(turn.model)

    left = sorted(seen.left, key=order)
    return until(replace(seen, left=tuple(left)))


_WITHOUT_VALUE: dict[str, Decide] = {
    "first": partial(until, limit=1),
    "plausible": until,
    "random": until,
    "all": partial(until, stop=StopRule.ALL),
    "reversed": reversed_models,
    "evidence": partial(until, stop=StopRule.ALL, by_evidence=True),
}


def policies_of(data: LabData, names: Sequence[str] = ()) -> list[Policy]:
    """Return the policies of these names; without a name, all that fit the runs.

    Raises:
        UserError: a name or a file is wrong.
    """
    policies = []
    of_files = []
    for name in dict.fromkeys(names):
        if ".py:" in name:
            of_files.append(_policy_of_file(name))
        else:
            policies.append(_policy_of_name(name, data))
    if not policies:
        for name in dict.fromkeys(_usual_names(data)):
            policies.append(_policy_of_name(name, data))
    return policies + of_files


def _usual_names(data: LabData) -> list[str]:
    models = list(dict.fromkeys(turn.model for turn in data.turns))
    names = ["first"]
    if len(models) > 1:
        names += [f"only-{model}" for model in models]
    for limit in range(2, min(len(data.turns), 8)):
        names.append(f"plausible-{limit}")
    names += ["plausible", "random", "all"]
    if len(models) > 1:
        names.append("reversed")
    if data.has_scripts:
        names.append("evidence")
    costs = [attempt.cost for attempt in data.attempts]
    spent = total(costs)
    if spent:
        mean = spent / len(costs)
        names += [f"budget-{mean:.4f}", f"budget-{2 * mean:.4f}"]
        names.append(f"total-{mean * len(data.instances):.2f}")
    return names


def _policy_of_name(name: str, data: LabData) -> Policy:
    if name == "evidence" and not data.has_scripts:
        raise UserError(
            "--policy evidence needs scripts, and the run has recorded none; leave it out, or make "
            "the run with --set choice.select=evidence"
        )
    if name in _WITHOUT_VALUE:
        return Policy(
            name,
            _WITHOUT_VALUE[name],
            any_order=name == "random",
            scripts=name == "evidence",
            # All later attempts come after the first that is enough.
            settle=until if name == "all" else None,
        )
    for turn in data.turns:
        if name == f"only-{turn.model}":
            return Policy(name, partial(only_model, model=turn.model))
    kind, _, value = name.rpartition("-")
    with suppress(ValueError):
        if kind == "plausible":
            return Policy(name, partial(until, limit=int(value)))
        if kind == "budget":
            return Policy(name, partial(until, usd=dollars(value)))
        if kind == "total":
            return Policy(name, until, total_usd=dollars(value))
    raise UserError(
        f"--policy {one_line(name)!r} is not known; give {', '.join(_WITHOUT_VALUE)}, only-MODEL, "
        "plausible-N, budget-USD, total-USD, or FILE.py:NAME"
    )


def _policy_of_file(name: str) -> Policy:
    path, _, function_name = name.rpartition(":")
    try:
        content = run_path(str(Path(path).expanduser()))
        function = content[function_name]
        if not callable(function):
            raise TypeError(f"{function_name} is not a function")
    except (Exception, SystemExit) as error:  # whatever the file does
        problem = _describe(error)
        raise UserError(f"--policy {name} cannot be read: {problem}") from error

    def decide(seen: Seen) -> Decision:
        try:
            decision = function(seen)
            text = abbreviate(repr(decision), 80)
        except (Exception, SystemExit) as error:
            raise UserError(f"--policy {name} raised {_describe(error)}") from error
        count = len(seen.tried)
        if isinstance(decision, Chosen) and decision.attempt in range(count + 1):
            return Chosen(int(decision.attempt))
        if isinstance(decision, ModelTurn) and type(decision.try_) is int:
            models = [turn.model for turn in seen.turns]
            if decision.model in models and decision not in seen.made:
                return ModelTurn(decision.model, decision.try_)
        raise UserError(
            f"--policy {name} returned {text} after {quantity(count, 'attempt')}; give "
            "a ModelTurn of the runs' models that was not made, or Chosen(NUMBER) of one that was"
        )

    return Policy(name, decide)


def _describe(error: BaseException) -> str:
    return abbreviate(f"{type(error).__name__}: {error}", 200)
