"""Check damaged runs and packages: ``python -m tests.reports.damaged_runs``.

A demo run with verdicts, and a package made from it, are damaged in one place at a time. Then
``report.py --verify`` or ``--validate`` is called as from the command line. No damage may raise an
exception or take long. Each damage must be reported, or must not change what is computed from the
files: for a run ``all_preds.jsonl``, ``results.json``, ``stats.json``, the tables and the
package's predictions, logs and results; for a package its results. Text that a package only copies
or generates (transcripts, trajectories, test output, the README) is not computed.
"""

from __future__ import annotations

import io
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from unittest.mock import patch

import typer

from bench.cli.cli import run_cli
from core.plaintext import table
from demo import register
from reports.command_line import main as report
from tests.reports.damage import KINDS, DamagedLine
from tests.reports.evaluated_demo import Made, derived_of_package, derived_of_run, make

_LINE = re.compile(r"\bline \d+|:\d+:")


@dataclass(frozen=True)
class Outcome:
    """The result of a command on a damaged file.

    Attributes:
        said: the output on both streams.
        changed: whether a computed result differs from that of the undamaged files.
    """

    code: int
    said: str
    seconds: float
    changed: bool

    @property
    def raised(self) -> bool:
        """Whether a traceback was printed."""
        return "Traceback" in self.said

    @property
    def reported(self) -> bool:
        """Whether the command reported a fault."""
        return self.code != 0 and not self.raised


@dataclass
class Figures:
    """The results of the damages of a run or a package, by kind."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    faults: list[str] = field(default_factory=list)
    without_line: list[str] = field(default_factory=list)

    def add(self, damage: DamagedLine, outcome: Outcome, most: float) -> None:
        """Count the outcome of one damage; more than ``most`` seconds is a fault."""
        self.counts[damage.kind, "damages"] += 1
        self.counts[damage.kind, "reported" if outcome.reported else "unchanged"] += 1
        if outcome.reported:
            self.counts[damage.kind, "with line"] += bool(_LINE.search(outcome.said))
            self.counts[damage.kind, "file named"] += damage.file.name in outcome.said
            if not _LINE.search(outcome.said):
                self.without_line.append(f"{damage}: {outcome.said.splitlines()[0]}")
        self.slowest = max(self.slowest, (outcome.seconds, str(damage)))
        if fault := _fault(outcome, most):
            self.faults.append(f"{damage}: {fault}")


def _fault(outcome: Outcome, most: float) -> str:
    if outcome.raised:
        return outcome.said
    if outcome.seconds > most:
        return f"took {outcome.seconds:.1f} s"
    if outcome.changed and not outcome.reported:
        return "is not reported and changes a computed result"
    return ""


def run_damages(made: Made, seed: int, numbers: Sequence[int], most: float = 5.0) -> Figures:
    """Damage and verify the run once for each of ``numbers``."""
    files = [path for path in sorted(made.run_files()) if path.stat().st_size]
    arguments = [str(made.run), "--verify", "--cache", str(made.cache)]
    whole = derived_of_run(made)
    return _damages(files, seed, numbers, most, arguments, lambda: derived_of_run(made) != whole)


def package_damages(made: Made, seed: int, numbers: Sequence[int], most: float = 5.0) -> Figures:
    """Damage and validate the package once for each of ``numbers``."""
    files = [path for path in sorted(made.package.rglob("*")) if path.is_file()]
    arguments = ["--validate", str(made.package), "--dataset", "demo", "--cache", str(made.cache)]
    whole = derived_of_package(made)
    return _damages(
        files, seed, numbers, most, arguments, lambda: derived_of_package(made) != whole
    )


def _damages(
    files: Sequence[Path],
    seed: int,
    numbers: Sequence[int],
    most: float,
    arguments: Sequence[str],
    changed: Callable[[], bool],
) -> Figures:
    figures, groups = Figures(), _groups(files)
    code, said = _call(arguments)
    if code:
        raise AssertionError(f"the undamaged files have a fault: {said}")
    for number in numbers:
        source = random.Random(f"{seed}:{number}")
        file = source.choice(groups[source.choice(sorted(groups))])
        kind = sorted(KINDS)[number % len(KINDS)]
        before = file.read_bytes()
        damage = DamagedLine(number, kind, file)
        try:
            file.write_bytes(KINDS[kind](before, source))
            started = time.perf_counter()
            code, said = _call(arguments)
            seconds = time.perf_counter() - started
            figures.add(damage, Outcome(code, said, seconds, not code and changed()), most)
        finally:
            file.write_bytes(before)
    return figures


def _groups(files: Sequence[Path]) -> Mapping[str, list[Path]]:
    """Return files by folder and extension, so that each group is damaged equally often."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        kind = file.suffix if file.parent.parent.name == "logs" else file.parent.name + file.suffix
        single = file.name in ("run.json", "results.json", "stats.json")
        groups.setdefault(file.name if single else kind, []).append(file)
    return groups


def _call(arguments: Sequence[str]) -> tuple[int, str]:
    """Return exit code and output of ``report.py``, called in this process."""
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    argv = patch.object(sys, "argv", ["report.py", *arguments])
    with argv, redirect_stdout(stream), redirect_stderr(stream):
        code = run_cli(report, "report.py")
    stream.flush()
    return code, stream.buffer.getvalue().decode()


def lines(name: str, figures: Figures) -> Iterator[str]:
    """Yield the table of ``figures``."""
    columns = ("damages", "reported", "with line", "file named", "unchanged")
    rows = [(kind, *(figures.counts[kind, c] for c in columns)) for kind in sorted(KINDS)]
    yield from table((name, *columns), rows, numbers=range(1, 6))
    yield f"slowest: {figures.slowest[0]:.2f} s ({figures.slowest[1]})"
    yield from (f"no line: {said}" for said in figures.without_line)
    for fault in figures.faults:
        yield f"FAULT {fault}"


def main(
    count: Annotated[int, typer.Option(help="Number of damages, half of them to the run.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the damages.")] = 1,
    only: Annotated[int | None, typer.Option(help="Do only this damage.")] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of one command.")] = 5.0,
) -> None:
    """Print the results; exit with 1 if a damage raised, took too long or went unnoticed."""
    register()
    numbers = range(count // 2) if only is None else range(only, only + 1)
    with TemporaryDirectory() as folder:
        made = make(Path(folder))
        faults = 0
        for name, damages in (("run", run_damages), ("package", package_damages)):
            figures = damages(made, seed, numbers, seconds)
            for line in lines(name, figures):
                print(line, flush=True)
            faults += len(figures.faults)
    raise typer.Exit(int(faults > 0))


if __name__ == "__main__":
    typer.run(main)
