"""Evaluate the predictions of a run as the options of ``report.py`` ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.instances.bundled import BUNDLED
from bench.instances.dataset import Dataset, load_dataset
from core.plaintext import counted
from environments.docker.engine import connect
from reports.cli.options import EvaluatorKind, ReportOptions, Say
from reports.data.otherpatches import rounds
from reports.data.predictions import Prediction
from reports.data.rundata import RunData
from reports.evaluation.evaluators.base import EvaluationTask, Evaluator
from reports.evaluation.evaluators.choice import make_evaluator, make_images, make_swebench
from reports.evaluation.imagebatches import image_batches
from reports.evaluation.regrading import Regrading
from reports.evaluation.run_evaluation import Evaluated, RunEvaluation
from reports.evaluation.verdicts import forget_others
from reports.statistics.denominators import DatasetSplit, split_of
from runs.storage.store import RunStore

if TYPE_CHECKING:
    from environments.docker.imagestore.store import ImageStore

# A process of swebench takes seconds to start, and all its images stay until it ends.
_IMAGES_PER_WORKER = 2
# They use no images of the rows, or fetch them themselves, or elsewhere.
_WITHOUT_IMAGES = (*(set(EvaluatorKind) - {EvaluatorKind.DOCKER}), "smith", "sb-cli")


@dataclass(frozen=True)
class RequestedEvaluation:
    """Evaluates the predictions of one run.

    Attributes:
        described: the run's ``run.json``; empty if there is none.
    """

    store: RunStore
    options: ReportOptions
    described: Mapping[str, Any]
    say: Say

    @property
    def kind(self) -> str:
        """The evaluator asked for; none if files are only read; else docker or local."""
        if self.options.evaluator is not None:
            return self.options.evaluator
        if self.options.only_reads:
            return EvaluatorKind.NONE
        from environments.docker.engine import engine_answers

        return EvaluatorKind.DOCKER if engine_answers() else EvaluatorKind.LOCAL

    def evaluate(self, predictions: Sequence[Prediction]) -> Evaluated:
        """Return a verdict for each prediction, and save new ones.

        Raises:
            UserError, InfrastructureError: nothing can be evaluated.
        """
        work = RunEvaluation(self.store, predictions, lambda: self.dataset, self.say, self._batches)
        if self.options.regrade:
            return work.regrade(Regrading(self.store, make_swebench(self.store, self.options)))
        return work.evaluate(self._evaluator)

    @cached_property
    def _evaluator(self) -> Evaluator:
        options = replace(self.options, split=self._split_name)
        return make_evaluator(self.kind, self.store, options, self.say, self._dataset_name)

    def _batches(self, tasks: Sequence[EvaluationTask]) -> Iterable[Sequence[EvaluationTask]]:
        """Return the parts in which tasks are evaluated: all at once, unless images lack room."""
        store = self.limited_images
        most = self.options.workers * _IMAGES_PER_WORKER
        return image_batches(store, tasks, most) if store else (tasks,)

    @cached_property
    def limited_images(self) -> ImageStore | None:
        """The images of the engine, where they have limited room; no registry has bundled ones."""
        limited = self.options.images.image_disk is not None
        if not limited or self.kind in _WITHOUT_IMAGES or self._dataset_name in BUNDLED:
            return None
        client = connect()
        return make_images(client, self.options, self.say) if client else None

    def evaluate_others(self, run: RunData) -> int:
        """Evaluate the patches of attempts that are not predicted; save new verdicts.

        Returns:
            How many of these patches have no verdict.

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
            verdicts = self.evaluate(predictions).verdicts
            lacking += sum(not verdict.conclusive for verdict in verdicts.values())
        self.say(f"attempts that are not predicted, not evaluated: {_patches(lacking)}")
        return lacking

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset of the run.

        Raises:
            UserError, InfrastructureError: it cannot be loaded.
        """
        name = self._dataset_name or "lite"
        revision = "" if self.options.dataset else str(self._recorded.get("revision") or "")
        asked = f"{name}@{revision}" if revision else name
        return load_dataset(asked, self._split_name, str(self._recorded.get("config") or ""))

    def official_ids(self) -> Mapping[str, str]:
        """Return the set's own ids by those of the run, where they differ.

        Raises:
            UserError, InfrastructureError: they differ, and the dataset cannot be loaded.
        """
        return self.dataset.official_ids if self._recorded.get("neutral_ids") else {}

    def dataset_at_hand(self) -> Dataset | None:
        """Return the dataset if it is local or needed: statistics do not depend on it."""
        name = self._dataset_name
        local = name in BUNDLED or (name and Path(name).expanduser().exists())
        return self.dataset if local or self.kind != EvaluatorKind.NONE else None

    def split(self) -> DatasetSplit:
        """Return the split of the dataset, for scores as a share of it."""
        dataset = self.dataset_at_hand()
        return self.split_with(len(dataset.rows) if dataset else 0)

    def split_with(self, rows: int) -> DatasetSplit:
        """Return the split, with its size if ``rows`` of it are loaded."""
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
