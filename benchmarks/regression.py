"""The regression tests on changed trees, for measuring environments against each other."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swe_retry.agent.workspace import Workspace
from swe_retry.attempts.config import TestChoice
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import Environment, EnvironmentKind, Session
from swe_retry.environments.choice import make_environment
from swe_retry.instances.instance import Instance
from swe_retry.repositories.checkout import Checkout, make_checkout
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.repositories.snapshot import get_snapshot
from swe_retry.testing.project import project_of
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testsettings import Tests


@dataclass(frozen=True)
class TestBench:
    """Folders and limits for regression tests.

    Attributes:
        work: cache of snapshots, checkouts, environments and baselines.
        limits: seconds for a candidate's tests and for all baselines.
    """

    mirrors: Mirrors
    work: Path
    limits: Tests

    @contextmanager
    def tests_of(
        self, instance: Instance, kind: EnvironmentKind
    ) -> Iterator[InstanceTests]:
        """Return the regression tests of ``instance`` in an environment of ``kind``.

        Raises:
            UnavailableError: this instance has no such environment.
        """
        environment = make_environment(kind, self.work, _say)
        with self.checkout(instance) as base:
            session = environment.start(project_of(instance, base, self.mirrors))
            try:
                tests = self._tests(instance, environment, session, base)
                yield InstanceTests(kind, base, session, tests)
            finally:
                session.stop()

    @contextmanager
    def checkout(self, instance: Instance) -> Iterator[Checkout]:
        """Return a fresh checkout of the base commit."""
        mirror = self.mirrors.get(instance.repo, instance.base_commit)
        snapshots = self.work / "snapshots"
        snapshot = get_snapshot(snapshots, mirror, instance.repo, instance.base_commit)
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            yield make_checkout(snapshot, Path(scratch) / "base")

    def _tests(
        self,
        instance: Instance,
        environment: Environment,
        session: Session,
        base: Checkout,
    ) -> RegressionTests:
        log = logging.getLogger(
            f"{__name__}.{type(environment).__name__}.{instance.instance_id}"
        )
        return RegressionTests(
            instance=instance,
            session=session,
            choice=TestChoice.RELATED,
            limits=self.limits,
            files=base.tracked_files(),
            read=Workspace(base.root).read,
            cache=self.work / "baselines",
            identity=session.identity,
            log=log,
            history=partial(
                self.mirrors.past_changes, instance.repo, instance.base_commit
            ),
        )


@dataclass(frozen=True)
class InstanceTests:
    """The regression tests of one instance in one environment; ``base`` is not changed."""

    kind: EnvironmentKind
    base: Checkout
    session: Session
    tests: RegressionTests

    def outcome(self, changes: Changes) -> bool | None:
        """Return False if a test newly fails, None if the result is unknown."""
        return self.tests.run(changes).outcome


def word(outcome: bool | None) -> str:
    """Return the status of a candidate without other faults that has this outcome."""
    if outcome is None:
        return "untested"
    if outcome:
        return "plausible"
    return "caught"


def end_cleanly() -> None:
    """Raise an exception on SIGTERM, so that the containers are removed."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _say(text: str) -> None:
    print(f"note: {text}", flush=True)
