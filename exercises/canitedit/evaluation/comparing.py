"""Compare an evaluation with a recorded one, program by program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import UserError
from core.plaintext import counted, table
from exercises.canitedit.evaluation.programs import TIMED
from exercises.canitedit.results import (
    EVALUATED,
    EvaluatedProgram,
    ProblemFile,
    file_name,
    read_file,
)


@dataclass(frozen=True)
class ProgramPair:
    """A program in two evaluations.

    Attributes:
        problem: full name.
        number: of the first completion that is this program, from 1.
    """

    problem: str
    file: str
    number: int
    recorded: EvaluatedProgram
    found: EvaluatedProgram

    @property
    def same_verdict(self) -> bool:
        """Whether the status is the same."""
        return self.recorded.status is self.found.status

    @property
    def measured(self) -> bool:
        """Whether both know the coverage."""
        return self.recorded.coverage is not None and self.found.coverage is not None

    @property
    def same_percent(self) -> bool:
        """Whether the coverage is the same in whole per cent, or unknown in both."""
        return self.recorded.coverage == self.found.coverage

    @property
    def same_lines(self) -> bool:
        """Whether the same lines are missed."""
        return self.recorded.coverage_missing == self.found.coverage_missing


@dataclass(frozen=True)
class EvaluationComparison:
    """The distinct programs of two evaluations; ``unrecorded`` are in ours alone."""

    pairs: tuple[ProgramPair, ...]
    unrecorded: int


def recorded_evaluation(folder: Path, files: Iterable[ProblemFile]) -> dict[str, ProblemFile]:
    """Return the recorded evaluations of the same problems and instructions, by file name.

    Raises:
        UserError: there is none, or one is broken.
    """
    names = {file_name(file.problem, file.kind, evaluated=True) for file in files}
    found = {name: read_file(folder / name) for name in sorted(names) if (folder / name).exists()}
    if not found:
        raise UserError(f"--against {folder} has no file *{EVALUATED} of these problems")
    return found


def compared(
    files: Iterable[ProblemFile], recorded: Mapping[str, ProblemFile]
) -> EvaluationComparison:
    """Compare the distinct programs of each problem."""
    pairs, missing = list[ProgramPair](), 0
    seen = set[tuple[str, str]]()
    known = {
        (file.problem.full_name, result.program_no_test): result
        for file in recorded.values()
        for result in file.results
    }
    for file in files:
        for number, result in enumerate(file.results, 1):
            key = file.problem.full_name, result.program_no_test
            if key in seen:
                continue
            seen.add(key)
            if key in known:
                pairs.append(ProgramPair(key[0], file.name, number, known[key], result))
            else:
                missing += 1
    return EvaluationComparison(tuple(pairs), missing)


def comparison_lines(found: EvaluationComparison) -> Iterator[str]:
    """Yield a table of counts, and each difference."""
    timed = [pair for pair in found.pairs if pair.problem in TIMED]
    others = [pair for pair in found.pairs if pair.problem not in TIMED]
    headings = ("distinct programs", "compared", "other status", "coverage known in both",
                "other per cent", "other lines")  # fmt: skip
    rows = [_counts("all others", others), _counts("tests that compare times", timed)]
    yield from table(headings, rows, numbers=range(1, len(headings)))
    if found.unrecorded:
        yield f"{counted(found.unrecorded, 'program')} not in the recorded evaluation"
    yield from (_difference(pair) for pair in (*others, *timed) if not _same(pair))


def _counts(name: str, pairs: Sequence[ProgramPair]) -> tuple[object, ...]:
    return (
        name,
        len(pairs),
        sum(not pair.same_verdict for pair in pairs),
        sum(pair.measured for pair in pairs),
        sum(pair.measured and not pair.same_percent for pair in pairs),
        sum(pair.measured and not pair.same_lines for pair in pairs),
    )


def _same(pair: ProgramPair) -> bool:
    return pair.same_verdict and pair.same_percent and pair.same_lines


def _difference(pair: ProgramPair) -> str:
    was, now = pair.recorded, pair.found
    words = [f"{was.status.value} → {now.status.value}"] if not pair.same_verdict else []
    if not pair.same_percent:
        words.append(f"coverage {_shown(was.coverage)} → {_shown(now.coverage)}")
    if not pair.same_lines:
        words.append(f"missed {_shown(was.coverage_missing)} → {_shown(now.coverage_missing)}")
    return f"{pair.file} {pair.number}: {'; '.join(words)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
