"""A readable transcript: the result of an instance, then all messages, repeated texts once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.attempts.evidence import described, matrix
from bench.attempts.records import AttemptRecord, total_cost
from bench.attempts.solving import Solved
from core.money import column, in_words
from core.plaintext import counted, shortened, table
from runs.evidence import Evidence

_WORDS = {True: "clean", False: "failed", None: "unknown"}
_HEADINGS = (
    "attempt", "model", "try", "status", "edit", "lint", "tests", "reflections", "cost", "chosen",
)  # fmt: skip
_LONGEST_TITLE = 200
# Repeating a shorter text is easier to read than a reference.
_REPEATED = 200
_FENCED = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def transcript(solved: Solved) -> str:
    """Return the Markdown text of everything that was said about an instance."""
    return "\n".join(_lines(solved)) + "\n"


def title_of(problem_statement: str) -> str:
    lines = (line for line in problem_statement.splitlines() if line.strip())
    return shortened(next(lines, "").lstrip("# "), _LONGEST_TITLE)


def _lines(solved: Solved) -> Iterator[str]:
    title = title_of(solved.instance.problem_statement)
    name = solved.instance.instance_id
    yield f"# {name}: {title}\n" if title else f"# {name}\n"
    yield f"- status: {solved.choice.status.value}"
    yield f"- choice: {solved.choice.reason}"
    made = counted(len(solved.attempts), "attempt")
    every = [*solved.attempts, *solved.writers]
    yield f"- {made}, cost: {in_words(total_cost(every))}\n"
    yield from attempts_table(solved.attempts, solved.winner)
    if solved.evidence:
        yield from _evidence(solved.evidence)
    yield "\n## The prediction\n"
    winner = solved.winner
    patch = winner.model_patch if winner else ""
    yield fenced(patch, "diff") if patch.strip() else "None.\n"
    seen = SeenTexts()
    for record in solved.attempts:
        yield from _attempt(record, seen, chosen=winner is record)
    for writer in solved.writers:
        yield f"## Scripts by {writer.model}\n"
        yield f"- cost: {in_words(writer.cost)}\n"
        for place, message in enumerate(writer.messages, 1):
            yield f"### {place}. {message.role.upper()}\n"
            yield message_block(
                message.content, f"scripts by {writer.model}, {place}", seen
            )


def attempts_table(
    attempts: Sequence[AttemptRecord], winner: AttemptRecord | None
) -> Iterator[str]:
    """Yield the lines of a table of attempts in Markdown; ``winner`` is marked."""
    costs = column([record.cost for record in attempts])
    rows = []
    for record, cost in zip(attempts, costs, strict=True):
        found = record.candidate
        outcomes = (_WORDS[value] for value in (found.edit, found.lint, found.test))
        status = record.status.value.replace("_", " ")
        chosen = "★" if record is winner else ""
        rows.append(
            (
                record.attempt,
                record.model,
                record.try_,
                status,
                *outcomes,
                record.reflections,
                cost,
                chosen,
            )
        )
    return table(_HEADINGS, rows, numbers=(0, 2), markdown=True)


def _evidence(evidence: Evidence) -> Iterator[str]:
    yield "\n## Evidence\n"
    if evidence.note:
        yield f"{evidence.note[:1].upper()}{evidence.note[1:]}.\n"
    headings, rows = matrix(evidence)
    if evidence.valid:
        yield from table(headings, rows, numbers=(len(headings) - 1,), markdown=True)
        yield ""
    for script in evidence.scripts:
        yield f"### Script {script.id}: {described(script)}\n"
        if script.text:
            yield fenced(script.text, "")


@dataclass
class SeenTexts:
    """The first places of long texts."""

    places: dict[str, str] = field(default_factory=dict)

    def earlier(self, text: str, place: str) -> str:
        """Return the first place of ``text``, empty where it is new or short."""
        if len(text) < _REPEATED:
            return ""
        first = self.places.setdefault(text, place)
        return first if first != place else ""


def _attempt(record: AttemptRecord, seen: SeenTexts, *, chosen: bool) -> Iterator[str]:
    status = record.status.value.replace("_", " ")
    mark = ", chosen" if chosen else ""
    number = record.attempt
    yield f"## Attempt {number}: {record.model}, try {record.try_}: {status}{mark}\n"
    yield f"- {counted(record.reflections, 'reflection')}, cost: {in_words(record.cost)}"
    if record.temperature is not None:
        yield f"- temperature: {record.temperature:g}"
    if record.dropped_files:
        yield f"- not predicted: {', '.join(record.dropped_files)}"
    if record.candidate.edits_test_configuration:
        yield "- edits test configuration: its tests ran without these edits"
    if record.candidate.test_note:
        yield f"- tests: {record.candidate.test_note}"
    yield ""
    for place, message in enumerate(record.messages, 1):
        lane = f", conversation {message.lane + 1}" if message.lane else ""
        yield f"### {place}. {message.role.upper()}{lane}\n"
        yield message_block(message.content, f"attempt {number}, message {place}", seen)
    if record.error:
        yield f"### ERROR\n\n{fenced(record.error, 'text')}"
    yield "### PATCH\n"
    if chosen:
        yield "The prediction, above.\n"
    else:
        yield (
            fenced(record.model_patch, "diff")
            if record.model_patch.strip()
            else "None.\n"
        )


def message_block(text: str, place: str, seen: SeenTexts) -> str:
    """Return a message in a fence; texts of earlier messages are replaced by their place."""
    if earlier := seen.earlier(text, place):
        return f"As in {earlier}.\n"

    def once(block: re.Match[str]) -> str:
        earlier = seen.earlier(block[0], place)
        return f"[as in {earlier}]" if earlier else block[0]

    return fenced(_FENCED.sub(once, text), "text")


def fenced(text: str, language: str) -> str:
    """Return ``text`` in a fence that is longer than any in it."""
    stripped = [line.lstrip() for line in text.splitlines()]
    longest = max((len(line) - len(line.lstrip("`")) for line in stripped), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
