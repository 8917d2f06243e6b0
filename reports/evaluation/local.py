"""The unofficial evaluator: tests in the local environment, graded by swebench's own functions.

Packages and the system differ from those of the official images, so verdicts may differ too.
"""

from __future__ import annotations

import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from agent.workspace import UnsafePathError, Workspace
from bench.instances.project import project_of, snapshot_of
from bench.regression.related import directive
from bench.regression.runners import OF_PYTHON, Runner, runner_of
from bench.regression.statements import (
    Statements,
    doubt,
    shadowing,
    split_statements,
)
from bench.regression.testconfig import may_configure_tests, tree_under_test
from bench.regression.testlogs import split_report, with_report_file
from bench.repos.checkout import (
    Checkout,
    Snapshot,
    Snapshots,
    make_checkout,
)
from bench.repos.mirrors import Mirrors, mirrors_of
from core.errors import InfrastructureError
from core.git import git, git_result, split_paths
from core.plaintext import some
from core.processes import CommandResult
from core.shutdown import Shutdown
from core.worktree import Changes
from environments.base import Session, UnavailableError, run_once
from environments.local.buildsteps import error_line
from environments.local.environment import LocalEnvironment
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluator import (
    INCOMPLETE,
    EvaluationTask,
    Evaluator,
    Tasks,
    tests_ended,
)
from reports.evaluation.grading import grade_output, output_for_log
from reports.evaluation.settings import EvaluatorKind
from runs.patches import is_test_path, patch_paths
from runs.session import Once

# swebench reads no results from an output with these words.
_TIMED_OUT = ">>>>> Tests Timed Out"


class PatchError(Exception):
    """A patch does not apply."""


class LocalEvaluator(Evaluator):
    """Evaluates in the local environment, in threads."""

    @cached_property
    def environment(self) -> LocalEnvironment:
        cache = self.settings.folders.cache
        return LocalEnvironment(cache / "environments", Once(self.say))

    def evaluate(
        self,
        tasks: Tasks,
        run_id: str,
    ) -> Iterator[Verdict]:
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

    def _evaluate(
        self,
        task: EvaluationTask,
        mirrors: Mirrors,
        environment: LocalEnvironment,
    ) -> Verdict:
        work = self.settings.folders.cache / "work"
        work.mkdir(parents=True, exist_ok=True)
        prefix = f"{task.instance_id}.eval."
        folder = Path(tempfile.mkdtemp(dir=work, prefix=prefix))
        try:
            return self._verdict(task, mirrors, environment, folder)
        except PatchError as error:
            return task.verdict(self.name, VerdictStatus.UNRESOLVED, str(error))
        except (UnavailableError, InfrastructureError) as error:
            return self.no_result(task, str(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _verdict(
        self,
        task: EvaluationTask,
        mirrors: Mirrors,
        environment: LocalEnvironment,
        folder: Path,
    ) -> Verdict:
        hidden = task.evaluation
        if not hidden.fail_to_pass or not hidden.test_patch:
            raise UnavailableError(
                "the row has no FAIL_TO_PASS or no test_patch, so it cannot be evaluated"
            )
        snapshots = Snapshots(self.settings.folders.cache / "snapshots")
        snapshot = snapshot_of(task.instance, mirrors, snapshots)
        base = make_checkout(snapshot, folder / "base")
        project = project_of(task.instance, base, mirrors)
        session = environment.start(project)
        try:
            timeout = self.settings.evaluation.timeout
            tests = HiddenTests(task, session, snapshot, folder, timeout)
            return tests.verdict(base)
        finally:
            session.stop()


@dataclass(frozen=True)
class HiddenTests:
    """The hidden tests of one instance in one session; checkouts are made in ``folder``."""

    task: EvaluationTask
    session: Session
    snapshot: Snapshot
    folder: Path
    timeout: float

    def verdict(self, base: Checkout) -> Verdict:
        """Evaluate the predicted tree; an environment that cannot resolve it gives no verdict."""
        verdict = self._compare_trees(base)
        if verdict.status is not VerdictStatus.UNRESOLVED or verdict.reason:
            return verdict
        problem = self._environment_problem()
        if problem:
            return verdict.but(status=VerdictStatus.NOT_EVALUATED, reason=problem)
        return verdict

    def _environment_problem(self) -> str:
        """Return why this environment does not resolve the gold patch; empty if it does."""
        hidden = self.task.evaluation
        predicted = self.task.prediction.patch
        if self.task.is_trial or not predicted or not hidden.patch:
            return ""
        base = make_checkout(self.snapshot, self.folder / "gold")
        try:
            changes = apply_patches(base, [hidden.patch, hidden.test_patch])
        except PatchError:
            return ""
        verdict = self._run(changes, compare_with_base=False)
        if verdict.status is VerdictStatus.RESOLVED:
            return ""
        cause = verdict.reason or error_line(verdict.log)
        return f"the gold patch is not resolved in this environment either: {cause}"

    def _compare_trees(self, base: Checkout) -> Verdict:
        """Evaluate the predicted tree; if resolved, also without edits of test configuration.

        An edited ``conftest.py`` or ``addopts`` can make any test pass.
        """
        patch = self.task.prediction.patch
        test_patch = self.task.evaluation.test_patch
        edits: Sequence[str] = ()
        if any(map(may_configure_tests, patch_paths(patch))):
            restored = make_checkout(self.snapshot, self.folder / "restored")
            edits = apply_without_configuration(restored, patch)
        # With other configuration a run need not state what the base commit's run does.
        changes = apply_patches(base, [patch, test_patch])
        verdict = self._run(changes, compare_with_base=not edits)
        if verdict.status is not VerdictStatus.RESOLVED or not edits:
            return verdict
        changes = apply_patches(restored, [test_patch])
        second = self._run(changes, compare_with_base=True)
        files = some(list(map(ascii, edits)), 3)
        if second.status is not VerdictStatus.RESOLVED:
            reason = f"resolved only with its edits of test configuration in {files}"
            return second.but(reason=reason)
        reason = f"with and without its edits of test configuration in {files}"
        if verdict.reason:
            reason = f"{verdict.reason}; {reason}"
        return second.but(reason=reason)

    @cached_property
    def _runner(self) -> Runner | None:
        return runner_of(self.session.test_command)

    def _run(
        self,
        changes: Changes,
        *,
        compare_with_base: bool,
    ) -> Verdict:
        token = secrets.token_hex(16)
        result = self._test(changes, token)
        output, statements = split_statements(result.output, token)
        if result.timed_out:
            return self.task.verdict(
                EvaluatorKind.LOCAL.value,
                VerdictStatus.UNRESOLVED,
                f"the tests did not end within {self.timeout:.0f} s",
                log=output_for_log(f"{output}\n{_TIMED_OUT}", token),
            )
        if not tests_ended(result.exit_code):
            raise UnavailableError(INCOMPLETE)
        verdict = grade_output(self.task, output, token, statements)
        if verdict.status is not VerdictStatus.RESOLVED or not compare_with_base:
            return verdict
        if self._runner not in OF_PYTHON:
            return verdict
        base = self._base_statements
        reason = doubt(base, statements, split_report(output, token)[1])
        for path in shadowing(changes, self.snapshot.blobs, base):
            reason = f"{path} hides a module"
            break
        if not reason:
            return verdict
        log = f"{verdict.log}{reason}"
        return verdict.but(
            status=VerdictStatus.UNRESOLVED,
            reason=reason,
            log=log,
        )

    @cached_property
    def _base_statements(self) -> Statements:
        """What a run of these tests on the base commit states of its modules."""
        base = make_checkout(self.snapshot, self.folder / "plain")
        changes = apply_patches(base, [self.task.evaluation.test_patch])
        options = [""]
        if self._runner is Runner.PYTEST:
            # A bug may keep the tests of the base commit from ending.
            options.append(" --collect-only")
        for option in options:
            token = secrets.token_hex(16)
            result = self._test(changes, token, option)
            statements = split_statements(result.output, token)[1]
            if "end" in statements:
                return statements
        raise UnavailableError(
            "the base commit's run does not state where its modules come from"
        )

    def _test(
        self,
        changes: Changes,
        token: str,
        option: str = "",
    ) -> CommandResult:
        command = self.session.test_command
        if self._runner:
            for path in patch_paths(self.task.evaluation.test_patch):
                # Data files and deleted tests cannot be run.
                is_test = path.endswith(".py") and is_test_path(path)
                if is_test and changes.get(path) is not None:
                    command += f" {shlex.quote(directive(self._runner, path))}"
            command = with_report_file(f"{command}{option}", self._runner, token)
        return run_once(self.session, changes, command, self.timeout)


def apply_patches(
    checkout: Checkout,
    patches: Sequence[str],
) -> Changes:
    """Apply ``patches`` in order to a checkout and return the changed files."""
    root = checkout.root
    for patch in patches:
        data = patch.encode("utf-8", "surrogateescape")
        result = git_result("apply", "--whitespace=nowarn", "-", cwd=root, stdin=data)
        if result.returncode:
            lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = lines[0] if lines else "no reason given"
            raise PatchError(f"the patch does not apply: {reason}")
    git("add", "--all", "--force", ".", cwd=root)
    options = ("--cached", "--name-only", "--no-renames", "-z", "HEAD")
    changes = {}
    for path in split_paths(git("diff", *options, cwd=root)):
        file = root / path
        changes[path] = file.read_bytes() if file.is_file() else None
    return changes


def apply_without_configuration(
    checkout: Checkout,
    patch: str,
) -> Sequence[str]:
    """Apply ``patch`` but for its edits of test configuration; return the restored files."""
    changes = apply_patches(checkout, [patch])
    files = checkout.tracked_files()
    tree = tree_under_test(changes, files, checkout.read_base)
    for path in tree.configuration:
        data = tree.changes.get(path)
        blob = checkout.snapshot.blobs.get(path)
        if data is None and blob:
            data = git("cat-file", "blob", blob, cwd=checkout.root)
        try:
            file = Workspace(checkout.root).check(path)
            if data is None:
                file.unlink(missing_ok=True)
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        except (UnsafePathError, OSError) as error:
            raise PatchError(
                f"the base commit's {path} cannot be put back: {error}"
            ) from error
    return tree.configuration
