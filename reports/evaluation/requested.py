"""Evaluate the predictions of a run as the settings say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from bench.instances.dataset import Dataset, load_dataset
from bench.instances.instance import split_row
from bench.instances.names import BUNDLED
from core.errors import UserError
from core.plaintext import Say, counted, some
from environments.docker.engine import connect
from environments.docker.images import holds
from reports.data.predictions import Prediction, run_id
from reports.data.rundata import RunData, rounds
from reports.data.verdicts import (
    MANUAL_TOOLS,
    Verdict,
    forget_others,
    known_verdict,
    not_evaluated,
    presumed_verdict,
    save_verdict,
)
from reports.evaluation.evaluators.base import EvaluationTask, Evaluator, Tasks
from reports.evaluation.evaluators.choice import make_evaluator
from reports.evaluation.settings import EvaluationRoot, EvaluatorKind
from reports.statistics.denominators import DatasetSplit, split_of
from runs.description import DatasetFacts, Run
from runs.storage.manifest import timestamp
from runs.storage.store import RunStore

if TYPE_CHECKING:
    from environments.docker.imagestore import ImageStore

# Evaluators that use no images of the rows, or fetch them themselves or elsewhere.
_WITHOUT_IMAGES = (
    EvaluatorKind.LOCAL,
    EvaluatorKind.NONE,
    "sb-cli",
    *MANUAL_TOOLS,
)


@dataclass(frozen=True)
class RequestedEvaluation:
    store: RunStore
    settings: EvaluationRoot
    described: Run
    say: Say

    @property
    def kind(self) -> str:
        """The chosen evaluator; else docker or local."""
        if self.settings.evaluation.evaluator is not None:
            return self.settings.evaluation.evaluator
        # One's own repository has no hidden tests.
        if self.described.setting("project.repo"):
            return EvaluatorKind.NONE
        from environments.docker.engine import engine_answers

        return EvaluatorKind.DOCKER if engine_answers() else EvaluatorKind.LOCAL

    def evaluate(self, predictions: Sequence[Prediction]) -> Evaluated:
        work = RunEvaluation(
            self.store, predictions, lambda: self.dataset, self.say, self._batches
        )
        return work.evaluate(self._evaluator)

    @cached_property
    def _evaluator(self) -> Evaluator:
        return make_evaluator(
            self.kind,
            self.store,
            self.settings,
            self.say,
            self._dataset_name,
            self.split_name,
        )

    def _batches(self, tasks: Tasks) -> Iterable[Tasks]:
        store = self._limited_images
        # A process of swebench takes seconds to start, and all its images stay until it ends.
        most = self.settings.evaluation.workers * 2
        return image_batches(store, tasks, most) if store else (tasks,)

    @cached_property
    def _limited_images(self) -> ImageStore | None:
        """The images of the engine, where they have limited room; no registry has bundled ones."""
        limited = self.settings.images.disk is not None
        if not limited or self.kind in _WITHOUT_IMAGES or self._dataset_name in BUNDLED:
            return None
        from environments.choice import make_image_store

        client = connect()
        if client is None:
            return None
        return make_image_store(
            client, self.settings.folders.cache, self.settings.images, self.say
        )

    def evaluate_others(self, run: RunData) -> int:
        """Evaluate the other attempts' patches, and return how many were not evaluated."""
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
        name = self._dataset_name or "lite"
        revision = self._recorded.revision
        if revision and not self.settings.evaluation.dataset:
            name = f"{name}@{revision}"
        return load_dataset(name, self.split_name, self._recorded.config or "")

    def official_ids(self) -> Mapping[str, str]:
        return self.dataset.official_ids if self._recorded.neutral_ids else {}

    def dataset_at_hand(self) -> Dataset | None:
        """Return the dataset if it is local or needed: statistics do not depend on it."""
        name = self._dataset_name
        local = name in BUNDLED or (name and Path(name).expanduser().exists())
        return self.dataset if local or self.kind != EvaluatorKind.NONE else None

    def split_with(self, rows: int) -> DatasetSplit:
        name = self.dataset.name if rows else self._dataset_name
        return split_of(name, self.split_name, rows)

    @property
    def _recorded(self) -> DatasetFacts:
        return self.described.dataset

    @property
    def _dataset_name(self) -> str:
        return self.settings.evaluation.dataset or self._recorded.name or ""

    @property
    def split_name(self) -> str:
        return self.settings.evaluation.split or self._recorded.split or "test"


def _patches(count: int) -> str:
    return counted(count, "patch", "patches")


def image_batches(store: ImageStore, tasks: Tasks, most: int) -> Iterator[Tasks]:
    """Yield ``tasks`` in parts of at most ``most``, whose images stay until the next part.

    Those come first whose images are there. What cannot be pulled is yielded as well, for the
    evaluator to say why.
    """
    left = sorted(tasks, key=lambda task: (task.instance.repo, task.instance.version))
    while left:
        images = list(dict.fromkeys(task.instance.image for task in left))
        present = [image for image in images if holds(store.client, image)]
        with store.pinned_some(present or images, most) as pinned:
            part = [task for task in left if task.instance.image in pinned][:most]
            yield part
        left = [task for task in left if task not in part]


Batches = Callable[[Tasks], Iterable[Tasks]]


@dataclass(frozen=True)
class Evaluated:
    """The verdict on each of a run's predictions, by instance id."""

    verdicts: Mapping[str, Verdict]
    # Ids of the instances whose evaluation failed, even if an older verdict is known.
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunEvaluation:
    """The evaluation of one run's predictions; ``load`` is called only if a row is needed."""

    store: RunStore
    predictions: Sequence[Prediction]
    load: Callable[[], Dataset]
    say: Say
    batches: Batches = lambda tasks: (tasks,)

    def evaluate(self, evaluator: Evaluator) -> Evaluated:
        todo = [
            p
            for p in self.predictions
            if not evaluator.accepts(self._known[p.instance_id])
        ]
        left = {prediction.instance_id for prediction in todo}
        kept = [
            v for name, v in self._known.items() if v is not None and name not in left
        ]
        if todo and kept:
            saved, official = (
                counted(len(kept), "verdict"),
                sum(v.official for v in kept),
            )
            self.say(f"kept: {saved} on unchanged patches, {official} official")
        given = [self._saved(verdict) for verdict in self._given(todo, evaluator)]
        verdicts = {
            p.instance_id: self._known[p.instance_id] or presumed_verdict(p)
            for p in self.predictions
        }
        for verdict in given:
            if standing := self._standing(verdict):
                self.say(
                    f"{verdict.instance_id}: the verdict of {standing.evaluator} stands"
                )
            else:
                verdicts[verdict.instance_id] = verdict
        return Evaluated(
            verdicts, tuple(v.instance_id for v in given if not v.conclusive)
        )

    def _standing(self, verdict: Verdict) -> Verdict | None:
        """Return an older verdict that is kept because the evaluation failed this time."""
        known = self._known[verdict.instance_id]
        replaced = verdict.conclusive or known is None or not known.conclusive
        return None if replaced else known

    @cached_property
    def _known(self) -> Mapping[str, Verdict | None]:
        return {p.instance_id: known_verdict(self.store, p) for p in self.predictions}

    def _given(
        self, todo: Sequence[Prediction], evaluator: Evaluator
    ) -> Iterator[Verdict]:
        if not todo:
            return
        tasks, unknown = self._tasks(todo)
        for prediction in todo:
            if not prediction.patch.strip():
                yield presumed_verdict(prediction)
        for name, reason in unknown.items():
            yield not_evaluated(name, evaluator.name, reason)
        tasks = [task for task in tasks if task.prediction.patch.strip()]
        if not tasks:
            return
        self.say(f"evaluating {len(tasks)} predictions ({evaluator.name})")
        for part in self.batches(tasks):
            missing = evaluator.prepare(part)
            for name, reason in missing.items():
                yield not_evaluated(name, evaluator.name, reason)
            ready = [task for task in part if task.instance_id not in missing]
            if ready:
                name = run_id(self.store, [task.prediction for task in ready])
                yield from map(_stamped, evaluator.evaluate(ready, name))

    def _tasks(
        self, predictions: Sequence[Prediction]
    ) -> tuple[list[EvaluationTask], dict[str, str]]:
        dataset = self.load()
        rows = dataset.by_any_id
        missing = [p.instance_id for p in self.predictions if p.instance_id not in rows]
        if missing:
            words = f"not in the dataset {dataset.name}: {some(missing, 5)}"
            if len(missing) == len(self.predictions):
                raise UserError(f"{words}; check --dataset")
            self.say(f"{counted(len(missing), 'instance')}: {words}")
        tasks = []
        for prediction in predictions:
            row = rows.get(prediction.instance_id)
            if row is not None:
                instance, evaluation = split_row(row)
                instance = replace(instance, instance_id=prediction.instance_id)
                tasks.append(EvaluationTask(prediction, instance, evaluation))
        unknown = (
            p for p in predictions if p.patch.strip() and p.instance_id not in rows
        )
        return tasks, {
            p.instance_id: f"not in the dataset {dataset.name}" for p in unknown
        }

    def _saved(self, verdict: Verdict) -> Verdict:
        """Save ``verdict``, unless an older one stands; return it."""
        if not self._standing(verdict):
            prediction = next(
                p for p in self.predictions if p.instance_id == verdict.instance_id
            )
            row = self.load().by_any_id.get(verdict.instance_id)
            evaluation = split_row(row)[1] if row is not None else None
            save_verdict(self.store, prediction, verdict, evaluation)
        return verdict


def _stamped(verdict: Verdict) -> Verdict:
    grader = "" if verdict.tool else version("swebench")
    return verdict.but(evaluated=timestamp(), swebench=grader)
