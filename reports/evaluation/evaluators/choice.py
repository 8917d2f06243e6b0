"""Build the evaluator that ``--evaluator`` selects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.instances.bundled import BUNDLED
from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from reports.cli.options import EvaluatorKind, ReportOptions, Say
from reports.evaluation.evaluators.base import Evaluator
from reports.evaluation.evaluators.modal import ModalEvaluator
from reports.evaluation.evaluators.none import NoEvaluator
from reports.evaluation.evaluators.swebench import Swebench
from runs.storage.store import RunStore

if TYPE_CHECKING:
    from environments.docker.imagestore.store import ImageStore
    from reports.evaluation.evaluators.local import LocalEvaluator


def make_evaluator(
    kind: EvaluatorKind, store: RunStore, options: ReportOptions, say: Say, dataset: str
) -> Evaluator:
    """Return the evaluator for the predictions in ``store``, made on ``dataset``."""
    bundled = BUNDLED.get(dataset)
    if kind is EvaluatorKind.NONE:
        return NoEvaluator()
    if kind is EvaluatorKind.LOCAL:
        return _local(options, say, dataset)
    swebench = make_swebench(store, options)
    if kind is EvaluatorKind.MODAL:
        return ModalEvaluator(swebench, say)
    from reports.evaluation.evaluators.docker import DockerEvaluator

    build = bundled.build_images if bundled else _build_nothing
    return DockerEvaluator(swebench, build, say, partial(make_images, options=options, say=say))


def make_images(
    client: Any,  # noqa: ANN401 - the SDK has no types
    options: ReportOptions,
    say: Say,
) -> ImageStore:
    """Return the images of the engine of ``client``, whose record runs and reports share."""
    from environments.docker.imagestore.store import make_image_store

    return make_image_store(client, options.cache, options.images, "report", say)


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


def _local(options: ReportOptions, say: Say, dataset: str) -> LocalEvaluator:
    from environments.local.environment import LocalEnvironment
    from reports.evaluation.evaluators.local import LocalEvaluator

    cache = options.cache
    if bundled := BUNDLED.get(dataset):
        mirrors = Mirrors(bundled.build_mirrors(cache / f"{dataset}-mirrors"))
    else:
        mirrors = Mirrors(options.repos or cache / "mirrors")
    environment = LocalEnvironment(cache / "environments", say)
    return LocalEvaluator(
        environment, mirrors, Snapshots(cache / "snapshots"), cache / "work", options.timeout, say
    )
