"""The models of attempts: of a provider, or replayed from trajectories."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

from swe_retry.agent.formats import format_names
from swe_retry.agent.named import is_outside, named_agent
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say, abbreviate
from swe_retry.llm.chat import Message, Reply, Traits, Waiting, request_sha256
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import Gate
from swe_retry.llm.model_settings import our_settings
from swe_retry.llm.options import ModelChoice, Sampling
from swe_retry.llm.registry import resolve_model
from swe_retry.llm.replay import RecordedGate, ReplayModel
from swe_retry.llm.tokens import ESTIMATE, count_tokens, counter_name
from swe_retry.record.evidence import BeliefFit
from swe_retry.record.records import Attempt, AttemptStatus, Origin
from swe_retry.record.store import RunStore, read_trajectory_file
from swe_retry.runner.config import CommonConfig, ask_servers

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
        traits: what the harness knows of the model; None for a command that asks it by itself.
        architect: the model that plans, in a pair.
        origin: of a patch that was made in another run.
    """

    model: LiteLLMModel | ReplayModel
    name: str
    edit_format: str
    counter: str = ""
    temperature: float | None = None
    architect: LiteLLMModel | ReplayModel | None = None
    traits: Traits | None = None
    origin: Origin | None = None

    def with_waiting(self, waiting: Waiting) -> Turn:
        """Return it with models that are called inside of ``waiting``."""
        model = replace(self.model, waiting=waiting)
        architect = self.architect and replace(self.architect, waiting=waiting)
        return replace(self, model=model, architect=architect)


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

    config: CommonConfig
    warn_once: Say

    def turn(
        self,
        instance_id: str,
        attempt: int,
        choice: ModelChoice,
        temperature: float,
        gate: Gate,
    ) -> Turn:
        choice = self._at_server_now(choice)
        model = self.model(choice, temperature, gate)
        counter = counter_name(choice.label)
        if is_outside(choice.edit_format):
            # A command gets the temperature, and litellm need not know its model.
            return Turn(model, choice.name, choice.edit_format, counter, temperature)
        architect = None
        if choice.architect:
            architect = self.model(choice.architect, temperature, gate)
            model, architect = _pair(model, architect, choice.label)
        return Turn(
            model=model,
            name=choice.label,
            edit_format=choice.edit_format,
            counter=counter,
            temperature=model.sent_temperature,
            architect=architect,
            traits=model.traits,
        )

    def _at_server_now(self, choice: ModelChoice) -> ModelChoice:
        """Return the model as its server states it now: it may have been started again."""
        if not choice.server:
            return choice
        (now,) = ask_servers([choice], self.config.settings.calls, wait=False)
        assert now.server
        now.server.check()
        if now.server != choice.server:
            self.warn_once(f"{now.server}; at the start: {choice.server}")
        if now.server.problem:
            return choice
        return now

    def model(
        self,
        choice: ModelChoice,
        temperature: float,
        gate: Gate,
        sampling: Sampling | None = None,
    ) -> LiteLLMModel:
        """Return the model, whose requests pass ``gate``; it takes conversations and texts."""
        settings = self.config.settings
        return LiteLLMModel(
            name=choice.name,
            temperature=temperature,
            call_timeout=settings.calls.timeout,
            max_output_tokens=settings.models.max_output_tokens,
            api_base=settings.calls.api_base,
            settings=choice.settings_at_server,
            sampling=sampling or Sampling(),
            retries=self.config.retries,
            warn_once=self.warn_once,
            price=self.config.money.prices.get(choice.name),
            gate=gate,
        )


@dataclass
class ReplayedModels:
    """Replies from a folder of trajectories; no model is called."""

    folder: Path
    aliases: Mapping[str, str] = field(default_factory=lambda: our_settings().aliases)
    read: dict[str, dict[int, Attempt]] = field(default_factory=dict)

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
        today = resolve_model(choice.text, self.aliases, any_name=True)
        if recorded.model not in (choice.text, choice.label, choice.name, today):
            raise UserError(
                f"{instance_id}, attempt {attempt}: {recorded.model} is recorded, but it is the "
                f"turn of {choice.text}; give the recorded models with --models"
            )
        edit_format = recorded.edit_format or ""
        if attempt < 1:
            return self._turn(recorded, exact=True)
        if is_outside(choice.edit_format) or named_agent(edit_format):
            if edit_format != choice.edit_format:
                raise UserError(
                    f"{instance_id}, attempt {attempt}: {_agent(edit_format)} is "
                    f"recorded, but {_agent(choice.edit_format)} is asked for; give the same"
                )
            return _turn_of_agent(recorded)
        if edit_format not in format_names():
            raise UserError(
                f"{instance_id}, attempt {attempt}: {edit_format!r} is not an edit "
                "format: what an outside agent did cannot be replayed"
            )
        turn = self._turn(recorded)
        if choice.architect:
            return replace(turn, architect=turn.model)
        return turn

    def _turn(self, recorded: Attempt, *, exact: bool = False) -> Turn:
        model = ReplayModel(recorded_calls(recorded), recorded.error, exact=exact)
        if exact:
            model = replace(model, refused=refused_requests(recorded))
        counter = ESTIMATE
        if recorded.traits is not None:  # with them, a replay takes the same decisions
            counter = counter_name(recorded.model)
            count = partial(count_tokens, recorded.model)
            model = replace(model, traits=recorded.traits, counter=count)
        return Turn(
            model,
            recorded.model,
            recorded.edit_format or "",
            counter,
            temperature=recorded.temperature,
            traits=model.traits,
        )

    def attempts(self, instance_id: str) -> dict[int, Attempt]:
        if instance_id not in self.read:
            path = self.folder / f"{instance_id}.json"
            self.read[instance_id] = read_recording(path) if path.exists() else {}
        return self.read[instance_id]

    def stop_fit(self, instance_id: str) -> BeliefFit | None:
        """Return by what the recorded attempts ended; None for the stated values."""
        first = self.attempts(instance_id).get(1)
        return first.stop_fit if first else None


def read_recording(path: Path) -> dict[int, Attempt]:
    """Return the recorded attempts of a trajectory by number; writers of scripts are below 1.

    Raises:
        UserError: the file is not a trajectory.
    """
    result = read_trajectory_file(path, path.stem)
    attempts = {}
    for attempt in (*result.attempts, *result.writers):
        if attempt.status != AttemptStatus.NOT_RECORDED:
            attempts[attempt.attempt] = attempt
    return attempts


def recorded_calls(attempt: Attempt) -> Sequence[Reply]:
    """Return the calls of an attempt; from its messages in trajectories without calls.

    These have equal parts of the cost. The last includes the rounding, so the sum is exact.
    """
    if attempt.calls is not None:
        return attempt.calls
    replies = []
    for message in attempt.messages or ():
        if message.role == "assistant":
            replies.append(Reply(message.content))
    if attempt.cost is None or not replies:
        return replies
    units = int(attempt.cost.scaleb(10))
    share = Decimal(units // len(replies)).scaleb(-10)
    rest = attempt.cost - share * (len(replies) - 1)
    costs = [share] * (len(replies) - 1)
    pairs = zip(replies, (*costs, rest), strict=True)
    return [replace(reply, cost=cost) for reply, cost in pairs]


def refused_requests(writer: Attempt) -> frozenset[str]:
    """Return the hashes of requests that no reply follows; each is a conversation of its own."""
    hashes = set()
    messages = writer.messages or ()
    for message, following in zip_longest(messages, messages[1:]):
        answered = following is not None and following.role == "assistant"
        if message.role == "user" and not answered:
            hashes.add(request_sha256([Message("user", message.content)]))
    return frozenset(hashes)


def _pair(
    editor: LiteLLMModel, architect: LiteLLMModel, label: str
) -> tuple[LiteLLMModel, LiteLLMModel]:
    """Return both with the traits and the counter of the pair.

    A replay, which has one model for both, decides as they do.
    """
    windows = filter(None, (editor.traits.context, architect.traits.context))
    traits = replace(editor.traits, context=min(windows, default=None))
    return (
        replace(editor, pair_traits=traits, counter=label),
        replace(architect, pair_traits=traits, counter=label),
    )


def _turn_of_agent(recorded: Attempt) -> Turn:
    gate = RecordedGate([*recorded_calls(recorded)])
    model = LiteLLMModel(
        recorded.model,
        0.0,
        _NOT_USED,
        gate=gate,
        warn_once=lambda _: None,
    )
    return Turn(
        model,
        recorded.model,
        recorded.edit_format or "",
        temperature=recorded.temperature,
    )


def _agent(edit_format: str) -> str:
    if named_agent(edit_format):
        return f"--agent {edit_format}"
    return "another agent"


def replay_folder(path: Path) -> Path:
    """Return the folder of trajectories: ``path`` itself, or the one in the run ``path``."""
    folder = path
    if (path / "trajectories").is_dir():
        folder = path / "trajectories"
    if not folder.is_dir() or not any(folder.glob("*.json")):
        raise UserError(
            f"--replay {path}: no trajectories there; give a run or a folder of them"
        )
    return folder


def recorded_of(folder: Path, ids: Collection[str]) -> set[str]:
    """Return those of ``ids`` that have a trajectory in ``folder``; a UserError if none has."""
    recorded = {name for name in ids if (folder / f"{name}.json").exists()}
    if ids and not recorded:
        raise UserError(
            f"--replay: {folder} has no recording of {abbreviate(', '.join(sorted(ids)), _SHOWN)}; "
            "give the run that recorded them, or its --dataset and --instances"
        )
    return recorded


def recorded_label(folder: Path) -> str:
    """Return the model name of the run that a folder of trajectories belongs to, else nothing."""
    try:
        return RunStore.of_folder(folder.parent).read_run().model_name_or_path
    except (OSError, UserError):
        return ""
