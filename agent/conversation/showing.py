"""Show files to a model in fences that their content cannot close, within a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agent.conversation.context import ContextWindow
from agent.formats.reading.fences import shortest_fence
from agent.workspace import Workspace
from llm.chat import ChatModel
from llm.tokens import Count, most_tokens

# The limit of one message when the window is unknown: about 80,000 tokens.
_MOST_CHARACTERS = 320_000


def show_files(
    paths: Iterable[str],
    read: Callable[[str], str | None],
    room: int | None = None,
    count: Count = len,
    *,
    inside: bool = False,
) -> str:
    """Return the files in fences; unreadable files, and those without room, are only named.

    Args:
        paths: the files, the most important first.
        read: returns the text of a file, None where it is no text.
        room: the limit, in the unit of ``count``; None for 320,000 characters.
        count: the size of a text.
        inside: the path is the first line in the fence, not the line above it.
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
    heads = {path: f"{fence}\n{path}" if inside else f"{path}\n{fence}" for path in shown}
    blocks = [f"{heads[path]}\n{_end(text)}{fence}" for path, text in shown.items()]
    return "\n\n".join([*blocks, *notes])


def _end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


@dataclass
class ShownFiles:
    """The files of one conversation: those that the model was shown or has edited, in order.

    Attributes:
        inside: the path is the first line in a fence, not the line above it.
    """

    workspace: Workspace
    model: ChatModel
    inside: bool = False
    paths: dict[str, None] = field(default_factory=dict)
    _sent: dict[str, str | None] = field(default_factory=dict)

    def add(self, paths: Iterable[str]) -> list[str]:
        """Add ``paths`` and return those that are new."""
        new = [path for path in dict.fromkeys(paths) if path not in self.paths]
        self.paths.update(dict.fromkeys(new))
        return new

    def contents(self, paths: Iterable[str], room: int | None = None) -> str:
        """Return the files in fences; ``room`` in tokens is half of the window by default."""
        if room is None:
            tokens = ContextWindow.of(self.model.traits).tokens
            room = None if tokens is None else tokens // 2
        read = self.workspace.read
        return show_files(paths, read, room, self.model.count, inside=self.inside)

    def changed(self) -> list[str]:
        """Return the files that are not as they were when ``sent`` was last called."""
        return [path for path in self.paths if self._sent.get(path) != self.workspace.read(path)]

    def sent(self) -> None:
        """Keep the texts of all files: the model has them now."""
        self._sent = {path: self.workspace.read(path) for path in self.paths}

    def not_in(self, message: str) -> list[str]:
        """Return the files that ``message`` does not show: edited ones, then those named last."""
        edited, read = self.workspace.edited(), self.workspace.read
        newest_first = [*self.paths][::-1]
        ordered = sorted(newest_first, key=lambda path: path not in edited)
        return [path for path in ordered if (read(path) or "") not in message]
