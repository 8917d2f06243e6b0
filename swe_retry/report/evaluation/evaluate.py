"""Evaluate the predictions of a run as the settings say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say, quantity, some
from swe_retry.environments.docker.engine import engine_answers
from swe_retry.instances.adapters.own import name_no_image, refuse_docker
from swe_retry.instances.dataset import Dataset, load_dataset
from swe_retry.instances.split import split_row
from swe_retry.record.description import Run
from swe_retry.record.manifest import timestamp
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluationRoot,
    EvaluatorKind,
)
from swe_retry.report.evaluation.evaluator import EvaluationTask, Evaluator
from swe_retry.report.statistics.denominators import DatasetSplit, split_of
from swe_retry.repositories.names import BUNDLED
from swe_retry.results.predictions import Prediction, run_id
from swe_retry.results.rundata import RunData, rounds
from swe_retry.results.verdicts import (
    MANUAL_TOOLS,
    OFFICIAL_TOOLS,
    Verdict,
    VerdictStatus,
    forget_others,
    known_verdict,
    presumed_verdict,
    save_verdict,
)


@dataclass(frozen=True)
class Evaluated:
    """The verdict on each of a run's predictions, by instance id.

    Attributes:
        failed: ids of the instances whose evaluation failed, even if an older verdict stands.
    """

    verdicts: Mapping[str, Verdict]
    failed: Sequence[str] = ()


@dataclass(frozen=True)
class RunEvaluation:
    """The evaluation of a run with the evaluator, on the dataset, that settings and run name."""

    store: RunStore
    settings: EvaluationRoot
    described: Run
    say: Say

    @cached_property
    def kind(self) -> str:
        """The chosen evaluator; else docker or local."""
        chosen = self.settings.evaluation.evaluator
        if chosen == EvaluatorKind.DOCKER and self._has_no_image:
            raise refuse_docker("--evaluator", self.dataset_name)
        if chosen is not None:
            return chosen
        if self.described.is_own:
            return EvaluatorKind.NONE
        if not self._has_no_image and engine_answers():
            return EvaluatorKind.DOCKER
        return EvaluatorKind.LOCAL

    @property
    def _has_no_image(self) -> bool:
        """Whether no row has an image; those of one's own repositories lie in a file."""
        if not self._is_local:
            return False
        return name_no_image(split_row(row)[0] for row in self.dataset.rows)

    @property
    def _is_local(self) -> bool:
        name = self.dataset_name
        return bool(name) and (name in BUNDLED or Path(name).expanduser().exists())

    @property
    def dataset_name(self) -> str:
        chosen = self.settings.evaluation.dataset
        return chosen or self.described.dataset.name or ""

    @property
    def split_name(self) -> str:
        chosen = self.settings.evaluation.split
        return chosen or self.described.dataset.split or "test"

    @cached_property
    def dataset(self) -> Dataset:
        recorded = self.described.dataset
        name = self.dataset_name or "lite"
        if recorded.revision and not self.settings.evaluation.dataset:
            name = f"{name}@{recorded.revision}"
        return load_dataset(name, self.split_name, recorded.config or "")

    def official_ids(self) -> Mapping[str, str]:
        if not self.described.dataset.neutral_ids:
            return {}
        return self.dataset.official_ids

    def dataset_at_hand(self) -> Dataset | None:
        """Return the dataset if it is local or needed: statistics do not depend on it."""
        if self._is_local or self.kind != EvaluatorKind.NONE:
            return self.dataset
        return None

    def split_with(self, rows: int) -> DatasetSplit:
        name = self.dataset_name
        if rows:
            name = self.dataset.name
        return split_of(name, self.split_name, rows)

    @cached_property
    def evaluator(self) -> Evaluator:
        kind = self.kind
        folder = self.store.logs / "evaluation"
        if kind in OFFICIAL_TOOLS or kind in MANUAL_TOOLS:
            folder /= kind
        return _evaluator_class(kind)(
            name=str(kind),
            folder=folder,
            settings=self.settings,
            dataset=self.dataset_name,
            split=self.split_name,
            say=self.say,
        )

    def evaluate_others(self, run: RunData) -> int:
        """Evaluate the other attempts' patches, and return how many were not evaluated."""
        every = rounds(run)
        patches = list(chain.from_iterable(every))
        forget_others(self.store, patches)
        self.say(f"attempts that are not predicted: {_patches(len(patches))}")
        lacking = 0
        for predictions in every:
            for verdict in self.evaluate(predictions).verdicts.values():
                lacking += not verdict.conclusive
        self.say(f"attempts that are not predicted, not evaluated: {_patches(lacking)}")
        return lacking

    def evaluate(self, predictions: Sequence[Prediction]) -> Evaluated:
        """Evaluate the predictions whose verdict the evaluator does not accept."""
        verdicts = {}
        todo = {}
        for prediction in predictions:
            name = prediction.instance_id
            saved = known_verdict(self.store, prediction)
            verdicts[name] = saved or presumed_verdict(prediction)
            if not (self.kind == EvaluatorKind.NONE or self.evaluator.accepts(saved)):
                todo[name] = prediction
        if not todo:
            return Evaluated(verdicts)
        tasks = self._tasks(predictions)
        failed = []
        for verdict in self._new_verdicts(todo, tasks):
            name = verdict.instance_id
            older = verdicts[name]
            if not verdict.conclusive:
                failed.append(name)
                if older.conclusive:
                    self.say(f"{name}: the verdict of {older.evaluator} stands")
                    continue
            hidden = tasks[name].evaluation if name in tasks else None
            save_verdict(self.store, todo[name], verdict, hidden)
            verdicts[name] = verdict
        return Evaluated(verdicts, failed)

    def _tasks(self, predictions: Sequence[Prediction]) -> dict[str, EvaluationTask]:
        """Return the tasks of the predictions whose instance the dataset has."""
        rows = self.dataset.by_any_id
        tasks = {}
        missing = []
        for prediction in predictions:
            name = prediction.instance_id
            if name not in rows:
                missing.append(name)
                continue
            instance, hidden = split_row(rows[name])
            instance = replace(instance, instance_id=name)
            tasks[name] = EvaluationTask(prediction, instance, hidden)
        if missing:
            problem = f"not in the dataset {self.dataset.name}: {some(missing, 5)}"
            if not tasks:
                raise UserError(f"{problem}; check --dataset")
            self.say(f"{quantity(len(missing), 'instance')}: {problem}")
        return tasks

    def _new_verdicts(
        self, todo: Mapping[str, Prediction], tasks: Mapping[str, EvaluationTask]
    ) -> Iterator[Verdict]:
        evaluator = self.evaluator
        ready = []
        for name, prediction in todo.items():
            if not prediction.patch.strip():
                yield presumed_verdict(prediction)
            elif name in tasks:
                ready.append(tasks[name])
            else:
                yield Verdict(
                    instance_id=name,
                    status=VerdictStatus.NOT_EVALUATED,
                    evaluator=evaluator.name,
                    reason=f"not in the dataset {self.dataset.name}",
                )
        if not ready:
            return
        self.say(f"evaluating {len(ready)} predictions ({evaluator.name})")
        for batch in evaluator.batches(ready):
            reasons = evaluator.prepare(batch)
            for name, reason in reasons.items():
                verdict = tasks[name].no_result(reason)
                yield verdict.but(evaluator=evaluator.name)
            batch = [task for task in batch if task.instance_id not in reasons]
            if batch:
                id = run_id(self.store, [task.prediction for task in batch])
                for verdict in evaluator.evaluate(batch, id):
                    grader = "" if verdict.tool else version("swebench")
                    yield verdict.but(
                        evaluator=evaluator.name,
                        evaluated=timestamp(),
                        swebench=grader,
                    )


def _evaluator_class(kind: str) -> type[Evaluator]:
    # Each is imported alone: what runs containers or tests takes long to import.
    if kind == EvaluatorKind.DOCKER:
        from swe_retry.report.evaluation.swebench import DockerEvaluator

        return DockerEvaluator
    if kind == EvaluatorKind.LOCAL:
        from swe_retry.report.evaluation.local import LocalEvaluator

        return LocalEvaluator
    if kind in MANUAL_TOOLS:
        from swe_retry.report.evaluation.manual import ManualEvaluator

        return ManualEvaluator
    from swe_retry.report.evaluation.official import PROGRAMS

    return PROGRAMS[kind]


def _patches(count: int) -> str:
    return quantity(count, "patch", "patches")
