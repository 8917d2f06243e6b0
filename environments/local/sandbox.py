"""Run one command in a bubblewrap sandbox, on a copy of the tree in memory."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.errors import InfrastructureError
from core.processes import CommandResult, run_limited
from environments.layout import DELETED, FILES
from environments.limits import ResourceLimits
from environments.local.bubblewrap import HARNESS, HOME, View, bubblewrapped
from environments.local.cgroups import ControlGroup, limited_group
from environments.local.confinement import Confinement, other_user, rlimit_lines
from environments.local.launcher import launched
from environments.local.venvs import Built

_TEMPLATE, _CHANGES = f"{HARNESS}/template", f"{HARNESS}/changes"
# Deleted paths first: a folder may replace a file.
_LAY_OUT = f"""set -e
cp -dR --preserve=mode,timestamps,links {_TEMPLATE}/. .
xargs -0 rm -rf -- <{_CHANGES}/{DELETED}
cp -R {_CHANGES}/{FILES}/. .
"""
_HAND_OVER = f"chown -R {{user}}:{{user}} . {HOME}\n"
_BECOME = "setpriv --reuid {user} --regid {user} --clear-groups "
_GIVEN_UP = 300


@dataclass(frozen=True)
class Confined:
    """How commands are limited; ``check`` raises when the run ``run_key`` stops."""

    way: Confinement
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    run_key: str = ""
    check: Callable[[], None] = lambda: None

    @contextmanager
    def held(self, argv: Sequence[str]) -> Iterator[list[str]]:
        """Yield a command line that runs ``argv`` without keyrings, if possible in a cgroup."""
        with self.group() as group:
            words = launched([*argv])
            yield group.joined(words) if group else words

    @contextmanager
    def group(self) -> Iterator[ControlGroup | None]:
        """Make a cgroup for a command, if that is the way; it is removed with its processes."""
        with contextlib.ExitStack() as stack:
            group = None
            if self.way is Confinement.CGROUP:
                try:
                    group = stack.enter_context(limited_group(self.limits, self.run_key))
                except OSError as error:
                    raise InfrastructureError(f"cannot make a cgroup: {error}") from error
            yield group


def command_variables(python: Path | None, home: str) -> dict[str, str]:
    """Return the environment variables of a command that finds ``python`` first."""
    system = "/usr/local/bin:/usr/bin:/bin"
    own = {"VIRTUAL_ENV": str(python.parent.parent)} if python else {}
    return {
        "PATH": f"{python.parent}:{system}" if python else system,
        **own,
        "HOME": home,
        "USER": "harness",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@dataclass(frozen=True)
class Sandbox:
    """Runs commands on copies of a tree, with the changes that were written to ``changes``."""

    built: Built
    changes: Path
    environment: Mapping[str, str]
    confined: Confined

    def run(self, command: str, timeout: float) -> CommandResult:
        token = secrets.token_hex(16)
        view = View(
            self.built.testbed,
            self.built.readable,
            self.environment,
            {_TEMPLATE: self.built.template, _CHANGES: self.changes},
        )
        user = other_user() if self.confined.way is Confinement.OTHER_USER else None
        argv = ["bash", "-c", self._script(token, user), "bash", command]
        shut_in = bubblewrapped(argv, view, self.confined.limits, user is not None)
        with self.confined.held(shut_in) as held:
            check = self.confined.check
            result = run_limited(held, self.changes, self.environment, timeout, check=check)
        before, found, after = result.output.partition(f"{token}\n")
        if not found and not result.timed_out:
            words = before.strip().splitlines()[-1:] or [f"exit code {result.exit_code}"]
            raise InfrastructureError(f"cannot start the sandbox: {words[0][:_GIVEN_UP]}")
        return replace(result, output=after)

    def _script(self, token: str, user: int | None) -> str:
        limited = f'{rlimit_lines(self.confined.way, self.confined.limits)}; exec bash -c "$1"'
        hand_over = _HAND_OVER.format(user=user) if user is not None else ""
        become = _BECOME.format(user=user) if user is not None else ""
        return f"{_LAY_OUT}{hand_over}echo {token}\nexec {become}bash -c '{limited}' bash \"$1\""
