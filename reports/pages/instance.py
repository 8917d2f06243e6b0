"""The content of the page of an instance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from core.hashing import sha256_of
from core.money import column
from core.plaintext import shortened
from llm.chat import Message
from reports.data.rundata import InstanceData
from runs.records import Attempt, InstanceResult
from runs.storage.store import RunStore

_START = 90
_ISSUE = ("\n<issue>\n", "\n</issue>\n")


@dataclass(frozen=True)
class MessageView:
    """One message; ``same_as`` is an earlier one of the instance with the same text."""

    attempt: int
    number: int
    role: str
    content: str
    same_as: MessageView | None = None

    @property
    def anchor(self) -> str:
        return f"message-{self.attempt}-{self.number}"

    @property
    def start(self) -> str:
        """The first words of the message, in one line."""
        return shortened(self.content[: 4 * _START], _START)


def conversations(
    trajectory: InstanceResult | None,
) -> dict[int, tuple[MessageView, ...]]:
    """Return the messages by attempt number; repeated texts refer to their first message."""
    seen: dict[str, MessageView] = {}
    views = {}
    for attempt in trajectory.attempts if trajectory else ():
        messages = attempt.messages or ()
        views[attempt.attempt] = tuple(_messages(attempt.attempt, messages, seen))
    return views


def _messages(
    attempt: int, messages: Iterable[Message], seen: dict[str, MessageView]
) -> Iterator[MessageView]:
    for number, message in enumerate(messages, 1):
        content = message.with_calls
        role = message.role or "unknown"
        if message.lane:
            role += f", conversation {message.lane + 1}"
        view = MessageView(attempt, number, role, content, seen.get(content))
        seen.setdefault(content, view)
        yield view


def issue_in(views: Mapping[int, tuple[MessageView, ...]]) -> str:
    """Return the text of the issue in the first request (``agent/prompts/opening.md``)."""
    for message in (message for messages in views.values() for message in messages):
        _, start, rest = message.content.partition(_ISSUE[0])
        issue, end, _ = rest.rpartition(_ISSUE[1])
        if message.role == "user" and start and end:
            return issue
    return ""


_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,150}")


@dataclass(frozen=True)
class AttemptView:
    """One attempt with its conversation; ``resolved`` by the verdict on its own patch, if any."""

    data: Attempt
    chosen: bool
    messages: tuple[MessageView, ...]
    resolved: bool | None = None
    cost_words: str = ""

    @property
    def tokens(self) -> tuple[int | None, ...] | None:
        """Prompt, cached and completion tokens of all calls; None if one is unknown."""
        if not self.data.totals and not self.data.calls:
            return None
        sums = self.data.sums
        counts = (sums.prompt_tokens, sums.cached_tokens, sums.completion_tokens)
        return None if None in counts else counts


@dataclass(frozen=True)
class InstanceView:
    """One instance, with the output of the tests of its evaluation."""

    data: InstanceData
    issue: str
    attempts: tuple[AttemptView, ...]
    output: str

    @property
    def title(self) -> str:
        """The first line of the issue; empty if it is not a title."""
        first = self.issue.lstrip().partition("\n")[0]
        return "" if first.startswith(("```", "~~~", "|", ">")) else first

    @property
    def body(self) -> str:
        """The issue without its title, with which it would become one paragraph."""
        return self.issue.lstrip().removeprefix(self.title)

    def texts(self) -> Iterator[str]:
        """Yield the texts that may be long, as often as the page shows them."""
        yield from (self.issue, self.output)
        yield from (
            (one.text for one in self.data.evidence.scripts)
            if self.data.evidence
            else ()
        )
        for attempt in self.attempts:
            yield from (attempt.data.model_patch, attempt.data.error)
            yield from (m.content for m in attempt.messages if m.same_as is None)


def view_instance(
    store: RunStore, instance: InstanceData, issues: Mapping[str, str]
) -> InstanceView:
    """Read the page of ``instance``; its issue, if not in ``issues``, is in the first request."""
    name = instance.instance_id
    # An id with `..` or `/` could name a file outside the folder.
    safe = _SAFE_NAME.fullmatch(name) is not None
    messages = conversations(store.read_trajectory(name) if safe else None)
    costs = column([data.cost for data in instance.attempts])
    attempts = tuple(
        AttemptView(
            data,
            data is instance.winner,
            messages.get(data.attempt, ()),
            instance.resolved_by(data),
            cost,
        )
        for data, cost in zip(instance.attempts, costs, strict=True)
    )
    issue = issues.get(name) or issue_in(messages)
    logs = (
        sorted(store.logs.glob(f"{name}.*.eval.log"))
        if instance.verdict and safe
        else []
    )
    output = logs[0].read_text(encoding="utf-8", errors="replace") if logs else ""
    return InstanceView(instance, issue, attempts, output)


def page_name(instance_id: str) -> str:
    """Return the file name of an instance's page; an unsafe id is replaced by its hash."""
    if _SAFE_NAME.fullmatch(instance_id):
        return f"{instance_id}.html"
    return f"{sha256_of(instance_id.encode('utf-8', 'replace'))[:32]}.html"
