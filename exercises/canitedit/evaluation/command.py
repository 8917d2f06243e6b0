"""Run the programs of completions with their tests: ``python -m exercises.canitedit evaluate``."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from core.errors import StoppedError, UserError
from core.options import Folder, built, command, option, option_group
from core.plaintext import counted, one_line
from core.shutdown import Shutdown
from environments.base import EnvironmentKind
from environments.options import absolute, environment_option
from exercises.canitedit.evaluation.comparing import (
    compared,
    comparison_lines,
    recorded_evaluation,
)
from exercises.canitedit.evaluation.environment import (
    MEASURING,
    EnvironmentSource,
    ProgramEnvironment,
    program_environment,
)
from exercises.canitedit.evaluation.outcomes import KeptOutcome, OutcomeCache, ProgramPool
from exercises.canitedit.evaluation.programs import (
    evaluated_file,
    needed_modules,
    read_completions,
    tested_programs,
)
from exercises.canitedit.evaluation.running import MOST_SHARED, STUBBED
from exercises.canitedit.problems import against_option, load_problems, problems_option
from exercises.canitedit.results import ProblemFile, write_file
from runs.options import cache_option, workers_option
from runs.signals import INTERRUPTED, heeding_signals

_SHOWN = 12


def _processors() -> int:
    return os.cpu_count() or 1


@option_group
class EvaluationOptions:
    """What is evaluated, where and how."""

    folder: Path | None = option(
        None, "Folder with files *.json.gz of completions.", "folder", argument=True
    )
    output: Folder | None = option(
        None, "Where the evaluated files are written; default: beside.", "--output", given=Path
    )
    environment: EnvironmentKind = environment_option(
        EnvironmentKind.LOCAL, "Where programs run: local or docker."
    )
    interpreter: Path | None = option(
        None,
        "An interpreter with the libraries, for local; default: one made for it.",
        "--interpreter",
        given=Path | None,
        read=lambda name, path, context: absolute(name, [path], context)[0],
    )
    workers: int = workers_option(None, "Programs at once; default: cores.", factory=_processors)
    problems: str = problems_option("", "Take the problems from these rows, not from the files.")
    against: Folder | None = against_option(
        None, "Compare with the recorded evaluation in this folder.", given=Path
    )
    allow_missing: bool = option(
        False, "Leave out problems whose libraries cannot be imported.", "--allow-missing"
    )
    cache: Folder = cache_option("Folder for virtual environments and outcomes.")


@command(EvaluationOptions)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Run each program with its tests, isolated, and write how it ended."""
    options = built(EvaluationOptions, values)
    stop = Shutdown()
    with heeding_signals(
        stop, lambda _: _say("stopping; the same command continues"), lambda: None
    ):
        try:
            _evaluate(options, stop)
        except StoppedError:
            raise typer.Exit(INTERRUPTED) from None


def _evaluate(options: EvaluationOptions, stop: Shutdown) -> None:
    folder, output = _folders(options)
    rows = {p.full_name: p for p in load_problems(options.problems)} if options.problems else None
    files = read_completions(folder, output, rows)
    recorded = recorded_evaluation(options.against, files) if options.against else None
    modules = {file.problem.full_name: needed_modules(file.problem) for file in files}
    source = EnvironmentSource(options.environment, options.interpreter, options.cache)
    wanted = frozenset().union(*modules.values()) - STUBBED
    with program_environment(source, wanted, stop.check, _say) as environment:
        lacking = {name: needs & environment.missing.keys() for name, needs in modules.items()}
        _check_missing(environment, lacking, allowed=options.allow_missing)
        kept = [file for file in files if not lacking[file.problem.full_name]]
        outcomes = _outcomes(options, environment, kept, stop)
    done = [evaluated_file(file, outcomes) for file in kept]
    for file in done:
        write_file(output, file)
    print("\n".join(_summary(done, output)))
    if recorded is not None:
        print("\n".join(comparison_lines(compared(done, recorded))))


def _folders(options: EvaluationOptions) -> tuple[Path, Path]:
    if options.folder is None:
        raise UserError("no folder given; usage: python -m exercises.canitedit evaluate DIR")
    most = MOST_SHARED * _processors()
    if options.workers > most:
        raise UserError(
            f"--workers {options.workers}: at most {most} here, {MOST_SHARED} for each processor, "
            "or programs would have too little of one"
        )
    if options.interpreter is not None and not os.access(options.interpreter, os.X_OK):
        raise UserError(
            f"--interpreter {options.interpreter}: there is no such program; give an interpreter"
        )
    return options.folder, options.output or options.folder


def _check_missing(
    environment: ProgramEnvironment, lacking: Mapping[str, frozenset[str]], *, allowed: bool
) -> None:
    """Name the problems that cannot be evaluated.

    Raises:
        UserError: there are some, and that is not allowed; or there is no coverage.
    """
    if not environment.missing:
        return
    reasons = "; ".join(
        f"{name} ({one_line(reason)[:100]})" for name, reason in sorted(environment.missing.items())
    )
    problems = [name for name, missing in lacking.items() if missing]
    shown = ", ".join(problems[:_SHOWN]) + (", …" if len(problems) > _SHOWN else "")
    words = f"cannot be imported: {reasons}"
    words += f"; {counted(len(problems), 'problem')} need them: {shown}" if problems else ""
    if MEASURING in environment.missing or not allowed:
        raise UserError(
            f"{words}; install them, or leave the problems out with --allow-missing "
            f"({MEASURING} must be there)"
        )
    _say(f"not evaluated: {words}")


def _outcomes(
    options: EvaluationOptions,
    environment: ProgramEnvironment,
    files: Sequence[ProblemFile],
    stop: Shutdown,
) -> dict[str, KeptOutcome]:
    """Return the outcome of each distinct program, by its SHA-256."""
    from tqdm import tqdm

    cache = OutcomeCache(options.cache / "canitedit" / environment.identity[:16])
    distinct = {program.sha256: program for file in files for program in tested_programs(file)}
    known = {key: kept for key, one in distinct.items() if (kept := cache.get(one)) is not None}
    left = [one for key, one in distinct.items() if key not in known]
    _say(
        f"{counted(len(distinct), 'distinct program')} with Python {environment.python}: "
        f"{len(known):,} known, {len(left):,} to run"
    )
    pool = ProgramPool(environment.folders, cache, options.workers, stop)
    with tqdm(total=len(left), unit="program", disable=None, leave=False) as bar:
        return known | pool.outcomes(left, bar.update)


def _summary(files: Sequence[ProblemFile], output: Path) -> Iterator[str]:
    statuses = Counter(result.status.value for file in files for result in file.results)
    counts = ", ".join(f"{number:,} {name}" for name, number in statuses.most_common())
    yield f"{counted(sum(statuses.values()), 'completion')}: {counts or 'none'}"
    unknown = sum(r.passed and r.coverage is None for file in files for r in file.results)
    if unknown:
        yield f"{counted(unknown, 'completion')} passed once, and not again for the coverage"
    yield f"{counted(len(files), 'file')} written to {output}"


def _say(words: str) -> None:
    print(words, file=sys.stderr)
