"""What is known of the candidates of an instance, and what is stated of all. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

from swe_retry.record.evidence import BeliefFit

COPY = 0.5
"""What each doubling of equal attempts of one model adds to its first."""
RIGHT = 0.4
"""The share of right attempts that is expected where nothing is known."""
SLIP = 0.6
DETECTION = 0.6
MISLED = 0.4
WRONG_CONCENTRATION = 10.0
BELIEVED = {
    "faithful": 0.3,
    "strict": 0.04,
    "nobody": 0.3,
    "everybody": 0.12,
    "echo": 0.1,
    "misled": 0.04,
    "random": 0.1,
}


@dataclass(frozen=True)
class ClassFacts:
    """What is known of a class of equal candidates.

    Attributes:
        witnesses: how many attempts of each model made it.
        failing: the fewest tests that newly fail; None if unknown.
    """

    witnesses: Mapping[str, int]
    failing: int | None


@dataclass(frozen=True)
class ScriptFacts:
    """What a script says, by the numbers of classes.

    Attributes:
        passed: the classes that pass it.
        author: the class of the attempt that wrote it.
        unknown: classes on which it did not run.
    """

    passed: frozenset[int]
    author: int | None = None
    unknown: frozenset[int] = frozenset()

    @property
    def left_out(self) -> frozenset[int]:
        """The classes about which it says nothing: also its author's."""
        if self.author is None:
            return self.unknown
        return self.unknown | {self.author}


@dataclass(frozen=True)
class InstanceFacts:
    """What is known of the candidates of one instance."""

    classes: Sequence[ClassFacts]
    scripts: Sequence[ScriptFacts] = ()

    @property
    def votes(self) -> list[dict[str, float]]:
        """The independent witnesses of each class, by model."""
        most_models = max(len(facts.witnesses) for facts in self.classes)
        votes = []
        for facts in self.classes:
            copy = 0.0
            if len(facts.witnesses) == most_models:
                copy = COPY
            counts = facts.witnesses.items()
            by_model = {}
            for model, count in counts:
                by_model[model] = 1 + copy * log2(count)
            votes.append(by_model)
        return votes

    @property
    def telling_scripts(self) -> list[ScriptFacts]:
        """The scripts about other classes than their author's."""
        scripts = []
        for script in self.scripts:
            others = len(self.classes) - len(script.left_out)
            # An own script that nobody else passes would speak for its author.
            speaks = script.author is None or bool(script.passed - script.left_out)
            if others and speaks:
                scripts.append(script)
        return scripts

    def passed_by(self, number: int) -> frozenset[int]:
        """Return the positions of the scripts that a class passes."""
        positions = []
        for position, script in enumerate(self.scripts):
            if number in script.passed:
                positions.append(position)
        return frozenset(positions)


def stated_fit(right: float = RIGHT) -> BeliefFit:
    """Return what holds where nothing is fitted."""
    return BeliefFit(
        right=right,
        slip=SLIP,
        detection=DETECTION,
        misled=MISLED,
        shares=BELIEVED,
        wrong_concentration=WRONG_CONCENTRATION,
    )
