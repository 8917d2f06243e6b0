"""Check that broken code is never plausible: ``python -m benchmarks.planted_breakages``.

    python -m benchmarks.planted_breakages --rows instances.jsonl --mirrors MIRRORS --out DIR ID...

Plants breakages of four kinds in the base commit of each instance and runs the regression tests on
each, in Docker and locally; exits with 1 if one is plausible. Name one instance per repository; the
rows are those of ``benchmarks.instance_images``.

A control shows what the tests themselves can notice: where the project's own test command, run
without any of the harness's options, ends alike with and without a plausible breakage (some
projects catch every exception of a function), the breakage counts as unnoticed, and another one is
drawn.
"""

from __future__ import annotations

import random
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent.workspace import Workspace
from bench.cli.cli import run_cli
from bench.instances.instance import Instance, split_row
from bench.regression.related import RelatedTests, directive
from bench.regression.runners import Runner, runner_of
from bench.regression.suite import TestLimits
from bench.repos.mirrors import Mirrors
from benchmarks.breakages import (
    Breakage,
    BreakageKind,
    Executed,
    Function,
    Planter,
    modules,
    package_of,
)
from benchmarks.instance_images import read_rows
from benchmarks.regression import InstanceTests, TestBench, end_cleanly, word
from core.errors import UserError
from core.plaintext import table as aligned
from core.processes import CommandResult
from environments.base import EnvironmentKind, run_once

_ENVIRONMENTS = (EnvironmentKind.LOCAL, EnvironmentKind.DOCKER)
_PLAUSIBLE = "plausible"
_UNNOTICED = "unnoticed"
# The number of functions to choose from, and of modules to search for them.
_FUNCTIONS = 25
_MODULES = 5
_MOST = 200
# Less than the harness's time limit for the files of one candidate.
_SHARE = 0.4

Key = tuple[str, str, str]
"""Repository, environment and kind."""


def main(
    ids: Annotated[list[str], typer.Argument(help="Ids, one for each repository.")],
    rows: Annotated[Path, typer.Option(help="Rows of benchmarks.instance_images.")],
    mirrors: Annotated[Path, typer.Option(help="Folder of bare mirrors.")],
    out: Annotated[
        Path, typer.Option(help="Folder for snapshots, environments and baselines.")
    ],
    environment: Annotated[
        list[EnvironmentKind] | None, typer.Option(help="Repeatable; default: both.")
    ] = None,
    each: Annotated[int, typer.Option(help="Breakages of each kind.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the choice.")] = 1,
    test_timeout: Annotated[
        float, typer.Option(help="Time limit of a candidate's tests in seconds.")
    ] = 120,
) -> None:
    """Print each breakage's verdict and their counts; exit with 1 if one is plausible."""
    end_cleanly()
    known = read_rows(rows)
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise UserError(f"{rows} has no row {unknown[0]}; give ids that it has")
    work = out.expanduser().resolve()
    work.mkdir(parents=True, exist_ok=True)
    place = TestBench(Mirrors(mirrors), work, TestLimits(test_timeout, 600))
    counts: dict[Key, Counter[str]] = {}
    for name in ids:
        instance, _ = split_row(known[name])
        planted = plant(instance, place, each, random.Random(seed))
        for kind in environment or _ENVIRONMENTS:
            for breakage, said in verdicts(instance, kind, planted, each, place):
                key = (instance.repo, kind.value, breakage.kind.value)
                counts.setdefault(key, Counter())[said] += 1
    for line in table(counts):
        print(line)
    sys.exit(any(count[_PLAUSIBLE] for count in counts.values()))


def plant(
    instance: Instance,
    place: TestBench,
    each: int,
    chance: random.Random,
) -> list[Breakage]:
    """Return the breakages of an instance; the executed functions are found locally.

    Raises:
        UserError: no test that passes executes a function.
    """
    with place.tests_of(instance, EnvironmentKind.LOCAL) as checks:
        functions = executed_functions(
            instance, checks, place.limits.test * _SHARE, chance
        )
        if not functions:
            raise UserError(
                f"{instance.instance_id}: passing tests execute no function; drop it"
            )
        files = checks.base.tracked_files()
        package = package_of([function.path for function in functions], files)
        read = Workspace(checks.base.root).read
        print(
            f"{instance.instance_id}: {len(functions)} executed functions to draw from"
        )
        return Planter(functions, package, files, read, chance).plant(each, spare=each)


def executed_functions(
    instance: Instance,
    checks: InstanceTests,
    seconds: float,
    chance: random.Random,
) -> list[Function]:
    """Return functions of random modules that the regression tests of the modules execute."""
    executed = Executed(instance, checks, seconds)
    paths = modules(checks.base.tracked_files())
    found: list[Function] = []
    for path in chance.sample(paths, min(len(paths), _MOST)):
        found += executed.functions(path)
        if len(found) >= _FUNCTIONS and len({f.path for f in found}) >= _MODULES:
            break
    return found


def verdicts(
    instance: Instance,
    kind: EnvironmentKind,
    planted: Sequence[Breakage],
    each: int,
    place: TestBench,
) -> Iterator[tuple[Breakage, str]]:
    """Yield and print breakages with their verdicts, ``each`` of a kind that tests can notice."""
    enough: Counter[BreakageKind] = Counter()
    with place.tests_of(instance, kind) as checks:
        for breakage in planted:
            if enough[breakage.kind] == each:
                continue
            started = time.monotonic()
            report = checks.tests.run(breakage.changes)
            said = word(report.outcome)
            if said == _PLAUSIBLE and not noticed(breakage, checks, place.limits.test):
                said = _UNNOTICED
            seconds = time.monotonic() - started
            head = f"{instance.instance_id} {kind.value} {said:<9} {seconds:5.1f} s"
            why = ""
            silence = report.untested
            if silence:
                why = f" ({silence})"
            print(f"{head}  {breakage.kind.value}: {breakage.what}{why}", flush=True)
            enough[breakage.kind] += said != _UNNOTICED
            yield breakage, said


def noticed(breakage: Breakage, checks: InstanceTests, seconds: float) -> bool:
    """Say whether the bare test command ends differently with a breakage, for any related file."""
    session = checks.session
    files = checks.base.tracked_files()
    runner = runner_of(session.test_command) or Runner.PYTEST
    related = RelatedTests(files, Workspace(checks.base.root).read).of(
        [*breakage.changes]
    )
    for test in related:
        command = f"{session.test_command} {shlex.quote(directive(runner, test))}"
        with_it, without = (
            run_once(session, changes, command, seconds)
            for changes in (breakage.changes, {})
        )
        if _ending(with_it) != _ending(without):
            return True
    return False


def _ending(result: CommandResult) -> tuple[int | None, frozenset[str]]:
    """Return the exit code and the lines that name a failure."""
    lines = result.output.splitlines()
    failed = (
        line.partition(" - ")[0]
        for line in lines
        if line.startswith(("FAILED", "ERROR"))
    )
    return result.exit_code, frozenset(failed)


def table(counts: dict[Key, Counter[str]]) -> Iterator[str]:
    """Yield the lines of a table: verdicts per repository, environment and kind."""
    words = ("caught", "untested", _UNNOTICED, _PLAUSIBLE)
    rows = []
    for key, count in counts.items():
        rows.append((*key, *(f"{said} {count[said]}" for said in words)))
    return aligned(("repository", "environment", "kind", "verdicts", "", "", ""), rows)


if __name__ == "__main__":
    sys.exit(run_cli(main, "benchmarks.planted_breakages"))
