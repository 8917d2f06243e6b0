"""Show files to a model: in fences that nothing inside can close, within a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent.formats.reading.fences import shortest_fence
from llm.tokens import Count, most_tokens

# What is shown in one message when the window is unknown: about 80,000 tokens.
_MOST_CHARACTERS = 320_000


def show_files(
    paths: Iterable[str],
    read: Callable[[str], str | None],
    room: int | None = None,
    count: Count = len,
) -> str:
    """Return the files in fences; what no model can read, or has no room, is named only.

    Args:
        paths: the files, the most important first.
        read: gives a file's text, None when it is none.
        room: how much may be shown, in what ``count`` counts; None for 320,000 characters.
        count: the size of a text.
    """
    shown: dict[str, str] = {}
    notes: list[str] = []
    if room is None:
        room, count = _MOST_CHARACTERS, len
    texts = {path: read(path) for path in paths}
    if sum(map(most_tokens, filter(None, texts.values()))) <= room:
        count = most_tokens  # all fit: what they really count matters no more
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
