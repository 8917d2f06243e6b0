"""Measure which tests a commit's fix makes pass, and let the evaluator judge the row."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.git import git
from swe_retry.core.hashing import sha256_of
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.shutdown import Shutdown
from swe_retry.environments.base import EnvironmentKind, UnavailableError
from swe_retry.environments.local.toolchains import find_python
from swe_retry.instances.adapters.own import COMMANDS
from swe_retry.mining.commits import Fix
from swe_retry.mining.records import (
    Measured,
    MineOutcome,
    conditions_of,
    with_lists,
)
from swe_retry.mining.settings import MiningSettings
from swe_retry.own.opening import at_commit
from swe_retry.own.repository import OwnRepository
from swe_retry.own.run import check_trust, find_commands
from swe_retry.record.versions import versions
from swe_retry.report.evaluation.local import HiddenTests, LocalEvaluator
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.study.gold import (
    EMPTY_PATCH,
    InstanceTrials,
    Trial,
    judge_trials,
    trial_task,
)

_FIX = "delete it; the commit is measured again"


@dataclass(frozen=True)
class CommitTests:
    """Measures commits of one repository.

    Attributes:
        evaluator: that will judge candidates too; its folder has a file of what was measured for
            each commit.
        stop: ends what is measured.
    """

    repository: OwnRepository
    settings: MiningSettings
    evaluator: LocalEvaluator
    stop: Shutdown = field(default_factory=Shutdown)

    def check_trust(self, commit: str) -> None:
        """Refuse what a cloned repository would run at a commit, as ``check_trust``."""
        base = at_commit(self.repository, commit)
        project = self.settings.project
        sources = find_commands(project, base)[1]
        check_trust(project, base, EnvironmentKind.LOCAL, sources)

    def read(self, fix: Fix) -> tuple[JsonObject, Measured]:
        """Return the row of a commit with what was measured of it before."""
        row = self._row_of(fix)
        conditions = conditions_of(row, self.settings.tests.timeout)
        measured = Measured.of_file(self._file(fix), "a measurement", _FIX)
        if measured is None or measured.conditions != conditions:
            measured = Measured(conditions=conditions)
        return row, measured

    def _file(self, fix: Fix) -> Path:
        return self.evaluator.folder / f"{fix.commit}.json"

    def measure(self, fix: Fix) -> tuple[JsonObject, Measured]:
        """Return a row with what is known of it; only what is missing is measured."""
        row, measured = self.read(fix)
        measured = measured.but(outcome=None, problem="")
        started = time.monotonic()
        task = trial_task(row, "gold")
        mirrors = Mirrors(self.repository.mirrors)
        environment = replace(self.evaluator.environment, check=self.stop.check)
        try:
            self.check_trust(fix.base)
            with self.evaluator.open_tests(task, mirrors, environment) as tests:
                measured = self._run(row, tests, measured)
        except InfrastructureError as error:
            outcome = MineOutcome.NOT_MEASURED
            return row, measured.but(outcome=outcome, problem=str(error))
        except (UnavailableError, UserError) as error:
            measured = measured.but(outcome=MineOutcome.SETUP, problem=str(error))
        seconds = measured.seconds + time.monotonic() - started
        measured = measured.but(seconds=round(seconds, 1))
        write_json_atomic(self._file(fix), measured.as_json())
        return row, measured

    def _row_of(self, fix: Fix) -> JsonObject:
        """Return the row of a commit, without the tests that decide."""
        base = at_commit(self.repository, fix.base)
        commands = find_commands(self.settings.project, base)[0]
        python = commands.python or _python_of_day(base)
        commands = commands.model_copy(update={"image": "", "python": python})
        name = base.name.replace("/", "__")
        return {
            # By a part of the commit's own hash the fix could be looked up.
            "instance_id": f"{name}-{sha256_of(fix.commit)[:8]}",
            "repo": base.name,
            "base_commit": base.commit,
            "problem_statement": fix.statement.text,
            "version": base.version,
            "created_at": fix.landed,
            COMMANDS: commands.model_dump(mode="json"),
            "patch": fix.patch,
            "test_patch": fix.test_patch,
            "FAIL_TO_PASS": "[]",
            "PASS_TO_PASS": "[]",
            "hints_text": "",
            "mined": {
                "commit": fix.commit,
                "statement": fix.statement.source,
                "removed": fix.statement.removed,
                "left_out": fix.left_out,
                "unnamed": fix.unnamed,
                "flaky": [],
            },
        }

    def _run(self, row: JsonObject, tests: HiddenTests, measured: Measured) -> Measured:
        """Run the tests as often as is missing, then have the row judged."""
        measured = measured.but(trials=InstanceTrials())
        for number in range(len(measured.gold), self.settings.mine.repeat):
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
        trials = InstanceTrials(versions=versions())
        for kind in ("empty", "gold"):
            judged = replace(tests, task=trial_task(row, kind))
            trial = Trial.of(self.evaluator.judge(judged))
            trials = trials.but(**{kind: (trial,)})
        return measured.but(trials=judge_trials(trials, 1))


def _python_of_day(base: OwnRepository) -> str:
    """Return a Python of this machine that packages of the base's day are made for.

    There is one each October, 3.8 in 2019, and packages for it by the year's end. Empty for the
    one that runs now, if it is old enough, or where there is none.
    """
    show = ("log", "-1", "--format=%cd", "--date=format:%Y", base.commit)
    newest = int(git(*show, cwd=base.mirror)) - 2012
    if sys.version_info.minor <= newest:
        return ""
    for minor in range(newest, 5, -1):
        if find_python(f"3.{minor}"):
            return f"3.{minor}"
    return ""
