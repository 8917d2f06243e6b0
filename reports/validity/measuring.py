"""Evaluate the gold and the empty patch of an instance again and again."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from bench.instances.instance import split_row
from core.atomic import write_text_atomic
from core.errors import InfrastructureError, UserError
from reports.data.predictions import Prediction
from reports.evaluation.evaluators.base import EvaluationTask, Evaluator
from reports.validity.file import InstanceTrials
from reports.validity.trials import PatchKind, Trial, trial_of
from runs.storage.manifest import timestamp
from runs.storage.store import RunStore

# swebench evaluates no empty patch, so this adds a file that nothing reads.
EMPTY_PATCH = """\
diff --git a/.swe-retry-harness-empty b/.swe-retry-harness-empty
new file mode 100644
--- /dev/null
+++ b/.swe-retry-harness-empty
@@ -0,0 +1 @@
+This patch changes nothing that a test reads.
"""

Keep = Callable[[str, InstanceTrials, PatchKind], None]


@dataclass(frozen=True)
class Measurement:
    """Measures instances, in any number of threads.

    Attributes:
        out: the folder with the validity file; logs go below ``logs/NAME`` there.
        name: of the validity file, without its suffix.
        repeat: how often each patch is evaluated.
        versions: of the programs that evaluate.
        make: makes an evaluator that keeps its files in a store; each instance has its own, because
            evaluations at the same time must not share a folder.
        keep: takes the trials of an instance after each new one, and of which patch that was.
        stop: once it is set, no further trial is made.
        running: the ids of the evaluations that go on.
    """

    out: Path
    name: str
    repeat: int
    versions: Mapping[str, str]
    make: Callable[[RunStore], Evaluator]
    keep: Keep
    stop: Event = field(default_factory=Event)
    running: set[str] = field(default_factory=set)

    def todo(self, known: InstanceTrials) -> Iterator[tuple[PatchKind, int]]:
        """Yield the trials that are left of an instance: the patch, and which trial of it."""
        kept = self.usable(known)
        for number in range(1, self.repeat + 1):
            for kind in PatchKind:
                if number > len(kept.of(kind)):
                    yield kind, number

    def usable(self, known: InstanceTrials) -> InstanceTrials:
        """Return what can be continued: trials of one instance are made by the same versions."""
        whole = min(len(known.gold), len(known.empty)) >= self.repeat
        same = known.versions == self.versions
        kept = known if whole or same else InstanceTrials()
        return replace(kept, versions=known.versions if whole else self.versions)

    def measure(self, row: Mapping[str, object], known: InstanceTrials) -> None:
        """Make the trials that are left of the instance in a row of the dataset.

        Raises:
            UserError, InfrastructureError: one could not be made; ``keep`` got those before.
        """
        instance, evaluation = split_row(row)
        name, known = instance.instance_id, self.usable(known)
        patches = {PatchKind.GOLD: evaluation.patch, PatchKind.EMPTY: EMPTY_PATCH}
        if not evaluation.patch.strip():
            raise UserError("the row has no gold patch")
        tasks = {
            kind: EvaluationTask(_prediction(name, kind, patch), instance, evaluation)
            for kind, patch in patches.items()
        }
        store = RunStore(self.out, f"{self.name}/{name}")
        evaluator = self.make(store)
        if reason := evaluator.prepare([*tasks.values()]).get(name):
            raise InfrastructureError(reason)
        for kind, number in self.todo(known):
            if self.stop.is_set():
                return
            image, trial = self._trial(store, evaluator, tasks[kind], number)
            known = replace(known.added(kind, trial, self.repeat), image=image)
            self.keep(name, known, kind)

    def _trial(
        self, store: RunStore, evaluator: Evaluator, task: EvaluationTask, number: int
    ) -> tuple[str, Trial]:
        """Evaluate a patch once; return the image, if there was one, and the trial."""
        kind = task.prediction.model_name_or_path
        start = time.monotonic()
        # swebench reuses results of a run id, also those of a killed command.
        run_id = f"{kind}.{number}-{secrets.token_hex(6)}"
        self.running.add(run_id)
        verdicts = list(evaluator.evaluate([task], run_id))
        self.running.discard(run_id)
        seconds = time.monotonic() - start
        if not verdicts or not verdicts[0].conclusive:
            reason = verdicts[0].reason if verdicts else ""
            raise InfrastructureError(reason or f"{evaluator.name} gave no verdict")
        if verdicts[0].log:
            write_text_atomic(store.logs / f"{kind}.{number}.eval.log", verdicts[0].log)
        return verdicts[0].image, trial_of(verdicts[0], seconds, timestamp())


def _prediction(name: str, kind: PatchKind, patch: str) -> Prediction:
    return Prediction(name, kind.value, patch, dropped=(), plausible=False)
