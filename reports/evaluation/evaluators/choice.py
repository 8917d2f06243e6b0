"""Build the evaluator that ``--evaluator`` selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from demo.images import build_images
from demo.setup import build_mirrors
from reports.cli.options import EvaluatorKind, ReportOptions, Say
from reports.evaluation.evaluators.base import Evaluator
from reports.evaluation.evaluators.modal import ModalEvaluator
from reports.evaluation.evaluators.none import NoEvaluator
from reports.evaluation.evaluators.swebench import Swebench
from runs.storage.store import RunStore

if TYPE_CHECKING:
    from reports.evaluation.evaluators.local import LocalEvaluator


def make_evaluator(
    kind: EvaluatorKind, store: RunStore, options: ReportOptions, say: Say, *, demo: bool
) -> Evaluator:
    """Return the evaluator for the predictions in ``store``; ``demo``: of the bundled instances."""
    if kind is EvaluatorKind.NONE:
        return NoEvaluator()
    if kind is EvaluatorKind.LOCAL:
        return _local(options, say, demo=demo)
    swebench = make_swebench(store, options)
    if kind is EvaluatorKind.MODAL:
        return ModalEvaluator(swebench, say)
    from reports.evaluation.evaluators.docker import DockerEvaluator

    return DockerEvaluator(swebench, build_images if demo else _build_nothing, say)


def make_swebench(store: RunStore, options: ReportOptions) -> Swebench:
    """Return swebench, with its logs below the run's."""
    return Swebench(
        folder=store.logs / "evaluation",
        workers=options.workers,
        timeout=options.timeout,
        split=options.split or "test",
    )


def _build_nothing(ids: Sequence[str]) -> None:
    """Leave all images to registries."""


def _local(options: ReportOptions, say: Say, *, demo: bool) -> LocalEvaluator:
    from environments.local.local import LocalEnvironment
    from reports.evaluation.evaluators.local import LocalEvaluator

    cache = options.cache
    if demo:
        mirrors = Mirrors(build_mirrors(cache / "demo-mirrors"))
    else:
        mirrors = Mirrors(options.repos or cache / "mirrors")
    environment = LocalEnvironment(cache / "environments", say)
    return LocalEvaluator(
        environment, mirrors, Snapshots(cache / "snapshots"), cache / "work", options.timeout, say
    )
