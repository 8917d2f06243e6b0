"""What a run did on an instance; every reader of its files gets this object.

A trajectory is the whole record of an instance. Its prediction is the same record without the
conversations (``CONVERSATION_FIELDS``). Files of earlier versions and of May 2024 become this
record in ``InstanceResult.of_trajectory`` and ``of_prediction``, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Annotated, ClassVar, Self

from pydantic import Field, StrictStr

from swe_retry.core.jsontypes import JsonMapping
from swe_retry.llm.chat import AnyText, DollarsNumber, IfAny, Whole
from swe_retry.record.evidence import Belief, BeliefFit, Evidence
from swe_retry.record.layouts import TrajectoryShape, flat_trajectory, number_attempts
from swe_retry.record.patches import SubmittablePatch, submittable_patch
from swe_retry.record.records import (
    CONVERSATION_FIELDS,
    PLAUSIBLE,
    Attempt,
    Known,
    OrEmpty,
    Patch,
    Position,
    Recorded,
    Texts,
    Values,
    Word,
)
from swe_retry.record.status_rule import status_by

_IN_TRAJECTORIES = (
    "instance_id",
    "title",
    "status",
    "reason",
    "winner",
    "attempts",
    "writers",
    "config",
    "versions",
    "evidence",
    "belief",
    "cost_at_most",
)


class InstanceStatus(StrEnum):
    """How a job of any benchmark ended; the value stands in its file.

    The first three are of instances, the next four of exercises, ``generated`` of CanItEdit.
    """

    PLAUSIBLE = "plausible"
    FALLBACK = "fallback"
    EMPTY = "empty"
    SOLVED = "solved"
    FAILED = "failed"
    CONTEXT = "context"
    REFUSED = "refused"
    GENERATED = "generated"
    BUDGET = "budget"
    ERROR = "error"
    INFRA_ERROR = "infra_error"
    INTERRUPTED = "interrupted"

    __str__ = str.__str__


class InstanceResult(Recorded):
    """What a run did on one instance, or another job: its trajectory and its prediction.

    The harness cannot see verdicts: they are fields of a subclass in ``reports``.

    Attributes:
        model_patch: what is predicted, raw; empty without a winner.
        title: the first line of the issue.
        status: an ``InstanceStatus``, or another harness's word.
        attempt: the number of the attempt that the prediction names, with or without a patch.
        tries: that were made; None where the attempts tell it.
        cost: dollars of all attempts and writers.
        cost_at_most: with calls that were lost or broke off, and may have been billed.
        belief: how sure the choice is, where it follows from evidence.
        writers: what models said that wrote scripts, numbered from 0 downwards.
        config: of the start that did it; ``versions`` likewise.
        in_predictions: what is read from predictions, beside the values of attempts.
    """

    in_predictions: ClassVar = frozenset(
        {
            "instance_id",
            "model_name_or_path",
            "model_patch",
            "status",
            "reason",
            "tries",
            "cost",
            "cost_at_most",
            "evidence",
            "belief",
        }
    )

    instance_id: StrictStr
    model_name_or_path: Annotated[AnyText, OrEmpty] = ""
    model_patch: Patch = ""
    title: Known[AnyText] = None
    status: Annotated[InstanceStatus | Word, Field(union_mode="left_to_right")] = ""
    reason: Word = ""
    attempt: Position = 1
    tries: Known[Whole] = None
    cost: Known[DollarsNumber] = None
    cost_at_most: Annotated[Known[DollarsNumber], IfAny] = None
    attempts: tuple[Attempt, ...] = ()
    evidence: Known[Evidence] = None
    belief: Known[Belief] = None
    writers: Annotated[tuple[Attempt, ...], IfAny] = ()
    config: Known[Values] = None
    versions: Known[Values] = None

    @classmethod
    def of_trajectory(cls, raw: JsonMapping) -> Self:
        """Return the content of a trajectory of any version, or of an unfinished instance.

        Raises:
            ValidationError: it has another layout.
        """
        TrajectoryShape.model_validate(raw)
        result = cls.model_validate(flat_trajectory(raw))
        winner = raw.get("winner")
        for attempt in result.attempts:
            if attempt.attempt == winner:
                return result.but(attempt=winner, model_patch=attempt.model_patch)
        return result

    @classmethod
    def of_prediction(
        cls,
        raw: JsonMapping,
        trajectory: InstanceResult | None = None,
        models: Sequence[str] = (),
    ) -> Self:
        """Return the content of a prediction of any version, with the conversations.

        Where both files have a value, the prediction's counts: a recording may use an alias of
        the model.

        Args:
            models: in the order of their turns, for predictions without numbers of attempts.

        Raises:
            ValidationError: it has another layout.
        """
        top, results = number_attempts(raw, models)
        attempts: dict[int, Values] = {}
        values: Values = {}
        if trajectory is not None:
            for recorded in trajectory.attempts:
                attempts[recorded.attempt] = recorded.set_values()
            values = trajectory.set_values()
            values["evidence"] = None
            values["belief"] = None
        if not results and not attempts:
            alone = dict(top)
            alone.pop("status", None)
            results = [alone]
        for result in results:
            attempt = attempts.setdefault(result["attempt"], {})
            for name in result.keys() - CONVERSATION_FIELDS:
                attempt[name] = result[name]
        ordered = [attempts[number] for number in sorted(attempts)]
        for name in cls.in_predictions & raw.keys():
            values[name] = raw[name]
        values["attempt"] = top["attempt"]
        values["attempts"] = ordered
        return cls.model_validate(values)._with_statuses(top)

    def _with_statuses(self, top: JsonMapping) -> Self:
        """Return it with the statuses that files of May 2024 lack, by the outcomes."""
        attempts = []
        for attempt in self.attempts:
            if "status" not in attempt.model_fields_set:
                status = status_by(attempt, unknown_is_failed=True)
                attempt = attempt.but(status=status)
            attempts.append(attempt)
        result = self.but(attempts=tuple(attempts))
        if "status" in self.model_fields_set:
            return result
        predicted = status_by(Attempt.model_validate(top), unknown_is_failed=True)
        if predicted in PLAUSIBLE:
            return result.but(status=InstanceStatus.PLAUSIBLE)
        if self.model_patch.strip():
            return result.but(status=InstanceStatus.FALLBACK)
        return result.but(status=InstanceStatus.EMPTY)

    @property
    def chosen(self) -> Attempt | None:
        """The attempt that the prediction names; None if no file describes it."""
        for attempt in self.attempts:
            if attempt.attempt == self.attempt:
                return attempt
        return None

    @property
    def winner(self) -> Attempt | None:
        """The attempt that is predicted; None where the prediction is empty."""
        if not self.model_patch.strip():
            return None
        return self.chosen

    @property
    def fit(self) -> BeliefFit | None:
        """What the run took as holding for all its instances; None for what is stated."""
        if self.belief is None:
            return None
        return self.belief.fit

    @property
    def try_count(self) -> int:
        """The number of tries that were made, by the attempts where nothing says it."""
        if self.tries is not None:
            return self.tries
        return max(attempt.try_ for attempt in self.attempts)

    @property
    def plausible(self) -> bool | None:
        """None in runs of other harnesses, which do not say."""
        if self.chosen and not self.chosen.outcomes_known:
            return None
        return self.status in PLAUSIBLE

    @property
    def patch_known(self) -> bool:
        return self.chosen is None or self.chosen.patch_known

    @property
    def edits_test_configuration(self) -> bool:
        return self.winner is not None and self.winner.edits_test_configuration

    @property
    def tests_doubted(self) -> bool:
        return self.winner is not None and self.winner.tests_doubted

    @property
    def readable_copies(self) -> Texts:
        return self.winner.readable_copies if self.winner else ()

    @property
    def test_note(self) -> str:
        if self.chosen:
            return self.chosen.test_note
        return ""

    @cached_property
    def submittable(self) -> SubmittablePatch:
        """What an evaluator gets; of another harness's patch nothing is excluded."""
        if self.chosen and self.chosen.imported:
            return SubmittablePatch(self.model_patch)
        return submittable_patch(self.model_patch)

    @property
    def patch(self) -> str:
        return self.submittable.patch

    def prediction(self) -> Values:
        """Return the prediction in the layout of docs/predictions.md."""
        head = {
            "instance_id": self.instance_id,
            "model_name_or_path": self.model_name_or_path,
        }
        results = {}
        for attempt in self.attempts:
            values = attempt.model_dump(mode="json", exclude=set(CONVERSATION_FIELDS))
            results[attempt.attempt] = {**head, **values}
        first = next(iter(results.values()))
        top = dict(results.get(self.attempt, first))
        if not self.model_patch.strip():
            top |= {"edited_files": [], "edits_test_configuration": False}
            top.pop("tests_doubted", None)
        own = self.as_json()
        origin = top.pop("origin", None)
        prediction = {
            **top,
            "model_patch": self.model_patch,
            "tries": self.try_count,
            "status": own["status"],
            "reason": self.reason,
            "cost": own["cost"],
        }
        if self.cost_at_most:
            prediction["cost_at_most"] = own["cost_at_most"]
        if origin:
            prediction["origin"] = origin
        prediction["all_results"] = list(results.values())
        if self.evidence:
            prediction["evidence"] = own["evidence"]
        if self.belief:
            prediction["belief"] = own["belief"]
        return prediction

    def trajectory(self) -> Values:
        """Return the trajectory in the layout of docs/trajectory.md."""
        values = self.as_json()
        values["winner"] = self.winner and self.winner.attempt
        trajectory = {}
        for name in _IN_TRAJECTORIES:
            if name == "winner" or values.get(name) is not None:
                trajectory[name] = values[name]
        if self.chosen and self.chosen.origin:
            trajectory["origin"] = self.chosen.origin.as_json()
        return trajectory
