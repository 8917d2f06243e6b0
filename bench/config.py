"""The configuration of a run in one frozen value: it decides results and is recorded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from agent.conversation.base import Reflections
from agent.formats.base import Matching, OnFailure
from agent.prompts import prompts_hash
from core.address import recorded_address
from core.errors import UserError
from core.options import option, option_group
from environments.base import AgentSandbox, EnvironmentKind
from environments.options import TESTS
from llm.options import DEFAULT_MODELS, LIMITS, MODELS, ModelChoice
from llm.settings import settings_sha256
from runs.options import RUN, RunOptions, temperature_option, tries_option
from runs.storage.versions import HARNESS_VERSION

__all__ = ["AgentSandbox", "EnvironmentKind", "ModelChoice", "RunConfig", "TestChoice", "validated"]

# Three tries of one model at temperature 0 with one prompt would repeat one try.
DEFAULT_TEMPERATURES = (0.0, 0.4, 0.8)
_RUN_NAME = re.compile(r"^[A-Za-z0-9][\w.+-]*$")
# In run.json, in the order in which earlier versions wrote them.
_RECORDED = (
    "models", "tries", "run", "label", "environment", "tests", "temperatures", "max_reflections",
    "matching", "on_failed_edit", "map_tokens", "max_output_tokens", "api_base", "call_timeout",
    "test_timeout", "baseline_timeout", "replay", "all_attempts", "require_tests", "agent",
    "agent_env", "agent_timeout", "agent_sandbox", "agent_sandbox_read", "max_seconds_per_attempt",
)  # fmt: skip


class TestChoice(str, Enum):
    """Which pre-existing tests run."""

    __test__ = False

    RELATED = "related"
    ALL = "all"
    NONE = "none"


def _temperatures(option: str, text: str, _: object) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{option} {text!r}: give numbers, as 0 or 0,0.4,0.8") from None


def _reflections(option: str, text: str, _: object) -> Reflections:
    try:
        return Reflections.parse(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None


@option_group
class RunConfig(RunOptions):
    """Everything that decides what a run does; seconds, tokens and counts.

    Attributes:
        label: the model name of the predictions; made of the models' names when empty.
        temperatures: one for all tries, or one for each.
    """

    label: str = ""
    tries: int = tries_option(3, "Tries per model.")
    temperatures: tuple[float, ...] = temperature_option(
        DEFAULT_TEMPERATURES,
        "One value, or one for each try of a model.",
        shown=",".join(f"{value:g}" for value in DEFAULT_TEMPERATURES),
        given=str,
        read=_temperatures,
    )
    matching: Matching = option(
        Matching.TOLERANT,
        "How the lines of an edit are looked for; reference: as in the run of May 2024.",
        "--matching",
        panel=MODELS,
    )
    on_failed_edit: OnFailure = option(
        OnFailure.KEEP,
        "What becomes of a reply's good edits when others of it fail.",
        "--on-failed-edit",
        panel=MODELS,
    )
    tests: TestChoice = option(
        TestChoice.RELATED, "Which pre-existing tests run.", "--tests", panel=TESTS
    )
    require_tests: bool = option(
        False,
        "A candidate that no test could judge does not end the attempts.",
        "--require-tests",
        panel=TESTS,
    )
    baseline_timeout: float = option(
        600.0,
        "Seconds for the tests at the base commit.",
        "--baseline-timeout",
        panel=TESTS,
        least=1,
    )
    max_reflections: Reflections = option(
        None,
        "Messages that may follow the first of an attempt, by topic; one number: in all.",
        "--max-reflections",
        panel=LIMITS,
        factory=Reflections,
        shown=str(Reflections()),
        given=str,
        read=_reflections,
    )
    map_tokens: int = option(
        2048, "Size of the repository map.", "--map-tokens", panel=LIMITS, least=0
    )
    all_attempts: bool = option(
        False, "Go on after a plausible attempt (for studies).", "--all-attempts", panel=RUN
    )

    def temperature(self, try_: int) -> float:
        """Return the temperature of a model's ``try_`` (from 1); the last one is repeated."""
        return self.temperatures[min(try_, len(self.temperatures)) - 1]

    @property
    def _uncut_temperatures(self) -> tuple[float, ...]:
        default = self.temperatures == DEFAULT_TEMPERATURES[: self.tries]
        return DEFAULT_TEMPERATURES if default else self.temperatures

    @property
    def run_name(self) -> str:
        """The folder under ``predictions/``: ``--run``, or made of the models' names."""
        return self.run or model_slug(self.models)

    @property
    def model_name_or_path(self) -> str:
        """The one model name of the run's predictions, as the leaderboard wants it."""
        return self.label or f"retry--{model_slug(self.models)}"

    def as_json(self) -> dict[str, Any]:
        plain = {name: _plain(getattr(self, name)) for name in _RECORDED}
        # A replay calls no model, and needs no litellm to say what it would know.
        plain["models"] = [
            model.as_json(known=self.replay is None, api_base=self.api_base)
            for model in self.models
        ]
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


def _plain(value: Any) -> Any:  # noqa: ANN401 - of any field
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, (Path, Reflections)) else value


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
    """Return ``config`` when its values fit together."""
    if not config.models:
        raise UserError(f"--models is empty; give for example {DEFAULT_MODELS}")
    if not _RUN_NAME.match(config.run_name):
        raise UserError(f"--run {config.run_name!r}: letters, digits and ._+- only")
    if config.temperatures == DEFAULT_TEMPERATURES:
        config = replace(config, temperatures=DEFAULT_TEMPERATURES[: config.tries])
    _check_temperatures(config)
    _check_agent(config)
    if not config.outside_agent:
        return config
    # Such an agent writes no edit format.
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
