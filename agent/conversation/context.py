"""Keep a conversation within the model's window: the oldest rounds go first, files stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent.formats.reading.fences import shortest_fence
from agent.prompts import render
from agent.workspace import Workspace
from llm.chat import ChatModel, Message, Traits
from llm.tokens import Count, most_tokens, size

# A full conversation is cut to this share of the window: cutting a little each time would change
# the cached prefix with every message.
AFTER_CUT = 0.6
_MOST_FOR_REPLY = 8192
# Tokens of the sentence around the files when earlier rounds were removed.
_FOR_WORDS = 80
# The limit of one message when the window is unknown: about 80,000 tokens.
_MOST_CHARACTERS = 320_000


@dataclass(frozen=True)
class ContextWindow:
    """The number of tokens that a request may have; None when the model's limit is unknown."""

    tokens: int | None

    @classmethod
    def of(cls, traits: Traits) -> ContextWindow:
        """Return the window of a model without the tokens that its reply needs."""
        if traits.context is None:
            return cls(None)
        return cls(traits.context - min(traits.context // 4, _MOST_FOR_REPLY))

    def holds(self, messages: Sequence[Message], count: Count) -> bool:
        """Return whether ``messages`` fit; counts their tokens only if their bytes do not fit."""
        return (
            self.tokens is None
            or size(messages, most_tokens) <= self.tokens
            or size(messages, count) <= self.tokens
        )


def without_oldest(
    messages: Sequence[Message], room: int, count: Count
) -> tuple[Message, ...]:
    """Return ``messages`` without as many of their oldest rounds as it takes to fit ``room``.

    The system message and the message with the issue stay. A round is a reply with the messages
    that answer it.
    """
    head, rest = tuple(messages[:2]), list(messages[2:])
    while rest and size((*head, *rest), count) > room:
        ends = [n for n in range(1, len(rest)) if rest[n].role == "assistant"]
        rest = rest[ends[0] :] if ends else []
    return (*head, *rest)


class ContextFullError(Exception):
    """The next message cannot be made to fit the model's window."""


def fitted(
    request: list[Message],
    window: ContextWindow,
    count: Count,
    files: ShownFiles,
    opening: str,
) -> list[Message]:
    """Return ``request``, without its oldest rounds when it does not fit the window.

    After a cut ``files`` come with the last message. ``opening`` is the first one without the map.
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
    full = replace(
        last, content=render("rounds_dropped", files=shown, message=last.content)
    )
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


def show_files(
    paths: Iterable[str],
    read: Callable[[str], str | None],
    room: int | None = None,
    count: Count = len,
    *,
    inside: bool = False,
) -> str:
    """Return the files in fences; unreadable files, and those without room, are only named.

    The most important of ``paths`` come first. ``room`` is in the unit of ``count``; None stands
    for 320,000 characters. With ``inside`` the path is the first line in the fence, not above it.
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
    heads = {
        path: f"{fence}\n{path}" if inside else f"{path}\n{fence}" for path in shown
    }
    ends = {
        path: "\n" * bool(text and text[-1] != "\n") for path, text in shown.items()
    }
    blocks = [
        f"{heads[path]}\n{text}{ends[path]}{fence}" for path, text in shown.items()
    ]
    return "\n\n".join([*blocks, *notes])


@dataclass
class ShownFiles:
    """The files of one conversation: those that the model was shown or has edited, in order."""

    workspace: Workspace
    model: ChatModel
    inside: bool = False
    paths: dict[str, None] = field(default_factory=dict)
    _sent: dict[str, str | None] = field(default_factory=dict)

    def add(self, paths: Iterable[str]) -> list[str]:
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
        return [
            path
            for path in self.paths
            if self._sent.get(path) != self.workspace.read(path)
        ]

    def sent(self) -> None:
        """Keep the texts of all files: the model has them now."""
        self._sent = {path: self.workspace.read(path) for path in self.paths}

    def not_in(self, message: str) -> list[str]:
        """Return the files that ``message`` does not show: edited ones, then those named last."""
        edited, read = self.workspace.edited(), self.workspace.read
        newest_first = [*self.paths][::-1]
        ordered = sorted(newest_first, key=lambda path: path not in edited)
        return [path for path in ordered if (read(path) or "") not in message]
