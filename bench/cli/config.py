"""What a run was told, in one frozen value: it decides results and stands in every trajectory."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from agent.agents import BUILTIN, is_command
from agent.conversation.reflections import Reflections
from agent.formats import format_names
from agent.formats.base import Matching, OnFailure
from agent.prompts import prompts_hash
from core.address import recorded_address
from core.errors import UserError
from environments.base import AgentSandbox, EnvironmentKind
from llm.catalogue import filled
from llm.registry import map_entry, resolve_model
from llm.settings import ModelSettings, SettingsBook, our_settings, settings_sha256
from runs.storage.versions import HARNESS_VERSION

# Three tries of one model at temperature 0 with one prompt would repeat one try.
DEFAULT_TEMPERATURES = (0.0, 0.4, 0.8)
_VERSION_WORDS = ("default", "latest")
_FORMAT = re.compile(r"^[a-z][a-z-]*$")
_RUN_NAME = re.compile(r"^[A-Za-z0-9][\w.+-]*$")


class TestChoice(str, Enum):
    """Which pre-existing tests run."""

    __test__ = False

    RELATED = "related"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True)
class ModelChoice:
    """One model of a run: as the user wrote it, as litellm knows it, and how it is used.

    Attributes:
        settings: what the files of settings say of it, without what litellm knows.
    """

    given: str
    name: str
    edit_format: str
    settings: ModelSettings = field(default_factory=ModelSettings)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        book: SettingsBook | None = None,
        any_name: bool = False,
        replay: bool = False,
    ) -> ModelChoice:
        """Read ``name`` or ``name@format``.

        An ``@`` belongs to the name where a version follows, as in ``…@20250101`` or ``…@default``.

        Args:
            text: what the user wrote.
            book: the settings of models; ours when none are given.
            any_name: the name need not be one that litellm knows (an own server).
            replay: the name is one of a recording; aliases mean what they meant then.
        """
        given, last = _name_and_format(text, replay=replay)
        if not given:
            raise UserError("--models has an empty name in it; give for example gpt-4o,opus")
        book = book or our_settings()
        name = given if replay else resolve_model(given, book.aliases, any_name=any_name)
        settings = book.of(name)
        return cls(given, name, last or settings.edit_format or "whole", settings)

    def as_json(self, *, known: bool, api_base: str | None) -> dict[str, Any]:
        """Return the choice as it stands in ``run.json``; ``known``: with what litellm knows."""
        said = filled(self.settings, self.name, api_base) if known else self.settings
        plain = {"given": self.given, "name": self.name, "edit_format": self.edit_format}
        return {**plain, "settings": said.as_json()}


def _name_and_format(text: str, *, replay: bool) -> tuple[str, str]:
    given, at, last = text.rpartition("@")
    if not at or not _FORMAT.match(last) or last in _VERSION_WORDS:
        return text, ""
    if last in format_names():
        return given, last
    if not replay and map_entry(text):  # a version in words
        return text, ""
    known = ", ".join(format_names())
    raise UserError(f"--models {text}: unknown edit format {last!r}; there are {known}")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run does; seconds, tokens and counts.

    Attributes:
        label: the model name of the predictions; made of the models' names when empty.
        temperatures: one for all tries, or one for each.
        agent: who edits: ``builtin``, ``command:TEMPLATE`` or another's name.
        agent_env: names of the environment variables that reach a command.
        agent_timeout: seconds that a command has for an attempt.
        agent_sandbox: how a command is shut in; None runs it as the user.
        agent_sandbox_read: absolute paths that it sees then.
        replay: folder of trajectories or a run that replies come from, None to call models.
        max_seconds_per_attempt: after which an attempt asks its model nothing more.
    """

    models: tuple[ModelChoice, ...]
    tries: int = 3
    run: str = ""
    label: str = ""
    environment: EnvironmentKind = EnvironmentKind.NONE
    tests: TestChoice = TestChoice.RELATED
    temperatures: tuple[float, ...] = DEFAULT_TEMPERATURES
    max_reflections: Reflections = field(default_factory=Reflections)
    matching: Matching = Matching.TOLERANT
    on_failed_edit: OnFailure = OnFailure.KEEP
    map_tokens: int = 2048
    max_output_tokens: int | None = None
    api_base: str | None = None
    call_timeout: float = 300.0
    test_timeout: float = 300.0
    baseline_timeout: float = 600.0
    replay: Path | None = None
    all_attempts: bool = False
    require_tests: bool = False
    agent: str = BUILTIN
    agent_env: tuple[str, ...] = ()
    agent_timeout: float = 1800.0
    agent_sandbox: AgentSandbox | None = None
    agent_sandbox_read: tuple[Path, ...] = ()
    max_seconds_per_attempt: float | None = None

    @property
    def outside_agent(self) -> bool:
        """Whether a command edits, which calls its models itself."""
        return is_command(self.agent)

    @property
    def calls_models(self) -> bool:
        """Whether the harness calls models."""
        return self.replay is None and not self.outside_agent

    def temperature(self, try_: int) -> float:
        """Return the temperature of a model's ``try_`` (from 1); the last one is repeated."""
        return self.temperatures[min(try_, len(self.temperatures)) - 1]

    @property
    def _uncut_temperatures(self) -> tuple[float, ...]:
        """The temperatures, whatever the number of tries made of the default ones."""
        default = self.temperatures == DEFAULT_TEMPERATURES[: self.tries]
        return DEFAULT_TEMPERATURES if default else self.temperatures

    @property
    def run_name(self) -> str:
        """The folder under ``predictions/``: as told, else made of the models' names."""
        return self.run or model_slug(self.models)

    @property
    def model_name_or_path(self) -> str:
        """The one model name of the run's predictions, as the leaderboard wants it."""
        return self.label or f"retry--{model_slug(self.models)}"

    def as_json(self) -> dict[str, Any]:
        """Return the configuration as it stands in ``run.json``."""
        plain = asdict(replace(self, models=()))
        # A replay calls no model, and needs no litellm to say what it would know.
        plain["models"] = [
            model.as_json(known=self.replay is None, api_base=self.api_base)
            for model in self.models
        ]
        plain["environment"], plain["tests"] = self.environment.value, self.tests.value
        plain["max_reflections"] = str(self.max_reflections)
        plain["matching"], plain["on_failed_edit"] = self.matching.value, self.on_failed_edit.value
        plain["agent_sandbox"] = self.agent_sandbox and self.agent_sandbox.value
        plain["agent_sandbox_read"] = [str(path) for path in self.agent_sandbox_read]
        plain["replay"] = str(self.replay) if self.replay else None
        plain["api_base"] = recorded_address(self.api_base)
        return plain

    def deciding(self, dataset_sha256: str) -> dict[str, Any]:
        """Return what a continued run must repeat, because it decides results."""
        return {
            "dataset_sha256": dataset_sha256,
            "models": [f"{model.name}@{model.edit_format}" for model in self.models],
            "model_settings_sha256": settings_sha256({m.name: m.settings for m in self.models}),
            "tries": self.tries,
            "harness": HARNESS_VERSION,
            "agent": self.agent,
            "agent_env": sorted(self.agent_env),
            "agent_timeout": self.agent_timeout if self.outside_agent else None,
            # None as in runs of versions that had no sandbox.
            "agent_sandbox": self.agent_sandbox and self.agent_sandbox.value,
            "agent_sandbox_read": [str(path) for path in self.agent_sandbox_read] or None,
            "prompts_sha256": prompts_hash(),
            "environment": self.environment.value,
            "tests": self.tests.value,
            "temperatures": [f"{value:g}" for value in self._uncut_temperatures],
            "max_reflections": str(self.max_reflections),
            "matching": self.matching.value,
            "on_failed_edit": self.on_failed_edit.value,
            "map_tokens": self.map_tokens,
            "max_output_tokens": self.max_output_tokens,
            "test_timeout": self.test_timeout,
            "baseline_timeout": self.baseline_timeout,
            "all_attempts": self.all_attempts,
            "require_tests": self.require_tests,
            "replay_sha256": folder_sha256(self.replay) if self.replay else None,
        }


def folder_sha256(folder: Path) -> str:
    """Return the hash over the trajectories in ``folder``, a run or a folder of them."""
    digest = hashlib.sha256()
    place = folder / "trajectories" if (folder / "trajectories").is_dir() else folder
    for path in sorted(place.glob("*.json")):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def model_slug(models: Sequence[ModelChoice]) -> str:
    """Return a folder name made of the models' names: ``gpt-4o--claude-opus-4``."""
    names = (re.sub(r"[^\w.+-]+", "-", model.name.rsplit("/", 1)[-1]) for model in models)
    return "--".join(names)


def validated(config: RunConfig) -> RunConfig:
    """Return ``config`` when its values make sense.

    Raises:
        UserError: naming the option and what it may be.
    """
    if not config.models:
        raise UserError("--models is empty; give for example gpt-4o,opus")
    if not _RUN_NAME.match(config.run_name):
        raise UserError(f"--run {config.run_name!r}: letters, digits and ._+- only")
    for option, number, least in (
        ("--tries", config.tries, 1),
        ("--map-tokens", config.map_tokens, 0),
        ("--max-output-tokens", config.max_output_tokens or 1, 1),
        ("--call-timeout", config.call_timeout, 1),
        ("--test-timeout", config.test_timeout, 1),
        ("--baseline-timeout", config.baseline_timeout, 1),
        ("--agent-timeout", config.agent_timeout, 1),
        ("--max-seconds-per-attempt", config.max_seconds_per_attempt or 1, 1),
    ):
        if not least <= number < math.inf:
            raise UserError(f"{option} {number}: must be at least {least}")
    if config.temperatures == DEFAULT_TEMPERATURES:
        config = replace(config, temperatures=DEFAULT_TEMPERATURES[: config.tries])
    _check_temperatures(config)
    _check_agent(config)
    if not config.outside_agent:
        return config
    # It writes no edits of ours.
    return replace(config, models=tuple(replace(m, edit_format="agent") for m in config.models))


def _check_agent(config: RunConfig) -> None:
    if config.outside_agent and config.replay:
        raise UserError("--replay serves models' replies, and an outside agent asks for none")
    if config.agent_env and not config.outside_agent:
        raise UserError("--agent-env is for --agent command:TEMPLATE alone; leave it out")
    if config.agent_sandbox and not config.outside_agent:
        raise UserError("--agent-sandbox is for --agent command:TEMPLATE alone; leave it out")
    if config.agent_sandbox_read and not config.agent_sandbox:
        raise UserError("--agent-sandbox-read is for --agent-sandbox; give it, or leave both out")


def _check_temperatures(config: RunConfig) -> None:
    count = len(config.temperatures)
    default = config.temperatures == DEFAULT_TEMPERATURES[: config.tries]
    if count not in (1, config.tries) and not default:
        raise UserError(
            f"--temperature has {count} values; give one, or one for each of {config.tries} tries"
        )
    for value in config.temperatures:
        if not 0 <= value <= 2:
            raise UserError(f"--temperature {value}: must lie between 0 and 2")
