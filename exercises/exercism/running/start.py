"""Start a run of exercises: what is to do, the session, the record, and the last lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from core.address import recorded_address, without_logins
from core.atomic import check_folder
from core.errors import DamagedFileError, UserError
from core.plaintext import counted
from core.redaction import Redactor
from environments.base import EnvironmentKind
from exercises.exercism.catalog import Catalog, fetched_catalog, read_catalog
from exercises.exercism.exercise import Exercise
from exercises.exercism.facts import KEY, READER, read_facts
from exercises.exercism.reporting.columns import read_columns
from exercises.exercism.reporting.commands import write_run_records
from exercises.exercism.results import ExerciseResult, read_result
from exercises.exercism.running.config import (
    ExercismConfig,
    ExercismOptions,
    RunColumn,
    Say,
    validated,
)
from exercises.exercism.running.described import describe_run, run_facts, together
from exercises.exercism.running.job import ExerciseJob, ExerciseServicesFactory
from exercises.exercism.running.progress import RunProgress
from exercises.exercism.running.saving import ResultSaver
from exercises.exercism.running.store import ExerciseStore, job_key
from exercises.exercism.testing.preparing import prepare
from exercises.exercism.testing.tester import IMAGE
from exercises.exercism.testing.usable import usable
from llm.provider_errors import ProviderRefusalError
from runs.calls.coordinator import CallCoordinator
from runs.calls.modelsource import ReplayedModels, recorded_of, replay_folder
from runs.checks import check_models
from runs.jobs import JobKind
from runs.progress.statuses import InstanceStatus
from runs.progress.summary_json import RunSummary, summary_words
from runs.redo import Plan, plan
from runs.run import changed_address, check_remains, open_run
from runs.session import RunSession, model_use
from runs.storage.manifest import all_versions, note_images
from runs.upkeep import held_run

# Top-level packages that a worker on another machine needs, beside those of the runs.
_PACKAGES = ("bench", "reports", "exercises")
_WORDS = {InstanceStatus.PLAUSIBLE: "solved", InstanceStatus.FALLBACK: "failed"}


def run_command(config: ExercismConfig, options: ExercismOptions, say: Say) -> int:
    """Run, and return the exit code.

    Raises:
        UserError: the user has to fix something.
        InfrastructureError: the exercises cannot be fetched.
    """
    config = validated(config)
    check_models(config.called, options.money)
    catalog = (
        read_catalog(config.exercises.expanduser())
        if config.exercises
        else fetched_catalog(options.cache)
    )
    selected = options.selection.of(catalog.exercises)
    exercises, tools = _usable(selected, config, options.cache, say)
    store = ExerciseStore(options.out, config.run_name, Redactor.of_environment(os.environ), READER)
    for option, folder in (("--out", options.out), ("--cache", options.cache)):
        check_folder(option, folder)
    check_remains(store)
    containers = config.environment is EnvironmentKind.DOCKER
    with held_run(store, options.cache, say, containers=containers):
        return _Session(config, options, store, catalog, exercises, tools, say).run()


def _usable(
    exercises: Sequence[Exercise], config: ExercismConfig, cache: Path, say: Say
) -> tuple[tuple[Exercise, ...], dict[str, str]]:
    """Return the exercises whose tests can run here, and the versions of their languages' tools.

    The others are named.

    Raises:
        UserError: none is left.
    """
    languages = sorted({one.language for one in exercises})
    tools, reasons = usable(languages, config.test_settings, config.environment)
    if reasons and not tools:
        raise UserError(f"no exercise can be tested: {'; '.join(dict.fromkeys(reasons.values()))}")
    for language, reason in sorted(reasons.items()):
        left = sum(one.language == language for one in exercises)
        say(f"skipped: {counted(left, 'exercise')} in {language}: {reason}")
    known = [one for one in exercises if one.language in tools]
    missing = prepare(known, cache)
    for key, reason in sorted(missing.items()):
        say(f"skipped: {key}: {reason}")
    kept = tuple(one for one in known if one.key not in missing)
    if not kept:
        raise UserError("no exercise is left; install the tools, or choose other --languages")
    return kept, {one.language: tools[one.language] for one in kept}


@dataclass(frozen=True)
class _Session:
    """The start of a run whose lock this process holds."""

    config: ExercismConfig
    options: ExercismOptions
    store: ExerciseStore
    catalog: Catalog
    exercises: Sequence[Exercise]
    tools: Mapping[str, str]
    say: Say

    @cached_property
    def _jobs(self) -> dict[str, tuple[RunColumn, Exercise]]:
        """Column and exercise by the key of the job."""
        return {
            job_key(column.name, exercise.key): (column, exercise)
            for column in self.config.columns
            for exercise in self.exercises
        }

    @cached_property
    def _saver(self) -> ResultSaver:
        described = {"config": self.config.as_json(), "versions": all_versions()}
        names = [column.name for column in self.config.columns]
        progress = RunProgress.of(names, len(self.exercises))
        replayed = self.config.replay is not None
        return ResultSaver(self.store, described, replayed, progress, self.say)

    def run(self) -> int:
        """Work on what is to do and return the exit code."""
        config, options = self.config, self.options
        factory = ExerciseServicesFactory(config, options)
        saver = self._saver
        kind = JobKind(
            services=factory,
            save=saver,
            finish=lambda: self._finish(factory),
            packages=_PACKAGES,
            containers=config.environment is EnvironmentKind.DOCKER,
            words=_WORDS,
            more=saver.progress.lines,
        )
        try:
            summary = RunSession(
                self.store, options.cache, options.scale, options.money, kind,
                model_use(config.called, options.money), self._choose, self.say,
            ).run()  # fmt: skip
        except ProviderRefusalError as error:
            # It refuses every call: the run says so, and nothing is wrong with the command.
            return self._refused(str(error))
        if saver.gave_up:
            return self._refused(saver.gave_up)
        self._print(summary)
        return summary.exit_code

    def _refused(self, words: str) -> int:
        print(self.store.redact(f"error: {without_logins(words)}"), file=sys.stderr)
        return 1

    def _finish(self, factory: ExerciseServicesFactory) -> None:
        factory.close()
        if self.config.environment is EnvironmentKind.DOCKER:
            note_images(self.store, [IMAGE])
        with suppress(OSError, UserError):  # it must not hide what went wrong first
            write_run_records(read_columns([self.store.folder], self.say, allow_partial=True))

    def _choose(self, coordinator: CallCoordinator, say: Say) -> tuple[Sequence[ExerciseJob], Plan]:
        if changed := changed_address(self.store, recorded_address(self.config.api_base)):
            say(changed)
        recordings = self._recordings()
        found = plan(self.store, self.options.money.limits, [*self._jobs])
        self._open()
        every = counted(len(self._jobs), "exercise")
        say(f"{every} selected, {found.done} done before, {len(found.todo)} to do")
        for words in found.broken.values():
            say(f"left alone: {words}")
        for result in self._done({*found.todo}):
            self._saver.progress.add(result)
        pairs = (self._jobs[key] for key in found.todo)
        return [ExerciseJob(exercise, column, recordings) for column, exercise in pairs], found

    def _recordings(self) -> ReplayedModels | None:
        if self.config.replay is None:
            return None
        folder = replay_folder(self.config.replay)
        recorded_of(folder, self._jobs)
        return ReplayedModels(folder, self.options.settings.aliases)

    def _done(self, todo: set[str]) -> Iterator[ExerciseResult]:
        """Yield the results of earlier starts that stay."""
        for key in self._jobs:
            path = self.store.prediction(key)
            if key not in todo and path.exists():
                with suppress(DamagedFileError):
                    yield read_result(path)

    def _open(self) -> None:
        """Write ``run.json``; exercises and repeats are added to those of earlier starts."""
        facts = run_facts(self.config, self.catalog, self.exercises)
        if self.store.has_results() and self.store.run_file.exists():
            facts = together(read_facts(self.store.folder), facts)
        open_run(self.store, describe_run(self.config, self.catalog, self.tools), self._jobs)
        described: dict[str, Any] = self.store.read_run() or {}
        self.store.save_run({**described, KEY: facts.as_json()})

    def _print(self, summary: RunSummary) -> None:
        if self.options.as_json:
            self.say(summary.text())
            return
        self.say(summary_words(summary, _WORDS))
        for line in self._saver.progress.lines():
            self.say(f"  {line}")
