from __future__ import annotations

import logging
import secrets
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swe_retry.core.processes import CommandResult, run_limited
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import (
    AS_GIVEN,
    FailedCommand,
    Prepared,
    ResourceLimits,
    Session,
    Setup,
    SetupWay,
)
from swe_retry.environments.folders import FolderCommand, FolderResult, Folders
from swe_retry.testing.setups import ProvenSetup
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testsettings import TestChoice, Tests
from tests.fixtures import an_instance
from tests.support import still_running, write_files

MB = 1 << 20
IMAGE = "python:3.11-slim"
FOLDER_LIMITS = ResourceLimits(
    processes=40,
    memory=200 * MB,
    file_size=20 * MB,
    written=30 * MB,
    temporary=10 * MB,
    output=200_000,
    collected=100_000,
)
PYTHON = Path(sys.executable)


def python(
    folders: Folders,
    code: str,
    seconds: float = 20,
    **fields: Any,
) -> FolderResult:
    """Run a program; ``fields`` are those of FolderCommand."""
    files = {"program.py": code.encode(), **fields.pop("files", {})}
    return folders.run(
        FolderCommand(("python", "program.py"), files, seconds, **fields)
    )


LIMITS = ResourceLimits(
    processes=40, memory=200 * MB, file_size=20 * MB, written=60 * MB, temporary=10 * MB
)
IGNORES_TERM = (
    "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
)


def a_mark() -> str:
    return f"mark-{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Place:
    """A session with small limits, and the name of the mechanism that enforces them.

    Its tree is set up once as ``prepared``, since only what runs later is hostile.
    """

    way: str
    session: Session
    prepared: Prepared
    mark: str = field(default_factory=a_mark)

    def run(self, code: str, seconds: float = 20) -> CommandResult:
        """Run ``code`` with a mark that is visible in the machine's list of processes."""
        text = b64encode(code.encode()).decode()
        command = f"echo {text} | base64 -d >hostile.py; python hostile.py {self.mark}"
        result = self.prepared.run(command, seconds)
        assert "alive" in self.prepared.run("echo alive", 30).output
        assert not still_running(self.mark), "a process of it still runs"
        return result


def ended_badly(result: CommandResult) -> bool:
    return result.timed_out or result.exit_code != 0


FILES = {
    "thing/__init__.py": "",
    "thing/core.py": "def one():\n    return 1\n\ndef two():\n    return 2\n",
    "tests/test_core.py": (
        "import os\nfrom thing import core\nfrom thing.core import one\n\n"
        "def test_two():\n    assert getattr(core, 'two', lambda: 2)() == 2\n\n"
        "def test_one():\n    assert one() == 1\n\n"
        "def test_known_to_fail():\n    assert one() == 3\n\n"
        "def test_flaky():\n"
        "    flag = os.environ['FLAKY']\n"
        "    first = not os.path.exists(flag)\n"
        "    open(flag, 'w').close()\n"
        "    assert one() == 1 or not first\n"
    ),
    "tests/test_core_slow.py": (
        "import time\nfrom thing import core\n\ndef test_slow():\n    time.sleep(30)\n"
    ),
    "tests/test_never.py": "from thing import core\n\ndef test_never():\n    assert False\n",
}


@dataclass
class FolderSession:
    """Runs commands in a fresh copy of some files, without a sandbox."""

    folder: Path
    test_command: str = f"{sys.executable} -m pytest -rA -p no:cacheprovider"
    commands: list[str] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    files: Mapping[str, str] = field(default_factory=lambda: FILES)
    variables: Mapping[str, str] = field(default_factory=dict)
    plugins: bool = False  # the installed ones, whose import takes most of a run's time
    identity: str = "folder"

    ways: tuple[SetupWay, ...] = (SetupWay.AS_GIVEN,)

    def installs(self, setup: Setup) -> bool:
        return False

    @contextmanager
    def prepare(
        self,
        changes: Changes,
        setup: Setup = AS_GIVEN,
        commands: int = 1,
    ) -> Iterator[FolderPrepared]:
        yield FolderPrepared(self, changes)

    def stop(self) -> None:
        pass

    def run(
        self,
        changes: Changes,
        command: str,
        timeout: float,
    ) -> CommandResult:
        if "--junitxml" in command or "stated_" not in command:
            self.commands.append(command)
            self.timeouts.append(timeout)
        shutil.rmtree(self.folder, ignore_errors=True)
        write_files(self.folder, {**self.files, **changes})
        env = {
            "PATH": "/usr/bin:/bin",
            "FLAKY": str(self.folder.parent / "flag"),
            "PYTHONPATH": ".",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "" if self.plugins else "1",
            **self.variables,
        }
        return run_limited(["bash", "-c", command], self.folder, env, timeout)


@dataclass
class FolderPrepared:
    """A folder's files with changes."""

    session: FolderSession
    changes: Changes
    failed_commands: tuple[FailedCommand, ...] = ()

    def run(self, command: str, timeout: float) -> CommandResult:
        return self.session.run(self.changes, command, timeout)


def regression_tests(
    tmp_path: Path,
    files: tuple[str, ...] = ("tests/test_core.py",),
    **changes: object,
) -> RegressionTests:
    """Return the tests of ``FILES``; without ``changes`` all share their baselines."""
    paths = [path for path in FILES if not path.startswith("tests/") or path in files]
    cache = tmp_path / "cache" if changes else tmp_path.parent / "baselines"
    usual = FolderSession(tmp_path / "folder")
    session = changes.get("session", usual)
    values: dict[str, object] = {
        "instance": an_instance(),
        "session": session,
        "choice": TestChoice.RELATED,
        "limits": Tests(timeout=120, baseline_timeout=120),
        "files": paths,
        "read": FILES.get,
        "cache": cache,
        "identity": "folder",
        "log": logging.getLogger("test"),
        "_setups": _setups_of(session),
    }
    return RegressionTests(**{**values, **changes})  # type: ignore[arg-type]


# By what a folder session imports: how its trees are set up is proven once.
_SETUPS: dict[str, dict[tuple[object, ...], ProvenSetup]] = {}


def _setups_of(session: object) -> dict[tuple[object, ...], ProvenSetup]:
    if not isinstance(session, FolderSession):
        return {}
    imports = (session.test_command, session.files, session.variables, session.plugins)
    return _SETUPS.setdefault(repr(imports), {})


def edit(text: str) -> dict[str, bytes | None]:
    return {"thing/core.py": text.encode()}
