"""The steps of a build: commands of the harness or of the project, and why one failed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.plaintext import abbreviate
from swe_retry.core.processes import run_limited, without_secrets
from swe_retry.core.shutdown import Check
from swe_retry.environments.base import BrokenEnvironmentError
from swe_retry.environments.local.setup import SetupSandbox

_SECONDS = 1800.0
_NO_NETWORK = re.compile(
    r"dns error|failed to lookup|Temporary failure in name|Connection (?:refused|reset)|"
    r"NewConnectionError|operation timed out|tcp connect error|"
    r"peer certificate|certificate verify failed",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|os error 28\b")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
# Most telling first: the exception of a setup script, why nothing can be resolved, pip's closing
# lines, then hints.
_CAUSES = (
    re.compile(r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit)\b(?::.*)?$"),
    re.compile(r"^(?:cause: )?Because\b"),
    re.compile(r"^\s*(?:ERROR|error|fatal error|E)\b:?\s.*|.*\berror:\s.*"),
    re.compile(r"^\s*(?:×|╰─▶|╰─>)\s.*"),
)
_GENERIC = re.compile(
    r"subprocess-exited-with-error|metadata-generation-failed|See above for"
)
_LONGEST = 300


@dataclass(frozen=True)
class BuildSteps:
    """Runs the steps of one build, whose output goes to ``log``.

    ``version`` is for setuptools_scm, which finds no tags in the checkout. Dependencies that are
    built have versions of their own.
    """

    project: str
    log: Path
    check: Check
    version: str = ""

    def run(
        self, what: str, argv: Sequence[str | Path], sandbox: SetupSandbox | None = None
    ) -> str:
        """Run a command of the harness's own, or one of the project in its sandbox.

        Returns the output.
        """
        command_line = [str(word) for word in argv]
        launched = command_line
        # Not in the current folder, whose uv.toml could name another package index.
        folder = Path("/")
        if sandbox:
            launched = sandbox.command_line(command_line)
            folder = sandbox.tree
            env = dict(sandbox.variables)
            number = _VERSION.search(self.version)
            env["SETUPTOOLS_SCM_PRETEND_VERSION"] = number.group() if number else "0.0"
        else:
            env = without_secrets(os.environ)
            env.pop("VIRTUAL_ENV", None)
            env.pop("PYTHONPATH", None)
        result = run_limited(launched, folder, env, _SECONDS, check=self.check)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"$ {shlex.join(command_line)}\n{result.output}\n")
        if result.exit_code == 0:
            return result.output
        cause = error_line(result.output)
        failure = f"cannot {what} of {self.project}"
        if _NO_NETWORK.search(result.output):
            raise InfrastructureError(
                f"{failure}, the package index is not reached: {cause}"
            )
        if _NO_SPACE.search(result.output):
            raise InfrastructureError(f"{failure}, the disk is full: {cause}")
        ended = cause
        if result.timed_out:
            ended = "it did not end in time"
        program = Path(command_line[0]).name
        # The log has the whole command, which may name hundreds of packages.
        command = abbreviate(shlex.join([program, *command_line[1:]]), _LONGEST)
        raise BrokenEnvironmentError(
            f"{failure} (`{command}`): {ended}; log: {self.log}"
        )


def error_line(output: str) -> str:
    stripped = map(str.strip, output.splitlines())
    lines = list(filter(None, stripped))
    specific = [line for line in lines if not _GENERIC.search(line)]
    for cause in _CAUSES:
        matches = [line for line in specific if cause.match(line)]
        if matches:
            return matches[-1][:_LONGEST]
    if lines:
        return lines[-1][:_LONGEST]
    return "it printed nothing"
