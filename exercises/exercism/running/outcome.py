"""Pure: how a conversation ended, as a result file, an attempt of a trajectory, and a transcript.

docs/exercism.md defines the counters of a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from agent.conversation.base import Ending, ReplyCounts
from agent.protocol import AgentResult
from bench.attempts.transcript import SeenTexts, fenced, message_block
from core.money import in_words, total
from core.parsing.untrusted import DamagedError, json_of
from core.plaintext import table
from exercises.exercism.exercise import Exercise
from exercises.exercism.results import ExerciseResult, Extra, TryResult
from exercises.exercism.running.config import RunColumn
from exercises.exercism.running.conversation import ExerciseConversation
from llm.chat import Message, Reply, Traits, Usage
from runs.modelsource import Turn
from runs.records import Attempt, AttemptStatus, InstanceStatus
from runs.storage.versions import HARNESS_VERSION, versions

_ENDINGS = {
    Ending.CONTEXT: InstanceStatus.CONTEXT,
    Ending.REFUSED: InstanceStatus.REFUSED,
    Ending.BUDGET: InstanceStatus.BUDGET,
    Ending.REPLAY_EXHAUSTED: InstanceStatus.INFRA_ERROR,
}
_WORDS = {
    InstanceStatus.CONTEXT: "the model's window is full",
    InstanceStatus.INFRA_ERROR: "the recording has no further reply",
}
_ATTEMPTS = {
    InstanceStatus.SOLVED: AttemptStatus.PLAUSIBLE,
    InstanceStatus.FAILED: AttemptStatus.TESTS_FAILED,
    InstanceStatus.CONTEXT: AttemptStatus.CONTEXT,
    InstanceStatus.REFUSED: AttemptStatus.ERROR,
    InstanceStatus.BUDGET: AttemptStatus.BUDGET,
    InstanceStatus.INFRA_ERROR: AttemptStatus.INFRA_ERROR,
    InstanceStatus.INTERRUPTED: AttemptStatus.INTERRUPTED,
}


@dataclass(frozen=True)
class ExerciseAttempt:
    """The conversation about an exercise, with all its tries, after its end.

    Attributes:
        error: the provider's refusal, the budget, or what failed; empty otherwise.
        tried: the tries whose tests ran.
        temperature: that was sent; None where none was.
    """

    exercise: Exercise
    column: RunColumn
    status: InstanceStatus
    reason: str
    error: str = ""
    tried: tuple[TryResult, ...] = ()
    replies: tuple[ReplyCounts, ...] = ()
    messages: tuple[Message, ...] = ()
    calls: tuple[Reply, ...] = ()
    edit: bool | None = None
    edited_files: tuple[str, ...] = ()
    temperature: float | None = None
    traits: Traits | None = None

    @property
    def seconds(self) -> float:
        """Seconds of calls and tests, those to earlier processes included."""
        called = sum(call.seconds for call in self.calls)
        return round(called + sum(one.seconds for one in self.tried), 3)

    def result(self, errors: int) -> ExerciseResult:
        exercise, name, calls = self.exercise, self.column.name, self.calls
        used, choice = (
            [call.usage or Usage() for call in calls],
            self.column.choice,
        )
        outputs = [one.output for one in self.tried]
        pairs = [call.sha256_pair for call in calls]
        return ExerciseResult(
            testdir=exercise.key,
            testcase=exercise.name,
            model=name.model,
            edit_format=name.edit_format,
            tests_outcomes=tuple(one.solved for one in self.tried),
            cost=total(call.cost for call in calls),
            duration=round(sum(call.seconds for call in calls), 3),
            test_timeouts=sum(one.timed_out for one in self.tried),
            commit_hash=versions()["harness_commit"] or HARNESS_VERSION,
            # A replayed refusal is in no journal.
            num_error_outputs=max(errors, int(self.status is InstanceStatus.REFUSED)),
            num_exhausted_context_windows=int(self.status is InstanceStatus.CONTEXT),
            num_malformed_responses=sum(
                one.malformed or one.failed > 0 for one in self.replies
            ),
            syntax_errors=sum(raised("SyntaxError", output) for output in outputs),
            indentation_errors=sum(
                raised("IndentationError", output) for output in outputs
            ),
            lazy_comments=sum(lazy_comments(call) for call in calls),
            editor_model=choice.name if choice.architect else None,
            editor_edit_format=choice.edit_format if choice.architect else None,
            reasoning_effort=choice.parts[0].settings.reasoning_effort,
            prompt_tokens=sum(usage.prompt_tokens or 0 for usage in used),
            completion_tokens=sum(usage.completion_tokens or 0 for usage in used),
            chat_hashes=tuple((asked or "", reply) for asked, reply in pairs),
            extra=Extra(
                status=self.status,
                language=exercise.language,
                repeat=name.repeat,
                exercise_sha256=exercise.sha256,
                tries=self.tried,
                error=self.error,
                whole_file_blocks=sum(one.whole_file_blocks for one in self.replies),
                hallucinated_functions=sum(one.unknown_calls for one in self.replies),
                foreign_edits=sum(one.foreign + one.unsafe for one in self.replies),
                ambiguous_edits=sum(one.ambiguous for one in self.replies),
                truncated=sum(one.truncated for one in self.replies),
            ),
        )

    def record(self) -> Attempt:
        last = self.tried[-1] if self.tried else None
        return Attempt(
            model=self.column.name.model,
            edit_format=self.column.choice.edit_format,
            temperature=self.temperature,
            cost=total(call.cost for call in self.calls),
            status=_ATTEMPTS[self.status],
            traits=self.traits,
            model_patch=last.patch if last else "",
            added_files=self.exercise.solution,
            edited_files=self.edited_files,
            edit_outcome=self.edit,
            test_outcome=last.solved if last else None,
            reflections=max(len(self.calls) - 1, 0),
            messages=self.messages,
            calls=self.calls,
            error=self.error,
            seconds=self.seconds,
        )


def attempt_of(
    exercise: Exercise,
    column: RunColumn,
    turn: Turn | None,
    conversation: ExerciseConversation | None,
) -> ExerciseAttempt:
    """Return the attempt that a conversation was, also one that an exception ended."""
    if turn is None or conversation is None:
        status = InstanceStatus.INFRA_ERROR
        return ExerciseAttempt(exercise, column, status, "it did not start")
    works, said = conversation.works, conversation.transcript
    tried = tuple(conversation.tried)
    status, reason = _ended(works, tried)
    results = conversation.edited or [work.result for work in works if work.result]
    last = results[-1] if results else None
    return ExerciseAttempt(
        exercise,
        column,
        status,
        reason,
        error=works[-1].error if works else "",
        tried=tried,
        replies=tuple(counts for result in results for counts in result.replies),
        messages=(
            *said.messages,
            *(m for one in conversation.editors for m in one.messages),
        ),
        calls=tuple(said.calls),
        edit=last.edit if last else None,
        edited_files=last.edited_files if last else (),
        temperature=turn.temperature,
        traits=conversation.model.traits,
    )


def _ended(
    works: list[AgentResult], tried: tuple[TryResult, ...]
) -> tuple[InstanceStatus, str]:
    if tried and tried[-1].solved:
        return InstanceStatus.SOLVED, f"solved in try {len(tried)}"
    if not works or works[-1].result is None:
        return InstanceStatus.INFRA_ERROR, "the conversation did not end"
    last, reason = works[-1], "no tests ran"
    if tried:
        what = "tests do not end in time" if tried[-1].timed_out else "tests fail"
        reason = f"{what} in try {len(tried)}"
    status = _ENDINGS.get(last.result.ending, InstanceStatus.FAILED)  # type: ignore[union-attr]
    return status, last.error or _WORDS.get(status, reason)


def transcript_lines(attempt: ExerciseAttempt) -> Iterator[str]:
    cost = total(call.cost for call in attempt.calls)
    yield f"# {attempt.exercise.key}: {attempt.column.name.label}\n"
    yield f"- {attempt.status}: {attempt.reason}"
    yield f"- calls: {len(attempt.calls)}, cost: {in_words(cost)}, seconds: {attempt.seconds:g}\n"
    rows: list[tuple[object, ...]] = []
    for number, one in enumerate(attempt.tried, 1):
        verdict = "solved" if one.solved else "timed out" if one.timed_out else "failed"
        counts = (one.tests_passed, one.tests_failed, one.tests_skipped)
        shown = ("unknown" if count is None else count for count in counts)
        rows.append((number, verdict, *shown, f"{one.seconds:.1f}"))
    headings = ("try", "tests", "passed", "failed", "skipped", "seconds")
    yield from table(headings, rows, numbers=(0, 2, 3, 4, 5), markdown=True)
    seen = SeenTexts()
    for place, message in enumerate(attempt.messages, 1):
        yield f"\n## {place}. {message.role.upper()}\n"
        if message.content or not message.tool_calls:
            yield message_block(message.content, f"message {place}", seen)
        for call in message.tool_calls:
            yield f"Call of `{call.name.replace('`', '')}`:\n\n{fenced(call.arguments, 'json')}"
    if attempt.error:
        yield f"\n## ERROR\n\n{fenced(attempt.error, 'text')}"
    if last := attempt.tried[-1:]:
        if not last[0].solved:
            yield f"\n## OUTPUT OF THE LAST TESTS\n\n{fenced(last[0].output, 'text')}"
        yield f"\n## SOLUTION\n\n{fenced(last[0].patch, 'diff')}"


# The pattern of the published records, with its last blank.
_LAZY = re.compile(r"^[+]? *[#].* [.][.][.] ", re.MULTILINE)


def lazy_comments(reply: Reply) -> int:
    """Return the number of lines such as ``# ... rest of the code``, an ellipsis for code."""
    texts = [reply.content]
    for call in reply.tool_calls:
        value: object = call.arguments
        with suppress(DamagedError):
            value = json_of(call.arguments)
        texts += _texts_in(value)
    return sum(len(_LAZY.findall(text)) for text in texts)


def _texts_in(value: object) -> Iterator[str]:
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(parts, str):
        yield parts
    elif not isinstance(parts, int | float | None):
        for part in parts:  # type: ignore[attr-defined]
            yield from _texts_in(part)


def raised(name: str, output: str) -> int:
    """Return how often tests raised the error ``name``."""
    # Pytest writes `E` before what was raised, and Jest indents it.
    return len(re.findall(rf"^(?:E\b)?[ \t]*{name}(?=:|$)", output, re.MULTILINE))
