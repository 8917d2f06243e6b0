"""The settings of a run, and its configuration in one frozen value that decides results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from swe_retry.agent.agents import is_command
from swe_retry.agent.agentsettings import BUILTIN, AgentSettings, home_hashes
from swe_retry.agent.conversation.limits import Builtin
from swe_retry.agent.named import OUTSIDE, named_agent
from swe_retry.attempts.own_settings import ProjectSettings
from swe_retry.attempts.policy import (
    ChoiceSettings,
    HistoryChoice,
    SelectionRule,
    StopRule,
)
from swe_retry.core.data import read_yaml
from swe_retry.core.errors import UserError
from swe_retry.core.hashing import fitting_name
from swe_retry.core.jsontypes import JsonMapping, JsonObject
from swe_retry.core.settings import values_of
from swe_retry.environments.base import AgentSandbox, EnvironmentKind
from swe_retry.environments.docker.images import Images
from swe_retry.instances.selection import Instances
from swe_retry.llm.dialects import DIALECTS
from swe_retry.llm.options import DEFAULT_TEMPERATURES, ModelChoice
from swe_retry.repositories.names import BUNDLED, Bundled
from swe_retry.runner.config import CommonConfig, model_slug, name_slug
from swe_retry.runner.settings import CommonSettings
from swe_retry.testing.testsettings import TestChoice, Tests

__all__ = [
    "AgentSandbox",
    "EnvironmentKind",
    "HistoryChoice",
    "ModelChoice",
    "RunConfig",
    "RunSettings",
    "SelectionRule",
    "StopRule",
    "TestChoice",
    "validate_config",
]


class RunSettings(CommonSettings):
    """All that ``harness.py`` is told of a run."""

    agent: AgentSettings = AgentSettings()
    builtin: Builtin = Builtin()
    instances: Instances = Instances()
    tests: Tests = Tests()
    images: Images = Images()
    choice: ChoiceSettings = ChoiceSettings()
    project: ProjectSettings = ProjectSettings()


_DECIDING = ("models", "agent", "builtin", "tests", "choice")
# Recorded resolved: labels, hashes, and the environment that runs the tests.
_UNDECIDING = ("models.names", "models.file", "tests.environment", "agent.home")
_OF_SCRIPTS = ("choice.scripts", "choice.rounds")
_OF_BELIEF = ("choice.sure", "choice.right")
_RECORDED: dict[str, str] = read_yaml(__file__, "recorded.yaml")


@dataclass(frozen=True)
class RunConfig(CommonConfig):
    """A run of instances while it lives: its settings, and what they mean here.

    Attributes:
        label: the model name of the predictions; made of the models' names when empty.
        candidates_of: the runs whose candidates are chosen from; none are made then.
        own_dataset: the data set of one's own repository, which lies beside its mirror.
        dry_run: the run is described, not started.
        bundled: the data sets that come with the project; workers elsewhere get them with this.
    """

    settings: RunSettings = field(default_factory=RunSettings)
    label: str = ""
    candidates_of: tuple[str, ...] = ()
    candidates_sha256: str = ""
    own_dataset: Path | None = None
    dry_run: bool = False
    bundled: Mapping[str, Bundled] = field(default_factory=BUNDLED.copy)

    @property
    def dataset(self) -> str:
        """The name of the data set, or its file."""
        if self.own_dataset:
            return str(self.own_dataset)
        return self.settings.instances.dataset

    @property
    def repos(self) -> Path | None:
        """The folder of bare mirrors; None for that in the cache."""
        if self.own_dataset:
            return self.own_dataset.parent
        return self.settings.folders.repos

    @property
    def full_suite(self) -> bool:
        """Whether all tests run on the candidate that would be chosen."""
        chosen = self.settings.tests.full_suite
        if chosen is None:
            return bool(self.settings.project.repo)
        return chosen

    @property
    def requires_tests(self) -> bool:
        """Whether an untested candidate is not enough."""
        chosen = self.settings.tests.required
        if chosen is None:
            return bool(self.settings.project.repo)
        return chosen

    @property
    def runs_tests(self) -> bool:
        return (
            self.settings.tests.which is not TestChoice.NONE
            and self.environment is not EnvironmentKind.NONE
        )

    @property
    def by_evidence(self) -> bool:
        return self.settings.choice.select is SelectionRule.EVIDENCE

    @property
    def compares_candidates(self) -> bool:
        """Whether a belief about the candidates of an instance is needed."""
        return self.by_evidence or self.settings.choice.stop is StopRule.SURE

    @property
    def calls_models(self) -> bool:
        return super().calls_models and (not self.outside_agent or self.has_gateway)

    @property
    def named_agents(self) -> tuple[str, ...]:
        used = (model.edit_format for model in self.models)
        return tuple(dict.fromkeys(name for name in used if named_agent(name)))

    @property
    def outside_agent(self) -> bool:
        return is_command(self.settings.agent.name) or bool(self.named_agents)

    @property
    def has_gateway(self) -> bool:
        """Whether the agent calls its models through the gateway."""
        return bool(self.settings.agent.api or self.named_agents)

    @property
    def agent_sandbox(self) -> AgentSandbox | None:
        """The network of a command in the sandbox; None without one."""
        sandbox = self.settings.agent.sandbox
        if sandbox == "open":
            return AgentSandbox.NETWORK
        if sandbox == "none":
            return None
        if self.outside_agent and self.has_gateway:
            return AgentSandbox.MODEL
        if sandbox is None:
            return None
        return AgentSandbox.OFFLINE

    @property
    def run_name(self) -> str:
        """The folder under ``predictions/``: ``--run``, or the names of agent and models."""
        if self.run:
            return self.run
        models = model_slug(self.called_models)
        agents = self.named_agents or (self.settings.agent.name,)
        if agents == (BUILTIN,):
            return models
        # Of a command, its program alone.
        names = (name_slug(agent.partition(" ")[0]) for agent in agents)
        return fitting_name("--".join([*names, models]))

    @property
    def model_name_or_path(self) -> str:
        """The one model name of the run's predictions, as the leaderboard wants it."""
        return self.label or f"retry--{model_slug(self.called_models)}"

    def as_json(self) -> JsonObject:
        values = values_of(self.settings)
        temperatures = self.settings.models.temperatures
        if temperatures == DEFAULT_TEMPERATURES:
            temperatures = DEFAULT_TEMPERATURES[: self.settings.models.tries]
        resolved = {
            "agent_sandbox": self.agent_sandbox and self.agent_sandbox.value,
            "all_attempts": self.settings.choice.stop is StopRule.ALL,
            "label": self.label,
            "candidates_of": list(self.candidates_of),
            "candidates_sha256": self.candidates_sha256,
            "temperatures": list(temperatures),
            "full_suite": "winner" if self.full_suite else "never",
        }
        recorded = super().as_json()
        for name, setting in _RECORDED.items():
            recorded[name] = values[setting] if setting else resolved[name]
        return recorded

    def deciding(self) -> JsonObject:
        home = self.settings.agent.home
        return {
            **super().deciding(),
            **dict(self._deciding_settings()),
            "agent_home": home and home_hashes(home),
            "candidates_sha256": self.candidates_sha256 or None,
        }

    def _deciding_settings(self) -> JsonMapping:
        deciding = {}
        for name, value in values_of(self.settings).items():
            section = name.partition(".")[0]
            unused = (
                name in _UNDECIDING
                or (name in _OF_SCRIPTS and not self.by_evidence)
                or (name in _OF_BELIEF and not self.compares_candidates)
            )
            if section == "agent" and name != "agent.name":
                unused = not self.outside_agent
            if section in _DECIDING and not unused:
                deciding[name] = value
        return deciding


def validate_config(config: RunConfig) -> RunConfig:
    """Return ``config`` when its values fit together."""
    config.check_name()
    config = _with_agents(config)
    _check_agent(config)
    return config


def _with_agents(config: RunConfig) -> RunConfig:
    """Put the agent of each model in the place of the edit format, which it does not write."""
    agent = config.settings.agent.name
    models = config.models
    with_agent = [model for model in models if named_agent(model.edit_format)]
    recipe = named_agent(agent)
    if recipe or is_command(agent):
        name = recipe.name if recipe else OUTSIDE
        for model in with_agent:
            if model.edit_format != name:
                choice = f"{model.text}@{model.edit_format}"
                other = recipe.name if recipe else agent.partition(":")[0]
                raise UserError(
                    f"--models {choice} and --agent {other} differ; give one agent"
                )
        models = tuple(replace(model, edit_format=name) for model in models)
        return replace(config, models=models)
    if with_agent and len(with_agent) < len(models):
        without = ", ".join(model.text for model in models if model not in with_agent)
        raise UserError(
            f"--models: give {without} an agent too, as NAME@AGENT, or give --agent"
        )
    return config


def _check_agent(config: RunConfig) -> None:
    agent = config.settings.agent
    if agent.home and not agent.home.is_dir():
        raise UserError(f"agent.home {agent.home}: there is no such folder; correct it")
    for model in config.models:
        if model.architect and (config.outside_agent or agent.name != BUILTIN):
            raise UserError(
                f"--models {model.text}: only the builtin agent edits what another model "
                "plans; give one model"
            )
    if config.has_gateway:
        _check_gateway(config)
        return
    if agent.max_calls and config.outside_agent:
        raise UserError(
            "agent.max_calls is for named agents and agent.api; leave it out"
        )
    replay = config.settings.calls.replay
    if config.outside_agent and replay:
        raise UserError(
            "--replay serves models' replies, and a command asks for some with agent.api alone"
        )
    if config.outside_agent and config.by_evidence:
        raise UserError(
            "choice.select=evidence asks the models of --models; set agent.api, which says how the "
            "command calls them"
        )


def _check_gateway(config: RunConfig) -> None:
    from swe_retry.agent.gateway.upstream import check_dialects

    agent = config.settings.agent
    calls = config.settings.calls
    keys = [name for name in agent.env if name.endswith("_API_KEY")]
    if keys:
        raise UserError(
            f"agent.env {','.join(keys)}: an agent behind the gateway gets no keys of providers; "
            "leave it out"
        )
    for model in config.models:
        if calls.replay is None and not calls.api_base:
            named = named_agent(model.edit_format)
            if named:
                dialects = [d for d in DIALECTS if d.name == named.dialect]
            else:
                dialects = [d for d in DIALECTS if d.api in agent.api]
            check_dialects(model.name, dialects)
