"""Load the agent that ``--agent`` names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from swe_retry.agent.agentsettings import BUILTIN, AgentSettings
from swe_retry.agent.named import AGENTS, named_agent
from swe_retry.core.address import has_password
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import did_you_mean
from swe_retry.core.redaction import Redactor

if TYPE_CHECKING:
    from swe_retry.agent.protocol import Agent, AgentResult, Task
    from swe_retry.agent.surroundings import Surroundings

GROUP = "swe_retry_harness.agents"
PREFIX = "command:"
# Not ${NAME} of a shell, nor {{name}}, which stands for {name}.
_ANY_PLACEHOLDER = re.compile(r"(?<![${])\{([a-z_]+)\}")


def is_command(name: str) -> bool:
    """Return whether ``--agent name`` runs a command of the user."""
    return name.startswith(PREFIX)


def load_agent(
    name: str,
    settings: AgentSettings | None = None,
    surroundings: Surroundings | None = None,
) -> Agent:
    """Return the agent ``name``: ``builtin``, ``command:…``, ``module:attribute``, or a known name.

    Args:
        name: with arguments, if it is a known name.
        settings: of a command; its name in them does not count.
        surroundings: where a command runs.

    Raises:
        UserError: the name is unknown, or does not name an agent.
    """
    if name == BUILTIN:
        from swe_retry.agent.builtin import BuiltinAgent

        return BuiltinAgent()
    settings = settings or AgentSettings()
    recipe = named_agent(name)
    if recipe:
        settings = settings.model_copy(update={"api": (recipe.api,)})
        argv = recipe.command_line(split_words(name)[1:])
    elif is_command(name):
        argv = _argv(name.removeprefix(PREFIX), settings)
    else:
        return _load_plugin(name)
    from swe_retry.agent.command_agent import CommandAgent
    from swe_retry.agent.gateway_agent import GatewayAgent
    from swe_retry.agent.surroundings import Surroundings

    environment = _environment(settings.env)
    surroundings = surroundings or Surroundings()
    if not settings.api:
        return CommandAgent(argv, environment, settings, surroundings)
    return GatewayAgent(argv, environment, settings, surroundings, recipe)


def _load_plugin(name: str) -> Agent:
    from importlib.metadata import entry_points

    from swe_retry.agent.builtin import BuiltinAgent
    from swe_retry.agent.protocol import Agent

    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    module, colon, attribute = name.partition(":")
    try:
        if name in entries:
            plugin = entries[name].load()
        elif colon:
            plugin = getattr(import_module(module), attribute)
        else:
            names = [BUILTIN, f"{PREFIX}TEMPLATE"]
            names += [agent.name for agent in AGENTS]
            names += entries
            raise UserError(
                f"--agent {name!r}: give one of {', '.join(names)}, or MODULE:ATTRIBUTE"
                + did_you_mean(name, names)
            )
    except (ImportError, AttributeError) as error:
        raise UserError(f"--agent {name}: it cannot be loaded: {error}") from error
    if isinstance(plugin, type):
        plugin = plugin()
    if isinstance(plugin, BuiltinAgent):
        return plugin
    if not isinstance(plugin, Agent):
        raise UserError(f"--agent {name}: it has no method `work`; see docs/agents.md")
    return PluginAgent(plugin)


@dataclass(frozen=True)
class PluginAgent:
    """Runs an agent of another package, which knows the task and not its host."""

    plugin: Agent

    def work(self, task: Task) -> AgentResult:
        # It may write at once.
        task.host.settle_checkout()
        return self.plugin.work(task)


def split_words(text: str) -> list[str]:
    """Split the command line of ``--agent`` as a shell splits words, without a shell."""
    # ``run.json`` records it and is published.
    secret = Redactor.of_environment(os.environ).named_in(text)
    if secret:
        raise UserError(
            f"--agent holds the value of {secret}: pass it with --set agent.env={secret}"
        )
    if has_password(text):
        raise UserError(
            "--agent holds a password in an address: put the address into an environment variable "
            "and pass it with --set agent.env=NAME"
        )
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"--agent {text}: {error}; fix the quotes") from error


def _argv(template: str, settings: AgentSettings) -> tuple[str, ...]:
    from swe_retry.agent.command_agent import PLACEHOLDERS

    placeholders = list(PLACEHOLDERS)
    if settings.api:
        placeholders += ("address", "token")
    argv = split_words(template)
    if not argv:
        raise UserError(
            "--agent command: is empty; give a command, as 'command:my-agent {model}'"
        )
    for match in _ANY_PLACEHOLDER.finditer(template):
        if match[1] not in placeholders:
            names = " ".join(f"{{{name}}}" for name in placeholders)
            raise UserError(
                f"--agent command:{template}: unknown placeholder {match[0]}; there are {names}"
            )
    program = shutil.which(argv[0])
    if not program:
        raise UserError(
            f"--agent: there is no command {argv[0]!r}; install it or give its path"
        )
    return (str(Path(program).absolute()), *argv[1:])


def _environment(names: Sequence[str]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise UserError(
            f"agent.env {','.join(missing)}: not set; set it or leave it out"
        )
    return {name: os.environ[name] for name in names}
