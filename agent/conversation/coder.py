"""One attempt's conversation: ask, apply the edits, lint, test, and report failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent.conversation.checks import Checks
from agent.conversation.context import AFTER_CUT, ContextWindow, without_oldest
from agent.conversation.mentions import FileIndex
from agent.conversation.outcomes import ConversationLimits, Ending, Outcome, Result
from agent.conversation.reflections import ReflectionsUsed, Topic
from agent.conversation.showing import show_files
from agent.formats.base import (
    ApplyReport,
    Edit,
    EditFormat,
    MalformedReplyError,
    OnFailure,
    ReplyScope,
    after_failures,
    feedback,
)
from agent.formats.reading.fences import shortest_fence
from agent.formats.safe import safe_edits, write_report
from agent.prompts import render
from agent.workspace import Workspace
from llm.chat import (
    Call,
    ChatModel,
    Message,
    Reminder,
    ReplayExhaustedError,
    Reply,
    request_sha256,
)
from llm.tokens import size

# Tokens of the sentence around the files when earlier rounds were removed.
_FOR_WORDS = 80


class _ContextFullError(Exception):
    """The next message cannot be made to fit the model's window."""


@dataclass(frozen=True)
class _Next:
    """The next message and the topic whose budget pays for it.

    Attributes:
        text: the message; empty with ``prefill``: the model continues its own last message.
    """

    topic: Topic
    text: str = ""
    prefill: bool = False


@dataclass
class Coder:
    """Holds one conversation about one checkout.

    ``messages`` and ``calls`` grow during the conversation, so the caller can save them even
    after an exception. Until the window is full, each request begins with the one before, so
    providers can cache it.
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
    _chat: dict[str, None] = field(default_factory=dict)
    _edit: Outcome = None
    _partial: str = ""
    _nudged: bool = False
    _rules: str = ""
    _opening: str = ""

    def run(self, issue: str, repo_map: str) -> Result:
        """Work on ``issue`` until no message is left to send, and return the outcomes.

        Raises:
            RequestRefusedError, InfrastructureError, UserError: raised by the model.
        """
        self._rules = self.edit_format.instructions(shortest_fence([issue]))
        reminder = self.model.traits.reminder
        rules = self._rules if reminder in (Reminder.SYSTEM, Reminder.BOTH) else ""
        self.messages.append(Message("system", render("system", format_rules=rules)))
        try:
            self._open(render("opening", repo_map=repo_map, problem=issue), issue)
            return self.result(self._lead(self._react(self.calls[-1].reply)))
        except ReplayExhaustedError:
            return self.result(Ending.REPLAY_EXHAUSTED)
        except _ContextFullError:
            return self.result(Ending.CONTEXT)

    def _open(self, message: str, issue: str) -> None:
        """Send the first request, without the map if it does not fit with it."""
        self._opening = render("opening", repo_map="", problem=issue)
        request = self._request(_Next(Topic.LOCATE, message))
        if not self._window.holds(request, self.model.count):
            message = self._opening
        self._ask(_Next(Topic.LOCATE, message))

    def _lead(self, step: _Next | None) -> Ending:
        """Continue until no message is left or a budget is used up."""
        spending = ReflectionsUsed(self.limits.reflections)
        while True:
            if step is None and self.limits.until_exhausted:
                step = _Next(Topic.LOCATE, render("go_on"))
            if step is None:
                return Ending.DONE
            if not spending.take(step.topic) and not self.limits.until_exhausted:
                return Ending.REFLECTIONS_USED
            step = self._react(self._ask(step))

    @property
    def _window(self) -> ContextWindow:
        return ContextWindow.of(self.model.traits)

    def _ask(self, step: _Next) -> Reply:
        request = self._fitting(self._request(step))
        reply = self.model.complete(request, self.edit_format.tools)
        self.calls.append(Call(request_sha256(request), reply))
        if step.prefill:
            # The model continued its last message: join both.
            reply = replace(reply, content=request.pop().content + reply.content)
        calls = tuple(
            replace(call, id=call.id or f"call_{len(self.calls)}_{number}")
            for number, call in enumerate(reply.tool_calls)
        )
        self.messages = [*request, Message("assistant", reply.content, calls)]
        return reply

    def _request(self, step: _Next) -> list[Message]:
        if step.prefill:
            return list(self.messages)
        called = self.messages[-1].tool_calls
        received = [Message("tool", render("tool_received"), (), call.id) for call in called]
        reminded = self.model.traits.reminder in (Reminder.USER, Reminder.BOTH)
        text = f"{step.text}\n\n{self._rules}" if reminded else step.text
        return [*self.messages, *received, Message("user", text)]

    def _fitting(self, request: list[Message]) -> list[Message]:
        """Return ``request``, without its oldest rounds when it does not fit the window.

        Raises:
            _ContextFullError: the request fits in no way.
        """
        window, count = self._window, self.model.count
        if window.tokens is None or window.holds(request, count):
            return request
        last = request[-1]
        if len(request) < 3:
            raise _ContextFullError
        if last.role == "assistant":
            # A prefill stays as the model wrote it.
            return self._first_that_fits(
                [[*without_oldest(request[:-1], window.tokens // 2, count), last]]
            )
        files = self._not_in(last.content)
        wanted = count(self._contents(files)) + size([last], count) + _FOR_WORDS
        room = min(int(window.tokens * AFTER_CUT), window.tokens - wanted)
        kept = without_oldest(request[:-1], room, count)
        left = max(0, window.tokens - size([*kept, last], count) - _FOR_WORDS)
        shown = show_files(files, self.workspace.read, left, count)
        full = replace(last, content=render("rounds_dropped", files=shown, message=last.content))
        bare = [kept[0], replace(kept[1], content=self._opening), *kept[2:]]
        return self._first_that_fits([[*kept, full], [*bare, full], [*kept, last], [*bare, last]])

    def _first_that_fits(self, requests: Sequence[list[Message]]) -> list[Message]:
        for request in requests:
            if self._window.holds(request, self.model.count):
                return request
        raise _ContextFullError

    def _not_in(self, message: str) -> list[str]:
        """Return the chat's files that ``message`` does not show, the most important first."""
        read = self.workspace.read
        return [path for path in self._by_importance() if (read(path) or "") not in message]

    def _by_importance(self) -> list[str]:
        """Return the chat's files, edited ones first, then those named last."""
        edited = self.workspace.edited()
        newest_first = [*self._chat][::-1]
        return sorted(newest_first, key=lambda path: path not in edited)

    def _react(self, reply: Reply) -> _Next | None:
        """Carry out ``reply`` and return the next message, None for the end."""
        text = self.edit_format.join(self._partial, reply.content)
        if reply.truncated:
            self._partial = text
            self._edit = False
            return self._go_on(reply)
        self._partial = ""
        try:
            known = self.files.paths | self.workspace.edited()
            whole = replace(reply, content=text)
            edits = self.edit_format.parse(whole, ReplyScope(known, tuple(self._chat)))
        except MalformedReplyError as error:
            self._edit = False
            problem = render("malformed", problem=error)
            return self._with_new(_Next(Topic.EDIT, problem), text)
        if not edits:
            return self._after_no_edit(text)
        step = self._edit_lint_test(edits)
        return self._with_new(step, text)

    def _go_on(self, reply: Reply) -> _Next:
        """Ask for the rest of a reply that was cut off, by prefill where the model supports it."""
        if self.model.traits.prefill and reply.content and not reply.tool_calls:
            self._partial = ""
            return _Next(Topic.EDIT, prefill=True)
        return _Next(
            Topic.EDIT,
            render("truncated", tools=bool(self.edit_format.tools), joins=self.edit_format.joins),
        )

    def _with_new(self, step: _Next | None, text: str) -> _Next | None:
        """Add the files that ``text`` names to the chat and to the next message."""
        added = self._mention(text)
        if step is None or not added:
            return step
        files = render("files_added", files=self._contents(added), edited=True)
        return replace(step, text=f"{step.text}\n\n{files}")

    def _after_no_edit(self, text: str) -> _Next | None:
        added = self._mention(text)
        if added:
            files = self._contents(added)
            return _Next(Topic.LOCATE, render("files_added", files=files, edited=False))
        if self._nudged or self._named(text):
            return None
        self._nudged = True
        return _Next(Topic.LOCATE, render("name_files"))

    def _edit_lint_test(self, edits: Sequence[Edit]) -> _Next | None:
        """Apply ``edits`` and check the result; return the reflection, None without a problem."""
        report = self._apply(edits)
        self._edit = not report.failed
        if report.contents:
            self.checks.changed()
        if report.failed:
            stale = {result.path for result in report.failed} & self.workspace.edited()
            files = self._contents(sorted(stale))
            return _Next(Topic.EDIT, render("edits_failed", feedback=feedback(report), files=files))
        if problem := self.checks.problem():
            return _Next(*problem)
        return None

    def _apply(self, edits: Sequence[Edit]) -> ApplyReport:
        safe = safe_edits(edits, self.workspace)
        applied = self.edit_format.apply(safe, self.workspace.read, tuple(self._chat))
        report = write_report(after_failures(applied, self.on_failure), self.workspace)
        for result in report.results:
            for path in (result.path, result.landed_in):
                if path in self.files.paths or path in report.contents:
                    self._chat.setdefault(path)
        return report

    def _mention(self, text: str) -> list[str]:
        """Add the tracked files that ``text`` names to the chat and return the new ones."""
        new = [path for path in self._named(text) if path not in self._chat]
        self._chat.update(dict.fromkeys(new))
        return new

    def _named(self, text: str) -> tuple[str, ...]:
        plainly = self.edit_format.plain_mentions
        return self.files.plainly_mentioned(text) if plainly else self.files.mentioned(text)

    def _contents(self, paths: Iterable[str]) -> str:
        """Return the files in fences, as many as half of the window holds."""
        tokens = self._window.tokens
        room = None if tokens is None else tokens // 2
        return show_files(paths, self.workspace.read, room, self.model.count)

    def result(self, ending: Ending) -> Result:
        """Return the outcomes of the current tree; runs the tests if they have not run on it."""
        edited = sorted(self.workspace.edited())
        clean, test = self.checks.outcomes()
        return Result(
            ending=ending,
            edit=self._edit,
            lint=clean,
            test=test,
            chat_files=tuple(self._chat),
            edited_files=tuple(edited),
            reflections=max(len(self.calls) - 1, 0),
        )
