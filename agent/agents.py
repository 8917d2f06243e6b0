"""Load the agent that ``--agent`` names."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from agent.named import AGENTS, named_agent
from core.errors import UserError

if TYPE_CHECKING:
    from agent.command_agent import Surroundings
    from agent.protocol import Agent

GROUP = "swe_retry_harness.agents"
BUILTIN = "builtin"
PREFIX = "command:"


def is_command(name: str) -> bool:
    """Return whether ``--agent name`` runs a command of the user."""
    return name.startswith(PREFIX)


def load_agent(
    name: str,
    env: Sequence[str] = (),
    seconds: float = 1800.0,
    place: Surroundings | None = None,
) -> Agent:
    """Return the agent ``name``: ``builtin``, ``command:…``, ``module:attribute``, or a known name.

    ``env`` names the environment variables that a command gets, ``seconds`` is its time limit.

    Raises:
        UserError: the name is unknown, or does not name an agent.
    """
    if name == BUILTIN:
        from agent.builtin import BuiltinAgent

        return BuiltinAgent()
    if is_command(name):
        from agent.command_agent import command_agent

        return command_agent(name.removeprefix(PREFIX), env, seconds, place)
    if recipe := named_agent(name):
        from agent.command_agent import agent_of

        return agent_of(recipe, env, seconds, place)
    from agent.protocol import Agent

    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    module, colon, attribute = name.partition(":")
    try:
        if name in known:
            found = known[name].load()
        elif colon:
            found = getattr(import_module(module), attribute)
        else:
            names = ", ".join(
                [BUILTIN, f"{PREFIX}TEMPLATE", *(a.name for a in AGENTS), *known]
            )
            raise UserError(
                f"--agent {name!r}: give one of {names}, or MODULE:ATTRIBUTE"
            )
    except (ImportError, AttributeError) as error:
        raise UserError(f"--agent {name}: it cannot be loaded: {error}") from error
    agent = found() if isinstance(found, type) else found
    if not isinstance(agent, Agent):
        raise UserError(f"--agent {name}: it has no method `work`; see docs/agents.md")
    return agent
