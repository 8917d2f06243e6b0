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
from core.errors import UserError
from core.plaintext import Say
from reports.cli.options import EvaluatorKind, ReportOptions
from reports.data.verdicts import MANUAL_TOOLS, OFFICIAL_TOOLS, Verdict
from reports.evaluation.evaluators.base import Evaluator, Tasks
from reports.evaluation.evaluators.swebench import Swebench
from runs.storage.store import RunStore

if TYPE_CHECKING:
    from reports.evaluation.evaluators.docker import ImagePreparation


def check_evaluator(name: str) -> None:
    known = [*(kind.value for kind in EvaluatorKind), *OFFICIAL_TOOLS, *MANUAL_TOOLS]
    if name not in known:
        raise UserError(f"--evaluator {name!r}: give one of {', '.join(known)}")


def make_evaluator(
    kind: str, store: RunStore, options: ReportOptions, say: Say, dataset: str
) -> Evaluator:
    """Return the evaluator for the predictions in ``store``, made on ``dataset``."""
    check_evaluator(kind)
    if kind in OFFICIAL_TOOLS:
        return _official(kind, store, options, say, dataset)
    if options.evaluator_python:
        raise UserError(f"--evaluator-python is not for --evaluator {kind}")
    if kind in MANUAL_TOOLS:
        from reports.evaluation.evaluators.official.manual import (
            PROGRAMS,
            ManualEvaluator,
        )

        return ManualEvaluator(PROGRAMS[kind], store.logs / "evaluation" / kind, say)
    if kind == EvaluatorKind.NONE:
        return NoEvaluator()
    if kind == EvaluatorKind.LOCAL:
        return _local(options, say, dataset)
    from reports.evaluation.evaluators.docker import DockerEvaluator

    swebench = Swebench(
        folder=store.logs / "evaluation",
        running=options.cache / "evaluations",
        workers=options.workers,
        timeout=options.timeout,
        split=options.split or "test",
    )
    return DockerEvaluator(swebench, _images(options, say, dataset), say)


@dataclass(frozen=True)
class NoEvaluator(Evaluator):
    """Accepts every known verdict and gives none."""

    name: str = field(default="none", init=False)

    def accepts(self, verdict: Verdict | None) -> bool:
        return True

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        return iter(())


def _official(
    name: str, store: RunStore, options: ReportOptions, say: Say, dataset: str
) -> Evaluator:
    from reports.evaluation.evaluators.official.programs import TOOLS
    from reports.evaluation.evaluators.official.running import OfficialEvaluator
    from reports.evaluation.evaluators.official.tool import ToolSettings

    settings = ToolSettings(
        python=options.evaluator_python or sys.executable,
        workers=options.workers,
        timeout=options.timeout,
        dataset=ALIASES.get(dataset, dataset),
        split=options.split or "test",
    )
    folder = store.logs / "evaluation" / name
    images = _images(options, say, dataset)
    return OfficialEvaluator(TOOLS[name](settings), folder, images, say)


def _images(options: ReportOptions, say: Say, dataset: str) -> ImagePreparation:
    from environments.choice import make_image_store
    from reports.evaluation.evaluators.docker import ImagePreparation

    images = partial(
        make_image_store, cache=options.cache, images=options.images.images, say=say
    )
    bundled = BUNDLED.get(dataset)
    build = bundled.build_images if bundled else lambda _: None
    return ImagePreparation(build, say, images)


def _local(options: ReportOptions, say: Say, dataset: str) -> Evaluator:
    from environments.local.environment import LocalEnvironment
    from reports.evaluation.evaluators.local import LocalEvaluator
    from runs.session import Once

    cache = options.cache
    if bundled := BUNDLED.get(dataset):
        mirrors = Mirrors(bundled.build_mirrors(cache / f"{dataset}-mirrors"))
    else:
        mirrors = Mirrors(options.repos or cache / "mirrors")
    environment = LocalEnvironment(cache / "environments", Once(say))
    return LocalEvaluator(
        environment,
        mirrors,
        Snapshots(cache / "snapshots"),
        cache / "work",
        options.timeout,
        say,
    )
