"""Run models in edit formats on exercises: ``python -m exercises.exercism run``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from agent.formats import format_names
from bench.attempts.transcript import SeenTexts, fenced, message_block
from bench.selection import INSTANCES
from core.address import recorded_address, without_logins
from core.atomic import check_folder
from core.errors import DamagedFileError, UserError
from core.money import in_words, total
from core.options import built, command
from core.plaintext import counted, table
from core.redaction import Redactor
from environments.base import EnvironmentKind
from environments.choice import default_environment
from environments.options import TESTS
from exercises.exercism.catalog import Catalog, fetched_catalog, read_catalog
from exercises.exercism.exercise import Exercise
from exercises.exercism.facts import KEY, READER, RunFacts, read_facts
from exercises.exercism.reporting.columns import read_columns
from exercises.exercism.reporting.commands import write_run_records
from exercises.exercism.results import ExerciseStatus, read_result
from exercises.exercism.running.config import (
    ExercismConfig,
    ExercismOptions,
    RunColumn,
    Say,
    in_formats,
    model_or_pair,
    validated,
)
from exercises.exercism.running.job import (
    ATTEMPT,
    ExerciseJob,
    ExerciseServicesFactory,
    ExerciseWork,
)
from exercises.exercism.running.outcome import Played
from exercises.exercism.running.progress import RunProgress
from exercises.exercism.running.store import ExerciseStore, job_key
from exercises.exercism.testing.tester import usable
from exercises.exercism.testing.toolchains import IMAGE, prepare
from llm.options import DEFAULT_MODELS, LIMITS, MODELS, ModelChoice, ModelFile, names_of
from llm.provider_errors import ProviderRefusalError
from llm.settings import load_settings
from runs.calls.budget import MONEY
from runs.calls.coordinator import CallCoordinator
from runs.calls.journal import EntryKind
from runs.calls.ledger import replayed_lines
from runs.calls.rate_limiter import SCALE
from runs.checks import check_models
from runs.given import address_given, models_given
from runs.jobs import Finished, JobKind
from runs.modelsource import ReplayedModels, recorded_of, replay_folder
from runs.options import RUN
from runs.progress.statuses import InstanceStatus
from runs.progress.summary_json import summary_words
from runs.redo import Plan, plan
from runs.run import changed_address, check_remains, open_run
from runs.session import RunSession, model_use
from runs.storage.manifest import all_versions, note_images, note_returned, timestamp
from runs.storage.store import READ_WITH
from runs.upkeep import held_run

GROUPS = (ExercismConfig, ModelFile, ExercismOptions)


@command(*GROUPS, panels=(MODELS, INSTANCES, TESTS, LIMITS, SCALE, MONEY, RUN))
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Run each model in each edit format on exercises, with tests and a second try."""
    address_given(values["api_base"])
    book = load_settings(values["model_settings"], format_names())
    typed = (values["models"] or DEFAULT_MODELS).split(",")
    replay = values["replay"] is not None
    any_name = bool(values["api_base"])

    def one(name: str) -> ModelChoice:
        return models_given(name, book, any_name=any_name, replay=replay)[0]

    models = tuple(model_or_pair(text.strip(), one) for text in typed)
    values["environment"] = values["environment"] or default_environment()
    config = built(ExercismConfig, {**values, "models": models})
    config = replace(config, models=in_formats(models, typed, config.formats))
    options = built(ExercismOptions, values | {"settings": book}, names_of(config.called.models))
    raise typer.Exit(run_command(config, options, print))


# Top-level packages that a worker on another machine needs, beside those of the runs.
_PACKAGES = ("bench", "reports", "exercises")
_COMMAND = ("python", "-m", "exercises.exercism", "run")
_WORDS = {InstanceStatus.PLAUSIBLE: "solved", InstanceStatus.FALLBACK: "failed"}


def run_command(config: ExercismConfig, options: ExercismOptions, say: Say) -> int:
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
    config: ExercismConfig
    options: ExercismOptions
    store: ExerciseStore
    catalog: Catalog
    exercises: Sequence[Exercise]
    tools: Mapping[str, str]
    say: Say

    @cached_property
    def _jobs(self) -> dict[str, tuple[RunColumn, Exercise]]:
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
        if options.as_json:
            self.say(summary.text())
            return summary.exit_code
        self.say(summary_words(summary, _WORDS))
        for line in saver.progress.lines():
            self.say(f"  {line}")
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
        recordings = None
        if self.config.replay is not None:
            folder = replay_folder(self.config.replay)
            recorded_of(folder, self._jobs)
            recordings = ReplayedModels(folder, self.options.settings.aliases)
        found = plan(self.store, self.options.money.limits, [*self._jobs])
        self._open()
        every = counted(len(self._jobs), "exercise")
        say(f"{every} selected, {found.done} done before, {len(found.todo)} to do")
        for words in found.broken.values():
            say(f"left alone: {words}")
        todo = {*found.todo}
        for path in (self.store.prediction(key) for key in self._jobs if key not in todo):
            if path.exists():
                with suppress(DamagedFileError):
                    self._saver.progress.add(read_result(path))
        pairs = (self._jobs[key] for key in found.todo)
        return [ExerciseJob(exercise, column, recordings) for column, exercise in pairs], found

    def _open(self) -> None:
        """Write ``run.json``; exercises and repeats are added to those of earlier starts."""
        config = self.config
        facts = RunFacts(
            columns=tuple(column.name for column in config.columns),
            exercises=tuple(one.key for one in self.exercises),
            exercises_commit=self.catalog.commit,
            exercises_sha256=self.catalog.sha256,
            profile=config.profile.name,
            tries=config.tries,
            timeout=config.seconds,
            test_lines=config.lines,
            command=without_logins(shlex.join([*_COMMAND, *sys.argv[1:]])),
            started=timestamp()[:10],
            version=all_versions()["harness"],
        )
        if self.store.has_results() and self.store.run_file.exists():
            before = read_facts(self.store.folder)
            facts = before.model_copy(
                update={
                    "columns": tuple(dict.fromkeys((*before.columns, *facts.columns))),
                    "exercises": tuple(dict.fromkeys((*before.exercises, *facts.exercises))),
                }
            )
        described = {
            "run": config.run_name,
            READ_WITH: READER,
            "config": config.as_json(),
            "deciding": config.deciding(self.catalog),
            "versions": all_versions(),
            "test_tools": dict(self.tools),
            "started": timestamp(),
        }
        open_run(self.store, described, self._jobs)
        self.store.save_run({**(self.store.read_run() or {}), KEY: facts.as_json()})


# A provider that refuses so many first calls refuses all of them.
_MOST_REFUSED = 5


@dataclass
class ResultSaver:
    """Saves the results of one start of a run.

    Results of calls that the provider refused wait for the first call that it answers: five of
    them end the run, and then nothing is kept of them. ``gave_up`` has the provider's words then.
    """

    store: ExerciseStore
    described: Mapping[str, Any]
    replayed: bool
    progress: RunProgress
    say: Callable[[str], None]
    gave_up: str = ""
    _answered: bool = False
    _refused: list[Finished[ExerciseWork]] = field(default_factory=list)
    _returned: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, finished: Finished[ExerciseWork], coordinator: CallCoordinator) -> None:
        work = finished.value
        if work is None:
            return
        self._note_returned(work.played)
        self._answered = (
            self._answered
            or self.replayed
            or bool(work.played.calls)
            or any(line.kind == EntryKind.ANSWERED.value for line in coordinator.ledger.lines())
        )
        if work.result is None:
            self._keep_unfinished(finished, work.played)
        elif self._answered or work.result.status is not ExerciseStatus.REFUSED:
            self._save(finished, coordinator)
        else:
            self._refused.append(finished)
            self._keep_unfinished(finished, work.played)
        if self._answered:
            while self._refused:
                self._save(self._refused.pop(0), coordinator)
        elif self.gave_up or len(self._refused) == _MOST_REFUSED:
            for one in self._refused:
                self.gave_up = self.gave_up or one.reason
                # The same command asks again: what was wrong may be corrected by then.
                coordinator.journal(one.key).retire()
            self._refused.clear()
            coordinator.stop.request(self.gave_up)

    def _save(self, finished: Finished[ExerciseWork], coordinator: CallCoordinator) -> None:
        assert finished.value is not None and finished.value.result is not None
        played, result = finished.value.played, finished.value.result
        if self.replayed:
            model = result.model
            for line in replayed_lines(finished.key, ATTEMPT, model, played.calls):
                coordinator.ledger.add(line)
        coordinator.ledger.sync()
        trajectory = {
            "instance_id": finished.key,
            "title": f"{played.exercise.key}: {played.column.name.label}",
            "status": played.status.value,
            "reason": played.reason,
            "winner": ATTEMPT,
            "attempts": [played.record().as_trajectory()],
            **self.described,
        }
        self.store.save_instance(finished.key, result.as_json(), trajectory, transcript(played))
        self.progress.add(result)

    def _keep_unfinished(self, finished: Finished[ExerciseWork], played: Played) -> None:
        content = {
            "instance_id": finished.key,
            "status": played.status.value,
            "reason": finished.reason,
            "attempts": [played.record().as_trajectory()],
        }
        try:
            self.store.save_unfinished(finished.key, content)
        except OSError as error:  # a full disk must not hide what went wrong first
            self.say(f"{finished.key}: cannot save what was done: {error}")

    def _note_returned(self, played: Played) -> None:
        """Note the names of models in replies at once, because the run may be killed."""
        name = played.column.name.model
        named = {(name, call.reply.model) for call in played.calls if call.reply.model}
        if new := named - self._returned:
            self._returned.update(new)
            with suppress(OSError):  # a full disk must not take what others do
                note_returned(self.store, new)


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
