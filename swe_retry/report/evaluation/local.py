"""The unofficial evaluator: tests in the local environment, graded by swebench's own functions.

Packages and the system differ from those of the official images, so verdicts may differ too.
"""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import some
from swe_retry.core.processes import CommandResult
from swe_retry.core.shutdown import Shutdown
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import Session, UnavailableError, run_once
from swe_retry.environments.local.environment import LocalEnvironment
from swe_retry.frameworks import OF_PYTHON, Runner, runner_of
from swe_retry.record.patches import is_test_path
from swe_retry.report.evaluation.evaluator import (
    INCOMPLETE,
    EvaluationTask,
    Evaluator,
    Tasks,
    tests_ended,
)
from swe_retry.report.evaluation.grading import (
    grade_output,
    grade_results,
    output_for_log,
    unconfirmed_tests,
    unresolve,
)
from swe_retry.report.evaluation.proofs import prove
from swe_retry.report.evaluation.trees import PatchError, apply_patch
from swe_retry.repositories.checkout import Checkout, make_checkout
from swe_retry.repositories.mirrors import Mirrors, add_submodules, mirrors_of
from swe_retry.repositories.snapshot import Snapshot
from swe_retry.results.verdicts import Verdict, VerdictStatus
from swe_retry.runner.session import Once
from swe_retry.testing.baselines import TestFiles
from swe_retry.testing.origins import Statements, doubt, shadowing, split_statements
from swe_retry.testing.project import project_of, snapshot_of
from swe_retry.testing.related import directive
from swe_retry.testing.testconfig import TestCommand, tree_under_test
from swe_retry.testing.testlogs import TestRun, split_report, with_report_file

# swebench reads no results from an output with these words.
_TIMED_OUT = ">>>>> Tests Timed Out"


class LocalEvaluator(Evaluator):
    """Evaluates in the local environment, in threads."""

    @cached_property
    def environment(self) -> LocalEnvironment:
        cache = self.settings.folders.cache
        return LocalEnvironment(cache / "environments", Once(self.say))

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        folders = self.settings.folders
        stop = Shutdown()
        mirrors = mirrors_of(self.dataset, folders.cache, folders.repos)
        mirrors = replace(mirrors, check=stop.check)
        environment = replace(self.environment, check=stop.check)
        evaluate = partial(self._evaluate, mirrors=mirrors, environment=environment)
        workers = self.settings.evaluation.workers
        with ThreadPoolExecutor(workers, "evaluation") as pool:
            futures = [pool.submit(evaluate, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                stop.request("the evaluation ends")
                pool.shutdown(cancel_futures=True)
                raise

    @cached_property
    def _unproven(self) -> dict[str, str]:
        """By id, why this command found no proof of the gold patch."""
        return {}

    def _evaluate(
        self,
        task: EvaluationTask,
        mirrors: Mirrors,
        environment: LocalEnvironment,
    ) -> Verdict:
        hidden = task.evaluation
        if not (hidden.fail_to_pass and hidden.test_patch and hidden.patch):
            return task.no_result(
                "the row has no FAIL_TO_PASS, test_patch or gold patch, so it cannot be evaluated"
            )
        try:
            with self.open_tests(task, mirrors, environment) as tests:
                return self.judge(tests)
        except (UnavailableError, InfrastructureError) as error:
            return task.no_result(str(error))

    @contextmanager
    def open_tests(
        self,
        task: EvaluationTask,
        mirrors: Mirrors,
        environment: LocalEnvironment,
    ) -> Iterator[HiddenTests]:
        """Yield the hidden tests of a task, in an environment that is set up for them."""
        cache = self.settings.folders.cache
        instance = task.instance
        work = cache / "work"
        work.mkdir(parents=True, exist_ok=True)
        prefix = f"{task.instance_id}.eval."
        folder = Path(tempfile.mkdtemp(dir=work, prefix=prefix))
        try:
            snapshot = snapshot_of(instance, mirrors, cache / "snapshots")
            base = make_checkout(snapshot, folder / "base")
            if instance.commands:
                mirror = mirrors.get(instance.repo, instance.base_commit)
                add_submodules(mirror, base)
            project = project_of(instance, base, mirrors)
            session = environment.start(project)
            try:
                timeout = self.settings.evaluation.timeout
                yield HiddenTests(task, session, snapshot, folder, timeout)
            finally:
                session.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def judge(self, tests: HiddenTests) -> Verdict:
        """Return the verdict that is certain by what the gold patch does here.

        Raises:
            UnavailableError: nothing is certain here.
        """
        task = tests.task
        verdict = tests.evaluate(task.prediction.patch)
        unconfirmed = unconfirmed_tests(verdict)
        is_certain = not unconfirmed if verdict.resolved else task.is_trial
        if is_certain:
            return verdict
        row = json.dumps(task.evaluation.row, sort_keys=True, default=str)
        limits = asdict(self.environment.limits)
        conditions = {
            "row_sha256": sha256_of(row),
            "environment": tests.session.identity,
            "limits": {"seconds": tests.timeout, **limits},
            "swebench": version("swebench"),
        }
        evaluate = partial(tests.evaluate, task.evaluation.patch)
        path = self.folder / "gold" / f"{task.instance_id}.json"
        proof = prove(path, conditions, self._unproven, evaluate)
        lost = sorted(unconfirmed.difference(proof.not_reported_as_passed))
        if verdict.resolved and lost:
            reason = f"not reported as passed, as with the gold patch: {some(lost, 3)}"
            return unresolve(verdict, reason, lost)
        return verdict


@dataclass(frozen=True)
class HiddenTests:
    """The hidden tests of one instance in one session; checkouts are made in ``folder``."""

    task: EvaluationTask
    session: Session
    snapshot: Snapshot
    folder: Path
    timeout: float

    def evaluate(self, patch: str) -> Verdict:
        """Evaluate a patch; if it is resolved, also without edits of test configuration.

        An edited ``conftest.py`` or ``addopts`` can make any test pass.
        """
        checkout = self._make_checkout()
        try:
            changes = apply_patch(checkout, patch)
        except PatchError as error:
            name = "gold" if patch == self.task.evaluation.patch else "predicted"
            return self.task.verdict(
                VerdictStatus.UNRESOLVED,
                f"the {name} patch does not apply: {error}",
            )
        command = TestCommand()
        if self._own_tests:
            command = self._own_tests.configuration
        base = self.snapshot.blobs
        tree = tree_under_test(changes, base, checkout.read_base, command)
        edits = [path for path in tree.configuration if path not in self._test_files]
        # With other configuration a run need not state what the base commit's run does.
        verdict = self._run(changes, compare_with_base=not edits)
        if not verdict.resolved or not edits:
            return verdict
        changes = {path: changes[path] for path in changes if path not in edits}
        second = self._run(changes, compare_with_base=True)
        files = some(list(map(ascii, edits)), 3)
        if not second.resolved:
            reason = f"resolved only with its edits of test configuration in {files}"
            return second.but(reason=reason)
        reason = f"with and without its edits of test configuration in {files}"
        if verdict.reason:
            reason = f"{verdict.reason}; {reason}"
        return second.but(reason=reason)

    def run_patch(
        self, patch: str, *, reverse: bool = False
    ) -> tuple[CommandResult, TestRun]:
        """Run the tests on the base commit with a patch, their files in reversed order if asked.

        Raises:
            UnavailableError: the patch or that of the tests does not apply.
        """
        try:
            changes = apply_patch(self._make_checkout(), patch)
        except PatchError as error:
            raise UnavailableError(f"the patch does not apply: {error}") from error
        token = secrets.token_hex(16)
        changes = {**changes, **self._test_files}
        return self._test(changes, token, reverse=reverse)

    def _make_checkout(self) -> Checkout:
        folder = tempfile.mkdtemp(dir=self.folder)
        return make_checkout(self.snapshot, Path(folder, "tree"))

    @cached_property
    def _test_files(self) -> Changes:
        """The files of the test patch, as they are at the base commit with it.

        swebench checks them out before it applies the test patch, whatever a prediction made of
        them.
        """
        try:
            patch = self.task.evaluation.test_patch
            return apply_patch(self._make_checkout(), patch, tries=1)
        except PatchError as error:
            raise UnavailableError(
                f"the row's test patch does not apply: {error}"
            ) from error

    @cached_property
    def _own_tests(self) -> TestFiles | None:
        """What runs the tests of one's own repository; None for a task set."""
        instance = self.task.instance
        if instance.commands is None:
            return None
        base = self._make_checkout()
        command = self.session.test_command
        tests = TestFiles.of(instance, command, self.snapshot.blobs, base.read_base)
        return tests.with_files(self._test_files)

    @cached_property
    def _runner(self) -> Runner | None:
        if self._own_tests:
            return self._own_tests.runner
        return runner_of(self.session.test_command)

    def _run(self, changes: Changes, *, compare_with_base: bool) -> Verdict:
        changes = {**changes, **self._test_files}
        token = secrets.token_hex(16)
        result, run = self._test(changes, token)
        if result.timed_out:
            return self.task.verdict(
                VerdictStatus.UNRESOLVED,
                f"the tests did not end within {self.timeout:.0f} s",
                log=output_for_log(f"{run.log}\n{_TIMED_OUT}", token),
            )
        if not tests_ended(result.exit_code):
            raise UnavailableError(INCOMPLETE)
        if self._own_tests:
            verdict = grade_results(self.task, run.results).but(log=run.log)
        else:
            code = result.exit_code
            verdict = grade_output(self.task, run.log, token, run.stated, code)
        if not verdict.resolved or not compare_with_base:
            return verdict
        if self._runner not in OF_PYTHON:
            return verdict
        base = self._base_statements
        reason = doubt(base, run.stated, run.report)
        if reason:
            # Where tests do not even load without the fix, the run of the base states little.
            reason = doubt(self._gold_statements, run.stated, run.report)
        for path in shadowing(changes, self.snapshot.blobs, base):
            reason = f"{path} hides a module"
            break
        if not reason:
            return verdict
        return unresolve(verdict.but(log=f"{verdict.log}{reason}"), reason)

    @cached_property
    def _base_statements(self) -> Statements:
        """What a run of these tests on the base commit states of its modules."""
        options = [""]
        if self._runner is Runner.PYTEST:
            # A bug may keep the tests of the base commit from ending.
            options.append(" --collect-only")
        for option in options:
            token = secrets.token_hex(16)
            statements = self._test(self._test_files, token, option)[1].stated
            if "end" in statements:
                return statements
        raise UnavailableError(
            "the base commit's run does not state where its modules come from"
        )

    @cached_property
    def _gold_statements(self) -> Statements:
        """What the run of the gold patch states of its modules."""
        return self.run_patch(self.task.evaluation.patch)[1].stated

    def _test(
        self, changes: Changes, token: str, option: str = "", *, reverse: bool = False
    ) -> tuple[CommandResult, TestRun]:
        if self._own_tests:
            paths = sorted(self._test_files, reverse=reverse)
            return self._own_tests.run_in_order(
                self.session, changes, paths, self.timeout, option
            )
        command = self.session.test_command
        if self._runner:
            for path, data in self._test_files.items():
                # Data files and deleted tests cannot be run.
                if data is not None and path.endswith(".py") and is_test_path(path):
                    command += f" {shlex.quote(directive(self._runner, path))}"
            command = with_report_file(f"{command}{option}", self._runner, token)
        result = run_once(self.session, changes, command, self.timeout)
        output, stated = split_statements(result.output, token)
        report = split_report(output, token)[1]
        return result, TestRun(output, {}, stated=stated, report=report)
