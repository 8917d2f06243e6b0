"""Rules of choosing on generated worlds, against each other and the best possible rule.

``python -m benchmarks.selection worlds``.

A world has many instances with candidates of one to three models, the results of existing tests
and of scripts on them, and the truth. Right and wrong candidates fall into classes of equal ones;
some mistakes are popular. A world says of which kinds its scripts are: faithful, passed by nobody,
by everybody, or by one misreading; random, inverted, over-strict, weak.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log

from swe_retry.attempts.evidence.belief import best_class, weigh
from swe_retry.attempts.evidence.facts import stated_fit
from swe_retry.attempts.evidence.fit import fit_run
from swe_retry.attempts.run_fit import RunFit
from swe_retry.record.evidence import BeliefFit
from swe_retry.study.matrix import MatrixCandidate, MatrixInstance, MatrixScript

BROKEN_BY_RIGHT = 0.04
"""How often a right candidate breaks a test."""
RIGHT_FORMS = 4
"""How many right solutions there are beside the usual one."""
MISTAKES = {"mistake": 0.65, "mistake 2": 0.35}
"""The popular mistakes, and how the attempts that make one divide."""
_BINS = 10
_FULL_BIN = 0.05


@dataclass(frozen=True)
class World:
    """What decides the instances of a world.

    Attributes:
        kinds: shares of the kinds of scripts.
        hard, easy: of the beta distribution of difficulties.
        models: how much better each is, in logarithms of odds.
        attempts: on each instance, by the models in turn.
        reject: how often existing tests reject a wrong candidate.
        shared: how often a mistake is a popular one.
        forms: how often a right candidate is the usual one.
        scripts: the fewest and the most on an instance.
        detect: how often a faithful script finds a wrong candidate.
        own: how often an attempt wrote a script.
    """

    kinds: Mapping[str, float]
    easy: float = 0.5
    hard: float = 0.68
    models: tuple[float, ...] = (0.0, 0.0)
    attempts: int = 6
    reject: float = 0.3
    shared: float = 0.5
    forms: float = 0.6
    scripts: tuple[int, int] = (5, 9)
    detect: float = 0.6
    own: float = 0.2


@dataclass(frozen=True)
class LabelledInstance:
    """An instance and the ids of its right candidates."""

    instance: MatrixInstance
    right: frozenset[str]

    @property
    def candidates(self) -> Sequence[MatrixCandidate]:
        return self.instance.candidates

    def passed_scripts(self, candidate: MatrixCandidate) -> list[str]:
        names = []
        for script in self.instance.scripts:
            if candidate.id in script.passed_by:
                names.append(str(script.id))
        return names

    def passes(self, candidate: MatrixCandidate) -> int:
        return len(self.passed_scripts(candidate))

    def class_sizes(self, candidates: Sequence[MatrixCandidate]) -> Counter[str]:
        return Counter(candidate.class_key for candidate in candidates)


TYPICAL = {
    "faithful": 0.22,
    "nobody": 0.45,
    "everybody": 0.13,
    "echo": 0.12,
    "random": 0.08,
}
POOR = {
    "faithful": 0.08,
    "nobody": 0.4,
    "everybody": 0.12,
    "echo": 0.3,
    "random": 0.1,
}
STRONG = {
    "faithful": 0.65,
    "nobody": 0.2,
    "everybody": 0.1,
    "random": 0.05,
}
UNEQUAL = (1.4, -1.4)

WORLDS = {
    "perfect": World({"faithful": 1.0}),
    "strong": World(STRONG),
    "typical": World(TYPICAL),
    "poor": World(POOR),
    "random": World({"random": 1.0}),
    "inverted": World({"inverted": 0.8, "faithful": 0.2}),
    "over-strict": World({"strict": 0.6, "nobody": 0.2, "faithful": 0.2}),
    "weak": World({"weak": 0.7, "everybody": 0.2, "nobody": 0.1}),
    "misread": World({"echo": 0.5, "faithful": 0.2, "nobody": 0.3}),
    "no scripts": World(TYPICAL, scripts=(0, 0)),
    "own scripts only": World(TYPICAL, own=1.0),
    "own, poor": World(POOR, own=1.0),
    "typical, hard": World(TYPICAL, easy=0.25, hard=1.1),
    "typical, easy": World(TYPICAL, easy=1.1, hard=0.35),
    "one model, 12": World(TYPICAL, models=(0.0,), attempts=12),
    "two models, 12": World(TYPICAL, attempts=12),
    "two attempts": World(TYPICAL, attempts=2),
    "three models": World(TYPICAL, models=(0.5, 0.0, -0.5)),
    "unequal, typical": World(TYPICAL, models=UNEQUAL),
    "unequal, poor": World(POOR, models=UNEQUAL),
    "unequal, random": World({"random": 1.0}, models=UNEQUAL),
    "weak model first": World(POOR, models=(-1.4, 1.4)),
    "tests reject none": World(TYPICAL, reject=0.0),
    "tests reject 70 %": World(TYPICAL, reject=0.7),
    "popular mistakes": World(TYPICAL, shared=0.9, forms=0.8),
    "popular, poor": World(POOR, shared=0.9, forms=0.5),
    "unlike mistakes": World(TYPICAL, shared=0.1, forms=0.3),
}


@dataclass
class _Generator:
    """Makes the instances of a world, the same for the same seed."""

    world: World
    random: random.Random

    def instance(self, number: int) -> LabelledInstance:
        world = self.world
        odds = draw_odds(world, self.random)
        classes: dict[str, bool] = {}
        failing: dict[str, int | None] = {}
        candidates = []
        for position in range(world.attempts):
            model = position % len(world.models)
            chance = 1 / (1 + exp(-odds - world.models[model]))
            is_right = self.random.random() < chance
            name = self._class_name(position, is_right=is_right)
            classes[name] = is_right
            if name not in failing:
                failing[name] = self._failing_tests(is_right=is_right)
            candidate = MatrixCandidate(
                id=f"a{position + 1}",
                model=f"m{model + 1}",
                equals=name,
                failing_tests=failing[name],
                patch_size=self.random.randint(200, 3000),
            )
            candidates.append(candidate)
        scripts = []
        for position in range(self.random.randint(*world.scripts)):
            script = self._script(f"s{position + 1}", candidates, classes)
            scripts.append(script)
        instance = MatrixInstance(
            instance_id=f"i{number}",
            candidates=tuple(candidates),
            scripts=tuple(scripts),
        )
        right = set()
        for candidate in candidates:
            if classes[str(candidate.equals)]:
                right.add(str(candidate.id))
        return LabelledInstance(instance, frozenset(right))

    def _draw(self, shares: Mapping[str, float]) -> str:
        """Return one of the names, each as often as its share."""
        (name,) = self.random.choices(list(shares), list(shares.values()))
        return name

    def _class_name(self, position: int, *, is_right: bool) -> str:
        if is_right:
            if self.random.random() < self.world.forms:
                return "right"
            return f"right {self.random.randint(1, RIGHT_FORMS)}"
        if self.random.random() < self.world.shared:
            return self._draw(MISTAKES)
        return f"mistake of {position}"

    def _failing_tests(self, *, is_right: bool) -> int | None:
        if self.random.random() < 0.1:
            return None
        rejected = BROKEN_BY_RIGHT if is_right else self.world.reject
        if self.random.random() >= rejected:
            return 0
        failing = 1
        while self.random.random() < 0.5:
            failing += 1
        return failing

    def _script(
        self,
        name: str,
        candidates: Sequence[MatrixCandidate],
        classes: Mapping[str, bool],
    ) -> MatrixScript:
        author = None
        if self.random.random() < self.world.own:
            author = self.random.choice(candidates)
        kind = self._draw(self.world.kinds)
        right = [name for name in classes if classes[name]]
        wrong = [name for name in classes if not classes[name]]
        strict = self.random.choice(right) if right else ""
        echo = self.random.choice(wrong) if wrong else ""
        if author and str(author.equals) in wrong:
            echo = str(author.equals)
        passed = set()
        for class_name, is_right in classes.items():
            favourite = strict if kind == "strict" else echo
            chance = passing_chance(
                self.world,
                kind,
                is_right=is_right,
                is_favourite=class_name == favourite,
                is_author=author is not None and class_name == author.equals,
            )
            if self.random.random() < chance:
                passed.add(class_name)
        passed_by = []
        for candidate in candidates:
            if candidate.equals in passed:
                passed_by.append(candidate.id)
        return MatrixScript(
            id=name,
            author=author.id if author else None,
            passed_by=tuple(passed_by),
        )


def draw_odds(world: World, generator: random.Random) -> float:
    """Return the logarithm of the odds that an attempt on an instance is right."""
    chance = generator.betavariate(world.easy, world.hard)
    chance = min(max(chance, 1e-6), 1 - 1e-6)
    return log(chance / (1 - chance))


def passing_chance(
    world: World,
    kind: str,
    *,
    is_right: bool,
    is_favourite: bool,
    is_author: bool,
) -> float:
    """Return how likely a class passes a script of a kind.

    Args:
        is_favourite: it is the one class that an over-strict or a misread script expects.
        is_author: an attempt of the class wrote the script.
    """
    chances = {
        "faithful": 0.97 if is_right else 1 - world.detect,
        "nobody": 0.0,
        "everybody": 1.0,
        "echo": float(is_favourite),
        "random": 0.5,
        "inverted": 0.1 if is_right else 0.7,
        "strict": float(is_favourite),
        "weak": 1.0 if is_right else 0.85,
    }
    chance = chances[kind]
    if is_author and kind != "nobody":
        chance = max(chance, 0.8)
    return chance


def make_instances(world: World, count: int, seed: str) -> list[LabelledInstance]:
    generator = _Generator(world, random.Random(seed))
    return [generator.instance(number) for number in range(count)]


def _failing_count(candidate: MatrixCandidate) -> float:
    if candidate.failing_tests is None:
        return 0.5
    return candidate.failing_tests


def _plausible(labelled: LabelledInstance) -> Sequence[MatrixCandidate]:
    plausible = [c for c in labelled.candidates if not c.failing_tests]
    return plausible or labelled.candidates


def choose_first(labelled: LabelledInstance) -> MatrixCandidate:
    return _plausible(labelled)[0]


def choose_largest(labelled: LabelledInstance) -> MatrixCandidate:
    plausible = _plausible(labelled)
    sizes = labelled.class_sizes(plausible)
    return max(plausible, key=lambda candidate: sizes[candidate.class_key])


def choose_by_groups(labelled: LabelledInstance, power: int) -> MatrixCandidate:
    """Choose from the best group of candidates that pass the same scripts.

    The score is scripts to the ``power``, times candidates: CodeT has 1, SWE-RL and version 0.12
    have 2.
    """
    groups = defaultdict(list)
    for candidate in labelled.candidates:
        scripts = frozenset(labelled.passed_scripts(candidate))
        groups[scripts].append(candidate)
    scores = {}
    for scripts, members in groups.items():
        scores[scripts] = len(scripts) ** power * len(members)
    best = max(scores.values())
    if not best:
        return choose_first(labelled)
    pool = []
    for candidate in labelled.candidates:
        scripts = frozenset(labelled.passed_scripts(candidate))
        if scores[scripts] == best:
            pool.append(candidate)
    sizes = labelled.class_sizes(labelled.candidates)
    return min(
        pool, key=lambda c: (_failing_count(c), -sizes[c.class_key], c.patch_size)
    )


def choose_as_agentless(labelled: LabelledInstance) -> MatrixCandidate:
    """Fewest failing tests, most scripts, the most frequent (Agentless, ``rerank.py``)."""
    sizes = labelled.class_sizes(labelled.candidates)
    return min(
        labelled.candidates,
        key=lambda c: (_failing_count(c), -labelled.passes(c), -sizes[c.class_key]),
    )


def choose_by_votes(labelled: LabelledInstance) -> MatrixCandidate:
    """Most scripts: CodeMonkeys' votes; S* compares by inputs that distinguish, which are those."""
    return max(labelled.candidates, key=labelled.passes)


def choose_right(labelled: LabelledInstance) -> MatrixCandidate:
    for candidate in labelled.candidates:
        if candidate.id in labelled.right:
            return candidate
    return labelled.candidates[0]


WORLD_RULES: Mapping[str, Callable[[LabelledInstance], MatrixCandidate]] = {
    "first": choose_first,
    "largest": choose_largest,
    "0.12": lambda labelled: choose_by_groups(labelled, 2),
    "CodeT": lambda labelled: choose_by_groups(labelled, 1),
    "Agentless": choose_as_agentless,
    "votes": choose_by_votes,
    "oracle": choose_right,
}


@dataclass
class Calibration:
    """How far weights are from the shares of right choices, in points."""

    bins: dict[int, list[tuple[float, bool]]] = field(default_factory=dict)

    def add(self, weight: float, *, is_right: bool) -> None:
        number = min(_BINS - 1, int(weight * _BINS))
        self.bins.setdefault(number, []).append((weight, is_right))

    def gaps(self) -> Iterator[tuple[int, float]]:
        """Yield the size and the gap of each bin."""
        for members in self.bins.values():
            size = len(members)
            weights = sum(weight for weight, _ in members)
            right = sum(is_right for _, is_right in members)
            yield size, 100 * abs(weights - right) / size

    def in_words(self, count: int) -> str:
        total = 0.0
        greatest_gap = 0.0
        for size, gap in self.gaps():
            total += size * gap
            if size >= _FULL_BIN * count:
                greatest_gap = max(greatest_gap, gap)
        return f"{total / count:4.1f} /{greatest_gap:5.1f}"


def believe(instances: Sequence[LabelledInstance]) -> tuple[float, Calibration]:
    """Return the share of right choices of the belief, and its calibration."""
    facts = [labelled.instance.facts() for labelled in instances]
    fit = fit_run(facts)
    calibration = Calibration()
    right = 0
    beliefs = weigh(facts, fit)
    for labelled, of_instance, weights in zip(instances, facts, beliefs, strict=True):
        classes = labelled.instance.classes
        best = best_class(of_instance, weights, fit, range(len(classes)))
        is_right = classes[best][0].id in labelled.right
        right += is_right
        calibration.add(weights.classes[best], is_right=is_right)
    return 100 * right / len(instances), calibration


def first_attempts(labelled: LabelledInstance, count: int) -> LabelledInstance:
    """Return the instance as it is after ``count`` attempts."""
    instance = labelled.instance
    candidates = instance.candidates[:count]
    names = {candidate.id for candidate in candidates}
    scripts = []
    for script in instance.scripts:
        if script.author is None or script.author in names:
            passed = tuple(name for name in script.passed_by if name in names)
            scripts.append(script.model_copy(update={"passed_by": passed}))
    changes = {"candidates": candidates, "scripts": tuple(scripts)}
    part = instance.model_copy(update=changes)
    return LabelledInstance(part, labelled.right)


def without_scripts(labelled: LabelledInstance) -> LabelledInstance:
    part = labelled.instance.model_copy(update={"scripts": ()})
    return LabelledInstance(part, labelled.right)


def stop_when_sure(
    instances: Sequence[LabelledInstance], attempts: int, sure: float
) -> tuple[float, float]:
    """Return the share of attempts that are made, and that of right choices.

    As in a run, attempts end by what is fitted to the instances that ended before, and the last
    choice is fitted to all.
    """
    run_fit = RunFit()
    ended: list[LabelledInstance] = []
    while len(ended) < len(instances):
        start = len(ended)
        block = instances[start : start + run_fit.missing]
        fit = run_fit.current or stated_fit()
        parts = make_attempts(block, attempts, sure, fit)
        for part in parts:
            run_fit.add(part.instance.instance_id, part.instance.facts())
        ended += parts
    made = sum(len(part.candidates) for part in ended)
    right, _ = believe(ended)
    return 100 * made / (len(instances) * attempts), right


def make_attempts(
    instances: Sequence[LabelledInstance], attempts: int, sure: float, fit: BeliefFit
) -> list[LabelledInstance]:
    """Return the instances as they are when a class has the weight ``sure``, or at the end."""
    ended = []
    left = instances
    for count in range(1, attempts + 1):
        # Scripts are asked for where there is something to compare, or where agreement alone
        # would end the attempts.
        parts = [first_attempts(labelled, count) for labelled in left]
        bare = [without_scripts(part) for part in parts]
        weights = greatest(parts, fit)
        bare_weights = greatest(bare, fit)
        going_on = []
        for index, labelled in enumerate(left):
            part = parts[index]
            has_scripts = len(part.instance.classes) > 1 or bare_weights[index] >= sure
            is_sure = has_scripts and weights[index] >= sure
            if not is_sure and count < attempts:
                going_on.append(labelled)
            elif has_scripts:
                ended.append(part)
            else:
                ended.append(bare[index])
        left = going_on
    return ended


def greatest(instances: Sequence[LabelledInstance], fit: BeliefFit) -> list[float]:
    """Return the greatest weight of a class of each instance."""
    facts = [labelled.instance.facts() for labelled in instances]
    return [max(weights.classes) for weights in weigh(facts, fit)]
