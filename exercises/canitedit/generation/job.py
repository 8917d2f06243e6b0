"""A job of ``generate``: all completions of one problem, instruction and model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from core.money import as_text
from core.plaintext import counted
from exercises.canitedit.generation.config import GenerationConfig
from exercises.canitedit.generation.editing import edit_program, raw_reply
from exercises.canitedit.problems import InstructionKind, Problem
from exercises.canitedit.prompts import EditRequest, edit_request, program_of
from exercises.canitedit.results import Completion, Decoding, ProblemFile, Tokens
from llm.chat import BudgetUsedError, Reply, RequestRefusedError, WindowExceededError
from llm.client import LiteLLMModel
from llm.options import ModelChoice, Sampling
from llm.registry import takes
from runs.calls.gate import AttemptGate
from runs.jobs import End, JobContext, KeptAttempt
from runs.modelsource import LiveModels
from runs.progress.state import JobStatus, WorkStep
from runs.slots import WaitingModel

GENERATED = "generated"
"""The status of a job whose file is written."""


@dataclass(frozen=True)
class GenerationServices:
    """What the jobs of one process share."""

    config: GenerationConfig
    models: LiveModels


@dataclass(frozen=True)
class Generated:
    """The completions of a job, all of them unless a budget ended it.

    Attributes:
        refusals: why providers refused requests, in words; each left an empty program.
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
        return f"{self.problem.full_name} {self.kind.value} {self.choice.given}"

    @property
    def group(self) -> str:
        return self.folder

    def portable(self) -> CompletionJob:
        return self

    def start(self, services: GenerationServices, context: JobContext) -> CompletionWork:
        return CompletionWork(self, services, context)


@dataclass
class CompletionWork:
    """Asks for the completions that the journal lacks."""

    job: CompletionJob
    services: GenerationServices
    context: JobContext
    made: list[Completion] = field(default_factory=list)
    refused: list[RequestRefusedError] = field(default_factory=list)

    def attempts(self, end: End[Any]) -> Sequence[KeptAttempt]:
        return ()

    def run(self) -> End[Generated]:
        try:
            self._ask_all()
            status, reason = self._ended()
        except BudgetUsedError as error:
            status, reason = JobStatus.BUDGET, str(error)
        generated = self._generated() if self.made else None
        return End(status, reason, generated, GENERATED if status is JobStatus.DONE else "")

    def _ask_all(self) -> None:
        for number in range(1, self.services.config.completions + 1):
            self.context.worker.stop.check()
            gate = self.context.gate(number)
            try:
                self.made.append(self._completion(number, gate))
            except RequestRefusedError as error:
                self.context.log.warning("completion %d: %s", number, error)
                self.refused.append(error)
                cost = as_text(error.cost)
                self.made.append(Completion(program="", reply="", truncated=False, cost=cost))

    def _generated(self) -> Generated:
        problem, kind = self.job.problem, self.job.kind
        content = ProblemFile(problem, kind, self._decoding(), tuple(self.made))
        return Generated(content, tuple(map(str, self.refused)))

    def _decoding(self) -> Decoding:
        config, model = self.services.config, self._model(1)
        top_p = takes(model.name, config.api_base, {"top_p": config.top_p})
        return Decoding(
            temperature=model.sent_temperature,
            top_p=config.top_p if top_p else None,
            max_tokens=config.max_output_tokens,
            stop_tokens=self._request.stop,
            script_args={"model": self.job.choice.name, "prompt": config.asks},
        )

    @property
    def _request(self) -> EditRequest:
        config, problem = self.services.config, self.job.problem
        if config.via:
            return EditRequest()
        instruction = problem.instruction(self.job.kind)
        return edit_request(config.whole, problem.before, instruction)

    def _model(self, number: int, gate: AttemptGate | None = None) -> LiteLLMModel:
        config = self.services.config
        sampling = Sampling(config.top_p, self._request.stop, seed=number)
        return self.services.models.model(self.job.choice, config.temperature, gate, sampling)

    def _completion(self, number: int, gate: AttemptGate) -> Completion:
        model = self._model(number, gate)
        step = partial(self.context.step, number, self.job.choice.name)
        if self.services.config.via:
            return self._edited(model, step)
        step(WorkStep.ASKING)
        request = self._request
        text = request.text
        reply = model.complete_text(text) if text else model.complete(request.messages)
        program = program_of(self.services.config.whole, reply.content)
        return _completion(program, reply)

    def _edited(self, model: LiteLLMModel, step: Callable[[WorkStep], None]) -> Completion:
        problem, work = self.job.problem, self.context.worker.work
        work.mkdir(parents=True, exist_ok=True)
        with self.context.slot as slot:
            edited = edit_program(
                problem.before,
                problem.instruction(self.job.kind),
                self.job.choice,
                WaitingModel(model, slot, step, lambda: None),
                self.services.config.temperature,
                work,
                self.context.log.info,
            )
        return _completion(edited.program, edited.reply, applied=edited.applied)

    def _ended(self) -> tuple[JobStatus, str]:
        refused = self.refused
        own = [error for error in refused if not isinstance(error, WindowExceededError)]
        if len(own) == len(self.made):
            # No result of the model: the request is wrong, or the provider takes none like it.
            return JobStatus.ERROR, f"every request was refused: {own[0]}"
        words = f", {counted(len(refused), 'request')} refused" if refused else ""
        return JobStatus.DONE, f"{counted(len(self.made), 'completion')}{words}"


def _completion(program: str, reply: Reply, *, applied: bool | None = None) -> Completion:
    usage = reply.usage
    tokens = None
    if usage is not None:
        sent, written = usage.prompt_tokens, usage.completion_tokens
        tokens = Tokens(prompt_tokens=sent, completion_tokens=written)
    return Completion(
        program=program,
        reply=raw_reply(reply),
        truncated=reply.truncated,
        tokens=tokens,
        cost=as_text(reply.cost),
        applied=applied,
    )
