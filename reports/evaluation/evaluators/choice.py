"""Build the evaluator that ``--evaluator`` selects."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from bench.instances.names import ALIASES, BUNDLED
from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from core.plaintext import Say
from reports.data.verdicts import MANUAL_TOOLS, OFFICIAL_TOOLS, Verdict
from reports.evaluation.evaluators.base import Evaluator, Tasks
from reports.evaluation.evaluators.swebench import Swebench
from reports.evaluation.settings import EvaluationRoot, EvaluatorKind
from runs.storage.store import RunStore

if TYPE_CHECKING:
    from reports.evaluation.evaluators.docker import ImagePreparation


def make_evaluator(
    kind: str,
    store: RunStore,
    settings: EvaluationRoot,
    say: Say,
    dataset: str,
    split: str,
) -> Evaluator:
    """Return the evaluator for the predictions in ``store``, made on this split of ``dataset``."""
    if kind in OFFICIAL_TOOLS:
        return _official(kind, store, settings, say, dataset, split)
    if kind in MANUAL_TOOLS:
        from reports.evaluation.evaluators.official.manual import (
            PROGRAMS,
            ManualEvaluator,
        )

        return ManualEvaluator(PROGRAMS[kind], store.logs / "evaluation" / kind, say)
    if kind == EvaluatorKind.NONE:
        return NoEvaluator()
    if kind == EvaluatorKind.LOCAL:
        return _local(settings, say, dataset)
    from reports.evaluation.evaluators.docker import DockerEvaluator

    swebench = Swebench(
        folder=store.logs / "evaluation",
        running=settings.folders.cache / "evaluations",
        workers=settings.evaluation.workers,
        timeout=settings.evaluation.timeout,
        split=split,
    )
    return DockerEvaluator(swebench, _images(settings, say, dataset), say)


@dataclass(frozen=True)
class NoEvaluator(Evaluator):
    """Accepts every known verdict and gives none."""

    name: str = field(default="none", init=False)

    def accepts(self, verdict: Verdict | None) -> bool:
        return True

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        return iter(())


def _official(
    name: str,
    store: RunStore,
    settings: EvaluationRoot,
    say: Say,
    dataset: str,
    split: str,
) -> Evaluator:
    from reports.evaluation.evaluators.official.programs import TOOLS
    from reports.evaluation.evaluators.official.running import OfficialEvaluator
    from reports.evaluation.evaluators.official.tool import ToolSettings

    tool_settings = ToolSettings(
        python=settings.evaluation.python or sys.executable,
        workers=settings.evaluation.workers,
        timeout=settings.evaluation.timeout,
        dataset=ALIASES.get(dataset, dataset),
        split=split,
    )
    folder = store.logs / "evaluation" / name
    images = _images(settings, say, dataset)
    return OfficialEvaluator(TOOLS[name](tool_settings), folder, images, say)


def _images(settings: EvaluationRoot, say: Say, dataset: str) -> ImagePreparation:
    from environments.choice import make_image_store
    from reports.evaluation.evaluators.docker import ImagePreparation

    images = partial(
        make_image_store,
        cache=settings.folders.cache,
        images=settings.images,
        say=say,
    )
    bundled = BUNDLED.get(dataset)
    build = bundled.build_images if bundled else lambda _: None
    return ImagePreparation(build, say, images)


def _local(settings: EvaluationRoot, say: Say, dataset: str) -> Evaluator:
    from environments.local.environment import LocalEnvironment
    from reports.evaluation.evaluators.local import LocalEvaluator
    from runs.session import Once

    cache = settings.folders.cache
    if bundled := BUNDLED.get(dataset):
        mirrors = Mirrors(bundled.build_mirrors(cache / f"{dataset}-mirrors"))
    else:
        mirrors = Mirrors(settings.folders.repos or cache / "mirrors")
    environment = LocalEnvironment(cache / "environments", Once(say))
    return LocalEvaluator(
        environment,
        mirrors,
        Snapshots(cache / "snapshots"),
        cache / "work",
        settings.evaluation.timeout,
        say,
    )
