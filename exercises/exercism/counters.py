"""Pure: what replies and outputs of tests show besides the verdict (docs/exercism.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from agent.conversation.base import ReplyCounts
from core.parsing.untrusted import DamagedError, json_of
from llm.chat import Reply

# The pattern of the published records, with its last blank.
_LAZY = re.compile(r"^[+]? *[#].* [.][.][.] ", re.MULTILINE)
# Pytest writes `E` before what was raised, and Jest indents it.
_SYNTAX, _INDENTATION = (
    re.compile(rf"^(?:E\b)?[ \t]*{name}(?=:|$)", re.MULTILINE)
    for name in ("SyntaxError", "IndentationError")
)


def lazy_comments(reply: Reply) -> int:
    """Return the number of lines such as ``# ... rest of the code``, an ellipsis for code."""
    texts = [reply.content]
    for call in reply.tool_calls:
        value: object = call.arguments
        with suppress(DamagedError):
            value = json_of(call.arguments)
        texts += _texts_in(value)
    return sum(len(_LAZY.findall(text)) for text in texts)


def _texts_in(value: object) -> Iterator[str]:
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(parts, str):
        yield parts
    elif not isinstance(parts, int | float | None):
        for part in parts:  # type: ignore[attr-defined]
            yield from _texts_in(part)


def syntax_errors(output: str) -> int:
    return len(_SYNTAX.findall(output))


def indentation_errors(output: str) -> int:
    return len(_INDENTATION.findall(output))


def malformed(counts: ReplyCounts) -> bool:
    return counts.malformed or counts.failed > 0


def reply_counters(replies: Sequence[ReplyCounts]) -> dict[str, int]:
    """Return the counters of ``results.Extra``, summed over all replies to an exercise."""
    return {
        "whole_file_blocks": sum(reply.whole_file_blocks for reply in replies),
        "hallucinated_functions": sum(reply.unknown_calls for reply in replies),
        "foreign_edits": sum(reply.foreign + reply.unsafe for reply in replies),
        "ambiguous_edits": sum(reply.ambiguous for reply in replies),
        "truncated": sum(reply.truncated for reply in replies),
    }
