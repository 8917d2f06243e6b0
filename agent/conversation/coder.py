"""One conversation: ask, apply the edits, lint, test, and report failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from agent import lint
from agent.conversation.base import (
    CheckOutcome,
    ConversationLimits,
    ConversationSetup,
    Ending,
    ReflectionsUsed,
    ReplyCounts,
    Result,
    Topic,
    harness_setup,
)
from agent.conversation.context import (
    ContextFullError,
    ContextWindow,
    ShownFiles,
    fitted,
)
from agent.conversation.mentions import FileIndex
from agent.conversation.testreport import Failure, TestReport, describe
from agent.formats.apply import safe_edits, write_report
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
from agent.prompts import fill, render
from agent.workspace import Workspace
from llm.chat import (
    ChatModel,
    Message,
    Reminder,
    ReplayExhaustedError,
    Reply,
    WindowExceededError,
    request_sha256,
)
from llm.tokens import size


@dataclass
class Checks:
    """Checks one workspace, and keeps the failures that the model has seen.

    Attributes:
        run_tests: runs the tests on the current tree; None where none can run.
        setup: whether to lint, and whether to test unedited trees.
    """

    workspace: Workspace
    linter: lint.Linter = field(default_factory=lint.Linter)
    run_tests: Callable[[], TestReport] | None = None
    setup: ConversationSetup = field(default_factory=harness_setup)
    _linted: tuple[list[lint.Change], tuple[lint.Finding, ...]] = ([], ())
    _tested: TestReport | None = None
    _reported: tuple[Failure, ...] = ()

    def changed(self) -> None:
        """Discard the test results: the tree has changed, or is to be tested again."""
        self._tested = None

    def problem(self) -> tuple[Topic, str] | None:
        """Return the next problem as a message with its topic; None without a problem."""
        if found := self._findings():
            texts = {
                finding.path: self.workspace.read(finding.path) or ""
                for finding in found
            }
            return Topic.LINT, render(
                "lint_failed", findings=lint.describe(found, texts)
            )
        report = self._test(unedited=self.setup.test_unedited)
        if report.outcome is not False:
            return None
        if report.message:
            return Topic.TEST, report.message
        text = describe(report.failures, self._reported)
        self._reported = report.failures
        return Topic.TEST, render("tests_failed", report=text)

    def outcomes(self, *, unedited: bool = False) -> tuple[CheckOutcome, CheckOutcome]:
        """Return the outcomes of lint and tests; runs the tests if they have not run yet.

        Args:
            unedited: run them on a tree without edits, too.
        """
        linted = self.setup.lint and self.workspace.originals
        clean = not self._findings() if linted else None
        return clean, None if clean is False else self._test(unedited=unedited).outcome

    def _findings(self) -> tuple[lint.Finding, ...]:
        if not self.setup.lint:
            return ()
        space = self.workspace
        changes = [
            lint.Change(path, space.original(path), after)
            for path in sorted(space.edited())
            if (after := space.read(path)) is not None
        ]
        if changes != self._linted[0]:
            self._linted = changes, self.linter.new_findings(changes)
        return self._linted[1]

    def _test(self, *, unedited: bool) -> TestReport:
        if self._tested is None:
            run = self.run_tests if unedited or self.workspace.edited() else None
            self._tested = run() if run else TestReport(None)
        return self._tested


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
    providers can cache it. The setup is that of ``checks``. ``image_urls`` go with the first
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
    calls: list[Reply] = field(default_factory=list)
    image_urls: tuple[str, ...] = ()
    _edit: CheckOutcome = None
    _counts: list[ReplyCounts] = field(default_factory=list)
    _partial: str = ""
    _nudged: bool = False
    _rules: str = ""
    _opening: str = ""
    _unsent: _Next | None = None
    _refused: ContextWindow | None = None

    @property
    def setup(self) -> ConversationSetup:
        return self.checks.setup

    @cached_property
    def _shown(self) -> ShownFiles:
        inside = self.setup.as_edited and self.edit_format.path_inside
        return ShownFiles(self.workspace, self.model, inside)

    def run(self, issue: str, repo_map: str) -> Result:
        """Work on ``issue`` until no message is left to send, and return the outcomes.

        This is the first try; ``repo_map`` may be empty.
        """
        self._shown.add(self.setup.shown)
        texts = filter(None, map(self.workspace.read, self.setup.shown))
        self._rules = self.edit_format.instructions(shortest_fence([issue, *texts]))
        reminder = self.model.traits.reminder
        rules = self._rules if reminder in (Reminder.SYSTEM, Reminder.BOTH) else ""
        self.messages.append(
            Message("system", fill(self.setup.system, format_rules=rules))
        )
        files = self._shown.contents(self.setup.shown)
        text = partial(fill, self.setup.opening, problem=issue, files=files)
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
            spending = ReflectionsUsed(self.limits.reflections)
            while True:
                following = self._react(self._ask(step))
                if following is None and self.limits.until_exhausted:
                    following = _Next(Topic.LOCATE, render("go_on"))
                if following is None:
                    return self.result(Ending.DONE)
                if (
                    not spending.take(following.topic)
                    and not self.limits.until_exhausted
                ):
                    self._unsent = following
                    return self.result(Ending.REFLECTIONS_USED)
                step = following
        except ReplayExhaustedError:
            return self.result(Ending.REPLAY_EXHAUSTED)
        except ContextFullError:
            return self.result(Ending.CONTEXT)

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
        if self.setup.again:
            self._shown.sent()
        call = replace(reply, request_sha256=request_sha256(request))
        self.calls.append(call)
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
        window, count = (
            self._refused or ContextWindow.of(self.model.traits),
            self.model.count,
        )
        request = self._request(step)
        if len(request) < 3 and not window.holds(request, count):
            request = self._request(replace(step, text=self._opening))
        return fitted(request, window, count, self._shown, self._opening)

    def _request(self, step: _Next) -> list[Message]:
        if step.prefill:
            return list(self.messages)
        called = self.messages[-1].tool_calls
        received = [
            Message("tool", render("tool_received"), (), call.id) for call in called
        ]
        reminded = self.model.traits.reminder in (Reminder.USER, Reminder.BOTH)
        text = step.text
        if self.setup.again and (changed := self._shown.changed()):
            files = self._shown.contents(changed)
            text = fill(self.setup.again, message=text, files=files)
        text = f"{text}\n\n{self._rules}" if reminded else text
        first = len(self.messages) == 1 and self.model.traits.images
        images = self.image_urls if first else ()
        return [*self.messages, *received, Message("user", text, images=images)]

    def _react(self, reply: Reply) -> _Next | None:
        text = self.edit_format.join(self._partial, reply.content)
        self._partial = text if reply.truncated else ""
        whole = replace(reply, content=text)
        unknown = unknown_calls(whole, self.edit_format.tools)
        self._counts.append(
            ReplyCounts(truncated=reply.truncated, unknown_calls=unknown)
        )
        if self.setup.test_unedited:
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
            edits = self.edit_format.parse(
                reply, ReplyScope(known, tuple(self._shown.paths))
            )
        except MalformedReplyError as error:
            self._edit = False
            self._counts[-1] = replace(self._counts[-1], malformed=True)
            problem = render("malformed", problem=error)
            return self._with_new(_Next(Topic.EDIT, problem), reply.content)
        if edits:
            return self._with_new(self._edit_lint_test(edits), reply.content)
        return (
            self._after_no_edit(reply.content)
            if self.setup.more_files
            else self._check()
        )

    @property
    def _known(self) -> frozenset[str]:
        return (
            self.files.paths if self.setup.more_files else frozenset(self.setup.shown)
        )

    def _with_new(self, step: _Next | None, text: str) -> _Next | None:
        added = self._shown.add(self._named(text)) if self.setup.more_files else []
        if step is None or not added:
            return step
        files = render("files_added", files=self._shown.contents(added), edited=True)
        return replace(step, text=f"{step.text}\n\n{files}")

    def _after_no_edit(self, text: str) -> _Next | None:
        if added := self._shown.add(self._named(text)):
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
            # Files that changed come with the next message in any case where the setup says so.
            files = "" if self.setup.again else self._shown.contents(sorted(stale))
            return _Next(
                Topic.EDIT,
                render("edits_failed", feedback=feedback(report), files=files),
            )
        return self._check()

    def _check(self) -> _Next | None:
        problem = self.checks.problem()
        return _Next(*problem) if problem else None

    def _named(self, text: str) -> tuple[str, ...]:
        plainly = self.edit_format.plain_mentions
        return (
            self.files.plainly_mentioned(text)
            if plainly
            else self.files.mentioned(text)
        )

    def result(self, ending: Ending) -> Result:
        """Return the outcomes of the current tree; runs the tests if they have not run on it."""
        edited = sorted(self.workspace.edited())
        unedited = self.setup.test_unedited and ending.by_itself
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
    whole = 0
    for edit in edits:
        text = (space.read(edit.path) or "").strip()
        if text and isinstance(edit, SearchReplace):
            searches = (edit.search, *(search for search, _ in edit.readings))
            whole += text in {search.strip() for search in searches}
    applied = edit_format.apply(
        safe_edits(edits, space), space.read, tuple(shown.paths)
    )
    report = write_report(after_failures(applied, on_failure), space)
    named = [
        path for result in report.results for path in (result.path, result.landed_in)
    ]
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
