"""One conversation: ask, apply the edits, lint, test, and report failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from agent.conversation.brief import Brief
from agent.conversation.checks import Checks
from agent.conversation.context import AFTER_CUT, ContextWindow, without_oldest
from agent.conversation.mentions import FileIndex
from agent.conversation.outcomes import ConversationLimits, Ending, Outcome, ReplyCounts, Result
from agent.conversation.reflections import ReflectionsUsed, Topic
from agent.formats.base import (
    ApplyReport,
    Edit,
    EditFormat,
    Fault,
    MalformedReplyError,
    OnFailure,
    ReplyScope,
    SearchReplace,
    after_failures,
    feedback,
)
from agent.formats.reading.calls import unknown_calls
from agent.formats.reading.fences import shortest_fence
from agent.formats.safe import safe_edits, write_report
from agent.prompts import fill, render
from agent.workspace import Workspace
from llm.chat import (
    Call,
    ChatModel,
    Message,
    Reminder,
    ReplayExhaustedError,
    Reply,
    WindowExceededError,
    request_sha256,
)
from llm.tokens import Count, most_tokens, size


@dataclass(frozen=True)
class _Next:
    """The next message and the topic whose budget pays for it."""

    topic: Topic
    text: str = ""
    prefill: bool = False  # without a text: the model continues its own last message


@dataclass
class Coder:
    """Holds one conversation about one checkout.

    ``messages`` and ``calls`` grow during the conversation, so the caller can save them even
    after an exception. Until the window is full, each request begins with the one before, so
    providers can cache it. The brief is that of ``checks``. ``image_urls`` go with the first
    message to a model that takes images.
    """

    workspace: Workspace
    files: FileIndex
    model: ChatModel
    edit_format: EditFormat
    checks: Checks
    limits: ConversationLimits = field(default_factory=ConversationLimits)
    on_failure: OnFailure = OnFailure.KEEP
    messages: list[Message] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    image_urls: tuple[str, ...] = ()
    _edit: Outcome = None
    _counts: list[ReplyCounts] = field(default_factory=list)
    _partial: str = ""
    _nudged: bool = False
    _rules: str = ""
    _opening: str = ""
    _unsent: _Next | None = None
    _refused: ContextWindow | None = None

    @property
    def brief(self) -> Brief:
        return self.checks.brief

    @cached_property
    def _shown(self) -> ShownFiles:
        inside = self.brief.as_edited and self.edit_format.path_inside
        return ShownFiles(self.workspace, self.model, inside)

    def run(self, issue: str, repo_map: str) -> Result:
        """Work on ``issue`` until no message is left to send, and return the outcomes.

        This is the first try; ``repo_map`` may be empty.
        """
        self._shown.add(self.brief.shown)
        texts = filter(None, map(self.workspace.read, self.brief.shown))
        self._rules = self.edit_format.instructions(shortest_fence([issue, *texts]))
        reminder = self.model.traits.reminder
        rules = self._rules if reminder in (Reminder.SYSTEM, Reminder.BOTH) else ""
        self.messages.append(Message("system", fill(self.brief.system, format_rules=rules)))
        files = self._shown.contents(self.brief.shown)
        text = partial(fill, self.brief.opening, problem=issue, files=files)
        self._shown.sent()
        self._opening = text(repo_map="")
        return self._ended(_Next(Topic.LOCATE, text(repo_map=repo_map)))

    def next_try(self) -> Result:
        """Continue after failing tests, with the report on them, and return the new outcomes.

        The budgets are those of a first try.
        """
        waiting = self._unsent and self._unsent.topic is Topic.TEST
        step = self._unsent if waiting else self._check()
        if step is None:
            raise ValueError("no tests fail")
        return self._ended(step)

    def _ended(self, step: _Next) -> Result:
        self._counts, self._unsent, self._partial = [], None, ""
        try:
            return self.result(self._lead(self._react(self._ask(step))))
        except ReplayExhaustedError:
            return self.result(Ending.REPLAY_EXHAUSTED)
        except ContextFullError:
            return self.result(Ending.CONTEXT)

    def _lead(self, step: _Next | None) -> Ending:
        spending = ReflectionsUsed(self.limits.reflections)
        while True:
            if step is None and self.limits.until_exhausted:
                step = _Next(Topic.LOCATE, render("go_on"))
            if step is None:
                return Ending.DONE
            if not spending.take(step.topic) and not self.limits.until_exhausted:
                self._unsent = step
                return Ending.REFLECTIONS_USED
            step = self._react(self._ask(step))

    def _ask(self, step: _Next) -> Reply:
        request = self._fitted(step)
        try:
            reply = self.model.complete(request, self.edit_format.tools)
        except WindowExceededError as error:
            # The provider knows its window better: once more, with less.
            self._refused = ContextWindow(size(request, self.model.count) - 1)
            try:
                request = self._fitted(step)
            except ContextFullError:
                raise error from None
            reply = self.model.complete(request, self.edit_format.tools)
        if self.brief.again:
            self._shown.sent()
        self.calls.append(Call(request_sha256(request), reply))
        if step.prefill:
            # The model continued its last message: join both.
            reply = replace(reply, content=request.pop().content + reply.content)
        calls = tuple(
            replace(call, id=call.id or f"call_{len(self.calls)}_{number}")
            for number, call in enumerate(reply.tool_calls)
        )
        self.messages[:] = [*request, Message("assistant", reply.content, calls)]
        return reply

    def _fitted(self, step: _Next) -> list[Message]:
        window, count = self._refused or ContextWindow.of(self.model.traits), self.model.count
        request = self._request(step)
        if len(request) < 3 and not window.holds(request, count):
            request = self._request(replace(step, text=self._opening))
        return fitted(request, window, count, self._shown, self._opening)

    def _request(self, step: _Next) -> list[Message]:
        if step.prefill:
            return list(self.messages)
        called = self.messages[-1].tool_calls
        received = [Message("tool", render("tool_received"), (), call.id) for call in called]
        reminded = self.model.traits.reminder in (Reminder.USER, Reminder.BOTH)
        text = step.text
        if self.brief.again and (changed := self._shown.changed()):
            files = self._shown.contents(changed)
            text = fill(self.brief.again, message=text, files=files)
        text = f"{text}\n\n{self._rules}" if reminded else text
        first = len(self.messages) == 1 and self.model.traits.images
        images = self.image_urls if first else ()
        return [*self.messages, *received, Message("user", text, images=images)]

    def _react(self, reply: Reply) -> _Next | None:
        text = self.edit_format.join(self._partial, reply.content)
        self._partial = text if reply.truncated else ""
        whole = replace(reply, content=text)
        unknown = unknown_calls(whole, self.edit_format.tools)
        self._counts.append(ReplyCounts(truncated=reply.truncated, unknown_calls=unknown))
        if self.brief.test_unedited:
            self.checks.changed()
        if reply.truncated:
            self._edit = False
            if self.model.traits.prefill and reply.content and not reply.tool_calls:
                self._partial = ""
                return _Next(Topic.EDIT, prefill=True)
            tools = bool(self.edit_format.tools)
            rest = render("truncated", tools=tools, joins=self.edit_format.joins)
            return _Next(Topic.EDIT, rest)
        return self._follow(whole)

    def _follow(self, reply: Reply) -> _Next | None:
        try:
            known = self._known | self.workspace.edited()
            edits = self.edit_format.parse(reply, ReplyScope(known, tuple(self._shown.paths)))
        except MalformedReplyError as error:
            self._edit = False
            self._counts[-1] = replace(self._counts[-1], malformed=True)
            problem = render("malformed", problem=error)
            return self._with_new(_Next(Topic.EDIT, problem), reply.content)
        if edits:
            return self._with_new(self._edit_lint_test(edits), reply.content)
        return self._after_no_edit(reply.content) if self.brief.more_files else self._check()

    @property
    def _known(self) -> frozenset[str]:
        return self.files.paths if self.brief.more_files else frozenset(self.brief.shown)

    def _with_new(self, step: _Next | None, text: str) -> _Next | None:
        added = self._mention(text)
        if step is None or not added:
            return step
        files = render("files_added", files=self._shown.contents(added), edited=True)
        return replace(step, text=f"{step.text}\n\n{files}")

    def _after_no_edit(self, text: str) -> _Next | None:
        added = self._mention(text)
        if added:
            files = self._shown.contents(added)
            return _Next(Topic.LOCATE, render("files_added", files=files, edited=False))
        if self._nudged or self._named(text):
            return None
        self._nudged = True
        return _Next(Topic.LOCATE, render("name_files"))

    def _edit_lint_test(self, edits: Sequence[Edit]) -> _Next | None:
        report, counts = apply_reply(
            edits, self.edit_format, self._shown, self._known, self.on_failure
        )
        self._counts[-1] = replace(counts, unknown_calls=self._counts[-1].unknown_calls)
        self._edit = not report.failed
        if report.contents:
            self.checks.changed()
        if report.failed:
            stale = {result.path for result in report.failed} & self.workspace.edited()
            # Files that changed come with the next message in any case where the brief says so.
            files = "" if self.brief.again else self._shown.contents(sorted(stale))
            return _Next(Topic.EDIT, render("edits_failed", feedback=feedback(report), files=files))
        return self._check()

    def _check(self) -> _Next | None:
        problem = self.checks.problem()
        return _Next(*problem) if problem else None

    def _mention(self, text: str) -> list[str]:
        return self._shown.add(self._named(text)) if self.brief.more_files else []

    def _named(self, text: str) -> tuple[str, ...]:
        plainly = self.edit_format.plain_mentions
        return self.files.plainly_mentioned(text) if plainly else self.files.mentioned(text)

    def result(self, ending: Ending) -> Result:
        """Return the outcomes of the current tree; runs the tests if they have not run on it."""
        edited = sorted(self.workspace.edited())
        unedited = self.brief.test_unedited and ending.by_itself
        clean, test = self.checks.outcomes(unedited=unedited)
        return Result(
            ending=ending,
            edit=self._edit,
            lint=clean,
            test=test,
            chat_files=tuple(self._shown.paths),
            edited_files=tuple(edited),
            reflections=max(len(self.calls) - 1, 0),
            replies=tuple(self._counts),
        )


def apply_reply(
    edits: Sequence[Edit],
    edit_format: EditFormat,
    shown: ShownFiles,
    existing: Collection[str],
    on_failure: OnFailure,
) -> tuple[ApplyReport, ReplyCounts]:
    """Apply ``edits``, write the files, and count.

    The edited files are added to ``shown``, and those of ``existing`` whose edits failed.
    """
    space = shown.workspace
    whole = sum(_looks_for_all(edit, space.read(edit.path)) for edit in edits)
    applied = edit_format.apply(safe_edits(edits, space), space.read, tuple(shown.paths))
    report = write_report(after_failures(applied, on_failure), space)
    named = [path for result in report.results for path in (result.path, result.landed_in)]
    shown.add(path for path in named if path in existing or path in report.contents)
    faults = Counter(result.fault for result in report.results)
    return report, (
        ReplyCounts(
            edits=len(report.results),
            failed=len(report.failed),
            unreadable=faults[Fault.UNREADABLE],
            unsafe=faults[Fault.UNSAFE],
            foreign=faults[Fault.FOREIGN],
            ambiguous=faults[Fault.AMBIGUOUS],
            whole_file_blocks=whole,
        )
    )


def _looks_for_all(edit: Edit, text: str | None) -> bool:
    if not isinstance(edit, SearchReplace) or not text or not text.strip():
        return False
    searches = (edit.search, *(search for search, _ in edit.readings))
    return text.strip() in {search.strip() for search in searches}


# Tokens of the sentence around the files when earlier rounds were removed.
_FOR_WORDS = 80


class ContextFullError(Exception):
    """The next message cannot be made to fit the model's window."""


def fitted(
    request: list[Message], window: ContextWindow, count: Count, files: ShownFiles, opening: str
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
    heads = {path: f"{fence}\n{path}" if inside else f"{path}\n{fence}" for path in shown}
    ends = {path: "\n" * bool(text and text[-1] != "\n") for path, text in shown.items()}
    blocks = [f"{heads[path]}\n{text}{ends[path]}{fence}" for path, text in shown.items()]
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
