"""One attempt's conversation: ask, apply the edits, lint, test, and tell the model what failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agent import lint
from agent.chat import (
    Call,
    ChatModel,
    Message,
    ReplayExhaustedError,
    Reply,
    request_sha256,
)
from agent.formats.base import (
    ApplyReport,
    EditFormat,
    EditResult,
    MalformedReplyError,
    feedback,
)
from agent.mentions import FileIndex
from agent.prompts import render
from agent.workspace import UnsafePathError, Workspace

Outcome = bool | None
"""True, False, or None for unknown."""


class Ending(str, Enum):
    """Why a conversation stopped."""

    DONE = "done"
    REFLECTIONS_USED = "reflections_used"
    REPLAY_EXHAUSTED = "replay_exhausted"


@dataclass(frozen=True)
class TestReport:
    """A test run's verdict on the tree as it is, and what to tell the model when it is False."""

    __test__ = False  # the name makes pytest think that this is a test

    outcome: Outcome
    message: str = ""


@dataclass(frozen=True)
class Limits:
    """How long a conversation may go on.

    Attributes:
        max_reflections: messages that may follow the first, whatever they are about.
        until_exhausted: go on until a replay has no more replies, whatever the other limit says.
    """

    max_reflections: int = 4
    until_exhausted: bool = False


@dataclass(frozen=True)
class Result:
    """What one conversation left behind.

    Attributes:
        edit: all edits of the last reply with edits were applied; None when none had any.
        lint: no new fatal finding in the edited files; None when nothing was edited.
        test: no test fails that did not fail before; None when no test could speak.
        chat_files: files whose contents the model was shown or edited, in that order.
    """

    ending: Ending
    edit: Outcome
    lint: Outcome
    test: Outcome
    chat_files: tuple[str, ...]
    edited_files: tuple[str, ...]
    reflections: int


@dataclass
class Coder:
    """Leads one conversation about one checkout.

    ``messages`` and ``calls`` are filled as the conversation goes on, so that whoever holds the
    coder can save them even when it ends in an exception. Requests only ever grow at their end:
    what providers can cache stays the same.
    """

    workspace: Workspace
    files: FileIndex
    model: ChatModel
    edit_format: EditFormat[Any]
    limits: Limits = field(default_factory=Limits)
    run_tests: Callable[[], TestReport] | None = None
    messages: list[Message] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    _chat: dict[str, None] = field(default_factory=dict)
    _edit: Outcome = None
    _tested: TestReport | None = None
    _partial: str = ""
    _nudged: bool = False

    def run(self, issue: str, repo_map: str) -> Result:
        """Work on ``issue`` until there is nothing left to say, and return the outcomes.

        Raises:
            RequestRefusedError, InfrastructureError, UserError: from the model, as it raised them.
        """
        rules = self.edit_format.instructions(_fence([issue]))
        self.messages.append(Message("system", render("system", format_rules=rules)))
        message: str | None = render("opening", repo_map=repo_map, problem=issue)
        reflections = -1
        ending = Ending.DONE
        while message is not None:
            if reflections >= self.limits.max_reflections and not self.limits.until_exhausted:
                ending = Ending.REFLECTIONS_USED
                break
            reflections += 1
            try:
                reply = self._ask(message)
            except ReplayExhaustedError:
                ending = Ending.REPLAY_EXHAUSTED
                break
            message = self._react(reply)
            if message is None and self.limits.until_exhausted:
                message = render("go_on")
        return self._result(ending, max(reflections, 0))

    def _ask(self, message: str) -> Reply:
        request = [*self.messages, Message("user", message)]
        reply = self.model.complete(request)
        self.calls.append(Call(request_sha256(request), reply))
        self.messages = [*request, Message("assistant", reply.content)]
        return reply

    def _react(self, reply: Reply) -> str | None:
        """Carry out what ``reply`` asks for and return the next message, None for the end."""
        text = self.edit_format.join(self._partial, reply.content)
        if reply.truncated:
            self._partial = text
            self._edit = False
            return render("truncated")
        self._partial = ""
        try:
            edits = self.edit_format.parse(text, self.files.paths)
        except MalformedReplyError as error:
            self._edit = False
            problem = render("malformed", problem=error)
            return _join(problem, self._show_new(self._mention(text), edited=True))
        problem = self._edit_lint_test(edits) if edits else ""
        added = self._mention(text)
        if problem:
            return _join(problem, self._show_new(added, edited=True))
        return None if edits else self._after_no_edit(text, added)

    def _after_no_edit(self, text: str, added: Sequence[str]) -> str | None:
        if added:
            return self._show_new(added, edited=False)
        if self._nudged or self.files.mentioned(text):
            return None
        self._nudged = True
        return render("name_files")

    def _edit_lint_test(self, edits: Sequence[Any]) -> str:
        """Apply ``edits`` and check the result; return the reflection, empty when all is well."""
        report = self._apply(edits)
        self._edit = not report.failed
        if report.contents:
            self._tested = None
        if report.failed:
            stale = {result.path for result in report.failed} & self._edited()
            files = self._contents(sorted(stale))
            return render("edits_failed", feedback=feedback(report), files=files)
        if found := self._lint():
            texts = {finding.path: self.workspace.read(finding.path) or "" for finding in found}
            return render("lint_failed", findings=lint.describe(found, texts))
        tested = self._test()
        if tested.outcome is False:
            return render("tests_failed", report=tested.message)
        return ""

    def _apply(self, edits: Sequence[Any]) -> ApplyReport:
        safe, unsafe = [], []
        for edit in edits:
            try:
                self.workspace.check(edit.path)
                safe.append(edit)
            except UnsafePathError as error:
                unsafe.append(EditResult(edit.path, applied=False, problem=f"## {error}"))
        report = self.edit_format.apply(safe, self.workspace.read, tuple(self._chat))
        self.workspace.write(report.contents)
        for result in report.results:
            for path in (result.path, result.landed_in):
                if path in self.files.paths or path in report.contents:
                    self._chat.setdefault(path)
        return ApplyReport(report.contents, (*report.results, *unsafe))

    def _mention(self, text: str) -> list[str]:
        """Add the tracked files that ``text`` names to the chat and return the new ones."""
        new = [path for path in self.files.mentioned(text) if path not in self._chat]
        self._chat.update(dict.fromkeys(new))
        return new

    def _show_new(self, added: Sequence[str], *, edited: bool) -> str:
        if not added:
            return ""
        return render("files_added", files=self._contents(added), edited=edited)

    def _contents(self, paths: Iterable[str]) -> str:
        texts = {path: self.workspace.read(path) for path in paths}
        shown = {path: text for path, text in texts.items() if text is not None}
        fence = _fence(shown.values())
        return "\n\n".join(f"{path}\n{fence}\n{_end(text)}{fence}" for path, text in shown.items())

    def _edited(self) -> set[str]:
        """Return the files that are not what they were."""
        space = self.workspace
        return {path for path in space.originals if space.read(path) != space.original(path)}

    def _lint(self) -> tuple[lint.Finding, ...]:
        found: list[lint.Finding] = []
        for path in sorted(self._edited()):
            after = self.workspace.read(path)
            if after is not None:
                found += lint.new_findings(path, self.workspace.original(path), after)
        return tuple(found)

    def _test(self) -> TestReport:
        if self._tested is None:
            can_run = self.run_tests is not None and self._edited()
            self._tested = self.run_tests() if can_run and self.run_tests else TestReport(None)
        return self._tested

    def _result(self, ending: Ending, reflections: int) -> Result:
        edited = sorted(self._edited())
        clean = not self._lint() if self.workspace.originals else None
        test = self._test().outcome if clean else None
        return Result(
            ending, self._edit, clean, test, tuple(self._chat), tuple(edited), reflections
        )


def _fence(texts: Iterable[str]) -> str:
    """Return the shortest fence, three backticks or more, that no line of ``texts`` begins with."""
    runs = (len(run) for text in texts for run in re.findall(r"^\s*(`{3,})", text, re.MULTILINE))
    return "`" * (max(runs, default=2) + 1)


def _end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
