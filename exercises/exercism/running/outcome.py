"""Pure: what became of a conversation, as a result file and as an attempt of a trajectory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent.conversation.base import Ending, ReplyCounts
from agent.protocol import AgentResult
from bench.attempts.candidates import AttemptStatus, Candidate
from bench.attempts.records import AttemptRecord
from bench.attempts.transcript import SeenTexts, fenced, message_block
from core.money import in_words, total
from core.plaintext import table
from exercises.exercism.counters import (
    indentation_errors,
    lazy_comments,
    malformed,
    reply_counters,
    syntax_errors,
)
from exercises.exercism.exercise import Exercise
from exercises.exercism.results import ExerciseResult, ExerciseStatus, Extra, TryResult
from exercises.exercism.running.config import RunColumn
from exercises.exercism.running.conversation import ExerciseConversation
from llm.chat import Call, Message, Traits, Usage
from runs.modelsource import Turn
from runs.storage.versions import HARNESS_VERSION, versions

_ENDINGS = {
    Ending.CONTEXT: ExerciseStatus.CONTEXT,
    Ending.REFUSED: ExerciseStatus.REFUSED,
    Ending.BUDGET: ExerciseStatus.BUDGET,
    Ending.REPLAY_EXHAUSTED: ExerciseStatus.INFRASTRUCTURE,
}
_WORDS = {
    ExerciseStatus.CONTEXT: "the model's window is full",
    ExerciseStatus.INFRASTRUCTURE: "the recording has no further reply",
}
_ATTEMPTS = {
    ExerciseStatus.SOLVED: AttemptStatus.PLAUSIBLE,
    ExerciseStatus.FAILED: AttemptStatus.TESTS_FAILED,
    ExerciseStatus.CONTEXT: AttemptStatus.CONTEXT,
    ExerciseStatus.REFUSED: AttemptStatus.ERROR,
    ExerciseStatus.BUDGET: AttemptStatus.BUDGET,
    ExerciseStatus.INFRASTRUCTURE: AttemptStatus.INFRA_ERROR,
    ExerciseStatus.INTERRUPTED: AttemptStatus.INTERRUPTED,
}


@dataclass(frozen=True)
class Played:
    """What became of a conversation about an exercise.

    Attributes:
        error: the provider's refusal, the budget, or what failed; empty otherwise.
        tried: the tries whose tests ran.
        temperature: that was sent; None where none was.
    """

    exercise: Exercise
    column: RunColumn
    status: ExerciseStatus
    reason: str
    error: str = ""
    tried: tuple[TryResult, ...] = ()
    replies: tuple[ReplyCounts, ...] = ()
    messages: tuple[Message, ...] = ()
    calls: tuple[Call, ...] = ()
    edit: bool | None = None
    edited_files: tuple[str, ...] = ()
    temperature: float | None = None
    traits: Traits | None = None

    @property
    def not_started(self) -> bool:
        """Whether the budget was used up before the first call: nothing is known of the model."""
        return self.status is ExerciseStatus.BUDGET and not self.calls

    @property
    def seconds(self) -> float:
        """Seconds of calls and tests, those to earlier processes included."""
        called = sum(call.reply.seconds for call in self.calls)
        return round(called + sum(one.seconds for one in self.tried), 3)

    def result(self, errors: int) -> ExerciseResult:
        exercise, name, calls = self.exercise, self.column.name, self.calls
        used, choice = [call.reply.usage or Usage() for call in calls], self.column.choice
        outputs = [one.output for one in self.tried]
        pairs = [call.sha256_pair for call in calls]
        return ExerciseResult(
            testdir=exercise.key,
            testcase=exercise.name,
            model=name.model,
            edit_format=name.edit_format,
            tests_outcomes=tuple(one.solved for one in self.tried),
            cost=total(call.reply.cost for call in calls),
            duration=round(sum(call.reply.seconds for call in calls), 3),
            test_timeouts=sum(one.timed_out for one in self.tried),
            commit_hash=versions()["harness_commit"] or HARNESS_VERSION,
            # A replayed refusal is in no journal.
            num_error_outputs=max(errors, int(self.status is ExerciseStatus.REFUSED)),
            num_exhausted_context_windows=int(self.status is ExerciseStatus.CONTEXT),
            num_malformed_responses=sum(map(malformed, self.replies)),
            syntax_errors=sum(map(syntax_errors, outputs)),
            indentation_errors=sum(map(indentation_errors, outputs)),
            lazy_comments=sum(lazy_comments(call.reply) for call in calls),
            editor_model=choice.name if choice.architect else None,
            editor_edit_format=choice.edit_format if choice.architect else None,
            reasoning_effort=choice.parts[0].settings.reasoning_effort,
            prompt_tokens=sum(usage.prompt_tokens for usage in used),
            completion_tokens=sum(usage.completion_tokens for usage in used),
            chat_hashes=tuple((asked or "", reply) for asked, reply in pairs),
            extra=Extra(
                status=self.status,
                language=exercise.language,
                repeat=name.repeat,
                exercise_sha256=exercise.sha256,
                tries=self.tried,
                error=self.error,
                **reply_counters(self.replies),
            ),
        )  # fmt: skip

    def record(self) -> AttemptRecord:
        last = self.tried[-1] if self.tried else None
        return AttemptRecord(
            candidate=Candidate(1, edit=self.edit, test=last.solved if last else None),
            model=self.column.name.model,
            edit_format=self.column.choice.edit_format,
            try_=1,
            temperature=self.temperature,
            status=_ATTEMPTS[self.status],
            traits=self.traits,
            model_patch=last.patch if last else "",
            added_files=self.exercise.solution,
            edited_files=self.edited_files,
            reflections=max(len(self.calls) - 1, 0),
            messages=self.messages,
            calls=self.calls,
            error=self.error,
            seconds=self.seconds,
        )


def played_of(
    exercise: Exercise,
    column: RunColumn,
    turn: Turn | None,
    conversation: ExerciseConversation | None,
) -> Played:
    """Return what became of a conversation, also of one that an exception ended."""
    nothing = Played(exercise, column, ExerciseStatus.INFRASTRUCTURE, "it did not start")
    if turn is None or conversation is None:
        return nothing
    works, said = conversation.works, conversation.transcript
    tried = tuple(conversation.tried)
    status, reason = _ended(works, tried)
    results = conversation.edited or [work.result for work in works if work.result]
    last = results[-1] if results else None
    return Played(
        exercise,
        column,
        status,
        reason,
        error=works[-1].error if works else "",
        tried=tried,
        replies=tuple(counts for result in results for counts in result.replies),
        messages=(*said.messages, *(m for one in conversation.editors for m in one.messages)),
        calls=tuple(said.calls),
        edit=last.edit if last else None,
        edited_files=last.edited_files if last else (),
        temperature=turn.temperature,
        traits=conversation.model.traits,
    )


def _ended(works: list[AgentResult], tried: tuple[TryResult, ...]) -> tuple[ExerciseStatus, str]:
    if tried and tried[-1].solved:
        return ExerciseStatus.SOLVED, f"solved in try {len(tried)}"
    if not works or works[-1].result is None:
        return ExerciseStatus.INFRASTRUCTURE, "the conversation did not end"
    last, reason = works[-1], "no tests ran"
    if tried:
        what = "tests do not end in time" if tried[-1].timed_out else "tests fail"
        reason = f"{what} in try {len(tried)}"
    status = _ENDINGS.get(last.result.ending, ExerciseStatus.FAILED)  # type: ignore[union-attr]
    return status, last.error or _WORDS.get(status, reason)


_HEADINGS = ("try", "tests", "passed", "failed", "skipped", "seconds")


def transcript(played: Played) -> str:
    return "\n".join(_lines(played)) + "\n"


def _lines(played: Played) -> Iterator[str]:
    cost = total(call.reply.cost for call in played.calls)
    yield f"# {played.exercise.key}: {played.column.name.label}\n"
    yield f"- {played.status.value}: {played.reason}"
    yield f"- calls: {len(played.calls)}, cost: {in_words(cost)}, seconds: {played.seconds:g}\n"
    rows: list[tuple[object, ...]] = []
    for number, one in enumerate(played.tried, 1):
        verdict = "solved" if one.solved else "timed out" if one.timed_out else "failed"
        counts = (one.tests_passed, one.tests_failed, one.tests_skipped)
        shown = ("unknown" if count is None else count for count in counts)
        rows.append((number, verdict, *shown, f"{one.seconds:.1f}"))
    yield from table(_HEADINGS, rows, numbers=(0, 2, 3, 4, 5), markdown=True)
    seen = SeenTexts()
    for place, message in enumerate(played.messages, 1):
        yield f"\n## {place}. {message.role.upper()}\n"
        if message.content or not message.tool_calls:
            yield message_block(message.content, f"message {place}", seen)
        for call in message.tool_calls:
            yield f"Call of `{call.name.replace('`', '')}`:\n\n{fenced(call.arguments, 'json')}"
    if played.error:
        yield f"\n## ERROR\n\n{fenced(played.error, 'text')}"
    if last := played.tried[-1:]:
        if not last[0].solved:
            yield f"\n## OUTPUT OF THE LAST TESTS\n\n{fenced(last[0].output, 'text')}"
        yield f"\n## SOLUTION\n\n{fenced(last[0].patch, 'diff')}"
