"""The protocol of the places where commands run, and the values that go in and out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from agent.protocol import Changes
from bench.instances.instances import Instance
from bench.repos.checkout import Checkout
from core.processes import CommandResult

__all__ = [
    "AS_GIVEN",
    "AgentSandbox",
    "Changes",
    "CommandResult",
    "Environment",
    "EnvironmentKind",
    "FailedCommand",
    "Prepared",
    "Session",
    "Setup",
    "SetupWay",
    "UnavailableError",
]


class EnvironmentKind(str, Enum):
    """The environments by their names on the command line."""

    NONE = "none"
    LOCAL = "local"
    DOCKER = "docker"


class AgentSandbox(str, Enum):
    """Whether a command in the agent sandbox has a network."""

    NETWORK = "network"
    OFFLINE = "offline"


class UnavailableError(Exception):
    """This environment cannot be had for this instance; test outcomes stay unknown."""


class SetupWay(str, Enum):
    """How the project is installed before its tests run, in the order in which they are tried."""

    INSTALLED = "as it is installed"
    AS_GIVEN = "as given"
    NO_ISOLATION = "without build isolation"
    ON_PATH = "with the work tree first on the path"


@dataclass(frozen=True)
class Setup:
    """A way of setting up; ``roots`` are the folders of the tree that ON_PATH puts on the path."""

    way: SetupWay = SetupWay.AS_GIVEN
    roots: tuple[str, ...] = ()


AS_GIVEN = Setup()


@dataclass(frozen=True)
class FailedCommand:
    """A set-up command that failed, and the last lines of what the set-up printed."""

    command: str
    output: str


class Prepared(Protocol):
    """A copy of the base tree with changes, set up. Commands may run in it at the same time."""

    @property
    def failed(self) -> tuple[FailedCommand, ...]:
        """The set-up commands that failed."""

    def run(self, command: str, timeout: float) -> CommandResult:
        """Run a shell command in the tree as set-up left it, whatever ran before.

        The tree lies at the same path every time. After ``timeout`` seconds every process that
        the command started is killed.

        Raises:
            InfrastructureError: the environment itself failed.
        """


class Session(Protocol):
    """An environment made ready for one instance."""

    @property
    def test_command(self) -> str:
        """How this instance's tests are run, without any test's name."""

    @property
    def ways(self) -> tuple[SetupWay, ...]:
        """The ways of setting up that differ here."""

    def installs(self, setup: Setup) -> bool:
        """Tell whether ``setup`` builds the project from the changed tree."""

    def prepare(
        self, changes: Changes, setup: Setup = AS_GIVEN
    ) -> AbstractContextManager[Prepared]:
        """Set up a fresh copy of the base tree with ``changes`` made to it.

        Raises:
            InfrastructureError: the environment itself failed.
        """

    def stop(self) -> None:
        """Give everything back; safe to call twice."""


class Environment(Protocol):
    """Makes sessions."""

    @property
    def name(self) -> str:
        """The value of ``--environment`` that means it."""

    def start(self, instance: Instance, base: Checkout) -> Session:
        """Return a session for ``instance``, whose base commit is checked out in ``base``.

        Raises:
            UnavailableError: with the reason, to be said once.
            InfrastructureError: the engine is down, or the disk or network failed.
        """

    def identity(self, instance: Instance) -> str:
        """Return what decides test results besides the code: part of the baseline's cache key."""


def run_once(session: Session, changes: Changes, command: str, timeout: float) -> CommandResult:
    """Run one command in a tree that is set up for it alone; see ``Prepared.run``."""
    with session.prepare(changes) as prepared:
        return prepared.run(command, timeout)
