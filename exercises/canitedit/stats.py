"""Describe the data set as Table 1 of the first paper does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev

from rapidfuzz.distance import Levenshtein

from bench.cli.cli import JsonFormat
from core.errors import UserError
from core.plaintext import table
from core.settings import CommandLine, command
from exercises.canitedit.problems import (
    FIRST_PAPER,
    Problem,
    load_problems,
)
from exercises.canitedit.settings import ProblemStatsSettings
from exercises.settings import WORDS, SettingsWord, load, token_counter


@dataclass(frozen=True)
class Spread:
    """A mean and the sample deviation; 0 for one value."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the mean and deviation of at least one value."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else 0.0)

    def __str__(self) -> str:
        return f"{self.mean:.1f} ({self.deviation:.1f})"


@dataclass(frozen=True)
class DatasetStats:
    """The table of a data set; lines and tokens together are those of a problem's two programs."""

    problems: int
    lines_before: Spread
    lines_after: Spread
    lines_together: Spread
    levenshtein: Spread
    tokenizer: str
    tokens_together: Spread
    most_tokens: int
    tokens_descriptive: Spread
    tokens_lazy: Spread
    change_kinds: dict[str, int]
    topics: dict[str, int]
    with_libraries: int
    libraries: dict[str, int]


# Mean and deviation as the first paper prints them; today's rows give 361.3 (386.6).
_PAPER = {
    "problems": "54",
    "lines before": "44.7 (38.5)",
    "lines after": "53.6 (40.7)",
    "lines together": "98.3 (78.4)",
    "Levenshtein distance": "361.2 (387.1)",
    "library numpy": "6",
    "library torch": "2",
    "library pandas": "1",
    "library z3": "2",
}


def dataset_stats(
    problems: Sequence[Problem], tokenizer_path: Path | None = None
) -> DatasetStats:
    """Return the table of at least one problem; without a tokenizer words are counted."""
    tokens_of, tokenizer = token_counter(tokenizer_path, "problems.tokenizer")
    together = [
        tokens_of(problem.before) + tokens_of(problem.after) for problem in problems
    ]
    before = [len(problem.before.splitlines()) for problem in problems]
    after = [len(problem.after.splitlines()) for problem in problems]
    needed = [problem.taxonomy.libraries for problem in problems]
    return DatasetStats(
        problems=len(problems),
        lines_before=Spread.of(before),
        lines_after=Spread.of(after),
        lines_together=Spread.of(
            [sum(pair) for pair in zip(before, after, strict=True)]
        ),
        levenshtein=Spread.of(
            [Levenshtein.distance(p.before, p.after) for p in problems]
        ),
        tokenizer=tokenizer,
        tokens_together=Spread.of(together),
        most_tokens=max(together),
        tokens_descriptive=Spread.of(
            [tokens_of(p.instruction_descriptive) for p in problems]
        ),
        tokens_lazy=Spread.of([tokens_of(p.instruction_lazy) for p in problems]),
        change_kinds=_counts(
            problem.taxonomy.change_kind.value for problem in problems
        ),
        topics=_counts(problem.taxonomy.topic for problem in problems),
        with_libraries=sum(map(bool, needed)),
        libraries=_counts(library for libraries in needed for library in libraries),
    )


def _counts(values: Iterator[str]) -> dict[str, int]:
    return dict(Counter(sorted(values)).most_common())


def _rows(stats: DatasetStats) -> Iterator[tuple[str, object]]:
    yield "problems", stats.problems
    yield "lines before", stats.lines_before
    yield "lines after", stats.lines_after
    yield "lines together", stats.lines_together
    yield "Levenshtein distance", stats.levenshtein
    unit = WORDS if stats.tokenizer == WORDS else "tokens"
    yield f"{unit} together", stats.tokens_together
    yield f"most {unit} together", stats.most_tokens
    yield f"{unit}, descriptive", stats.tokens_descriptive
    yield f"{unit}, lazy", stats.tokens_lazy
    yield from stats.change_kinds.items()
    yield from ((f"topic {name}", count) for name, count in stats.topics.items())
    yield "with libraries", stats.with_libraries
    yield from ((f"library {name}", count) for name, count in stats.libraries.items())


@command(ProblemStatsSettings, ())
def main(
    line: CommandLine[ProblemStatsSettings],
    format: JsonFormat = "text",
    word: SettingsWord = None,
) -> int:
    """Print the table of the data set; means with sample deviations."""
    settings = load(line, word)
    if settings is None:
        return 0
    chosen = settings.problems
    v1 = chosen.v1
    problems = list(load_problems(chosen.source))
    if v1:
        problems = [p for p in problems if p.full_name in FIRST_PAPER]
        if len(problems) < len(FIRST_PAPER):
            raise UserError(
                f"{chosen.source} has {len(problems)} of the {len(FIRST_PAPER)} problems of "
                "problems.v1"
            )
    stats = dataset_stats(problems, chosen.tokenizer)
    if format == "json":
        print(json.dumps(asdict(stats), indent=1, ensure_ascii=False))
        return 0
    paper = [_PAPER.get(name, "") if v1 else None for name, _ in _rows(stats)]
    rows = [
        (name, value) if printed is None else (name, value, printed)
        for (name, value), printed in zip(_rows(stats), paper, strict=True)
    ]
    headings = ("", "data set", "first paper")[: 3 if v1 else 2]
    print("\n".join(table(headings, rows, numbers=(1, 2))))
    return 0
