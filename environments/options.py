"""The options of environments, and of an agent that is a command and its sandbox."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import ByteSize, TypeAdapter, ValidationError

from agent.agents import BUILTIN, is_command
from agent.gateway.dialects import APIS
from agent.named import AGENTS, named_agent
from core.errors import UserError
from core.options import option, option_group
from environments.base import AgentSandbox, EnvironmentKind
from environments.docker.images import ImagePrefix

TESTS = "Environment and tests"
AGENT = "Agent"


@option_group
class EnvironmentChoice:
    """Where tests run; the command line chooses an environment by itself."""

    environment: EnvironmentKind = option(
        EnvironmentKind.NONE,
        "Where tests run; default: docker when an engine answers, else local.",
        "--environment",
        panel=TESTS,
        given=EnvironmentKind | None,
        decides=True,
    )


@option_group
class EnvironmentOptions(EnvironmentChoice):
    """Where tests run, and for how long."""

    test_timeout: float = option(
        300.0,
        "Seconds for a run of a candidate's tests.",
        "--test-timeout",
        panel=TESTS,
        least=1,
        decides=True,
    )


def _bytes(name: str, text: str, _: object) -> int:
    try:
        size = int(TypeAdapter(ByteSize).validate_python(text.strip()))
    except ValidationError as error:
        raise UserError(
            f"{name} {text!r}: give a size with its unit, as 60GB"
        ) from error
    if size < 1:
        raise UserError(f"{name} {text!r}: give a size that is greater than 0, as 60GB")
    return size


@option_group
class ImageOptions:
    """How images are pulled, and how much room they may take.

    Attributes:
        image_disk: bytes; None for no limit.
    """

    image_disk: int | None = option(
        None,
        "Room for images that are pulled, as 60GB: those used longest ago are removed, but none "
        "that was there before. Default: no limit.",
        "--image-disk",
        panel=TESTS,
        given=str,
        read=_bytes,
    )
    image_prefix: tuple[ImagePrefix, ...] = option(
        (),
        "FROM=TO: pull images whose names start with FROM from a mirror; repeatable.",
        "--image-prefix",
        panel=TESTS,
        given=list[str],
        read=lambda _, texts, __: tuple(map(ImagePrefix.parse, texts)),
    )


def _names(_: str, given: Sequence[str], __: object) -> tuple[str, ...]:
    return tuple(
        name.strip() for words in given for name in words.split(",") if name.strip()
    )


def _apis(name: str, text: str, _: object) -> tuple[str, ...]:
    given = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if unknown := [part for part in given if part not in APIS]:
        raise UserError(
            f"{name} {text}: {unknown[0]!r} is unknown; give some of {','.join(APIS)}"
        )
    return given


def absolute(_: str, paths: Sequence[Path], __: object) -> tuple[Path, ...]:
    """Return paths as a command can be called by: absolute, with their links."""
    return tuple(Path(os.path.abspath(path.expanduser())) for path in paths)  # noqa: PTH100


@option_group
class AgentOptions:
    """Which agent edits, and what a command has.

    Attributes:
        agent: ``builtin``, ``command:TEMPLATE`` or another's name.
    """

    agent: str = option(
        BUILTIN,
        f"Who edits: builtin, {', '.join(one.name for one in AGENTS)}, an entry point, "
        "MODULE:ATTRIBUTE, or command:TEMPLATE with {message_file}, {model}, {temperature}, "
        "{result_file} (docs/agents.md).",
        "--agent",
        panel=AGENT,
        decides=True,
    )
    agent_env: tuple[str, ...] = option(
        (),
        "Environment variables that reach a command: NAME,NAME; repeatable.",
        "--agent-env",
        panel=AGENT,
        decides=True,
        given=list[str],
        read=_names,
    )
    agent_api: tuple[str, ...] = option(
        (),
        f"Protocols in which a command calls models through the harness: {','.join(APIS)}. It "
        "gets addresses and a token instead of keys; budget, journal and replay hold for each of "
        "its calls (docs/agents.md).",
        "--agent-api",
        panel=AGENT,
        decides=True,
        given=str,
        read=_apis,
    )
    agent_allow_web: bool = option(
        False,
        "Keep tools that the provider runs for an agent, such as a search of the web; leaderboards "
        "forbid them.",
        "--agent-allow-web",
        panel=AGENT,
        decides=True,
    )
    max_calls_per_attempt: int | None = option(
        None,
        "Most calls that an agent makes in an attempt through the harness.",
        "--max-calls-per-attempt",
        panel=AGENT,
        decides=True,
        least=1,
    )
    agent_timeout: float = option(
        1800.0,
        "Seconds that a command has for an attempt.",
        "--agent-timeout",
        panel=AGENT,
        decides=True,
        least=1,
    )
    agent_sandbox: AgentSandbox | None = option(
        None,
        "Run a command in bubblewrap with the network of the machine, none, or the gateway to its "
        "model alone. It can write to its checkout only and sees no home folder (docs/agents.md).",
        "--agent-sandbox",
        panel=AGENT,
        decides=True,
    )
    agent_sandbox_read: tuple[Path, ...] = option(
        (),
        "Path that a command sees in the sandbox, read-only; repeatable.",
        "--agent-sandbox-read",
        panel=AGENT,
        decides=True,
        given=list[Path],
        read=absolute,
    )

    feedback: int = option(
        0,
        "How often lint findings and newly failing tests go back to an agent that is not ours, "
        "as a second prompt in the same checkout.",
        "--feedback",
        panel=AGENT,
        least=0,
        decides=True,
    )

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents of ``agent.named`` that edit."""
        return (self.agent,) if named_agent(self.agent) else ()

    @property
    def outside_agent(self) -> bool:
        return is_command(self.agent) or bool(self.named_agents)

    @property
    def has_gateway(self) -> bool:
        """Whether the agent calls its models through the gateway."""
        return bool(self.agent_api or self.named_agents)
