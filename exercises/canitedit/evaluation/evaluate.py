"""Run the programs of completions with their tests, and write how they ended."""

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

from pydantic import ValidationError

from core.atomic import write_bytes_atomic
from core.errors import DamagedFileError, UserError
from core.parsing.untrusted import DamagedError, json_of, read_bytes
from core.plaintext import counted, one_line, some
from core.shutdown import Shutdown
from environments.base import EnvironmentKind
from environments.folders import Folders
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
from exercises.canitedit.settings import CompletionReportSettings, ProgramEvaluation
from runs.signals import heeding_signals


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


def evaluate(
    folders: Sequence[Path], settings: CompletionReportSettings
) -> tuple[Path, ...]:
    """Run the programs that were not evaluated, write how they ended, and return the folders.

    The outcomes stand beside the completions. With ``evaluation.output`` all programs of one folder
    run, and their outcomes stand there; with rows of problems all completions run.

    Raises:
        StoppedError: at a signal; the outcomes so far are in the cache.
    """
    evaluation = settings.evaluation
    if evaluation.environment is EnvironmentKind.NONE:
        return tuple(folders)
    if evaluation.output and len(folders) > 1:
        raise UserError("evaluation.output is for one folder; give one")
    rows = None
    if settings.problems.source:
        problems = load_problems(settings.problems.source)
        rows = {problem.full_name: problem for problem in problems}
    waiting = []
    for folder in folders:
        output = evaluation.output or folder
        for file in read_completions(
            folder, output, rows, skip_broken=settings.report.allow_partial
        ):
            waiting.append((output, file))
    if waiting:
        _check(evaluation)
        stop = Shutdown()
        with heeding_signals(
            stop, lambda _: _say("stopping; the same command continues"), lambda: None
        ):
            _evaluate(waiting, settings, stop)
    if evaluation.output:
        return (evaluation.output,)
    return tuple(folders)


def _evaluate(
    waiting: Sequence[tuple[Path, ProblemFile]],
    settings: CompletionReportSettings,
    stop: Shutdown,
) -> None:
    """Run the programs of files, each with the folder into which its outcomes go."""
    needs: dict[str, frozenset[str]] = {}
    for _, file in waiting:
        name = file.problem.full_name
        needs[name] = needs.get(name, frozenset()) | needed_modules(file.problem)
    source = EnvironmentSource(
        kind=settings.evaluation.environment,
        interpreter=settings.evaluation.interpreter,
        cache=settings.folders.cache,
    )
    modules = frozenset().union(*needs.values()) - STUBBED
    with program_environment(source, modules, stop.check, _say) as environment:
        lacking = {}
        for name, names in needs.items():
            lacking[name] = names & environment.missing.keys()
        _check_missing(environment, lacking, allowed=settings.report.allow_missing)
        runnable = [pair for pair in waiting if not lacking[pair[1].problem.full_name]]
        files = [file for _, file in runnable]
        outcomes = _outcomes(settings, environment, files, stop)
    statuses: Counter[str] = Counter()
    unmeasured = 0
    for output, file in runnable:
        evaluated = evaluated_file(file, outcomes)
        write_file(output, evaluated)
        for result in evaluated.results:
            statuses[result.status.value] += 1
            unmeasured += result.passed and result.coverage is None
    counts = ", ".join(f"{number:,} {name}" for name, number in statuses.most_common())
    _say(f"{counted(statuses.total(), 'completion')}: {counts or 'none'}")
    if unmeasured:
        _say(
            f"{counted(unmeasured, 'completion')} passed once, and not again for the coverage"
        )
    outputs = dict.fromkeys(str(output) for output, _ in runnable)
    if outputs:
        _say(f"{counted(len(runnable), 'file')} written to {', '.join(outputs)}")


def _check(evaluation: ProgramEvaluation) -> None:
    most = MOST_SHARED * _processors()
    if evaluation.workers and evaluation.workers > most:
        raise UserError(
            f"--workers {evaluation.workers}: at most {most} here, {MOST_SHARED} for each "
            "processor, or programs would have too little of one"
        )
    interpreter = evaluation.interpreter
    if interpreter is not None and not os.access(interpreter, os.X_OK):
        raise UserError(
            f"evaluation.interpreter {interpreter}: there is no such program; give an interpreter"
        )


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
            f"{words}; install them, or leave the problems out by report.allow_missing=true "
            f"({MEASURING} must be there)"
        )
    _say(f"not evaluated: {words}")


def _outcomes(
    settings: CompletionReportSettings,
    environment: ProgramEnvironment,
    files: Sequence[ProblemFile],
    stop: Shutdown,
) -> dict[str, EvaluatedProgram]:
    from tqdm import tqdm

    cache = OutcomeCache(
        settings.folders.cache / "canitedit" / environment.identity[:16]
    )
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
        workers = settings.evaluation.workers or _processors()
        done = run_programs(environment.folders, cache, workers, stop, left, bar.update)
        return {**known, **done}


def _say(words: str) -> None:
    print(words, file=sys.stderr)


TIMED = frozenset({"47_merge_sort", "55_bm25", "60_unique_number"})
"""Full names of the problems whose tests compare times."""


def read_completions(
    folder: Path,
    output: Path,
    rows: Mapping[str, Problem] | None = None,
    *,
    skip_broken: bool = False,
) -> tuple[ProblemFile, ...]:
    """Return the files with the completions that are to be evaluated into ``output``.

    Args:
        folder: has files of completions, or evaluated ones of others without such files.
        output: where ``folder`` itself is, what it has evaluated is left out.
        rows: problems by name that replace those in the files; evaluated completions count then.
        skip_broken: leave out files that cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give one with files *{COMPLETED}")
    elsewhere = output.resolve() != folder.resolve()
    paths = _completion_paths(folder, again=rows is not None, elsewhere=elsewhere)
    files = []
    for path in sorted(paths):
        try:
            file = read_file(path)
        except DamagedFileError:
            if skip_broken:
                continue
            raise
        problem = file.problem
        if rows is not None and problem.full_name not in rows:
            raise DamagedFileError(
                path, "is about a problem that problems.source lacks", "take it away"
            )
        if rows is not None:
            problem = rows[problem.full_name]
        results = () if file.completions else file.results
        files.append(replace(file, problem=problem, results=results))
    return tuple(sorted(files, key=lambda file: (file.problem.id, file.name)))


def _completion_paths(
    folder: Path, *, again: bool, elsewhere: bool
) -> Collection[Path]:
    """Return the files to evaluate.

    Args:
        folder: has them.
        again: also completions that were evaluated.
        elsewhere: all that has programs; the outcomes go into another folder.
    """
    evaluated = {}
    completed = {}
    for path in folder.glob(f"*{COMPLETED}"):
        if path.name.endswith(EVALUATED):
            evaluated[path.name.removesuffix(EVALUATED)] = path
        else:
            completed[path.name.removesuffix(COMPLETED)] = path
    if elsewhere and not (evaluated or completed):
        raise UserError(
            f"{folder} has no file *{COMPLETED}; give a folder of completions"
        )
    if elsewhere:
        return {**evaluated, **completed}.values()
    if again and evaluated and not completed:
        raise UserError(
            f"{folder} has evaluated files alone; evaluation.output=DIR evaluates them again "
            "into DIR"
        )
    if again:
        return completed.values()
    return [completed[name] for name in completed.keys() - evaluated.keys()]


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
