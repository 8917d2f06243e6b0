"""Docker: an agent's command in a container of the instance's image, one for each session.

``join_tests`` chooses between this and the sandbox.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from swe_retry.agent.command_agent import last_lines
from swe_retry.agent.grammars import SUFFIXES
from swe_retry.agent.surroundings import CommandRun, Surroundings, Transcript
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.processes import CommandResult
from swe_retry.environments import copies
from swe_retry.environments.base import Session, Setup, SetupWay
from swe_retry.environments.docker.containers import Container, Sinks
from swe_retry.environments.docker.engine import engine_errors
from swe_retry.environments.docker.environment import AgentImage, DockerSession
from swe_retry.environments.docker.setupscript import ENVIRONMENT, HARNESS
from swe_retry.environments.layout import copy_built_files
from swe_retry.environments.local.agentsandbox import (
    AGENT_HOME,
    SCRATCH,
    AgentBubble,
    forwarded_argv,
)
from swe_retry.environments.local.environment import LocalSession
from swe_retry.environments.programs import HostProgram, VisiblePaths

# Where programs lie whose own places have other files in the image.
_MACHINE = SCRATCH.parent / "machine"
_PYTHON = SCRATCH.parent / "python"
_SCRIPT = SCRATCH / "agent.sh"
_COPIES = f"{HARNESS}/copies.py"
# Every image has its own, and scripts start with them as well.
_SHELLS = ("sh", "bash", "env")
# Between the users that systems make and "nobody".
_USER = 65533
# A shell adds the number of the signal that ended a command.
_SIGNALS = 128
# Arguments: the user, the project's folder, paths of the machine. Prints where each will lie.
# Login shells, in which agents run commands, would take PATH from the profile.
_PREPARE = f"""exec 2>/dev/null; mkdir -p {AGENT_HOME}; : >/etc/profile
user=${{1%:*}}; rm -rf "$2/.git"; chmod a+x /root "$2"; shift 2
grep -q "^[^:]*:[^:]*:$user:" /etc/passwd ||
    echo "agent:x:$user:$user::{AGENT_HOME}:/bin/sh" >>/etc/passwd
for path; do
    target=$path
    case $path in /usr/*|/bin/*|/sbin/*|/lib*) target={_MACHINE}$path; esac
    [ -e "$path" ] && target={_MACHINE}$path
    echo "$target"
    while [ "$path" != / ]; do
        path=$(dirname "$path")
        chmod a+x "$path"
    done
done"""
# Argument: a program. Prints its libraries, with what loads them.
_LIBRARIES = """ldd "$0" | sed -n 's/.*[[:space:]]\\(\\/[^ ]*\\) (0x.*/\\1/p'"""
# Puts the work tree before the installed packages where no package of it is imported from it: it
# is not installed, or as a copy. Argument: the project's folder. Prints where Python imports from.
_LINK = """
import importlib.util, os, sys, sysconfig
folder = sys.argv[1]
sys.path.remove("")
print("\\n".join(sys.path))
roots = {}
for root in (folder, folder + "/src", folder + "/lib"):
    for name in os.listdir(root) if os.path.isdir(root) else ():
        if os.path.exists(os.path.join(root, name, "__init__.py")):
            spec = importlib.util.find_spec(name)
            if str(getattr(spec, "origin", "")).startswith(folder + "/"):
                sys.exit()
            roots[root] = name
site = sysconfig.get_path("purelib")
with open(site + "/work-tree.pth", "w") as file:
    for root in roots or (folder,):
        file.write(f"import sys; sys.path.insert(sys.path.index({site!r}), {root!r})\\n")
"""
_LINK_SCRIPT = f'. {ENVIRONMENT}; cd /; python -c "$0" "$1"'


@dataclass(frozen=True)
class AgentContainer(Surroundings):
    """A container with the agent's program, its checkout, and the gateway's socket.

    Attributes:
        bubble: the sandbox in whose place it is.
    """

    bubble: AgentBubble
    session: DockerSession

    @property
    def behind_socket(self) -> bool:
        return True

    def visible_paths(self, scratch: Path) -> tuple[Path, Path]:
        return SCRATCH, AGENT_HOME

    def hide_copies(self, root: Path, transcript: Transcript) -> AgentContainer:
        images = self.session.agent_images
        program = self.bubble.program
        if program not in images:
            images[program] = self._make_image(root)
        system = tuple(_interpreter()[1])
        bubble = self.bubble.hide_copies(root, transcript, system)
        transcript.hidden_paths += images[program].hidden
        return replace(self, bubble=bubble)

    def run(self, command: CommandRun) -> CommandResult:
        session = self.session
        program = self.bubble.program
        image = session.agent_images[program]
        copy_built_files(image.built, command.root)
        argv = self._write_scripts(command, image)
        volumes = [
            f"{command.root}:{session.image.folder}",
            f"{command.scratch}:{SCRATCH}",
            f"{command.scratch}/home:{AGENT_HOME}",
        ]
        mounts = image.mounts | _interpreter()[1]
        volumes += _volumes(mounts)
        volumes += self._covers(command.scratch / "empty", mounts)
        options: dict[str, Any] = {"volumes": volumes}
        if self.bubble.network:
            options["network_mode"] = "default"
        containers = replace(session.containers, options=options)
        with _lend_folders(command), containers.start(image.name) as container:
            ended = _run_in(container, argv, command)
            # An agent takes seconds to say its version, so only where it failed by itself.
            has_failed = 0 < (ended.exit_code or 0) < _SIGNALS
            if has_failed and program and program.is_agent:
                self._check_start(container, program)
            return ended

    def _write_scripts(self, command: CommandRun, image: AgentImage) -> list[str]:
        """Write what starts the command into its scratch folder; return the command line."""
        argv = list(command.argv)
        argv[0] = Path(argv[0]).name
        program = self.bubble.program
        if program:
            located = [_locate(part, image.mounts) for part in program.argv]
            program.write_start(command.scratch / "bin", located)
        variables = {"PYTHONDONTWRITEBYTECODE": "1", **command.variables}
        del variables["PATH"]
        lines = ["unset PYTHONHOME PYTHONPATH", f". {ENVIRONMENT}"]
        for name, value in variables.items():
            lines.append(f"export {name}={shlex.quote(value)}")
        lines.append(f'export PATH={SCRATCH}/bin:"$PATH"')
        lines.append('exec "$@"')
        (command.scratch / _SCRIPT.name).write_text("\n".join(lines))
        return forwarded_argv(_interpreter()[0], ["bash", str(_SCRIPT), *argv], command)

    def _covers(self, empty: Path, mounts: Mapping[Path, Path]) -> Iterator[str]:
        """Yield volumes that cover what is hidden of the machine's files in the container."""
        empty.mkdir(exist_ok=True)
        for source, target in mounts.items():
            real = source.resolve()
            for path in self.bubble.hidden:
                cover = empty if path.is_dir() else os.devnull
                if path.is_relative_to(real):
                    yield f"{cover}:{target / path.relative_to(real)}:ro"

    def _make_image(self, project: Path) -> AgentImage:
        """Make the image for the agent's containers, set up without a new installation.

        The checkout will cover its work tree, of which a copy is kept beside the fresh checkout
        ``project``. Other versions of the project are removed.
        """
        session = self.session
        folder = session.image.folder
        visible = VisiblePaths(self.bubble.readable)
        # The start script calls programs by their real paths.
        links = [link for link in visible.links if link.is_dir()]
        paths = []
        for path in (*visible.real, *links):
            if path.name not in _SHELLS:
                paths.append(path)
        setup = Setup(SetupWay.INSTALLED)
        python, mounts = _interpreter()
        volumes = _volumes({project: SCRATCH, **mounts})
        containers = replace(session.containers, options={"volumes": volumes})
        session = replace(session, containers=containers)
        with session.set_up({}, setup) as (container, _), engine_errors():
            run = partial(container.made.exec_run, user="0")
            arguments = (_user(), folder, *map(str, paths))
            prepared = run(["sh", "-c", _PREPARE, "sh", *arguments])
            linked = run(["bash", "-c", _LINK_SCRIPT, _LINK, folder])
            container.put({}, {_COPIES: Path(copies.__file__).read_text("utf-8")})
            search = [*python, _COPIES, str(SCRATCH), " ".join(SUFFIXES), folder]
            search += linked.output.decode().splitlines()
            result = run(search, environment={"PYTHONHOME": str(_PYTHON)})
            output = os.fsdecode(result.output)
            if result.exit_code:
                raise InfrastructureError(f"an image cannot be searched: {output}")
            hidden = tuple(filter(None, output.split("\0")))
            run(["rm", "-rf", *hidden])
            archive = container.made.get_archive(folder)
            built = _unpack(archive[0], project.parent)
            image = container.commit()
        targets = map(Path, prepared.output.decode().splitlines())
        return AgentImage(image, built, hidden, dict(zip(paths, targets, strict=True)))

    def _check_start(self, container: Container, program: HostProgram) -> None:
        # Not every program can say its version.
        check = '"$0" --version || "$0" --help'
        argv = ["bash", str(_SCRIPT), "bash", "-c", check, program.path.name]
        with engine_errors():
            ended = container.made.exec_run(argv, user=_user())
        if ended.exit_code:
            image = self.session.image
            problem = last_lines(ended.output.decode())
            raise UserError(
                f"--agent: {program.path.name} does not start in the image "
                f"{image.public_name or image.name}: {problem}; install "
                "the agent so that it brings all that it needs (a static program, or npm's or "
                "uv's own interpreter), or choose --environment local"
            )


def join_tests(surroundings: Surroundings, session: Session) -> Surroundings:
    """Return ``surroundings`` with the environment of ``session``.

    Without a sandbox a command has the environment of the machine.
    """
    if isinstance(surroundings, AgentBubble):
        if isinstance(session, LocalSession):
            readable = surroundings.readable + session.built.readable
            return replace(surroundings, session=session, readable=readable)
        if isinstance(session, DockerSession):
            return AgentContainer(surroundings, session)
    return surroundings


def _volumes(mounts: Mapping[Path, Path]) -> list[str]:
    return [f"{source}:{target}:ro" for source, target in mounts.items()]


def _unpack(archive: Iterable[bytes], parent: Path) -> Path:
    """Unpack a folder from the engine into a new one in ``parent``."""
    folder = Path(tempfile.mkdtemp(dir=parent, prefix="built."))
    argv = [
        "tar",
        "-x",
        "--no-same-owner",
        "--no-same-permissions",
        "--strip-components=1",
        "-C",
        str(folder),
    ]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as unpacking:
        assert unpacking.stdin
        unpacking.stdin.writelines(archive)
    return folder


def _run_in(
    container: Container, argv: Sequence[str], command: CommandRun
) -> CommandResult:
    def take_error(data: bytes) -> None:
        command.output.add(data)
        command.errors.add(data)

    limit = container.containers.limits.written
    with container.watch_disk(command.within(limit).must_end):
        exit_code, seconds = container.execute(
            argv,
            b"",
            Sinks(command.output.add, take_error),
            command.seconds,
            command.check,
            user=_user(),
            environment={"PYTHONHOME": f"{_PYTHON}"},
        )
    return CommandResult(command.output.text(), exit_code, seconds)


def _locate(part: str, mounts: Mapping[Path, Path]) -> str:
    """Return where a part of a command line that is a path lies in the container."""
    path = Path(part)
    for candidate in (path, path.resolve()):
        for source, target in mounts.items():
            if path.is_absolute() and candidate.is_relative_to(source):
                return str(target / candidate.relative_to(source))
    return part


def _user() -> str:
    """Return the user of the command: the harness's own, or another where that is root."""
    number = os.geteuid() or _USER
    return f"{number}:{number}"


@contextmanager
def _lend_folders(command: CommandRun) -> Iterator[None]:
    """Give the command's folders to its user meanwhile."""
    folders = (command.root, command.scratch)
    subprocess.run(["chown", "-Rh", _user(), *folders], check=False)
    try:
        yield
    finally:
        owner = str(os.geteuid())
        subprocess.run(["chown", "-Rh", owner, *folders], check=False)


@cache
def _interpreter() -> tuple[list[str], dict[Path, Path]]:
    """Return how the harness's Python starts in any image, and where its files lie there.

    It brings its own libraries, and the program that loads them.
    """
    python = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib"))
    program = _PYTHON / "bin" / python.name
    mounts = {
        python: program,
        standard: _PYTHON / standard.relative_to(sys.base_prefix),
    }
    libraries = _PYTHON / "libraries"
    argv = [str(program), "-S"]
    command = ["sh", "-c", _LIBRARIES, str(python)]
    output = subprocess.check_output(command, text=True)
    for path in map(Path, output.split()):
        library = libraries / path.name
        mounts[path] = library
        if path.name.startswith("ld-"):
            loader = [str(library), "--library-path", str(libraries)]
            argv = [*loader, *argv]
    return argv, mounts
