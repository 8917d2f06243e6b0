"""Turn predictions into verdicts: keep known ones, evaluate the rest or grade its output again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version

from bench.instances.dataset import Dataset
from bench.instances.instance import split_row
from core.errors import UserError
from core.plaintext import counted
from reports.data.predictions import Prediction, run_id
from reports.evaluation.evaluators.base import EvaluationTask, Evaluator, Verdict, VerdictStatus
from reports.evaluation.verdicts import known_verdict, save_verdict
from runs.storage.manifest import timestamp
from runs.storage.store import RunStore

Regrade = Callable[[EvaluationTask, Verdict | None], Verdict | None]
"""Grades the saved output of a task with that known verdict; returns None without output."""

Batches = Callable[[Sequence[EvaluationTask]], Iterable[Sequence[EvaluationTask]]]

_NAMED = 5


@dataclass(frozen=True)
class Evaluated:
    """The verdicts on a run's predictions.

    Attributes:
        verdicts: one for each prediction, by instance id.
        failed: ids of the instances whose evaluation failed, even if an older verdict is known.
    """

    verdicts: Mapping[str, Verdict]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunEvaluation:
    """The evaluation of one run's predictions.

    Attributes:
        load: loads the dataset; called only if a row is needed.
        say: prints a line for the user.
        batches: splits tasks into parts that are evaluated one after the other.
    """

    store: RunStore
    predictions: Sequence[Prediction]
    load: Callable[[], Dataset]
    say: Callable[[str], None]
    batches: Batches = lambda tasks: (tasks,)

    def evaluate(self, evaluator: Evaluator) -> Evaluated:
        """Evaluate the predictions whose verdict ``evaluator`` does not accept; save new verdicts.

        Raises:
            UserError, InfrastructureError: nothing can be evaluated, or the dataset is unavailable.
        """
        todo = [p for p in self.predictions if not evaluator.accepts(self._known[p.instance_id])]
        self._say_kept(todo)
        given = [self._saved(verdict) for verdict in self._given(todo, evaluator)]
        # An older verdict stands if the evaluation fails this time.
        failed = tuple(v.instance_id for v in given if not v.conclusive)
        for name in failed:
            known = self._known[name]
            if known is not None and known.conclusive:
                self.say(f"{name}: the verdict of {known.evaluator} stands")
        return Evaluated(self._merged(given), failed)

    def regrade(self, regrade: Regrade) -> Evaluated:
        """Grade the saved test output of these patches again, without running tests.

        Raises:
            UserError, InfrastructureError: the dataset is unavailable.
        """
        tasks, _ = self._tasks(self.predictions)
        patched = [task for task in tasks if task.prediction.patch.strip()]
        given = []
        for task in patched:
            verdict = regrade(task, self._known[task.instance.instance_id])
            if verdict is not None:
                given.append(self._saved(_stamped(verdict)))
        self.say(f"graded {len(given)} again; {len(patched) - len(given)} left no test output")
        for verdict in given:
            before = self._known[verdict.instance_id]
            if before is not None and before.status is not verdict.status:
                self.say(f"{verdict.instance_id}: was {before.status.value}")
        return Evaluated(self._merged(given))

    @cached_property
    def _known(self) -> Mapping[str, Verdict | None]:
        return {p.instance_id: known_verdict(self.store, p) for p in self.predictions}

    def _say_kept(self, todo: Sequence[Prediction]) -> None:
        left = {prediction.instance_id for prediction in todo}
        kept = [v for name, v in self._known.items() if v is not None and name not in left]
        official = sum(verdict.official for verdict in kept)
        if todo and kept:
            self.say(
                f"kept: {counted(len(kept), 'verdict')} on unchanged patches, {official} official"
            )

    def _given(self, todo: Sequence[Prediction], evaluator: Evaluator) -> Iterator[Verdict]:
        if not todo:
            return
        tasks, unknown = self._tasks(todo)
        for prediction in todo:
            if not prediction.patch.strip():
                yield _presumed(prediction)
        for name, reason in unknown.items():
            yield Verdict(name, VerdictStatus.NOT_EVALUATED, evaluator.name, reason)
        tasks = [task for task in tasks if task.prediction.patch.strip()]
        if not tasks:
            return
        self.say(f"evaluating {len(tasks)} predictions ({evaluator.name})")
        for part in self.batches(tasks):
            yield from self._of_part(part, evaluator)

    def _of_part(self, tasks: Sequence[EvaluationTask], evaluator: Evaluator) -> Iterator[Verdict]:
        missing = evaluator.prepare(tasks)
        for name, reason in missing.items():
            yield Verdict(name, VerdictStatus.NOT_EVALUATED, evaluator.name, reason)
        ready = [task for task in tasks if task.instance.instance_id not in missing]
        if ready:
            name = run_id(self.store, [task.prediction for task in ready])
            yield from map(_stamped, evaluator.evaluate(ready, name))

    def _tasks(
        self, predictions: Sequence[Prediction]
    ) -> tuple[list[EvaluationTask], dict[str, str]]:
        """Return the tasks, and by id the reason why a prediction with a patch has none.

        Raises:
            UserError: no instance of the run is in the dataset.
        """
        rows, dataset = self._rows, self.load()
        missing = [p.instance_id for p in self.predictions if p.instance_id not in rows]
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            words = f"not in the dataset {dataset.name}: {', '.join(missing[:_NAMED])}{more}"
            if len(missing) == len(self.predictions):
                raise UserError(f"{words}; check --dataset")
            self.say(f"{counted(len(missing), 'instance')}: {words}")
        tasks = [_task(p, rows[p.instance_id]) for p in predictions if p.instance_id in rows]
        reason = f"not in the dataset {dataset.name}"
        patched = (p.instance_id for p in predictions if p.patch.strip())
        return tasks, {name: reason for name in patched if name not in rows}

    @property
    def _rows(self) -> Mapping[str, Mapping[str, object]]:
        return self.load().by_any_id

    def _saved(self, verdict: Verdict) -> Verdict:
        """Save ``verdict``, unless only the known one is conclusive; return it."""
        known = self._known[verdict.instance_id]
        if verdict.conclusive or known is None or not known.conclusive:
            prediction = next(p for p in self.predictions if p.instance_id == verdict.instance_id)
            row = self._rows.get(verdict.instance_id)
            evaluation = split_row(row)[1] if row is not None else None
            save_verdict(self.store, prediction, verdict, evaluation)
        return verdict

    def _merged(self, given: Sequence[Verdict]) -> dict[str, Verdict]:
        merged = {
            p.instance_id: self._known[p.instance_id] or _presumed(p) for p in self.predictions
        }
        for verdict in given:
            if verdict.conclusive or not merged[verdict.instance_id].conclusive:
                merged[verdict.instance_id] = verdict
        return merged


def _task(prediction: Prediction, row: Mapping[str, object]) -> EvaluationTask:
    """Return a task under the id of the prediction, which may be the set's own."""
    instance, evaluation = split_row(row)
    return EvaluationTask(
        prediction, replace(instance, instance_id=prediction.instance_id), evaluation
    )


def _presumed(prediction: Prediction) -> Verdict:
    """Return the verdict on a prediction that was not evaluated."""
    empty = not prediction.patch.strip() and prediction.patch_known
    status = VerdictStatus.EMPTY if empty else VerdictStatus.NOT_EVALUATED
    why = "" if prediction.patch_known else "its files hold no patch"
    return Verdict(prediction.instance_id, status, "none", why)


def _stamped(verdict: Verdict) -> Verdict:
    grader = "" if verdict.tool else version("swebench")
    return replace(verdict, evaluated=timestamp(), swebench=grader)
