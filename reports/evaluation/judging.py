"""Have the predictions of a run judged, by the evaluator that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from bench.instances.bundled import BUNDLED
from bench.instances.dataset import Dataset, load_dataset
from core.plaintext import counted
from environments.docker.engine import engine_answers
from reports.cli.options import EvaluatorKind, ReportOptions, Say
from reports.data.otherpatches import rounds
from reports.data.predictions import Prediction
from reports.data.rundata import RunData
from reports.evaluation.evaluation import Evaluated, RunEvaluation
from reports.evaluation.evaluators.choice import make_evaluator, make_swebench
from reports.evaluation.regrading import Regrading
from reports.evaluation.verdicts import forget_others
from reports.statistics.denominators import Split, split_of
from runs.storage.store import RunStore


@dataclass(frozen=True)
class Judging:
    """Judges the predictions of one run.

    Attributes:
        described: the run's ``run.json``, empty where there is none.
    """

    store: RunStore
    options: ReportOptions
    described: Mapping[str, Any]
    say: Say

    @property
    def kind(self) -> EvaluatorKind:
        """Who judges: as asked, none where files are only read, else docker or local."""
        if self.options.evaluator is not None:
            return self.options.evaluator
        if self.options.only_reads:
            return EvaluatorKind.NONE
        return EvaluatorKind.DOCKER if engine_answers() else EvaluatorKind.LOCAL

    def judge(self, predictions: Sequence[Prediction]) -> Evaluated:
        """Return a verdict for each prediction, and save what is new.

        Raises:
            UserError, InfrastructureError: nothing can be evaluated.
        """
        work = RunEvaluation(self.store, predictions, lambda: self.dataset, self.say)
        if self.options.regrade:
            return work.regrade(Regrading(self.store, make_swebench(self.store, self.options)))
        name = self._dataset_name
        return work.evaluate(make_evaluator(self.kind, self.store, self.options, self.say, name))

    def judge_others(self, run: RunData) -> int:
        """Have the patches of attempts judged that are not predicted; save what is new.

        Returns:
            How many of them have no verdict, neither now nor from before.

        Raises:
            UserError, InfrastructureError: nothing can be evaluated.
        """
        every = rounds(run)
        forget_others(self.store, chain.from_iterable(every))
        count = sum(map(len, every))
        self.say(
            f"attempts that are not predicted: {_patches(count)}, in {counted(len(every), 'round')}"
        )
        lacking = 0
        for number, predictions in enumerate(every, 1):
            self.say(f"round {number} of {len(every)}: {_patches(len(predictions))}")
            verdicts = self.judge(predictions).verdicts
            lacking += sum(not verdict.settled for verdict in verdicts.values())
        self.say(f"attempts that are not predicted, not evaluated: {_patches(lacking)}")
        return lacking

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset that the run was made on.

        Raises:
            UserError, InfrastructureError: it cannot be had.
        """
        return load_dataset(self._dataset_name or "lite", self._split_name)

    def dataset_at_hand(self) -> Dataset | None:
        """Return the dataset where it needs no network: statistics are made without it, too."""
        name = self._dataset_name
        local = name in BUNDLED or (name and Path(name).expanduser().exists())
        return self.dataset if local or self.kind is not EvaluatorKind.NONE else None

    def split(self) -> Split:
        """Return the split that scores may be a share of."""
        dataset = self.dataset_at_hand()
        return self.split_with(len(dataset.rows) if dataset else 0)

    def split_with(self, rows: int) -> Split:
        """Return the split of which ``rows`` are at hand."""
        name = self.dataset.name if rows else self._dataset_name
        return split_of(name, self._split_name, rows)

    @property
    def _recorded(self) -> Mapping[str, Any]:
        return self.described.get("dataset") or {}

    @property
    def _dataset_name(self) -> str:
        return str(self.options.dataset or self._recorded.get("name") or "")

    @property
    def _split_name(self) -> str:
        return str(self.options.split or self._recorded.get("split") or "test")


def _patches(count: int) -> str:
    return counted(count, "patch", "patches")
