"""Make a request fit the model's window: without its oldest rounds, with the files as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.conversation.context import AFTER_CUT, ContextWindow, without_oldest
from agent.conversation.showing import ShownFiles
from agent.prompts import render
from llm.chat import Message
from llm.tokens import Count, size

# Tokens of the sentence around the files when earlier rounds were removed.
_FOR_WORDS = 80


class ContextFullError(Exception):
    """The next message cannot be made to fit the model's window."""


def fitted(
    request: list[Message], window: ContextWindow, count: Count, files: ShownFiles, opening: str
) -> list[Message]:
    """Return ``request``, without its oldest rounds when it does not fit the window.

    Args:
        request: the messages.
        window: of the model that answers them.
        count: the model's.
        files: the files of the conversation, which come with the last message after a cut.
        opening: the first message without the map.

    Raises:
        ContextFullError: the request fits in no way.
    """
    if window.tokens is None or window.holds(request, count):
        return request
    last = request[-1]
    if len(request) < 3:
        raise ContextFullError
    if last.role == "assistant":
        # A prefill stays as the model wrote it.
        kept = without_oldest(request[:-1], window.tokens // 2, count)
        return _first_that_fits([[*kept, last]], window, count)
    missing = files.not_in(last.content)
    wanted = count(files.contents(missing)) + size([last], count) + _FOR_WORDS
    room = min(int(window.tokens * AFTER_CUT), window.tokens - wanted)
    kept = without_oldest(request[:-1], room, count)
    left = max(0, window.tokens - size([*kept, last], count) - _FOR_WORDS)
    shown = files.contents(missing, left)
    full = replace(last, content=render("rounds_dropped", files=shown, message=last.content))
    bare = [kept[0], replace(kept[1], content=opening), *kept[2:]]
    choices = [[*kept, full], [*bare, full], [*kept, last], [*bare, last]]
    return _first_that_fits(choices, window, count)


def _first_that_fits(
    requests: Sequence[list[Message]], window: ContextWindow, count: Count
) -> list[Message]:
    for request in requests:
        if window.holds(request, count):
            return request
    raise ContextFullError
