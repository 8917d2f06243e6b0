"""Have the predictions of a run judged, by the evaluator that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent.errors import UserError
from bench.checkout import Snapshots
from bench.dataset import Dataset, load_dataset
from bench.environments.engine import engine_answers
from bench.environments.local import LocalEnvironment
from bench.instances import Evaluation, split_row
from bench.mirrors import Mirrors
from bench.store import RunStore
from demo.images import build_images
from demo.setup import DEMO_DATASET, build_mirrors
from reports.evaluators.base import Evaluator, Job, Verdict, VerdictStatus
from reports.evaluators.docker import DockerEvaluator
from reports.evaluators.local import LocalEvaluator
from reports.options import EvaluatorKind, ReportOptions, Say
from reports.predictions import Prediction, run_id
from reports.statistics.denominators import Split, split_of
from reports.verdicts import known_verdict, save_verdict


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
        """Who judges: as asked, else docker when an engine answers, else local."""
        if self.options.evaluator is not None:
            return self.options.evaluator
        return EvaluatorKind.DOCKER if engine_answers() else EvaluatorKind.LOCAL

    def verdicts(self, predictions: Sequence[Prediction]) -> dict[str, Verdict]:
        """Return a verdict for each prediction by instance id, and save what is new.

        Raises:
            UserError, InfrastructureError: nothing can be evaluated.
        """
        verdicts = {p.instance_id: _without_evaluation(self.store, p) for p in predictions}
        if self.kind is EvaluatorKind.NONE:
            return verdicts
        jobs, evaluations = self._jobs(predictions)
        if self.kind is EvaluatorKind.LOCAL:
            jobs = self._without_official(jobs, verdicts)
        if jobs:
            self.say(f"evaluating {len(jobs)} predictions ({self.kind.value})")
            evaluator = self._evaluator()
            verdicts.update(evaluator.evaluate(jobs, run_id(self.store, predictions)))
        for prediction in predictions:
            name = prediction.instance_id
            save_verdict(self.store, prediction, verdicts[name], evaluations.get(name))
        return verdicts

    def _without_official(
        self, jobs: Sequence[Job], verdicts: Mapping[str, Verdict]
    ) -> Sequence[Job]:
        left = [job for job in jobs if not verdicts[job.instance.instance_id].official]
        if len(left) < len(jobs):
            self.say(f"{len(jobs) - len(left)} official verdicts on these patches are kept")
        return left

    def _jobs(
        self, predictions: Sequence[Prediction]
    ) -> tuple[Sequence[Job], dict[str, Evaluation]]:
        """Return what is to be evaluated: every prediction with a patch."""
        rows = {row["instance_id"]: row for row in self.dataset.rows}
        if missing := [p.instance_id for p in predictions if p.instance_id not in rows]:
            raise UserError(
                f"not in the dataset {self.dataset.name}: {', '.join(missing[:5])}; check --dataset"
            )
        halves = {p.instance_id: split_row(rows[p.instance_id]) for p in predictions}
        jobs = [Job(p, *halves[p.instance_id]) for p in predictions if p.patch.strip()]
        return jobs, {name: evaluation for name, (_, evaluation) in halves.items()}

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset that the run was made on.

        Raises:
            UserError, InfrastructureError: it cannot be had.
        """
        return load_dataset(self._dataset_name or "lite", self._split_name, DEMO_DATASET)

    def dataset_at_hand(self) -> Dataset | None:
        """Return the dataset where it needs no network: statistics are made without it, too."""
        name = self._dataset_name
        local = name == "demo" or (name and Path(name).expanduser().exists())
        return self.dataset if local or self.kind is not EvaluatorKind.NONE else None

    def split(self) -> Split:
        """Return the split that scores may be a share of."""
        dataset = self.dataset_at_hand()
        name = dataset.name if dataset else self._dataset_name
        return split_of(name, self._split_name, len(dataset.rows) if dataset else 0)

    @property
    def _recorded(self) -> Mapping[str, Any]:
        return self.described.get("dataset") or {}

    @property
    def _dataset_name(self) -> str:
        return str(self.options.dataset or self._recorded.get("name") or "")

    @property
    def _split_name(self) -> str:
        return str(self.options.split or self._recorded.get("split") or "test")

    def _evaluator(self) -> Evaluator:
        demo, options = self._dataset_name == "demo", self.options
        if self.kind is EvaluatorKind.DOCKER:
            if not engine_answers():
                raise UserError("no Docker engine answers: start one, or use --evaluator local")
            return DockerEvaluator(
                folder=self.store.logs / "evaluation",
                workers=options.workers,
                timeout=options.timeout,
                split=options.split or "test",
                prepare=build_images if demo else lambda ids: None,
            )
        if demo:
            mirrors = Mirrors(build_mirrors(options.cache / "demo-mirrors"))
        else:
            mirrors = Mirrors(options.repos or options.cache / "mirrors")
        environment = LocalEnvironment(options.cache / "environments", self.say)
        snapshots = Snapshots(options.cache / "snapshots")
        return LocalEvaluator(
            environment, mirrors, snapshots, options.cache / "work", options.timeout
        )


def _without_evaluation(store: RunStore, prediction: Prediction) -> Verdict:
    """Return what is known of a prediction before anything is evaluated."""
    known = known_verdict(store, prediction)
    if known:
        return known
    empty = not prediction.patch.strip()
    status = VerdictStatus.EMPTY if empty else VerdictStatus.NOT_EVALUATED
    return Verdict(prediction.instance_id, status, "none")
