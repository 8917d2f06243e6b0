"""The built-in agent: a conversation with a model about a workspace.

Ask, apply the edits, lint, test, and report failures. A model that plans may stand before the one
that edits, each in a conversation of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain

from swe_retry.agent.conversation.checks import ConversationChecks
from swe_retry.agent.conversation.context import (
    ContextFullError,
    ShownFiles,
    fit_request,
    fits,
    window_after,
    window_of,
)
from swe_retry.agent.conversation.limits import ConversationLimits, Topic
from swe_retry.agent.conversation.result import (
    CheckOutcome,
    Ending,
    ReplyCounts,
    Result,
)
from swe_retry.agent.conversation.setup import ConversationSetup
from swe_retry.agent.formats import get_format
from swe_retry.agent.formats.apply import MAX_EDITS, safe_edits, write_report
from swe_retry.agent.formats.edits import Edit, Fault, SearchReplace, quoted_texts
from swe_retry.agent.formats.plan import PlanFormat
from swe_retry.agent.formats.protocol import (
    EditFormat,
    MalformedReplyError,
    ReplyScope,
    Sample,
)
from swe_retry.agent.formats.reading.answer import answer_of
from swe_retry.agent.formats.reading.calls import unknown_calls
from swe_retry.agent.formats.reading.fences import fence_of, shortest_fence
from swe_retry.agent.formats.reading.loops import split_repetition
from swe_retry.agent.formats.report import ApplyReport, after_failures, feedback
from swe_retry.agent.formats.text import format_rules
from swe_retry.agent.grammars import language_of
from swe_retry.agent.prompts import fill, render, source
from swe_retry.agent.protocol import AgentResult, Task
from swe_retry.agent.surroundings import Transcript
from swe_retry.agent.workspace import Workspace
from swe_retry.llm.chat import (
    AttemptLimitError,
    BudgetUsedError,
    ChatModel,
    Message,
    Reminder,
    ReplayExhaustedError,
    Reply,
    RequestRefusedError,
    WindowExceededError,
    refusal,
    request_sha256,
)
from swe_retry.llm.tokens import size

# Characters of a repetition in a message.
_MAX_QUOTED = 500


@dataclass(frozen=True)
class BuiltinAgent:
    """Runs one conversation of ``Coder`` for each attempt."""

    def work(self, task: Task) -> AgentResult:
        # The first reply is waited for before anything is written.
        task.host.allow_reuse()
        if task.architect:
            return _edit_as_planned(task, task.architect)
        return Coder.of(task).run()


@dataclass(frozen=True)
class _NextMessage:
    """The next message and the topic whose budget pays for it."""

    topic: Topic
    text: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)  # of files, as it shows them
    prefill: bool = False  # without a text: the model continues its own last message


@dataclass
class Coder:
    """Holds one conversation about one checkout.

    The task's transcript grows during the conversation, so the caller can save it even after an
    exception. Until the window is full, each request begins with the one before, so providers can
    cache it.
    """

    task: Task
    edit_format: EditFormat
    workspace: Workspace
    checks: ConversationChecks
    _edit: CheckOutcome = None
    _counts: list[ReplyCounts] = field(default_factory=list)
    _partial_reply: str = ""
    _nudged: bool = False
    _rules: str = ""
    _opening: str = ""
    _unsent: _NextMessage | None = None
    _reduced_window: int | None = None

    @classmethod
    def of(cls, task: Task, edit_format: EditFormat | None = None) -> Coder:
        """Return a conversation about ``task``; ``edit_format`` takes the place of the task's."""
        setup = task.setup
        host = task.host
        writable = None if setup.more_files else frozenset(setup.shown_files)
        submodules = task.files.submodules
        workspace = Workspace(task.root, submodules=submodules, writable=writable)
        if not edit_format:
            edit_format = get_format(task.edit_format, setup.matching, setup.notation)
        checks = ConversationChecks(workspace, host.new_findings, host.run_tests, setup)
        return cls(task, edit_format, workspace, checks)

    @property
    def setup(self) -> ConversationSetup:
        return self.task.setup

    @property
    def messages(self) -> list[Message]:
        return self.task.transcript.messages

    @property
    def calls(self) -> list[Reply]:
        return self.task.transcript.calls

    @cached_property
    def _shown_files(self) -> ShownFiles:
        inside = self.setup.as_edited and self.edit_format.path_inside
        return ShownFiles(self.workspace, self.task.model, inside, self.messages)

    def run(self) -> AgentResult:
        """Make a try: work until no message is left to send, or its budgets are used up.

        A further try begins with the report on the tests that fail, with budgets of its own.
        ``result`` is never None.

        Raises:
            InfrastructureError, UserError: see ``Agent``.
        """
        self._counts = []
        self._partial_reply = ""
        limits = self.setup.limits
        endless = limits.until_exhausted
        used: Counter[Topic] = Counter()
        try:
            step = self._continuation() if self.messages else self._open()
            while True:
                following = self._react(self._ask(step))
                if not following and endless:
                    following = _NextMessage(Topic.LOCATE, render("go_on"))
                if not following:
                    return AgentResult(self.result(Ending.DONE))
                left = limits.reflections.left(following.topic, used)
                if left <= 0 and not endless:
                    self._unsent = following
                    return AgentResult(self.result(Ending.REFLECTIONS_USED))
                used[following.topic] += 1
                step = following
        except ReplayExhaustedError:
            return AgentResult(self.result(Ending.REPLAY_EXHAUSTED))
        except ContextFullError:
            return AgentResult(self.result(Ending.CONTEXT))
        except (RequestRefusedError, BudgetUsedError) as error:
            # The edits before a refusal are still a candidate.
            return AgentResult(self.result(_ending_of(error)), str(error))

    def _open(self) -> _NextMessage:
        """Write the system message, and return the first of the user."""
        issue = self.task.message
        repo_map = ""
        if self.setup.with_map:
            repo_map = self.task.repo_map
        self._shown_files.add(self.setup.shown_files)
        self._shown_files.focus = f"{issue}\n{repo_map}"
        texts = list(filter(None, map(self.workspace.read, self.setup.shown_files)))
        sample = self._sample(issue, repo_map)
        texts.append(sample.text)
        self._rules = self.edit_format.instructions(
            shortest_fence([issue, *texts]), sample
        )
        reminder = self.task.model.traits.reminder
        rules = self._rules if reminder in (Reminder.SYSTEM, Reminder.BOTH) else ""
        system = fill(self.setup.system, format_rules=rules)
        self.messages.append(Message("system", system))
        files = self._shown_files.contents(self.setup.shown_files)
        fill_opening = partial(
            fill, self.setup.opening, problem=issue, files=files.text
        )
        self._opening = fill_opening(repo_map="")
        return _NextMessage(Topic.LOCATE, fill_opening(repo_map=repo_map), files.texts)

    def _continuation(self) -> _NextMessage:
        """Return the report on the tests that fail after a try."""
        step = self._unsent
        self._unsent = None
        if not step or step.topic is not Topic.TEST:
            step = self._check()
        if not step:
            raise ValueError("no tests fail")
        return step

    def _sample(self, issue: str, repo_map: str) -> Sample:
        """Return the file for the example in the rules: a shown one, or the first named one."""
        mentioned = map(self.task.files.mentioned_files, (issue, repo_map))
        paths = chain(self.setup.shown_files, *mentioned, sorted(self.task.files.paths))
        for path in filter(language_of, paths):
            sample = Sample(path, self.workspace.read(path) or "")
            if sample.line:
                return sample
        return Sample()

    def _ask(self, step: _NextMessage) -> Reply:
        request = self._fit_request(step)
        reply = None
        while reply is None:
            try:
                reply = self.task.model.complete(request, self.edit_format.tools)
            except WindowExceededError as error:
                request = self._shorten(request, step, error)
        digest = request_sha256(request)
        self.calls.append(replace(reply, request_sha256=digest))
        if step.prefill:
            # The model continued its last message: join both.
            start = request.pop()
            reply = replace(reply, content=start.content + reply.content)
        tool_calls = []
        for number, call in enumerate(reply.tool_calls):
            call_id = call.id or f"call_{len(self.calls)}_{number}"
            tool_calls.append(replace(call, id=call_id))
        message = Message("assistant", reply.content, tuple(tool_calls))
        self.messages[:] = [*request, message]
        return reply

    def _shorten(
        self, request: list[Message], step: _NextMessage, error: WindowExceededError
    ) -> list[Message]:
        tokens = size(request, self.task.model.count)
        # The provider knows its window better, but a reply may need less than its share.
        for window in (window_after(str(error), tokens), tokens - 1):
            self._reduced_window = window
            with suppress(ContextFullError):
                return self._fit_request(step)
        raise error

    def _fit_request(self, step: _NextMessage) -> list[Message]:
        window = self._reduced_window or window_of(self.task.model.traits)
        count = self.task.model.count
        request = self._build_request(step)
        if len(request) < 3 and not fits(request, window, count):
            request = self._build_request(replace(step, text=self._opening))
        return fit_request(request, window, count, self._shown_files, self._opening)

    def _build_request(self, step: _NextMessage) -> list[Message]:
        if step.prefill:
            return list(self.messages)
        traits = self.task.model.traits
        messages = list(self.messages)
        for call in messages[-1].tool_calls:
            received = render("tool_received")
            messages.append(Message("tool", received, tool_call_id=call.id))
        text = step.text
        texts = dict(step.texts)
        changed = []
        if self.setup.followup and len(messages) > 1:
            shown = self._shown_files.texts_in(messages) | texts
            changed = self._shown_files.changed_from(shown, self._shown_files.paths)
        if changed:
            files = self._shown_files.contents(changed)
            text = fill(self.setup.followup, message=text, files=files.text)
            texts.update(files.texts)
        if traits.reminder in (Reminder.USER, Reminder.BOTH):
            text = f"{text}\n\n{self._rules}"
        images: tuple[str, ...] = ()
        if traits.images and len(self.messages) == 1:
            images = self.setup.image_urls
        message = Message("user", text, images=images)
        self._shown_files.record(message, texts)
        return [*messages, message]

    def _react(self, reply: Reply) -> _NextMessage | None:
        edit_format = self.edit_format
        answer = answer_of(reply.content)
        text = edit_format.join(self._partial_reply, answer)
        self._partial_reply = text if reply.truncated else ""
        joined_reply = replace(reply, content=text)
        unknown = unknown_calls(joined_reply, edit_format.tools)
        counts = ReplyCounts(truncated=reply.truncated, unknown_calls=unknown)
        self._counts.append(counts)
        if self.setup.test_unedited:
            self.checks.discard_results()
        if reply.truncated:
            self._edit = False
            return self._after_cut(reply)
        return self._follow_reply(joined_reply)

    def _after_cut(self, reply: Reply) -> _NextMessage:
        content, repeated = split_repetition(reply.content)
        for call in reply.tool_calls[-1:]:
            repeated = repeated or split_repetition(call.arguments)[1]
        prefills = (
            self.task.model.traits.prefill and reply.content and not reply.tool_calls
        )
        if repeated:
            # Neither shown again nor continued, or the model would go on with it.
            self._partial_reply = ""
            self.messages[-1] = replace(self.messages[-1], content=content)
        elif prefills:
            self._partial_reply = ""
            return _NextMessage(Topic.EDIT, prefill=True)
        text = render(
            "truncated",
            repeated=repeated[:_MAX_QUOTED].strip("\n"),
            tools=bool(self.edit_format.tools),
            joins=self.edit_format.joins,
        )
        return _NextMessage(Topic.EDIT, text)

    def _follow_reply(self, reply: Reply) -> _NextMessage | None:
        text = reply.content
        try:
            edits = self.edit_format.parse(reply, self._scope)
        except MalformedReplyError as error:
            return self._with_new_files(self._after_malformed(str(error)), text)
        if edits:
            return self._with_new_files(self._edit_lint_test(edits), text)
        if self.setup.more_files:
            return self._after_no_edit(text)
        rules = self._rules_for_fences(text)
        return self._after_malformed(rules) if rules else self._check()

    def _after_malformed(self, problem: str) -> _NextMessage:
        self._edit = False
        self._counts[-1] = replace(self._counts[-1], malformed=True)
        return _NextMessage(Topic.EDIT, render("malformed", problem=problem))

    def _rules_for_fences(self, text: str) -> str:
        """Return the rules of the format if ``text`` has fences, which hold no edits."""
        fences = filter(fence_of, text.split("\n"))
        if self.edit_format.plans or not any(fences):
            return ""
        return format_rules(self.edit_format, self._scope)

    @property
    def _scope(self) -> ReplyScope:
        editable = self._known_paths | self.workspace.edited_files()
        shown = tuple(self._shown_files.paths)
        return ReplyScope(editable, shown, self.workspace.read)

    @property
    def _known_paths(self) -> frozenset[str]:
        if self.setup.more_files:
            return self.task.files.paths
        return frozenset(self.setup.shown_files)

    def _with_new_files(
        self, step: _NextMessage | None, text: str
    ) -> _NextMessage | None:
        if not self.setup.more_files:
            return step
        added = self._shown_files.add(self._mentioned_files(text))
        if not step or not added:
            return step
        contents = self._shown_files.contents(added, about=text)
        files = render("files_added", files=contents.text, edited=True)
        text = f"{step.text}\n\n{files}"
        return replace(step, text=text, texts={**step.texts, **contents.texts})

    def _after_no_edit(self, text: str) -> _NextMessage | None:
        mentioned = self._mentioned_files(text)
        added = self._shown_files.add(mentioned)
        missing = self._shown_files.missing_from(mentioned, text)
        contents = self._shown_files.contents(missing, about=text)
        if added or contents.texts:
            files = render("files_added", files=contents.text, edited=False)
            return _NextMessage(Topic.LOCATE, files, contents.texts)
        # One that has tried to edit may say that this was all.
        has_tried = self.edit_format.plans or self._edit is not None
        if self._nudged or (mentioned and has_tried):
            return None
        return self._nudge(
            self._rules_for_fences(text) if self._shown_files.paths else ""
        )

    def _nudge(self, rules: str = "", *, unchanged: bool = False) -> _NextMessage:
        self._nudged = True
        shown = bool(self._shown_files.paths)
        text = render("name_files", rules=rules, shown=shown, unchanged=unchanged)
        return _NextMessage(Topic.LOCATE, text)

    def _edit_lint_test(self, edits: Sequence[Edit]) -> _NextMessage | None:
        report = self._apply(edits)
        self._edit = not report.failures
        if report.contents:
            self.checks.discard_results()
        if report.failures:
            # Files that changed come with the next message in any case where the setup says so.
            stale = set() if self.setup.followup else self.workspace.edited_files()
            paths = set()
            for result in report.failures:
                if result.path in stale or result.fault is Fault.UNSEEN:
                    paths.add(result.path)
            files = self._shown_files.contents(sorted(paths))
            reasons = feedback(report)
            text = render("edits_failed", feedback=reasons, files=files.text)
            return _NextMessage(Topic.EDIT, text, files.texts)
        is_unedited = self.setup.more_files and not self.workspace.edited_files()
        if is_unedited and not self._nudged:
            return self._nudge(unchanged=True)
        return self._check()

    def _apply(self, edits: Sequence[Edit]) -> ApplyReport:
        """Apply ``edits``, write the files, and count.

        The edited files are shown from now on, and the known ones whose edits failed.
        """
        workspace = self.workspace
        shown_files = self._shown_files
        whole_file_blocks = 0

        @cache
        def bare_text(path: str) -> str:
            return (workspace.read(path) or "").strip()

        for edit in edits[:MAX_EDITS]:
            if isinstance(edit, SearchReplace) and bare_text(edit.path):
                searches = map(str.strip, quoted_texts(edit))
                whole_file_blocks += bare_text(edit.path) in searches
        safe = safe_edits(edits, workspace)
        shown = tuple(shown_files.paths)
        applied = self.edit_format.apply(safe, workspace.read, shown)
        checked = shown_files.refuse_unseen(applied, safe[:MAX_EDITS])
        report = write_report(after_failures(checked, self.setup.on_failure), workspace)
        for result in report.results:
            for path in (result.path, result.landed_in):
                if path in self._known_paths or path in report.contents:
                    shown_files.add([path])
        faults = Counter(result.fault for result in report.results)
        self._counts[-1] = replace(
            self._counts[-1],
            edits=len(report.results),
            failed=len(report.failures),
            unreadable=faults[Fault.UNREADABLE],
            unsafe=faults[Fault.UNSAFE],
            foreign=faults[Fault.FOREIGN],
            ambiguous=faults[Fault.AMBIGUOUS],
            whole_file_blocks=whole_file_blocks,
        )
        return report

    def _check(self) -> _NextMessage | None:
        problem = self.checks.problem()
        if not problem:
            return None
        return _NextMessage(*problem)

    def _mentioned_files(self, text: str) -> tuple[str, ...]:
        if self.edit_format.plain_mentions:
            return self.task.files.plainly_mentioned_files(text)
        return self.task.files.mentioned_files(text)

    def result(self, ending: Ending) -> Result:
        """Return the outcomes of the current tree; runs the tests if they have not run on it."""
        edited = sorted(self.workspace.edited_files())
        unedited = self.setup.test_unedited and ending.by_itself
        lint_outcome, test = self.checks.outcomes(unedited=unedited)
        return Result(
            ending=ending,
            edit=self._edit,
            lint=lint_outcome,
            test=test,
            chat_files=tuple(self._shown_files.paths),
            edited_files=tuple(edited),
            reflections=max(len(self.calls) - 1, 0),
            replies=tuple(self._counts),
        )


def _ending_of(error: RequestRefusedError | BudgetUsedError) -> Ending:
    if isinstance(error, WindowExceededError):
        return Ending.CONTEXT
    if isinstance(error, RequestRefusedError):
        return Ending.REFUSED
    if isinstance(error, AttemptLimitError):
        return Ending.LIMIT
    return Ending.BUDGET


def tries(task: Task, edit_format: EditFormat | None = None) -> Iterator[AgentResult]:
    """Yield the outcomes of each try of one conversation about ``task``.

    The next try is made when it is asked for. There is none after passing or unknown tests, and
    none after a try that could not go on: the window was full, the request was refused, the run's
    budget or the time was used up. The transcript holds all tries so far, also after an exception.
    ``edit_format`` takes the place of the task's.
    """
    coder = Coder.of(task, edit_format)
    while True:
        work = coder.run()
        yield work
        result = work.result
        if not result or result.test is not False or not result.ending.by_itself:
            break


_ERRORS: Mapping[Ending, Callable[[str], Exception]] = {
    Ending.REFUSED: refusal,
    Ending.BUDGET: BudgetUsedError,
    Ending.LIMIT: AttemptLimitError,
    Ending.CONTEXT: ContextFullError,
    Ending.REPLAY_EXHAUSTED: ReplayExhaustedError,
}


def error_of(work: AgentResult) -> Exception | None:
    """Return what ends the architect's conversation where it ended its editor's, else None."""
    make = _ERRORS.get(work.result.ending) if work.result else None
    return make and make(work.error)


def _edit_as_planned(task: Task, architect: ChatModel) -> AgentResult:
    """Let ``architect`` plan, and the model edit in a conversation of its own.

    The editor sees the plan and the files that the architect has seen, and gets what lint and tests
    find. The transcript begins with the architect's messages.
    """
    limits = ConversationLimits(task.setup.limits.reflections)
    planning = replace(
        task,
        model=architect,
        setup=replace(task.setup, limits=limits),
        transcript=Transcript(calls=task.transcript.calls),
    )
    plan = PlanFormat(render("format_plan"))
    try:
        planned = Coder.of(planning, plan).run()
        result = planned.result
        if not result or not result.ending.by_itself:
            return planned
        setup = replace(
            task.setup,
            system=source("editor_system"),
            opening=source("editor_opening"),
            shown_files=result.chat_files,
            with_map=False,
        )
        return Coder.of(replace(task, message=plan.plan, setup=setup)).run()
    finally:
        task.transcript.messages[:0] = planning.transcript.messages
