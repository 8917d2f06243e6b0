"""``report.py --gold``: find out which instances this machine can judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.cli.selection import Selection
from bench.instances.dataset import Dataset
from bench.instances.validity import VALIDITY_SCHEMA, Validity
from core.errors import UserError
from core.plaintext import one_line
from reports.cli.options import EvaluatorKind, ReportOptions, Say
from reports.evaluation.evaluators.base import Evaluator
from reports.evaluation.evaluators.choice import make_evaluator
from reports.evaluation.requested import RequestedEvaluation
from reports.validity.file import (
    DEFAULT_FILE,
    InstanceTrials,
    ValidityFile,
    check_same,
    read_trials,
)
from reports.validity.keeping import Keeper
from reports.validity.measuring import Measurement
from runs.leftovers import kill_processes
from runs.storage.manifest import timestamp
from runs.storage.store import RunStore
from runs.storage.versions import versions

_PATIENCE = 0.5
_AT_ONCE = (EvaluatorKind.DOCKER, EvaluatorKind.MODAL)


def gold_command(options: ReportOptions, repeat: int, selection: Selection, say: Say) -> int:
    """Evaluate the gold and the empty patch of instances, and write the validity file.

    Args:
        options: ``dataset`` names the dataset, ``validity`` the file.
        repeat: how often each patch is evaluated.
        selection: which instances.
        say: takes lines for the user.

    Returns:
        1 if an instance could not be evaluated, else 0.

    Raises:
        UserError: the options or the file are wrong, or nothing can be evaluated until the user
            changes something.
        InfrastructureError: the dataset cannot be loaded.
    """
    path = (options.validity or Path(DEFAULT_FILE)).expanduser().resolve()
    store = RunStore(path.parent, path.stem)
    requested = RequestedEvaluation(store, options, {}, say)
    kind = requested.kind
    if kind == EvaluatorKind.NONE:
        raise UserError("--gold evaluates patches: give another --evaluator than none")
    with _locked(path, store.logs):
        dataset = requested.dataset
        rows = _selected(dataset, selection)

        def make(store: RunStore, tell: Say = say) -> Evaluator:
            return make_evaluator(kind, store, options, tell, dataset.name)

        name = make(store).name
        keeper = Keeper(path, _content(path, dataset, name, repeat, [*rows]), say)
        measurement = Measurement(
            path.parent, path.stem, repeat, dict(versions()),
            lambda store: make(store, keeper.say_once), keeper.take,
        )  # fmt: skip
        # Other evaluators work on one prediction at a time, or share a folder of their program.
        workers = options.workers if kind in _AT_ONCE else 1
        _measure(measurement, keeper, rows, workers)
    found = {name: keeper.content.instances[name] for name in rows}
    for line in _summary(found):
        say(line)
    say(f"validity       {path}")
    return int(any(one.state is Validity.NOT_EVALUATED for one in found.values()))


@contextmanager
def _locked(path: Path, logs: Path) -> Iterator[None]:
    """Hold the lock of a validity file, which lies among its logs.

    Raises:
        UserError: another process writes it.
    """
    from filelock import FileLock, Timeout  # it loads asyncio

    logs.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(logs / ".lock", timeout=_PATIENCE):
            yield
    except Timeout:
        words = "another process writes it; wait for that, or give another file with --validity"
        raise UserError(f"{path}: {words}") from None


def _selected(dataset: Dataset, selection: Selection) -> dict[str, Mapping[str, Any]]:
    """Return the selected rows by id.

    Raises:
        UserError: a row or the selection is wrong.
    """
    instances = dataset.instances()
    rows = {i.instance_id: row for i, row in zip(instances, dataset.rows, strict=True)}
    return {chosen.instance_id: rows[chosen.instance_id] for chosen in selection.apply(instances)}


def _content(
    path: Path, dataset: Dataset, evaluator: str, repeat: int, names: Sequence[str]
) -> ValidityFile:
    """Return the content to begin with: what the file has, and the instances that it lacks.

    Raises:
        UserError: the file is broken, or about something else.
    """
    identity, known = dataset.identity(), read_trials(path)
    if known is not None:
        check_same(path, known, identity, evaluator)
    before = {name: one.judged(repeat) for name, one in (known.instances if known else {}).items()}
    return ValidityFile(
        schema_version=VALIDITY_SCHEMA,
        dataset=identity,
        evaluator=evaluator,
        repeat=repeat,
        started=known.started if known else timestamp(),
        instances={**{name: InstanceTrials() for name in names}, **before},
    )


def _measure(
    measurement: Measurement, keeper: Keeper, rows: Mapping[str, Mapping[str, Any]], workers: int
) -> None:
    """Make the trials that are left, and have each kept as it ends.

    Raises:
        UserError: it kept every instance from being evaluated.
    """
    known = keeper.content.instances
    left = {name: list(measurement.todo(known[name])) for name in rows}
    keeper.start(sum(map(len, left.values())))
    todo = [name for name in rows if left[name]]
    errors = []
    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(measurement.measure, rows[n], known[n]): n for n in todo}
        try:
            for future in as_completed(futures):
                error = future.exception()
                keeper.ended(futures[future], error)
                errors += [error] if isinstance(error, UserError) else []
        except BaseException:
            measurement.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            # Their threads then clean up, which the end of this process waits for.
            for run_id in [*measurement.running]:
                kill_processes(run_id)
            raise
    if errors and len(errors) == len(todo):
        raise errors[0]


def _summary(found: Mapping[str, InstanceTrials]) -> Iterator[str]:
    """Yield the number of instances by state, and each that is not valid with the reason."""
    for state in Validity:
        names = [name for name, one in found.items() if one.state is state]
        yield f"{state.value.replace('_', ' '):13s}  {len(names):5d}"
        if state is not Validity.VALID:
            yield from (f"  {name}: {one_line(found[name].reason)}" for name in names)
