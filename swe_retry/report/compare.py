"""``report.py compare RUN RUN…``: runs side by side and in pairs, as text, JSON and a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from swe_retry.core.plaintext import Say
from swe_retry.core.redaction import Redactor
from swe_retry.record.store import RunStore
from swe_retry.report.combine.combine import labels
from swe_retry.report.evaluation.evaluate import RunEvaluation
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluationRoot,
    EvaluationSettings,
    EvaluatorKind,
)
from swe_retry.report.pages.tables import Compared, comparison_table, run_tables
from swe_retry.report.pages.write import write_comparison
from swe_retry.report.report import read_statistics
from swe_retry.report.statistics.comparing import RunComparison, compare
from swe_retry.report.statsfile import comparison_json, stats_json


def compare_command(
    stores: Sequence[RunStore],
    say: Say,
    show: Say,
    *,
    as_json: bool,
) -> int:
    """Show the runs as they are and each pair of them, and write a page; evaluate nothing."""
    runs = []
    for store, label in zip(stores, labels(stores), strict=True):
        runs.append(_read_compared(store, label, say))
    pairs = []
    for a, b in combinations(runs, 2):
        pairs.append(compare(a.run, b.run))
    if as_json:
        content = {
            "runs": [stats_json(compared.stats) for compared in runs],
            "comparisons": list(map(comparison_json, pairs)),
        }
        show(json.dumps(content, indent=1))
    else:
        for line in _tables(runs, pairs):
            show(line)
    redact = Redactor.of_environment()
    page = write_comparison(stores[0].out, runs, pairs, redact)
    say(f"page           {page}")
    return 0


def _read_compared(store: RunStore, label: str, say: Say) -> Compared:
    settings = EvaluationRoot(
        evaluation=EvaluationSettings(evaluator=EvaluatorKind.NONE)
    )
    described = store.read_run()
    run_evaluation = RunEvaluation(store, settings, described, say)
    run, stats = read_statistics(run_evaluation)
    return Compared(replace(run, name=label), stats)


def _tables(runs: Sequence[Compared], pairs: Sequence[RunComparison]) -> Iterator[str]:
    for compared in runs:
        yield f"## {compared.run.name}\n"
        yield from run_tables(compared.stats)
        yield ""
    for pair in pairs:
        yield f"## {pair.a} and {pair.b}\n"
        yield from comparison_table(pair)
        yield ""
