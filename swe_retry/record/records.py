"""The models of what a run writes; every reader of its files gets these objects.

A trajectory is the whole record of an instance. Its prediction is the same record without the
conversations (``CONVERSATION_FIELDS``). Unknown is None. Files of earlier versions and of May 2024
become these records in ``InstanceResult.of_trajectory`` and ``of_prediction``, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    OnErrorOmit,
    StrictBool,
    StrictStr,
)

from swe_retry.agent.named import is_outside, named_agent
from swe_retry.core.jsontypes import JsonMapping, JsonObject
from swe_retry.core.money import total
from swe_retry.llm.chat import (
    AnyText,
    DollarsNumber,
    IfAny,
    Message,
    OrUnknown,
    Reply,
    Traits,
    Usage,
    Whole,
)
from swe_retry.record.conversations import Conversations
from swe_retry.record.evidence import Belief, BeliefFit, Evidence
from swe_retry.record.patches import SubmittablePatch, patch_paths, submittable_patch

Values = JsonObject
T = TypeVar("T")
Known = Annotated[T | None, OrUnknown]
"""A value that is None where a file says nothing, or nothing of this type."""


def _text_or_empty(value: object) -> object:
    if isinstance(value, str):
        return value
    return ""


def list_or_empty(value: object) -> object:
    if isinstance(value, list | tuple):
        return value
    return ()


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("it contains an unpaired surrogate") from None
    return text


# Other harnesses write empty values of any type for what is missing.
_OrEmpty = BeforeValidator(lambda value: value or "")
Word = Annotated[AnyText, BeforeValidator(_text_or_empty)]
Texts = Annotated[tuple[OnErrorOmit[AnyText], ...], BeforeValidator(list_or_empty)]
Patch = Annotated[AnyText, AfterValidator(_encodable), _OrEmpty]
Number = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Outcome = Known[StrictBool]
Flag = Annotated[bool, BeforeValidator(lambda value: value is True)]
NotFalse = Annotated[
    bool,
    BeforeValidator(lambda value: value is not False),
    Field(exclude_if=lambda value: value is True),
]
Position = Annotated[int, Field(strict=True)]


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


class AttemptStatus(StrEnum):
    """How an attempt ended; the value stands in prediction files."""

    PLAUSIBLE = "plausible"
    PLAUSIBLE_UNTESTED = "plausible_untested"
    EDIT_FAILED = "edit_failed"
    LINT_FAILED = "lint_failed"
    TESTS_FAILED = "tests_failed"
    ONLY_TEST_CONFIGURATION = "only_test_configuration"
    TREE_DIFFERS = "tree_differs"
    EMPTY = "empty"
    ERROR = "error"
    BUDGET = "budget"
    LIMIT = "limit"
    TIMEOUT = "timeout"
    CONTEXT = "context"
    REPLAY_EXHAUSTED = "replay_exhausted"
    NOT_RECORDED = "not_recorded"
    INFRA_ERROR = "infra_error"
    INTERRUPTED = "interrupted"

    __str__ = str.__str__


PLAUSIBLE = frozenset({AttemptStatus.PLAUSIBLE, AttemptStatus.PLAUSIBLE_UNTESTED})
"""Statuses that mean plausible; ``InstanceStatus.PLAUSIBLE`` equals one of them."""

BROKEN_STATUSES = frozenset(
    {AttemptStatus.ERROR, AttemptStatus.TIMEOUT, AttemptStatus.NOT_RECORDED}
)
"""Statuses of attempts that say nothing about their models."""

NEVER_PLAUSIBLE = BROKEN_STATUSES | {
    AttemptStatus.ONLY_TEST_CONFIGURATION,
    AttemptStatus.TREE_DIFFERS,
}
"""Statuses of attempts whose outcomes say nothing about their patches."""


class Recorded(BaseModel):
    """A part of a file of a run."""

    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
    )

    def but(self, **changes: Any) -> Self:  # noqa: ANN401 - values of any field
        """Return a checked copy; ``model_copy`` would keep what was derived of the old values."""
        fields = type(self).model_fields.keys()
        is_open = self.model_extra is not None
        assert is_open or changes.keys() <= fields, changes.keys()
        values = self.set_values()
        values |= changes
        return type(self).model_validate(values)

    def set_values(self) -> Values:
        """Return the values that a file or a caller gave, by field."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def has(self, name: str) -> bool:
        """Return whether a file or a caller gave a value for this field."""
        return name in self.model_fields_set

    def as_json(self) -> Values:
        """Return the values as a file has them."""
        return self.model_dump(mode="json")


@dataclass(frozen=True)
class Totals(Usage):
    """What the calls of a step or an attempt come to; None is unknown."""

    calls: Whole | None = None
    cost: Annotated[DollarsNumber, Field(exclude=True)] = None

    @classmethod
    def of(cls, calls: Sequence[Reply]) -> Totals:
        """Return the sums over calls; a count that one call lacks is unknown."""
        return cls(
            prompt_tokens=_sum(calls, "prompt_tokens"),
            completion_tokens=_sum(calls, "completion_tokens"),
            cached_tokens=_sum(calls, "cached_tokens"),
            calls=len(calls),
            cost=total(call.cost for call in calls),
        )

    def counts(self) -> dict[str, int | None]:
        """Return all but the dollars, by name."""
        counts = asdict(self)
        del counts["cost"]
        return counts


def _sum(calls: Sequence[Reply], count: str) -> int | None:
    result = 0
    for call in calls:
        tokens = getattr(call.usage, count, None)
        if tokens is None:
            return None
        result += tokens
    return result


class Origin(Recorded):
    """The run and the number there of an attempt that was made in another run.

    Attributes:
        harness: that made it, where this one only chose among attempts.
    """

    run: AnyText
    attempt: Known[Whole] = None
    harness: Annotated[Word, IfAny] = ""

    def __str__(self) -> str:
        return f"{self.run}, attempt {self.attempt}"


CONVERSATION_FIELDS = frozenset(
    {
        "edit_format",
        "traits",
        "messages",
        "calls",
        "totals",
        "reflections",
        "seconds",
        "error",
        "dropped_files",
        "untested",
        "newly_passing",
        "hidden_paths",
        "applies",
    }
)
"""The fields of an attempt that only trajectories have."""


class Attempt(Recorded):
    """One attempt of any harness at an instance; outcomes are true, false or unknown.

    Attributes:
        model_patch: raw, as the agent left the tree, edits to tests included.
        temperature: that was sent; None where none was.
        cost: dollars of its calls.
        added_files: files that were in the conversation.
        edits_test_configuration: part of it changes how existing tests run; the outcome of its
            tests is that without this part.
        tests_doubted: the run of its tests did not report what passed before, or loaded other
            things; older files say ``edits_test_configuration`` of this too.
        test_note: what limits the test outcome.
        try_: from 1, per model.
        attempt: from 1 over the instance; below 1 for what a writer of scripts said.
        status: an ``AttemptStatus``, or another harness's word.
        told_of: the attempts whose outcomes it was told.
        patch_known: False where the files of another harness hold no patch.
        outcomes_known: False in runs of other harnesses, which do not say what is plausible.
        agent_version: of a coding agent of others; empty where it is unknown.
        readable_copies: installed copies of the project that its agent could read.
        edit_format: None without a trajectory.
        traits: what the conversation knew of its model.
        messages: None where no file holds the conversation.
        calls: None where they are unknown; imports have their ``totals`` instead.
        seconds: wall-clock time.
        dropped_files: files of ``model_patch`` that are not predicted.
        untested: why the test outcome is unknown, where more is to be said than that.
        newly_passing: tests that fail at the base commit and pass now.
        hidden_paths: what the sandbox hid from its agent.
        applies: whether the patch to predict applies to the clean base commit.
        stop_fit: what decides whether more attempts are made; None for the stated values.
        failing: tests that newly fail; no file holds them, but evidence their number.
    """

    model_patch: Patch = ""
    model: Word = ""
    temperature: Known[Number] = None
    cost: Known[DollarsNumber] = None
    added_files: Texts = ()
    edited_files: Texts = ()
    edit_outcome: Outcome = None
    lint_outcome: Outcome = None
    test_outcome: Outcome = None
    edits_test_configuration: Flag = False
    tests_doubted: Annotated[Flag, IfAny] = False
    test_note: Word = ""
    try_: Annotated[Position, Field(alias="try")] = 1
    attempt: Position = 1
    status: Annotated[AttemptStatus | Word, Field(union_mode="left_to_right")] = ""
    told_of: Annotated[tuple[Position, ...], IfAny] = ()
    imported: Annotated[Flag, IfAny] = False
    patch_known: NotFalse = True
    outcomes_known: NotFalse = True
    origin: Annotated[Known[Origin], IfAny] = None
    agent_version: Annotated[Word, IfAny] = ""
    readable_copies: Annotated[Texts, IfAny] = ()
    # In trajectories alone.
    edit_format: Known[AnyText] = None
    traits: Traits | None = None
    messages: Conversations = None
    calls: tuple[Reply, ...] | None = None
    totals: Annotated[Totals | None, IfAny] = None
    reflections: Known[Whole] = None
    seconds: Known[Number] = None
    error: Word = ""
    dropped_files: Texts = ()
    untested: Word = ""
    newly_passing: Annotated[Texts, IfAny] = ()
    hidden_paths: Annotated[Texts, IfAny] = ()
    applies: StrictBool = True
    stop_fit: Annotated[Known[BeliefFit], IfAny] = None
    # In no file.
    failing: Annotated[tuple[AnyText, ...], Field(exclude=True)] = ()

    @cached_property
    def submittable(self) -> SubmittablePatch:
        """What an evaluator gets; of another harness's patch nothing is excluded."""
        if self.imported:
            return SubmittablePatch(self.model_patch)
        return submittable_patch(self.model_patch)

    @property
    def patch(self) -> str:
        """The patch to predict, without edits to tests and other excluded files."""
        return self.submittable.patch

    @property
    def changed_files(self) -> tuple[str, ...]:
        return self.edited_files or patch_paths(self.model_patch)

    @property
    def excluded_files(self) -> tuple[str, ...]:
        return self.dropped_files or self.submittable.dropped

    @property
    def outcomes(self) -> dict[str, bool | None]:
        """The outcomes by name; pages, tables, ranks and sentences show all that are here."""
        return {
            "edit": self.edit_outcome,
            "lint": self.lint_outcome,
            "tests": self.test_outcome,
        }

    @property
    def usable(self) -> bool:
        return bool(self.patch.strip()) and self.applies

    @property
    def plausible(self) -> bool:
        """Whether edits and lint are clean and no test newly fails; tests may be unknown."""
        return self.status in PLAUSIBLE

    @property
    def ranks_low(self) -> bool:
        """Whether it goes after others of its kind, because of what it does to tests."""
        return self.edits_test_configuration or self.tests_doubted

    @property
    def suspect(self) -> bool:
        """Whether it ranks low, and its tests could not tell (docs/environments.md)."""
        if self.test_outcome is not None:
            return False
        untold = bool(self.untested)
        return self.tests_doubted or (self.edits_test_configuration and untold)

    @property
    def broken(self) -> bool:
        """Whether it says nothing about its model; a patch that does not apply says something."""
        return self.status in BROKEN_STATUSES and self.applies

    @property
    def label(self) -> str:
        """The model, with the coding agent that called it: several may share one model."""
        if self.model and self.edit_format and named_agent(self.edit_format):
            return f"{self.model}@{self.edit_format}"
        return self.model

    @property
    def is_ours(self) -> bool:
        """Whether our own agent made it, so that its messages are those of its calls."""
        return self.edit_format is not None and not is_outside(self.edit_format)

    @property
    def sums(self) -> Totals:
        """The totals of all calls, with the dollars of the attempt."""
        totals = self.totals or Totals()
        if self.edit_format is not None and self.totals is None:
            totals = Totals.of(self.calls or ())
        return replace(totals, cost=self.cost)

    def at(self, number: int) -> Attempt:
        """Return it with another number; what is derived of its patch stays."""
        return self.model_copy(update={"attempt": number})

    def without_texts(self) -> Attempt:
        """Return it without its conversation: those of 300 instances do not fit into memory."""
        calls = self.calls
        if calls is not None:
            calls = tuple(map(_without_content, calls))
        return self.but(messages=None, calls=calls)

    def with_call(self, messages: Sequence[Message], *calls: Reply) -> Attempt:
        """Return it with more messages and calls, and what they cost."""
        all_messages = (self.messages or ()) + tuple(messages)
        all_calls = (self.calls or ()) + calls
        cost = total(call.cost for call in all_calls)
        return self.but(messages=all_messages, calls=all_calls, cost=cost)


def _without_content(call: Reply) -> Reply:
    return replace(call, content="", body="", tool_calls=())


def status_by(
    attempt: Attempt,
    ended: AttemptStatus | None = None,
    *,
    unknown_is_failed: bool = False,
) -> AttemptStatus:
    """Return the status that follows from the outcomes of an attempt.

    Args:
        ended: how it ended, if otherwise than by its outcomes.
        unknown_is_failed: as in May 2024, when an unknown outcome was a failed one.
    """
    edit = attempt.edit_outcome
    lint = attempt.lint_outcome
    tests = attempt.test_outcome
    passed = tests is not False
    if unknown_is_failed:
        passed = tests is True
    if attempt.usable and edit and lint and passed and ended not in NEVER_PLAUSIBLE:
        if tests:
            return AttemptStatus.PLAUSIBLE
        return AttemptStatus.PLAUSIBLE_UNTESTED
    if ended is not None:
        return ended
    if edit is False:
        return AttemptStatus.EDIT_FAILED
    if not attempt.applies:
        return AttemptStatus.ERROR
    if not attempt.usable:
        return AttemptStatus.EMPTY
    if lint is False:
        return AttemptStatus.LINT_FAILED
    if tests is False or (edit and lint):
        return AttemptStatus.TESTS_FAILED
    return AttemptStatus.EDIT_FAILED


IN_PREDICTIONS = frozenset(
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
"""The values of an instance that are read from its prediction, beside those of its attempts."""


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


class _ResultShape(BaseModel):
    model_patch: Patch = ""


class _PredictionShape(BaseModel):
    """What must hold before the attempts of a prediction can be numbered."""

    all_results: Annotated[
        list[_ResultShape], BeforeValidator(lambda value: value or [])
    ] = Field(default_factory=list)


class _AttemptShape(BaseModel):
    attempt: Position
    model: AnyText


class _TrajectoryShape(BaseModel):
    attempts: list[_AttemptShape]


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
    """

    in_predictions: ClassVar[frozenset[str]] = IN_PREDICTIONS

    instance_id: StrictStr
    model_name_or_path: Annotated[AnyText, _OrEmpty] = ""
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
        _TrajectoryShape.model_validate(raw)
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
        _PredictionShape.model_validate(raw)
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


def flat_trajectory(raw: JsonMapping) -> Values:
    """Return the JSON of a trajectory of any version with the keys of today's."""
    values = dict(raw)
    for name in ("attempts", "writers"):
        if isinstance(values.get(name), list):
            values[name] = list(map(_flat, values[name]))
    return values


def _flat(raw: object) -> object:
    """Return an attempt of a trajectory; versions before 0.13 nest what predictions have too."""
    if not isinstance(raw, dict) or not isinstance(raw.get("recorded"), dict):
        return raw
    flat = {**raw["recorded"], **raw}
    del flat["recorded"]
    # They did not say whether the patch applies: without other words of an error it does not.
    if raw.get("status") == AttemptStatus.ERROR and not raw.get("error"):
        patch = flat.get("model_patch")
        if isinstance(patch, str) and submittable_patch(patch).patch:
            flat["applies"] = False
    return flat


def number_attempts(
    raw: JsonMapping, models: Sequence[str]
) -> tuple[Values, list[Values]]:
    """Return a prediction and its results, each with the number, try and model of its attempt.

    Files of May 2024 have ``try``, which counts per model, and no ``attempt``; some lack
    ``model`` or ``all_results``. Then ``models`` in the order of their turns tell.
    """
    turns: Counter[int | None] = Counter()
    results: list[Values] = []
    for result in raw.get("all_results") or ():
        try_ = _whole(result.get("try"))
        number = len(results) + 1
        results.append(_filled(result, models, turns[try_], number))
        turns[try_] += 1
    top = dict(raw)
    top.pop("all_results", None)
    first = 1
    if top.get("model") in models:
        first = models.index(top["model"]) + 1
    top = _filled(top, models, 0, first)
    numbers = []
    for result in results:
        if result.get("model_patch") == raw.get("model_patch"):
            numbers.append(result["attempt"])
    # In some, model and try name another attempt than the one whose patch is predicted.
    if numbers and "attempt" not in raw and top["attempt"] not in numbers:
        top["attempt"] = numbers[0]
    return top, results


def _filled(
    result: JsonMapping,
    models: Sequence[str],
    turn: int,
    position: int,
) -> Values:
    # ``turn`` earlier attempts have the same try; ``position`` stands for an unknown number.
    model = result.get("model")
    if not model or not isinstance(model, str):
        model = ""
        if turn < len(models):
            model = models[turn]
    try_ = _whole(result.get("try"))
    attempt = _whole(result.get("attempt"))
    if attempt is None:
        attempt = position
        if try_ and model in models:
            attempt = (try_ - 1) * len(models) + models.index(model) + 1
    return {**result, "model": model, "try": try_ or 1, "attempt": attempt}


def _whole(value: object) -> int | None:
    if type(value) is int and 0 <= value <= 2**53:
        return value
    return None
