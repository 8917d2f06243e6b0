"""Run the commands that build an environment: log their output, and name the cause of a failure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import InfrastructureError
from core.processes import run_limited, without_secrets
from environments.base import UnavailableError

_SECONDS = 1800.0
_NO_NETWORK = re.compile(
    r"dns error|failed to lookup|Temporary failure in name|Connection (?:refused|reset)|"
    r"NewConnectionError|operation timed out|tcp connect error",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|os error 28\b")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
# Most telling first: the exception of a setup script, then pip's closing lines, then hints.
_CAUSES = (
    re.compile(r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit)\b(?::.*)?$"),
    re.compile(r"^\s*(?:ERROR|error|fatal error|E)\b:?\s.*|.*\berror:\s.*"),
    re.compile(r"^\s*(?:×|╰─▶|╰─>)\s.*"),
)
_GENERIC = re.compile(r"subprocess-exited-with-error|metadata-generation-failed|See above for")
_LONGEST = 300


@dataclass(frozen=True)
class BuildSteps:
    """Runs the steps of one build.

    Attributes:
        project: name and version for messages.
        log: receives the output of all steps.
        check: raises when the run stops; a running step is killed then.
        version: of the project, for setuptools_scm, which finds no tags in the checkout.
    """

    project: str
    log: Path
    check: Callable[[], None]
    version: str = ""

    def run(self, what: str, argv: Sequence[str | Path], cwd: Path | None = None) -> None:
        """Run one step; ``what`` describes it in messages.

        Raises:
            UnavailableError: the step failed; with the command, the cause and the log's path.
            InfrastructureError: the package index was not reached, or the disk is full.
        """
        words = [str(word) for word in argv]
        env = without_secrets(os.environ)
        env.pop("VIRTUAL_ENV", None)
        env.pop("PYTHONPATH", None)
        number = _VERSION.search(self.version)
        env["SETUPTOOLS_SCM_PRETEND_VERSION"] = number.group() if number else "0.0"
        result = run_limited(words, cwd or Path.cwd(), env, _SECONDS, check=self.check)
        self._note(words, result.output)
        if result.exit_code == 0:
            return
        cause = error_line(result.output)
        failure = f"cannot {what} of {self.project}"
        if _NO_NETWORK.search(result.output):
            raise InfrastructureError(f"{failure}, the package index is not reached: {cause}")
        if _NO_SPACE.search(result.output):
            raise InfrastructureError(f"{failure}, the disk is full: {cause}")
        ended = "it did not end in time" if result.timed_out else cause
        command = shlex.join([Path(words[0]).name, *words[1:]])
        raise UnavailableError(f"{failure} (`{command}`): {ended}; log: {self.log}")

    def _note(self, words: Sequence[str], output: str) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"$ {shlex.join(words)}\n{output}\n")


def error_line(output: str) -> str:
    """Return the line with the cause from the output of a failed installer."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    specific = [line for line in lines if not _GENERIC.search(line)]
    for cause in _CAUSES:
        found = [line for line in specific if cause.match(line)]
        if found:
            return found[-1][:_LONGEST]
    return lines[-1][:_LONGEST] if lines else "it printed nothing"
