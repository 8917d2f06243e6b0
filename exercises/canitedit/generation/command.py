"""Ask models for completions: ``python -m exercises.canitedit run --models gpt-4o``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import Self

from agent.formats import format_names
from bench.cli.cli import EnvFileOption, JsonFormat
from bench.cli.command_line import RedoOption
from core.errors import DamagedFileError, InfrastructureError, UserError
from core.money import as_text, dollars_or_none, total
from core.plaintext import Say, counted
from core.redaction import Redactor
from core.settings import CommandLine, command
from exercises.canitedit.generation.config import (
    FLAGS,
    READER,
    GenerationConfig,
    chosen_models,
    model_folders,
    problems_identity,
)
from exercises.canitedit.problems import InstructionKind, Problem, load_problems
from exercises.canitedit.prompts import EditRequest, edit_request, program_of
from exercises.canitedit.results import (
    Completion,
    Decoding,
    ProblemFile,
    TokenCounts,
    file_name,
    write_file,
)
from exercises.canitedit.settings import Completions, CompletionSettings
from exercises.settings import SettingsWord, load
from llm.chat import (
    AnyText,
    BudgetUsedError,
    Reply,
    RequestRefusedError,
    Whole,
    WindowExceededError,
)
from llm.client import LiteLLMModel
from llm.options import ModelChoice, Sampling
from llm.registry import accepts_options, endpoint_arguments
from llm.settings import load_settings
from runs.benchmark import Benchmark
from runs.calls.coordinator import AttemptGate
from runs.checks import check_folders, check_models
from runs.description import Run
from runs.jobs import End, Finished, JobContext, WorkerAccess
from runs.modelsource import LiveModels
from runs.options import RunResources, check_address
from runs.progress.state import WorkStep
from runs.progress.summary_json import RunSummary
from runs.records import Attempt, InstanceResult, InstanceStatus, Known, Texts, Word
from runs.session import start_run
from runs.storage.store import RunStore, read_as


@command(CompletionSettings, FLAGS)
def main(
    line: CommandLine[CompletionSettings],
    redo: RedoOption = "",
    format: JsonFormat = "text",
    word: SettingsWord = None,
    env_file: EnvFileOption = None,
) -> int:
    """Ask models for edited programs; the same command continues a run.

    \b
      python -m exercises.canitedit run --models gpt-4o --completions 20
    """
    settings = load(line, word)
    if settings is None:
        return 0
    check_address(settings.calls.api_base)
    book = load_settings(settings.models.file, format_names())
    config = GenerationConfig.of(settings, chosen_models(settings, book))
    resources = RunResources.of(
        settings, config.models, book=book, redo=redo, as_json=format == "json"
    )
    redactor = Redactor.of_environment(os.environ)
    store = CompletionStore(resources.out, config.run_name, redactor, reader=READER)
    return generate(config, resources, store, print)


class CompletionRecord(InstanceResult):
    """The record of a job in a run's folder; the counts are of its completions.

    Attributes:
        folder: the model's.
        file: that has the completions; None where a budget ended the job.
        refusals: of providers, in words.
    """

    folder: Word = ""
    file: Known[AnyText] = None
    completions: Whole = 0
    truncated: Whole = 0
    empty: Whole = 0
    unchanged: Whole = 0
    refused: Whole = 0
    refusals: Texts = ()

    @classmethod
    def of_prediction(
        cls,
        raw: Mapping[str, Any],
        trajectory: InstanceResult | None = None,
        models: Sequence[str] = (),
    ) -> Self:
        return cls.model_validate(raw)

    def prediction(self) -> dict[str, Any]:
        own = CompletionRecord.model_fields.keys() - InstanceResult.model_fields.keys()
        shared = {"instance_id", "status", "reason", "cost"}
        return self.model_dump(mode="json", include={*shared, *own})


@dataclass(frozen=True)
class CompletionStore(RunStore):
    """The files of a run of completions."""

    def read_prediction(self, path: Path) -> CompletionRecord:
        return read_as(CompletionRecord, path, self.raw_prediction(path))


@dataclass(frozen=True)
class GenerationServices:
    """What the jobs of one process share."""

    config: GenerationConfig
    models: LiveModels


@dataclass(frozen=True)
class Generated:
    """The completions of a job, all of them unless a budget ended it.

    Each of the ``refusals`` of providers, in words, left an empty program.
    """

    content: ProblemFile
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompletionJob:
    """The completions of one problem, instruction and model; see ``runs.jobs.Job``."""

    problem: Problem
    kind: InstructionKind
    choice: ModelChoice
    folder: str

    @property
    def key(self) -> str:
        return f"{self.folder}-{self.problem.full_name}_{self.kind.key}"

    @property
    def description(self) -> str:
        return f"{self.problem.full_name} {self.kind.value} {self.choice.text}"

    @property
    def group(self) -> str:
        return self.folder

    def portable(self) -> CompletionJob:
        return self

    def start(
        self, services: GenerationServices, context: JobContext
    ) -> CompletionWork:
        return CompletionWork(self, services, context)


@dataclass
class CompletionWork:
    """Asks for the completions that the journal lacks."""

    job: CompletionJob
    services: GenerationServices
    context: JobContext

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        return ()

    def run(self) -> End[Generated]:
        made, refused = list[Completion](), list[RequestRefusedError]()
        try:
            for number in range(1, self._asked.each + 1):
                self.context.worker.stop.check()
                try:
                    made.append(self._completion(number))
                except RequestRefusedError as error:
                    self.context.log.warning("completion %d: %s", number, error)
                    refused.append(error)
                    cost = as_text(error.cost)
                    made.append(
                        Completion(program="", reply="", truncated=False, cost=cost)
                    )
            words = f", {counted(len(refused), 'request')} refused" if refused else ""
            status = InstanceStatus.GENERATED
            reason = f"{counted(len(made), 'completion')}{words}"
        except BudgetUsedError as error:
            status = InstanceStatus.BUDGET
            reason = str(error)
        own = [error for error in refused if not isinstance(error, WindowExceededError)]
        if status is InstanceStatus.GENERATED and len(own) == len(made):
            # No result of the model: the request is wrong, or the provider takes none like it.
            status = InstanceStatus.ERROR
            reason = f"every request was refused: {own[0]}"
        generated = None
        if made:
            content = ProblemFile(
                self.job.problem, self.job.kind, self._decoding(), tuple(made)
            )
            generated = Generated(content, tuple(map(str, refused)))
        return End(status, reason, generated)

    def _decoding(self) -> Decoding:
        settings = self.services.config.settings
        model = self._model(1, self.context.gate(1))
        top_p = self._asked.top_p
        sent = accepts_options(model.name, settings.calls.api_base, {"top_p": top_p})
        return Decoding(
            temperature=model.sent_temperature,
            top_p=top_p if sent else None,
            max_tokens=settings.models.max_output_tokens,
            stop_tokens=self._request.stop,
            script_args={
                "model": self.job.choice.name,
                "prompt": self._asked.prompt.value,
            },
        )

    @property
    def _asked(self) -> Completions:
        return self.services.config.settings.completions

    @property
    def _request(self) -> EditRequest:
        problem = self.job.problem
        instruction = problem.instruction(self.job.kind)
        return edit_request(self._asked.prompt, problem.before, instruction)

    def _model(self, number: int, gate: AttemptGate) -> LiteLLMModel:
        sampling = Sampling(self._asked.top_p, self._request.stop, seed=number)
        return self.services.models.model(
            self.job.choice, self._asked.temperature, gate, sampling
        )

    def _completion(self, number: int) -> Completion:
        model = self._model(number, self.context.gate(number))
        self.context.step(number, self.job.choice.name, WorkStep.ASKING)
        request = self._request
        text = request.text
        reply = model.complete_text(text) if text else model.complete(request.messages)
        program = program_of(self._asked.prompt, reply.content)
        return completion_of(program, reply)


def completion_of(program: str, reply: Reply) -> Completion:
    tokens = None
    if reply.usage is not None:
        tokens = TokenCounts(
            prompt_tokens=reply.usage.prompt_tokens or 0,
            completion_tokens=reply.usage.completion_tokens or 0,
        )
    return Completion(
        program=program,
        reply=reply.content,
        truncated=reply.truncated,
        tokens=tokens,
        cost=as_text(reply.cost),
    )


def make_services(
    config: GenerationConfig, options: RunResources, worker: WorkerAccess
) -> GenerationServices:
    """Build what the jobs of one process share."""
    check_models(config, options.money)
    models = LiveModels(config, options.retries, worker.warn_once, options.money.prices)
    return GenerationServices(config, models)


def generate(
    config: GenerationConfig, options: RunResources, store: RunStore, say: Say
) -> int:
    """Ask for what the run lacks, and return the exit code."""
    settings = config.settings
    problems = load_problems(settings.problems.source)
    check_folders(options)
    check_models(config, options.money)
    calls = settings.calls
    if not settings.completions.prompt.is_chat:
        for model in config.models:
            endpoint_arguments(model.name, calls.api_base, calls.timeout, text=True)
    folders = model_folders(config.models)
    jobs = [
        CompletionJob(problem, kind, choice, folders[choice.name])
        for choice in config.models
        for problem in problems
        for kind in settings.completions.kinds
    ]
    identity = problems_identity(problems, settings.problems.source)
    by_key = {job.key: job for job in jobs}
    benchmark = CompletionBenchmark(config, options, store, say, by_key, identity)
    try:
        return start_run(benchmark)
    except UserError as error:
        if not benchmark.started:
            raise
        # Of the provider: the configuration was accepted before.
        raise InfrastructureError(str(error)) from error


@dataclass
class CompletionBenchmark(Benchmark[Generated]):
    """A run of completions; ``identity`` is that of the problems, ``started`` when work began."""

    statuses = (str(InstanceStatus.GENERATED),)
    noun = "file"
    packages = ("bench", "demo", "exercises")

    config: GenerationConfig
    options: RunResources
    selected: Mapping[str, CompletionJob]
    identity: Mapping[str, str]
    started: bool = False

    @property
    def jobs(self) -> Mapping[str, CompletionJob]:
        return self.selected

    @property
    def cpus(self) -> float:
        return 0.25  # a job mostly waits for its model

    def services(self) -> Callable[[WorkerAccess], GenerationServices]:
        return partial(make_services, self.config, self.options)

    def deciding(self) -> dict[str, Any]:
        return {**super().deciding(), "problems_sha256": self.identity["sha256"]}

    def describe(self) -> Run:
        return super().describe().but(dataset=dict(self.identity))

    def open(self) -> None:
        super().open()
        # Jobs whose files were removed are to be done; what they cost stands in their journals.
        for key, job in self.jobs.items():
            record = self.store.prediction(key)
            lost = record.exists() and not self._file(job).exists()
            with suppress(DamagedFileError):
                if lost and self._read(key).status is InstanceStatus.GENERATED:
                    record.unlink()

    def _read(self, key: str) -> CompletionRecord:
        path = self.store.prediction(key)
        return read_as(CompletionRecord, path, self.store.raw_prediction(path))

    def _file(self, job: CompletionJob, *, evaluated: bool = False) -> Path:
        name = file_name(job.problem, job.kind, evaluated=evaluated)
        return self.store.folder / job.folder / name

    def prepare_jobs(
        self, jobs: Sequence[CompletionJob], say: Say
    ) -> Sequence[CompletionJob]:
        for job in jobs:
            for evaluated in (True, False):
                self._file(job, evaluated=evaluated).unlink(missing_ok=True)
        self.started = bool(jobs)
        return jobs

    def conclusion(self, summary: RunSummary) -> Iterator[str]:
        """Yield a line for each model's folder: what is in it so far."""
        for folder in dict.fromkeys(job.folder for job in self.jobs.values()):
            keys = [key for key, job in self.jobs.items() if job.folder == folder]
            records = []
            for key in keys:
                with suppress(DamagedFileError, FileNotFoundError):
                    records.append(self._read(key))
            records = [record for record in records if record.file]
            sums = {}
            for name in _COUNTS:
                sums[name] = sum(getattr(record, name) for record in records)
            first, *others = _COUNTS
            parts = [counted(sums[first], "completion")]
            parts += [f"{sums[name]:,} {name}" for name in others if sums[name]]
            files = f"{len(records)} of {counted(len(keys), 'file')}"
            yield f"{self.store.folder / folder}: {files}, {', '.join(parts)}"
        yield from super().conclusion(summary)

    def save(self, finished: Finished[Generated]) -> None:
        """Write the file of a complete job, then its record, which says that it is done."""
        made, job, end = finished.end.value, self.jobs[finished.key], finished.end
        assert made is not None
        path: Path | None = None
        content, redact = made.content, self.store.redact.of
        if end.status is InstanceStatus.GENERATED:
            folder = self.store.folder / job.folder
            folder.mkdir(parents=True, exist_ok=True)
            redacted = (
                redact(one.model_dump(mode="json")) for one in content.completions
            )
            completions = tuple(map(Completion.model_validate, redacted))
            path = write_file(folder, replace(content, completions=completions))
        record = CompletionRecord(
            instance_id=finished.key,
            status=end.status,
            reason=end.reason,
            folder=job.folder,
            file=path.name if path else None,
            refusals=tuple(sorted(set(made.refusals))),
            cost=total(dollars_or_none(one.cost) for one in content.completions),
        ).but(**_counted(content, len(made.refusals)))
        self.store.save_instance(finished.key, record.prediction(), None, None)


_COUNTS = ("completions", "truncated", "empty", "unchanged", "refused")


def _counted(content: ProblemFile, refused: int) -> dict[str, int]:
    made, before = content.completions, content.problem.before.rstrip("\n")
    return {
        "completions": len(made),
        "truncated": sum(bool(one.truncated) for one in made),
        "empty": sum(not one.program.strip() for one in made),
        "unchanged": sum(one.program.rstrip("\n") == before for one in made),
        "refused": refused,
    }
