"""The models that write scripts for an instance."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

from swe_retry.attempts.services import Services
from swe_retry.instances.instance import Instance
from swe_retry.llm.chat import ChatModel, Message, RequestRefusedError, request_sha256
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.runner.jobs import JobContext
from swe_retry.runner.slots import waiting_for_model


@dataclass
class ScriptWriter:
    """A model that writes scripts; its requests pass the gate as those of attempts do.

    Its record is that of an attempt whose number is below 1.
    """

    record: Attempt
    model: ChatModel

    def ask(self, prompt: str) -> str:
        """Return the reply; a request that is refused stands in the record without one."""
        request = Message("user", prompt)
        try:
            reply = self.model.complete([request])
        except RequestRefusedError:
            self.record = self.record.with_call([request])
            raise
        messages = [request, Message("assistant", reply.content)]
        call = replace(reply, request_sha256=request_sha256([request]))
        self.record = self.record.with_call(messages, call)
        return reply.content


@dataclass
class ScriptWriters:
    """The models of a run as writers of scripts, each made when it is asked first."""

    instance: Instance
    services: Services
    context: JobContext
    _writers: dict[int, ScriptWriter] = field(default_factory=dict)

    def ask(self, model: int, prompt: str) -> tuple[str, str]:
        """Return the name and the reply of a model, which are counted from 0."""
        if model not in self._writers:
            self._writers[model] = self._make_writer(model)
        writer = self._writers[model]
        return writer.record.model, writer.ask(prompt)

    def _make_writer(self, model: int) -> ScriptWriter:
        config = self.services.config
        turn = self.services.models.turn(
            self.instance.instance_id,
            -model,
            config.models[model].parts[-1],
            # Equal requests to one model are to have different replies.
            config.settings.models.temperatures[-1],
            self.context.gate(-model),
        )
        record = Attempt(
            attempt=-model,
            try_=0,
            model=turn.name,
            edit_format=turn.edit_format,
            temperature=turn.temperature,
            status=AttemptStatus.EMPTY,
            traits=turn.model.traits,
            messages=(),
            calls=(),
            cost=Decimal(),
            reflections=0,
            seconds=0.0,
        )
        show = partial(self.context.step, 0, turn.name)
        waiting = partial(waiting_for_model, self.context.slot, show)
        return ScriptWriter(record, turn.with_waiting(waiting).model)

    @property
    def records(self) -> tuple[Attempt, ...]:
        return tuple(writer.record for writer in self._writers.values())
