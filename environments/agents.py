"""Put an agent's command into the environment in which an instance's tests run."""

from __future__ import annotations

from dataclasses import replace

from agent.command_agent import Surroundings
from environments.base import Session
from environments.docker.agents import AgentContainer
from environments.docker.environment import DockerSession
from environments.local.agentsandbox import AgentBubble
from environments.local.environment import LocalSession


def join_tests(surroundings: Surroundings, session: Session) -> Surroundings:
    """Return ``surroundings`` with the environment of ``session``.

    Without a sandbox a command has the environment of the machine.
    """
    if isinstance(surroundings, AgentBubble):
        if isinstance(session, LocalSession):
            return replace(surroundings, session=session)
        if isinstance(session, DockerSession):
            return AgentContainer(surroundings, session)
    return surroundings
