"""``report.py verify``: what differs from the checksums and from what can be written again.

Predictions and transcripts follow from trajectories, the ledger from journals, and the files of a
report from all of them. Nothing is written, and no model, engine or registry is called.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from swe_retry.attempts.choose import CandidateChoice, finish_choice
from swe_retry.attempts.evidence.choice import choose_by_evidence
from swe_retry.attempts.transcript import transcript
from swe_retry.core.errors import DamagedFileError, InfrastructureError, UserError
from swe_retry.core.jsontypes import value_at
from swe_retry.core.money import total
from swe_retry.core.plaintext import Say, one_line, quantity
from swe_retry.core.untrusted import read_object
from swe_retry.instances.adapters.adapter import Row
from swe_retry.record.description import Run
from swe_retry.record.keys import RESULTS_FILE, STATS_FILE
from swe_retry.record.layouts import flat_trajectory
from swe_retry.record.records import Values
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore
from swe_retry.record.versions import HARNESS_VERSION
from swe_retry.report.differences import (
    Difference,
    compare_json,
    compare_text,
    first_difference,
)
from swe_retry.report.evaluation.evaluate import RunEvaluation
from swe_retry.report.evaluation.evaluation_settings import EvaluationRoot
from swe_retry.report.evaluation.swebench import shows_end
from swe_retry.report.statistics.collect import collect
from swe_retry.report.statsfile import stats_json, validity_of
from swe_retry.results.checksums import compare_checksums
from swe_retry.results.predictions import ALL_PREDS, Prediction, all_preds
from swe_retry.results.read import read_predictions, read_run
from swe_retry.results.rundata import RunData
from swe_retry.results.verdicts import (
    BY_SWEBENCH,
    FIX,
    Verdict,
    eval_log,
    eval_report,
    known_verdict,
    leaderboard_lists,
    presumed_verdict,
    verdict_path,
)
from swe_retry.runner.calls.journal import Journal, journals_of, starts_and_ends
from swe_retry.runner.calls.ledger import REPLAYED, LedgerLine

_REWORDED = ("no test could speak", "no test could run")
"""What reasons say in version 0.12, and now."""


def verify_command(runs: Sequence[Path], say: Say, show_json: Say | None = None) -> int:
    """Verify each run, print a line for each file that differs, and return 1 if one does."""
    rows = []
    for folder in runs:
        store = RunStore.of_folder(folder)
        verification = Verification(store, say)
        differences = verification.first_of_each_file()
        for path, difference in differences.items():
            if store.out in path.parents:
                path = path.relative_to(store.out)
            say(one_line(f"{path}: {difference}"))
            row = {"run": store.run, "file": str(path), "difference": difference}
            rows.append(row)
        result = "nothing differs"
        if differences:
            result = f"differences: {len(differences)}"
        say(f"{store.folder}: {result}")
    if show_json:
        show_json(json.dumps(rows, indent=1))
    return int(bool(rows))


@dataclass
class Verification:
    """The comparison of one run with what follows from its files.

    Attributes:
        not_checked: names of values that only this version or that of the run has.
    """

    store: RunStore
    say: Say
    not_checked: set[str] = field(default_factory=set)

    @cached_property
    def description(self) -> Run:
        return self.store.read_run()

    def first_of_each_file(self) -> dict[Path, str]:
        """Return what differs; nothing else is compared once a file cannot be read."""
        differences: dict[Path, str] = {}
        try:
            differences.update(compare_checksums(self.store))
        except FileNotFoundError:
            self.say(
                "note: no report wrote checksums.txt: "
                "only what can be derived is compared"
            )
        except DamagedFileError as error:
            differences[error.path] = error.problem
        derived: dict[Path, str] = {}
        try:
            for path, difference in self.compare_derived():
                derived.setdefault(path, difference)
        except DamagedFileError as error:
            derived[error.path] = error.problem
        if self.not_checked:
            version = self.description.versions.get("harness") or "unknown"
            names = ", ".join(sorted(self.not_checked))
            self.say(f"note: not checked, as version {version} differs in it: {names}")
        # What is derived says where in a file the difference is.
        differences.update(derived)
        return differences

    def compare_derived(self) -> Iterator[Difference]:
        damaged = False
        for path in self.store.prediction_paths():
            try:
                yield from self.compare_instance(path)
            except DamagedFileError as error:
                damaged = True
                yield error.path, error.problem
        if damaged:
            return
        run = read_run(self.store)
        yield from compare_ledger(self.store, run)
        yield from self.compare_report()

    def compare_instance(self, path: Path) -> Iterator[Difference]:
        name = path.stem
        trajectory_path = self.store.trajectory(name)
        prediction = self.store.raw_prediction(path)
        result = self.store.read_trajectory(name)
        if result is None:
            if self.description.is_ours:
                yield trajectory_path, "is missing"
            return
        if not result.attempts:
            raise DamagedFileError(trajectory_path, "has no attempts", FIX)
        label = prediction.get("model_name_or_path")
        paid = (*result.attempts, *result.writers)
        cost = total(attempt.cost for attempt in paid)
        expected = result.but(
            model_name_or_path=str(label),
            cost=cost,
        )
        again = expected.prediction()
        if result.versions is None:
            # A combination numbers attempts again, and has the tries of its runs.
            del again["tries"]
        trajectory = flat_trajectory(read_object(trajectory_path, FIX))
        yield from self.compare_values(
            trajectory_path,
            trajectory,
            result.trajectory(),
        )
        yield from self.compare_values(path, prediction, again)
        if result.versions is None:
            return
        evidence = result.evidence
        if evidence and evidence.classes and result.belief is None:
            # It was chosen by the rule before there were weights.
            self.not_checked.update(("choice by evidence", "bought"))
            return
        yield from compare_choice(trajectory_path, trajectory, result)
        page = self.store.transcript(name)
        if not page.is_file():
            yield page, "is missing"
            return
        yield from compare_text(page, transcript(expected))

    def compare_values(
        self,
        path: Path,
        recorded: Values,
        expected: Values,
    ) -> Iterator[Difference]:
        """Compare the values of a file; another version may lack some, or have others."""
        difference = first_difference(recorded, expected, left_out=self.left_out)
        if difference:
            yield path, difference

    @property
    def left_out(self) -> set[str] | None:
        """Where to note what only one version has; None if this version made the run."""
        if self.description.versions.get("harness") == HARNESS_VERSION:
            return None
        return self.not_checked

    def compare_report(self) -> Iterator[Difference]:
        """Compare the files of a report, as far as there are any, with what it would write."""
        store = self.store
        predictions = read_predictions(store)
        verdicts = {}
        for prediction in predictions:
            verdict = known_verdict(store, prediction) or presumed_verdict(prediction)
            verdicts[prediction.instance_id] = verdict
            yield from compare_verdict(store, prediction, verdict)
        run_evaluation = RunEvaluation(
            store, EvaluationRoot(), self.description, self.say
        )
        official_ids: Mapping[str, str] = {}
        rows: Sequence[Row] = ()
        with suppress(UserError, InfrastructureError):
            official_ids = run_evaluation.dataset.official_ids
            rows = run_evaluation.dataset.rows
        preds = store.folder / ALL_PREDS
        if preds.is_file():
            yield from compare_text(preds, all_preds(predictions, official_ids))
        results = leaderboard_lists(predictions, verdicts)
        yield from compare_json(store.folder / RESULTS_FILE, results)
        path = store.folder / STATS_FILE
        if not path.is_file():
            return
        validity = validity_of(read_object(path, FIX))
        statistics = []
        # The report may not have had the rows.
        for available in (rows, ()):
            run = read_run(store, available)
            split = run_evaluation.split_with(len(available))
            stats = stats_json(collect(run, split, validity))
            if "bought" in self.not_checked:
                del stats["bought"]
            statistics.append(stats)
        yield from compare_json(path, *statistics, left_out=self.left_out)


def compare_choice(
    path: Path,
    trajectory: Values,
    result: InstanceResult,
) -> Iterator[Difference]:
    winner = trajectory.get("winner")
    config = result.config or {}
    require_tests = bool(config.get("require_tests"))
    choice = choose_again(result, winner, require_tests=require_tests)
    recorded = {
        "winner": winner,
        "status": str(result.status),
        "reason": result.reason.replace(*_REWORDED),
    }
    again = {
        "winner": choice.winner and choice.winner.attempt,
        "status": str(choice.status),
        "reason": choice.reason,
    }
    difference = first_difference(recorded, again)
    if difference:
        yield path, f"the choice from the recorded outcomes: {difference}"


def choose_again(
    result: InstanceResult, winner: int | None, *, require_tests: bool
) -> CandidateChoice:
    """Return the choice among a result's attempts, given the trajectory's ``winner``.

    Files before 0.13 do not say of attempts with failed edits whether the patch applied; such a
    candidate is excluded if that explains the winner.
    """
    candidates = list(result.attempts)
    while True:
        choice = choose_by_evidence(
            candidates, result.evidence, result.fit, require_tests=require_tests
        )
        best = choice.winner
        if best is None or best.attempt == winner:
            break
        if "applies" in best.model_fields_set or best.edit_outcome is not False:
            break
        position = candidates.index(best)
        candidates[position] = best.but(applies=False)
    return finish_choice(choice, result.attempts)


def compare_ledger(store: RunStore, run: RunData) -> Iterator[Difference]:
    """Compare the ledger with the calls of trajectories and journals."""
    path = store.ledger
    if not path.is_file() and not run.described.is_ours:
        return
    for damage in run.damaged:
        yield path, f"line {damage.number}: {damage.problem}"
    by_call = {}
    for line in run.ledger:
        by_call[line.call] = line
        if line.instance_id not in run.selected:
            yield path, f"has calls of {line.instance_id!a}, which is not in this run"
    for problem in _unpaid_calls(run):
        yield path, problem
    for name in run.selected:
        for expected in _journal_lines(store, name):
            if by_call.get(expected.call) != expected:
                yield path, f"the call {expected.call} is not that of the journal"


def _unpaid_calls(run: RunData) -> Iterator[str]:
    """Yield the attempts with calls that the ledger does not have.

    The ledger may contain further calls, of attempts that were redone.
    """
    lines = defaultdict(list)
    for line in run.ledger:
        if line.kind in ("answered", REPLAYED):
            lines[line.instance_id, line.attempt].append(line)
    for instance in run.instances:
        name = instance.instance_id
        for attempt in instance.attempts:
            number = attempt.attempt
            lacking = Counter((call.usage, call.cost) for call in attempt.calls or ())
            # The attempt of a pair has the calls of both.
            models = {attempt.model, *attempt.model.split(" + ")}
            for line in lines[name, number]:
                if line.model in models:
                    lacking[line.usage, line.cost] -= 1
            lacking = +lacking
            if lacking:
                count = quantity(lacking.total(), "call")
                yield f"lacks {count} that attempt {number} of {name} has"


def _journal_lines(store: RunStore, name: str) -> Iterator[LedgerLine]:
    """Yield the lines that follow from the journals of an instance."""
    for path in journals_of(store.journals, name):
        entries = Journal(path).entries()
        for start, end in starts_and_ends(entries):
            if end is None:
                continue
            line = LedgerLine.of_call(name, start, end)
            if line:
                yield line


def compare_verdict(
    store: RunStore,
    prediction: Prediction,
    verdict: Verdict,
) -> Iterator[Difference]:
    """Compare a verdict with the output and the report of its evaluator, if they were saved."""
    path = verdict_path(store, prediction)
    if not path.is_file() or not verdict.conclusive:
        return
    report_path = eval_report(store, prediction)
    if report_path.is_file():
        report = read_object(report_path, FIX)
        resolved = value_at(report, prediction.instance_id, "resolved")
        if resolved is not verdict.resolved:
            yield path, f"says {verdict.status.value}, but the report in logs/ does not"
    log = eval_log(store, prediction)
    if verdict.evaluator in BY_SWEBENCH and log.is_file():
        output = log.read_text("utf-8", "replace")
        if not shows_end(output):
            yield (
                path,
                "is conclusive, but the output in logs/ shows no end of the tests",
            )
