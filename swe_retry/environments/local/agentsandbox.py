"""``agent.sandbox``: run an agent's command where it can write to its checkout only."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from swe_retry.agent.agents import load_agent
from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.command_agent import PORT, CommandAgent
from swe_retry.agent.gateway import forward
from swe_retry.agent.grammars import SUFFIXES
from swe_retry.agent.named import named_agent
from swe_retry.agent.named.installed import find_agent
from swe_retry.agent.protocol import Agent, AgentResult, Task
from swe_retry.agent.surroundings import SOCKET, CommandRun, Surroundings, Transcript
from swe_retry.core.errors import UserError
from swe_retry.core.processes import CommandResult
from swe_retry.environments.base import AgentSandbox
from swe_retry.environments.copies import (
    IMPORT_ROOTS,
    find_hidden,
    is_within,
    read_sources,
)
from swe_retry.environments.folders import check_readable
from swe_retry.environments.layout import copy_built_files
from swe_retry.environments.local.bubblewrap import (
    HARNESS,
    bubblewrap_works,
    sandbox_argv_with,
)
from swe_retry.environments.local.environment import LocalSession
from swe_retry.environments.local.launcher import keyring_argv
from swe_retry.environments.local.venvs import Built, site_packages
from swe_retry.environments.programs import SYSTEM, HostProgram, VisiblePaths, is_below

ROOT = Path("/testbed")
SCRATCH = Path(HARNESS) / "attempt"
AGENT_HOME = Path("/home/agent")


@dataclass(frozen=True)
class AgentBubble(Surroundings):
    """The sandbox of an agent's command, whose paths are the same in each attempt.

    Attributes:
        readable: paths of the machine that are visible.
        network: whether it has the machine's.
        program: the agent's.
        session: the environment of the tests, which it sees too; None where there is none.
        own: folders with packages of the agent.
    """

    readable: tuple[Path, ...]
    network: bool
    program: HostProgram | None = None
    session: LocalSession | None = None
    own: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()

    @property
    def behind_socket(self) -> bool:
        return not self.network

    def visible_paths(self, scratch: Path) -> tuple[Path, Path]:
        return SCRATCH, AGENT_HOME

    def hide_copies(
        self, root: Path, transcript: Transcript, system: Sequence[Path] = SYSTEM
    ) -> AgentBubble:
        sources = read_sources(root, SUFFIXES)
        visible = VisiblePaths((*system, *self.readable))
        found = find_hidden(sources, visible.real, self.own)
        own = filter(partial(is_within, folders=self.own), found)
        copies = set(filter(is_needed, own))
        hidden = VisiblePaths(map(Path, found - copies)).real
        transcript.hidden_paths = tuple(map(_as_published, hidden))
        transcript.readable_copies = tuple(map(_as_published, sorted(copies)))
        return replace(self, hidden=hidden)

    def run(self, command: CommandRun) -> CommandResult:
        folders = {
            ROOT: command.root,
            SCRATCH: command.scratch,
            AGENT_HOME: command.scratch / "home",
        }
        argv = list(command.argv)
        variables = dict(command.variables)
        if self.session:
            built = self.session.built
            copy_built_files(built.template, command.root)
            folders[built.testbed] = command.root
            folders |= _redirected_files(built, command.scratch)
            path = variables.pop("PATH")
            variables = built.command_variables(variables["HOME"], path) | variables
        if self.program:
            start = SCRATCH / "bin" / self.program.path.name
            folder = command.scratch / "bin"
            self.program.write_start(folder, self.program.argv)
            variables["PATH"] = f"{start.parent}:{variables['PATH']}"
            if argv[0] == str(self.program.path):
                argv[0] = str(start)
        # Of a virtual environment the forwarder needs nothing.
        python = str(Path(sys.executable).resolve())
        argv = forwarded_argv([python, "-I", "-S"], argv, command)
        if self.session:
            argv = self.session.confined.limited_argv(argv, memory=False)
        argv = sandbox_argv_with(
            argv, folders, self.readable, self.hidden, network=self.network
        )
        if not self.session:
            return command.start(keyring_argv(argv), variables)
        confined = self.session.confined
        with confined.launch_argv(argv) as launched:
            return command.within(confined.limits.written).start(launched, variables)


def forwarded_argv(
    python: Sequence[str], argv: Sequence[str], command: CommandRun
) -> list[str]:
    """Return what runs ``argv`` beside the way to the gateway, if there is one."""
    if not (command.scratch / SOCKET).exists():
        return list(argv)
    program = SCRATCH / "forward.py"
    shutil.copyfile(forward.__file__, command.scratch / program.name)
    options = [str(program), str(PORT), str(SCRATCH / SOCKET)]
    return [*python, *options, *argv]


def _redirected_files(built: Built, scratch: Path) -> dict[Path, Path]:
    """Return copies of the files that lead imports to the installed tree, by their places.

    They lead to the checkout instead.
    """
    copies = {}
    folder = scratch / "redirected"
    folder.mkdir(exist_ok=True)
    venv = built.python.parent.parent
    for path in site_packages(venv).iterdir():
        if not path.is_file():
            continue
        content = path.read_bytes()
        redirected = content.replace(bytes(built.testbed), bytes(ROOT))
        if redirected != content:
            copies[path] = folder / path.name
            copies[path].write_bytes(redirected)
    return copies


def _as_published(path: str | Path) -> str:
    """Return ``path`` without the name of the user, because trajectories are published."""
    return re.sub(f"^{re.escape(str(Path.home()))}/", "~/", str(path))


def is_needed(path: str) -> bool:
    """Return whether a program may not run without a package of its own environment.

    npm installs no other; of Python's packages, one that is there requires it.
    """
    for root in Path(path).parents:
        if root.name == "node_modules":
            return True
        if root.name in IMPORT_ROOTS:
            return _is_required(path.removeprefix(f"{root}/"), root)
    return False


def _is_required(package: str, root: Path) -> bool:
    owners = set()
    required = set()
    for distribution in distributions(path=[str(root)]):
        for text in distribution.requires or ():
            required.add(canonicalize_name(Requirement(text).name))
        if any(is_within(str(file), [package]) for file in distribution.files or ()):
            owners.add(canonicalize_name(distribution.metadata["Name"]))
    return not owners.isdisjoint(required)


@dataclass(frozen=True)
class NamedAgents:
    """Agents by name; the edit format of a task names its agent."""

    agents: Mapping[str, Agent]

    def work(self, task: Task) -> AgentResult:
        agent = self.agents.get(task.edit_format)
        if not agent:
            raise UserError(
                f"--agent: {task.edit_format!r} is recorded for this attempt; give that agent"
            )
        return agent.work(task)


def make_agent(
    settings: AgentSettings,
    named_agents: Sequence[str],
    sandbox: AgentSandbox | None,
    cache: Path,
    *,
    in_container: bool,
) -> Agent:
    """Return the agent, whose command runs in ``sandbox`` if there is one.

    Args:
        settings: what the user chose.
        named_agents: the agents that edit, if they are known by name.
        sandbox: the network of a command; None for no sandbox.
        cache: the folder with installed agents.
        in_container: a container takes the place of the sandbox.

    Raises:
        UserError: the agent, bubblewrap or a readable path is missing, or the sandbox does not
            show the agent's command.
    """
    bubble = None
    if sandbox:
        if not (in_container or bubblewrap_works()):
            raise UserError(
                "agent.sandbox: bubblewrap is not installed, or it may not make namespaces "
                "here; install it (package bubblewrap), or give --set agent.sandbox=none"
            )
        readable = check_readable(settings.sandbox_read)
        own = tuple(path for path in readable if path.name in IMPORT_ROOTS)
        if not in_container:
            # The forwarder's interpreter is the harness's.
            forwarder = HostProgram(Path(sys.executable).resolve())
            readable = (*readable, *forwarder.folders)
        bubble = AgentBubble(readable, sandbox is AgentSandbox.NETWORK, own=own)
    if not named_agents:
        return _make_by_name(settings, settings.name, bubble, cache)
    agents = {}
    for name in named_agents:
        chosen = settings.name if named_agent(settings.name) else name
        agents[name] = _make_by_name(settings, chosen, bubble, cache)
    return NamedAgents(agents)


def _make_by_name(
    settings: AgentSettings, name: str, bubble: AgentBubble | None, cache: Path
) -> Agent:
    recipe = named_agent(name)
    agent = load_agent(name, settings, bubble)
    if not isinstance(agent, CommandAgent):
        return agent
    program = Path(agent.argv[0])
    folders = []
    if recipe:
        installation = find_agent(recipe, cache, from_path=settings.from_path)
        program = installation.program
        if installation.folder:
            folders.append(installation.folder)
    if not bubble:
        if folders:
            path = f"{program.parent}:{os.environ.get('PATH', os.defpath)}"
            agent = replace(agent, environment={"PATH": path, **agent.environment})
        return agent
    host_program = HostProgram(program, is_agent=recipe is not None)
    own = (*bubble.own, *folders, *host_program.environment)
    bubble = replace(bubble, own=own)
    if recipe or not is_below(program, SYSTEM):
        readable = (*bubble.readable, *folders, *host_program.folders)
        bubble = replace(bubble, readable=readable, program=host_program)
    return replace(agent, surroundings=bubble)
