"""The policies of the lab: plain functions from what is recorded so far to the next step.

A policy returns the ``Turn`` to make next, or the attempt that it chooses. It is asked again after
each attempt, and never sees a verdict. To add one, write a function and its row in ``policies_of``;
``--policy FILE.py:NAME`` adds one from another file (docs/lab.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from bench.attempts.candidates import Candidate, choose, rank
from bench.attempts.stopping import History, StopOptions, StopRule, Tried, is_enough, stop_reason
from core.errors import UserError
from core.money import total
from core.plaintext import counted, one_line, shortened
from reports.lab.recorded import LabData, Turn


@dataclass(frozen=True)
class Seen:
    """What a policy may know when it decides.

    Attributes:
        turns: those of the run, in its order; for the policy ``random`` in a random one.
        made: the turns so far.
        tried: what they gave; ``candidate.attempt`` is the place in this order, from 1.
        valid_scripts: None if the run has no evidence.
        history: of the other instances.
    """

    turns: tuple[Turn, ...]
    made: tuple[Turn, ...]
    tried: tuple[Tried, ...]
    valid_scripts: frozenset[str] | None
    history: History
    require_tests: bool

    @property
    def left(self) -> tuple[Turn, ...]:
        return tuple(turn for turn in self.turns if turn not in self.made)

    @property
    def spent(self) -> Decimal | None:
        return total(one.cost for one in self.tried)


@dataclass(frozen=True)
class Chosen:
    """The end of an instance: the place of the chosen attempt; 0 for an empty prediction."""

    attempt: int = 0


Decision = Turn | Chosen
Decide = Callable[[Seen], Decision]


@dataclass(frozen=True)
class Policy:
    """A policy of the lab.

    Attributes:
        words: what it does.
        any_order: it is replayed with random orders of the turns.
        total_usd: no instance is started once all instances together have cost this much.
    """

    name: str
    words: str
    decide: Decide
    any_order: bool = False
    total_usd: Decimal | None = None


# Selection: from what was tried to the best ones, which are equally good.
Select = Callable[[Sequence[Tried], bool], Sequence[Tried]]


def least_bad(tried: Sequence[Tried], require_tests: bool) -> Sequence[Tried]:
    """Select as the harness does: a plausible attempt, else the least bad one."""
    candidates = [one.candidate for one in tried]
    winner = choose(candidates, require_tests=require_tests).winner if tried else None
    return [one for one in tried if winner and _alike(one.candidate, winner, require_tests)]


def _alike(one: Candidate, best: Candidate, require_tests: bool) -> bool:
    def good(each: Candidate) -> tuple[bool, bool, bool]:
        untested = require_tests and each.test is not True
        return each.plausible and not each.suspect, each.edits_test_configuration, untested

    alike = good(one) == good(best) if good(best)[0] else rank(one)[:-1] == rank(best)[:-1]
    return one.usable and alike


def most_agreed(tried: Sequence[Tried], require_tests: bool) -> Sequence[Tried]:
    """Select by agreement: B. Chen et al., "CodeT" (2022), arXiv:2207.10397, section 2.3.

    Of the plausible attempts, else all with a patch, take the groups that pass the same scripts
    with the highest number of scripts squared times attempts; in them the largest class of equal
    patches; of these the least bad.
    """
    good = [t for t in tried if is_enough(t.candidate, require_tests=require_tests)]
    pool = good or [one for one in tried if one.candidate.usable]
    groups = Counter(one.passed or frozenset() for one in pool)
    scores = {passed: len(passed) ** 2 * count for passed, count in groups.items()}
    best = [t for t in pool if scores[t.passed or frozenset()] == max(scores.values())]
    classes = Counter(one.equals for one in best)
    best = [one for one in best if classes[one.equals] == max(classes.values())]
    return least_bad(best, require_tests)


def until(
    seen: Seen,
    stop: StopOptions,
    *,
    turns: Sequence[Turn] | None = None,
    most: int | None = None,
    usd: Decimal | None = None,
    select: Select = least_bad,
) -> Decision:
    """Make the turns in their order until the stop rule or a limit ends it, and select."""
    left = [turn for turn in (seen.turns if turns is None else turns) if turn not in seen.made]
    full = most is not None and len(seen.tried) >= most
    # Unknown costs count as nothing; the report says that its dollars are then a bound.
    poor = usd is not None and sum((t.cost or Decimal() for t in seen.tried), Decimal()) >= usd
    ended = stop_reason(seen.tried, seen.valid_scripts, stop, require_tests=seen.require_tests)
    if left and not (full or poor or ended):
        return left[0]
    best = select(seen.tried, seen.require_tests)
    return Chosen(min((one.candidate.attempt for one in best), default=0))


_PLAUSIBLE = StopOptions()
_ALL = StopOptions(StopRule.ALL)
_AGREEMENT = StopOptions(StopRule.AGREEMENT)


def plausible(seen: Seen, most: int | None = None) -> Decision:
    return until(seen, _PLAUSIBLE, most=most)


def only(seen: Seen, model: str) -> Decision:
    return until(seen, _PLAUSIBLE, turns=[t for t in seen.turns if t.model == model])


def reversed_models(seen: Seen) -> Decision:
    models = [*dict.fromkeys(turn.model for turn in seen.turns)]
    turns = sorted(seen.turns, key=lambda turn: (turn.try_, -models.index(turn.model)))
    return until(seen, _PLAUSIBLE, turns=turns)


def all_attempts(seen: Seen) -> Decision:
    return until(seen, _ALL)


def agreement(seen: Seen) -> Decision:
    return until(seen, _AGREEMENT, select=most_agreed)


def evidence(seen: Seen) -> Decision:
    return until(seen, _ALL, select=most_agreed)


def give_up(seen: Seen, after: int) -> Decision:
    return until(seen, StopOptions(give_up_after=after))


def budget(seen: Seen, usd: Decimal) -> Decision:
    return until(seen, _PLAUSIBLE, usd=usd)


def value(seen: Seen, usd: Decimal) -> Decision:
    return until(seen, StopOptions(StopRule.VALUE, value_usd=usd, history=seen.history))


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
    yield from ("plausible", "random", "all", "agreement")
    yield from ["reversed"] * (len(models) > 1)
    yield from ["evidence"] * data.has_scripts
    yield from ("give-up-2", "value-1", "value-10")
    if cost := data.mean_cost:
        yield from (f"budget-{_short(cost * n)}" for n in (1, 2))
        yield f"total-{_short(cost * len(data.instances))}"


def _short(usd: Decimal) -> str:
    return f"{usd:.4f}" if usd < 1 else f"{usd:.2f}"


_PLAIN: dict[str, tuple[str, Decide]] = {
    "first": ("one attempt", partial(plausible, most=1)),
    "plausible": ("until an attempt is plausible", plausible),
    "random": ("as plausible, in random order", plausible),
    "all": ("all attempts, then a plausible or the least bad one", all_attempts),
    "agreement": ("until two models agree, then the most agreed", agreement),
    "reversed": ("as plausible, models in reversed order", reversed_models),
    "evidence": ("all attempts, then the most agreed by scripts", evidence),
}  # fmt: skip


def _named(name: str, data: LabData) -> Policy:
    if name in _PLAIN:
        words, decide = _PLAIN[name]
        return Policy(name, words, decide, any_order=name == "random")
    if name.startswith("only-") and any(turn.model == name[5:] for turn in data.turns):
        return Policy(name, "as plausible, with this model", partial(only, model=name[5:]))
    if match := re.fullmatch(r"(plausible|give-up)-([1-9]\d{0,5})", name):
        if match[1] == "plausible":
            words = f"as plausible, at most {match[2]} attempts"
            return Policy(name, words, partial(plausible, most=int(match[2])))
        words = f"as plausible, but no more after {match[2]} equal failures"
        return Policy(name, words, partial(give_up, after=int(match[2])))
    if match := re.fullmatch(r"(budget|value|total)-(\d{1,9}(?:\.\d{1,9})?)", name):
        usd = Decimal(match[2])
        if match[1] == "budget":
            words = f"as plausible, until an instance has cost ${usd}"
            return Policy(name, words, partial(budget, usd=usd))
        if match[1] == "value":
            words = f"as plausible, while a success worth ${usd} is worth the next attempt"
            return Policy(name, words, partial(value, usd=usd))
        return Policy(name, f"as plausible, until all have cost ${usd}", plausible, total_usd=usd)
    known = ", ".join([*_PLAIN, "only-MODEL", "plausible-N", "give-up-N"])
    raise UserError(
        f"--policy {one_line(name)!r} is not known; give {known}, budget-USD, value-USD, "
        "total-USD, or FILE.py:NAME"
    )


def _of_file(given: str) -> Policy:
    path, _, name = given.rpartition(":")
    try:
        spec = spec_from_file_location("lab_policy", Path(path).expanduser())
        if spec is None or spec.loader is None:
            raise ImportError("not a module")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        function = getattr(module, name)
    except (Exception, SystemExit) as error:  # whatever the file does
        raise UserError(f"--policy {given} cannot be read: {_problem(error)}") from error
    if not callable(function):
        raise UserError(f"--policy {given}: {name} is not a function")
    return Policy(given, "of the file", _checked(given, function))


def _checked(name: str, function: Callable[[Seen], object]) -> Decide:
    def decide(seen: Seen) -> Decision:
        try:
            found = function(seen)
        except (Exception, SystemExit) as error:
            raise UserError(f"--policy {name} raised {_problem(error)}") from error
        if isinstance(found, Chosen) and type(found.attempt) is int:
            if 0 <= found.attempt <= len(seen.tried):
                return found
        elif isinstance(found, Turn) and type(found.try_) is int:
            known = found.model in [turn.model for turn in seen.turns]
            if known and found not in seen.made:
                return found
        raise UserError(
            f"--policy {name} returned {shortened(_shown(found), 80)} after "
            f"{counted(len(seen.tried), 'attempt')}; return a Turn of the runs' models that was "
            "not made, or Chosen(NUMBER) of one that was"
        )

    return decide


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"a {type(value).__name__}"


def _problem(error: BaseException) -> str:
    return shortened(f"{type(error).__name__}: {error}", 200)
