"""Ask models for completions: ``python -m exercises.canitedit generate --models gpt-4o``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from core.address import recorded_address
from core.atomic import check_folder
from core.errors import DamagedFileError, InfrastructureError, UserError
from core.money import as_number, dollars_or_none, total
from core.options import built, command
from core.plaintext import counted
from core.redaction import Redactor
from exercises.canitedit.generation.config import (
    READER,
    GenerationConfig,
    GenerationModels,
    GenerationOptions,
    checked_config,
    chosen_models,
    model_folders,
    problems_identity,
)
from exercises.canitedit.generation.job import CompletionJob, Generated, GenerationServices
from exercises.canitedit.problems import load_problems
from exercises.canitedit.results import Completion, ProblemFile, file_name, write_file
from llm.options import LIMITS, MODELS, names_of
from llm.registry import place
from runs.calls.budget import MONEY
from runs.calls.coordinator import CallCoordinator
from runs.calls.rate_limiter import SCALE
from runs.checks import check_models
from runs.given import address_given
from runs.jobs import Finished, JobKind, WorkerAccess
from runs.modelsource import LiveModels
from runs.options import RUN
from runs.progress.overview import recorded_status
from runs.progress.statuses import InstanceStatus
from runs.progress.summary_json import over_budget_words, summary_words
from runs.redo import Plan, Redo, plan, prepare
from runs.run import changed_address, check_remains, open_run
from runs.session import RunSession, Say, model_use
from runs.storage.manifest import all_versions, timestamp
from runs.storage.store import READ_WITH, RunStore
from runs.upkeep import clean_command, held_run, status_command

_WORDS = {InstanceStatus.PLAUSIBLE: "generated"}
# A job mostly waits for its model.
_CPUS = 0.25


@command(
    GenerationConfig,
    GenerationModels,
    GenerationOptions,
    panels=(MODELS, LIMITS, SCALE, MONEY, RUN),
)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Ask models for edited programs; the same command continues a run."""
    address_given(values["api_base"])
    # A run that is named is looked at without litellm, which knows models and takes a second.
    named = bool(values["run"]) and (values["status"] or values["clean"])
    values["models"] = () if named else chosen_models(values)
    config = built(GenerationConfig, values)
    options = built(GenerationOptions, values, str if named else names_of(config.models))
    config = checked_config(config)
    if options.clean_all and not options.clean:
        raise UserError("--all is for --clean; give both to remove a run")
    store = RunStore(
        options.out, config.run_name, Redactor.of_environment(os.environ), reader=READER
    )
    if options.clean:
        everything, yes = options.clean_all, options.yes
        raise typer.Exit(clean_command(store, options.cache, print, everything=everything, yes=yes))
    if options.status:
        raise typer.Exit(status_command(store, print, _status, as_json=options.as_json))
    raise typer.Exit(generate(config, options, store, print))


def _status(record: Mapping[str, Any]) -> str:
    status = recorded_status(record)
    return _WORDS[InstanceStatus.PLAUSIBLE] if status == InstanceStatus.PLAUSIBLE else status


@dataclass(frozen=True)
class GenerationFactory:
    """Builds the services of jobs in one process; see ``JobKind``."""

    config: GenerationConfig
    options: GenerationOptions

    def __call__(self, worker: WorkerAccess) -> GenerationServices:
        check_models(self.config, self.options.money)
        prices, retries = self.options.money.prices, self.options.retries
        models = LiveModels(self.config, retries, worker.warn_once, prices)
        worker.work.mkdir(parents=True, exist_ok=True)
        return GenerationServices(self.config, worker, models, worker.work)


def generate(
    config: GenerationConfig, options: GenerationOptions, store: RunStore, say: Say
) -> int:
    """Ask for what the run lacks, and return the exit code."""
    problems = load_problems(options.problems)
    for name, folder in (("--out", options.out), ("--cache", options.cache)):
        check_folder(name, folder)
    check_models(config, options.money)
    if not config.via and not config.whole.is_chat:
        for model in config.models:
            place(model.name, config.api_base, config.call_timeout, text=True)
    folders = model_folders(config.models)
    jobs = tuple(
        CompletionJob(problem, kind, choice, folders[choice.name])
        for choice in config.models
        for problem in problems
        for kind in config.kinds
    )
    check_remains(store)
    with held_run(store, options.cache, say, containers=False):
        identity = problems_identity(problems, options.problems)
        return _Generation(config, options, store, jobs, identity, say).run()


@dataclass(frozen=True)
class _Generation:
    config: GenerationConfig
    options: GenerationOptions
    store: RunStore
    jobs: Sequence[CompletionJob]
    identity: dict[str, str]
    say: Say
    chosen: list[CompletionJob] = field(default_factory=list)

    def run(self) -> int:
        options, store = self.options, self.store
        kind = JobKind(
            services=GenerationFactory(self.config, options),
            save=CompletionSaver(store, {job.key: job.folder for job in self.jobs}, self.say),
            packages=("bench", "demo", "exercises"),
            cpus=_CPUS,
            words=_WORDS,
        )
        session = RunSession(
            store, options.cache, options.scale, options.money, kind,
            model_use(self.config, options.money), self._choose, self.say,
        )  # fmt: skip
        try:
            summary = session.run()
        except UserError as error:
            if not self.chosen:
                raise
            # Of the provider: the configuration was accepted before.
            raise InfrastructureError(str(error)) from error
        if options.as_json:
            self.say(summary.text())
            return summary.exit_code
        for line in folder_lines(store, self.jobs):
            self.say(line)
        self.say(summary_words(summary, _WORDS))
        return summary.exit_code

    def _choose(
        self, coordinator: CallCoordinator, say: Say
    ) -> tuple[Sequence[CompletionJob], Plan]:
        keys = [job.key for job in self.jobs]
        if changed := changed_address(self.store, recorded_address(self.config.api_base)):
            say(changed)
        open_run(self.store, self._description(), keys)
        reopen(self.store, self.jobs)
        found = self._plan(coordinator, keys)
        say(
            f"{counted(len(keys), 'file')} selected, {found.done} done before, "
            f"{len(found.todo)} to do"
        )
        if found.over_budget:
            say(over_budget_words(found.over_budget))
        for words in found.broken.values():
            say(f"left alone: {words}")
        self.chosen.extend(job for job in self.jobs if job.key in {*found.todo})
        for job in self.chosen:
            for evaluated in (True, False):
                completion_file(self.store, job, evaluated=evaluated).unlink(missing_ok=True)
        return self.chosen, found

    def _plan(self, coordinator: CallCoordinator, keys: Sequence[str]) -> Plan:
        limits = self.options.money.limits
        if not self.options.redo:
            return plan(self.store, limits, keys)
        redo = Redo.parse(self.options.redo, keys)
        todo = tuple(prepare(self.store, coordinator, redo, keys))
        rest = plan(self.store, limits, [key for key in keys if key not in {*todo}])
        return replace(rest, todo=todo)

    def _description(self) -> dict[str, Any]:
        return {
            READ_WITH: READER,
            "run": self.config.run_name,
            "dataset": self.identity,
            "config": self.config.as_json(),
            "deciding": self.config.deciding(self.identity["sha256"]),
            "versions": all_versions(),
            "started": timestamp(),
        }


_COUNTS = ("completions", "truncated", "empty", "unchanged", "not_applied", "refused")
_SHOWN = {"not_applied": "not applied"}


@dataclass(frozen=True)
class CompletionSaver:
    """Saves the results of one start of a run.

    Attributes:
        folders: of the models' files, by key of a job.
    """

    store: RunStore
    folders: dict[str, str]
    say: Callable[[str], None]

    def __call__(self, finished: Finished[Generated], coordinator: CallCoordinator) -> None:
        """Write the file of a complete job, then its record, which says that it is done."""
        made = finished.value
        if made is None or not made.content.completions:
            self._keep_unfinished(finished)
            return
        path: Path | None = None
        if finished.status is InstanceStatus.PLAUSIBLE:
            folder = self.store.folder / self.folders[finished.key]
            folder.mkdir(parents=True, exist_ok=True)
            redact, content = self.store.redact.of, made.content
            redacted = (redact(one.model_dump(mode="json")) for one in content.completions)
            completions = tuple(map(Completion.model_validate, redacted))
            path = write_file(folder, replace(content, completions=completions))
        coordinator.ledger.sync()
        self.store.save_instance(finished.key, self._record(finished, made, path), None, None)

    def _record(
        self, finished: Finished[Generated], made: Generated, path: Path | None
    ) -> dict[str, Any]:
        content = made.content
        cost = total(dollars_or_none(one.cost) for one in content.completions)
        return {
            "instance_id": finished.key,
            "status": finished.status.value,
            "reason": finished.reason,
            "folder": self.folders[finished.key],
            "file": path.name if path else None,
            **_counted(content, len(made.refusals)),
            "refusals": sorted({*made.refusals}),
            "cost": as_number(cost),
        }

    def _keep_unfinished(self, finished: Finished[Generated]) -> None:
        content: dict[str, Any] = {
            "instance_id": finished.key,
            "status": finished.status.value,
            "reason": finished.reason,
            "attempts": [],
        }
        try:
            self.store.save_unfinished(finished.key, content)
        except OSError as error:  # a full disk must not hide what went wrong first
            self.say(f"{finished.key}: cannot save why it ended: {error}")


def _counted(content: ProblemFile, refused: int) -> dict[str, int]:
    made, before = content.completions, content.problem.before.rstrip("\n")
    return {
        "completions": len(made),
        "truncated": sum(bool(one.truncated) for one in made),
        "empty": sum(not one.program.strip() for one in made),
        "unchanged": sum(one.program.rstrip("\n") == before for one in made),
        "not_applied": sum(one.applied is False for one in made),
        "refused": refused,
    }


def completion_file(store: RunStore, job: CompletionJob, *, evaluated: bool = False) -> Path:
    return store.folder / job.folder / file_name(job.problem, job.kind, evaluated=evaluated)


def reopen(store: RunStore, jobs: Iterable[CompletionJob]) -> None:
    """Make jobs whose files were removed jobs to do; what they cost stands in their journals."""
    for job in jobs:
        record = store.prediction(job.key)
        with suppress(DamagedFileError):
            if record.exists() and not completion_file(store, job).exists():
                done = store.read_prediction(record).get("status")
                if done == InstanceStatus.PLAUSIBLE.value:
                    record.unlink()


def folder_lines(store: RunStore, jobs: Sequence[CompletionJob]) -> Iterator[str]:
    """Yield a line for each model's folder: what is in it so far."""
    for folder in dict.fromkeys(job.folder for job in jobs):
        mine = [job for job in jobs if job.folder == folder]
        found = [record for job in mine if (record := _complete(store, job))]
        sums = {name: sum(int(one.get(name) or 0) for one in found) for name in _COUNTS}
        first, *others = _COUNTS
        parts = [counted(sums[first], "completion")]
        parts += [f"{sums[name]:,} {_SHOWN.get(name, name)}" for name in others if sums[name]]
        files = f"{len(found)} of {counted(len(mine), 'file')}"
        yield f"{store.folder / folder}: {files}, {', '.join(parts)}"


def _complete(store: RunStore, job: CompletionJob) -> dict[str, Any] | None:
    with suppress(DamagedFileError, FileNotFoundError):
        record = store.read_prediction(store.prediction(job.key))
        return record if record.get("file") else None
    return None
