"""The protocol of environments, and the values that they take and return.

An environment runs commands on the files of a project with changes. It knows folders, commands and
limits, and nothing of what the commands are for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from swe_retry.core.processes import CommandResult, Tail
from swe_retry.core.worktree import Changes


class EnvironmentKind(StrEnum):
    """The environments by their names on the command line."""

    NONE = "none"
    LOCAL = "local"
    DOCKER = "docker"


class AgentSandbox(StrEnum):
    """The network of a command in the agent sandbox; ``MODEL``: the gateway's socket alone."""

    NETWORK = "network"
    OFFLINE = "offline"
    MODEL = "model"


class UnavailableError(Exception):
    """The environment cannot be made for this project; the message says why."""


class BrokenEnvironmentError(UnavailableError):
    """What the project says of its environment does not build, or its tests fail there."""


ANY_PYTHON = "3"
"""The version of a project that any interpreter may run."""


@dataclass(frozen=True)
class LocalServer:
    """A program that commands without a network find on their own loopback device.

    Attributes:
        packages: requirements of its environment, which is not the project's.
        start: shell lines before each command, where ``$SERVER_PYTHON`` is the interpreter of
            this environment. They set the variables that the command needs and wait for the
            program. The status of the last one is not 0 if it does not answer.
    """

    packages: Sequence[str]
    start: str


@dataclass(frozen=True)
class VenvSpec:
    """How a virtual environment is made for a project and its tests are run.

    Attributes:
        python: version of the interpreter, or ``ANY_PYTHON``.
        packages: requirements that are installed first.
        from_conda: ``packages`` are named as in conda, and pip may not have them.
        pip_packages: requirements that are installed after them.
        setup: shell lines that run in the tree before the installation, with a network and the
            environment's programs first. Without ``install`` they are the whole installation.
        install: what pip installs from the tree, such as ``.[test]``; empty for nothing.
        test_command: runs all tests.
        source: what the other values were made from, as JSON; identifies kept environments.
        date: of the files, as ``2021-05-14``. Packages of a later era are not installed; empty
            for those of today.
        server: what the tests ask; it is not started without a sandbox.
    """

    python: str = ANY_PYTHON
    packages: tuple[str, ...] = ()
    from_conda: bool = False
    pip_packages: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    install: str = ""
    test_command: str = ""
    source: Mapping[str, object] = field(default_factory=dict)
    date: str = ""
    server: LocalServer | None = None


@dataclass(frozen=True)
class ImageSpec:
    """A container image with the project's files and dependencies.

    Its entry point never runs.

    Attributes:
        name: repository and tag.
        setup: shell lines that install the project; they run in a container without network.
        test_command: runs all tests.
        folder: absolute path of the project in the image.
        user: that commands run as; empty for the image's.
        keeps_home: ``HOME`` stays the image's; else it is an empty folder that any user may write.
        fresh_tree: the tracked files of the image's repository are replaced by those of the
            project's root.
        cleaning: shell lines that root runs in ``folder`` before anything else, after
            ``fresh_tree``; they must end with 0.
        public_name: stands for ``name`` in messages; empty for ``name`` itself.
        installation: shell lines that run once with a network, where ``folder`` is new and holds
            the files of the project's root. The image with their result is kept.
    """

    name: str
    setup: tuple[str, ...]
    test_command: str
    folder: str = "/testbed"
    user: str = ""
    keeps_home: bool = False
    fresh_tree: bool = False
    cleaning: tuple[str, ...] = ()
    public_name: str = ""
    installation: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Project:
    """Files that commands run on, and what the commands need.

    Attributes:
        key: unique among projects; a safe file name.
        group: projects of one group and ``version`` with the same packages share dependencies.
        root: folder with the files as they are without changes.
        revision: identifies the contents of ``root``.
        venv: for the local environment; an error says why there is none.
        image: for Docker; an error says why there is none.
    """

    key: str
    group: str
    version: str
    root: Path
    revision: str
    venv: VenvSpec | UnavailableError
    image: ImageSpec | UnavailableError


class SetupWay(StrEnum):
    """How a project is installed before commands run, in the order in which the ways are tried."""

    INSTALLED = "as it is installed"
    AS_GIVEN = "as given"
    NO_ISOLATION = "without build isolation"
    ON_PATH = "with the work tree first on the path"


@dataclass(frozen=True)
class Setup:
    """A way of installing; ``roots`` are the folders of the tree that ON_PATH puts on the path."""

    way: SetupWay = SetupWay.AS_GIVEN
    roots: tuple[str, ...] = ()


AS_GIVEN = Setup()


@dataclass(frozen=True)
class FailedCommand:
    """A set-up command that failed, and the last lines of the set-up's output."""

    command: str
    output: str


class Prepared(Protocol):
    """A copy of a project's files with changes, set up. Commands may run in it concurrently."""

    @property
    def failed_commands(self) -> tuple[FailedCommand, ...]:
        """The set-up commands that failed."""

    def run(self, command: str, timeout: float) -> CommandResult:
        """Run a shell command in the tree as set-up left it, unaffected by earlier commands.

        The tree has the same path every time. After ``timeout`` seconds every process that
        the command started is killed.
        """


class Session(Protocol):
    """An environment that is ready for one project."""

    @property
    def identity(self) -> str:
        """What decides test results besides the code; part of the keys of cached results."""

    @property
    def test_command(self) -> str:
        """The command that runs the project's tests, without the name of any test."""

    @property
    def ways(self) -> tuple[SetupWay, ...]:
        """The ways of installing that differ here."""

    def installs(self, setup: Setup) -> bool:
        """Return whether ``setup`` builds the project from the changed tree."""

    def prepare(
        self, changes: Changes, setup: Setup = AS_GIVEN, commands: int = 1
    ) -> AbstractContextManager[Prepared]:
        """Set up a fresh copy of the files with ``changes``.

        ``commands`` says how many will run, so that a place for the next can be made meanwhile.
        """

    def stop(self) -> None:
        """Release everything; safe to call twice."""


class Environment(Protocol):
    """Makes sessions."""

    def start(self, project: Project) -> Session:
        """Return a session for ``project``."""


def run_once(
    session: Session, changes: Changes, command: str, timeout: float
) -> CommandResult:
    """Run one command in a tree that is set up for it alone."""
    with session.prepare(changes) as prepared:
        return prepared.run(command, timeout)


GIB = 1 << 30


@dataclass(frozen=True)
class ResourceLimits:
    """What all processes of one command may use together.

    The defaults are far above the needs of a test suite, and low enough to protect the machine.

    Attributes:
        processes: processes and threads at a time; parallel test runners start dozens.
        memory: bytes of memory. With a cgroup, files in memory count too.
        file_size: bytes of a single file.
        written: bytes of the work folder, including the project's files.
        temporary: bytes of ``/tmp``, and the same for ``/dev/shm``.
        output: bytes that are kept of the output: its beginning and its end.
        collected: bytes of a file that is read after the command.
    """

    processes: int = 1024
    memory: int = 8 * GIB
    file_size: int = 2 * GIB
    written: int = 4 * GIB
    temporary: int = GIB
    output: int = 10_000_000
    collected: int = 16 << 20

    @property
    def mark(self) -> str:
        """What results are kept under, beside the environment; empty for the defaults."""
        if self == ResourceLimits():
            return ""
        return f":{self.memory}:{self.processes}"

    def tail(self) -> Tail:
        """Return what keeps the output within its limit."""
        return Tail(self.output // 5, self.output - self.output // 5)
