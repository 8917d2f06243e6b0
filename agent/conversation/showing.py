"""Show files to a model in fences that their content cannot close, within a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent.formats.reading.fences import shortest_fence
from llm.tokens import Count, most_tokens

# The limit of one message when the window is unknown: about 80,000 tokens.
_MOST_CHARACTERS = 320_000


def show_files(
    paths: Iterable[str],
    read: Callable[[str], str | None],
    room: int | None = None,
    count: Count = len,
) -> str:
    """Return the files in fences; unreadable files, and those without room, are only named.

    Args:
        paths: the files, the most important first.
        read: returns the text of a file, None where it is no text.
        room: the limit, in the unit of ``count``; None for 320,000 characters.
        count: the size of a text.
    """
    shown: dict[str, str] = {}
    notes: list[str] = []
    if room is None:
        room, count = _MOST_CHARACTERS, len
    texts = {path: read(path) for path in paths}
    if sum(map(most_tokens, filter(None, texts.values()))) <= room:
        count = most_tokens  # all fit: no exact count is needed
    for path, text in texts.items():
        if text is None or "\0" in text:
            notes.append(f"{path} is not a text file.")
        elif (needed := count(text)) > room:
            notes.append(f"{path} is too long to be shown ({len(text)} characters).")
        else:
            shown[path] = text
            room -= needed
    fence = shortest_fence(shown.values())
    blocks = [f"{path}\n{fence}\n{_end(text)}{fence}" for path, text in shown.items()]
    return "\n\n".join([*blocks, *notes])


def _end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
