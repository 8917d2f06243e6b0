"""What the page of an instance shows beside the instance: its issue, messages and test output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from swe_retry.attempts.transcript import conversation_origins
from swe_retry.core.hashing import sha256_of
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.plaintext import abbreviate
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore
from swe_retry.results.rundata import InstanceData

INSTANCES = "instances"
"""The folder of the pages of instances."""
_START = 90
# Of an attempt; browsers take seconds for more.
_MAX_MESSAGES = 2_000
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,150}")
ShownMessage = JsonObject


@dataclass(frozen=True)
class PageTexts:
    """The long texts of the page of an instance that ``InstanceData`` does not have.

    Attributes:
        messages: of each attempt, by its number.
        output: of the tests of the evaluation.
        left_out: how many messages of each attempt are not shown.
    """

    issue: str
    messages: Mapping[int, list[ShownMessage]]
    output: str
    left_out: Mapping[int, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The first line of the issue; empty if it is not a title."""
        first = self.issue.lstrip().partition("\n")[0]
        if first.startswith(("```", "~~~", "|", ">")):
            return ""
        return first

    @property
    def body(self) -> str:
        """The issue without its title, with which it would become one paragraph."""
        return self.issue.lstrip().removeprefix(self.title)


def read_texts(
    store: RunStore,
    instance: InstanceData,
    issues: Mapping[str, str],
) -> PageTexts:
    """Read the texts of a page; an issue that is not in ``issues`` is in the first request."""
    name = instance.instance_id
    # An id with `..` or `/` could name a file outside the folder.
    if not _SAFE_NAME.fullmatch(name):
        return PageTexts(issues.get(name, ""), {}, "")
    trajectory = store.read_trajectory(name)
    messages = _messages(trajectory)
    left_out = {}
    for attempt in trajectory.attempts if trajectory else ():
        count = len(attempt.messages or ())
        left_out[attempt.attempt] = count - len(messages[attempt.attempt])
    output = ""
    if instance.verdict:
        for path in sorted(store.logs.glob(f"{name}.*.eval.log"))[:1]:
            output = path.read_text("utf-8", "replace")
    return PageTexts(
        issues.get(name) or _issue_in(messages),
        messages,
        output,
        left_out,
    )


def long_texts(instance: InstanceData, texts: PageTexts) -> Iterator[str]:
    """Yield the texts that may be long, as often as the page shows them."""
    yield texts.issue
    yield texts.output
    if instance.evidence:
        for script in instance.evidence.scripts:
            yield script.text
    for attempt in instance.attempts:
        yield attempt.model_patch
        yield attempt.error
        for message in texts.messages.get(attempt.attempt, ()):
            if message["same_as"] is None:
                yield message["content"]


def _messages(trajectory: InstanceResult | None) -> dict[int, list[ShownMessage]]:
    """Return the messages by attempt; a text that is repeated refers to its first message."""
    first: dict[str, ShownMessage] = {}
    messages: dict[int, list[ShownMessage]] = {}
    for attempt in trajectory.attempts if trajectory else ():
        rows = messages[attempt.attempt] = []
        origins = conversation_origins(attempt.messages or ())
        shown = islice(attempt.messages or (), _MAX_MESSAGES)
        for number, message in enumerate(shown, 1):
            content = message.with_calls
            role = (message.role or "unknown") + origins[number - 1]
            row = {
                "anchor": f"message-{attempt.attempt}-{number}",
                "attempt": attempt.attempt,
                "number": number,
                "role": role,
                "content": content,
                "start": abbreviate(content[: 4 * _START], _START),
                "same_as": first.get(content),
            }
            first.setdefault(content, row)
            rows.append(row)
    return messages


def _issue_in(messages: Mapping[int, list[ShownMessage]]) -> str:
    """Return the text of the issue in the first request (``agent/prompts/opening.md``)."""
    for rows in messages.values():
        for message in rows:
            _, start, rest = message["content"].partition("\n<issue>\n")
            issue, end, _ = rest.rpartition("\n</issue>\n")
            if message["role"] == "user" and start and end:
                return str(issue)
    return ""


def page_name(instance_id: str) -> str:
    """Return the file name of an instance's page; an unsafe id is replaced by its hash."""
    if _SAFE_NAME.fullmatch(instance_id):
        return f"{instance_id}.html"
    return f"{sha256_of(instance_id.encode('utf-8', 'replace'))[:32]}.html"
