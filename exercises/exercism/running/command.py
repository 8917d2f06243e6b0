"""Run models in edit formats on exercises: ``python -m exercises.exercism run``."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from agent.formats import format_names
from bench.cli.cli import EnvFileOption, JsonFormat
from bench.cli.command_line import (
    INSTANCES,
    MODELS,
    RedoOption,
)
from core.address import without_logins
from core.errors import DamagedFileError, UserError
from core.plaintext import Say, counted
from core.processes import remove_tree
from core.redaction import Redactor
from core.settings import CommandLine, SettingFlag, command
from environments.choice import default_environment
from exercises.exercism.catalog import Catalog, fetched_catalog, read_catalog
from exercises.exercism.exercise import Exercise
from exercises.exercism.reporting.columns import read_columns
from exercises.exercism.reporting.commands import write_run_records
from exercises.exercism.results import (
    KEY,
    READER,
    RESULT_STATUSES,
    ExerciseResult,
    ExerciseStore,
    RunFacts,
    job_key,
    read_facts,
    read_result,
)
from exercises.exercism.running.config import (
    ExercismConfig,
    RunColumn,
    in_formats,
    model_or_pair,
    validated,
)
from exercises.exercism.running.conversation import ExerciseConversation, alike
from exercises.exercism.running.outcome import (
    ExerciseAttempt,
    attempt_of,
    transcript_lines,
)
from exercises.exercism.running.progress import RunProgress
from exercises.exercism.settings import ExercismSettings
from exercises.exercism.testing.tester import ExerciseTester, usable
from exercises.exercism.testing.toolchains import IMAGE, LanguagePlaces, prepare
from exercises.running import refuse, shared_flags
from exercises.settings import SettingsWord, load
from llm.options import ModelChoice
from llm.provider_errors import ProviderRefusalError
from llm.settings import load_settings
from runs.benchmark import Benchmark
from runs.calls.coordinator import CallCoordinator
from runs.calls.journal import EntryKind
from runs.checks import check_folders, check_models
from runs.description import Run
from runs.jobs import End, Finished, JobContext, WorkerAccess
from runs.modelsource import (
    LiveModels,
    ModelSource,
    NotRecordedError,
    ReplayedModels,
    Turn,
    recorded_of,
    replay_folder,
)
from runs.options import RunResources, address_given
from runs.progress.state import WorkStep
from runs.progress.summary_json import RunSummary
from runs.records import Attempt, InstanceResult, InstanceStatus
from runs.session import start_run
from runs.slots import WaitingModel
from runs.storage.manifest import note_images, timestamp
from runs.storage.versions import HARNESS_VERSION

FLAGS = (
    *shared_flags(ExercismSettings),
    SettingFlag("exercises.folder", "--exercises", "FOLDER", INSTANCES, "-e"),
    SettingFlag("exercises.languages", "--languages", "NAME,NAME", INSTANCES),
    SettingFlag("exercises.filter", "--filter", "REGEX", INSTANCES),
    SettingFlag("exercises.slice", "--slice", "A:B", INSTANCES),
    SettingFlag("exercises.formats", "--formats", "NAME,NAME", MODELS),
)
_UNHEEDED = {
    "models.temperatures": "exercises are given at temperature 0; leave it out"
}


@command(ExercismSettings, FLAGS)
def main(
    line: CommandLine[ExercismSettings],
    redo: RedoOption = "",
    format: JsonFormat = "text",
    word: SettingsWord = None,
    env_file: EnvFileOption = None,
) -> int:
    """Give exercises to models in edit formats, with tests and further tries.

    The same command continues a run.

    \b
      python -m exercises.exercism run --models gpt-4o --formats whole,diff
    """
    settings = load(line, word)
    if settings is None:
        return 0
    refuse(settings, _UNHEEDED)
    calls = settings.calls
    address_given(calls.api_base)
    book = load_settings(settings.models.file, format_names())
    parse = partial(
        ModelChoice.parse,
        formats=format_names(),
        book=book,
        any_name=bool(calls.api_base),
        replay=calls.replay is not None,
    )
    names = settings.models.names
    models = [model_or_pair(name, parse) for name in names]
    choices = in_formats(models, names, settings.exercises.formats)
    environment = settings.tests.environment or default_environment()
    config = ExercismConfig(settings, choices, environment, settings.folders.run)
    resources = RunResources.of(
        settings,
        config.called_models,
        book=book,
        redo=redo,
        as_json=format == "json",
    )
    return run_command(config, resources, print)


_COMMAND = ("python", "-m", "exercises.exercism", "run")
# A provider that refuses so many first calls refuses all of them.
_MOST_REFUSED = 5


def run_command(config: ExercismConfig, options: RunResources, say: Say) -> int:
    config = validated(config)
    check_models(config, options.money)
    chosen = config.settings.exercises
    if chosen.folder:
        catalog = read_catalog(chosen.folder.expanduser())
    else:
        catalog = fetched_catalog(options.cache)
    selected = chosen.select(catalog.exercises)
    exercises, tools = _usable(selected, config, options.cache, say)
    store = ExerciseStore(
        options.out, config.run_name, Redactor.of_environment(os.environ), READER
    )
    check_folders(options)
    benchmark = ExerciseBenchmark(
        config, options, store, say, catalog, exercises, tools
    )
    try:
        code = start_run(benchmark)
    except ProviderRefusalError as error:
        # It refuses every call: the run says so, and nothing is wrong with the command.
        code, benchmark.gave_up = 1, str(error)
    if not benchmark.gave_up:
        return code
    print(store.redact(f"error: {without_logins(benchmark.gave_up)}"), file=sys.stderr)
    return 1


def _usable(
    exercises: Sequence[Exercise], config: ExercismConfig, cache: Path, say: Say
) -> tuple[tuple[Exercise, ...], dict[str, str]]:
    languages = sorted({one.language for one in exercises})
    tools, reasons = usable(languages, config.test_settings, config.environment)
    if reasons and not tools:
        raise UserError(
            f"no exercise can be tested: {'; '.join(dict.fromkeys(reasons.values()))}"
        )
    for language, reason in sorted(reasons.items()):
        left = sum(one.language == language for one in exercises)
        say(f"skipped: {counted(left, 'exercise')} in {language}: {reason}")
    known = [one for one in exercises if one.language in tools]
    missing = prepare(known, cache)
    for key, reason in sorted(missing.items()):
        say(f"skipped: {key}: {reason}")
    kept = tuple(one for one in known if one.key not in missing)
    if not kept:
        raise UserError(
            "no exercise is left; install the tools, or choose other --languages"
        )
    return kept, {one.language: tools[one.language] for one in kept}


# The conversation about an exercise is one attempt, with all its tries.
ATTEMPT = 1


@dataclass(frozen=True)
class ExerciseServices:
    config: ExercismConfig
    models: ModelSource
    tester: ExerciseTester


@dataclass(frozen=True)
class SavedExercise:
    """A result with the attempt that it is of."""

    attempt: ExerciseAttempt
    result: ExerciseResult


@dataclass(frozen=True)
class ExerciseJob:
    """An exercise in a column; ``recordings`` are replayed, None where models are called."""

    exercise: Exercise
    column: RunColumn
    recordings: ReplayedModels | None = None

    @property
    def key(self) -> str:
        return job_key(self.column.name, self.exercise.key)

    @property
    def description(self) -> str:
        return f"{self.exercise.key} {self.column.name.label}"

    @property
    def group(self) -> str:
        """The exercise: its tests take equally long in all columns."""
        return self.exercise.key

    def portable(self) -> ExerciseJob:
        if self.recordings is None:
            return self
        read = {self.key: self.recordings.attempts(self.key)}
        return replace(self, recordings=replace(self.recordings, read=read))

    def start(self, services: ExerciseServices, context: JobContext) -> ExerciseWork:
        return ExerciseWork(self, services, context)


@dataclass
class ExerciseWork:
    """The work on an exercise; all its tries are one attempt."""

    job: ExerciseJob
    services: ExerciseServices
    context: JobContext
    _turn: Turn | None = None
    _conversation: ExerciseConversation | None = None

    def run(self) -> End[SavedExercise]:
        work = self.context.worker.work
        work.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=work, prefix=f"{self.job.exercise.name}."))
        try:
            with self.context.slot:
                self._converse(folder)
        except NotRecordedError:
            words = f"--replay {self.services.config.settings.calls.replay} has no recording of it"
            return End(InstanceStatus.INFRA_ERROR, words)
        finally:
            remove_tree(folder)
        attempt = self._attempt()
        # Without a call before the budget was used up, nothing is known of the model.
        unknown = attempt.status is InstanceStatus.BUDGET and not attempt.calls
        if unknown or attempt.status not in RESULT_STATUSES:
            return End(attempt.status, attempt.reason)
        kinds = (EntryKind.REFUSED, EntryKind.FAILED)
        entries = self.context.calls.entries(self.job.key)
        errors = sum(entry.kind in kinds for entry in entries)
        saved = SavedExercise(attempt, attempt.result(errors))
        return End(attempt.status, attempt.reason, saved)

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        attempt = self._attempt()
        if end.value is None and end.status != InstanceStatus.BUDGET:
            status = InstanceStatus.INFRA_ERROR
            if end.status == InstanceStatus.INTERRUPTED:
                status = InstanceStatus.INTERRUPTED
            attempt = attempt.with_end(status, end.reason)
        return [attempt.attempt]

    def _converse(self, folder: Path) -> None:
        job = self.job
        config = self.services.config
        slot = self.context.slot
        source = job.recordings or self.services.models
        seconds = config.settings.budget.seconds_per_attempt
        gate = self.context.gate(ATTEMPT, seconds)
        turn = source.turn(job.key, ATTEMPT, job.column.choice, 0.0, gate)
        models = (turn.model, turn.architect) if turn.architect else (turn.model,)
        asking = [
            WaitingModel(one, slot, self._step)
            for one in alike(models, job.column.name.model)
        ]
        self._turn = turn
        self._conversation = ExerciseConversation(
            exercise=job.exercise,
            config=config,
            edit_format=turn.edit_format,
            model=asking[0],
            architect=asking[1] if turn.architect else None,
            tester=self.services.tester,
            root=folder,
            log=self.context.log.info,
            testing=partial(self._step, WorkStep.TESTING),
        )
        self._conversation.run()

    def _step(self, step: WorkStep) -> None:
        tries = len(self._conversation.works) if self._conversation else 0
        self.context.step(tries + 1, "", step)

    def _attempt(self) -> ExerciseAttempt:
        return attempt_of(
            self.job.exercise, self.job.column, self._turn, self._conversation
        )


def make_services(
    config: ExercismConfig,
    options: RunResources,
    testers: list[ExerciseTester],
    worker: WorkerAccess,
) -> ExerciseServices:
    """Build what the jobs of one process share; its tester is added to ``testers``."""
    places = LanguagePlaces(
        config.environment,
        worker.cache,
        worker.key,
        worker.stop.check,
        worker.warn_once,
    )
    tester = ExerciseTester(config.test_settings, places)
    testers.append(tester)
    models = LiveModels(config, options.retries, worker.warn_once, options.money.prices)
    return ExerciseServices(config, models, tester)


@dataclass
class ExerciseBenchmark(Benchmark[SavedExercise]):
    """A run of exercises.

    Results of calls that the provider refused wait for the first call that it answers: five of
    them end the run, and then nothing is kept of them. ``gave_up`` has the provider's words then.
    """

    words = ("solved", "failed", "context", "refused")
    noun = "exercise"
    packages = ("bench", "reports", "exercises")

    config: ExercismConfig
    options: RunResources
    catalog: Catalog
    exercises: Sequence[Exercise]
    tools: Mapping[str, str]
    gave_up: str = ""
    _answered: bool = False
    _refused: list[Finished[SavedExercise]] = field(default_factory=list)
    _testers: list[ExerciseTester] = field(default_factory=list)

    @cached_property
    def jobs(self) -> Mapping[str, ExerciseJob]:
        columns = self.config.columns
        recordings = None
        keys = [
            job_key(column.name, one.key)
            for column in columns
            for one in self.exercises
        ]
        replay = self.config.settings.calls.replay
        if replay is not None:
            folder = replay_folder(replay)
            recorded_of(folder, keys)
            recordings = ReplayedModels(folder, self.options.book.aliases)
        pairs = [
            (exercise, column) for column in columns for exercise in self.exercises
        ]
        jobs = (ExerciseJob(exercise, column, recordings) for exercise, column in pairs)
        return dict(zip(keys, jobs, strict=True))

    @cached_property
    def progress(self) -> RunProgress:
        names = [column.name for column in self.config.columns]
        return RunProgress.of(names, len(self.exercises))

    def services(self) -> Callable[[WorkerAccess], ExerciseServices]:
        return partial(make_services, self.config, self.options, self._testers)

    def deciding(self) -> dict[str, Any]:
        return {**super().deciding(), "exercises_sha256": self.catalog.sha256}

    def describe(self) -> Run:
        return super().describe().but(test_tools=dict(self.tools))

    def open(self) -> None:
        """Write ``run.json``; exercises and repeats are added to those of earlier starts."""
        config = self.config
        facts = RunFacts(
            columns=tuple(column.name for column in config.columns),
            exercises=tuple(one.key for one in self.exercises),
            exercises_commit=self.catalog.commit,
            exercises_sha256=self.catalog.sha256,
            profile=config.profile.name,
            tries=config.settings.models.tries,
            timeout=config.seconds,
            test_lines=config.lines,
            command=without_logins(shlex.join([*_COMMAND, *sys.argv[1:]])),
            started=timestamp()[:10],
            version=HARNESS_VERSION,
        )
        if self.store.has_results() and self.store.run_file.exists():
            before = read_facts(self.store.folder)
            facts = before.model_copy(
                update={
                    "columns": tuple(dict.fromkeys((*before.columns, *facts.columns))),
                    "exercises": tuple(
                        dict.fromkeys((*before.exercises, *facts.exercises))
                    ),
                }
            )
        super().open()
        self.store.update_run(**{KEY: facts.as_json()})

    def prepared(self, jobs: Sequence[ExerciseJob], say: Say) -> Sequence[ExerciseJob]:
        todo = {job.key for job in jobs}
        for path in (
            self.store.prediction(key) for key in self.jobs if key not in todo
        ):
            if path.exists():
                with suppress(DamagedFileError):
                    self.progress.add(read_result(path))
        return jobs

    def more(self) -> Sequence[str]:
        return self.progress.lines()

    def finish(self) -> None:
        while self._testers:
            self._testers.pop().close()
        if self.containers:
            note_images(self.store, [IMAGE])
        with suppress(OSError, UserError):  # it must not hide what went wrong first
            write_run_records(
                read_columns([self.store.folder], self.say, allow_partial=True)
            )

    def conclusion(self, summary: RunSummary) -> Iterator[str]:
        if not self.gave_up:
            yield from super().conclusion(summary)
            yield from (f"  {line}" for line in self.progress.lines())

    def take(
        self, finished: Finished[SavedExercise], coordinator: CallCoordinator
    ) -> None:
        lines = coordinator.ledger.lines()
        self._answered = (
            self._answered
            or self.config.settings.calls.replay is not None
            or any(one.calls for one in finished.attempts)
            or any(line.kind == EntryKind.ANSWERED.value for line in lines)
        )
        super().take(finished, coordinator)
        if self._answered:
            while self._refused:
                super().complete(self._refused.pop(0), coordinator)
        elif self.gave_up or len(self._refused) == _MOST_REFUSED:
            for one in self._refused:
                self.gave_up = self.gave_up or one.end.reason
                # The same command asks again: what was wrong may be corrected by then.
                coordinator.journal(one.key).retire()
            self._refused.clear()
            coordinator.stop.request(self.gave_up)

    def complete(
        self, finished: Finished[SavedExercise], coordinator: CallCoordinator
    ) -> None:
        if self._answered or finished.end.status != InstanceStatus.REFUSED:
            super().complete(finished, coordinator)
        else:
            self._refused.append(finished)
            self.keep_unfinished(finished)

    def save(self, finished: Finished[SavedExercise]) -> None:
        saved = finished.end.value
        assert saved is not None
        attempt, result = saved.attempt, saved.result
        title = f"{attempt.exercise.key}: {attempt.column.name.label}"
        (record,) = finished.attempts
        done = InstanceResult(
            instance_id=finished.key,
            title=title,
            model_patch=record.model_patch,
            status=finished.end.status,
            reason=finished.end.reason,
            attempts=(record,),
        )
        transcript = "\n".join(transcript_lines(attempt)) + "\n"
        trajectory = {**self.with_start(done).trajectory(), "winner": ATTEMPT}
        self.store.save_instance(finished.key, result.as_json(), trajectory, transcript)
        self.progress.add(result)
