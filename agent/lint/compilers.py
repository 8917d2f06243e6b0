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

from agent.lint.findings import Finding, encoded

# Larger sources are compiled in a process with limits, which takes 40 ms to start.
_LONGEST_QUICK = 30_000
_PER_FINALLY = 5_000


class CompilerFailedError(Exception):
    """The compiler is missing, hung or crashed, so it gives no result."""


class Compiler(Protocol):
    """Checks whether files compile, without running them."""

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
        """Return the first syntax error of each (path, text), None for a file without one."""


@dataclass(frozen=True)
class OwnCompiler:
    """The compiler of the Python that the harness runs on.

    Attributes:
        version: act as the ``InterpreterCompiler`` of this version: read files as they are saved,
            and name the version in findings.
    """

    version: str = ""

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
        return [self._one(path, text) for path, text in files]

    def _one(self, path: str, text: str) -> Finding | None:
        # In this process no limit holds. Each way out of a ``try`` has a copy of its ``finally``,
        # so the code doubles with each level; many functions of one name take quadratic time.
        if len(text) + _PER_FINALLY * text.count("finally") < _LONGEST_QUICK:
            found = _compile(path, _as_saved(text) if self.version else text)
            if found is None or not self.version:
                return found
            return replace(found, problem=f"{found.problem} (Python {self.version})")
        try:
            return InterpreterCompiler(Path(sys.executable)).check([(path, text)])[0]
        except CompilerFailedError:
            return Finding(
                path, 1, "cannot be compiled in ten seconds and two gigabytes"
            )


@dataclass(frozen=True)
class RememberingCompiler:
    """Asks ``compiler`` once for each text: the text before an edit was usually checked before."""

    compiler: Compiler
    _known: dict[tuple[str, str], Finding | None] = field(default_factory=dict)

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
        new = [file for file in dict.fromkeys(files) if file not in self._known]
        if new:
            self._known.update(zip(new, self.compiler.check(new), strict=True))
        return [self._known[file] for file in files]


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

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
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
            return [
                verdict
                and Finding(path, verdict[0], f"{verdict[1]} (Python {version})")
                for (path, _), verdict in zip(files, verdicts, strict=True)
            ]
        except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
            raise CompilerFailedError(f"{self.python}: {error}") from error


def _as_saved(text: str) -> bytes:
    plain = encoded(text)
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(plain).readline)
        return text.encode(name)
    except (SyntaxError, UnicodeError, LookupError):
        return plain
