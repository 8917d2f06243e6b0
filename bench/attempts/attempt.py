"""One attempt on a fresh checkout: the model's turn, the agent's work, and its outcomes."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

from agent.agents import BUILTIN
from agent.builtin import BuiltinAgent
from agent.conversation.base import ConversationLimits, Ending, Result
from agent.conversation.mentions import FileIndex
from agent.conversation.testreport import TestReport
from agent.conversation.testreport import describe as describe_failures
from agent.lint import (
    Change,
    InterpreterCompiler,
    Linter,
    OwnCompiler,
    RememberingCompiler,
)
from agent.lint import describe as describe_findings
from agent.prompts import render
from agent.protocol import Agent, AgentResult, Task, Transcript
from agent.repomap import RenderedMaps, TagStore
from agent.workspace import TextFile
from bench.attempts.predicted import Examined, base_reader, examine, files_in_submodules
from bench.config import RunConfig
from bench.instances.instance import Instance
from bench.regression.suite import RegressionTests, SuiteReport
from bench.regression.testconfig import ConfigurationEdits
from bench.repos.checkout import Checkout, Snapshots
from bench.repos.lefttree import UnusableTreeError, take_over
from bench.repos.mirrors import Mirrors
from bench.repos.patches import take_patch
from core.errors import InfrastructureError, StoppedError, UserError
from core.git import git
from core.plaintext import some
from core.worktree import Changes
from environments.base import Environment, EnvironmentKind
from environments.docker.imagestore import ImageStore
from environments.local.venvs import find_python
from llm.chat import BudgetUsedError, ChatModel, Message, request_sha256
from llm.gate import Answered, Failed, Gate, PlannedCall
from llm.options import ModelChoice
from llm.tracing import OUTCOME, TracedGate, Tracing, note_error
from runs.jobs import JobContext
from runs.modelsource import ModelSource, NotRecordedError, Turn
from runs.patches import submittable_patch
from runs.progress.state import WorkStep
from runs.records import BROKEN, Attempt, AttemptStatus, status_by
from runs.slots import WaitingModel


@dataclass(frozen=True)
class Services:
    """The run's configuration, and what this process has once for all its instances."""

    config: RunConfig
    mirrors: Mirrors
    snapshots: Snapshots
    tags: TagStore
    environment: Environment
    models: ModelSource
    agent: Agent = field(default_factory=BuiltinAgent)
    images: ImageStore | None = None
    tracing: Tracing | None = None

    def pinned(self, instance: Instance) -> AbstractContextManager[object]:
        """Keep the image of ``instance`` meanwhile; raises as ``ImageStore.pinned``."""
        if self.images is None or instance.test_setup is None:
            return nullcontext()
        return self.images.pinned(instance.image)


@dataclass(frozen=True)
class ToldOf:
    """What an attempt is told of earlier ones, and their numbers."""

    words: str = ""
    attempts: tuple[int, ...] = ()


@dataclass(frozen=True)
class AttemptWork:
    """The work on one attempt at an instance.

    Attributes:
        number: from 1 over the whole instance.
        repo_map: maps of the base commit; None where no model reads them.
        linter: checks edited files with the compiler of the instance's Python.
        reports: what the tests said of each tree that the agent had, in their order.
        told: of the attempts before it.
    """

    instance: Instance
    services: Services
    number: int
    checkout: Checkout
    files: FileIndex
    repo_map: RenderedMaps | None
    tests: RegressionTests | None
    linter: Linter
    context: JobContext
    save: Callable[[Attempt], None]
    reports: list[SuiteReport] = field(default_factory=list)
    told: ToldOf = field(default_factory=ToldOf)
    traced: Callable[[Gate], Gate] = lambda gate: gate

    def run(self) -> Attempt:
        """Let the agent work and return the record; an exception in it is part of the record."""
        config, name = self.services.config, self.instance.instance_id
        choice = config.models[(self.number - 1) % len(config.models)]
        tracing = self.services.tracing
        if tracing is None:
            return self._run(choice)
        agent = choice.edit_format if config.outside_agent else BUILTIN
        with tracing.attempt(name, self.number, choice.label, agent) as span:
            traced = partial(TracedGate, tracing=tracing, attempt=span)
            record = replace(self, traced=traced)._run(choice)
            span.set_attribute(OUTCOME, str(record.status))
            tracing.note_messages(span, "gen_ai.input.messages", record.messages or ())
            if record.status in BROKEN:
                note_error(span, str(record.status))
        return record

    def _run(self, choice: ModelChoice) -> Attempt:
        config = self.services.config
        try_ = (self.number - 1) // len(config.models) + 1
        record = Attempt(
            attempt=self.number,
            try_=try_,
            model=choice.name,
            edit_format=choice.edit_format,
            temperature=config.temperature(try_),
            told_of=self.told.attempts,
            messages=(),
            calls=(),
            cost=Decimal(),
            reflections=0,
            seconds=0.0,
        )
        started = time.monotonic()
        name = self.instance.instance_id
        try:
            wanted = config.temperature(try_)
            turn = self.services.models.turn(
                name, self.number, choice, wanted, self._gate()
            )
        except NotRecordedError:
            return record.but(
                status=AttemptStatus.NOT_RECORDED,
                error=f"--replay {config.replay} has no recording of it",
            )
        traits = None if config.outside_agent else turn.model.traits
        record = record.but(
            model=turn.name,
            edit_format=turn.edit_format,
            traits=traits,
            temperature=turn.temperature,
        )
        self._step(turn.name, WorkStep.MAP)
        record = self._work(record, self._task(record, turn))
        return record.but(seconds=round(time.monotonic() - started, 3))

    def _gate(self) -> Gate:
        gate = self.context.gate(
            self.number, self.services.config.max_seconds_per_attempt
        )
        return self.traced(gate)

    def _task(self, record: Attempt, turn: Turn) -> Task:
        config = self.services.config
        replay_on = (
            config.replay is not None and config.environment is EnvironmentKind.NONE
        )
        task = make_task(
            config, self.instance, self.checkout, turn, self.files, self.repo_map
        )
        model: ChatModel = turn.model
        if not config.has_gateway and not config.candidates_of:
            step = partial(self._step, turn.name)
            model = WaitingModel(model, self.context.slot, step, self.checkout.settle)
        message = (
            f"{task.message.rstrip()}\n\n{self.told.words}"
            if self.told.words
            else task.message
        )
        return replace(
            task,
            message=message,
            model=model,
            temperature=config.temperature(record.try_),
            limits=replace(task.limits, until_exhausted=replay_on),
            run_tests=partial(self._tested, turn.name) if self.tests else None,
            linter=self.linter,
            log=self.context.log.info,
        )

    def _work(self, record: Attempt, task: Task) -> Attempt:
        said = task.transcript
        try:
            work = self._worked(task)
            return self._finished(record, task, work)
        except (InfrastructureError, UserError, OSError):
            self.save(_with_conversation(record, said, AttemptStatus.INFRA_ERROR))
            raise
        except (StoppedError, KeyboardInterrupt):
            self.save(_with_conversation(record, said, AttemptStatus.INTERRUPTED))
            raise
        except Exception:  # an attempt must not take the run with it
            record = _with_conversation(record, said, AttemptStatus.ERROR)
            return record.but(error=traceback.format_exc())

    def _worked(self, task: Task) -> AgentResult:
        if not isinstance(self.services.agent, BuiltinAgent):
            # The builtin agent asks a model before it writes; others may write at once.
            self.checkout.settle()
        if not self.services.config.outside_agent:
            return self.services.agent.work(task)
        work, most = self._outside_worked(task), self.services.config.feedback
        for number in range(1, most + 1):
            if work.ending is not None or not (problem := self._problem(task)):
                break
            self.context.log.info("feedback %d of %d: %s", number, most, problem)
            message = render("feedback", issue=task.message, problem=problem)
            work = self._outside_worked(replace(task, message=message))
        return work

    def _outside_worked(self, task: Task) -> AgentResult:
        if not self.services.config.has_gateway:
            try:
                return self._command_worked(task, self._gate())
            except BudgetUsedError as error:
                return AgentResult(
                    Result(Ending.BUDGET, None, None, None, (), (), 0), str(error)
                )
        self._step(task.model_name, WorkStep.ASKING)
        with self.context.slot.given_back():
            work = self.services.agent.work(task)
            self.context.worker.stop.check_at_once()
        return work

    def _problem(self, task: Task) -> str:
        """Return what is wrong with the tree that an agent left, in words for it."""
        try:
            take_over(self.checkout)
        except UnusableTreeError:
            return ""
        changes, base = changes_of(self.checkout), base_reader(self.checkout)
        found = task.linter.new_findings(changed_texts(changes, base))
        if found:
            texts = {
                path: TextFile.decode(data).text
                for path, data in changes.items()
                if data
            }
            return render("lint_failed", findings=describe_findings(found, texts))
        report = task.run_tests(changes) if changes and task.run_tests else None
        if report is None or report.outcome is not False:
            return ""
        failures = describe_failures(report.failures, ())
        return report.message or render("tests_failed", report=failures)

    def _command_worked(self, task: Task, gate: Gate) -> AgentResult:
        """Run a command: it calls models itself, so the run is charged with what it reports."""
        asked = request_sha256([Message("user", task.message)])
        # Like a call of a model, it is mostly waiting.
        with self.context.slot.given_back():
            ticket = gate.begin(PlannedCall(task.model_name, "command", asked, 0, None))
            try:
                work = self.services.agent.work(task)
                # Killed at a forced shutdown: it did not end, and may be billed.
                self.context.worker.stop.check_at_once()
            except BaseException as error:
                gate.end(ticket, Failed(str(error), transient=False, billed=True))
                raise
            gate.end(ticket, Answered(task.transcript.calls[-1]))
            return work

    def _step(self, model: str, step: WorkStep) -> None:
        self.context.step(self.number, model, step)

    def _tested(self, model: str, changes: Changes) -> TestReport:
        assert self.tests is not None
        self.context.worker.stop.check()
        self._step(model, WorkStep.TESTING)
        report = self.tests.run(changes)
        self.reports.append(report)
        return report

    def _finished(self, record: Attempt, task: Task, work: AgentResult) -> Attempt:
        try:
            left = () if work.result else take_over(self.checkout)
        except UnusableTreeError as error:
            early = ended_early(work.ending or Ending.FAILED, task.limits)
            status = early or AttemptStatus.ERROR
            words = "; ".join(filter(None, (work.error, str(error))))
            return _with_conversation(record, task.transcript, status).but(error=words)
        for one in left:
            self.context.log.info("dropped: %s", one)
        result = work.result or check_outcomes(
            self.checkout, task.linter, task.run_tests
        )
        if work.ending is not None:
            result = replace(result, ending=work.ending)
        # The tree of an outside agent counts as its commit would: without ignored files.
        raw = take_patch(self.checkout, ignored=work.result is not None)
        fit = submittable_patch(raw)
        last = self.reports[-1] if self.reports else SuiteReport(None)
        # Lint comes before tests, so that none ran on the last tree where it is not clean.
        ran = last.tested if self.reports and result.lint else None
        found = examine(self.checkout, raw, fit.patch, ran)
        faults = faults_of(found, files_in_submodules(self.checkout))
        test = None if ran is None or found.differing else result.test
        configures = found.edits is not ConfigurationEdits.NONE
        attempt = _with_conversation(record, task.transcript).but(
            model_patch=raw,
            applies=found.applies,
            edit_outcome=result.edit,
            lint_outcome=result.lint,
            test_outcome=test,
            untested=last.untested if test is None else "",
            test_note=last.note if ran is not None else "",
            edits_test_configuration=configures or last.suspect,
            dropped_files=(*(found.path for found in left), *fit.dropped),
            added_files=result.chat_files,
            edited_files=result.edited_files,
            reflections=result.reflections,
            failing=tuple(failure.name for failure in last.failures),
            error="; ".join(filter(None, (work.error, faults))),
        )
        ended = status_of(found, result.ending, task.limits)
        return attempt.but(status=status_by(attempt, ended))


def make_task(
    config: RunConfig,
    instance: Instance,
    checkout: Checkout,
    turn: Turn,
    files: FileIndex,
    repo_map: RenderedMaps | None,
) -> Task:
    """Return the task of an agent alone: without tests, and without the rest of a run."""
    rendered = repo_map and repo_map.render(
        checkout.root,
        instance.problem_statement,
        config.map_tokens,
        count=turn.model.count,
        counter=turn.counter,
    )
    return Task(
        root=checkout.root,
        message=instance.problem_statement,
        repo_map=rendered or "",
        files=files,
        model=turn.model,
        model_name=turn.name,
        edit_format=turn.edit_format,
        temperature=config.temperature(1),
        limits=ConversationLimits(config.max_reflections),
        run_tests=None,
        matching=config.matching,
        on_failure=config.on_failed_edit,
        submodules=frozenset(checkout.snapshot.submodules),
        transcript=Transcript(),
        log=lambda _: None,
        image_urls=instance.image_urls,
    )


def _with_conversation(
    record: Attempt, transcript: Transcript, status: AttemptStatus | str = ""
) -> Attempt:
    return record.with_call(transcript.messages, *transcript.calls).but(status=status)


def linter_for(instance: Instance) -> Linter:
    """Return a linter that compiles as the interpreter does which the instance's spec names.

    Any interpreter of that version on this machine is enough, because code is only compiled.
    Without one the harness's own compiler is used.
    """
    version = instance.spec.python if instance.spec else ""
    if version == ".".join(map(str, sys.version_info[:2])):
        return Linter(
            RememberingCompiler(OwnCompiler(version))
        )  # no process has to be started
    python = find_python(version) if version else None
    return Linter(RememberingCompiler(InterpreterCompiler(python)) if python else None)


_EARLY = {
    Ending.REFUSED: AttemptStatus.ERROR,
    Ending.CONTEXT: AttemptStatus.CONTEXT,
    Ending.BUDGET: AttemptStatus.BUDGET,
    Ending.TIME: AttemptStatus.TIMEOUT,
    Ending.FAILED: AttemptStatus.ERROR,
}


def status_of(
    found: Examined, ending: Ending, limits: ConversationLimits
) -> AttemptStatus | None:
    """Return the status of a patch that is never plausible, else how the conversation ended."""
    early = ended_early(ending, limits)
    if early in BROKEN or not found.applies:
        return early
    if found.differing:
        return AttemptStatus.TREE_DIFFERS
    if found.edits is ConfigurationEdits.ALL:
        return AttemptStatus.ONLY_TEST_CONFIGURATION
    return early


def faults_of(found: Examined, lost: Sequence[str]) -> str:
    """Return in words what is wrong with a tree; ``lost`` are its files in submodules."""
    words = [f"not predicted, in a submodule: {_named(lost)}"] if lost else []
    if found.differing:
        words.append(
            f"the tested tree is not the predicted one: {_named(found.differing)}"
        )
    return "; ".join(words)


def _named(paths: Sequence[str]) -> str:
    return some([*map(ascii, paths)], 3)


def ended_early(ending: Ending, limits: ConversationLimits) -> AttemptStatus | None:
    """Return the status of a conversation that did not end by its outcomes."""
    if ending in _EARLY:
        return _EARLY[ending]
    exhausted = ending is Ending.REPLAY_EXHAUSTED and not limits.until_exhausted
    return AttemptStatus.REPLAY_EXHAUSTED if exhausted else None


def check_outcomes(
    checkout: Checkout,
    linter: Linter,
    run_tests: Callable[[Changes], TestReport] | None,
) -> Result:
    """Return the outcomes of the tree: changed at all, no new fatal finding, no newly failing test.

    ``take_over`` must have prepared the tree.
    """
    changes, base = changes_of(checkout), base_reader(checkout)
    clean = not linter.new_findings(changed_texts(changes, base)) if changes else None
    test = run_tests(changes).outcome if clean and run_tests else None
    return Result(
        ending=Ending.DONE,
        edit=True if changes else None,
        lint=clean,
        test=test,
        chat_files=(),
        edited_files=tuple(changes),
        reflections=0,
    )


def changed_texts(changes: Changes, base: Callable[[str], str | None]) -> list[Change]:
    """Return the files that the linter compares; ``base`` reads the base commit."""
    kept = [(path, data) for path, data in changes.items() if data is not None]
    return [Change(path, base(path), TextFile.decode(data).text) for path, data in kept]


def changes_of(checkout: Checkout) -> Changes:
    """Return the present bytes of every file that differs from the base commit, by path, sorted.

    New files that the tree ignores are left out; a file that became a link counts as gone.
    """
    root = checkout.root
    git("add", "--all", ".", cwd=root)
    listing = git(
        "diff",
        "--cached",
        "--name-status",
        "--no-renames",
        "-z",
        checkout.base_commit,
        cwd=root,
    )
    words = listing.decode("utf-8", "surrogateescape").split("\0")
    changes: dict[str, bytes | None] = {}
    for status, path in sorted(
        zip(words[::2], words[1::2], strict=False), key=lambda w: w[1]
    ):
        place = root / path
        there = status != "D" and place.is_file() and not place.is_symlink()
        changes[path] = place.read_bytes() if there else None
    return changes
