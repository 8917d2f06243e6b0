"""A readable transcript: the result of an instance, then all messages, repeated texts once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from swe_retry.agent.gateway.lanes import common_length
from swe_retry.attempts.choose import OUTCOME_WORDS
from swe_retry.attempts.evidence.choice import describe_script, matrix
from swe_retry.core.money import column, in_words
from swe_retry.core.plaintext import quantity, table, visible
from swe_retry.core.texts import render_text
from swe_retry.llm.chat import Message
from swe_retry.record.records import Attempt
from swe_retry.record.result import InstanceResult

_TEMPLATE = Path(__file__).with_name("transcript.md")
# Repeating a shorter text is easier to read than a reference.
_MIN_REFERENCED = 200
_FENCED = re.compile(r"(?ms)^(`{3,}|~{3,})[^\n]*\n.*?^\1[ \t]*$")


def transcript(result: InstanceResult) -> str:
    """Return the Markdown text of everything that was said about an instance."""
    text = render_text(
        _TEMPLATE,
        attempts_table,
        conversation_origins,
        describe_script,
        fenced_block,
        in_words,
        matrix,
        message_block,
        patch_block,
        quantity,
        table,
        result=result,
        seen=SeenTexts(),
    )
    return visible(text)


def transcript_blocks() -> dict[str, object]:
    """Return what the template of another transcript calls; a text is repeated once in it."""
    return {
        "fenced_block": fenced_block,
        "message_block": message_block,
        "seen": SeenTexts(),
    }


def patch_block(patch: str) -> str:
    if not patch.strip():
        return "None.\n"
    return fenced_block(patch, "diff")


def attempts_table(
    attempts: Sequence[Attempt],
    winner: Attempt | None,
) -> Iterator[str]:
    """Yield the lines of a table of attempts in Markdown; ``winner`` is marked."""
    outcomes = Attempt().outcomes
    headings = (
        *("attempt", "model", "try", "status"),
        *outcomes,
        *("reflections", "cost", "chosen"),
    )
    costs = column([attempt.cost for attempt in attempts])
    rows = []
    for attempt, cost in zip(attempts, costs, strict=True):
        row = (
            attempt.attempt,
            attempt.model,
            attempt.try_,
            attempt.status.replace("_", " "),
            *(OUTCOME_WORDS[outcome] for outcome in attempt.outcomes.values()),
            attempt.reflections,
            cost,
            "★" if attempt is winner else "",
        )
        rows.append(row)
    return table(
        headings,
        rows,
        numbers=(0, 2),
        markdown=True,
    )


@dataclass
class SeenTexts:
    """Where long texts stand first."""

    references: dict[str, str] = field(default_factory=dict)

    def find_earlier(self, text: str, reference: str) -> str:
        """Return where ``text`` stands first, empty where it is new or short."""
        if len(text) < _MIN_REFERENCED:
            return ""
        first_reference = self.references.setdefault(text, reference)
        if first_reference == reference:
            return ""
        return first_reference


def conversation_origins(messages: Sequence[Message]) -> list[str]:
    """Return which conversation each message is of, and for a first one what that continues.

    The words begin with a comma; they are empty in the first conversation.
    """
    origins = []
    earlier: list[list[Message]] = []
    for lane, group in groupby(messages, lambda message: message.lane):
        conversation = list(group)
        origin = f", conversation {lane + 1}" if lane else ""
        origins.append(origin + _continued(earlier, conversation))
        origins += [origin] * (len(conversation) - 1)
        earlier.append(conversation)
    return origins


def _continued(
    earlier: Sequence[Sequence[Message]], conversation: list[Message]
) -> str:
    longest = 0
    origin = ""
    start = 0
    for other in earlier:
        length = common_length(other, conversation)
        roles = [message.role for message in conversation[:length]]
        if length > longest and "assistant" in roles:
            longest = length
            number = other[0].lane + 1
            origin = f", continues conversation {number} after message {start + length}"
        start += len(other)
    return origin


def message_block(text: str, reference: str, seen: SeenTexts) -> str:
    """Return a message in a fence; texts of earlier messages are replaced by references."""
    earlier = seen.find_earlier(text, reference)
    if earlier:
        return f"As in {earlier}.\n"

    def shorten(block: re.Match[str]) -> str:
        earlier = seen.find_earlier(block[0], reference)
        if earlier:
            return f"[as in {earlier}]"
        return block[0]

    return fenced_block(_FENCED.sub(shorten, text), "text")


def fenced_block(text: str, language: str) -> str:
    """Return ``text`` in a fence that is longer than any in it; terminals show it as it is."""
    text = visible(text)
    longest = 2
    for line in text.splitlines():
        stripped = line.lstrip()
        longest = max(longest, len(stripped) - len(stripped.lstrip("`")))
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
