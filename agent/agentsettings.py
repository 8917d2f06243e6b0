"""The settings of the agent that edits, and of a command that is one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from swe_retry.agent.named import AGENTS
from swe_retry.core.hashing import sha256_of
from swe_retry.core.settings import Commas, Section, TextList
from swe_retry.llm.dialects import APIS

BUILTIN = "builtin"
_NAMES = ", ".join(agent.name for agent in AGENTS)


def home_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files below ``folder`` by their paths in it."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    hashes = {}
    for path in paths:
        name = str(path.relative_to(folder))
        hashes[name] = sha256_of(path.read_bytes())
    return hashes


def _check_api(name: str) -> str:
    if name not in APIS:
        raise ValueError(f"{name!r} is unknown; give some of {','.join(APIS)}")
    return name


class AgentSettings(Section):
    """The agent; ``name`` is ``builtin``, ``command:TEMPLATE`` or another's."""

    name: str = Field(
        default=BUILTIN,
        description=f"Let this agent edit: builtin, {_NAMES}, or command:TEMPLATE "
        "(docs/agents.md).",
    )
    from_path: bool = False
    """Use the coding agent that is in PATH, not that of harness.py install."""

    timeout: float = Field(default=1800, ge=1)
    """End a command after this many seconds of an attempt."""

    max_calls: int | None = Field(default=None, ge=1)
    """Refuse further calls of an agent after this many in an attempt."""

    max_output: int = Field(default=16_000, ge=2_000)
    """Ask for answers of at most this many tokens on behalf of an agent; one that is
    cut off is asked for again, with the agent's own limit."""

    max_request: int = Field(default=32, ge=1, le=64)
    """End the attempt of an agent that sends a request of more than this many MiB."""

    max_record: int = Field(default=32, ge=1)
    """End the attempt of an agent when its messages and answers, equal ones once, have
    more than this many MiB."""

    feedback: int = Field(default=0, ge=0)
    """Send lint findings and newly failing tests back to an outside agent this
    often."""

    env: TextList = ()
    """Pass these environment variables to a command: NAME,NAME."""

    api: Annotated[tuple[Annotated[str, AfterValidator(_check_api)], ...], Commas] = (
        Field(
            default=(),
            description="Let a command call models through the harness in these protocols: "
            f"{','.join(APIS)} (docs/agents.md).",
        )
    )
    allow_web: bool = False
    """Keep tools that the provider runs for an agent, such as a search of the web;
    leaderboards forbid them."""

    sandbox: Literal["open", "closed", "none"] | None = None
    """Run a command in bubblewrap, with the network of the machine (open) or with its
    models alone (closed), or with your rights (none); default: closed for named agents
    and with agent.api, else none (docs/agents.md)."""

    home: Path | None = None
    """Put the files of this folder into the home of a command: configuration, MCP
    servers, skills (docs/agents.md)."""

    sandbox_read: Annotated[tuple[Path, ...], Commas] = ()
    """Show a command in the sandbox these paths, read-only."""
