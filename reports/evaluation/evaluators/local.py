"""The unofficial evaluator: tests in the local environment, graded by swebench's own functions.

Packages and the system differ from those of the official images, so verdicts may differ too.
"""

from __future__ import annotations

import secrets
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from agent.workspace import UnsafePathError, Workspace
from bench.instances.project import project_of, snapshot_of
from bench.regression.related import directives
from bench.regression.runners import OF_PYTHON, Runner, runner_of
from bench.regression.statements import Stated, doubt, shadowing, split_statements
from bench.regression.testconfig import may_configure_tests, tree_under_test
from bench.regression.testlogs import split_report, with_report_file
from bench.repos.checkout import Checkout, Snapshots, make_checkout
from bench.repos.mirrors import Mirrors
from core.errors import InfrastructureError
from core.git import git, git_result, split_paths
from core.plaintext import Say, some
from core.processes import CommandResult
from core.worktree import Changes
from environments.base import Environment, Session, UnavailableError, run_once
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask, Evaluator, Tasks
from reports.evaluation.evaluators.grading import grade_output, saved
from runs.patches import is_test_path, patch_paths

_TIMED_OUT = (
    ">>>>> Tests Timed Out"  # swebench reads no results from an output with these words
)


class PatchError(Exception):
    """A patch does not apply."""


@dataclass(frozen=True)
class LocalEvaluator(Evaluator):
    """Evaluates in the local environment, one prediction at a time."""

    environment: Environment
    mirrors: Mirrors
    snapshots: Snapshots
    work: Path
    timeout: float
    say: Say
    name: str = field(default="local", init=False)

    def prepare(self, tasks: Tasks) -> Mapping[str, str]:
        place = next(p for p in (self.work, *self.work.parents) if p.exists())
        self.say(f"disk: {shutil.disk_usage(place).free / 1e9:.0f} GB free at {place}")
        return {}

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        self.work.mkdir(parents=True, exist_ok=True)
        for task in tasks:
            name = task.instance_id
            folder = Path(tempfile.mkdtemp(dir=self.work, prefix=f"{name}.eval."))
            try:
                verdict = self._evaluated(task, folder)
            except PatchError as error:
                verdict = Verdict(
                    instance_id=name,
                    status=VerdictStatus.UNRESOLVED,
                    evaluator=self.name,
                    reason=str(error),
                )
            except (UnavailableError, InfrastructureError) as error:
                verdict = Verdict(
                    instance_id=name,
                    status=VerdictStatus.NOT_EVALUATED,
                    evaluator=self.name,
                    reason=str(error),
                )
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            yield verdict

    def _evaluated(self, task: EvaluationTask, folder: Path) -> Verdict:
        """Evaluate the predicted tree; if resolved, also without edits of test configuration.

        An edited ``conftest.py`` or ``addopts`` can make any test pass.
        """
        instance, row = task.instance, task.evaluation
        if not row.fail_to_pass or not row.test_patch:
            raise UnavailableError(
                "the row has no FAIL_TO_PASS or no test_patch, so it cannot be evaluated"
            )
        snapshot = snapshot_of(instance, self.mirrors, self.snapshots)
        base = make_checkout(snapshot, folder / "base")
        session = self.environment.start(project_of(instance, base))
        try:
            patches = [task.prediction.patch, row.test_patch]

            @cache
            def stated() -> Stated:
                plain = make_checkout(snapshot, folder / "plain")
                return self._base_states(task, session, patched(plain, patches[1:]))

            files, bare = base.tracked_files(), base
            edits: tuple[str, ...] = ()
            if any(map(may_configure_tests, patch_paths(patches[0]))):
                bare, edits = _without_edits(
                    make_checkout(snapshot, folder / "bare"), patches[0]
                )
            # With other configuration a run need not state what the base commit's run does.
            known = None if edits else stated
            verdict = self._run(task, session, patched(base, patches), files, known)
            if verdict.status is not VerdictStatus.RESOLVED or not edits:
                return verdict
            again = self._run(task, session, patched(bare, patches[1:]), files, stated)
            return _both(verdict, again, edits)
        finally:
            session.stop()

    def _run(
        self,
        task: EvaluationTask,
        session: Session,
        changes: Changes,
        files: Sequence[str],
        base: Callable[[], Stated] | None,
    ) -> Verdict:
        token = secrets.token_hex(16)
        result = self._tested(task, session, changes, token)
        output, stated = split_statements(result.output, token)
        if result.timed_out:
            log = saved(f"{output}\n{_TIMED_OUT}", token)
            reason = f"the tests did not end within {self.timeout:.0f} s"
            name = task.instance_id
            return Verdict(
                instance_id=name,
                status=VerdictStatus.UNRESOLVED,
                evaluator=self.name,
                reason=reason,
                log=log,
            )
        verdict = grade_output(task, output, token)
        python = runner_of(session.test_command) in OF_PYTHON
        if verdict.status is not VerdictStatus.RESOLVED or not python or base is None:
            return verdict
        shadows = [f"{p} hides a module" for p in shadowing(changes, files, base())]
        words = "".join(shadows[:1]) or doubt(
            base(), stated, split_report(output, token)[1]
        )
        if not words:
            return verdict
        log = f"{verdict.log}{words}"
        return verdict.but(status=VerdictStatus.UNRESOLVED, reason=words, log=log)

    def _tested(
        self,
        task: EvaluationTask,
        session: Session,
        changes: Changes,
        token: str,
        more: str = "",
    ) -> CommandResult:
        runner = runner_of(session.test_command)
        # Data files and deleted tests cannot be run.
        paths = [
            path
            for path in patch_paths(task.evaluation.test_patch)
            if path.endswith(".py")
        ]
        tests = [p for p in paths if is_test_path(p) and changes.get(p) is not None]
        names = (
            [shlex.quote(directives(runner, path)) for path in tests] if runner else []
        )
        command = " ".join([session.test_command, *names]) + more
        command = with_report_file(command, runner, token) if runner else command
        return run_once(session, changes, command, self.timeout)

    def _base_states(
        self, task: EvaluationTask, session: Session, changes: Changes
    ) -> Stated:
        # A bug may keep the tests of the base commit from ending.
        pytest = runner_of(session.test_command) is Runner.PYTEST
        for more in ("", " --collect-only") if pytest else ("",):
            token = secrets.token_hex(16)
            result = self._tested(task, session, changes, token, more)
            stated = split_statements(result.output, token)[1]
            if "end" in stated:
                return stated
        raise UnavailableError(
            "the base commit's run does not state where its modules come from"
        )


def _without_edits(fresh: Checkout, patch: str) -> tuple[Checkout, tuple[str, ...]]:
    """Apply ``patch`` to ``fresh``, restore test configuration, and return the restored files."""
    read = fresh.read_base
    made = tree_under_test(patched(fresh, [patch]), fresh.tracked_files(), read)
    for path in made.configuration:
        blob = fresh.snapshot.blobs.get(path)
        data = made.changes.get(path)
        if data is None and blob:
            data = git("cat-file", "blob", blob, cwd=fresh.root)
        try:
            place = Workspace(fresh.root).check(path)
            if data is None:
                place.unlink(missing_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        except (UnsafePathError, OSError) as error:
            raise PatchError(
                f"the base commit's {path} cannot be put back: {error}"
            ) from error
    return fresh, made.configuration


def _both(whole: Verdict, bare: Verdict, edits: Sequence[str]) -> Verdict:
    # ``whole``, with all edits, is resolved.
    files = some([ascii(edit) for edit in edits], 3)
    if bare.status is VerdictStatus.RESOLVED:
        words = f"with and without its edits of test configuration in {files}"
        return replace(bare, reason="; ".join(filter(None, (whole.reason, words))))
    return bare.but(
        reason=f"resolved only with its edits of test configuration in {files}"
    )


def patched(base: Checkout, patches: Sequence[str]) -> Changes:
    """Apply ``patches`` in order to ``base`` and return the changed files."""
    for patch in patches:
        data = patch.encode("utf-8", "surrogateescape")
        result = git_result(
            "apply", "--whitespace=nowarn", "-", cwd=base.root, stdin=data
        )
        if result.returncode:
            words = result.stderr.decode("utf-8", "replace").strip().splitlines()
            raise PatchError(
                f"the patch does not apply: {words[0] if words else 'no reason given'}"
            )
    git("add", "--all", "--force", ".", cwd=base.root)
    names = git(
        "diff", "--cached", "--name-only", "--no-renames", "-z", "HEAD", cwd=base.root
    )
    places = {path: base.root / path for path in split_paths(names)}
    return {path: p.read_bytes() if p.is_file() else None for path, p in places.items()}
