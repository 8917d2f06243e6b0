"""``report.py --verify``: compute all derived files again and report differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent.conversation.base import Reflections
from bench.config import RunConfig
from bench.instances.adapters.base import Row
from bench.instances.dataset import Dataset
from bench.instances.instance import split_row
from core.errors import DamagedFileError, InfrastructureError, UserError
from core.parsing.untrusted import read_object
from core.plaintext import Say, counted
from reports.cli.options import EvaluatorKind, ReportOptions
from reports.data.predictions import (
    ALL_PREDS,
    Prediction,
    all_preds,
)
from reports.data.provenance import evaluation
from reports.data.rundata import (
    InstanceData,
    RunData,
    read_predictions,
    read_run,
    rounds,
)
from reports.data.verdicts import (
    BY_SWEBENCH,
    FIX,
    MANUAL_TOOLS,
    OFFICIAL_TOOLS,
    OTHERS,
    Verdict,
    eval_log,
    eval_report,
    facts_of,
    known_verdict,
    leaderboard_lists,
    presumed,
    read_verdict,
    verdict_path,
)
from reports.evaluation.evaluators.grading import is_saved
from reports.evaluation.evaluators.swebench import tests_ended
from reports.evaluation.requested import RequestedEvaluation
from reports.statistics.collect import collect
from reports.statsfile import stats_json, validity_of
from reports.verification.difference import (
    Difference,
    all_differences,
    first_difference,
    first_line,
    readable,
)
from reports.verification.instances import InstanceCheck
from runs.calls.journal import (
    AnsweredEntry,
    AskedEntry,
    EndEntry,
    Journal,
    asked_and_ended,
    journals_of,
    reply_of,
)
from runs.calls.ledger import REPLAYED, LedgerLine, replayed_lines
from runs.description import Run
from runs.keys import RESULTS_FILE, STATS_FILE
from runs.records import Attempt
from runs.storage.store import RunStore
from runs.storage.versions import HARNESS_VERSION, versions


def verify_command(runs: Sequence[Path], options: ReportOptions, say: Say) -> int:
    """Verify each run, print a line for each difference, and return 1 if there is one.

    This writes nothing and calls no model, engine or registry.
    """
    found = 0
    for folder in runs:
        verification = _Verification(RunStore.of_folder(folder), options, say)
        differences = list(verification.differences())
        for difference in differences:
            say(difference.line(verification.store.out))
        found += len(differences)
        words = f"differences: {len(differences)}" if differences else "nothing differs"
        say(f"{verification.store.folder}: {words}")
    return int(found > 0)


@dataclass(frozen=True)
class _Verification:
    store: RunStore
    options: ReportOptions
    say: Say

    def differences(self) -> Iterator[Difference]:
        """Yield what differs; derived files are not compared if a file cannot be read."""
        run = Run()
        found: list[Difference] = []
        try:
            run = self.store.read_run() or Run()
        except DamagedFileError as error:
            found.append(Difference(error.path, error.words, unreadable=True))
        check = InstanceCheck(self.store, run)
        for path in self.store.prediction_paths():
            found += readable(check.differences(path))
        if check.unchecked:
            names = ", ".join(sorted(check.unchecked))
            version = run.versions.get("harness") or "unknown"
            self.say(f"written by version {version}, which has no {names}: not checked")
        yield from found
        if not any(difference.unreadable for difference in found):
            yield from readable(self._of_run())

    def _of_run(self) -> Iterator[Difference]:
        run = read_run(self.store)
        requested = RequestedEvaluation(
            self.store, self.options, run.described, self.say
        )
        dataset = None
        with suppress(UserError, InfrastructureError):
            dataset = requested.dataset
        sha256 = (
            dataset.identity().sha256 if dataset and not self.options.dataset else ""
        )
        path = self.store.run_file
        if path.is_file():
            raw = read_object(path, "")
            for words in all_differences(raw, run.described.as_json()):
                yield Difference(path, words)
        for words in _run_differences(run, sha256):
            yield Difference(path, words)
        yield from _ledger_differences(self.store, run)
        yield from self._of_report(run, dataset, requested)

    def _of_report(
        self, run: RunData, dataset: Dataset | None, requested: RequestedEvaluation
    ) -> Iterator[Difference]:
        """Yield what differs in the files of a report; files that do not exist are skipped."""
        folder, every = self.store.folder, read_predictions(self.store)
        rows = dataset.rows if dataset else ()

        def lists() -> Iterator[Mapping[str, Any]]:
            known = {
                p.instance_id: known_verdict(self.store, p) or presumed(p)
                for p in every
            }
            yield leaderboard_lists(every, known)

        def stats() -> Iterator[Mapping[str, Any]]:
            used = None
            with suppress(DamagedFileError, OSError):  # ``_json`` says so
                used = validity_of(read_object(folder / STATS_FILE, ""))
            # The report may not have had the rows.
            for some in [rows, ()] if rows else [()]:
                split = requested.split_with(len(some))
                yield stats_json(collect(read_run(self.store, some), split, used))

        preds = folder / ALL_PREDS
        if preds.is_file():
            text = preds.read_bytes().decode("utf-8", "replace")
            yield from first_line(
                preds, text, all_preds(every, dataset.official_ids if dataset else {})
            )
        patches = (*every, *chain.from_iterable(rounds(run)))
        by_path = {verdict_path(self.store, patch): patch for patch in patches}
        for path in sorted(self.store.verdict("x").parent.rglob("*.json")):
            if path in by_path:
                by_id = dataset.by_id if dataset else {}
                row = by_id.get(by_path[path].instance_id)
                yield from readable(self._of_verdict(path, by_path[path], row))
            else:
                yield Difference(path, "belongs to no patch of this run")
        if run.described.model_fields_set:
            yield from _unrelated(self.store, run, patches)
        yield from readable(_json(folder / RESULTS_FILE, lists))
        yield from readable(_json(folder / STATS_FILE, stats))

    def _of_verdict(
        self, path: Path, prediction: Prediction, row: Row | None
    ) -> Iterator[Difference]:
        saved = read_verdict(path)
        if saved is None or saved.patch_sha256 != prediction.patch_sha256:
            about = "patch_sha256 is about another patch, not the predicted one"
            yield Difference(path, f"{about}; evaluate again")
            return
        verdict = known_verdict(self.store, prediction)
        assert verdict is not None
        evaluation = split_row(row)[1] if row is not None else None
        facts = {
            name: getattr(saved, name) for name in ("gold_files", "repo", "created_at")
        }
        if evaluation and saved.repo is not None:  # else it was evaluated without a row
            facts = facts_of(evaluation)
        expected = verdict.on(prediction, facts).as_json()
        if words := first_difference(read_object(path, FIX), expected):
            yield Difference(path, words)
        kinds = [kind.value for kind in EvaluatorKind]
        if saved.evaluator not in (
            *kinds,
            *BY_SWEBENCH,
            *OFFICIAL_TOOLS,
            *MANUAL_TOOLS,
        ):
            yield Difference(
                path, f"evaluator is {saved.evaluator!r}, which is unknown"
            )
        if saved.evaluator == EvaluatorKind.LOCAL.value and (saved.image or saved.tool):
            yield Difference(
                path, "image or tool is named, but the local evaluator has neither"
            )
        yield from self._of_output(prediction, verdict)
        yield from self._against_report(path, prediction, verdict)

    def _of_output(
        self, prediction: Prediction, verdict: Verdict
    ) -> Iterator[Difference]:
        log = eval_log(self.store, prediction)
        if not log.is_file():
            return
        if not (output := log.read_text("utf-8", "replace")):
            yield Difference(log, "is empty, but the output of an evaluation is not")
        elif verdict.evaluator == EvaluatorKind.LOCAL.value and not is_saved(output):
            yield Difference(log, "does not begin as the output of a local evaluation")

    def _against_report(
        self, place: Path, prediction: Prediction, verdict: Verdict
    ) -> Iterator[Difference]:
        path = eval_report(self.store, prediction)
        if not path.is_file():
            return
        report = read_object(path, FIX)
        own = report.get(verdict.instance_id)
        if not isinstance(own, dict) or not isinstance(own.get("resolved"), bool):
            wrong = f"does not say whether {verdict.instance_id} is resolved"
            raise DamagedFileError(path, wrong, FIX)
        log = eval_log(self.store, prediction)
        needed = (
            verdict.conclusive and verdict.evaluator in BY_SWEBENCH and log.is_file()
        )
        if needed and not tests_ended(log.read_text("utf-8", "replace")):
            wrong = (
                "is conclusive, but the test output in logs/ shows no end of the tests"
            )
            yield Difference(place, wrong)
            return
        if verdict.resolved is not own["resolved"]:
            wrong = f"says {verdict.status.value}, but the report in logs/ says the opposite"
            yield Difference(place, wrong)


def _unrelated(
    store: RunStore, run: RunData, patches: Sequence[Prediction]
) -> Iterator[Difference]:
    """Yield the files of instances and patches that ``run`` does not have.

    An earlier start without a result may have left logs and journals of other instances.
    """
    names = run.selected
    known = {
        path(name) for name in names for path in (store.trajectory, store.transcript)
    }
    known |= {path for name in names for path in journals_of(store.journals, name)}
    known |= {store.logs / f"{name}.log" for name in names} | {
        *map(store.unfinished, names)
    }
    label = run.model_name_or_path
    # Of instances without a prediction, too: it may be put aside to be made again.
    every = (*patches, *(Prediction(name, label, "") for name in names))
    known |= {path(store, patch) for patch in every for path in (eval_log, eval_report)}
    found = {
        *store.folder.glob("*.md"),
        *store.trajectory("x").parent.glob("*.json"),
        *store.logs.glob("*.eval.log"),
        *store.logs.glob("*.report.json"),
        *(store.logs / OTHERS).glob("*"),
    }
    if len(run.described.starts) < 2:
        found |= {*store.logs.glob("*.log"), *store.logs.glob("*.unfinished.json")}
        found |= {*store.journals.glob("*.jsonl")}
    # Users add notes and logs of their own; the name of an instance has its owner.
    for path in sorted(path for path in found - known if "__" in path.name):
        yield Difference(path, "belongs to no instance or patch of this run")


def _json(
    path: Path, expected: Callable[[], Iterator[Mapping[str, Any]]]
) -> Iterator[Difference]:
    """Compare a file with the nearest of its valid contents."""
    if not path.is_file():
        return
    found = read_object(path, "have report.py write it again")
    nearest = min((list(all_differences(found, one)) for one in expected()), key=len)
    yield from (Difference(path, words) for words in nearest[:1])


_CONFIG = TypeAdapter(RunConfig)
# What each start of a run writes.
_RECORDED = (
    "config",
    "deciding",
    "versions",
    "started",
    "dataset",
    "selected",
    "prices",
    "starts",
)


def _missing(run: Run) -> Iterator[str]:
    yield from (name for name in _RECORDED if not run.has(name))
    for number, start in enumerate(run.starts):
        for name in ("started", "ended"):
            if name not in start.model_fields_set:
                yield f"starts[{number}].{name}"


def _run_differences(run: RunData, rows_sha256: str) -> Iterator[str]:
    """Yield what differs in ``run.json``; ``rows_sha256`` is that of the dataset, if at hand."""
    described = run.described
    if described.selected:
        names = {instance.instance_id for instance in run.instances}
        for name in sorted(names.difference(described.selected)):
            yield f"selected lacks {name}, which is predicted"
    if described.has("evaluation"):
        now = evaluation(run.instances)
        yield from all_differences(described.evaluation, now, ("evaluation",))
    if described.is_combined or described.is_imported:
        return
    if not described.is_ours and not described.has("deciding"):
        return
    yield from (f"{name} is missing" for name in _missing(described))
    if not described.has("config") or described.deciding is None:
        return
    if rows_sha256 and described.dataset.sha256 != rows_sha256:
        yield f"dataset.sha256 is not that of the rows, which is {rows_sha256}"
    if not described.starts:
        yield "starts is empty, but the run was started"
    try:
        yield from _from_config(described, described.deciding)
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        yield f"config is not what a run records: {error}"
    for attempt in run.attempts:
        returned = described.models_returned.get(attempt.model, [])
        names = {call.model for call in attempt.calls or () if call.model}
        for name in sorted(names.difference(returned)):
            yield f"models_returned.{attempt.model} lacks {name!a}, which a reply names"


def _from_config(described: Run, deciding: Mapping[str, Any]) -> Iterator[str]:
    recorded: Mapping[str, Any] = described.config
    own = described.versions
    other_version = own.get("harness") != HARNESS_VERSION
    if other_version:
        recorded = _known_options(recorded)
    reflections = Reflections.parse(recorded["max_reflections"])
    config = _CONFIG.validate_python({**recorded, "max_reflections": reflections})
    # The settings are recorded with what litellm knew of the model.
    unknown = ["replay_sha256"]
    if config.replay is None:
        unknown.append("model_settings_sha256")
    commit = own.get("harness_commit")
    if not commit or commit != versions()["harness_commit"]:
        unknown.append("prompts_sha256")
    if other_version:
        unknown += RunConfig.__dataclass_fields__.keys() - recorded.keys()
    expected_deciding = {
        **config.deciding(),
        "dataset_sha256": str(described.dataset.sha256),
        **{name: deciding.get(name) for name in unknown},
        "harness": own.get("harness"),
    }
    if other_version:
        expected_deciding = _common(expected_deciding, deciding)
        deciding = _common(deciding, expected_deciding)
    expected = {
        "run": config.run_name,
        "model_name_or_path": config.model_name_or_path,
        "deciding": expected_deciding,
    }
    found = {
        "run": described.run,
        "model_name_or_path": described.model_name_or_path,
        "deciding": deciding,
    }
    yield from all_differences(found, expected)
    if not other_version:
        lacking = sorted(config.as_json().keys() - recorded.keys())
        yield from (f"config.{name} is missing" for name in lacking)
    for option, value in described.options.items():
        keys, name = ("options", option), option.replace("-", "_")
        if name == "models":
            given = [model.partition("@")[0].strip() for model in str(value).split(",")]
            models = [model.given.partition("@")[0] for model in config.models]
            yield from all_differences(given, models, keys)
        elif name in deciding and isinstance(
            recorded.get(name), (bool, int, float, str)
        ):
            yield from all_differences(str(value), str(recorded[name]), keys)


def _known_options(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run of another version that this one has, with values it knows."""
    options = _common(recorded, RunConfig.__dataclass_fields__)
    reflections = Reflections.parse(recorded["max_reflections"])
    try:
        _CONFIG.validate_python({**options, "max_reflections": reflections})
    except ValidationError as error:
        for problem in error.errors():
            options.pop(str(problem["loc"][0]), None)
    return options


def _common(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values whose names are among ``names``."""
    return {name: values[name] for name in sorted(values.keys() & names)}


def _ledger_differences(store: RunStore, run: RunData) -> Iterator[Difference]:
    """Yield the faults of the ledger and the journals of ``run``."""
    path, ours = store.ledger, run.described.is_ours
    if not path.is_file():
        calls = sum(len(attempt.calls or ()) for attempt in run.attempts)
        if calls and ours:
            shown = counted(calls, "call")
            yield Difference(path, f"is missing, but the trajectories show {shown}")
        return
    for damage in run.damaged:
        yield Difference(path, f"line {damage.number}: {damage.problem}")
    yield from _lacking(path, run)
    names = {line.instance_id for line in run.ledger}
    for name in sorted(names.difference(run.selected)):
        yield Difference(
            path, f"has calls of {name!a}, which is not an instance of this run"
        )
    if not ours:
        return
    replayed = run.described.configuration.replay is not None
    by_call = {line.call: (number, line) for number, line in enumerate(run.ledger, 1)}
    for instance in run.instances:
        name = instance.instance_id
        if replayed:
            expected = _replayed_lines(instance)
        else:
            entries = []
            for journal in journals_of(store.journals, name):
                entries += asked_and_ended(Journal(journal).entries())
            expected = _journal_lines(name, entries)
            trajectory = store.read_trajectory(name)
            attempts = trajectory.attempts if trajectory else ()
            yield from _unasked(store.trajectory(name), entries, attempts)
        for line in expected:
            if line.call not in by_call:
                yield Difference(path, f"lacks the call {line.call} of {name}")
                continue
            number, found = by_call[line.call]
            if words := first_difference(found.as_json(), line.as_json()):
                yield Difference(path, f"line {number}: {words}")


def _replayed_lines(instance: InstanceData) -> list[LedgerLine]:
    lines: list[LedgerLine] = []
    for attempt in instance.attempts:
        calls = attempt.calls or ()
        lines += replayed_lines(
            instance.instance_id, attempt.attempt, attempt.model, calls
        )
    return lines


def _journal_lines(
    instance_id: str, entries: Sequence[tuple[AskedEntry, EndEntry | None]]
) -> list[LedgerLine]:
    lines = []
    for asked, ended in entries:
        line = LedgerLine.of_call(instance_id, asked, ended) if ended else None
        if line is not None:
            lines.append(line)
    return lines


def _unasked(
    place: Path,
    entries: Sequence[tuple[AskedEntry, EndEntry | None]],
    attempts: Sequence[Attempt],
) -> Iterator[Difference]:
    known = []
    for asked, ended in entries:
        if isinstance(ended, AnsweredEntry):
            reply = reply_of(asked, ended)
            call = replace(reply, request_sha256=asked.request_sha256)
            known.append((asked.attempt, asked.model, call))
    if not known:
        return
    for attempt in attempts:
        for number, call in enumerate(attempt.calls or (), 1):
            key = (attempt.attempt, attempt.model, call)
            # A command that calls its models itself has one call, with what it printed.
            if key not in known and (call.body or attempt.is_ours):
                words = f"call {number} of attempt {key[0]} is not that of its journal"
                yield Difference(place, words)


def _lacking(path: Path, run: RunData) -> Iterator[Difference]:
    # The ledger may contain more calls, of attempts that were redone.
    paid: Counter[tuple[Any, ...]] = Counter(
        (line.instance_id, line.attempt, line.model, line.usage, line.cost)
        for line in run.ledger
        if line.kind in ("answered", REPLAYED)
    )
    for instance in run.instances:
        for attempt in instance.attempts:
            key = instance.instance_id, attempt.attempt, attempt.model
            calls = [(*key, call.usage, call.cost) for call in attempt.calls or ()]
            lacking = Counter(calls) - paid
            if lacking:
                what = (
                    f"{counted(lacking.total(), 'call')} of {key[0]}, attempt {key[1]}"
                )
                yield Difference(path, f"lacks {what}, as its trajectory has them")
