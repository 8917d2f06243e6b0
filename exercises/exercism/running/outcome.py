"""Pure: how a conversation ended, as a result file, an attempt of a trajectory, and a transcript.

docs/exercism.md defines the counters of a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal

from agent.conversation.base import Ending, ReplyCounts
from agent.protocol import AgentResult
from bench.attempts import SeenTexts, fenced, message_block
from core.money import in_words, total
from core.parsing.untrusted import DamagedError, json_of
from core.plaintext import table
from exercises.exercism.exercise import Exercise
from exercises.exercism.results import ExerciseResult, Extra, TryResult
from exercises.exercism.running.config import RunColumn
from exercises.exercism.running.conversation import ExerciseConversation
from llm.chat import Reply, Usage
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
        attempt: the record of all its tries; ``error`` is the provider's refusal, the budget, or
            what failed.
        tried: the tries whose tests ran.
    """

    exercise: Exercise
    column: RunColumn
    status: InstanceStatus
    reason: str
    attempt: Attempt
    tried: tuple[TryResult, ...] = ()
    replies: tuple[ReplyCounts, ...] = ()

    @property
    def calls(self) -> tuple[Reply, ...]:
        return self.attempt.calls or ()

    def with_end(self, status: InstanceStatus, reason: str) -> ExerciseAttempt:
        """Return it as something else than its conversation ended it."""
        attempt = self.attempt.but(status=_ATTEMPTS[status], error=reason)
        return replace(self, status=status, reason=reason, attempt=attempt)

    def result(self, errors: int) -> ExerciseResult:
        exercise = self.exercise
        name = self.column.name
        calls = self.calls
        usage = Usage.known_sum(call.usage for call in calls)
        choice = self.column.choice
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
            prompt_tokens=usage.prompt_tokens or 0,
            completion_tokens=usage.completion_tokens or 0,
            chat_hashes=tuple((asked or "", reply) for asked, reply in pairs),
            extra=Extra(
                status=self.status,
                language=exercise.language,
                repeat=name.repeat,
                exercise_sha256=exercise.sha256,
                tries=self.tried,
                error=self.attempt.error,
                whole_file_blocks=sum(one.whole_file_blocks for one in self.replies),
                hallucinated_functions=sum(one.unknown_calls for one in self.replies),
                foreign_edits=sum(one.foreign + one.unsafe for one in self.replies),
                ambiguous_edits=sum(one.ambiguous for one in self.replies),
                truncated=sum(one.truncated for one in self.replies),
            ),
        )


def attempt_of(
    exercise: Exercise,
    column: RunColumn,
    turn: Turn | None,
    conversation: ExerciseConversation | None,
) -> ExerciseAttempt:
    """Return the attempt that a conversation was, also one that an exception ended."""
    record = Attempt(
        model=column.name.model,
        edit_format=column.choice.edit_format,
        added_files=exercise.solution,
        status=AttemptStatus.INFRA_ERROR,
        messages=(),
        calls=(),
        cost=Decimal(),
        reflections=0,
        seconds=0.0,
    )
    if turn is None or conversation is None:
        status = InstanceStatus.INFRA_ERROR
        return ExerciseAttempt(exercise, column, status, "it did not start", record)
    works = conversation.works
    said = conversation.transcript
    tried = tuple(conversation.tried)
    status, reason = _ended(works, tried)
    results = conversation.edited or [work.result for work in works if work.result]
    messages = list(said.messages)
    for editor in conversation.editors:
        messages += editor.messages
    # Seconds of calls and tests, those of earlier processes included.
    seconds = sum(call.seconds for call in said.calls)
    seconds += sum(one.seconds for one in tried)
    record = record.with_call(messages, *said.calls).but(
        temperature=turn.temperature,
        traits=conversation.model.traits,
        status=_ATTEMPTS[status],
        error=works[-1].error if works else "",
        reflections=max(len(said.calls) - 1, 0),
        seconds=round(seconds, 3),
    )
    if results:
        last = results[-1]
        record = record.but(edit_outcome=last.edit, edited_files=last.edited_files)
    if tried:
        record = record.but(model_patch=tried[-1].patch, test_outcome=tried[-1].solved)
    replies = tuple(counts for result in results for counts in result.replies)
    return ExerciseAttempt(exercise, column, status, reason, record, tried, replies)


def _ended(
    works: list[AgentResult], tried: tuple[TryResult, ...]
) -> tuple[InstanceStatus, str]:
    if tried and tried[-1].solved:
        return InstanceStatus.SOLVED, f"solved in try {len(tried)}"
    if not works or works[-1].result is None:
        return InstanceStatus.INFRA_ERROR, "the conversation did not end"
    last = works[-1]
    reason = "no tests ran"
    if tried:
        what = "tests do not end in time" if tried[-1].timed_out else "tests fail"
        reason = f"{what} in try {len(tried)}"
    status = _ENDINGS.get(last.result.ending, InstanceStatus.FAILED)  # type: ignore[union-attr]
    return status, last.error or _WORDS.get(status, reason)


def transcript_lines(attempt: ExerciseAttempt) -> Iterator[str]:
    record = attempt.attempt
    yield f"# {attempt.exercise.key}: {attempt.column.name.label}\n"
    yield f"- {attempt.status}: {attempt.reason}"
    cost = in_words(record.cost)
    seconds = record.seconds or 0.0
    yield f"- calls: {len(attempt.calls)}, cost: {cost}, seconds: {seconds:g}\n"
    rows: list[tuple[object, ...]] = []
    for number, one in enumerate(attempt.tried, 1):
        verdict = "solved" if one.solved else "timed out" if one.timed_out else "failed"
        counts = (one.tests_passed, one.tests_failed, one.tests_skipped)
        shown = ("unknown" if count is None else count for count in counts)
        rows.append((number, verdict, *shown, f"{one.seconds:.1f}"))
    headings = ("try", "tests", "passed", "failed", "skipped", "seconds")
    yield from table(headings, rows, numbers=(0, 2, 3, 4, 5), markdown=True)
    seen = SeenTexts()
    for place, message in enumerate(record.messages or (), 1):
        yield f"\n## {place}. {message.role.upper()}\n"
        if message.content or not message.tool_calls:
            yield message_block(message.content, f"message {place}", seen)
        for call in message.tool_calls:
            yield f"Call of `{call.name.replace('`', '')}`:\n\n{fenced(call.arguments, 'json')}"
    if record.error:
        yield f"\n## ERROR\n\n{fenced(record.error, 'text')}"
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
