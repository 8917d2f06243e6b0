"""Pure: what scripts tell about the attempts on an instance, as the files of a run have it.

A script exits with 2 where the issue is there, with 0 where it is solved, and with another code
where it cannot tell (the contract of CodeMonkeys, arXiv 2501.14723).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import prod
from typing import Annotated

from pydantic import BaseModel, Field, computed_field

from swe_retry.llm.chat import AnyText, IfAny

THERE = 2
"""The exit code of a script where the issue is there."""
SOLVED = 0
"""The exit code of a script where the issue is solved."""


class ScriptSource(StrEnum):
    """What a script was made from."""

    ISSUE = "issue"
    FILES = "files"
    CANDIDATE = "candidate"
    ATTEMPT = "attempt"
    DISTINGUISHING = "distinguishing"


class ReproductionScript(BaseModel, frozen=True):
    """A script that tells whether the issue is there.

    Attributes:
        model: that wrote it; of an attempt's own script, the attempt's.
        author: the number of the attempt that wrote it; None for a script that was asked for.
        base: exit codes at the base commit; None after a time limit.
        note: why there is no text, or why it did not run.
    """

    id: str
    source: ScriptSource
    model: AnyText = ""
    author: Annotated[int | None, IfAny] = None
    text: AnyText = ""
    base: tuple[int | None, ...] = ()
    note: AnyText = ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def valid(self) -> bool:
        """Whether it shows the issue at the base commit, twice."""
        return self.base == (THERE, THERE)


class CandidateClass(BaseModel, frozen=True):
    """Attempts whose patches are equal after normalization, and the models of these attempts."""

    id: str
    attempts: tuple[int, ...]
    models: tuple[AnyText, ...]


class Evidence(BaseModel, frozen=True):
    """What is known of the candidates of an instance.

    Attributes:
        outcomes: exit codes of valid scripts, by script and class; None after a time limit.
        failing: how many tests newly fail, by attempt; without those of which it is unknown.
        note: why there are no scripts, or not all.
    """

    classes: tuple[CandidateClass, ...] = ()
    scripts: tuple[ReproductionScript, ...] = ()
    outcomes: Mapping[str, Mapping[str, int | None]] = Field(default_factory=dict)
    failing: Mapping[int, int] = Field(default_factory=dict)
    note: AnyText = ""

    def among(self, numbers: Mapping[int, int]) -> Evidence:
        """Return what is known of some attempts alone, with other numbers for them.

        Args:
            numbers: the new number of each attempt; scripts of other attempts are left out.
        """
        classes = []
        for equal in self.classes:
            attempts = [numbers[n] for n in equal.attempts if n in numbers]
            if attempts:
                changes = {"attempts": tuple(attempts)}
                classes.append(equal.model_copy(update=changes))
        scripts = []
        for script in self.scripts:
            if script.author is None:
                scripts.append(script)
            elif script.author in numbers:
                author = numbers[script.author]
                scripts.append(script.model_copy(update={"author": author}))
        failing = {}
        for attempt, count in self.failing.items():
            if attempt in numbers:
                failing[numbers[attempt]] = count
        return Evidence(
            classes=tuple(classes),
            scripts=tuple(scripts),
            outcomes=self.outcomes,
            failing=failing,
            note=self.note,
        )

    @property
    def valid(self) -> tuple[str, ...]:
        return tuple(script.id for script in self.scripts if script.valid)

    def scripts_passed_by(self, id: str) -> frozenset[str]:
        """Return the valid scripts that the class ``id`` passes."""
        names = set()
        for name in self.valid:
            codes = self.outcomes.get(name, {})
            if codes.get(id) == SOLVED:
                names.add(name)
        return frozenset(names)

    def class_of(self, attempt: int) -> CandidateClass | None:
        for candidates in self.classes:
            if attempt in candidates.attempts:
                return candidates
        return None


class BeliefFit(BaseModel, frozen=True):
    """What a belief takes as holding for all instances of a run (``swe_retry.attempts``).

    Attributes:
        right: the expected share of right attempts.
        slip: how often a wrong candidate breaks no existing test.
        detection: how often a wrong candidate fails a faithful script.
        misled: how often a wrong candidate passes a misled script.
        shares: of the kinds of scripts.
        strengths: of each model, as a factor of the odds of being right.
        wrong_concentration: how unlike wrong attempts are, as the concentration of Ewens' formula;
            the default is that of runs which did not fit it.
    """

    right: float = Field(gt=0, lt=1)
    slip: float = Field(gt=0, lt=1)
    detection: float = Field(gt=0, lt=1)
    misled: float = Field(gt=0, lt=1)
    shares: Mapping[str, Annotated[float, Field(ge=0, le=1)]]
    strengths: Mapping[AnyText, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict
    )
    wrong_concentration: float = Field(default=5.0, gt=0)

    def strength(self, votes: Mapping[str, float]) -> float:
        """Return the strength of witnesses: a factor of the odds that they are right."""
        factors = []
        for model, vote in votes.items():
            strength = self.strengths.get(model, 1.0)
            factors.append(strength**vote)
        return float(prod(factors))


class Belief(BaseModel, frozen=True):
    """How sure a choice is.

    Attributes:
        weight: that the chosen candidate is right.
        none: that no candidate is.
    """

    weight: float
    none: float
    fit: BeliefFit
