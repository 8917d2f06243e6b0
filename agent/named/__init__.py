"""The coding agents that ``--agent`` knows by name: how each is started, and what was tested.

The facts are those of the versions in ``tested``, seen when they ran (docs/agents.md).
"""

from __future__ import annotations

from pydantic import TypeAdapter

from swe_retry.agent.named.description import NamedAgent
from swe_retry.core.data import read_yaml

AGENTS = TypeAdapter(tuple[NamedAgent, ...]).validate_python(
    read_yaml(__file__, "agents.yaml")
)


def named_agent(text: str) -> NamedAgent | None:
    """Return the agent of ``NAME`` or ``NAME ARGUMENT…``; None for any other text."""
    name = text.strip().partition(" ")[0]
    for agent in AGENTS:
        if agent.name == name:
            return agent
    return None


OUTSIDE = "agent"
"""The edit format of a command."""


def is_outside(edit_format: object) -> bool:
    """Return whether a program of others edited: its messages need not contain its edits.

    Where the harness knows the program by name, the name stands in the place of the edit format.
    """
    return edit_format == OUTSIDE or named_agent(str(edit_format)) is not None
