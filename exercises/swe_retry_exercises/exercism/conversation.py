"""The work on an exercise: the conversation of a model, or of an architect with an editor."""

from __future__ import annotations

import difflib
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from swe_retry.kit import (
    AgentResult,
    Attempt,
    AttemptStatus,
    ChatModel,
    Coder,
    ConversationLimits,
    ConversationSetup,
    DamagedError,
    End,
    Ending,
    FileIndex,
    InstanceStatus,
    JobContext,
    LiveModels,
    ModelChoice,
    NotRecordedError,
    OpenHost,
    PlanFormat,
    Reflections,
    ReplayedModels,
    Reply,
    Result,
    Task,
    TestReport,
    Transcript,
    Turn,
    WorkStep,
    error_of,
    json_of,
    most_tokens,
    render_text,
    size,
    texts_in,
    total,
    transcript_blocks,
    tries,
    versions,
    waiting_for_model,
    window_of,
    write_files,
)
from swe_retry_exercises.exercism.catalog import Exercise
from swe_retry_exercises.exercism.messages import (
    TIMED_OUT,
    failures_message,
    first_message,
    fitting,
)
from swe_retry_exercises.exercism.results import (
    RESULT_STATUSES,
    ColumnName,
    ExerciseResult,
    Extra,
    TryResult,
)
from swe_retry_exercises.exercism.settings import ExercismConfig
from swe_retry_exercises.exercism.tester import ExerciseTester

# The pattern of the published records, with its last blank.
_LAZY = re.compile(r"^[+]? *[#].* [.][.][.] ", re.MULTILINE)


def lazy_comments(reply: Reply) -> int:
    """Return the number of lines such as ``# ... rest of the code``, an ellipsis for code."""
    texts = [reply.content]
    for call in reply.tool_calls:
        value = call.arguments
        with suppress(DamagedError):
            value = json_of(call.arguments)
        texts += texts_in(value)
    return sum(len(_LAZY.findall(text)) for text in texts)


def error_count(name: str, output: str) -> int:
    """Return how often tests raised the error ``name``."""
    # Pytest writes `E` before what was raised, and Jest indents it.
    return len(
        re.findall(
            rf"^(?:E\b)?[ \t]*{name}(?=:|$)",
            output,
            re.MULTILINE,
        )
    )


def patch_of(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Return the unified diff between two versions of the same files, for readers."""
    patch = ""
    for path in before:
        old = before[path].decode("utf-8", "replace").splitlines(keepends=True)
        new = after[path].decode("utf-8", "replace").splitlines(keepends=True)
        for line in difflib.unified_diff(
            old,
            new,
            f"a/{path}",
            f"b/{path}",
        ):
            patch += line
            if not line.endswith("\n"):
                patch += "\n\\ No newline at end of file\n"
    return patch


def transcript_text(result: ExerciseResult, attempt: Attempt, reason: str) -> str:
    return render_text(
        Path(__file__).with_name("transcript.md"),
        result=result,
        attempt=attempt,
        reason=reason,
        rows=map(_try_cells, count(1), result.extra.tries),
        **transcript_blocks(),
    )


def _try_cells(number: int, item: TryResult) -> list[object]:
    verdict = "failed"
    if item.solved:
        verdict = "solved"
    elif item.timed_out:
        verdict = "timed out"
    cells = [number, verdict]
    for tests in (item.tests_passed, item.tests_failed, item.tests_skipped):
        cells.append("unknown" if tests is None else tests)
    return [*cells, f"{item.seconds:.1f}"]


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
_LIMITS = ConversationLimits(
    Reflections(
        locate=0,
        edit=1,
        lint=0,
        test=0,
    )
)
# Tokens for the sentences around files and output.
_MESSAGE_TOKENS = 300
ATTEMPT = 1
"""The conversation about an exercise is one attempt, with all its tries."""

_STATUSES = {
    Ending.CONTEXT: (InstanceStatus.CONTEXT, "the model's window is full"),
    Ending.REFUSED: (InstanceStatus.REFUSED, ""),
    Ending.BUDGET: (InstanceStatus.BUDGET, ""),
    Ending.REPLAY_EXHAUSTED: (
        InstanceStatus.INFRA_ERROR,
        "the recording has no further reply",
    ),
}
_ATTEMPT_STATUSES: Mapping[str, AttemptStatus] = {
    InstanceStatus.SOLVED: AttemptStatus.PLAUSIBLE,
    InstanceStatus.FAILED: AttemptStatus.TESTS_FAILED,
    InstanceStatus.CONTEXT: AttemptStatus.CONTEXT,
    InstanceStatus.REFUSED: AttemptStatus.ERROR,
    InstanceStatus.BUDGET: AttemptStatus.BUDGET,
    InstanceStatus.INTERRUPTED: AttemptStatus.INTERRUPTED,
}


@dataclass(frozen=True)
class ExerciseServices:
    config: ExercismConfig
    models: LiveModels
    tester: ExerciseTester


@dataclass(frozen=True)
class ExerciseJob:
    """An exercise in a column; ``recordings`` are replayed, None where models are called."""

    exercise: Exercise
    column: ColumnName
    choice: ModelChoice
    recordings: ReplayedModels | None = None

    @property
    def key(self) -> str:
        return self.column.job_key(self.exercise.key)

    @property
    def description(self) -> str:
        return f"{self.exercise.key} {self.column.label}"

    @property
    def group(self) -> str:
        """The exercise: its tests take equally long in all columns."""
        return self.exercise.key

    def portable(self) -> ExerciseJob:
        if self.recordings is None:
            return self
        attempts = {self.key: self.recordings.attempts(self.key)}
        return replace(
            self,
            recordings=replace(self.recordings, read=attempts),
        )

    def start(self, services: ExerciseServices, context: JobContext) -> ExerciseWork:
        return ExerciseWork(self, services, context)


@dataclass
class ExerciseWork:
    """The work on an exercise; all its tries are one attempt.

    Attributes:
        turn: its model writes the edits.
        transcript: all messages and calls so far, also after an exception.
        endings: how each try ended.
        tried: one for each try whose tests ran.
        editors: what the editor and the harness said in each try of a pair.
        edited: how each of these conversations ended.
    """

    job: ExerciseJob
    services: ExerciseServices
    context: JobContext
    turn: Turn | None = None
    transcript: Transcript = field(default_factory=Transcript)
    endings: list[AgentResult] = field(default_factory=list)
    tried: list[TryResult] = field(default_factory=list)
    editors: list[Transcript] = field(default_factory=list)
    edited: list[Result] = field(default_factory=list)

    def run(self) -> End[ExerciseResult]:
        work = self.context.worker.work
        work.mkdir(parents=True, exist_ok=True)
        prefix = f"{self.job.exercise.name}."
        folder = tempfile.TemporaryDirectory(
            dir=work, prefix=prefix, ignore_cleanup_errors=True
        )
        try:
            with folder, self.context.slot:
                self._converse(Path(folder.name))
        except NotRecordedError:
            replay = self.services.config.settings.calls.replay
            reason = f"--replay {replay} has no recording of it"
            return End(InstanceStatus.INFRA_ERROR, reason)
        status, reason = self._ending()
        # Without a call before the budget was used up, nothing is known of the model.
        unknown = status is InstanceStatus.BUDGET and not self.transcript.calls
        if unknown or status not in RESULT_STATUSES:
            return End(status, reason)
        return End(
            status,
            reason,
            self.result(status),
        )

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        job = self.job
        calls = self.transcript.calls
        messages = list(self.transcript.messages)
        for editor in self.editors:
            messages += editor.messages
        # Seconds of calls and tests, those of earlier processes included.
        seconds = self._call_seconds
        for tested in self.tried:
            seconds += tested.seconds
        status = _ATTEMPT_STATUSES.get(end.status, AttemptStatus.INFRA_ERROR)
        values: dict[str, Any] = {
            "model": job.column.model,
            "edit_format": job.choice.edit_format,
            "added_files": job.exercise.solution,
            "status": status,
            "error": self._error(),
            "messages": tuple(messages),
            "calls": tuple(calls),
            "cost": self._cost,
            "reflections": max(len(calls) - 1, 0),
            "seconds": round(seconds, 3),
        }
        if self.turn:
            values["temperature"] = self.turn.temperature
            values["traits"] = self.turn.model.traits
        for result in self._results()[-1:]:
            values["edit_outcome"] = result.edit
            values["edited_files"] = result.edited_files
        for tested in self.tried[-1:]:
            values["model_patch"] = tested.patch
            values["test_outcome"] = tested.solved
        if end.value is None and end.status != InstanceStatus.BUDGET:
            values["error"] = end.reason
        return [Attempt(**values)]

    @property
    def _cost(self) -> Decimal | None:
        return total(call.cost for call in self.transcript.calls)

    @property
    def _call_seconds(self) -> float:
        return sum(call.seconds for call in self.transcript.calls)

    def _error(self) -> str:
        return self.endings[-1].error if self.endings else ""

    def _results(self) -> list[Result]:
        """Return how the conversations ended in which files were edited."""
        results = [ending.result for ending in self.endings]
        return self.edited or list(filter(None, results))

    def _ending(self) -> tuple[InstanceStatus, str]:
        tries = f"try {len(self.tried)}"
        if self.tried and self.tried[-1].solved:
            return InstanceStatus.SOLVED, f"solved in {tries}"
        last = self.endings[-1].result if self.endings else None
        if last is None:
            return InstanceStatus.INFRA_ERROR, "the conversation did not end"
        reason = "no tests ran"
        if self.tried:
            reason = f"tests fail in {tries}"
            if self.tried[-1].timed_out:
                reason = f"tests do not end in time in {tries}"
        default = (InstanceStatus.FAILED, "")
        status, ending_reason = _STATUSES.get(last.ending, default)
        return status, self._error() or ending_reason or reason

    def result(self, status: InstanceStatus) -> ExerciseResult:
        job = self.job
        calls = self.transcript.calls
        usages = list(filter(None, (call.usage for call in calls)))
        counts: Counter[str] = Counter()
        for result in self._results():
            for reply in result.replies:
                counts.update(asdict(reply))
                counts["num_malformed"] += reply.malformed or reply.failed > 0
        output = "\n".join(tested.output for tested in self.tried)
        kinds = ("refused", "failed")
        entries = self.context.calls.entries(job.key)
        errors = sum(entry.kind in kinds for entry in entries)
        hashes = []
        for call in calls:
            request, reply_hash = call.sha256_pair
            hashes.append((request or "", reply_hash))
        is_pair = job.choice.architect is not None
        return ExerciseResult(
            testdir=job.exercise.key,
            testcase=job.exercise.name,
            model=job.column.model,
            edit_format=job.column.edit_format,
            tests_outcomes=tuple(tested.solved for tested in self.tried),
            cost=self._cost,
            duration=round(self._call_seconds, 3),
            test_timeouts=sum(tested.timed_out for tested in self.tried),
            commit_hash=versions()["harness_commit"] or versions()["harness"],
            # A replayed refusal is in no journal.
            num_error_outputs=max(errors, int(status is InstanceStatus.REFUSED)),
            num_exhausted_context_windows=int(status is InstanceStatus.CONTEXT),
            num_malformed_responses=counts["num_malformed"],
            syntax_errors=error_count("SyntaxError", output),
            indentation_errors=error_count("IndentationError", output),
            lazy_comments=sum(map(lazy_comments, calls)),
            editor_model=job.choice.name if is_pair else None,
            editor_edit_format=job.choice.edit_format if is_pair else None,
            reasoning_effort=job.choice.parts[0].settings.reasoning_effort,
            prompt_tokens=sum(usage.prompt_tokens or 0 for usage in usages),
            completion_tokens=sum(usage.completion_tokens or 0 for usage in usages),
            chat_hashes=tuple(hashes),
            extra=Extra(
                status=status,
                language=job.exercise.language,
                repeat=job.column.repeat,
                exercise_sha256=job.exercise.sha256,
                tries=tuple(self.tried),
                error=self._error(),
                whole_file_blocks=counts["whole_file_blocks"],
                hallucinated_functions=counts["unknown_calls"],
                foreign_edits=counts["foreign"] + counts["unsafe"],
                ambiguous_edits=counts["ambiguous"],
                truncated=counts["truncated"],
            ),
        )

    def _converse(self, folder: Path) -> None:
        """Let the model work until a try solves the exercise, or the last one has ended."""
        job = self.job
        settings = self.services.config.settings
        source = job.recordings or self.services.models
        gate = self.context.gate(ATTEMPT, settings.budget.seconds_per_attempt)
        turn = source.turn(
            job.key,
            ATTEMPT,
            job.choice,
            0.0,
            gate,
        )
        waiting = partial(waiting_for_model, self.context.slot, self._note_step)
        turn = turn.with_waiting(waiting)
        self.turn = turn
        write_files(folder, job.exercise.stubs())
        task = self._task(folder, turn.model, turn.edit_format)
        conversation = tries(task)
        if turn.architect:
            conversation = self._plans(task, turn.architect)
        for ending in islice(conversation, settings.models.tries):
            self.endings.append(ending)

    def _note_step(self, step: WorkStep) -> None:
        self.context.step(
            len(self.endings) + 1,
            "",
            step,
        )

    def _task(self, root: Path, model: ChatModel, edit_format: str) -> Task:
        exercise = self.job.exercise
        setup = ConversationSetup(
            system=_SYSTEM,
            opening=_OPENING,
            followup=_AGAIN,
            shown_files=exercise.solution,
            more_files=False,
            as_edited=True,
            lint=False,
            test_unedited=True,
            notation=self.services.config.settings.profile.notation,
            limits=_LIMITS,
        )
        return Task(
            root=root,
            message=first_message(exercise),
            files=FileIndex(exercise.solution),
            model=model,
            model_name="",
            edit_format=edit_format,
            temperature=0.0,
            transcript=self.transcript,
            log=self.context.log.info,
            setup=setup,
            host=OpenHost(test=partial(self._run_tests, root)),
        )

    def _plans(self, task: Task, architect: ChatModel) -> Iterator[AgentResult]:
        """Yield the tries of the architect's conversation: its plan is edited, then tested."""
        plan = PlanFormat()

        def edit_and_test(changes: Mapping[str, bytes | None]) -> TestReport:
            transcript = Transcript(calls=self.transcript.calls)
            self.editors.append(transcript)
            editing = replace(
                task,
                message=plan.plan,
                transcript=transcript,
                setup=replace(task.setup, system=_EDITOR, test_unedited=False),
                host=OpenHost(),
            )
            work = Coder.of(editing).run()
            if work.result:
                self.edited.append(work.result)
            error = error_of(work)
            if error:
                raise error
            return self._run_tests(task.root, changes)

        planning = replace(
            task,
            model=architect,
            setup=replace(task.setup, system=_ARCHITECT),
            host=OpenHost(test=edit_and_test),
        )
        return tries(planning, plan)

    def _run_tests(self, root: Path, _: Mapping[str, bytes | None]) -> TestReport:
        """Run the tests on a fresh folder with the solution files as they are now.

        An editor's changes are not among those of its architect: the files are read.
        """
        self._note_step(WorkStep.TESTING)
        exercise = self.job.exercise
        stubs = exercise.stubs()
        solution = {}
        for path in stubs:
            # A file that the model removed is an empty one: the stub must not come back.
            file = root / path
            solution[path] = file.read_bytes() if file.is_file() else b""
        tested = self.services.tester.test(exercise, solution)
        patch = patch_of(stubs, solution)
        self.tried.append(tested.model_copy(update={"patch": patch}))
        if tested.solved:
            return TestReport(True)
        output = TIMED_OUT
        if not tested.timed_out:
            output = fitting(tested.output, partial(self._fits, solution))
        lines = self.services.config.settings.profile.test_lines
        return TestReport(
            False,
            message=failures_message(
                exercise,
                output,
                lines,
            ),
        )

    def _fits(self, solution: Mapping[str, bytes], output: str) -> bool:
        """Return whether the output of tests leaves room for the rest of the next request.

        A quarter of the window is enough in any case: older messages are left out for it.
        """
        assert self.turn
        model = self.turn.model
        window = window_of(model.traits)
        if window is None or most_tokens(output) <= window // 4:
            return True
        used = size(self.transcript.messages, model.count) + _MESSAGE_TOKENS
        for data in solution.values():
            used += model.count(data.decode(errors="replace"))
        return model.count(output) <= max(window // 4, window - used)
