"""Describe the data set as Table 1 of the first paper does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rapidfuzz.distance import Levenshtein

from swe_retry.kit import JsonFormat, settings_command, table
from swe_retry_exercises.canitedit.problems import Problem, load_problems
from swe_retry_exercises.canitedit.settings import ProblemStatsSettings
from swe_retry_exercises.options import SettingsWord
from swe_retry_exercises.tokens import WORDS, token_counter
from swe_retry_exercises.values import JsonObject, values_of

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
) -> JsonObject:
    """Return the table of at least one problem: numbers, and means with sample deviations.

    Without a tokenizer words are counted. Lines and tokens together are those of a problem's two
    programs.
    """
    count, tokenizer = token_counter(tokenizer_path, "problems.tokenizer")
    unit = WORDS if tokenizer == WORDS else "tokens"
    together = f"{unit} together"
    rows = []
    kinds = []
    topics = []
    libraries = []
    with_libraries = 0
    for problem in problems:
        before = len(problem.before.splitlines())
        after = len(problem.after.splitlines())
        row = {
            "lines before": before,
            "lines after": after,
            "lines together": before + after,
            "Levenshtein distance": Levenshtein.distance(problem.before, problem.after),
            together: count(problem.before) + count(problem.after),
            f"{unit}, descriptive": count(problem.instruction_descriptive),
            f"{unit}, lazy": count(problem.instruction_lazy),
        }
        rows.append(row)
        taxonomy = problem.taxonomy
        kinds.append(taxonomy.change_kind)
        topics.append(f"topic {taxonomy.topic}")
        with_libraries += bool(taxonomy.libraries)
        for name in taxonomy.libraries:
            libraries.append(f"library {name}")
    stats = {"tokenizer": tokenizer, "problems": len(problems)}
    for name in rows[0]:
        values = values_of(rows, name)
        deviation = stdev(values) if len(values) > 1 else 0.0
        stats[name] = {"mean": fmean(values), "deviation": deviation}
        if name == together:
            stats[f"most {together}"] = max(values)
    stats |= _counts(kinds)
    stats |= _counts(topics)
    stats["with libraries"] = with_libraries
    stats |= _counts(libraries)
    return stats


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(sorted(values)).most_common())


def _cell(value: Any) -> str:  # noqa: ANN401 - of any row
    if isinstance(value, dict):
        return f"{value['mean']:.1f} ({value['deviation']:.1f})"
    return str(value)


@settings_command(ProblemStatsSettings, "word")
def main(
    settings: ProblemStatsSettings,
    format: JsonFormat = "text",
    word: SettingsWord = None,
) -> int:
    """Print the table of the data set; means with sample deviations."""
    chosen = settings.problems
    problems = load_problems(chosen.source, v1=chosen.v1)
    stats = dataset_stats(problems, chosen.tokenizer)
    if format == "json":
        print(json.dumps(stats, indent=1, ensure_ascii=False))
        return 0
    del stats["tokenizer"]
    headings = ["", "data set"]
    rows = [[name, _cell(value)] for name, value in stats.items()]
    if chosen.v1:
        headings.append("first paper")
        for row in rows:
            row.append(_PAPER.get(row[0], ""))
    print("\n".join(table(headings, rows, numbers=(1, 2))))
    return 0
