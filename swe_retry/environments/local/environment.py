"""Local: a virtual environment per project, and commands in a bubblewrap sandbox."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.plaintext import Say
from swe_retry.core.processes import CommandResult, run_limited
from swe_retry.core.shutdown import Check, waited_for
from swe_retry.core.worktree import Changes, size_of
from swe_retry.environments.base import (
    AS_GIVEN,
    FailedCommand,
    Project,
    ResourceLimits,
    Session,
    Setup,
    SetupWay,
    UnavailableError,
    VenvSpec,
)
from swe_retry.environments.folders import FolderCommand
from swe_retry.environments.layout import lay_out
from swe_retry.environments.local.bubblewrap import HOME, View, bubblewrap_works
from swe_retry.environments.local.confinement import Confined, confine
from swe_retry.environments.local.folders import run_shut_in
from swe_retry.environments.local.venvs import Built, Venvs, spec_key

NO_SANDBOX = (
    "bubblewrap does not work here: set-up and tests run with your rights and network; install it "
    "(package bubblewrap), or use --environment docker"
)

# The status of a sandboxed command whose server did not start; no shell or test runner has it.
_SERVER_FAILED = 113


@dataclass(frozen=True)
class LocalEnvironment:
    """Sessions in virtual environments below ``root``; ``failed`` as in ``Venvs``.

    ``run_key`` marks the cgroups of a run.
    """

    root: Path
    warn_once: Say
    run_key: str = ""
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    check: Check = lambda: None

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
        venvs = Venvs(root, self.failed, self.check, self.warn_once)
        # Not for longer: sessions that wait for each other could wait for ever.
        with waited_for(FileLock(f"{folder / project.key}.lock"), self.check):
            built = venvs.build(project, spec)
        prelude: tuple[str, ...] = ()
        if spec.server and shut_in:
            # An interpreter that imports nothing of the project's tree.
            server_spec = VenvSpec(
                python=spec.python, packages=tuple(spec.server.packages), date=spec.date
            )
            python = venvs.dependencies(project, server_spec)
            readable = (*built.readable, python.parent.parent)
            built = replace(built, readable=readable)
            prelude = (
                f"SERVER_PYTHON={shlex.quote(str(python))}",
                "{",
                spec.server.start,
                f"}} >/dev/null 2>&1 || exit {_SERVER_FAILED}",
            )
        key = spec_key(spec, (*spec.setup, *prelude))
        way = "bubblewrap" if shut_in else "open"
        identity = f"local:{key}:{built.shared.name}:{way}"
        identity += self.limits.mark
        return LocalSession(
            built=built,
            test_command=spec.test_command,
            identity=identity,
            shut_in=shut_in,
            confined=confined,
            prelude=prelude,
        )


@dataclass(frozen=True)
class LocalSession:
    """Runs commands in copies of the installed tree, which always have the same path.

    In a sandbox the shell lines of ``prelude`` come before each command.
    """

    built: Built
    test_command: str
    identity: str
    shut_in: bool
    confined: Confined
    prelude: tuple[str, ...] = ()
    ways: tuple[SetupWay, ...] = (SetupWay.AS_GIVEN, SetupWay.ON_PATH)

    def installs(self, setup: Setup) -> bool:
        return False

    @contextmanager
    def prepare(
        self, changes: Changes, setup: Setup = AS_GIVEN, commands: int = 1
    ) -> Iterator[LocalPrepared]:
        paths = [str(self.built.testbed / root) for root in setup.roots]
        yield LocalPrepared(self, changes, ":".join(paths))

    def stop(self) -> None:
        """Do nothing: each command leaves nothing."""


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
            lines = "\n".join([*self.session.prelude, command])
            view = View(built.testbed, built.readable, self._variables(HOME))
            result = run_shut_in(
                confined,
                view,
                FolderCommand(("bash", "-c", lines), {}, timeout),
                lambda folder: lay_out(folder, built.template, self.changes),
            )
            if self.session.prelude and result.exit_code == _SERVER_FAILED:
                raise InfrastructureError("a server that the tests ask did not start")
            return result
        # All copies have one folder, so commands run one at a time.
        lock = FileLock(f"{built.testbed.parent}.lock")
        with waited_for(lock, confined.check):
            try:
                return self._run_open(command, timeout)
            finally:
                shutil.rmtree(built.testbed, ignore_errors=True)

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
