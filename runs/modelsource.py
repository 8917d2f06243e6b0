"""The models of attempts: of a provider, or replayed from trajectories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from agent.formats import format_names
from agent.named import is_outside, named_agent
from core.errors import UserError
from core.plaintext import shortened
from llm.chat import ChatModel
from llm.client import LiteLLMModel
from llm.gate import Gate
from llm.options import ModelChoice, Sampling
from llm.prices import Price
from llm.provider_errors import RetryPolicy
from llm.registry import resolve_model
from llm.replay import RecordedAttempt, RecordedGate, ReplayModel, read_trajectory
from llm.settings import our_settings
from llm.tokens import ESTIMATE, count_tokens, counter_name
from runs.options import RunBasics
from runs.storage.store import RunStore

_SHOWN = 200  # characters of a list of ids
_NOT_USED = 1.0  # seconds for a call of a model that is not called


class NotRecordedError(Exception):
    """The replayed run has no such attempt."""


@dataclass(frozen=True)
class Turn:
    """The model of an attempt: itself, its recorded name, and the edit format it writes.

    Attributes:
        counter: the name of the model's token counter; empty if unknown.
        temperature: the one sent, now or in the recording; None if none is sent.
        architect: the model that plans, in a pair.
    """

    model: ChatModel
    name: str
    edit_format: str
    counter: str = ""
    temperature: float | None = None
    architect: ChatModel | None = None


class ModelSource(Protocol):
    """Gives the model for an attempt."""

    def turn(
        self,
        instance_id: str,
        attempt: int,
        choice: ModelChoice,
        temperature: float,
        gate: Gate,
    ) -> Turn:
        """Return the model of ``attempt`` of ``instance_id``; its requests pass ``gate``.

        Raises:
            NotRecordedError: replies are replayed, and this attempt has none.
            UserError: another model was recorded for this attempt.
        """


@dataclass(frozen=True)
class LiveModels:
    """Models that providers serve."""

    config: RunBasics
    retries: RetryPolicy
    warn_once: Callable[[str], None]
    prices: Mapping[str, Price] = field(default_factory=dict)

    def turn(
        self,
        instance_id: str,
        attempt: int,
        choice: ModelChoice,
        temperature: float,
        gate: Gate,
    ) -> Turn:
        model = self.model(choice, temperature, gate)
        counter = counter_name(choice.name)
        # A command gets the temperature, and litellm need not know its model.
        sent = temperature if self.config.outside_agent else model.sent_temperature
        plans = (
            self.model(choice.architect, temperature, gate)
            if choice.architect
            else None
        )
        return Turn(model, choice.name, choice.edit_format, counter, sent, plans)

    def model(
        self,
        choice: ModelChoice,
        temperature: float,
        gate: Gate,
        sampling: Sampling | None = None,
    ) -> LiteLLMModel:
        """Return the model, whose requests pass ``gate``; it takes conversations and texts."""
        return LiteLLMModel(
            name=choice.name,
            temperature=temperature,
            call_timeout=self.config.call_timeout,
            max_output_tokens=self.config.max_output_tokens,
            api_base=self.config.api_base,
            settings=choice.settings,
            sampling=sampling or Sampling(),
            retries=self.retries,
            warn_once=self.warn_once,
            price=self.prices.get(choice.name),
            gate=gate,
        )


@dataclass
class ReplayedModels:
    """Replies from a folder of trajectories; no model is called."""

    folder: Path
    aliases: Mapping[str, str] = field(default_factory=lambda: our_settings().aliases)
    read: dict[str, dict[int, RecordedAttempt]] = field(default_factory=dict)

    def turn(
        self,
        instance_id: str,
        attempt: int,
        choice: ModelChoice,
        temperature: float,
        gate: Gate,
    ) -> Turn:
        recorded = self.attempts(instance_id).get(attempt)
        if recorded is None:
            raise NotRecordedError
        today = resolve_model(choice.given, self.aliases, any_name=True)
        if recorded.model not in (choice.given, choice.label, choice.name, today):
            raise UserError(
                f"{instance_id}, attempt {attempt}: {recorded.model} is recorded, but it is the "
                f"turn of {choice.given}; give the recorded models with --models"
            )
        if attempt < 1:
            return self._turn(recorded, exact=True)
        if is_outside(choice.edit_format) or named_agent(recorded.edit_format):
            if recorded.edit_format != choice.edit_format:
                raise UserError(
                    f"{instance_id}, attempt {attempt}: {_agent(recorded.edit_format)} is "
                    f"recorded, but {_agent(choice.edit_format)} is asked for; give the same"
                )
            return _turn_of_agent(recorded)
        if recorded.edit_format not in format_names():
            raise UserError(
                f"{instance_id}, attempt {attempt}: {recorded.edit_format!r} is not an edit "
                "format: what an outside agent did cannot be replayed"
            )
        turn = self._turn(recorded)
        return replace(turn, architect=turn.model) if choice.architect else turn

    def _turn(self, recorded: RecordedAttempt, *, exact: bool = False) -> Turn:
        counter, model = ESTIMATE, ReplayModel(recorded, exact=exact)
        if recorded.traits is not None:  # with them, a replay takes the same decisions
            counter = counter_name(recorded.model)
            count = partial(count_tokens, recorded.model)
            model = ReplayModel(recorded, recorded.traits, count, exact)
        name, edit_format = recorded.model, recorded.edit_format
        return Turn(model, name, edit_format, counter, recorded.temperature)

    def attempts(self, instance_id: str) -> dict[int, RecordedAttempt]:
        if instance_id not in self.read:
            path = self.folder / f"{instance_id}.json"
            self.read[instance_id] = read_trajectory(path) if path.exists() else {}
        return self.read[instance_id]


def _turn_of_agent(recorded: RecordedAttempt) -> Turn:
    gate = RecordedGate([*recorded.calls])
    model = LiteLLMModel(
        recorded.model, 0.0, _NOT_USED, gate=gate, warn_once=lambda _: None
    )
    return Turn(
        model, recorded.model, recorded.edit_format, temperature=recorded.temperature
    )


def _agent(edit_format: str) -> str:
    return f"--agent {edit_format}" if named_agent(edit_format) else "another agent"


def replay_folder(given: Path) -> Path:
    """Return the folder of trajectories: ``given`` itself, or the one in the run ``given``."""
    folder = given / "trajectories" if (given / "trajectories").is_dir() else given
    if not folder.is_dir() or not any(folder.glob("*.json")):
        raise UserError(
            f"--replay {given}: no trajectories there; give a run or a folder of them"
        )
    return folder


def recorded_of(folder: Path, ids: Collection[str]) -> set[str]:
    """Return those of ``ids`` that have a trajectory in ``folder``; a UserError if none has."""
    found = {name for name in ids if (folder / f"{name}.json").exists()}
    if ids and not found:
        raise UserError(
            f"--replay: {folder} has no recording of {shortened(', '.join(sorted(ids)), _SHOWN)}; "
            "give the run that recorded them, or its --dataset and --instances"
        )
    return found


def recorded_label(folder: Path) -> str:
    """Return the model name of the run that a folder of trajectories belongs to, else nothing."""
    try:
        label = (RunStore.of_folder(folder.parent).read_run() or {}).get(
            "model_name_or_path"
        )
    except (OSError, UserError):
        return ""
    return label if isinstance(label, str) else ""
