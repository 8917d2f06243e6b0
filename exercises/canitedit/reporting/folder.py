"""Read a folder of evaluated completions, and tell what it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import DamagedFileError, UserError
from core.plaintext import counted, one_line
from exercises.canitedit.metrics import ProblemScore, score
from exercises.canitedit.problems import InstructionKind
from exercises.canitedit.published import ALL_PROBLEMS, FIRST_PAPER, expected_problems
from exercises.canitedit.results import COMPLETED, EVALUATED, Decoding, read_file

_SHOWN = 3


@dataclass(frozen=True)
class ScoredFolder:
    """The scores of one folder: those of one model.

    Attributes:
        faults: what is incomplete or mixed; empty for a complete folder.
        samplings: with what the completions were asked for; one if they are not mixed.
    """

    name: str
    path: Path
    scores: tuple[ProblemScore, ...]
    faults: tuple[str, ...]
    samplings: tuple[Decoding, ...]

    def of_kind(self, kind: InstructionKind) -> tuple[ProblemScore, ...]:
        """Return the scores for one instruction; empty if it was not asked for."""
        return tuple(score for score in self.scores if score.kind is kind)

    @property
    def problems(self) -> frozenset[str]:
        return frozenset(score.name for score in self.scores)


def model_folders_in(path: Path) -> tuple[Path, ...]:
    """Return the folders with completions in a run of several models, else ``path`` itself."""
    if any(path.glob(f"*{COMPLETED}")):
        return (path,)
    return tuple(sorted({place.parent for place in path.glob(f"*/*{COMPLETED}")})) or (path,)


def read_folder(path: Path, *, v1: bool, allow_partial: bool) -> ScoredFolder:
    """Read and score a folder; nothing in it is executed.

    Args:
        allow_partial: accept what is incomplete or mixed, and list it in ``faults``.
    """
    if not path.is_dir():
        raise UserError(f"{path} is not a folder; give one with files *{EVALUATED}")
    scores: list[ProblemScore] = []
    samplings: list[Decoding] = []
    damaged: list[DamagedFileError] = []
    for place in sorted(path.glob(f"*{EVALUATED}")):
        try:
            file = read_file(place)
            if place.name != file.name:
                fix = "rename it, or leave it out with --allow-partial"
                raise DamagedFileError(place, f"holds what belongs into {file.name}", fix)
        except DamagedFileError as error:
            damaged.append(error)
            continue
        if not v1 or file.problem.full_name in FIRST_PAPER:
            scores.append(score(file))
            samplings.append(file.sampling)
    faults = tuple(_faults(path, scores, samplings, damaged))
    if not scores:
        reason = "; ".join(faults) or f"it has no file *{EVALUATED} of these problems"
        raise UserError(f"{path}: {reason}; give a folder of evaluated completions")
    if faults and not allow_partial:
        words = "; ".join(faults)
        raise UserError(f"{path} is incomplete: {words}; --allow-partial reports it so")
    scores.sort(key=lambda one: (one.problem_id, one.name, one.kind.value))
    name = one_line(path.resolve().name) or str(path)
    distinct = {_decoding(sampling): sampling for sampling in samplings}
    return ScoredFolder(name, path, tuple(scores), faults, tuple(distinct.values()))


def _decoding(sampling: Decoding) -> tuple[object, ...]:
    model = str(sampling.script_args.get("model"))
    return sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.prompt, model


def _faults(
    path: Path,
    scores: Sequence[ProblemScore],
    samplings: Sequence[Decoding],
    damaged: Sequence[DamagedFileError],
) -> Iterator[str]:
    if damaged:
        shown = "; ".join(f"{one_line(e.path.name)} {one_line(e.words)}" for e in damaged[:_SHOWN])
        yield f"{counted(len(damaged), 'file')} cannot be used ({_more(shown, damaged)})"
    if waiting := _not_evaluated(path):
        shown = ", ".join(waiting[:_SHOWN])
        yield f"{counted(len(waiting), 'file')} not evaluated ({_more(shown, waiting)})"
    yield from _missing(scores)
    yield from _mixed("completions", Counter(score.completions for score in scores))
    for name in ("temperature", "top_p", "max_tokens", "prompt"):
        values = Counter(getattr(sampling, name) for sampling in samplings)
        yield from _mixed(f"mixed {name}", values)


def _missing(scores: Sequence[ProblemScore]) -> Iterator[str]:
    expected = expected_problems(score.name for score in scores)
    for kind in InstructionKind:
        found = {score.name for score in scores if score.kind is kind}
        if found and (missing := sorted(expected - found)):
            shown = _more(", ".join(missing[:_SHOWN]), missing)
            words = f"{len(found)} of {len(expected)} problems with {kind.value} instructions"
            yield f"{words} (no {shown})"


def _mixed(name: str, values: Counter[object]) -> Iterator[str]:
    if len(values) > 1:
        ordered = sorted(values.items(), key=lambda pair: (-pair[1], str(pair[0])))
        shown = ", ".join(f"{value} in {counted(n, 'file')}" for value, n in ordered[:_SHOWN])
        yield f"{name}: {shown}"


def _more(shown: str, every: Sequence[object]) -> str:
    return f"{shown}, …" if len(every) > _SHOWN else shown


def _not_evaluated(path: Path) -> list[str]:
    done = {place.name.removesuffix(EVALUATED) for place in path.glob(f"*{EVALUATED}")}
    every = (place.name for place in path.glob(f"*{COMPLETED}") if place.name.endswith(COMPLETED))
    names = {name.removesuffix(COMPLETED) for name in every if not name.endswith(EVALUATED)}
    return sorted(one_line(name) for name in names - done)


def describe_problems(problems: Iterable[str]) -> str:
    """Name a set of problems in a word."""
    found = frozenset(problems)
    if found == ALL_PROBLEMS:
        return "all 105"
    return "the 54 of the first paper" if found == FIRST_PAPER else counted(len(found), "problem")
