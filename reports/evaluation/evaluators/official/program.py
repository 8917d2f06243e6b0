"""Where an official evaluator's code lies, which version it is, and what its interpreter lacks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.errors import InfrastructureError, UserError
from core.git import git
from core.processes import without_secrets
from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.official.tool import (
    EvaluationFolder,
    ToolSettings,
    missing_keys,
    row_id,
)

_SECONDS = 120.0
# Prints, as JSON, the modules that cannot be found and the version of a package.
_PROBE = """\
import importlib.util, json, sys
from importlib.metadata import PackageNotFoundError, version
def lacks(name):
    try:
        return importlib.util.find_spec(name) is None
    except ImportError:
        return True
try:
    found = version(sys.argv[1]) if sys.argv[1] else ""
except PackageNotFoundError:
    found = ""
print(json.dumps([[name for name in sys.argv[2:] if lacks(name)], found]))
"""


class ToolBase:
    """What official evaluators have in common; see ``OfficialTool``.

    A subclass says by class attributes where its code lies.

    Attributes:
        repository: of the code, OWNER/NAME; empty if it comes as a package alone.
        entry: a file that its checkout has.
        package: its name on the package index; empty if it comes as a checkout alone.
        modules: that the interpreter needs.
        needed: keys of a row that may not be empty.
    """

    name: str = ""
    repository: str = ""
    entry: str = ""
    package: str = ""
    modules: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    allowance: float = 0.0
    uses_engine: bool = True
    names_images: bool = False

    def __init__(self, settings: ToolSettings) -> None:
        self.settings = settings

    @property
    def checkout(self) -> Path:
        """The folder of ``--evaluator-dir``."""
        if self.settings.checkout is None:
            raise UserError(
                f"--evaluator {self.name} runs the code of {self.repository}: "
                "clone it and give the folder with --evaluator-dir"
            )
        return self.settings.checkout

    def check(self) -> str:
        """Return the version of the code, in words."""
        checkout = None if self.package and self.settings.checkout is None else self.checkout
        if checkout is not None and not (checkout / self.entry).exists():
            raise UserError(
                f"--evaluator-dir {checkout}: it has no {self.entry}; "
                f"give a checkout of {self.repository}"
            )
        lacks, version = _probe(self.settings.python, self.package, self.modules, self.paths())
        if lacks:
            raise UserError(
                f"--evaluator-python {self.settings.python} lacks {', '.join(lacks)}: install "
                f"what --evaluator {self.name} needs in an environment of its own, and name that"
            )
        return revision(checkout) if checkout is not None else f"{self.package} {version}"

    def paths(self) -> dict[str, str]:
        """Return the variables by which the interpreter finds the checkout."""
        checkout = self.settings.checkout
        return {"PYTHONPATH": str(checkout)} if checkout is not None else {}

    def environment(self) -> Mapping[str, str]:
        """Return ``paths``; rows are given as files, so no hub is asked."""
        return {**self.paths(), "HF_HUB_OFFLINE": "1"}

    def identifier(self, task: EvaluationTask) -> str:
        """Return the set's own id."""
        return row_id(task)

    def lacking(self, task: EvaluationTask) -> str:
        """Return which needed values the row lacks."""
        return missing_keys(task, self.needed)

    def groups(self, tasks: Sequence[EvaluationTask]) -> Sequence[Sequence[EvaluationTask]]:
        """Return one group of all."""
        return [tasks]

    def command(self, start: Sequence[str | Path], options: Mapping[str, object]) -> list[str]:
        """Return a command of the tool's interpreter.

        An option may have several values in a list; None leaves it without any.
        """
        words = [self.settings.python, *map(str, start)]
        for name, value in options.items():
            values = value if isinstance(value, list) else [] if value is None else [value]
            words += [name, *map(str, values)]
        return words


def workers_of(settings: ToolSettings, tasks: Sequence[EvaluationTask]) -> int:
    """Return how many instances a tool may evaluate at once."""
    return max(min(settings.workers, len(tasks)), 1)


def predictions_file(folder: EvaluationFolder, suffix: str = "json") -> Path:
    """Return the path of the predictions that a tool reads."""
    return folder.inputs / f"predictions.{suffix}"


def rows_file(folder: EvaluationFolder, suffix: str = "json") -> Path:
    """Return the path of the rows that a tool reads."""
    return folder.inputs / f"rows.{suffix}"


def revision(checkout: Path) -> str:
    """Return the commit of a checkout in words, and whether its files differ from it."""
    try:
        commit = git("rev-parse", "HEAD", cwd=checkout).decode().strip()
        changed = git("status", "--porcelain", "--untracked-files=no", cwd=checkout).strip()
    except InfrastructureError:
        return "revision unknown"
    return f"revision {commit}{', with changes' if changed else ''}"


def _probe(
    python: str, package: str, modules: Sequence[str], paths: Mapping[str, str]
) -> tuple[list[str], str]:
    """Return the modules that an interpreter lacks, and the version of ``package``.

    Raises:
        UserError: it is no Python interpreter.
    """
    argv = [python, "-c", _PROBE, package, *modules]
    try:
        result = subprocess.run(
            argv, env={**without_secrets(os.environ), **paths}, stdin=subprocess.DEVNULL,
            capture_output=True, check=True, timeout=_SECONDS, cwd="/",
        )  # fmt: skip
        lacks, version = json.loads(result.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UserError(
            f"--evaluator-python {python} does not run: {error}; give a Python interpreter"
        ) from error
    return list(lacks), str(version)
