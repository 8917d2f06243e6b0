"""The protocol of the places where commands run, and the values that go in and out."""

from __future__ import annotations

from typing import Protocol

from agent.processes import CommandResult
from agent.protocol import Changes
from bench.checkout import Checkout
from bench.instances import Instance

__all__ = ["Changes", "CommandResult", "Environment", "Session", "UnavailableError"]


class UnavailableError(Exception):
    """This environment cannot be had for this instance; test outcomes stay unknown."""


class Session(Protocol):
    """An environment made ready for one instance."""

    @property
    def test_command(self) -> str:
        """How this instance's tests are run, without any test's name."""

    def run(self, changes: Changes, command: str, timeout: float) -> CommandResult:
        """Run a shell command in a fresh copy of the base tree with ``changes`` made to it.

        The copy lies at the same path every time. After ``timeout`` seconds every process that
        the command started is killed.

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
