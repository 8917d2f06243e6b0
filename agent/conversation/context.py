"""Keep a conversation within the model's window: the oldest rounds go first, files stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent.formats.reading.fences import shortest_fence
from agent.prompts import render
from agent.workspace import Workspace
from llm.chat import ChatModel, Message, Traits
from llm.tokens import Count, most_tokens, size

# A full conversation is cut to this share of the window: cutting a little each time would change
# the cached prefix with every message.
AFTER_CUT = 0.6
_MAX_REPLY = 8192
# Tokens of the sentence around the files when earlier rounds were removed.
_SENTENCE_TOKENS = 80
# The limit of one message when the window is unknown: about 80,000 tokens.
_MAX_CHARACTERS = 320_000


def window_of(traits: Traits) -> int | None:
    """Return the tokens that a request may have: the model's window without those of a reply.

    None when the model's limit is unknown.
    """
    if traits.context is None:
        return None
    reply = min(traits.context // 4, _MAX_REPLY)
    return traits.context - reply


def fits(
    messages: Sequence[Message],
    window: int | None,
    count: Count,
) -> bool:
    """Return whether ``messages`` fit; counts their tokens only if their bytes do not fit."""
    if window is None or size(messages, most_tokens) <= window:
        return True
    return size(messages, count) <= window


def without_oldest(
    messages: Sequence[Message],
    room: int,
    count: Count,
) -> tuple[Message, ...]:
    """Return ``messages`` without as many of their oldest rounds as it takes to fit ``room``.

    The system message and the message with the issue stay. A round is a reply with the messages
    that answer it.
    """
    remaining = list(messages)
    while len(remaining) > 2 and size(remaining, count) > room:
        del remaining[2]
        while len(remaining) > 2 and remaining[2].role != "assistant":
            del remaining[2]
    return tuple(remaining)


class ContextFullError(Exception):
    """The next message cannot be made to fit the model's window."""


def fit_request(
    request: list[Message],
    window: int | None,
    count: Count,
    files: ShownFiles,
    opening: str,
) -> list[Message]:
    """Return ``request``, without its oldest rounds when it does not fit the window.

    After a cut ``files`` come with the last message. ``opening`` is the first one without the map.
    """
    if window is None or fits(request, window, count):
        return request
    last = request[-1]
    if len(request) < 3:
        raise ContextFullError
    if last.role == "assistant":
        # A prefill stays as the model wrote it.
        shortened = without_oldest(request[:-1], window // 2, count)
        choices = [[*shortened, last]]
        return _first_that_fits(choices, window, count)
    missing = files.missing_from(last.content)
    tokens = window - _SENTENCE_TOKENS
    room = tokens - count(files.contents(missing)) - size([last], count)
    room = min(int(window * AFTER_CUT), room)
    shortened = without_oldest(request[:-1], room, count)
    left = tokens - size([*shortened, last], count)
    contents = files.contents(missing, max(0, left))
    text = render("rounds_dropped", files=contents, message=last.content)
    last_with_files = replace(last, content=text)
    system, first, *others = shortened
    without_map = [system, replace(first, content=opening), *others]
    choices = [
        [*shortened, last_with_files],
        [*without_map, last_with_files],
        [*shortened, last],
        [*without_map, last],
    ]
    return _first_that_fits(choices, window, count)


def _first_that_fits(
    requests: Sequence[list[Message]],
    window: int,
    count: Count,
) -> list[Message]:
    for request in requests:
        if fits(request, window, count):
            return request
    raise ContextFullError


@dataclass
class ShownFiles:
    """The files of one conversation: those that the model was shown or has edited, in order."""

    workspace: Workspace
    model: ChatModel
    path_inside: bool
    paths: dict[str, None] = field(default_factory=dict)
    _sent_texts: dict[str, str | None] = field(default_factory=dict)

    def add(self, paths: Iterable[str]) -> list[str]:
        new = []
        for path in paths:
            if path not in self.paths:
                self.paths[path] = None
                new.append(path)
        return new

    def contents(
        self,
        paths: Iterable[str],
        room: int | None = None,
    ) -> str:
        """Return the files in fences; unreadable files, and those without room, are only named.

        The most important of ``paths`` come first. ``room`` in tokens is half of the window by
        default, 320,000 characters where the window is unknown.
        """
        count: Count = self.model.count
        window = window_of(self.model.traits)
        if room is None and window is not None:
            room = window // 2
        if room is None:
            room = _MAX_CHARACTERS
            count = len
        read = self.workspace.read
        texts = {path: read(path) for path in paths}
        if sum(map(most_tokens, filter(None, texts.values()))) <= room:
            count = most_tokens  # all fit: no exact count is needed
        fitting = {}
        notes = []
        for path, text in texts.items():
            if text is None or "\0" in text:
                notes.append(f"{path} is not a text file.")
                continue
            needed = count(text)
            if needed > room:
                characters = len(text)
                notes.append(
                    f"{path} is too long to be shown ({characters} characters)."
                )
            else:
                fitting[path] = text
                room -= needed
        fence = shortest_fence(fitting.values())
        blocks = []
        for path, text in fitting.items():
            head = f"{path}\n{fence}"
            if self.path_inside:
                head = f"{fence}\n{path}"
            if text and text[-1] != "\n":
                text += "\n"
            blocks.append(f"{head}\n{text}{fence}")
        return "\n\n".join([*blocks, *notes])

    def changed_files(self) -> list[str]:
        """Return the files that are not as they were when ``mark_sent`` was last called."""
        changed = []
        for path in self.paths:
            if self._sent_texts.get(path) != self.workspace.read(path):
                changed.append(path)
        return changed

    def mark_sent(self) -> None:
        """Keep the texts of all files: the model has them now."""
        read = self.workspace.read
        self._sent_texts = {path: read(path) for path in self.paths}

    def missing_from(self, message: str) -> list[str]:
        """Return the files that ``message`` does not show: edited ones, then those named last."""
        edited = self.workspace.edited_files()
        newest_first = reversed(self.paths)
        missing = []
        for path in sorted(newest_first, key=lambda path: path not in edited):
            text = self.workspace.read(path) or ""
            if text not in message:
                missing.append(path)
        return missing
