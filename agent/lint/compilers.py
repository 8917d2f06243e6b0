"""Compile Python with this interpreter, or with another one in a separate process."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tokenize
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from swe_retry.agent.lint.findings import Finding, as_bytes

Files = Sequence[tuple[str, str]]
"""The path and the text of each file."""
# Larger sources are compiled in a process with limits, which takes 40 ms to start.
_MAX_QUICK_LENGTH = 30_000
_PER_FINALLY = 5_000


class CompilerFailedError(Exception):
    """The compiler is missing, hung or crashed, so it gives no result."""


class Compiler(Protocol):
    """Checks whether files compile, without running them."""

    def check(self, files: Files) -> list[Finding | None]:
        """Return the first syntax error of each (path, text), None for a file without one."""


@dataclass(frozen=True)
class OwnCompiler:
    """The compiler of the Python that the harness runs on.

    Attributes:
        version: act as the ``InterpreterCompiler`` of this version: read files as they are saved,
            and name the version in findings.
    """

    version: str = ""

    def check(self, files: Files) -> list[Finding | None]:
        return [self._check_file(path, text) for path, text in files]

    def _check_file(self, path: str, text: str) -> Finding | None:
        # In this process no limit holds. Each way out of a ``try`` has a copy of its ``finally``,
        # so the code doubles with each level; many functions of one name take quadratic time.
        if len(text) + _PER_FINALLY * text.count("finally") < _MAX_QUICK_LENGTH:
            data = _as_saved(text) if self.version else text
            finding = _compile(path, data)
            if not finding or not self.version:
                return finding
            problem = f"{finding.problem} (Python {self.version})"
            return replace(finding, problem=problem)
        try:
            compiler = InterpreterCompiler(Path(sys.executable))
            return compiler.check([(path, text)])[0]
        except CompilerFailedError:
            problem = "cannot be compiled in ten seconds and two gigabytes"
            return Finding(path, 1, problem)


@dataclass(frozen=True)
class RememberingCompiler:
    """Asks ``compiler`` once for each text: the text before an edit was usually checked before."""

    compiler: Compiler
    _findings: dict[tuple[str, str], Finding | None] = field(default_factory=dict)

    def check(self, files: Files) -> list[Finding | None]:
        new = [file for file in dict.fromkeys(files) if file not in self._findings]
        if new:
            findings = self.compiler.check(new)
            self._findings.update(zip(new, findings, strict=True))
        return [self._findings[file] for file in files]


def _compile(path: str, text: str | bytes) -> Finding | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return Finding(path, error.lineno or 1, f"{type(error).__name__}: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return Finding(path, 1, f"cannot be compiled: {error}")
    return None


# Runs on Python 2.7 and later. `-c` puts the current folder on the path; the script removes it
# before it imports anything.
_SCRIPT = """
import sys
sys.path.pop(0)
import base64, json, warnings
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
except Exception:
    pass
warnings.simplefilter("ignore")
def check(data):
    try:
        compile(base64.b64decode(data), "file", "exec", 0, True)
    except SyntaxError as error:
        return [error.lineno or 1, type(error).__name__ + ": " + str(error.msg)]
    except Exception as error:
        return [1, "cannot be compiled: " + str(error)]
print(json.dumps(["%d.%d" % sys.version_info[:2], [check(data) for data in json.load(sys.stdin)]]))
"""


@dataclass(frozen=True)
class InterpreterCompiler:
    """The compiler of the interpreter ``python``, started once for each batch of files.

    It uses no site packages, no bytecode files and no environment variables.

    Attributes:
        seconds: the time limit of a batch.
    """

    python: Path
    seconds: float = 10.0

    def check(self, files: Files) -> list[Finding | None]:
        data = [base64.b64encode(_as_saved(text)).decode() for _, text in files]
        try:
            result = subprocess.run(
                [str(self.python), "-EsSB", "-c", _SCRIPT],
                input=json.dumps(data),
                check=True,
                capture_output=True,
                text=True,
                timeout=self.seconds,
                cwd="/",
                env={},
            )
            version, verdicts = json.loads(result.stdout)
            findings = []
            for (path, _), verdict in zip(files, verdicts, strict=True):
                finding = None
                if verdict:
                    problem = f"{verdict[1]} (Python {version})"
                    finding = Finding(path, verdict[0], problem)
                findings.append(finding)
            return findings
        except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
            raise CompilerFailedError(f"{self.python}: {error}") from error


def _as_saved(text: str) -> bytes:
    plain = as_bytes(text)
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(plain).readline)[0]
        return text.encode(encoding)
    except (SyntaxError, UnicodeError, LookupError):
        return plain
