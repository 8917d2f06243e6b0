"""The record of an attempt, and the types of values in files of a run; unknown is None."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    OnErrorOmit,
    StrictBool,
    ValidationError,
)

from swe_retry.agent.named import is_outside, named_agent
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.money import total
from swe_retry.core.untrusted import invalid, read_object
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
from swe_retry.record.evidence import BeliefFit
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
OrEmpty = BeforeValidator(lambda value: value or "")
Word = Annotated[AnyText, BeforeValidator(_text_or_empty)]
Texts = Annotated[tuple[OnErrorOmit[AnyText], ...], BeforeValidator(list_or_empty)]
Patch = Annotated[AnyText, AfterValidator(_encodable), OrEmpty]
Number = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Outcome = Known[StrictBool]
Flag = Annotated[bool, BeforeValidator(lambda value: value is True)]
NotFalse = Annotated[
    bool,
    BeforeValidator(lambda value: value is not False),
    Field(exclude_if=lambda value: value is True),
]
Position = Annotated[int, Field(strict=True)]


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

    @classmethod
    def of_file(cls, path: Path, what: str, fix: str) -> Self | None:
        """Return what a JSON file holds; None if there is no such file.

        Raises:
            UserError: it cannot be read or is not ``what`` it should be; ``fix`` says what to do.
        """
        try:
            return cls.model_validate(read_object(path, fix))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise invalid(path, error, what, fix) from error

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
