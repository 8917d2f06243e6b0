"""Local: a virtual environment from the row's spec, commands shut in by bubblewrap."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from agent.errors import InfrastructureError
from agent.processes import run_limited
from agent.workspace import UnsafePathError, Workspace
from bench.checkout import Checkout
from bench.environments.base import Changes, CommandResult, Session, UnavailableError
from bench.environments.bubblewrap import bubblewrap_works, bubblewrapped
from bench.environments.requirements import local_command
from bench.environments.venvs import Built, Venvs, spec_key
from bench.instances import Instance

_HOME = "/tmp/home"


@dataclass(frozen=True)
class LocalEnvironment:
    """Sessions in virtual environments under ``root``; ``failed`` as in ``Venvs``."""

    root: Path
    warn_once: Callable[[str], None]
    failed: dict[str, str] = field(default_factory=dict)
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
        folder = self.root / "instances"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{folder / instance.instance_id}.lock")
        lock.acquire()
        try:
            built = Venvs(self.root, self.failed).build(instance, instance.spec, base)
        except BaseException:
            lock.release()
            raise
        return LocalSession(built, local_command(instance.spec), shut_in, lock)

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
    lock: FileLock

    def run(self, changes: Changes, command: str, timeout: float) -> CommandResult:
        """Run ``command`` with bash in a fresh copy; see ``Session.run``."""
        try:
            self._lay_out(changes)
        except (OSError, UnsafePathError) as error:
            raise InfrastructureError(f"cannot lay out {self.built.testbed}: {error}") from error
        folder = self.built.testbed
        argv = ["bash", "-c", command]
        env = self._environment()
        if self.shut_in:
            argv = bubblewrapped(argv, folder, self.built.readable, env)
        try:
            return run_limited(argv, folder, env, timeout)
        except OSError as error:
            raise InfrastructureError(f"cannot run {argv[0]}: {error}") from error

    def stop(self) -> None:
        """Remove the working copy and let other processes have the instance."""
        shutil.rmtree(self.built.testbed, ignore_errors=True)
        self.lock.release()

    def _lay_out(self, changes: Changes) -> None:
        folder = self.built.testbed
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.built.template, folder, symlinks=True)
        space = Workspace(folder)
        for path, data in changes.items():
            space.check(path)
            place = folder / path
            if data is None:
                place.unlink(missing_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)

    def _environment(self) -> dict[str, str]:
        binaries = self.built.python.parent
        home = _HOME if self.shut_in else str(self.built.testbed.parent)
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
