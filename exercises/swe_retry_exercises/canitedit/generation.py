"""Ask models for completions: ``python -m swe_retry_exercises.canitedit run --models gpt-4o``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from swe_retry.kit import (
    Attempt,
    Benchmark,
    BudgetUsedError,
    CommonConfig,
    DamagedFileError,
    End,
    Endpoint,
    EnvFileOption,
    Finished,
    InfrastructureError,
    InstanceStatus,
    JobContext,
    JsonFormat,
    LiteLLMModel,
    LiveModels,
    ModelChoice,
    Redactor,
    RedoOption,
    Reply,
    RequestRefusedError,
    Run,
    RunStore,
    RunSummary,
    Sampling,
    SettingFlag,
    UserError,
    WindowExceededError,
    WorkerAccess,
    WorkStep,
    as_text,
    ask_servers,
    check_folders,
    check_models,
    is_safe_name,
    model_slug,
    name_slug,
    quantity,
    read_models,
    room_for_reply,
    settings_command,
    sha256_of,
    size,
    start_run,
    total,
)
from swe_retry_exercises.canitedit.metrics import ScoreRow
from swe_retry_exercises.canitedit.problems import (
    InstructionKind,
    Problem,
    load_problems,
)
from swe_retry_exercises.canitedit.prompts import (
    STOP,
    EditRequest,
    Prompt,
    edit_request,
    program_of,
)
from swe_retry_exercises.canitedit.results import (
    COMPLETED,
    EVALUATED,
    CompletionFile,
    write_file,
)
from swe_retry_exercises.canitedit.settings import Completions, CompletionSettings
from swe_retry_exercises.options import MODELS, SettingsWord, refuse, shared_flags
from swe_retry_exercises.values import JsonObject, Say, values_of

READER = "python -m swe_retry_exercises.canitedit report"
"""The command that ``run.json`` names for a run of completions."""
_UNHEEDED = {
    "models.tries": "completions.each says how many completions each problem gets",
    "models.temperatures": "completions.temperature says how models sample",
    "calls.replay": "completions are not replayed; leave it out",
    "budget.seconds_per_attempt": "a completion is one call; set calls.timeout",
}
FLAGS = (
    *shared_flags(CompletionSettings, _UNHEEDED),
    SettingFlag("completions.prompt", "--prompt", "NAME", MODELS),
    SettingFlag("completions.each", "--completions", "N", MODELS),
)


@settings_command(CompletionSettings, "word", FLAGS)
def main(
    settings: CompletionSettings,
    redo: RedoOption = "",
    format: JsonFormat = "text",
    word: SettingsWord = None,
    env_file: EnvFileOption = None,
) -> int:
    """Ask models for edited programs; the same command continues a run.

    \b
      python -m swe_retry_exercises.canitedit run --models gpt-4o --completions 20
    """
    calls = settings.calls
    refuse(settings, _UNHEEDED)
    models, book = read_models(settings, pairs=False)
    models = ask_servers(whole_file_models(settings, models), calls, wait=True)
    config = GenerationConfig.of(settings, models, book)
    config = replace(config, redo=redo, prints_json=format == "json")
    config.check_name()
    redactor = Redactor.of_environment()
    store = RunStore(config.out, config.run_name, redactor, reader=READER)
    source = settings.problems.source
    problems = load_problems(source, v1=settings.problems.v1)
    check_folders(config)
    check_models(config)
    completions = settings.completions
    jobs = {}
    for folder, model in model_folders(models).items():
        if completions.prompt in STOP:
            Endpoint(model.name, calls.api_base).arguments(calls.timeout, text=True)
        for problem in problems:
            for kind in completions.kinds:
                job = CompletionJob(completions, problem, kind, model, folder)
                jobs[job.key] = job
    path = Path(source).expanduser()
    if path.exists():
        source = str(path.resolve())
    lines = [f"{problem.model_dump_json()}\n" for problem in problems]
    sha256 = sha256_of("".join(lines))
    dataset = {"name": source, "split": "test", "sha256": sha256}
    benchmark = CompletionBenchmark(config, store, print, jobs, dataset)
    try:
        return start_run(benchmark)
    except UserError as error:
        if not benchmark.started:
            raise
        # Of the provider: the configuration was accepted before.
        raise InfrastructureError(str(error)) from error


def whole_file_models(
    settings: CompletionSettings, named: Sequence[ModelChoice]
) -> tuple[ModelChoice, ...]:
    """Return the models that the settings name, which may name no edit format."""
    models = []
    for model in named:
        if model.text not in settings.models.names:
            raise UserError(
                f"--models {model.text}@{model.edit_format}: completions have no edit format; "
                "leave it out"
            )
        # The models' default formats may need function calls.
        models.append(replace(model, edit_format="whole"))
    return tuple(models)


def model_folders(models: Sequence[ModelChoice]) -> dict[str, ModelChoice]:
    """Return the models by folder: the end of a name, or all of it where two agree."""
    if len({model.name for model in models}) < len(models):
        raise UserError("--models names a model twice; leave one of them out")
    ends = Counter(model_slug([model]) for model in models)
    folders = {}
    for model in models:
        folder = model_slug([model])
        if ends[folder] > 1:
            folder = name_slug(model.name)
        if not is_safe_name(folder) or folder in folders:
            raise UserError(
                f"--models: no folder can be named {folder}; run its model by itself"
            )
        folders[folder] = model
    return folders


@dataclass(frozen=True)
class GenerationConfig(CommonConfig):
    """Everything that decides the completions of a run; nothing is executed in it."""

    settings: CompletionSettings = field(default_factory=CompletionSettings)

    @property
    def run_name(self) -> str:
        return self.run or f"canitedit--{model_slug(self.models)}"

    def as_json(self) -> JsonObject:
        completions = self.settings.completions.model_dump(mode="json")
        completions["completions"] = completions.pop("each")
        return {**super().as_json(), **completions}

    def deciding(self) -> JsonObject:
        """Return what a continued run must repeat; instructions may be added later."""
        facts = super().deciding()
        del facts["environment"]
        facts["models"] = [model.name for model in self.models]
        requests = []
        for prompt in Prompt:
            requests.append(repr(edit_request(prompt, "{before}", "{instruction}")))
        facts["prompts_sha256"] = sha256_of("\0".join(requests))
        limit = self.settings.models.max_output_tokens
        facts["models.max_output_tokens"] = limit
        completions = self.settings.completions.model_dump(mode="json")
        for name in ("prompt", "each", "temperature", "top_p"):
            facts[f"completions.{name}"] = completions[name]
        return facts


Generated = tuple[ScoreRow, CompletionFile | None]
"""The record of a job, and its file unless a budget ended the job, or all was refused."""


def make_models(config: GenerationConfig, worker: WorkerAccess) -> LiveModels:
    check_models(config)
    return LiveModels(config, worker.warn_once)


@dataclass(frozen=True)
class CompletionJob:
    """The completions of one problem, instruction and model; see ``swe_retry.runner.jobs.Job``.

    Attributes:
        folder: the model's.
    """

    settings: Completions
    problem: Problem
    kind: InstructionKind
    choice: ModelChoice
    folder: str

    @property
    def stem(self) -> str:
        """The first part of the names of its files."""
        return f"{self.problem.full_name}_instruction_{self.kind}"

    @property
    def key(self) -> str:
        return f"{self.folder}-{self.stem}"

    @property
    def description(self) -> str:
        return f"{self.problem.full_name} {self.kind} {self.choice.text}"

    @property
    def group(self) -> str:
        return self.folder

    def portable(self) -> CompletionJob:
        return self

    def start(self, services: LiveModels, context: JobContext) -> CompletionWork:
        return CompletionWork(self, services, context)


@dataclass
class CompletionWork:
    """Asks for the completions that the journal lacks.

    Attributes:
        room: the tokens that the model's window leaves for a reply, where these are too few.
    """

    job: CompletionJob
    models: LiveModels
    context: JobContext
    refusals: list[RequestRefusedError] = field(default_factory=list)
    room: int | None = None

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        return ()

    @cached_property
    def request(self) -> EditRequest:
        problem = self.job.problem
        instruction = problem.instruction(self.job.kind)
        return edit_request(self.job.settings.prompt, problem.before, instruction)

    def run(self) -> End[Generated]:
        rows = []
        status = InstanceStatus.GENERATED
        try:
            for number in range(1, self.job.settings.each + 1):
                self.context.worker.stop.check()
                rows.append(self._complete(number))
            reason = quantity(len(rows), "completion")
            if self.refusals:
                reason += f", {quantity(len(self.refusals), 'request')} refused"
        except BudgetUsedError as error:
            status = InstanceStatus.BUDGET
            reason = str(error)
            if not rows:
                return End(status, reason)
        # A program that is too long for a model is its result; else the request is wrong, or the
        # provider takes none like it.
        faults = []
        for refusal in self.refusals:
            if not isinstance(refusal, WindowExceededError):
                faults.append(refusal)
        if status is InstanceStatus.GENERATED and len(faults) == len(rows):
            status = InstanceStatus.ERROR
            reason = f"every request was refused: {faults[0]}"
        file = None
        if status is InstanceStatus.GENERATED:
            file = self._file(rows)
        programs = values_of(rows, "completions")
        before = self.job.problem.before.rstrip("\n")
        costs = [cost and Decimal(cost) for cost in values_of(rows, "cost")]
        cost = total(costs)
        record = {
            "instance_id": self.job.key,
            "status": status.value,
            "reason": reason,
            "cost": None if cost is None else float(cost),
            "folder": self.job.folder,
            "file": file and file.file_name,
            "completions": len(rows),
            "max_tokens": self._model(1).max_output_tokens,
            "truncated": sum(values_of(rows, "truncated")),
            "empty": sum(not program.strip() for program in programs),
            "unchanged": sum(program.rstrip("\n") == before for program in programs),
            "refused": len(self.refusals),
            "refusals": sorted(set(map(str, self.refusals))),
        }
        return End(status, reason, (record, file))

    def _complete(self, number: int) -> ScoreRow:
        """Return a completion by the keys of files; an empty one if the provider refuses it."""
        self.context.step(number, self.job.choice.name, WorkStep.ASKING)
        try:
            reply = self._ask_within_window(number)
        except RequestRefusedError as error:
            self.context.log.warning("completion %d: %s", number, error)
            self.refusals.append(error)
            reply = Reply("", cost=error.cost)
        tokens = None
        if reply.usage is not None:
            tokens = {
                "prompt_tokens": reply.usage.prompt_tokens or 0,
                "completion_tokens": reply.usage.completion_tokens or 0,
            }
        return {
            "completions": program_of(self.job.settings.prompt, reply.content),
            "replies": reply.content,
            "truncated": reply.truncated,
            "tokens": tokens,
            "cost": as_text(reply.cost),
        }

    def _ask_within_window(self, number: int) -> Reply:
        """Return a reply; a limit that leaves no room for the prompt is lowered once."""
        content = self.request.text or self.request.messages
        model = self._model(number)
        try:
            return model.complete(content)
        except WindowExceededError as error:
            asked_size = size(content, model.count)
            limit = model.max_output_tokens or 0
            room = room_for_reply(str(error), limit, model.traits.context, asked_size)
            if self.room or room is None:
                raise
            self.room = room
        self.context.log.info("the window leaves %d tokens for a reply", room)
        return self._model(number).complete(content)

    def _model(self, number: int) -> LiteLLMModel:
        settings = self.job.settings
        sampling = Sampling(settings.top_p, self.request.stop, seed=number)
        gate = self.context.gate(number)
        choice = self.job.choice
        model = self.models.model(choice, settings.temperature, gate, sampling)
        return replace(model, max_output_tokens=self.room or model.max_output_tokens)

    def _file(self, rows: Sequence[ScoreRow]) -> CompletionFile:
        settings = self.models.config.settings
        name = self.job.choice.name
        top_p: float | None = self.job.settings.top_p
        endpoint = Endpoint(name, settings.calls.api_base)
        if not endpoint.accepts({"top_p": top_p}):
            top_p = None
        prompt = self.job.settings.prompt.value
        content = self.job.problem.model_dump()
        for key in rows[0]:
            content[key] = values_of(rows, key)
        return CompletionFile(
            **content,
            instr_kind=f"instruction_{self.job.kind}",
            temperature=self._model(1).sent_temperature,
            top_p=top_p,
            max_tokens=settings.models.max_output_tokens,
            stop_tokens=self.request.stop,
            script_args={"model": name, "prompt": prompt},
        )


@dataclass
class CompletionBenchmark(Benchmark[Generated]):
    """A run of completions; ``dataset`` identifies the problems, ``started`` when work began."""

    statuses = (str(InstanceStatus.GENERATED),)
    noun = "file"
    packages = ("swe_retry_exercises",)

    config: GenerationConfig
    selected: Mapping[str, CompletionJob]
    dataset: Mapping[str, str]
    started: bool = False

    @property
    def jobs(self) -> Mapping[str, CompletionJob]:
        return self.selected

    def services(self) -> Callable[[WorkerAccess], LiveModels]:
        return partial(make_models, self.config)

    def deciding(self) -> JsonObject:
        return {**super().deciding(), "problems_sha256": self.dataset["sha256"]}

    def describe(self) -> Run:
        return super().describe().but(dataset=dict(self.dataset))

    def open(self) -> None:
        super().open()
        # Jobs whose files were removed are to be done; what they cost stands in their journals.
        for job in self.jobs.values():
            path = self.store.prediction(job.key)
            if path.exists() and not self._path(job, COMPLETED).exists():
                with suppress(DamagedFileError):
                    status = self.store.read_prediction(path).status
                    if status is InstanceStatus.GENERATED:
                        path.unlink()

    def review(self, summary: RunSummary) -> RunSummary:
        if summary.exit_code:
            return summary
        refusals = []
        for key in self.jobs:
            record = self.store.raw_prediction(self.store.prediction(key))
            if record["refused"] < record["completions"]:
                return summary
            refusals += record["refusals"]
        reason = f"every request was refused: {refusals[0]}; correct it, and repeat "
        return replace(summary, stopped=f"{reason}with --redo generated")

    def _path(self, job: CompletionJob, ending: str) -> Path:
        return self.store.folder / job.folder / f"{job.stem}{ending}"

    def prepare_jobs(
        self, jobs: Sequence[CompletionJob], say: Say
    ) -> Sequence[CompletionJob]:
        for job in jobs:
            self._path(job, EVALUATED).unlink(missing_ok=True)
            self._path(job, COMPLETED).unlink(missing_ok=True)
        self.started = bool(jobs)
        return jobs

    def save(self, finished: Finished[Generated]) -> None:
        """Write the file of a complete job, then its record, which says that it is done."""
        assert finished.end.value is not None
        record, file = finished.end.value
        if file is not None:
            folder = self.store.folder / record["folder"]
            folder.mkdir(parents=True, exist_ok=True)
            redact = self.store.redact.of
            texts = {
                "completions": tuple(redact(file.completions)),
                "replies": tuple(redact(file.replies)),
            }
            write_file(folder, file.model_copy(update=texts))
        self.store.save_instance(finished.key, record, None, None)
