"""A readable transcript: the result of an instance, then all messages, repeated texts once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from agent.gateway.lanes import common_length
from bench.attempts.choose import OUTCOME_WORDS
from bench.attempts.evidence.choice import describe_script, matrix
from core.money import column, in_words
from core.plaintext import quantity, table, visible
from llm.chat import Message
from runs.evidence import Evidence
from runs.records import Attempt, InstanceResult

# Repeating a shorter text is easier to read than a reference.
_MIN_REFERENCED = 200
_FENCED = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def transcript(result: InstanceResult) -> str:
    """Return the Markdown text of everything that was said about an instance."""
    return visible("\n".join(_lines(result))) + "\n"


def _lines(result: InstanceResult) -> Iterator[str]:
    heading = f"# {result.instance_id}"
    if result.title:
        heading += f": {result.title}"
    yield f"{heading}\n"
    yield f"- status: {result.status}"
    yield f"- choice: {result.reason}"
    attempts = quantity(len(result.attempts), "attempt")
    yield f"- {attempts}, cost: {in_words(result.cost)}\n"
    yield from attempts_table(result.attempts, result.winner)
    if result.evidence:
        yield from _evidence(result.evidence, *matrix(result))
    yield "\n## The prediction\n"
    yield patch_block(result.model_patch)
    seen = SeenTexts()
    for attempt in result.attempts:
        yield from _attempt(attempt, seen, chosen=attempt is result.winner)
    for writer in result.writers:
        yield f"## Scripts by {writer.model}\n"
        yield f"- cost: {in_words(writer.cost)}\n"
        for number, message in enumerate(writer.messages or (), 1):
            yield f"### {number}. {message.role.upper()}\n"
            reference = f"scripts by {writer.model}, {number}"
            yield message_block(message.content, reference, seen)


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


def _evidence(
    evidence: Evidence, headings: Sequence[str], rows: Sequence[Sequence[str]]
) -> Iterator[str]:
    yield "\n## Evidence\n"
    if evidence.note:
        yield f"{evidence.note[:1].upper()}{evidence.note[1:]}.\n"
    if rows:
        yield from table(
            headings,
            rows,
            numbers=(len(headings) - 1,),
            markdown=True,
        )
        yield ""
    for script in evidence.scripts:
        yield f"### Script {script.id}: {describe_script(script)}\n"
        if script.text:
            yield fenced_block(script.text, "")


@dataclass
class SeenTexts:
    """Where long texts stand first."""

    references: dict[str, str] = field(default_factory=dict)

    def find_earlier(
        self,
        text: str,
        reference: str,
    ) -> str:
        """Return where ``text`` stands first, empty where it is new or short."""
        if len(text) < _MIN_REFERENCED:
            return ""
        first_reference = self.references.setdefault(text, reference)
        if first_reference == reference:
            return ""
        return first_reference


def _attempt(
    attempt: Attempt,
    seen: SeenTexts,
    *,
    chosen: bool,
) -> Iterator[str]:
    status = attempt.status.replace("_", " ")
    mark = ", chosen" if chosen else ""
    number = attempt.attempt
    yield f"## Attempt {number}: {attempt.model}, try {attempt.try_}: {status}{mark}\n"
    reflections = quantity(attempt.reflections or 0, "reflection")
    yield f"- {reflections}, cost: {in_words(attempt.cost)}"
    if attempt.temperature is not None:
        yield f"- temperature: {attempt.temperature:g}"
    if attempt.dropped_files:
        yield f"- not predicted: {', '.join(attempt.dropped_files)}"
    if attempt.edits_test_configuration:
        yield "- edits test configuration: its tests ran without these edits"
    if attempt.test_note:
        yield f"- tests: {attempt.test_note}"
    yield ""
    messages = attempt.messages or ()
    origins = conversation_origins(messages)
    for position, message in enumerate(messages, 1):
        yield f"### {position}. {message.role.upper()}{origins[position - 1]}\n"
        reference = f"attempt {number}, message {position}"
        text = message.content
        if attempt.imported or message.reasoning:
            text = message.with_calls
        yield message_block(text, reference, seen)
    if attempt.error:
        yield f"### ERROR\n\n{fenced_block(attempt.error, 'text')}"
    yield "### PATCH\n"
    if chosen:
        yield "The prediction, above.\n"
    else:
        yield patch_block(attempt.model_patch)


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


def message_block(
    text: str,
    reference: str,
    seen: SeenTexts,
) -> str:
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
