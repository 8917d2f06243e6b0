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
from agent.testreport import Failure, TestReport, describe
from agent.workspace import UnsafePathError, Workspace

Outcome = bool | None
"""True, False, or None for unknown."""

# What is shown in one message: about 80,000 tokens, two thirds of the smallest usual window.
_MOST_CHARACTERS = 320_000


class Ending(str, Enum):
    """Why a conversation stopped."""

    DONE = "done"
    REFLECTIONS_USED = "reflections_used"
    REPLAY_EXHAUSTED = "replay_exhausted"
    REFUSED = "refused"


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
    linter: lint.Linter = field(default_factory=lint.Linter)
    messages: list[Message] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    _chat: dict[str, None] = field(default_factory=dict)
    _edit: Outcome = None
    _tested: TestReport | None = None
    _told: tuple[Failure, ...] = ()
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
        ending = Ending.DONE
        while message is not None:
            used = len(self.calls) > self.limits.max_reflections
            if used and not self.limits.until_exhausted:
                ending = Ending.REFLECTIONS_USED
                break
            try:
                reply = self._ask(message)
            except ReplayExhaustedError:
                ending = Ending.REPLAY_EXHAUSTED
                break
            message = self._react(reply)
            if message is None and self.limits.until_exhausted:
                message = render("go_on")
        return self.result(ending)

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
            report_text = describe(tested.failures, self._told)
            self._told = tested.failures
            return render("tests_failed", report=report_text)
        return ""

    def _apply(self, edits: Sequence[Any]) -> ApplyReport:
        safe, unsafe = [], []
        for edit in edits:
            try:
                self.workspace.check(edit.path)
                safe.append(edit)
            except UnsafePathError as error:
                unsafe.append(EditResult(edit.path, applied=False, problem=f"## {error}"))
        report = self._write(self.edit_format.apply(safe, self.workspace.read, tuple(self._chat)))
        for result in report.results:
            for path in (result.path, result.landed_in):
                if path in self.files.paths or path in report.contents:
                    self._chat.setdefault(path)
        return ApplyReport(report.contents, (*report.results, *unsafe))

    def _write(self, report: ApplyReport) -> ApplyReport:
        """Write the new contents; a file that cannot be written makes its edits failed ones."""
        written: dict[str, str] = {}
        refused: dict[str, str] = {}
        for path, text in report.contents.items():
            try:
                self.workspace.write({path: text})
                written[path] = text
            except UnsafePathError as error:
                refused[path] = f"## {error}"
        results = [
            EditResult(result.path, applied=False, problem=refused[result.landed_in])
            if result.landed_in in refused
            else result
            for result in report.results
        ]
        return ApplyReport(written, tuple(results))

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
        """Return the files in fences; what no model can read is named and left out."""
        texts = {path: self.workspace.read(path) for path in paths}
        shown: dict[str, str] = {}
        notes: list[str] = []
        room = _MOST_CHARACTERS
        for path, text in texts.items():
            if text is None or "\0" in text:
                notes.append(f"{path} is not a text file.")
            elif len(text) > room:
                notes.append(f"{path} is too long to be shown ({len(text)} characters).")
            else:
                shown[path] = text
                room -= len(text)
        fence = _fence(shown.values())
        blocks = [f"{path}\n{fence}\n{_end(text)}{fence}" for path, text in shown.items()]
        return "\n\n".join([*blocks, *notes])

    def _edited(self) -> set[str]:
        """Return the files that are not what they were."""
        space = self.workspace
        return {path for path in space.originals if space.read(path) != space.original(path)}

    def _lint(self) -> tuple[lint.Finding, ...]:
        space = self.workspace
        changes = [
            lint.Change(path, space.original(path), after)
            for path in sorted(self._edited())
            if (after := space.read(path)) is not None
        ]
        return self.linter.new_findings(changes)

    def _test(self) -> TestReport:
        if self._tested is None:
            can_run = self.run_tests is not None and self._edited()
            self._tested = self.run_tests() if can_run and self.run_tests else TestReport(None)
        return self._tested

    def result(self, ending: Ending) -> Result:
        """Return the outcomes of the tree as it is now; tests run when they have not yet."""
        edited = sorted(self._edited())
        clean = not self._lint() if self.workspace.originals else None
        test = self._test().outcome if clean else None
        return Result(
            ending=ending,
            edit=self._edit,
            lint=clean,
            test=test,
            chat_files=tuple(self._chat),
            edited_files=tuple(edited),
            reflections=max(len(self.calls) - 1, 0),
        )


def _fence(texts: Iterable[str]) -> str:
    """Return the shortest fence, three backticks or more, that no line of ``texts`` begins with."""
    runs = (len(run) for text in texts for run in re.findall(r"^\s*(`{3,})", text, re.MULTILINE))
    return "`" * (max(runs, default=2) + 1)


def _end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
