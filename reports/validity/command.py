"""``report.py gold``: find out which instances this machine can judge."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from bench.cli.cli import EnvFileOption
from bench.instances.dataset import Dataset, DatasetIdentity
from bench.instances.instance import split_row
from bench.instances.validity import (
    VALIDITY_FIX,
    VALIDITY_SCHEMA,
    Validity,
    read_validity,
)
from bench.selection import Instances, dated
from core.atomic import check_folder, write_json_atomic, write_text_atomic
from core.errors import InfrastructureError, UserError
from core.parsing.untrusted import invalid, read_object
from core.plaintext import Say, counted, one_line
from core.settings import CommandLine, SettingFlag, SourcedValue, command
from reports.data.predictions import Prediction
from reports.data.verdicts import MANUAL_TOOLS
from reports.evaluation.evaluators.base import EvaluationTask, Evaluator
from reports.evaluation.evaluators.choice import make_evaluator
from reports.evaluation.requested import RequestedEvaluation
from reports.evaluation.settings import (
    EVALUATOR_FLAG,
    OPTIONS,
    WORKERS_FLAG,
    EvaluationRoot,
    EvaluatorKind,
)
from reports.validity.trials import PatchKind, Trial, ValidityFinding, judged, trial_of
from runs.description import DatasetFacts, Run
from runs.leftovers import kill_processes
from runs.progress.state import duration
from runs.signals import sigterm_as_interrupt
from runs.storage.manifest import timestamp
from runs.storage.store import RunStore
from runs.storage.versions import versions


@dataclass(frozen=True)
class InstanceTrials(ValidityFinding):
    """What is known of one instance.

    Attributes:
        state: what the trials show; see ``reports.validity.trials.judged``.
        reason: why it is not valid; empty if it is valid, or not evaluated yet.
        flaky_tests: deciding tests whose result changed between trials of one patch.
        seconds: the mean of all trials; None without any.
        image: of the last trial, as ``NAME@DIGEST``; empty if the tests ran in none.
        versions: of the programs that made the trials.
        gold, empty: the trials of each patch.
    """

    seconds: float | None = None
    image: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    gold: tuple[Trial, ...] = ()
    empty: tuple[Trial, ...] = ()

    def of(self, kind: PatchKind) -> tuple[Trial, ...]:
        return self.gold if kind is PatchKind.GOLD else self.empty

    def added(self, kind: PatchKind, trial: Trial, repeat: int) -> InstanceTrials:
        """Return this with one more trial, judged again."""
        trials = (*self.of(kind), trial)
        gold = kind is PatchKind.GOLD
        return (
            replace(self, gold=trials) if gold else replace(self, empty=trials)
        ).judged(repeat)

    def judged(self, repeat: int) -> InstanceTrials:
        """Return this with the state that its trials show where ``repeat`` of each are needed."""
        found = judged(self.gold, self.empty, repeat)
        times = [trial.seconds for trial in (*self.gold, *self.empty)]
        mean = round(sum(times) / len(times), 2) if times else None
        return replace(self, **vars(found), seconds=mean)


@dataclass(frozen=True)
class ValidityFile:
    """Whether one machine and evaluator can judge the instances of a dataset.

    Attributes:
        schema_version: of this format.
        evaluator: that made the trials.
        repeat: trials of each patch that a state other than ``not_evaluated`` needs.
        started: the time in UTC.
        instances: by id; those without a trial are not evaluated.
    """

    schema_version: int
    dataset: DatasetIdentity
    evaluator: str
    repeat: int
    started: str
    instances: Mapping[str, InstanceTrials]


_FILE = TypeAdapter(ValidityFile)


def write_validity(path: Path, content: ValidityFile) -> None:
    write_json_atomic(path, _FILE.dump_python(content, mode="json"))


def read_trials(path: Path) -> ValidityFile | None:
    if not path.exists():
        return None
    read_validity(path)
    try:
        return _FILE.validate_python(read_object(path, VALIDITY_FIX))
    except ValidationError as error:
        raise invalid(path, error, "a validity file", VALIDITY_FIX) from error


def check_same(
    path: Path, known: ValidityFile, dataset: DatasetIdentity, evaluator: str
) -> None:
    about = known.dataset
    fix = "give another file"
    if (about.name, about.split) != (dataset.name, dataset.split):
        words = f"{about.name} ({about.split}), not {dataset.name} ({dataset.split})"
        raise UserError(f"{path} is about {words}; {fix}")
    if about.sha256 != dataset.sha256:
        raise UserError(
            f"the rows of {about.name} changed since {path} was written; {fix}"
        )
    if known.evaluator != evaluator:
        raise UserError(
            f"{path} was made with --evaluator {known.evaluator}; give it, or {fix}"
        )


def validity_schema() -> dict[str, Any]:
    return _FILE.json_schema(mode="serialization")


_PATIENCE = 0.5


class GoldSettings(EvaluationRoot):
    """All that ``report.py gold`` is told."""

    instances: Instances = Instances()


FLAGS = (
    EVALUATOR_FLAG,
    WORKERS_FLAG,
    SettingFlag("instances.ids", "--instances", "ID,ID", OPTIONS),
    SettingFlag("instances.filter", "--filter", "REGEX", OPTIONS),
    SettingFlag("instances.slice", "--slice", "A:B", OPTIONS),
)


@command(GoldSettings, FLAGS)
def main(
    line: CommandLine[GoldSettings],
    dataset: Annotated[
        str | None, typer.Argument(help="Evaluate the patches of this data set.")
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(help="Write what they show to this file.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="Evaluate each patch this often.")
    ] = 3,
    env_file: EnvFileOption = None,
) -> int:
    """Find out which instances this machine can judge, by their gold and empty patches."""
    if line.asks_for_list:
        line.prints(line.load(), dataset)
        return 0
    if dataset is None or file is None:
        raise UserError("usage: report.py gold DATASET FILE")
    name = SourcedValue("DATASET", dataset)
    settings = line.load(fixed={"evaluation.dataset": name})
    check_folder("folders.cache", settings.folders.cache)
    # Such a command takes hours, and its lines are often sent to a file.
    say = partial(print, flush=True)
    with sigterm_as_interrupt():
        return gold_command(settings, file, repeat, say)


def gold_command(settings: GoldSettings, path: Path, repeat: int, say: Say) -> int:
    """Evaluate gold and empty patches; return 1 if an instance could not be evaluated."""
    path = path.expanduser().resolve()
    store = RunStore(path.parent, path.stem)
    chosen = settings.instances
    facts = DatasetFacts(split=chosen.split, config=chosen.config)
    requested = RequestedEvaluation(store, settings, Run(dataset=facts), say)
    kind = requested.kind
    if kind == EvaluatorKind.NONE or kind in MANUAL_TOOLS:
        raise UserError(
            f"gold patches are evaluated: give another --evaluator than {kind}"
        )
    with _locked(path, store.logs):
        dataset = requested.dataset
        instances = dated(dataset.instances(), chosen.since, chosen.until)
        rows = {}
        for instance in chosen.selection.apply(instances):
            name = instance.instance_id
            rows[name] = dataset.by_id[name]

        def make(store: RunStore, tell: Say = say) -> Evaluator:
            return make_evaluator(
                kind, store, settings, tell, dataset.name, requested.split_name
            )

        content = _content(path, dataset, make(store).name, repeat, [*rows])
        run = GoldRun(path, content, dict(versions()), make, say)
        # Other evaluators work on one prediction at a time, or share a folder of their program.
        in_docker = kind == EvaluatorKind.DOCKER
        run.measure_all(rows, settings.evaluation.workers if in_docker else 1)
    found = {name: run.content.instances[name] for name in rows}
    for state in Validity:
        names = [name for name, one in found.items() if one.state is state]
        say(f"{state.value.replace('_', ' '):13s}  {len(names):5d}")
        for name in names if state is not Validity.VALID else ():
            say(f"  {name}: {one_line(found[name].reason)}")
    say(f"validity       {path}")
    return int(any(one.state is Validity.NOT_EVALUATED for one in found.values()))


@contextmanager
def _locked(path: Path, logs: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout  # it loads asyncio

    logs.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(logs / ".lock", timeout=_PATIENCE):
            yield
    except Timeout:
        words = "another process writes it; wait for that, or give another file"
        raise UserError(f"{path}: {words}") from None


def _content(
    path: Path, dataset: Dataset, evaluator: str, repeat: int, names: Sequence[str]
) -> ValidityFile:
    """Return the content to begin with: what the file has, and the instances that it lacks."""
    identity = dataset.identity()
    known = read_trials(path)
    if known is not None:
        check_same(path, known, identity, evaluator)
    before = {
        name: one.judged(repeat)
        for name, one in (known.instances if known else {}).items()
    }
    return ValidityFile(
        schema_version=VALIDITY_SCHEMA,
        dataset=identity,
        evaluator=evaluator,
        repeat=repeat,
        started=known.started if known else timestamp(),
        instances={**{name: InstanceTrials() for name in names}, **before},
    )


# swebench evaluates no empty patch, so this adds a file that nothing reads.
EMPTY_PATCH = """\
diff --git a/.swe-retry-harness-empty b/.swe-retry-harness-empty
new file mode 100644
--- /dev/null
+++ b/.swe-retry-harness-empty
@@ -0,0 +1 @@
+This patch changes nothing that a test reads.
"""


@dataclass
class GoldRun:
    """Evaluates gold and empty patches, in any number of threads.

    The file is written after each trial, so that a killed command loses only those in work.
    """

    path: Path  # of the validity file; logs go below ``logs/NAME`` beside it
    content: ValidityFile
    versions: Mapping[str, str]  # of the programs that evaluate
    # Each instance has its own evaluator, because evaluations at the same time must not share a
    # folder.
    make: Callable[[RunStore, Say], Evaluator]
    say: Say
    _lock: Lock = field(default_factory=Lock)
    _said: set[str] = field(default_factory=set)
    _stop: Event = field(default_factory=Event)
    _running: set[str] = field(default_factory=set)  # ids of evaluations
    _began: float = 0.0
    _done: int = 0
    _total: int = 0

    def measure_all(self, rows: Mapping[str, Mapping[str, Any]], workers: int) -> None:
        """Make the trials that are left; raise a ``UserError`` that every instance has."""
        known = self.content.instances
        left = {name: len([*self.todo(known[name])]) for name in rows}
        self._start(sum(left.values()))
        todo = [name for name in rows if left[name]]
        errors = []
        with ThreadPoolExecutor(workers) as pool:
            futures = {pool.submit(self._measure, rows[n], known[n]): n for n in todo}
            try:
                for future in as_completed(futures):
                    error = future.exception()
                    self._end(futures[future], error)
                    errors += [error] if isinstance(error, UserError) else []
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                # Their threads then clean up, which the end of this process waits for.
                for run_id in [*self._running]:
                    kill_processes(run_id)
                raise
        if errors and len(errors) == len(todo):
            raise errors[0]

    def _start(self, total: int) -> None:
        self._began, self._total = time.monotonic(), total
        write_validity(self.path, self.content)
        kept = sum(
            len((*one.gold, *one.empty)) for one in self.content.instances.values()
        )
        words = f"; {counted(kept, 'trial')} known" if kept else ""
        count = counted(len(self.content.instances), "instance")
        self.say(
            f"{count}, {counted(total, 'evaluation')} to do ({self.content.evaluator}){words}"
        )

    def _keep(self, name: str, known: InstanceTrials, kind: PatchKind) -> None:
        """Keep the trials of an instance; the last one was of the patch ``kind``."""
        trials = known.of(kind)
        with self._lock:
            self._store(name, known)
            self._done += 1
            spent = time.monotonic() - self._began
            left = duration(spent / self._done * (self._total - self._done))
            what = f"{kind.value} {len(trials)} of {self.content.repeat}"
            result = "resolved" if trials[-1].resolved else "unresolved"
            self.say(
                f"[{self._done}/{self._total}] {name}: {what} {result}, "
                f"{trials[-1].seconds:.1f} s; {left} left"
            )

    def _end(self, name: str, error: BaseException | None) -> None:
        """Say what became of an instance; keep why it could not be evaluated."""
        if error is not None and not isinstance(
            error, (UserError, InfrastructureError)
        ):
            raise error
        with self._lock:
            known = self.content.instances[name]
            if error is not None:
                known = replace(known, reason=str(error))
                self._store(name, known)
            words = (
                f"{known.state.value.replace('_', ' ')}: {known.reason}".removesuffix(
                    ": "
                )
            )
            self.say(f"{name} is {one_line(words)}")

    def _say_once(self, line: str) -> None:
        # Each instance has an evaluator that says the same.
        with self._lock:
            if line not in self._said:
                self._said.add(line)
                self.say(line)

    def _store(self, name: str, known: InstanceTrials) -> None:
        instances = {**self.content.instances, name: known}
        self.content = replace(self.content, instances=instances)
        write_validity(self.path, self.content)

    def todo(self, known: InstanceTrials) -> Iterator[tuple[PatchKind, int]]:
        """Yield the trials that are left of an instance: the patch, and the trial's number."""
        kept = self.usable(known)
        for number in range(1, self.content.repeat + 1):
            for kind in PatchKind:
                if number > len(kept.of(kind)):
                    yield kind, number

    def usable(self, known: InstanceTrials) -> InstanceTrials:
        """Return what can be continued: trials of one instance are made by the same versions."""
        whole = min(len(known.gold), len(known.empty)) >= self.content.repeat
        same = known.versions == self.versions
        kept = known if whole or same else InstanceTrials()
        return replace(kept, versions=known.versions if whole else self.versions)

    def _measure(self, row: Mapping[str, object], known: InstanceTrials) -> None:
        instance, evaluation = split_row(row)
        name = instance.instance_id
        known = self.usable(known)
        patches = {PatchKind.GOLD: evaluation.patch, PatchKind.EMPTY: EMPTY_PATCH}
        if not evaluation.patch.strip():
            raise UserError("the row has no gold patch")
        tasks = {
            kind: EvaluationTask(
                Prediction(name, kind.value, patch),
                instance,
                evaluation,
            )
            for kind, patch in patches.items()
        }
        store = RunStore(self.path.parent, f"{self.path.stem}/{name}")
        evaluator = self.make(store, self._say_once)
        if reason := evaluator.prepare([*tasks.values()]).get(name):
            raise InfrastructureError(reason)
        for kind, number in self.todo(known):
            if self._stop.is_set():
                return
            image, trial = self._trial(store, evaluator, tasks[kind], number)
            known = replace(known.added(kind, trial, self.content.repeat), image=image)
            self._keep(name, known, kind)

    def _trial(
        self, store: RunStore, evaluator: Evaluator, task: EvaluationTask, number: int
    ) -> tuple[str, Trial]:
        """Evaluate a patch once; return the image, if there was one, and the trial."""
        kind = task.prediction.model_name_or_path
        start = time.monotonic()
        # swebench reuses results of a run id, also those of a killed command.
        run_id = f"{kind}.{number}-{secrets.token_hex(6)}"
        self._running.add(run_id)
        verdicts = list(evaluator.evaluate([task], run_id))
        self._running.discard(run_id)
        seconds = time.monotonic() - start
        if not verdicts or not verdicts[0].conclusive:
            reason = verdicts[0].reason if verdicts else ""
            raise InfrastructureError(reason or f"{evaluator.name} gave no verdict")
        if verdicts[0].log:
            write_text_atomic(store.logs / f"{kind}.{number}.eval.log", verdicts[0].log)
        return verdicts[0].image, trial_of(verdicts[0], seconds, timestamp())


if __name__ == "__main__":
    print(json.dumps(validity_schema(), indent=1))
