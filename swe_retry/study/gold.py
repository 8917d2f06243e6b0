"""What ``report.py gold`` does: find out which instances this machine can judge.

The gold patch of each instance and an empty one are evaluated in rounds, as predictions are.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonMapping
from swe_retry.core.plaintext import Say, one_line, quantity
from swe_retry.instances.dataset import DatasetIdentity
from swe_retry.instances.selection import created_between
from swe_retry.instances.split import split_row
from swe_retry.instances.validity import VALIDITY_FIX, VALIDITY_SCHEMA, Validity
from swe_retry.record.description import DatasetFacts, Run
from swe_retry.record.keys import SafeKey
from swe_retry.record.manifest import timestamp
from swe_retry.record.records import Recorded
from swe_retry.record.runlock import run_lock
from swe_retry.record.store import RunStore
from swe_retry.record.versions import versions
from swe_retry.report.evaluation.evaluate import RunEvaluation
from swe_retry.report.evaluation.evaluation_settings import EvaluatorKind, GoldSettings
from swe_retry.report.evaluation.evaluator import EvaluationTask, Evaluator, Tasks
from swe_retry.report.evaluation.grading import failed_tests, failure_cause
from swe_retry.results.predictions import Prediction
from swe_retry.results.verdicts import MANUAL_TOOLS, Verdict, write_eval_log

PATCHES = ("gold", "empty")
# swebench evaluates no empty patch, so this adds a file that nothing reads.
EMPTY_PATCH = """\
diff --git a/.swe-retry-harness-empty b/.swe-retry-harness-empty
new file mode 100644
--- /dev/null
+++ b/.swe-retry-harness-empty
@@ -0,0 +1 @@
+This patch changes nothing that a test reads.
"""


class Trial(Recorded):
    """One conclusive evaluation of a patch.

    Attributes:
        failed: names of the deciding tests that did not pass, sorted; None if the evaluator
            reported no tests, as after a time limit.
        reason: of the evaluator; empty in most cases.
        evaluated: the time in UTC.
    """

    resolved: bool
    failed: tuple[str, ...] | None
    reason: str
    evaluated: str

    @classmethod
    def of(cls, verdict: Verdict) -> Trial:
        """Return what a conclusive verdict of now says."""
        return cls(
            resolved=verdict.resolved,
            failed=failed_tests(verdict),
            reason=verdict.reason,
            evaluated=timestamp(),
        )


class InstanceTrials(Recorded):
    """What is known of one instance.

    Attributes:
        state: what the trials show; see docs/evaluation.md.
        reason: why it is not valid; empty if it is valid, or not evaluated yet.
        flaky_tests: deciding tests whose result changed between trials of one patch.
        image: of the last trial, as ``NAME@DIGEST``; empty if the tests ran in none.
        versions: of the programs that made the trials.
        gold, empty: the trials of each patch.
    """

    state: Validity = Validity.NOT_EVALUATED
    reason: str = ""
    flaky_tests: tuple[str, ...] = ()
    image: str = ""
    versions: Mapping[str, str] = {}
    gold: tuple[Trial, ...] = ()
    empty: tuple[Trial, ...] = ()

    def missing(self, repeat: int) -> int:
        """Return how many trials are left until each patch has ``repeat``."""
        return max(repeat - len(self.gold), 0) + max(repeat - len(self.empty), 0)


class ValidityFile(Recorded):
    """Whether one machine and evaluator can judge the instances of a dataset.

    Attributes:
        schema_version: of this format.
        evaluator: that made the trials.
        repeat: trials of each patch that a state other than ``not_evaluated`` needs.
        started: the time in UTC.
        instances: by id; those without a trial are not evaluated.
    """

    schema_version: Literal[1]
    dataset: DatasetIdentity
    evaluator: str
    repeat: int
    started: str
    instances: dict[SafeKey, InstanceTrials]


def gold_command(settings: GoldSettings, path: Path, repeat: int, say: Say) -> int:
    """Evaluate gold and empty patches; return 1 if an instance could not be evaluated."""
    path = path.expanduser().resolve()
    store = RunStore(path.parent, path.stem)
    chosen = settings.instances
    facts = DatasetFacts(split=chosen.split, config=chosen.config)
    run_evaluation = RunEvaluation(store, settings, Run(dataset=facts), say)
    kind = run_evaluation.kind
    if kind == EvaluatorKind.NONE or kind in MANUAL_TOOLS:
        raise UserError(
            f"gold patches are evaluated: give another --evaluator than {kind}"
        )
    with run_lock(store.logs, "FILE"):
        dataset = run_evaluation.dataset
        instances = created_between(dataset.instances(), chosen.since, chosen.until)
        selected = chosen.select(instances)
        names = [instance.instance_id for instance in selected]
        content = initial_content(
            path,
            dataset.identity(),
            str(kind),
            repeat,
        )
        run = GoldRun(path, store.logs, content, run_evaluation.evaluator, say)
        run.evaluate([dataset.by_id[name] for name in names])
    trials = run.content.instances
    code = 0
    for state in Validity:
        matching = [name for name in names if trials[name].state is state]
        say(f"{state.value.replace('_', ' '):13s}  {len(matching):5d}")
        if state is Validity.VALID:
            continue
        for name in matching:
            say(f"  {name}: {one_line(trials[name].reason)}")
        if state is Validity.NOT_EVALUATED and matching:
            code = 1
    say(f"validity       {path}")
    return code


def initial_content(
    path: Path, dataset: DatasetIdentity, evaluator: str, repeat: int
) -> ValidityFile:
    """Return what the file has, judged for ``repeat``."""
    content = ValidityFile(
        schema_version=VALIDITY_SCHEMA,
        dataset=dataset,
        evaluator=evaluator,
        repeat=repeat,
        started=timestamp(),
        instances={},
    )
    earlier = ValidityFile.of_file(path, "a validity file", VALIDITY_FIX)
    if earlier is None:
        return content
    check_same(path, earlier, content)
    for name, trials in earlier.instances.items():
        content.instances[name] = judge_trials(trials, repeat)
    return content.but(started=earlier.started)


def check_same(path: Path, earlier: ValidityFile, new: ValidityFile) -> None:
    """Raise a UserError where a file is about something else than is evaluated now."""
    problem = ""
    before = earlier.dataset
    now = new.dataset
    if (before.name, before.split) != (now.name, now.split):
        problem = (
            f"is about {before.name} ({before.split}), not {now.name} ({now.split})"
        )
    elif before.sha256 != now.sha256:
        problem = f"is about other rows of {before.name}"
    elif earlier.evaluator != new.evaluator:
        problem = f"was made with --evaluator {earlier.evaluator}"
    if problem:
        raise UserError(f"{path} {problem}; give another file")


@dataclass
class GoldRun:
    """Evaluates gold and empty patches in rounds, and writes the file after each evaluation."""

    path: Path
    logs: Path
    content: ValidityFile
    evaluator: Evaluator
    say: Say
    total: int = 0
    done: int = 0

    def evaluate(self, rows: Iterable[JsonMapping]) -> None:
        """Make the trials that are left."""
        repeat = self.content.repeat
        tasks = []
        for row in rows:
            task = trial_task(row, "gold")
            name = task.instance_id
            earlier = self.content.instances.get(name, InstanceTrials())
            trials = usable_trials(earlier, versions(), repeat)
            if not task.prediction.patch.strip():
                trials = trials.but(reason="the row has no gold patch")
            elif trials.missing(repeat):
                self.total += trials.missing(repeat)
                tasks.append(task)
            self.content.instances[name] = trials
        self._write()
        count = quantity(len(self.content.instances), "instance")
        total = quantity(self.total, "evaluation")
        self.say(f"{count}, {total} to do ({self.content.evaluator})")
        # A killed command loses the evaluations of one part in one round.
        size = 2 * self.evaluator.settings.evaluation.workers
        for batch in self.evaluator.batches(tasks):
            for start in range(0, len(batch), size):
                part = batch[start : start + size]
                try:
                    self._evaluate_in_rounds(part)
                except UserError as error:
                    if not self.done:
                        raise
                    for task in part:
                        self._save_reason(task.instance_id, str(error))

    def _evaluate_in_rounds(self, tasks: Tasks) -> None:
        ready = {task.instance_id: task for task in tasks}
        for name, reason in self.evaluator.prepare(tasks).items():
            del ready[name]
            self._save_reason(name, reason)
        for number in range(1, self.content.repeat + 1):
            for kind in PATCHES:
                for verdict in self._round(ready.values(), kind, number):
                    if verdict.conclusive:
                        self._add(kind, number, verdict)
                    else:
                        del ready[verdict.instance_id]
                        self._save_reason(verdict.instance_id, verdict.reason)

    def _round(
        self, tasks: Iterable[EvaluationTask], kind: str, number: int
    ) -> Iterator[Verdict]:
        """Evaluate the patch of this kind for the tasks that lack the trial."""
        todo = []
        for task in tasks:
            trials = self.content.instances[task.instance_id]
            if number > len(getattr(trials, kind)):
                patch = task.prediction.patch if kind == "gold" else EMPTY_PATCH
                prediction = Prediction(task.instance_id, kind, patch)
                todo.append(replace(task, prediction=prediction))
        if todo:
            # swebench reuses results of a run id, also those of a killed command.
            run_id = f"{kind}.{number}-{secrets.token_hex(6)}"
            yield from self.evaluator.evaluate(todo, run_id)

    def _add(self, kind: str, number: int, verdict: Verdict) -> None:
        name = verdict.instance_id
        before = self.content.instances[name]
        changes = {kind: (*getattr(before, kind), Trial.of(verdict))}
        trials = before.but(image=verdict.image, **changes)
        self.content.instances[name] = judge_trials(trials, self.content.repeat)
        self._write()
        if verdict.log:
            log = self.logs / name / f"{kind}.{number}.eval.log"
            write_eval_log(log, verdict.log)
        self.done += 1
        result = "resolved" if verdict.resolved else "unresolved"
        self.say(
            f"[{self.done}/{self.total}] {name}: {kind} {number} of "
            f"{self.content.repeat} {result}"
        )

    def _save_reason(self, name: str, reason: str) -> None:
        """Write why an instance is not evaluated."""
        trials = self.content.instances[name]
        self.content.instances[name] = trials.but(reason=reason)
        self._write()

    def _write(self) -> None:
        write_json_atomic(self.path, self.content.as_json())


def trial_task(row: JsonMapping, kind: str) -> EvaluationTask:
    """Return the evaluation of the gold patch of a row, or of an empty one."""
    instance, hidden = split_row(row)
    patch = hidden.patch if kind == "gold" else EMPTY_PATCH
    prediction = Prediction(instance.instance_id, kind, patch)
    return EvaluationTask(prediction, instance, hidden, is_trial=True)


def usable_trials(
    trials: InstanceTrials, versions: Mapping[str, str], repeat: int
) -> InstanceTrials:
    """Return what can be continued: trials of one instance are made by the same versions."""
    if not trials.missing(repeat) or trials.versions == versions:
        return trials
    return InstanceTrials(versions=versions)


def judge_trials(trials: InstanceTrials, repeat: int) -> InstanceTrials:
    """Return ``trials`` with the state that they show where ``repeat`` of each are needed."""
    state, reason = _state_of(trials, repeat)
    flaky_tests = set()
    if state is not Validity.NOT_EVALUATED:
        flaky_tests = changing_tests(trials.gold) | changing_tests(trials.empty)
    return trials.but(
        state=state,
        reason=reason,
        flaky_tests=sorted(flaky_tests),
    )


def _state_of(trials: InstanceTrials, repeat: int) -> tuple[Validity, str]:
    """Return the state and the reason why it is not valid.

    A gold patch that is never resolved makes an instance flaky if no test failed each time, for
    then only tests that change kept it from being resolved; otherwise invalid.
    """
    gold = trials.gold
    changing = changing_tests(gold)
    resolved = sum(trial.resolved for trial in gold)
    if any(trial.resolved for trial in trials.empty):
        return Validity.INVALID, "an empty patch resolves it"
    if 0 < resolved < len(gold):
        times = f"{resolved} of {quantity(len(gold), 'time')}"
        cause = _cause(gold, changing)
        return Validity.FLAKY, f"the gold patch resolves it {times}: {cause}"
    if trials.missing(repeat):
        return Validity.NOT_EVALUATED, ""
    if resolved and (changing or changing_tests(trials.empty)):
        return Validity.FLAKY, "results of an empty patch differ"
    if resolved:
        return Validity.VALID, ""
    failed = _failed_sets(gold)
    always = set()
    if len(failed) == len(gold):
        always = failed[0].intersection(*failed)
        if changing and not always:
            problem = "the gold patch never resolves it, but no test fails each time"
            return Validity.FLAKY, f"{problem}: {_cause(gold, changing)}"
    return (
        Validity.INVALID,
        f"the gold patch does not resolve it: {_cause(gold, always)}",
    )


def changing_tests(trials: Sequence[Trial]) -> set[str]:
    """Return the tests that passed in some trials of one patch and failed in others."""
    failed = _failed_sets(trials)
    if not failed:
        return set()
    ever = failed[0].union(*failed)
    always = failed[0].intersection(*failed)
    return ever - always


def _failed_sets(trials: Sequence[Trial]) -> list[set[str]]:
    sets = []
    for trial in trials:
        if trial.failed is not None:
            sets.append(set(trial.failed))
    return sets


def _cause(trials: Sequence[Trial], tests: Iterable[str]) -> str:
    reasons = [trial.reason for trial in trials if not trial.resolved and trial.reason]
    return failure_cause(tests, "".join(reasons[:1]))


if __name__ == "__main__":
    schema = ValidityFile.model_json_schema(mode="serialization")
    print(json.dumps(schema, indent=1))
