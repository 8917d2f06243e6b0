"""The part of a trajectory's layout (docs/trajectory.md) that the verification uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from agent.formats import format_names
from bench.attempts.candidates import AttemptStatus
from core.money import dollars
from llm.chat import Reminder
from reports.verification.difference import Spot
from reports.verification.requests import OUTSIDE
from runs.progress.statuses import InstanceStatus


def _checked_dollars(amount: float) -> float:
    dollars(amount)
    return amount


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("it contains half a character") from None
    return text


def _known_format(name: str) -> str:
    if name not in (OUTSIDE, *format_names()):
        raise ValueError(f"there is no edit format {name!a}")
    return name


Count = Annotated[int, Field(ge=0)]
Number = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Cost = Annotated[float, AfterValidator(_checked_dollars)]
Patch = Annotated[str, AfterValidator(_encodable)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, protected_namespaces=())


class _Usage(_Part):
    model_config = ConfigDict(strict=True, extra="forbid")

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cached_tokens: Count = 0


class _ToolCall(_Part):
    model_config = ConfigDict(strict=True, extra="forbid")

    id: str
    name: str
    arguments: str


class _Message(_Part):
    role: str
    content: str
    tool_calls: list[_ToolCall] = []
    tool_call_id: str | None = None
    images: list[str] = []


class _Call(_Part):
    request_sha256: str
    exchange_sha256: str | None = None
    content: str
    truncated: bool = False
    usage: _Usage | None = None
    cost: Cost | None = None
    seconds: Seconds = 0.0
    model: str = ""
    tool_calls: list[_ToolCall] = []


class _Recorded(_Part):
    model_patch: Patch
    edit_outcome: bool | None
    lint_outcome: bool | None
    test_outcome: bool | None
    added_files: list[str]
    edited_files: list[str]
    cost: Cost | None


class _Traits(_Part):
    context: Number | None
    prefill: bool
    reminder: Annotated[Reminder, Field(strict=False)]
    images: bool = False


class _Attempt(_Part):
    attempt: Number
    try_: Annotated[int, Field(ge=1, alias="try")]
    model: str
    edit_format: Annotated[str, AfterValidator(_known_format)]
    temperature: float | None
    status: Annotated[AttemptStatus, Field(strict=False)]
    traits: _Traits | None
    messages: list[_Message]
    calls: list[_Call]
    reflections: Count
    seconds: Seconds
    error: str
    dropped_files: list[str]
    recorded: _Recorded


def _numbered(attempts: list[_Attempt]) -> list[_Attempt]:
    if [attempt.attempt for attempt in attempts] != list(range(1, len(attempts) + 1)):
        raise ValueError("the attempts are not numbered from 1")
    return attempts


class _Config(_Part):
    require_tests: bool


class _Versions(_Part):
    harness: str


class _Trajectory(_Part):
    status: Annotated[InstanceStatus, Field(strict=False)]
    reason: str
    winner: int | None
    attempts: Annotated[list[_Attempt], Field(min_length=1), AfterValidator(_numbered)]
    config: _Config
    versions: _Versions
    title: str = ""


def wrong_layout(trajectory: Mapping[str, Any]) -> list[Spot]:
    """Return every place where ``trajectory`` does not have the layout."""
    try:
        _Trajectory.model_validate(trajectory)
    except ValidationError as error:
        return [Spot(tuple(item["loc"]), _words(item["msg"])) for item in error.errors()]
    return []


def _words(message: str) -> str:
    problem = message.removeprefix("Value error, ")
    return f"does not have the layout of docs/trajectory.md: {problem[:1].lower()}{problem[1:]}"
