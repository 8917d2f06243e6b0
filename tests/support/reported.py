"""The commands as functions that return what they print, and replays of demo instances."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_retry.environments.base import EnvironmentKind
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluatorKind,
    ReportFormat,
    RowKind,
)
from swe_retry.report.report import report_command
from swe_retry.report.verify import verify_command
from tests.support import runs
from tests.support.evaluated import report_settings
from tests.support.start import run_command


@dataclass(frozen=True)
class Printed:
    """The exit code of a command and the lines that it printed."""

    code: int
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def starting(self, start: str) -> list[str]:
        return [line for line in self.lines if line.startswith(start)]

    def containing(self, *parts: str) -> list[str]:
        """Return the lines that contain all of ``parts``."""
        lines = []
        for line in self.lines:
            if all(part in line for part in parts):
                lines.append(line)
        return lines


def report_run(
    run: Path,
    cache: Path,
    kind: str = EvaluatorKind.NONE,
    format: ReportFormat = "text",
    rows: RowKind = "instances",
    **changes: Any,
) -> Printed:
    """Report on a run with the settings of ``report_settings``."""
    lines: list[str] = []
    settings = report_settings(cache, kind, **changes)
    code = report_command([run], settings, lines.append, None, format, rows)
    return Printed(code, lines)


def verify_run(run: Path) -> Printed:
    lines: list[str] = []
    code = verify_command([run], lines.append)
    return Printed(code, lines)


def differs(run: Path) -> bool:
    """Verify a run, and return whether something differs from what was written."""
    printed = verify_run(run)
    assert printed.code in (0, 1)
    notes = printed.starting("note: ")
    others = [line for line in printed.lines if line not in notes]
    is_equal = others == [f"{run}: nothing differs"]
    assert is_equal is not bool(printed.code), printed.lines
    return bool(printed.code)


def replay(
    out: Path,
    cache: Path,
    *ids: str,
    run: str = "r",
    **changes: Any,
) -> Path:
    """Replay demo instances without their tests, and return the folder of the run."""
    config = runs.config(
        environment=EnvironmentKind.NONE,
        run=run,
        **changes,
    )
    options = runs.options(out, cache, *ids)
    code = run_command(config, options, lambda _: None)
    assert code == 0
    return out / "predictions" / run
