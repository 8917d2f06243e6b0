"""Run the programs of completions with their tests: ``python -m exercises.canitedit evaluate``."""

from __future__ import annotations

import ast
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from core.atomic import write_bytes_atomic
from core.errors import DamagedFileError, StoppedError, UserError
from core.options import Folder, built, command, option, option_group
from core.parsing.untrusted import DamagedError, json_of, read_bytes
from core.plaintext import counted, one_line, some
from core.shutdown import Shutdown
from environments.base import EnvironmentKind
from environments.folders import Folders
from environments.options import absolute
from exercises.canitedit.evaluation.running import (
    MEASURING,
    MOST_SHARED,
    STUBBED,
    EnvironmentSource,
    ProgramEnvironment,
    TestedProgram,
    outcome_of,
    program_environment,
)
from exercises.canitedit.problems import Problem, load_problems
from exercises.canitedit.results import (
    COMPLETED,
    EVALUATED,
    EvaluatedProgram,
    ProblemFile,
    read_file,
    write_file,
)
from runs.options import cache_option, workers_option
from runs.signals import INTERRUPTED, heeding_signals


@dataclass(frozen=True)
class OutcomeCache:
    """Outcomes in one environment, a file each, named by the SHA-256 of the program.

    Several processes may use it at once: a file is complete or is not there.
    """

    folder: Path

    def get(self, program: TestedProgram) -> EvaluatedProgram | None:
        """Return the outcome of ``program``, if it is known; a damaged file is as none."""
        try:
            return EvaluatedProgram.model_validate(
                json_of(read_bytes(self._path(program)))
            )
        except (OSError, DamagedError, ValidationError):
            return None

    def put(
        self, program: TestedProgram, outcome: EvaluatedProgram
    ) -> EvaluatedProgram:
        kept = outcome.model_copy(update={"timestamp": int(time.time())})
        data = kept.model_dump_json(exclude={"program_no_test"}).encode("utf-8")
        write_bytes_atomic(self._path(program), data, durable=False)
        return kept

    def _path(self, program: TestedProgram) -> Path:
        return self.folder / program.sha256[:2] / f"{program.sha256}.json"


def run_programs(
    folders: Folders,
    cache: OutcomeCache,
    workers: int,
    stop: Shutdown,
    programs: Collection[TestedProgram],
    done: Callable[[], object],
) -> dict[str, EvaluatedProgram]:
    """Return outcomes by SHA-256, those that run alone last; ``done`` is called after each.

    The cache takes each outcome at once, so that the next command continues.
    """
    found = dict[str, EvaluatedProgram]()

    def run(program: TestedProgram) -> None:
        stop.check()
        found[program.sha256] = cache.put(program, outcome_of(folders, program))

    with ThreadPoolExecutor(workers, "program") as pool:
        try:
            for future in as_completed(
                [pool.submit(run, p) for p in programs if not p.alone]
            ):
                future.result()
                done()
        except BaseException:
            stop.request("the evaluation ends")
            pool.shutdown(cancel_futures=True)
            raise
    for program in programs:
        if program.alone:
            run(program)
            done()
    return found


_SHOWN = 12


def _processors() -> int:
    return os.cpu_count() or 1


@option_group
class EvaluationOptions:
    folder: Path | None = option(
        None,
        "Evaluate the files *.json.gz of completions in this folder.",
        "folder",
        argument=True,
    )
    output: Folder | None = option(
        None,
        "Write the evaluated files into this folder; default: beside the completions.",
        "--output",
        given=Path,
    )
    environment: EnvironmentKind = option(
        EnvironmentKind.LOCAL,
        "Run programs here: local or docker.",
        "--environment",
        decides=True,
    )
    interpreter: Path | None = option(
        None,
        "Use this interpreter, with the libraries, for local; default: one made for it.",
        "--interpreter",
        given=Path | None,
        read=lambda name, path, context: absolute(name, [path], context)[0],
    )
    workers: int = workers_option(
        None,
        "Run this many programs at once; default: one for each core.",
        factory=_processors,
    )
    problems: str = option(
        "", "Take the problems from these rows, not from the files.", "--problems"
    )
    allow_missing: bool = option(
        False,
        "Leave out problems whose libraries cannot be imported.",
        "--allow-missing",
    )
    cache: Folder = cache_option(
        "Keep virtual environments and outcomes in this folder."
    )


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
    folder = _checked_folder(options)
    output = options.output or folder
    rows = (
        {p.full_name: p for p in load_problems(options.problems)}
        if options.problems
        else None
    )
    files = read_completions(folder, output, rows)
    modules = {file.problem.full_name: needed_modules(file.problem) for file in files}
    source = EnvironmentSource(options.environment, options.interpreter, options.cache)
    wanted = frozenset().union(*modules.values()) - STUBBED
    with program_environment(source, wanted, stop.check, _say) as environment:
        lacking = {
            name: needs & environment.missing.keys() for name, needs in modules.items()
        }
        _check_missing(environment, lacking, allowed=options.allow_missing)
        kept = [file for file in files if not lacking[file.problem.full_name]]
        outcomes = _outcomes(options, environment, kept, stop)
    done = [evaluated_file(file, outcomes) for file in kept]
    for file in done:
        write_file(output, file)
    statuses = Counter(result.status.value for file in done for result in file.results)
    counts = ", ".join(f"{number:,} {name}" for name, number in statuses.most_common())
    print(f"{counted(statuses.total(), 'completion')}: {counts or 'none'}")
    if unknown := sum(
        r.passed and r.coverage is None for file in done for r in file.results
    ):
        print(
            f"{counted(unknown, 'completion')} passed once, and not again for the coverage"
        )
    print(f"{counted(len(done), 'file')} written to {output}")


def _checked_folder(options: EvaluationOptions) -> Path:
    if options.folder is None:
        raise UserError(
            "no folder given; usage: python -m exercises.canitedit evaluate DIR"
        )
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
    return options.folder


def _check_missing(
    environment: ProgramEnvironment,
    lacking: Mapping[str, frozenset[str]],
    *,
    allowed: bool,
) -> None:
    if not environment.missing:
        return
    reasons = "; ".join(
        f"{name} ({one_line(reason)[:100]})"
        for name, reason in sorted(environment.missing.items())
    )
    problems = [name for name, missing in lacking.items() if missing]
    words = f"cannot be imported: {reasons}"
    if problems:
        words += (
            f"; {counted(len(problems), 'problem')} need them: {some(problems, _SHOWN)}"
        )
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
) -> dict[str, EvaluatedProgram]:
    from tqdm import tqdm

    cache = OutcomeCache(options.cache / "canitedit" / environment.identity[:16])
    distinct = {
        program.sha256: program for file in files for program in tested_programs(file)
    }
    known = {
        key: kept
        for key, one in distinct.items()
        if (kept := cache.get(one)) is not None
    }
    left = [one for key, one in distinct.items() if key not in known]
    _say(
        f"{counted(len(distinct), 'distinct program')} with Python {environment.python}: "
        f"{len(known):,} known, {len(left):,} to run"
    )
    with tqdm(total=len(left), unit="program", disable=None, leave=False) as bar:
        folders, workers = environment.folders, options.workers
        return known | run_programs(folders, cache, workers, stop, left, bar.update)


def _say(words: str) -> None:
    print(words, file=sys.stderr)


TIMED = frozenset({"47_merge_sort", "55_bm25", "60_unique_number"})
"""Full names of the problems whose tests compare times."""


def read_completions(
    folder: Path, output: Path, rows: Mapping[str, Problem] | None
) -> tuple[ProblemFile, ...]:
    """Return the files with the completions that are to be evaluated.

    Files that have been evaluated are read where there is no other of their name and ``output`` is
    another folder: those of others are so. ``rows`` replace the problems in the files.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give one with files *{COMPLETED}")
    evaluated = [*folder.glob(f"*{EVALUATED}")]
    others = {*folder.glob(f"*{COMPLETED}")}.difference(evaluated)
    paths = {path.name.removesuffix(COMPLETED): path for path in others}
    if output.resolve() != folder.resolve():
        paths = {path.name.removesuffix(EVALUATED): path for path in evaluated} | paths
    if not paths and evaluated:
        raise UserError(
            f"{folder} has evaluated files alone; --output DIR evaluates them again into DIR"
        )
    if not paths:
        raise UserError(
            f"{folder} has no file *{COMPLETED}; give a folder of completions"
        )
    found = []
    for _, path in sorted(paths.items()):
        file = read_file(path)
        if rows is not None and file.problem.full_name not in rows:
            raise DamagedFileError(
                path, "is about a problem that --problems lacks", "take it away"
            )
        problem = rows[file.problem.full_name] if rows is not None else file.problem
        results = () if file.completions else file.results
        found.append(replace(file, problem=problem, results=results))
    return tuple(sorted(found, key=lambda file: (file.problem.id, file.name)))


def needed_modules(problem: Problem) -> frozenset[str]:
    """Return the modules outside the standard library that the solution and the tests import."""
    try:
        tree = ast.parse(f"{problem.after}\n{problem.tests}")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return frozenset(name.partition(".")[0] for name in names) - sys.stdlib_module_names


def tested_programs(file: ProblemFile) -> tuple[TestedProgram, ...]:
    stubs = tuple(sorted(STUBBED & needed_modules(file.problem)))
    alone = file.problem.full_name in TIMED
    return tuple(
        TestedProgram(program + file.problem.tests, stubs, alone)
        for program in _programs(file)
    )


def _programs(file: ProblemFile) -> list[str]:
    if file.completions:
        return [f"{completion.program}\n" for completion in file.completions]
    return [result.program_no_test for result in file.results]


def evaluated_file(
    file: ProblemFile, outcomes: Mapping[str, EvaluatedProgram]
) -> ProblemFile:
    results = tuple(
        outcomes[program.sha256].model_copy(update={"program_no_test": text})
        for text, program in zip(_programs(file), tested_programs(file), strict=True)
    )
    return replace(file, results=results)
