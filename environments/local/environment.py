"""Local: a virtual environment per project, and commands in a bubblewrap sandbox."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from core.errors import InfrastructureError
from core.processes import CommandResult, run_limited
from core.shutdown import waited_for
from core.worktree import Changes
from environments.base import (
    AS_GIVEN,
    FailedCommand,
    Project,
    Session,
    Setup,
    SetupWay,
    UnavailableError,
)
from environments.layout import lay_beside, lay_out, size_of
from environments.limits import ResourceLimits
from environments.local.bubblewrap import HOME, bubblewrap_works
from environments.local.confinement import find_confinement, missing_limits, rlimit_lines
from environments.local.sandbox import Confined, Sandbox, command_variables
from environments.local.venvs import Built, Venvs, spec_key

NO_SANDBOX = (
    "bubblewrap does not work here: tests still run, but with your rights and network; install it "
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
        way = find_confinement()
        for words in missing_limits(way):
            self.warn_once(words)
        confined = Confined(way, self.limits, self.run_key, self.check)
        # Code that runs without a sandbox could write to files that the sandbox trusts.
        root = self.root if shut_in else self.root / "open"
        folder = root / "instances"
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            lock = FileLock(f"{folder / project.key}.lock")
            stack.enter_context(waited_for(lock, self.check))
            built = Venvs(root, self.failed, self.check).build(project, spec)
            held = stack.pop_all()
        identity = f"local:{spec_key(spec)}:{'bubblewrap' if shut_in else 'open'}"
        return LocalSession(built, spec.test_command, identity, shut_in, held, confined)


@dataclass(frozen=True)
class LocalSession:
    """Runs commands in copies of the installed tree, which always have the same path."""

    built: Built
    test_command: str
    identity: str
    shut_in: bool
    held: contextlib.ExitStack
    confined: Confined
    ways: tuple[SetupWay, ...] = (SetupWay.AS_GIVEN, SetupWay.ON_PATH)
    # Without a sandbox all copies have one folder, so commands run one at a time.
    alone: threading.Lock = field(default_factory=threading.Lock)

    def installs(self, setup: Setup) -> bool:
        return False

    @contextmanager
    def prepare(self, changes: Changes, setup: Setup = AS_GIVEN) -> Iterator[LocalPrepared]:
        paths = [str(self.built.testbed / root) for root in setup.roots]
        with tempfile.TemporaryDirectory(
            dir=self.built.testbed.parent, prefix="changes.", ignore_cleanup_errors=True
        ) as name:
            folder = Path(name) / "laid-out"
            if self.shut_in:
                lay_beside(folder, self.built.template, changes)
                # The tests may run as another user.
                folder.parent.chmod(0o755)
            yield LocalPrepared(self, changes, folder, ":".join(paths))

    def stop(self) -> None:
        shutil.rmtree(self.built.testbed, ignore_errors=True)
        self.held.close()

    def environment(self, home: str, python_path: str) -> dict[str, str]:
        more = {"PYTHONPATH": python_path} if python_path else {}
        return {**command_variables(self.built.python, home), **more}


@dataclass(frozen=True)
class LocalPrepared:
    """The installed tree with ``changes``, which are in ``folder`` for the sandbox."""

    session: LocalSession
    changes: Changes
    folder: Path
    python_path: str
    failed: tuple[FailedCommand, ...] = ()

    def run(self, command: str, timeout: float) -> CommandResult:
        session = self.session
        try:
            if not session.shut_in:
                with session.alone:
                    return self._run_open(command, timeout)
            environment = session.environment(HOME, self.python_path)
            sandbox = Sandbox(session.built, self.folder, environment, session.confined)
            return sandbox.run(command, timeout)
        except OSError as error:
            raise InfrastructureError(f"cannot run the tests: {error}") from error

    def _run_open(self, command: str, timeout: float) -> CommandResult:
        # Nothing limits how much it writes, so that is polled.
        built, confined = self.session.built, self.session.confined
        lay_out(built.testbed, built.template, self.changes)
        lines = f'{rlimit_lines(confined.way, confined.limits)}; exec bash -c "$1"'
        environment = self.session.environment(str(built.testbed.parent), self.python_path)
        with confined.held(["bash", "-c", lines, "bash", command]) as argv:
            return run_limited(
                argv, built.testbed, environment, timeout,
                too_much=lambda: size_of(built.testbed) > confined.limits.written,
                check=confined.check,
            )  # fmt: skip
