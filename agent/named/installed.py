"""Install coding agents of others into the cache, and find the program that runs.

``agents/NAME/VERSION`` in the cache has the program in ``bin``, and the package with what it needs
beside it; the link ``agents/NAME/current`` names the version that runs use.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from swe_retry.agent.named.description import NamedAgent, version_of
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.plaintext import abbreviate
from swe_retry.core.processes import remove_tree, run_limited, without_secrets

NODE = "22.23.3"
"""The version of node with which agents in JavaScript were tested."""
_VERSION = re.compile(r"\d[\w.+-]*")
_ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
_SHEBANG_BYTES = 128
_MAX_LINE = 500
_SECONDS = 1800.0


@dataclass(frozen=True)
class Installation:
    """The program of an agent, and where it comes from.

    Attributes:
        version: may be unknown for a program in ``PATH``.
        folder: in the cache, with all of the agent; None for a program in ``PATH``.
    """

    program: Path
    version: str
    folder: Path | None = None


def cached_agent(agent: NamedAgent, cache: Path) -> Installation | None:
    """Return what ``install_agent`` installed last."""
    current = _folder_of(agent, cache) / "current"
    folder = current.resolve()
    program = folder / "bin" / agent.program
    if not program.exists():
        return None
    return Installation(program, folder.name, folder)


def _folder_of(agent: NamedAgent, cache: Path) -> Path:
    return cache.absolute() / "agents" / agent.name


def agent_in_path(agent: NamedAgent) -> Installation | None:
    program = shutil.which(agent.program)
    if not program:
        return None
    path = Path(program).absolute()
    return Installation(path, version_of(path))


def find_agent(
    agent: NamedAgent, cache: Path, *, from_path: bool = False
) -> Installation:
    """Return the installation in ``cache``, else or with ``from_path`` that in ``PATH``."""
    installation = None
    if not from_path:
        installation = cached_agent(agent, cache)
    installation = installation or agent_in_path(agent)
    if not installation:
        raise UserError(
            f"--agent {agent.name}: there is no command {agent.program!r} in PATH; run "
            f"`harness.py install {agent.name}`"
        )
    return installation


def install_agent(agent: NamedAgent, version: str, cache: Path) -> Installation:
    """Install a version of an agent, for runs from now on; nothing where it is installed.

    Raises:
        UserError: npm is missing, or ``version`` is none.
        InfrastructureError: npm or uv failed.
    """
    version = version or agent.tested
    if not _VERSION.fullmatch(version):
        raise UserError(
            f"install {agent.name}@{version}: give a version, as {agent.name}@{agent.tested}"
        )
    agents = _folder_of(agent, cache)
    folder = agents / version
    link_to_program = folder / "bin" / agent.program
    agents.mkdir(parents=True, exist_ok=True)
    with FileLock(agents / "lock"):
        # It is made last.
        if not link_to_program.exists():
            remove_tree(folder)
            folder.mkdir()
            install = _install_by_uv
            if agent.from_npm:
                install = _install_by_npm
            program = install(agent, version, folder)
            link_to_program.parent.mkdir()
            link_to_program.symlink_to(program)
        link = agents / "next"
        link.unlink(missing_ok=True)
        link.symlink_to(version)
        link.replace(agents / "current")
    return Installation(link_to_program, version, folder)


def _install_by_npm(agent: NamedAgent, version: str, folder: Path) -> Path:
    """Install an agent beside a node on which it runs, and on which npm itself runs.

    Otherwise npm would choose what suits the node of this machine.
    """
    npm = shutil.which("npm")
    if not npm:
        raise UserError(
            f"install {agent.name}: there is no npm; install Node.js, of any version"
        )
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine, machine)
    node_package = f"node-{platform.system().lower()}-{architecture}"
    modules = folder / "node_modules"
    node = modules / node_package / "bin"
    path = f"{node}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    install = [npm, "install", "--no-fund", "--no-audit", "--engine-strict"]
    install += ["--prefix", str(folder)]

    def install_beside(node_version: str) -> None:
        _run([*install, f"{node_package}@{node_version}"], folder)
        _run([*install, f"{agent.package}@{version}"], folder, PATH=path)

    try:
        install_beside(NODE)
    except InfrastructureError as error:
        if "EBADENGINE" not in str(error):
            raise
        install_beside("latest")
    program = modules / ".bin" / (agent.npm_program or agent.program)
    with program.open("rb") as stream:
        first_line = stream.readline(_SHEBANG_BYTES)
    if b"node" in first_line:
        # PATH is that of the project, whose node may be another.
        script = folder / agent.program
        command = shlex.join([str(node / "node"), str(program)])
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)
        program = script
    return program


def _install_by_uv(agent: NamedAgent, version: str, folder: Path) -> Path:
    from uv import find_uv_bin

    argv = [find_uv_bin(), "tool", "install", f"{agent.package}=={version}"]
    # A sandbox shows it read-only, so that each start would compile it.
    argv.append("--compile-bytecode")
    for package in agent.packages_beside:
        argv += ["--with", package]
    programs = folder / "programs"
    tools = folder / "tools"
    _run(argv, folder, UV_TOOL_DIR=str(tools), UV_TOOL_BIN_DIR=str(programs))
    return programs / agent.program


def _run(argv: list[str], folder: Path, **variables: str) -> None:
    variables = {**without_secrets(os.environ), **variables}
    result = run_limited(argv, folder, variables, _SECONDS)
    if result.exit_code != 0:
        problem = abbreviate(result.output, _MAX_LINE)
        raise InfrastructureError(f"{shlex.join(argv)}: {problem}")
