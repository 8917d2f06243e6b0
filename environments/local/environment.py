"""Local: a virtual environment per project, and commands in a bubblewrap sandbox."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from core.errors import InfrastructureError
from core.processes import CommandResult, run_limited
from core.shutdown import waited_for
from core.worktree import Changes, size_of
from environments.base import (
    AS_GIVEN,
    FailedCommand,
    Project,
    ResourceLimits,
    Session,
    Setup,
    SetupWay,
    UnavailableError,
)
from environments.layout import lay_out
from environments.local.bubblewrap import HOME, View, bubblewrap_works
from environments.local.confinement import Confined, confine
from environments.local.folders import run_shut_in
from environments.local.venvs import Built, Venvs, spec_key

NO_SANDBOX = (
    "bubblewrap does not work here: set-up and tests run with your rights and network; install it "
    "(package bubblewrap), or use --environment docker"
)


@dataclass(frozen=True)
class LocalEnvironment:
    """Sessions in virtual environments below ``root``; ``failed`` as in ``Venvs``.

    ``run_key`` marks the cgroups of a run.
    """

    root: Path
    warn_once: Callable[[str], None]
    run_key: str = ""
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    failed: dict[str, str] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None
    name: str = field(default="local", init=False)

    def start(self, project: Project) -> Session:
        spec = project.venv
        if isinstance(spec, UnavailableError):
            raise spec
        shut_in = bubblewrap_works()
        if not shut_in:
            self.warn_once(NO_SANDBOX)
        confined = confine(self.limits, self.run_key, self.check, self.warn_once)
        # Code that runs without a sandbox could write to files that the sandbox trusts.
        root = self.root if shut_in else self.root / "open"
        # Where a link leads, a sandbox shows a link too, and mounts nothing below it.
        root = root.resolve()
        folder = root / "instances"
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            lock = FileLock(f"{folder / project.key}.lock")
            stack.enter_context(waited_for(lock, self.check))
            built = Venvs(root, self.failed, self.check, self.warn_once).build(
                project, spec
            )
            resources = contextlib.ExitStack()
            if shut_in:
                # In sandboxes others may use it at once; the tree there is in memory.
                shutil.rmtree(built.testbed, ignore_errors=True)
            else:
                resources = stack.pop_all()
                resources.callback(shutil.rmtree, built.testbed, ignore_errors=True)
        identity = (
            f"local:{spec_key(spec, spec.setup)}:{'bubblewrap' if shut_in else 'open'}"
        )
        return LocalSession(
            built, spec.test_command, identity, shut_in, resources, confined
        )


@dataclass(frozen=True)
class LocalSession:
    """Runs commands in copies of the installed tree, which always have the same path."""

    built: Built
    test_command: str
    identity: str
    shut_in: bool
    resources: contextlib.ExitStack
    confined: Confined
    ways: tuple[SetupWay, ...] = (SetupWay.AS_GIVEN, SetupWay.ON_PATH)
    # Without a sandbox all copies have one folder, so commands run one at a time.
    alone: threading.Lock = field(default_factory=threading.Lock)

    def installs(self, setup: Setup) -> bool:
        return False

    @contextmanager
    def prepare(
        self,
        changes: Changes,
        setup: Setup = AS_GIVEN,
        commands: int = 1,
    ) -> Iterator[LocalPrepared]:
        paths = [str(self.built.testbed / root) for root in setup.roots]
        yield LocalPrepared(self, changes, ":".join(paths))

    def stop(self) -> None:
        self.resources.close()


@dataclass(frozen=True)
class LocalPrepared:
    """The installed tree with ``changes``; each command gets a copy."""

    session: LocalSession
    changes: Changes
    python_path: str
    failed_commands: tuple[FailedCommand, ...] = ()

    def run(self, command: str, timeout: float) -> CommandResult:
        built = self.session.built
        confined = self.session.confined
        if self.session.shut_in:
            view = View(built.testbed, built.readable, self._variables(HOME))
            return run_shut_in(
                confined,
                view,
                lambda folder: lay_out(folder, built.template, self.changes),
                ["bash", "-c", command],
                timeout,
            )
        with self.session.alone:
            return self._run_open(command, timeout)

    def _run_open(self, command: str, timeout: float) -> CommandResult:
        # Nothing limits how much it writes, so that is polled.
        built = self.session.built
        confined = self.session.confined
        shutil.rmtree(built.testbed, ignore_errors=True)
        lay_out(built.testbed, built.template, self.changes)
        variables = self._variables(str(built.testbed.parent))
        try:
            with confined.launch_argv(
                confined.limited_argv(["bash", "-c", command], memory=True)
            ) as argv:
                return run_limited(
                    argv,
                    built.testbed,
                    variables,
                    timeout,
                    too_much=lambda: size_of(built.testbed) > confined.limits.written,
                    check=confined.check,
                )
        except OSError as error:
            raise InfrastructureError(f"cannot run the tests: {error}") from error

    def _variables(self, home: str) -> dict[str, str]:
        built = self.session.built
        python_path = {"PYTHONPATH": self.python_path} if self.python_path else {}
        return {**built.command_variables(home), **python_path}
