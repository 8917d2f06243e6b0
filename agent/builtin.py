"""The built-in agent: a conversation of ``Coder`` with a model about a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from swe_retry.agent.conversation.checks import ConversationChecks
from swe_retry.agent.conversation.coder import Coder
from swe_retry.agent.conversation.context import ContextFullError
from swe_retry.agent.conversation.result import Ending, Result
from swe_retry.agent.conversation.testreport import TestReport
from swe_retry.agent.formats import get_format
from swe_retry.agent.formats.edits import Edit
from swe_retry.agent.formats.protocol import EditFormat, ReplyScope, Sample
from swe_retry.agent.prompts import render, source
from swe_retry.agent.protocol import AgentResult, Task, Transcript
from swe_retry.agent.workspace import Workspace
from swe_retry.llm.chat import (
    AttemptLimitError,
    BudgetUsedError,
    ChatModel,
    ReplayExhaustedError,
    Reply,
    RequestRefusedError,
    WindowExceededError,
    refusal,
)


@dataclass(frozen=True)
class BuiltinAgent:
    """Runs one conversation of ``Coder`` for each attempt."""

    def work(self, task: Task) -> AgentResult:
        # The first reply is waited for before anything is written.
        task.host.allow_reuse()
        task = task.with_map()
        if not task.architect:
            return next(tries(task))
        return _edit_as_planned(task, task.architect)


class PlanFormat(EditFormat):
    """Keeps the last reply as ``plan``: nothing in it is an edit."""

    name = "plan"
    plans = True

    def __init__(self, rules: str = "") -> None:
        self.rules = rules
        self.plan = ""

    def instructions(self, fence: str, sample: Sample | None = None) -> str:
        return self.rules

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        self.plan = reply.content
        return ()


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
    planning = replace(
        task,
        model=architect,
        run_tests=None,
        limits=replace(task.limits, until_exhausted=False),
        transcript=Transcript(calls=task.transcript.calls),
    )
    plan = PlanFormat(render("format_plan"))
    try:
        planned = next(tries(planning, plan))
        result = planned.result
        if not result or not result.ending.by_itself:
            return planned
        setup = replace(
            task.setup,
            system=source("editor_system"),
            opening=source("editor_opening"),
            shown_files=result.chat_files,
        )
        editing = replace(task, message=plan.plan, repo_map="", setup=setup)
        return next(tries(editing))
    finally:
        task.transcript.messages[:0] = planning.transcript.messages


def tries(task: Task, edit_format: EditFormat | None = None) -> Iterator[AgentResult]:
    """Yield the outcomes of each try of one conversation about ``task``.

    A try ends when no message is left or a budget of ``task.limits`` is used up; each has all of
    the budgets. The next one begins with the report on the tests that fail, when it is asked for.
    There is none after passing or unknown tests, and none after a try that could not go on: the
    window was full, the request was refused, the run's budget or the time was used up. The
    transcript holds all tries so far, also after an exception. ``result`` is never None.
    ``edit_format`` takes the place of the task's.

    Raises:
        InfrastructureError, UserError: see ``Agent``.
    """
    setup = task.setup
    writable = None if setup.more_files else frozenset(setup.shown_files)
    workspace = Workspace(task.root, submodules=task.submodules, writable=writable)

    def run_tests() -> TestReport:
        if not task.run_tests:
            return TestReport(None)
        changes: dict[str, bytes | None] = {}
        for path in workspace.originals:
            file = workspace.root / path
            changes[path] = None
            if file.is_file():
                changes[path] = file.read_bytes()
        return task.run_tests(changes)

    if not edit_format:
        edit_format = get_format(task.edit_format, task.matching, setup.notation)
    coder = Coder(
        workspace=workspace,
        files=task.files,
        model=task.model,
        edit_format=edit_format,
        checks=ConversationChecks(workspace, task.linter, run_tests, setup),
        limits=task.limits,
        on_failure=task.on_failure,
        messages=task.transcript.messages,
        calls=task.transcript.calls,
        image_urls=task.image_urls,
    )
    first_try = partial(coder.run, task.message, task.repo_map)
    work = _run_try(coder, first_try)
    yield work
    while work.result and work.result.test is False and work.result.ending.by_itself:
        work = _run_try(coder, coder.next_try)
        yield work


def _run_try(coder: Coder, attempt: Callable[[], Result]) -> AgentResult:
    try:
        return AgentResult(attempt())
    except RequestRefusedError as error:
        # The edits before the refusal are still a candidate.
        ending = Ending.REFUSED
        if isinstance(error, WindowExceededError):
            ending = Ending.CONTEXT
        return AgentResult(coder.result(ending), str(error))
    except BudgetUsedError as error:
        ending = Ending.BUDGET
        if isinstance(error, AttemptLimitError):
            ending = Ending.LIMIT
        return AgentResult(coder.result(ending), str(error))
