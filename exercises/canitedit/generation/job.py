"""A job of ``generate``: all completions of one problem, instruction and model."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from core.errors import InfrastructureError, StoppedError, UserError
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
from runs.calls.gate import AttemptGate, recorded_calls
from runs.jobs import Finished, JobAccess, WorkerAccess
from runs.modelsource import LiveModels
from runs.progress.state import WorkStep
from runs.progress.statuses import InstanceStatus
from runs.slots import Slot, WaitingModel


@dataclass(frozen=True)
class GenerationServices:
    """What the jobs of one process share; ``place`` is an existing folder for edited files."""

    config: GenerationConfig
    worker: WorkerAccess
    models: LiveModels
    place: Path


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

    def work(self, services: GenerationServices, access: JobAccess) -> Finished[Generated]:
        """Ask for the completions that the journal lacks; see ``runs.jobs.Job``."""
        started, asking = time.monotonic(), _Asking(self, services, access)
        try:
            asking.ask_all()
            status, reason = _ended(asking)
        except UserError:
            raise
        except StoppedError as error:
            return Finished(self.key, InstanceStatus.INTERRUPTED, f"interrupted: {error}")
        except BudgetUsedError as error:
            status, reason = InstanceStatus.BUDGET, str(error)
        except (InfrastructureError, OSError) as error:
            reason = f"infrastructure failed: {error}"
            return Finished(self.key, InstanceStatus.INFRA_ERROR, reason)
        except Exception as error:  # a fault of the harness must not end the others
            access.log.error("%s", traceback.format_exc())
            return Finished(self.key, InstanceStatus.ERROR, f"the harness failed: {error!r}")
        seconds = time.monotonic() - started
        return Finished(self.key, status, reason, asking.generated(), seconds)


@dataclass
class _Asking:
    job: CompletionJob
    services: GenerationServices
    access: JobAccess
    made: list[Completion] = field(default_factory=list)
    refused: list[RequestRefusedError] = field(default_factory=list)

    def ask_all(self) -> None:
        stop = self.services.worker.stop
        entries = self.access.calls.entries(self.job.key)
        for number in range(1, self.services.config.completions + 1):
            stop.check()
            recorded = recorded_calls(entries, number)
            gate = AttemptGate(self.access.calls, self.job.key, number, recorded, stop.wait)
            try:
                self.made.append(self._completion(number, gate))
            except RequestRefusedError as error:
                self.access.log.warning("completion %d: %s", number, error)
                self.refused.append(error)
                cost = as_text(error.cost)
                self.made.append(Completion(program="", reply="", truncated=False, cost=cost))

    def generated(self) -> Generated:
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
        step = partial(self.access.steps.step, self.job.key, number, self.job.choice.name)
        if self.services.config.via:
            return self._edited(model, step)
        step(WorkStep.ASKING)
        request = self._request
        text = request.text
        reply = model.complete_text(text) if text else model.complete(request.messages)
        program = program_of(self.services.config.whole, reply.content)
        return _completion(program, reply)

    def _edited(self, model: LiteLLMModel, step: Callable[[WorkStep], None]) -> Completion:
        problem = self.job.problem
        with Slot(self.services.worker.slots) as slot:
            edited = edit_program(
                problem.before,
                problem.instruction(self.job.kind),
                self.job.choice,
                WaitingModel(model, slot, step, lambda: None),
                self.services.config.temperature,
                self.services.place,
                self.access.log.info,
            )
        return _completion(edited.program, edited.reply, applied=edited.applied)


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


def _ended(asking: _Asking) -> tuple[InstanceStatus, str]:
    refused = asking.refused
    own = [error for error in refused if not isinstance(error, WindowExceededError)]
    if len(own) == len(asking.made):
        # No result of the model: the request is wrong, or the provider takes none like it.
        return InstanceStatus.ERROR, f"every request was refused: {own[0]}"
    words = f", {counted(len(refused), 'request')} refused" if refused else ""
    return InstanceStatus.PLAUSIBLE, f"{counted(len(asking.made), 'completion')}{words}"
