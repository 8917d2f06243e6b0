"""``--agent-sandbox``: run an agent's command where it can write to its checkout only."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.agents import load_agent
from agent.command_agent import CommandAgent
from agent.protocol import Agent
from core.errors import UserError
from environments.base import AgentSandbox
from environments.local.bubblewrap import bubblewrap_works, bubblewrapped_in_place
from environments.local.launcher import launched
from environments.options import AgentOptions

_SHEBANG_BYTES = 256
# Names without a slash are looked up in PATH, as env does.
_NAME_MISSING = """for name; do
    [ -e "$name" ] || [ -L "$name" ] || command -v "$name" >/dev/null || printf '%s\\n' "$name"
done"""


@dataclass(frozen=True)
class SandboxedCommand:
    """Makes the command line of an agent in a sandbox; see ``agent.command_agent.Wrap``."""

    readable: tuple[Path, ...]
    network: bool

    def __call__(self, argv: Sequence[str], root: Path, folder: Path) -> list[str]:
        words = bubblewrapped_in_place(argv, (root, folder), self.readable, network=self.network)
        return launched(words)

    def missing(self, program: str) -> list[str]:
        """Return the invisible ones of ``program``, its links' targets and its interpreter."""
        needed = list(dict.fromkeys(_needed(Path(program))))
        argv = bubblewrapped_in_place(
            ["sh", "-c", _NAME_MISSING, "sh", *needed], (), self.readable, network=self.network
        )
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"--agent-sandbox: it cannot be made: {done.stderr.strip()}")
        return done.stdout.splitlines()


def make_agent(options: AgentOptions) -> Agent:
    """Return the agent, whose command runs in a sandbox where that is asked for.

    Raises:
        UserError: the agent, bubblewrap or a readable path is missing, or the sandbox does not
            show the agent's command.
    """
    wrap, sandbox, readable = None, options.agent_sandbox, options.agent_sandbox_read
    if sandbox is not None:
        _check(readable)
        wrap = SandboxedCommand(readable, sandbox is AgentSandbox.NETWORK)
    agent = load_agent(options.agent, options.agent_env, options.agent_timeout, wrap)
    if wrap and isinstance(agent, CommandAgent) and (missing := wrap.missing(agent.argv[0])):
        folders = dict.fromkeys(_folder_to_show(name) for name in missing)
        raise UserError(
            f"--agent: the command {agent.argv[0]} cannot run in the sandbox, where "
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not seen; add "
            + " ".join(f"--agent-sandbox-read {folder}" for folder in folders)
        )
    return agent


def _check(readable: Sequence[Path]) -> None:
    if not bubblewrap_works():
        raise UserError(
            "--agent-sandbox: bubblewrap is not installed, or it may not make namespaces here; "
            "install it (package bubblewrap), or leave the option out"
        )
    for path in readable:
        if not path.exists():
            raise UserError(f"--agent-sandbox-read {path}: there is no such path; correct it")
        for kept in (Path("/proc"), Path("/dev"), Path("/sys")):
            if path.resolve() == Path("/") or path.resolve().is_relative_to(kept):
                raise UserError(
                    f"--agent-sandbox-read {path}: it would show other processes or the whole "
                    "machine; name what the agent needs"
                )


def _needed(program: Path) -> Iterator[str]:
    yield str(program)
    yield str(program.resolve())
    try:
        with program.open("rb") as stream:
            first = stream.read(_SHEBANG_BYTES).split(b"\n", 1)[0]
    except OSError:
        return
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if words[:1] and Path(words[0]).name == "env" and words[1:]:
        yield words[0]
        yield words[1]
    elif words:
        yield from _needed(Path(words[0]))


def _folder_to_show(missing: str) -> Path:
    """Return the folder to show for ``missing``: ``bin/python`` needs the ``lib`` beside it too."""
    place = Path(shutil.which(missing) or missing)
    whole = place.parent.name == "bin" and not place.is_symlink()
    return place.parent.parent if whole else place.parent
