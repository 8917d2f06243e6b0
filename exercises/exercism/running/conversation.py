"""The conversation of a model, or of an architect with an editor, about one exercise."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from agent.builtin import tries
from agent.conversation.base import (
    ConversationLimits,
    ConversationSetup,
    Ending,
    Reflections,
    Result,
)
from agent.conversation.context import ContextFullError, ContextWindow
from agent.conversation.mentions import FileIndex
from agent.conversation.testreport import TestReport
from agent.formats.apply import EngineFormat
from agent.formats.base import Edit, ReplyScope
from agent.protocol import AgentResult, Task, Transcript
from core.worktree import Changes
from exercises.exercism.exercise import Exercise
from exercises.exercism.messages import (
    TIMED_OUT,
    failures_message,
    first_message,
    fitting,
)
from exercises.exercism.results import TryResult
from exercises.exercism.running.config import ExercismConfig
from exercises.exercism.testing.tester import ExerciseTester
from llm.chat import (
    BudgetUsedError,
    ChatModel,
    Message,
    ReplayExhaustedError,
    Reply,
    TimeUsedError,
    Tool,
    Traits,
    refusal,
)
from llm.tokens import count_tokens, most_tokens, size

_SYSTEM = """\
You are an expert programmer. You implement code so that its unit tests pass. You cannot run anything and you see no tests. You change files only by writing edits in the format below; whatever else you write is read as explanation.

{{ format_rules }}"""  # noqa: E501 - one line for the model
_ARCHITECT = """\
You are an expert programmer who decides how code is changed so that its unit tests pass. You cannot run anything and you see no tests. You edit nothing yourself: another programmer does, who sees the files and your answer, and nothing else that was said here. Say where each change belongs and what stands there afterwards, without alternatives, and leave out code that stays as it is."""  # noqa: E501
_EDITOR = """\
You are an expert programmer. You make the changes that you are told, all of them and no others. You change files only by writing edits in the format below; whatever else you write is read as explanation.

{{ format_rules }}"""  # noqa: E501
_OPENING = "These are the files:\n\n{{ files }}\n\n{{ problem }}"
_AGAIN = "These are the files as they are now:\n\n{{ files }}\n\n{{ message }}"
# One round for edits that are malformed or fail; failing tests begin the next try.
_LIMITS = ConversationLimits(Reflections(locate=0, edit=1, lint=0, test=0))
# Tokens for the sentences around files and output.
_FOR_WORDS = 300


_RAISED: Mapping[Ending, Callable[[str], Exception]] = {
    Ending.REFUSED: refusal,
    Ending.BUDGET: BudgetUsedError,
    Ending.TIME: TimeUsedError,
    Ending.CONTEXT: ContextFullError,
    Ending.REPLAY_EXHAUSTED: ReplayExhaustedError,
}


class PlanFormat(EngineFormat):
    """Keeps the last reply as ``plan``: nothing in it is an edit."""

    name = "plan"
    plan = ""

    def instructions(self, fence: str) -> str:
        return ""

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        self.plan = reply.content
        return ()

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        raise ValueError("a plan writes no file")


@dataclass(frozen=True)
class Alike:
    """A model of a pair, with the properties and the token counter of both."""

    model: ChatModel
    traits: Traits
    label: str

    def count(self, text: str) -> int:
        return count_tokens(self.label, text)

    def complete(
        self, messages: Sequence[Message], tools: Sequence[Tool] = ()
    ) -> Reply:
        return self.model.complete(messages, tools)


def alike(models: Sequence[ChatModel], label: str) -> Sequence[ChatModel]:
    """Return models, editor first, so that a replay, which has one for both, decides as they do."""
    if len(models) == 1:
        return models
    known = [one.traits.context for one in models if one.traits.context is not None]
    traits = replace(models[0].traits, context=min(known, default=None))
    return [Alike(one, traits, label) for one in models]


def raise_ending(work: AgentResult) -> None:
    """Let the conversation of the architect end as that of its editor did."""
    if work.result and (made := _RAISED.get(work.result.ending)):
        raise made(work.error)


@dataclass
class ExerciseConversation:
    """One model, one exercise, a number of tries.

    Attributes:
        root: an empty folder, in which the solution files are edited.
        transcript: all messages and calls so far, also after an exception.
        tried: one for each try whose tests ran.
        architect: plans, where ``model`` is the editor of a pair; both have the same properties.
        editors: what the editor and the harness said in each try of a pair.
        edited: how each of these conversations ended.
    """

    exercise: Exercise
    config: ExercismConfig
    edit_format: str
    model: ChatModel
    tester: ExerciseTester
    root: Path
    log: Callable[[str], None]
    testing: Callable[[], None] = lambda: None
    transcript: Transcript = field(default_factory=Transcript)
    works: list[AgentResult] = field(default_factory=list)
    tried: list[TryResult] = field(default_factory=list)
    architect: ChatModel | None = None
    editors: list[Transcript] = field(default_factory=list)
    edited: list[Result] = field(default_factory=list)

    def run(self) -> None:
        """Let the model work until a try solves the exercise, or the last one has ended."""
        for path, data in self.exercise.stubs().items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(data)
        task = self._task()
        works = self._planned(task, self.architect) if self.architect else tries(task)
        for work in islice(works, self.config.settings.models.tries):
            self.works.append(work)

    def _planned(self, task: Task, architect: ChatModel) -> Iterator[AgentResult]:
        """Yield the tries of the architect's conversation: its plan is edited, then tested."""
        plan = PlanFormat()

        def tested(changes: Changes) -> TestReport:
            said = Transcript(calls=self.transcript.calls)
            self.editors.append(said)
            setup = replace(task.setup, system=_EDITOR, test_unedited=False)
            edits = replace(
                task, message=plan.plan, transcript=said, setup=setup, run_tests=None
            )
            work = next(tries(edits))
            if work.result:
                self.edited.append(work.result)
            raise_ending(work)
            return self._test(changes)

        setup = replace(task.setup, system=_ARCHITECT)
        yield from tries(
            replace(task, model=architect, setup=setup, run_tests=tested), plan
        )

    def _task(self) -> Task:
        setup = ConversationSetup(
            system=_SYSTEM,
            opening=_OPENING,
            again=_AGAIN,
            shown=self.exercise.solution,
            more_files=False,
            as_edited=True,
            lint=False,
            test_unedited=True,
            notation=self.config.notation,
        )
        return Task(
            root=self.root,
            message=first_message(self.exercise),
            repo_map="",
            files=FileIndex.of(self.exercise.solution),
            model=self.model,
            model_name="",
            edit_format=self.edit_format,
            temperature=0.0,
            limits=_LIMITS,
            run_tests=self._test,
            transcript=self.transcript,
            log=self.log,
            setup=setup,
        )

    def _test(self, changes: Changes) -> TestReport:
        """Run the tests on a fresh folder with the solution files as they are now.

        An editor's changes are not among those of its architect: the files are read.
        """
        self.testing()
        stubs = self.exercise.stubs()
        # A file that the model removed is an empty one: the stub must not come back.
        files = ((path, self.root / path) for path in stubs)
        written = {
            path: file.read_bytes() if file.is_file() else b"" for path, file in files
        }
        found = self.tester.test(self.exercise, written)
        patch = patch_of(stubs, written)
        self.tried.append(found.model_copy(update={"patch": patch}))
        if found.solved:
            return TestReport(True)
        output = TIMED_OUT if found.timed_out else fitting(found.output, self._fits)
        return TestReport(
            False, message=failures_message(self.exercise, output, self.config.lines)
        )

    def _fits(self, output: str) -> bool:
        """Return whether the output of tests leaves room for the rest of the next request.

        A quarter of the window is enough in any case: older messages are left out for it.
        """
        window = ContextWindow.of(self.model.traits).tokens
        if window is None or most_tokens(output) <= window // 4:
            return True
        count = self.model.count
        left = (
            file
            for path in self.exercise.solution
            if (file := self.root / path).is_file()
        )
        files = sum(count(file.read_text(errors="replace")) for file in left)
        taken = size(self.transcript.messages, count) + files + _FOR_WORDS
        return count(output) <= max(window // 4, window - taken)


def patch_of(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Return the unified diff between two versions of the same files, for readers."""
    patch = ""
    for path in before:
        old, new = (
            d[path].decode("utf-8", "replace").splitlines(True) for d in (before, after)
        )
        for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"):
            patch += (
                line
                if line.endswith("\n")
                else f"{line}\n\\ No newline at end of file\n"
            )
    return patch
