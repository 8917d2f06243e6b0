"""Whether broken code is ever plausible, against the project's own test command.

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
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

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
from swe_retry.agent.workspace import Workspace
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import table as aligned
from swe_retry.core.processes import CommandResult
from swe_retry.environments.base import EnvironmentKind, run_once
from swe_retry.frameworks import Runner, runner_of
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import split_row
from swe_retry.launch.program import Program
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.testing.related import RelatedTests, directive
from swe_retry.testing.testsettings import Tests

_ENVIRONMENTS = (EnvironmentKind.LOCAL, EnvironmentKind.DOCKER)
_PLAUSIBLE = "plausible"
_UNNOTICED = "unnoticed"
# The number of functions to choose from, and of modules to search for them.
_FUNCTIONS = 25
_MODULES = 5
_MAX_MODULES = 200
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
    row_by_id = read_rows(rows)
    for name in ids:
        if name not in row_by_id:
            raise UserError(f"{rows} has no row {name}; give ids that it has")
    work = out.expanduser().resolve()
    work.mkdir(parents=True, exist_ok=True)
    limits = Tests(timeout=test_timeout, baseline_timeout=600)
    bench = TestBench(Mirrors(mirrors), work, limits)
    counts: dict[Key, Counter[str]] = defaultdict(Counter)
    for name in ids:
        instance, _ = split_row(row_by_id[name])
        breakages = plant(instance, bench, each, random.Random(seed))
        for kind in environment or _ENVIRONMENTS:
            for breakage, verdict in verdicts(instance, kind, breakages, each, bench):
                key = (instance.repo, kind.value, breakage.kind.value)
                counts[key][verdict] += 1
    for line in table(counts):
        print(line)
    sys.exit(any(count[_PLAUSIBLE] for count in counts.values()))


def plant(
    instance: Instance,
    bench: TestBench,
    each: int,
    chance: random.Random,
) -> list[Breakage]:
    """Return the breakages of an instance; the executed functions are found locally.

    Raises:
        UserError: no test that passes executes a function.
    """
    name = instance.instance_id
    with bench.tests_of(instance, EnvironmentKind.LOCAL) as checks:
        seconds = bench.limits.timeout * _SHARE
        executed = Executed(instance, checks, seconds)
        functions = draw_functions(executed, chance)
        if not functions:
            raise UserError(f"{name}: passing tests execute no function; drop it")
        files = checks.base.tracked_files()
        package = package_of([function.path for function in functions], files)
        read = Workspace(checks.base.root).read
        print(f"{name}: {len(functions)} executed functions to draw from")
        planter = Planter(functions, package, files, read, chance)
        return planter.plant(each, spare=each)


def draw_functions(executed: Executed, chance: random.Random) -> list[Function]:
    """Return functions of random modules that the regression tests of the modules execute."""
    paths = modules(executed.checks.base.tracked_files())
    functions: list[Function] = []
    count = min(len(paths), _MAX_MODULES)
    for path in chance.sample(paths, count):
        functions += executed.functions(path)
        files = {function.path for function in functions}
        if len(functions) >= _FUNCTIONS and len(files) >= _MODULES:
            break
    return functions


def verdicts(
    instance: Instance,
    kind: EnvironmentKind,
    breakages: Sequence[Breakage],
    each: int,
    bench: TestBench,
) -> Iterator[tuple[Breakage, str]]:
    """Yield and print breakages with their verdicts, ``each`` of a kind that tests can notice."""
    noticeable: Counter[BreakageKind] = Counter()
    limit = bench.limits.timeout
    with bench.tests_of(instance, kind) as checks:
        for breakage in breakages:
            if noticeable[breakage.kind] == each:
                continue
            start = time.monotonic()
            report = checks.tests.run(breakage.changes)
            verdict = word(report.outcome)
            if verdict == _PLAUSIBLE and not noticed(breakage, checks, limit):
                verdict = _UNNOTICED
            seconds = time.monotonic() - start
            line = f"{instance.instance_id} {kind.value} {verdict:<9} {seconds:5.1f} s"
            line += f"  {breakage.kind.value}: {breakage.what}"
            if report.untested:
                line += f" ({report.untested})"
            print(line, flush=True)
            noticeable[breakage.kind] += verdict != _UNNOTICED
            yield breakage, verdict


def noticed(breakage: Breakage, checks: InstanceTests, seconds: float) -> bool:
    """Say whether the bare test command ends differently with a breakage, for any related file."""
    session = checks.session
    files = checks.base.tracked_files()
    runner = runner_of(session.test_command) or Runner.PYTEST
    workspace = Workspace(checks.base.root)
    related = RelatedTests(files, workspace.read)
    for test in related.of(list(breakage.changes)):
        command = f"{session.test_command} {shlex.quote(directive(runner, test))}"
        broken = run_once(session, breakage.changes, command, seconds)
        intact = run_once(session, {}, command, seconds)
        if _ending(broken) != _ending(intact):
            return True
    return False


def _ending(result: CommandResult) -> tuple[int | None, frozenset[str]]:
    """Return the exit code and the lines that name a failure."""
    failures = set()
    for line in result.output.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            failures.add(line.partition(" - ")[0])
    return result.exit_code, frozenset(failures)


def table(counts: dict[Key, Counter[str]]) -> Iterator[str]:
    """Yield the lines of a table: verdicts per repository, environment and kind."""
    verdicts = ("caught", "untested", _UNNOTICED, _PLAUSIBLE)
    rows = []
    for key, count in counts.items():
        cells = [f"{verdict} {count[verdict]}" for verdict in verdicts]
        rows.append((*key, *cells))
    headings = ("repository", "environment", "kind", "verdicts", "", "", "")
    return aligned(headings, rows)


if __name__ == "__main__":
    sys.exit(Program(module="benchmarks.planted_breakages", default=main).main())
