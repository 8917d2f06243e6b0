"""``agent.sandbox``: run an agent's command where it can write to its checkout only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.agents import load_agent
from agent.command_agent import PORT, SOCKET, CommandAgent, Surroundings
from agent.gateway import forward
from agent.gateway.gateway import Access
from agent.named import named_agent
from agent.named.installed import find_agent
from agent.protocol import Agent, AgentResult, Task
from core.errors import UserError
from environments.base import AgentSandbox
from environments.local.bubblewrap import HARNESS, bubblewrap_works, sandbox_argv_with
from environments.local.launcher import keyring_argv
from environments.settings import AgentSettings

_SHEBANG_BYTES = 256
# Names without a slash are looked up in PATH, as env does.
_NAME_MISSING = """for name; do
    [ -e "$name" ] || [ -L "$name" ] || command -v "$name" >/dev/null || printf '%s\\n' "$name"
done"""


@dataclass(frozen=True)
class AgentBubble(Surroundings):
    """The sandbox of an agent's command, with the machine's paths.

    Attributes:
        readable: paths of the machine that are visible.
        network: whether it has the machine's.
    """

    readable: tuple[Path, ...]
    network: bool

    def command_line(
        self,
        argv: Sequence[str],
        root: Path,
        scratch: Path,
    ) -> list[str]:
        return keyring_argv(
            self.sandboxed_argv(argv, {folder: folder for folder in (root, scratch)})
        )

    def sandboxed_argv(
        self, argv: Sequence[str], writable: Mapping[Path, Path]
    ) -> list[str]:
        return sandbox_argv_with(argv, writable, self.readable, network=self.network)

    def missing(self, program: str) -> list[str]:
        """Return the invisible ones of ``program``, its links' targets and its interpreter."""
        needed = list(dict.fromkeys(_required_paths(Path(program))))
        argv = self.sandboxed_argv(["sh", "-c", _NAME_MISSING, "sh", *needed], {})
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"agent.sandbox: it cannot be made: {done.stderr.strip()}")
        return done.stdout.splitlines()

    def with_program(self, program: str) -> AgentBubble:
        """Return the sandbox that also shows ``program`` and what it needs."""
        bubble = self
        for _ in range(_ROUNDS):
            folders = {
                folder
                for path in bubble.missing(program)
                for folder in folders_to_show(path)
            }
            bubble = replace(bubble, readable=(*bubble.readable, *sorted(folders)))
        return bubble


@dataclass(frozen=True)
class GatewayBubble(AgentBubble):
    """The sandbox whose only way out is the gateway; its paths are the same in each attempt."""

    behind_socket = True
    _ROOT = Path("/testbed")
    _HOME = Path("/home/agent")
    _SCRATCH = Path(HARNESS) / "attempt"

    def visible_paths(self, scratch: Path) -> tuple[Path, Path]:
        return self._SCRATCH, self._HOME

    def command_line(
        self,
        argv: Sequence[str],
        root: Path,
        scratch: Path,
    ) -> list[str]:
        program = self._SCRATCH / "forward.py"
        shutil.copyfile(forward.__file__, scratch / program.name)
        writable = {
            self._ROOT: root,
            self._SCRATCH: scratch,
            self._HOME: scratch / "home",
        }
        # Of a virtual environment the forwarder needs nothing.
        python = [str(Path(sys.executable).resolve()), "-I", "-S", str(program)]
        forwarded = [*python, str(PORT), str(self._SCRATCH / SOCKET), *argv]
        return keyring_argv(self.sandboxed_argv(forwarded, writable))


@dataclass(frozen=True)
class NamedAgents:
    """Agents by name; the edit format of a task names its agent."""

    agents: Mapping[str, Agent]

    def work(self, task: Task) -> AgentResult:
        agent = self.agents.get(task.edit_format)
        if agent is None:
            raise UserError(
                f"--agent: {task.edit_format!r} is recorded for this attempt; give that agent"
            )
        return agent.work(task)


def make_agent(
    settings: AgentSettings,
    named_agents: Sequence[str],
    sandbox: AgentSandbox | None,
    cache: Path,
) -> Agent:
    """Return the agent, whose command runs in ``sandbox`` if there is one.

    Args:
        settings: what the user chose.
        named_agents: the agents that edit, if they are known by name.
        sandbox: the network of a command; None for no sandbox.
        cache: the folder with installed agents.

    Raises:
        UserError: the agent, bubblewrap or a readable path is missing, or the sandbox does not
            show the agent's command.
    """
    bubble = None
    if sandbox is not None:
        _check(settings.sandbox_read)
        bubble = _bubble(sandbox, settings.sandbox_read)
    if not named_agents:
        return _make_by_name(settings, settings.name, bubble, cache)
    agents = {}
    for name in named_agents:
        chosen = settings.name if named_agent(settings.name) else name
        agents[name] = _make_by_name(settings, chosen, bubble, cache)
    return NamedAgents(agents)


def _make_by_name(
    settings: AgentSettings,
    name: str,
    bubble: AgentBubble | None,
    cache: Path,
) -> Agent:
    recipe = named_agent(name)
    apis = settings.api
    if recipe:
        apis = (recipe.api,)
    access = None
    if apis:
        access = Access(apis, settings.max_calls, settings.allow_web)
    agent = load_agent(name, settings.env, settings.timeout, bubble, access)
    if not isinstance(agent, CommandAgent):
        return agent
    agent = replace(agent, feedback_rounds=settings.feedback, home=settings.home)
    program = None
    if recipe:
        installation = find_agent(recipe, cache, from_path=settings.from_path)
        program = installation.program
        if installation.folder:
            path = f"{program.parent}:{os.environ.get('PATH', os.defpath)}"
            agent = replace(agent, environment={"PATH": path, **agent.environment})
            if bubble:
                readable = (*bubble.readable, installation.folder)
                bubble = replace(bubble, readable=readable)
    if bubble is None:
        return agent
    if program:
        surroundings = bubble.with_program(str(program))
        return replace(agent, surroundings=surroundings)
    _check_shown(bubble, agent.argv[0])
    return agent


def _check_shown(bubble: AgentBubble, program: str) -> None:
    missing = bubble.missing(program)
    if missing:
        verb = "are"
        if len(missing) == 1:
            verb = "is"
        folders = dict.fromkeys(map(_folder_to_show, missing))
        paths = ",".join(map(str, folders))
        raise UserError(
            f"--agent: the command {program} cannot run in the sandbox, where "
            f"{', '.join(missing)} {verb} not seen; add --set agent.sandbox_read={paths}"
        )


def _bubble(sandbox: AgentSandbox, readable: Sequence[Path]) -> AgentBubble:
    if sandbox is not AgentSandbox.MODEL:
        return AgentBubble(tuple(readable), sandbox is AgentSandbox.NETWORK)
    # The forwarder's interpreter; and programs make no HTTP client without certificates.
    own = (Path(sys.base_prefix), Path("/etc/ssl/certs"))
    folders = (
        path for path in own if path.is_dir() and not path.is_relative_to("/usr")
    )
    return GatewayBubble(tuple(dict.fromkeys((*readable, *folders))), network=False)


def _check(readable: Sequence[Path]) -> None:
    if not bubblewrap_works():
        raise UserError(
            "agent.sandbox: bubblewrap is not installed, or it may not make namespaces here; "
            "install it (package bubblewrap), or give --set agent.sandbox=none (docs/agents.md)"
        )
    for path in readable:
        if not path.exists():
            raise UserError(
                f"agent.sandbox_read {path}: there is no such path; correct it"
            )
        for private in (Path("/proc"), Path("/dev"), Path("/sys")):
            if path.resolve() == Path("/") or path.resolve().is_relative_to(private):
                raise UserError(
                    f"agent.sandbox_read {path}: it would show other processes or the whole "
                    "machine; name what the agent needs"
                )


def _required_paths(program: Path) -> Iterator[str]:
    yield str(program)
    yield str(program.resolve())
    try:
        with program.open("rb") as stream:
            first = stream.read(_SHEBANG_BYTES).split(b"\n", 1)[0]
    except OSError:
        return
    interpreter = (
        first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    )
    if interpreter[:1] and Path(interpreter[0]).name == "env" and interpreter[1:]:
        yield interpreter[0]
        yield interpreter[1]
    elif interpreter:
        yield from _required_paths(Path(interpreter[0]))


# The program, its link's target, and the interpreter of that.
_ROUNDS = 3


def folders_to_show(missing: str) -> Iterator[Path]:
    """Yield what to show for a program, without anything beside it that is not part of it.

    Packages of npm, virtual environments and interpreters are folders; else it is the file alone.
    """
    for path in (Path(shutil.which(missing) or missing), Path(missing).resolve()):
        packages = [parent for parent in path.parents if parent.name == "node_modules"]
        prefix = path.parent.parent
        python = path.name.startswith("python") and (prefix / "lib").is_dir()
        home = Path.home().resolve().is_relative_to(prefix.resolve())
        if packages:
            yield packages[-1]
        elif (prefix / "pyvenv.cfg").is_file() or (python and not home):
            yield prefix
        else:
            yield path


def _folder_to_show(missing: str) -> Path:
    """Return the folder to show for ``missing``: ``bin/python`` needs the ``lib`` beside it too."""
    path = Path(shutil.which(missing) or missing)
    is_in_bin = path.parent.name == "bin" and not path.is_symlink()
    if is_in_bin:
        return path.parent.parent
    return path.parent
