"""The policies of the lab: plain functions from what is recorded so far to the next step.

A policy returns the ``ModelTurn`` to make next, or ``Chosen`` with the attempt to predict. It is
asked again after each attempt, and never sees a verdict. To add one, write a function and its row
in ``_PLAIN`` or ``_WITH_VALUE``; ``--policy FILE.py:NAME`` adds one of another file (docs/lab.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from runpy import run_path

from bench.attempts import choose_by_evidence, is_enough, rank, stop_reason
from bench.policy import StopRule
from core.errors import UserError
from core.money import dollars, known_sum
from core.plaintext import counted, one_line, shortened
from reports.lab.recorded import LabData, ModelTurn, Tried
from runs.evidence import CandidateClass, Evidence


@dataclass(frozen=True)
class Seen:
    """What a policy may know when it decides.

    Attributes:
        turns: those of the run, in its order; for the policy ``random`` in a random one.
        made: the turns so far.
        tried: what they gave; ``attempt.attempt`` is the place in this order, from 1.
    """

    turns: tuple[ModelTurn, ...]
    made: tuple[ModelTurn, ...]
    tried: tuple[Tried, ...]
    require_tests: bool

    @property
    def left(self) -> tuple[ModelTurn, ...]:
        return tuple(turn for turn in self.turns if turn not in self.made)


@dataclass(frozen=True)
class Chosen:
    """The end of an instance: the place of the chosen attempt; 0 for an empty prediction."""

    attempt: int = 0


Decision = ModelTurn | Chosen
Decide = Callable[[Seen], Decision]


@dataclass(frozen=True)
class Policy:
    """A policy of the lab.

    Attributes:
        any_order: it is replayed with random orders of the turns.
        scripts: it needs the scripts that the run has recorded, and pays for them.
        total_usd: no instance is started once all instances together have cost this much.
    """

    name: str
    decide: Decide
    any_order: bool = False
    scripts: bool = False
    total_usd: Decimal | None = None


# Selection: from what was tried to the best ones, which are equally good.
Select = Callable[[Sequence[Tried], bool], Sequence[Tried]]


def least_bad(tried: Sequence[Tried], require_tests: bool) -> Sequence[Tried]:
    """Select as ``bench.attempts.choose``: a plausible attempt, else the least bad."""

    def key(one: Tried) -> tuple[int, ...]:
        candidate = one.attempt
        if candidate.plausible and not candidate.suspect:
            untested = require_tests and not candidate.test_outcome
            return 0, candidate.edits_test_configuration, untested
        return 1, *rank(candidate)[:-1]

    usable = [one for one in tried if one.attempt.usable]
    best = min(map(key, usable), default=None)
    return [one for one in usable if key(one) == best]


def most_agreed(tried: Sequence[Tried], require_tests: bool) -> Sequence[Tried]:
    """Select as ``choose_by_evidence``; without scripts the largest class of equal patches.

    Of the plausible attempts, else all with a patch; of equally large classes the least bad.
    """
    if any(one.passed is not None for one in tried):
        candidates = [one.attempt for one in tried]
        choice = choose_by_evidence(
            candidates, _evidence(tried), require_tests=require_tests
        )
        return [one for one in tried if one.attempt == choice.winner]
    good = [t for t in tried if is_enough(t.attempt, require_tests=require_tests)]
    pool = good or [one for one in tried if one.attempt.usable]
    classes = Counter(one.equals for one in pool)
    best = [one for one in pool if classes[one.equals] == max(classes.values())]
    return least_bad(best, require_tests)


def _evidence(tried: Sequence[Tried]) -> Evidence:
    found: dict[str, list[Tried]] = {}
    for one in (one for one in tried if one.equals):
        found.setdefault(one.equals, []).append(one)
    classes = [
        CandidateClass(
            id=key,
            attempts=tuple(one.attempt.attempt for one in same),
            models=tuple(dict.fromkeys(one.attempt.label for one in same)),
        )
        for key, same in found.items()
    ]
    passed = {key: same[0].passed or frozenset() for key, same in found.items()}
    failing = {one.attempt.attempt: one.failing for one in tried if one.failing}
    return Evidence.of_passed(classes, passed, failing)


def until(
    seen: Seen,
    stop: StopRule,
    *,
    turns: Sequence[ModelTurn] | None = None,
    most: int | None = None,
    usd: Decimal | None = None,
    select: Select = least_bad,
) -> Decision:
    """Make the turns in their order until the stop rule or a limit ends it, and select."""
    left = [
        turn
        for turn in (seen.turns if turns is None else turns)
        if turn not in seen.made
    ]
    full = most is not None and len(seen.tried) >= most
    poor = usd is not None and known_sum(one.attempt.cost for one in seen.tried) >= usd
    candidates = [one.attempt for one in seen.tried]
    ended = stop_reason(candidates, stop, require_tests=seen.require_tests)
    if left and not (full or poor or ended):
        return left[0]
    best = select(seen.tried, seen.require_tests)
    return Chosen(min((one.attempt.attempt for one in best), default=0))


def only(seen: Seen, model: str) -> Decision:
    return until(
        seen, StopRule.PLAUSIBLE, turns=[t for t in seen.turns if t.model == model]
    )


def reversed_models(seen: Seen) -> Decision:
    models = [*dict.fromkeys(turn.model for turn in seen.turns)]
    turns = sorted(seen.turns, key=lambda turn: (turn.try_, -models.index(turn.model)))
    return until(seen, StopRule.PLAUSIBLE, turns=turns)


plausible = partial(until, stop=StopRule.PLAUSIBLE)
_PLAIN: dict[str, Decide] = {
    "first": partial(plausible, most=1),
    "plausible": plausible,
    "random": plausible,
    "all": partial(until, stop=StopRule.ALL),
    "reversed": reversed_models,
    "evidence": partial(until, stop=StopRule.ALL, select=most_agreed),
}
_WITH_VALUE: dict[str, Callable[[str], Decide]] = {
    "plausible": lambda n: partial(plausible, most=int(n)),
    "budget": lambda usd: partial(plausible, usd=dollars(usd)),
    "total": lambda usd: plausible,
}


def policies_of(data: LabData, asked: Sequence[str] = ()) -> tuple[Policy, ...]:
    """Return the policies that are asked for; without a name, all that fit the runs.

    Raises:
        UserError: a name or a file is wrong.
    """
    files = [name for name in asked if ".py:" in name]
    names = [name for name in asked if name not in files] or [*_usual(data)]
    made = [_named(name, data) for name in dict.fromkeys(names)]
    return (*made, *map(_of_file, dict.fromkeys(files)))


def _usual(data: LabData) -> Iterator[str]:
    models = dict.fromkeys(turn.model for turn in data.turns)
    yield "first"
    yield from (f"only-{model}" for model in models if len(models) > 1)
    yield from (f"plausible-{number}" for number in range(2, min(len(data.turns), 8)))
    yield from ("plausible", "random", "all")
    yield from ["reversed"] * (len(models) > 1)
    yield from ["evidence"] * any(
        each.valid_scripts is not None for each in data.instances
    )
    if cost := data.mean_cost:
        yield from (f"budget-{cost * n:.4f}" for n in (1, 2))
        yield f"total-{cost * len(data.instances):.2f}"


def _named(name: str, data: LabData) -> Policy:
    if name in _PLAIN:
        any_order, scripts = name == "random", name == "evidence"
        return Policy(name, _PLAIN[name], any_order=any_order, scripts=scripts)
    if name.startswith("only-") and any(turn.model == name[5:] for turn in data.turns):
        return Policy(name, partial(only, model=name[5:]))
    kind, _, text = name.rpartition("-")
    with suppress(KeyError, ValueError):
        total = dollars(text) if kind == "total" else None
        return Policy(name, _WITH_VALUE[kind](text), total_usd=total)
    raise UserError(
        f"--policy {one_line(name)!r} is not known; give {', '.join(_PLAIN)}, only-MODEL, "
        "plausible-N, budget-USD, total-USD, or FILE.py:NAME"
    )


def _of_file(given: str) -> Policy:
    path, _, name = given.rpartition(":")
    try:
        function = run_path(str(Path(path).expanduser()))[name]
        if not callable(function):
            raise TypeError(f"{name} is not a function")
    except (Exception, SystemExit) as error:  # whatever the file does
        raise UserError(
            f"--policy {given} cannot be read: {_problem(error)}"
        ) from error

    def decide(seen: Seen) -> Decision:
        try:
            found = function(seen)
            shown = shortened(repr(found), 80)
        except (Exception, SystemExit) as error:
            raise UserError(f"--policy {given} raised {_problem(error)}") from error
        if isinstance(found, Chosen) and found.attempt in range(len(seen.tried) + 1):
            return Chosen(int(found.attempt))
        known = isinstance(found, ModelTurn) and found.model in [
            turn.model for turn in seen.turns
        ]
        if known and type(found.try_) is int and found not in seen.made:
            return ModelTurn(found.model, found.try_)
        raise UserError(
            f"--policy {given} returned {shown} after {counted(len(seen.tried), 'attempt')}; give "
            "a ModelTurn of the runs' models that was not made, or Chosen(NUMBER) of one that was"
        )

    return Policy(given, decide)


def _problem(error: BaseException) -> str:
    return shortened(f"{type(error).__name__}: {error}", 200)
