"""Run models in edit formats on exercises: ``python -m swe_retry_exercises.exercism run``."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path

from swe_retry.kit import (
    Benchmark,
    CallCoordinator,
    DamagedFileError,
    EnvFileOption,
    Finished,
    InstanceResult,
    InstanceStatus,
    JsonFormat,
    LiveModels,
    ProviderRefusalError,
    Redactor,
    RedoOption,
    ReplayedModels,
    Run,
    RunSummary,
    SettingFlag,
    UserError,
    WorkerAccess,
    ask_servers,
    check_folders,
    check_models,
    default_environment,
    in_words,
    known_sum,
    note_images,
    quantity,
    read_models,
    recorded_of,
    replay_folder,
    settings_command,
    start_run,
    sum_words,
    total,
    versions,
    without_logins,
)
from swe_retry_exercises.exercism.catalog import (
    Catalog,
    Exercise,
    fetched_catalog,
    read_catalog,
)
from swe_retry_exercises.exercism.conversation import (
    ATTEMPT,
    ExerciseJob,
    ExerciseServices,
    transcript_text,
)
from swe_retry_exercises.exercism.records import read_columns, write_run_records
from swe_retry_exercises.exercism.results import (
    KEY,
    READER,
    ColumnName,
    ExerciseResult,
    ExerciseStore,
    RunFacts,
    read_facts,
    read_result,
)
from swe_retry_exercises.exercism.settings import (
    ExercismConfig,
    ExercismSettings,
    in_formats,
)
from swe_retry_exercises.exercism.tester import (
    IMAGE,
    ExerciseTester,
    prepare,
    usable_languages,
)
from swe_retry_exercises.options import (
    INSTANCES,
    MODELS,
    SettingsWord,
    refuse,
    shared_flags,
)
from swe_retry_exercises.values import JsonObject, Say, say_aside


class RunProgress:
    """The results of a run so far: by column, what each cost and which try solved it."""

    def __init__(self, columns: Iterable[ColumnName], exercises: int) -> None:
        self._exercises = exercises
        self._ends: dict[ColumnName, list[tuple[Decimal | None, int | None]]] = {
            column: [] for column in columns
        }

    def add(self, result: ExerciseResult) -> None:
        if result.column in self._ends:
            self._ends[result.column].append((result.cost, result.solved_at))

    def lines(self) -> list[str]:
        lines = []
        every = []
        for column, ends in self._ends.items():
            costs = [cost for cost, _ in ends]
            tries = list(filter(None, (solved_at for _, solved_at in ends)))
            done = f"{len(ends)} of {self._exercises} done"
            first = f"{len(tries)} solved ({tries.count(1)} in the first try)"
            lines.append(f"{column.label}: {done}, {first}, {in_words(total(costs))}")
            every += costs
        if every:
            spent = sum_words(known_sum(every), complete=None not in every)
            lines.append(f"cost: {spent}")
        return lines


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
_COMMAND = ("python", "-m", "swe_retry_exercises.exercism", "run")
# A provider that refuses so many first calls refuses all of them.
_MAX_REFUSED = 5


@settings_command(ExercismSettings, "word", FLAGS)
def main(
    settings: ExercismSettings,
    redo: RedoOption = "",
    format: JsonFormat = "text",
    word: SettingsWord = None,
    env_file: EnvFileOption = None,
) -> int:
    """Give exercises to models in edit formats, with tests and further tries.

    The same command continues a run.

    \b
      python -m swe_retry_exercises.exercism run --models gpt-4o --formats whole,diff
    """
    refuse(settings, _UNHEEDED)
    models, book = read_models(settings)
    models = ask_servers(models, settings.calls, wait=True)
    config = ExercismConfig.of(
        settings,
        in_formats(models, settings.models.names, settings.exercises.formats),
        book,
        settings.tests.environment or default_environment(),
    )
    config = replace(config, redo=redo, prints_json=format == "json")
    config.check()
    check_models(config)
    benchmark = _make_benchmark(config)
    try:
        code = start_run(benchmark)
    except ProviderRefusalError as error:
        # It refuses every call: the run says so, and nothing is wrong with the command.
        benchmark.refusal = str(error)
    if not benchmark.refusal:
        return code
    message = without_logins(benchmark.refusal)
    say_aside(benchmark.store.redact(f"error: {message}"))
    return 1


def _make_benchmark(config: ExercismConfig) -> ExerciseBenchmark:
    settings = config.settings.exercises
    catalog = _catalog(settings.folder, config.cache)
    selected = settings.select(catalog.exercises)
    exercises, tools = _usable_exercises(selected, config)
    redact = Redactor.of_environment()
    store = ExerciseStore(config.out, config.run_name, redact, READER)
    check_folders(config)
    return ExerciseBenchmark(config, store, print, catalog, exercises, tools)


def _catalog(folder: Path | None, cache: Path) -> Catalog:
    if folder is None:
        return fetched_catalog(cache)
    return read_catalog(folder)


def _usable_exercises(
    selected: Sequence[Exercise], config: ExercismConfig
) -> tuple[list[Exercise], dict[str, str]]:
    """Return the exercises that can be tested here, and the versions of tools by language."""
    counts = Counter(exercise.language for exercise in selected)
    profile = config.settings.profile
    versions, reasons = usable_languages(
        sorted(counts),
        profile,
        config.environment,
    )
    if not versions:
        problems = "; ".join(dict.fromkeys(reasons.values()))
        raise UserError(f"no exercise can be tested: {problems}")
    for language, reason in reasons.items():
        exercises = quantity(counts[language], "exercise")
        print(f"skipped: {exercises} in {language}: {reason}")
    testable = []
    for exercise in selected:
        if exercise.language in versions:
            testable.append(exercise)
    missing = prepare(testable, config.cache)
    for key, reason in sorted(missing.items()):
        print(f"skipped: {key}: {reason}")
    usable = []
    tools = {}
    for exercise in testable:
        if exercise.key not in missing:
            usable.append(exercise)
            tools[exercise.language] = versions[exercise.language]
    if not usable:
        raise UserError(
            "no exercise is left; install the tools, or choose other --languages"
        )
    return usable, tools


def make_services(
    config: ExercismConfig, testers: list[ExerciseTester], worker: WorkerAccess
) -> ExerciseServices:
    """Build what the jobs of one process share; its tester is added to ``testers``."""
    tester = ExerciseTester(
        profile=config.settings.profile,
        kind=config.environment,
        cache=worker.cache,
        run_key=worker.key,
        check=worker.stop.check,
        warn_once=worker.warn_once,
    )
    testers.append(tester)
    return ExerciseServices(config, LiveModels(config, worker.warn_once), tester)


@dataclass
class ExerciseBenchmark(Benchmark[ExerciseResult]):
    """A run of exercises.

    Results of calls that the provider refused wait for the first call that it answers: five of
    them end the run, and then nothing is kept of them. ``refusal`` has the provider's words then.
    """

    statuses = ("solved", "failed", "context", "refused")
    noun = "exercise"
    packages = ("swe_retry_exercises",)

    config: ExercismConfig
    catalog: Catalog
    exercises: Sequence[Exercise]
    tools: Mapping[str, str]
    refusal: str = ""
    _answered: bool = False
    _refused: list[Finished[ExerciseResult]] = field(default_factory=list)
    _testers: list[ExerciseTester] = field(default_factory=list)

    @cached_property
    def jobs(self) -> Mapping[str, ExerciseJob]:
        replay = self.config.settings.calls.replay
        recordings = None
        if replay is not None:
            recordings = ReplayedModels(replay_folder(replay), self.config.book.aliases)
        jobs = {}
        for column, choice in self.config.columns.items():
            for exercise in self.exercises:
                job = ExerciseJob(exercise, column, choice, recordings)
                jobs[job.key] = job
        if recordings:
            recorded_of(recordings.folder, jobs)
        return jobs

    @property
    def selection(self) -> str:
        exercises = quantity(len(self.exercises), self.noun)
        columns = quantity(len(self.config.columns), "column")
        return f"{exercises} in {columns}: {len(self.jobs)}"

    @cached_property
    def progress(self) -> RunProgress:
        return RunProgress(self.config.columns, len(self.exercises))

    def services(self) -> Callable[[WorkerAccess], ExerciseServices]:
        return partial(make_services, self.config, self._testers)

    def deciding(self) -> JsonObject:
        return {**super().deciding(), "exercises_sha256": self.catalog.sha256}

    def describe(self) -> Run:
        return super().describe().but(test_tools=dict(self.tools))

    def open(self) -> None:
        """Write ``run.json``; exercises and repeats are added to those of earlier starts."""
        profile = self.config.settings.profile
        columns = tuple(self.config.columns)
        exercises = tuple(exercise.key for exercise in self.exercises)
        facts = RunFacts(
            columns=columns,
            exercises=exercises,
            exercises_commit=self.catalog.commit,
            exercises_sha256=self.catalog.sha256,
            profile=profile.name,
            tries=self.config.settings.models.tries,
            timeout=profile.timeout,
            test_lines=profile.test_lines,
            command=without_logins(shlex.join([*_COMMAND, *sys.argv[1:]])),
            started=datetime.now(UTC).date().isoformat(),
            version=versions()["harness"],
        )
        if self.store.has_results() and self.store.run_file.exists():
            earlier = read_facts(self.store.folder)
            both = {
                "columns": tuple(dict.fromkeys(earlier.columns + columns)),
                "exercises": tuple(dict.fromkeys(earlier.exercises + exercises)),
            }
            facts = earlier.model_copy(update=both)
        super().open()
        self.store.update_run(**{KEY: facts.as_json()})

    def prepare_jobs(
        self,
        jobs: Sequence[ExerciseJob],
        say: Say,
    ) -> Sequence[ExerciseJob]:
        for key in self.jobs.keys() - {job.key for job in jobs}:
            with suppress(DamagedFileError, FileNotFoundError):
                self.progress.add(read_result(self.store.prediction(key)))
        return jobs

    def more(self) -> Sequence[str]:
        return self.progress.lines()

    def finish(self) -> None:
        while self._testers:
            self._testers.pop().close()
        if self.containers:
            note_images(self.store, [IMAGE])
        with suppress(OSError, UserError):  # it must not hide what went wrong first
            folders = [self.store.folder]
            write_run_records(
                read_columns(
                    folders,
                    self.say,
                    allow_partial=True,
                )
            )

    def conclusion(self, summary: RunSummary) -> Iterator[str]:
        if not self.refusal:
            yield from super().conclusion(summary)
            for line in self.progress.lines():
                yield f"  {line}"

    def take(
        self, finished: Finished[ExerciseResult], coordinator: CallCoordinator
    ) -> None:
        if self.config.settings.calls.replay is not None:
            self._answered = True
        if any(attempt.calls for attempt in finished.attempts):
            self._answered = True
        kinds = [line.kind for line in coordinator.ledger.lines()]
        if "answered" in kinds:
            self._answered = True
        super().take(finished, coordinator)
        if self._answered:
            while self._refused:
                super().complete(
                    self._refused.pop(0),
                    coordinator,
                )
        elif self.refusal or len(self._refused) == _MAX_REFUSED:
            for refused in self._refused:
                self.refusal = self.refusal or refused.end.reason
                # The same command asks again: what was wrong may be corrected by then.
                coordinator.journal(refused.key).retire()
            self._refused.clear()
            coordinator.stop.request(self.refusal)

    def complete(
        self, finished: Finished[ExerciseResult], coordinator: CallCoordinator
    ) -> None:
        if self._answered or finished.end.status != InstanceStatus.REFUSED:
            super().complete(finished, coordinator)
        else:
            self._refused.append(finished)
            self.keep_unfinished(finished)

    def save(self, finished: Finished[ExerciseResult]) -> None:
        result = finished.end.value
        assert result is not None
        (attempt,) = finished.attempts
        instance = InstanceResult(
            instance_id=finished.key,
            title=f"{result.key}: {result.column.label}",
            model_patch=attempt.model_patch,
            status=finished.end.status,
            reason=finished.end.reason,
            attempts=finished.attempts,
        )
        trajectory = {**self.with_start(instance).trajectory(), "winner": ATTEMPT}
        transcript = transcript_text(result, attempt, finished.end.reason)
        self.store.save_instance(
            finished.key,
            result.as_json(),
            trajectory,
            transcript,
        )
        self.progress.add(result)
