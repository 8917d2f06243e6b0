"""A transcript to read: all attempts of an instance, and how the winner was chosen."""

from __future__ import annotations

from collections.abc import Iterator

from agent.money import in_words
from bench.attempts import Solved
from bench.records import AttemptRecord, total_cost

_WORDS = {True: "clean", False: "failed", None: "unknown"}


def transcript(solved: Solved) -> str:
    """Return the Markdown text of everything that was said about an instance."""
    return "\n".join(_lines(solved)) + "\n"


def _lines(solved: Solved) -> Iterator[str]:
    winner = solved.winner
    yield f"# {solved.instance.instance_id}\n"
    yield f"- status: {solved.choice.status.value}"
    yield f"- choice: {solved.choice.reason}"
    yield f"- attempts: {len(solved.attempts)}, cost: {in_words(total_cost(solved.attempts))}\n"
    for record in solved.attempts:
        yield from _attempt(record)
    yield "## The prediction\n"
    yield _fenced(winner.model_patch, "diff") if winner else "None."


def _attempt(record: AttemptRecord) -> Iterator[str]:
    outcome = record.candidate
    yield f"## Attempt {record.attempt}: {record.model}, try {record.try_}\n"
    yield f"- status: {record.status.value}"
    words = [_WORDS[value] for value in (outcome.edit, outcome.lint, outcome.test)]
    yield f"- edit {words[0]}, lint {words[1]}, tests {words[2]}"
    yield f"- {record.reflections} reflections, cost: {in_words(record.cost)}"
    if record.dropped_files:
        yield f"- not predicted: {', '.join(record.dropped_files)}"
    yield ""
    for message in record.messages:
        yield f"### {message.role.upper()}\n"
        yield _fenced(message.content, "text")
    if record.error:
        yield f"### ERROR\n\n{_fenced(record.error, 'text')}"
    yield f"### PATCH\n\n{_fenced(record.model_patch, 'diff')}"


def _fenced(text: str, language: str) -> str:
    """Return ``text`` in a fence that is longer than any in it."""
    longest = max((len(run) for run in _runs(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _runs(text: str) -> Iterator[str]:
    for line in text.splitlines():
        stripped = line.lstrip()
        yield stripped[: len(stripped) - len(stripped.lstrip("`"))]
