"""A readable transcript of an exercise in a column: its tries, all messages, and the solution."""

from __future__ import annotations

from collections.abc import Iterator

from bench.attempts.transcript import SeenTexts, fenced, message_block
from core.money import in_words, total
from core.plaintext import table
from exercises.exercism.results import TryResult
from exercises.exercism.running.outcome import Played

_HEADINGS = ("try", "tests", "passed", "failed", "skipped", "seconds")


def transcript(played: Played) -> str:
    """Return the Markdown text."""
    return "\n".join(_lines(played)) + "\n"


def _lines(played: Played) -> Iterator[str]:
    cost = total(call.reply.cost for call in played.calls)
    yield f"# {played.exercise.key}: {played.column.name.label}\n"
    yield f"- {played.status.value}: {played.reason}"
    yield f"- calls: {len(played.calls)}, cost: {in_words(cost)}, seconds: {played.seconds:g}\n"
    rows = [_row(number, one) for number, one in enumerate(played.tried, 1)]
    yield from table(_HEADINGS, rows, numbers=(0, 2, 3, 4, 5), markdown=True)
    seen = SeenTexts()
    for place, message in enumerate(played.messages, 1):
        yield f"\n## {place}. {message.role.upper()}\n"
        if message.content or not message.tool_calls:
            yield message_block(message.content, f"message {place}", seen)
        for call in message.tool_calls:
            yield f"Call of `{call.name.replace('`', '')}`:\n\n{fenced(call.arguments, 'json')}"
    if played.error:
        yield f"\n## ERROR\n\n{fenced(played.error, 'text')}"
    if last := played.tried[-1:]:
        if not last[0].solved:
            yield f"\n## OUTPUT OF THE LAST TESTS\n\n{fenced(last[0].output, 'text')}"
        yield f"\n## SOLUTION\n\n{fenced(last[0].patch, 'diff')}"


def _row(number: int, one: TryResult) -> tuple[object, ...]:
    verdict = "solved" if one.solved else "timed out" if one.timed_out else "failed"
    counts = (one.tests_passed, one.tests_failed, one.tests_skipped)
    shown = ("unknown" if count is None else count for count in counts)
    return number, verdict, *shown, f"{one.seconds:.1f}"
