"""The configuration of a run in one frozen value: it decides results and is recorded."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any

from agent.agents import is_command
from agent.conversation.base import Reflections
from agent.formats.base import Matching, OnFailure
from agent.gateway.dialects import DIALECTS
from agent.gateway.upstream import check_dialects
from agent.named import OUTSIDE, named_agent
from bench.policy import PolicyOptions, SelectionRule, StopRule, ToldHistory
from core.errors import UserError
from core.options import option, option_group
from environments.base import AgentSandbox, EnvironmentKind
from environments.options import TESTS
from llm.options import DEFAULT_MODELS, LIMITS, MODELS, ModelChoice
from runs.options import RunOptions, model_slug

__all__ = [
    "AgentSandbox",
    "EnvironmentKind",
    "ModelChoice",
    "RunConfig",
    "SelectionRule",
    "TestChoice",
    "ToldHistory",
    "validated",
]

# Three tries of one model at temperature 0 with one prompt would repeat one try.
DEFAULT_TEMPERATURES = (0.0, 0.4, 0.8)


class TestChoice(str, Enum):
    """Which pre-existing tests run."""

    __test__ = False

    RELATED = "related"
    ALL = "all"
    NONE = "none"


class FullSuite(str, Enum):
    """Whether all tests run on the winner."""

    NEVER = "never"
    WINNER = "winner"


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
class RunConfig(PolicyOptions, RunOptions):
    """Everything that decides what a run does; seconds, tokens and counts.

    Attributes:
        label: the model name of the predictions; made of the models' names when empty.
        candidates_of: the runs whose candidates are chosen from; none are made then.
        temperatures: one for all tries, or one for each.
    """

    label: str = ""
    candidates_of: tuple[str, ...] = ()
    candidates_sha256: str = ""
    tries: int = option(
        3, "Tries per model.", "--tries", panel=MODELS, least=1, decides=True
    )
    temperatures: tuple[float, ...] = option(
        DEFAULT_TEMPERATURES,
        "One value, or one for each try of a model.",
        "--temperature",
        panel=MODELS,
        decides=True,
        shown=",".join(f"{value:g}" for value in DEFAULT_TEMPERATURES),
        given=str,
        read=_temperatures,
    )
    matching: Matching = option(
        Matching.TOLERANT,
        "How the lines of an edit are looked for; reference: as in the run of May 2024.",
        "--matching",
        panel=MODELS,
        decides=True,
    )
    on_failed_edit: OnFailure = option(
        OnFailure.KEEP,
        "What becomes of a reply's good edits when others of it fail.",
        "--on-failed-edit",
        panel=MODELS,
        decides=True,
    )
    tests: TestChoice = option(
        TestChoice.RELATED,
        "Which pre-existing tests run.",
        "--tests",
        panel=TESTS,
        decides=True,
    )
    full_suite: FullSuite = option(
        FullSuite.NEVER,
        "Whether all tests run on the candidate that would be chosen: winner or never; default: "
        "winner with --repo, else never.",
        "--full-suite",
        panel=TESTS,
        given=FullSuite | None,
        decides=True,
    )
    require_tests: bool = option(
        False,
        "A candidate that no test could judge does not end the attempts.",
        "--require-tests",
        panel=TESTS,
        decides=True,
    )
    baseline_timeout: float = option(
        600.0,
        "Seconds for the tests at the base commit.",
        "--baseline-timeout",
        panel=TESTS,
        least=1,
        decides=True,
    )
    max_reflections: Reflections = option(
        None,
        "Messages that may follow the first of an attempt, by topic; one number: in all.",
        "--max-reflections",
        panel=LIMITS,
        factory=Reflections,
        shown=str(Reflections()),
        given=str,
        decides=True,
        read=_reflections,
    )
    map_tokens: int = option(
        2048,
        "Size of the repository map.",
        "--map-tokens",
        panel=LIMITS,
        least=0,
        decides=True,
    )

    def temperature(self, try_: int) -> float:
        """Return the temperature of a model's ``try_`` (from 1); the last one is repeated."""
        return self.temperatures[min(try_, len(self.temperatures)) - 1]

    @property
    def runs_tests(self) -> bool:
        return (
            self.tests is not TestChoice.NONE
            and self.environment is not EnvironmentKind.NONE
        )

    @property
    def needs_base(self) -> bool:
        """Whether an instance needs a checkout of its base commit beside those of attempts."""
        return self.runs_tests or self.by_evidence

    @property
    def calls_models(self) -> bool:
        return self.replay is None and (not self.outside_agent or self.has_gateway)

    @property
    def named_agents(self) -> tuple[str, ...]:
        used = (model.edit_format for model in self.models)
        return tuple(dict.fromkeys(name for name in used if named_agent(name)))

    @property
    def run_name(self) -> str:
        """The folder under ``predictions/``: ``--run``, or made of the models' names."""
        return self.run or model_slug(self.models)

    @property
    def model_name_or_path(self) -> str:
        """The one model name of the run's predictions, as the leaderboard wants it."""
        return self.label or f"retry--{model_slug(self.models)}"

    def deciding(self) -> dict[str, Any]:
        default = self.temperatures == DEFAULT_TEMPERATURES[: self.tries]
        temperatures = DEFAULT_TEMPERATURES if default else self.temperatures
        return super().deciding() | {
            "agent_allow_web": self.agent_allow_web or None,
            "agent_api": sorted(self.agent_api) or None,
            "feedback": self.feedback or None,
            "full_suite": None
            if self.full_suite is FullSuite.NEVER
            else self.full_suite.value,
            **self.deciding_policy(),
            "candidates_sha256": self.candidates_sha256 or None,
            "agent_env": sorted(self.agent_env),
            "agent_sandbox_read": [str(path) for path in self.agent_sandbox_read]
            or None,
            "agent_timeout": self.agent_timeout if self.outside_agent else None,
            # Of the default they are cut to the tries, which decide by themselves.
            "temperatures": [f"{value:g}" for value in temperatures],
        }


def validated(config: RunConfig) -> RunConfig:
    """Return ``config`` when its values fit together."""
    if not config.models:
        raise UserError(f"--models is empty; give for example {DEFAULT_MODELS}")
    config.check_name()
    if config.temperatures == DEFAULT_TEMPERATURES:
        config = replace(config, temperatures=DEFAULT_TEMPERATURES[: config.tries])
    _check_temperatures(config)
    config = _with_agents(config)
    _check_agent(config)
    return replace(config, all_attempts=True) if config.stop is StopRule.ALL else config


def _with_agents(config: RunConfig) -> RunConfig:
    """Put the agent of each model in the place of the edit format, which it does not write."""
    models = config.models
    own = [model for model in models if named_agent(model.edit_format)]
    if named_agent(config.agent) or is_command(config.agent):
        name = OUTSIDE if is_command(config.agent) else config.agent
        for model in own:
            if model.edit_format != name:
                given, other = (
                    f"{model.given}@{model.edit_format}",
                    config.agent.partition(":")[0],
                )
                raise UserError(
                    f"--models {given} and --agent {other} differ; give one agent"
                )
        config = replace(
            config, models=tuple(replace(m, edit_format=name) for m in models)
        )
    elif own and len(own) < len(models):
        without = ", ".join(model.given for model in models if model not in own)
        raise UserError(
            f"--models: give {without} an agent too, as NAME@AGENT, or give --agent"
        )
    if config.named_agents and config.agent_sandbox is None:
        config = replace(config, agent_sandbox=AgentSandbox.MODEL)
    return config


def _check_agent(config: RunConfig) -> None:
    others, gateway = "--agent command:TEMPLATE and named agents", config.has_gateway
    for name, fits, users in (
        ("agent_env", config.outside_agent, others),
        ("agent_sandbox", config.outside_agent, others),
        ("feedback", config.outside_agent, others),
        ("agent_api", is_command(config.agent), "--agent command:TEMPLATE alone"),
        ("max_calls_per_attempt", gateway, "named agents and --agent-api"),
        ("agent_allow_web", gateway, "named agents and --agent-api"),
    ):
        if getattr(config, name) and not fits:
            raise UserError(f"--{name.replace('_', '-')} is for {users}; leave it out")
    if config.outside_agent and config.replay and not gateway:
        raise UserError(
            "--replay serves models' replies, and a command asks for some with --agent-api alone"
        )
    if config.agent_sandbox is AgentSandbox.MODEL and not gateway:
        raise UserError(
            "--agent-sandbox model is for --agent-api; give it, or choose offline"
        )
    if config.agent_sandbox_read and not config.agent_sandbox:
        raise UserError(
            "--agent-sandbox-read is for --agent-sandbox; give it, or leave both out"
        )
    if gateway:
        _check_gateway(config)
    if config.by_evidence and config.outside_agent and not config.has_gateway:
        raise UserError(
            "--select evidence asks the models of --models; give --agent-api, which says how the "
            "command calls them"
        )


def _check_gateway(config: RunConfig) -> None:
    if keys := [name for name in config.agent_env if name.endswith("_API_KEY")]:
        raise UserError(
            f"--agent-env {','.join(keys)}: an agent behind the gateway gets no keys of providers; "
            "leave it out"
        )
    if config.agent_sandbox is AgentSandbox.OFFLINE:
        raise UserError(
            "--agent-sandbox offline hides the gateway too; give --agent-sandbox model"
        )
    for model in config.models:
        if model.architect:
            raise UserError(
                f"--models {model.given}: a command edits alone; give one model"
            )
        if config.replay is None and not config.api_base:
            agent, apis = named_agent(model.edit_format), config.agent_api
            spoken = [
                d
                for d in DIALECTS
                if (d.name == agent.dialect if agent else d.api in apis)
            ]
            check_dialects(model.name, spoken)


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
