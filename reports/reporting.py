"""The report on one run: predictions, verdicts, statistics, each into its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.atomic import write_json_atomic
from bench.plaintext import one_line
from bench.store import RunStore
from reports.evaluators.base import Verdict
from reports.judging import Judging
from reports.options import EvaluatorKind, ReportOptions, Say
from reports.predictions import Prediction, read_predictions, write_all_preds
from reports.results import leaderboard_lists
from reports.rundata import RunData, read_run
from reports.statistics.collect import RunStats, collect
from reports.statsfile import stats_json


@dataclass(frozen=True)
class Report:
    """What was learned of a run.

    Attributes:
        all_preds: where the predictions for the evaluator lie.
        verdicts: by instance id.
        exit_code: 1 when something was to be evaluated and was not.
    """

    run: RunData
    stats: RunStats
    all_preds: Path
    verdicts: Mapping[str, Verdict]
    exit_code: int

    def lines(self) -> Iterator[str]:
        """Yield a line for each instance: its verdict, by whom, and why there is none."""
        for instance in self.run.instances:
            verdict = self.verdicts[instance.instance_id]
            words = [verdict.status.value.replace("_", " "), f"({verdict.evaluator})"]
            words += [verdict.reason] if verdict.reason else []
            yield (
                one_line(f"{instance.instance_id:32s}").ljust(32) + f" {one_line(' '.join(words))}"
            )


def report_on(store: RunStore, options: ReportOptions, say: Say) -> Report:
    """Have a run judged; write ``all_preds.jsonl``, verdicts, ``results.json``, ``stats.json``.

    Raises:
        UserError, InfrastructureError: it cannot be read, or nothing can be evaluated.
    """
    predictions = read_predictions(store)
    path = write_all_preds(store, predictions)
    judging = Judging(store, options, store.read_run() or {}, say)
    judged = judging.judge(predictions)
    verdicts = judged.verdicts
    dataset = judging.dataset_at_hand()
    run = read_run(store, dataset.rows if dataset else ())
    stats = collect(run, judging.split())
    _write(store, predictions, verdicts, stats)
    asked = judging.kind is not EvaluatorKind.NONE
    lacking = stats.counts.not_evaluated > 0 or bool(judged.failed)
    return Report(run, stats, path, verdicts, int(asked and lacking))


def _write(
    store: RunStore,
    predictions: Sequence[Prediction],
    verdicts: Mapping[str, Verdict],
    stats: RunStats,
) -> None:
    write_json_atomic(store.folder / "results.json", leaderboard_lists(predictions, verdicts))
    write_json_atomic(store.folder / "stats.json", stats_json(stats))
