"""Measure which tests a commit's fix makes pass, and let the evaluator judge the row."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from swe_retry.attempts.own_settings import ProjectSettings
from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.shutdown import Shutdown
from swe_retry.environments.base import EnvironmentKind, UnavailableError
from swe_retry.instances.adapters.own import COMMANDS
from swe_retry.instances.split import split_row
from swe_retry.mining.commits import Candidate
from swe_retry.mining.records import (
    Measured,
    MineOutcome,
    conditions_of,
    read_measured,
    with_lists,
)
from swe_retry.own.opening import at_commit
from swe_retry.own.repository import OwnRepository
from swe_retry.own.run import check_trust, find_commands
from swe_retry.record.manifest import timestamp
from swe_retry.record.versions import versions
from swe_retry.report.evaluation.evaluator import EvaluationTask
from swe_retry.report.evaluation.grading import failed_tests
from swe_retry.report.evaluation.local import HiddenTests, LocalEvaluator
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.results.predictions import Prediction
from swe_retry.study.gold import EMPTY_PATCH, InstanceTrials, Trial, judge_trials


@dataclass(frozen=True)
class Bench:
    """Measures commits of one repository.

    Attributes:
        evaluator: that will judge candidates too.
        records: the folder with what was measured, a file for each commit.
        repeat: runs of the tests on each tree.
        stop: ends what is measured.
    """

    repository: OwnRepository
    project: ProjectSettings
    evaluator: LocalEvaluator
    records: Path
    repeat: int
    stop: Shutdown = field(default_factory=Shutdown)

    def check_trust(self, commit: str) -> None:
        """Refuse what a cloned repository would run at a commit, as ``check_trust``."""
        base = at_commit(self.repository, commit)
        sources = find_commands(self.project, base)[1]
        check_trust(self.project, base, EnvironmentKind.LOCAL, sources)

    def read(self, candidate: Candidate) -> tuple[JsonObject, Measured]:
        """Return the row of a commit with what was measured of it before."""
        row = self._row_of(candidate)
        seconds = self.evaluator.settings.evaluation.timeout
        path = self._file(candidate)
        return row, read_measured(path, conditions_of(row, seconds))

    def _file(self, candidate: Candidate) -> Path:
        return self.records / f"{candidate.commit}.json"

    def measure(self, candidate: Candidate) -> tuple[JsonObject, Measured]:
        """Return a row with what is known of it; only what is missing is measured."""
        row, measured = self.read(candidate)
        measured = measured.but(outcome=None, problem="")
        started = time.monotonic()
        task = _task_of(row, candidate.patch)
        mirrors = Mirrors(self.repository.mirrors)
        environment = replace(self.evaluator.environment, check=self.stop.check)
        try:
            self.check_trust(candidate.base)
            with self.evaluator.open_tests(task, mirrors, environment) as tests:
                measured = self._run(row, tests, measured)
        except InfrastructureError as error:
            outcome = MineOutcome.NOT_MEASURED
            return row, measured.but(outcome=outcome, problem=str(error))
        except (UnavailableError, UserError) as error:
            measured = measured.but(outcome=MineOutcome.SETUP, problem=str(error))
        seconds = measured.seconds + time.monotonic() - started
        measured = measured.but(seconds=round(seconds, 1))
        write_json_atomic(self._file(candidate), measured.as_json())
        return row, measured

    def _row_of(self, candidate: Candidate) -> JsonObject:
        """Return the row of a commit, without the tests that decide."""
        base = at_commit(self.repository, candidate.base)
        commands = find_commands(self.project, base)[0]
        commands = commands.model_copy(update={"image": ""})
        name = base.name.replace("/", "__")
        return {
            # By a part of the commit's own hash the fix could be looked up.
            "instance_id": f"{name}-{sha256_of(candidate.commit)[:8]}",
            "repo": base.name,
            "base_commit": base.commit,
            "problem_statement": candidate.statement.text,
            "version": base.version,
            "created_at": candidate.landed,
            COMMANDS: commands.model_dump(mode="json"),
            "patch": candidate.patch,
            "test_patch": candidate.test_patch,
            "FAIL_TO_PASS": "[]",
            "PASS_TO_PASS": "[]",
            "hints_text": "",
            "mined": {
                "commit": candidate.commit,
                "statement": candidate.statement.source,
                "removed": dict(candidate.statement.removed),
                "left_out": list(candidate.left_out),
                "unnamed": list(candidate.unnamed),
                "flaky": [],
            },
        }

    def _run(self, row: JsonObject, tests: HiddenTests, measured: Measured) -> Measured:
        """Run the tests as often as is missing, then have the row judged."""
        measured = measured.but(trials=InstanceTrials())
        for number in range(len(measured.gold), self.repeat):
            for kind, patch in (("empty", EMPTY_PATCH), ("gold", row["patch"])):
                result, run = tests.run_patch(patch, reverse=number % 2 == 1)
                if result.timed_out:
                    problem = f"the tests did not end within {tests.timeout:.0f} s"
                    outcome = MineOutcome.TIMEOUT
                    return measured.but(outcome=outcome, problem=problem)
                runs = (*getattr(measured, kind), run.results)
                measured = measured.but(**{kind: runs})
            if not measured.lists[0]:
                return measured
        row = with_lists(row, measured)
        empty = self._judge(row, tests, EMPTY_PATCH)
        gold = self._judge(row, tests, row["patch"])
        trials = InstanceTrials(versions=versions(), gold=(gold,), empty=(empty,))
        return measured.but(trials=judge_trials(trials, 1))

    def _judge(self, row: JsonObject, tests: HiddenTests, patch: str) -> Trial:
        task = _task_of(row, patch)
        verdict = self.evaluator.judge(replace(tests, task=task))
        return Trial(
            resolved=verdict.resolved,
            failed=failed_tests(verdict),
            reason=verdict.reason,
            evaluated=timestamp(),
        )


def _task_of(row: JsonObject, patch: str) -> EvaluationTask:
    instance, hidden = split_row(row)
    prediction = Prediction(instance.instance_id, "mined", patch)
    return EvaluationTask(prediction, instance, hidden, is_trial=True)
