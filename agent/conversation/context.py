"""Keep a conversation within the model's window: the oldest rounds go first, files stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from swe_retry.agent.conversation.excerpts import LineSpan, choose_spans
from swe_retry.agent.formats.edits import Edit, Fault, quoted_texts
from swe_retry.agent.formats.matching.lines import bare_lines
from swe_retry.agent.formats.reading.definitions import defined_names
from swe_retry.agent.formats.reading.fences import shortest_fence
from swe_retry.agent.formats.report import ApplyReport
from swe_retry.agent.prompts import render
from swe_retry.agent.workspace import Workspace
from swe_retry.core.plaintext import some
from swe_retry.llm.chat import ChatModel, Message, Traits
from swe_retry.llm.provider_errors import stated_sizes
from swe_retry.llm.tokens import MAX_REPLY, Count, most_tokens, size

# A full conversation is cut to this share of the window: cutting a little each time would change
# the cached prefix with every message.
AFTER_CUT = 0.6
# Tokens of the sentence around the files when earlier rounds were removed.
_SENTENCE_TOKENS = 80
# The limit of one message when the window is unknown: about 80,000 tokens.
_MAX_CHARACTERS = 320_000
_MAX_NAMES = 60
# Characters of a file of which an excerpt is made.
_MAX_EXCERPTED = 4_000_000
_UNSEEN = (
    "it was not applied, because it would discard lines of {} that you have not seen. They "
    "follow as they are now: send the edit again, with all that has to stay."
)


def window_of(traits: Traits) -> int | None:
    """Return the tokens that a request may have: the model's window without those of a reply.

    None when the model's limit is unknown.
    """
    if traits.context is None:
        return None
    return traits.context - reply_room(traits.context)


def reply_room(window: int) -> int:
    """Return the tokens of a window that a request leaves for its reply."""
    return min(window // 4, MAX_REPLY)


def window_after(problem: str, tokens: int) -> int:
    """Return the tokens that a request may have after a refusal, as they are counted here.

    Args:
        problem: the provider's words, which may state its window and what it counted.
        tokens: of the refused request.
    """
    window, prompt = stated_sizes(problem)
    if not window:
        return tokens - 1
    # Another tokenizer may count more.
    counted = prompt or tokens + tokens // 4
    room = window - reply_room(window)
    return min(tokens - 1, room * tokens // counted)


def fits(messages: Sequence[Message], window: int | None, count: Count) -> bool:
    """Return whether ``messages`` fit; counts their tokens only if their bytes do not fit."""
    if window is None or size(messages, most_tokens) <= window:
        return True
    return size(messages, count) <= window


def without_oldest(
    messages: Sequence[Message], room: int, count: Count
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
    edited = files.workspace.edited_files()
    # Edited files go first, then those named last.
    newest_first = reversed(files.paths)
    paths = sorted(newest_first, key=lambda path: path not in edited)
    missing = files.changed_from(files.texts_in([last]), paths)
    tokens = window - _SENTENCE_TOKENS
    room = tokens - count(files.contents(missing).text) - size([last], count)
    room = min(int(window * AFTER_CUT), room)
    shortened = without_oldest(request[:-1], room, count)
    left = tokens - size([*shortened, last], count)
    contents = files.contents(missing, max(0, left))
    text = render("rounds_dropped", files=contents.text, message=last.content)
    last_with_files = replace(last, content=text)
    files.record(last_with_files, files.texts_in([last]) | contents.texts)
    system, first, *others = shortened
    first_without_map = replace(first, content=opening)
    files.record(first_without_map, files.texts_in([first]))
    without_map = [system, first_without_map, *others]
    choices = [
        [*shortened, last_with_files],
        [*without_map, last_with_files],
        [*shortened, last],
        [*without_map, last],
    ]
    return _first_that_fits(choices, window, count)


def _first_that_fits(
    requests: Sequence[list[Message]], window: int, count: Count
) -> list[Message]:
    for request in requests:
        if fits(request, window, count):
            return request
    raise ContextFullError


@dataclass(frozen=True)
class FilesText:
    """Files as a message shows them, and by path what it shows of each."""

    text: str
    texts: dict[str, str]


@dataclass
class ShownFiles:
    """The files of one conversation: those that the model was shown or has edited, in order.

    What it has seen of them is what the messages hold that are still in the conversation.

    Attributes:
        messages: those of the conversation; the list changes with it.
        focus: the issue and the map, which say what to show of a long file.
        _excerpts: by what messages show of long files, all of their texts.
        _refused: lines of files that edits would have discarded unseen.
    """

    workspace: Workspace
    model: ChatModel
    path_inside: bool
    messages: Sequence[Message] = ()
    paths: dict[str, None] = field(default_factory=dict)
    focus: str = ""
    _texts: dict[Message, dict[str, str]] = field(default_factory=dict)
    _excerpts: dict[str, str] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)

    def add(self, paths: Iterable[str]) -> list[str]:
        new = []
        for path in paths:
            if path not in self.paths:
                self.paths[path] = None
                new.append(path)
        return new

    def contents(
        self, paths: Iterable[str], room: int | None = None, about: str = ""
    ) -> FilesText:
        """Return the files in fences; unreadable files, and those without room, are only named.

        The most important of ``paths`` come first. ``room`` in tokens is half of the window by
        default, 320,000 characters where the window is unknown. Of a file above a third of the
        window come the parts that the issue, the map and ``about`` name.
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
        limit = room
        if self.model.traits.context:
            limit = min(room, self.model.traits.context // 3)
        if sum(map(most_tokens, filter(None, texts.values()))) <= limit:
            count = most_tokens  # all fit: no exact count is needed
        fitting: dict[str, dict[LineSpan, str]] = {}
        notes = []
        for path, text in texts.items():
            if text is None or "\0" in text:
                notes.append(f"{path} is not a text file.")
                continue
            spans = {(0, 0): text}
            needed = count(text)
            if needed > min(room, limit):
                spans = self._excerpt(path, text, about, min(room, limit), count)
                needed = count("".join(spans.values()))
                notes.append(self._note_on(path, text, spans))
            if spans:
                fitting[path] = spans
                room -= needed
        blocks = self._blocks(fitting)
        shown = {path: "".join(fitting[path].values()) for path in fitting}
        return FilesText("\n\n".join([*blocks, *notes]), shown)

    def _excerpt(
        self, path: str, text: str, about: str, room: int, count: Count
    ) -> dict[LineSpan, str]:
        if len(text) > _MAX_EXCERPTED:
            return {}
        wanted = about + self._refused.get(path, "")
        spans = choose_spans(path, text, self.focus, wanted, room, count)
        if spans:
            self._excerpts["".join(spans.values())] = text
        return spans

    def _note_on(self, path: str, text: str, spans: Mapping[LineSpan, str]) -> str:
        note = f"{path} is too long to be shown in full ({len(text)} characters)."
        shown = "".join(spans.values())
        names = defined_names(path, text) - defined_names(path, shown)
        if names:
            others = some(sorted(names), _MAX_NAMES)
            note += f" It also defines {others}: name those that you must see."
        return note

    def _blocks(self, files: Mapping[str, Mapping[LineSpan, str]]) -> list[str]:
        texts = chain.from_iterable(spans.values() for spans in files.values())
        fence = shortest_fence(texts)
        blocks = []
        for path, spans in files.items():
            for (start, end), text in spans.items():
                name = f"{path}, lines {start + 1} to {end}" if end else path
                head = f"{fence}\n{name}" if self.path_inside else f"{name}\n{fence}"
                if text and text[-1] != "\n":
                    text += "\n"
                blocks.append(f"{head}\n{text}{fence}")
        return blocks

    def missing_from(self, paths: Iterable[str], about: str) -> list[str]:
        """Return those of ``paths`` that no message shows, or not what ``about`` names of them."""
        visible = self.texts_in(self.messages)
        missing = []
        for path in paths:
            shown = visible.get(path)
            if shown is None:
                missing.append(path)
            elif shown in self._excerpts and not self.changed_from(visible, [path]):
                wanted = self.contents([path], about=about)
                if wanted.texts.get(path) != shown:
                    missing.append(path)
        return missing

    def record(self, message: Message, texts: Mapping[str, str]) -> None:
        """Remember what ``message`` holds of files, if it is sent."""
        self._texts.setdefault(message, {}).update(texts)

    def texts_in(self, messages: Iterable[Message]) -> dict[str, str]:
        """Return what the user's ``messages`` show of files, by path; the latest counts."""
        texts: dict[str, str] = {}
        for message in messages:
            if message.role == "user":
                texts.update(self._texts.get(message, {}))
        return texts

    def changed_from(self, texts: Mapping[str, str], paths: Iterable[str]) -> list[str]:
        """Return those of ``paths`` that can be read and are not as ``texts`` has them."""
        changed = []
        for path in paths:
            shown = texts.get(path)
            text = self._excerpts.get(shown or "", shown)
            if self.workspace.read(path) not in (None, text):
                changed.append(path)
        return changed

    def refuse_unseen(self, report: ApplyReport, edits: Sequence[Edit]) -> ApplyReport:
        """Return ``report`` without changes that discard lines that the model has not seen.

        It has seen those that messages show, that it wrote, and that ``edits`` quote. White space
        and the order of lines do not count. A file that is no text can be deleted once it is named.
        """
        problems: dict[str, str] = {}
        for group in report.groups:
            before = _count_lines(map(self.workspace.read, group))
            after = _count_lines(map(report.contents.get, group))
            # Lines that the file of an edit lacks may be in another file.
            own_edits = [edit for edit in edits if edit.path in group] or edits
            quoted = list(chain.from_iterable(map(quoted_texts, own_edits)))
            seen = list(quoted)
            for message in self.messages:
                texts = self._texts.get(message, {})
                seen += filter(None, map(texts.get, group))
            path = group[0]
            # Of a file that is no text a message can say no more.
            is_known = path in self.paths and "\0" in (self.workspace.read(path) or "")
            is_deletion = is_known and report.contents[path] is None
            unseen = before - after - _count_lines(seen)
            if unseen and not is_deletion:
                problems.update(dict.fromkeys(group, _UNSEEN.format(path)))
                self._refused.update(dict.fromkeys(group, "\n".join(unseen)))
                continue
            # After a move the new path has what was seen of the old one.
            known = seen if len(group) > 1 else quoted
            written = "\n".join([*known, *(after - before)])
            self.record(self.messages[-1], dict.fromkeys(group, written))
        return report.without(problems, Fault.UNSEEN)


def _count_lines(texts: Iterable[str | None]) -> Counter[str]:
    return Counter(bare_lines("\n".join(filter(None, texts))))
