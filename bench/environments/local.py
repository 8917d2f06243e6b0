"""Local: a virtual environment from the row's spec, commands shut in by bubblewrap."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from agent.errors import InfrastructureError
from agent.processes import run_limited
from bench.checkout import Checkout
from bench.environments.base import Changes, CommandResult, Session, UnavailableError
from bench.environments.bubblewrap import HOME, bubblewrap_works
from bench.environments.confinement import find_confinement, missing_limits, rlimit_lines
from bench.environments.layout import lay_out, size_of
from bench.environments.limits import ResourceLimits
from bench.environments.requirements import local_command
from bench.environments.sandbox import Confined, Sandbox
from bench.environments.venvs import Built, Venvs, spec_key
from bench.instances import Instance
from bench.stop import waited_for


@dataclass(frozen=True)
class LocalEnvironment:
    """Sessions in virtual environments under ``root``; ``failed`` as in ``Venvs``.

    ``run_key`` names the run that a cgroup belongs to.
    """

    root: Path
    warn_once: Callable[[str], None]
    run_key: str = ""
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    failed: dict[str, str] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None
    name: str = field(default="local", init=False)

    def start(self, instance: Instance, base: Checkout) -> Session:
        """Return a session with the project installed at its base commit."""
        if instance.spec is None or not instance.spec.test_cmd:
            raise UnavailableError("the row has no spec to build an environment from")
        shut_in = bubblewrap_works()
        if not shut_in:
            self.warn_once(
                "bubblewrap is not to be had: test code runs with your rights and network; "
                "install it (package bubblewrap), or use --environment docker"
            )
        way = find_confinement()
        for words in missing_limits(way):
            self.warn_once(words)
        confined = Confined(way, self.limits, self.run_key, self.check)
        folder = self.root / "instances"
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            lock = FileLock(f"{folder / instance.instance_id}.lock")
            stack.enter_context(waited_for(lock, self.check))
            built = Venvs(self.root, self.failed, self.check).build(instance, instance.spec, base)
            held = stack.pop_all()
        return LocalSession(built, local_command(instance.spec), shut_in, held, confined)

    def identity(self, instance: Instance) -> str:
        """Return a hash of the spec, and whether the network was shut off."""
        key = spec_key(instance.spec) if instance.spec else "none"
        return f"local:{key}:{'bubblewrap' if bubblewrap_works() else 'open'}"


@dataclass(frozen=True)
class LocalSession:
    """Runs commands in a copy of the installed tree, always at the same path."""

    built: Built
    test_command: str
    shut_in: bool
    held: contextlib.ExitStack
    confined: Confined

    def run(self, changes: Changes, command: str, timeout: float) -> CommandResult:
        """Run ``command`` with bash in a fresh copy; see ``Session.run``."""
        try:
            if not self.shut_in:
                return self._run_open(changes, command, timeout)
            environment = self._environment(HOME)
            sandbox = Sandbox(self.built, self._changes, environment, self.confined)
            return sandbox.run(changes, command, timeout)
        except OSError as error:
            raise InfrastructureError(f"cannot run the tests: {error}") from error

    def stop(self) -> None:
        """Remove the working copy and let other processes have the instance."""
        shutil.rmtree(self.built.testbed, ignore_errors=True)
        shutil.rmtree(self._changes, ignore_errors=True)
        self.held.close()

    @property
    def _changes(self) -> Path:
        return self.built.testbed.with_name("changes")

    def _run_open(self, changes: Changes, command: str, timeout: float) -> CommandResult:
        """Run ``command`` without a sandbox; the disk is watched, as nothing bounds it."""
        folder = self.built.testbed
        lay_out(folder, self.built.template, changes)
        limits = self.confined.limits
        lines = f'{rlimit_lines(self.confined.way, limits)}; exec bash -c "$1"'
        environment = self._environment(str(folder.parent))
        with self.confined.held(["bash", "-c", lines, "bash", command]) as argv:
            return run_limited(
                argv, folder, environment, timeout,
                too_much=lambda: size_of(folder) > limits.written, check=self.confined.check,
            )  # fmt: skip

    def _environment(self, home: str) -> dict[str, str]:
        binaries = self.built.python.parent
        return {
            "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
            "VIRTUAL_ENV": str(binaries.parent),
            "HOME": home,
            "USER": "harness",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
