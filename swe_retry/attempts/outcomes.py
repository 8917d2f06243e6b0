"""How the tree that an agent left becomes a candidate with outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from swe_retry.agent.conversation.limits import ConversationLimits
from swe_retry.agent.conversation.result import Ending, Result
from swe_retry.agent.conversation.testreport import TestReport
from swe_retry.agent.conversation.testreport import describe as describe_failures
from swe_retry.agent.lint.findings import Change
from swe_retry.agent.lint.findings import describe as describe_findings
from swe_retry.agent.prompts import render
from swe_retry.agent.protocol import AgentResult
from swe_retry.agent.workspace import TextFile
from swe_retry.attempts.prepare import InstanceTools
from swe_retry.attempts.trees import (
    Examination,
    examine_patch,
    files_in_submodules,
)
from swe_retry.core.git import git
from swe_retry.core.plaintext import Say, some
from swe_retry.core.worktree import Changes
from swe_retry.record.patches import submittable_patch
from swe_retry.record.records import BROKEN_STATUSES, Attempt, AttemptStatus
from swe_retry.record.status_rule import status_by
from swe_retry.repositories.checkout import Checkout
from swe_retry.repositories.lefttree import UnusableTreeError, prepare_left_tree
from swe_retry.repositories.patches import take_patch
from swe_retry.testing.suite import SuiteReport
from swe_retry.testing.testconfig import ConfigurationEdits, TestCommand

_MAX_NAMES = 3
_STATUSES_OF_ENDINGS = {
    Ending.REFUSED: AttemptStatus.ERROR,
    Ending.CONTEXT: AttemptStatus.CONTEXT,
    Ending.BUDGET: AttemptStatus.BUDGET,
    Ending.LIMIT: AttemptStatus.LIMIT,
    Ending.TIME: AttemptStatus.TIMEOUT,
    Ending.FAILED: AttemptStatus.ERROR,
}


@dataclass
class TreeChecks:
    """Lints and tests the trees of one attempt.

    Attributes:
        before_tests: called before each run of the tests.
        reports: what the tests said of each tree, in their order.
    """

    checkout: Checkout
    tools: InstanceTools
    before_tests: Callable[[], None]
    reports: list[SuiteReport] = field(default_factory=list)

    def run_tests(self, changes: Changes) -> TestReport:
        """Run the tests on the tree with ``changes``; without tests nothing is known."""
        tests = self.tools.tests
        if tests is None:
            return TestReport(None)
        self.before_tests()
        report = tests.run(changes)
        self.reports.append(report)
        return report

    def check_tree(self) -> Result:
        """Return the outcomes: changed at all, no new fatal finding, no newly failing test.

        ``prepare_left_tree`` must have prepared the tree.
        """
        changes = changes_of(self.checkout)
        edited = None
        clean = None
        passed = None
        if changes:
            edited = True
            clean = not self.tools.linter.new_findings(self._changed_texts(changes))
        if clean:
            passed = self.run_tests(changes).outcome
        return Result(
            ending=Ending.DONE,
            edit=edited,
            lint=clean,
            test=passed,
            chat_files=(),
            edited_files=tuple(changes),
            reflections=0,
        )

    def describe_problem(self) -> str:
        """Return what is wrong with the tree that an agent left, as a message for it."""
        try:
            prepare_left_tree(self.checkout)
        except UnusableTreeError:
            return ""
        changes = changes_of(self.checkout)
        texts = self._changed_texts(changes)
        findings = self.tools.linter.new_findings(texts)
        if findings:
            after = {change.path: change.after for change in texts if change.after}
            return render("lint_failed", findings=describe_findings(findings, after))
        if not changes:
            return ""
        report = self.run_tests(changes)
        if report.outcome is not False:
            return ""
        if report.message:
            return report.message
        return render("tests_failed", report=describe_failures(report.failures, ()))

    def _changed_texts(self, changes: Changes) -> list[Change]:
        texts = []
        for path, data in changes.items():
            if data is not None:
                before = self.checkout.read_base(path)
                texts.append(Change(path, before, TextFile.decode(data).text))
        return texts


def check_outcomes(
    attempt: Attempt,
    work: AgentResult,
    checks: TreeChecks,
    limits: ConversationLimits,
    log: Say,
) -> Attempt:
    """Return the attempt with the patch and the outcomes of the tree that its agent left."""
    checkout = checks.checkout
    is_builtin = work.result is not None
    try:
        dropped = () if is_builtin else prepare_left_tree(checkout)
    except UnusableTreeError as error:
        status = status_of_ending(work.ending or Ending.FAILED, limits)
        return attempt.but(
            status=status or AttemptStatus.ERROR,
            error=_join_notes(work.error, str(error)),
        )
    for file in dropped:
        log(f"dropped: {file}")
    result = work.result or checks.check_tree()
    # The tree of an outside agent counts as its commit would: without ignored files.
    raw = take_patch(checkout, ignored=is_builtin)
    submittable = submittable_patch(raw)
    report = SuiteReport(None, untested=checks.tools.untestable)
    tested = None
    # Lint comes before tests, so that none ran on the last tree where it is not clean.
    if checks.reports and result.lint:
        report = checks.reports[-1]
        tested = report.tested
    tests = checks.tools.tests
    command = tests.test_files.configuration if tests else TestCommand()
    examination = examine_patch(checkout, raw, submittable.patch, tested, command)
    test_outcome = result.test
    if tested is None or examination.differing:
        test_outcome = None
    untested = ""
    if test_outcome is None:
        untested = report.untested
    configures = examination.edits is not ConfigurationEdits.NONE
    checked = attempt.but(
        model_patch=raw,
        applies=examination.applies,
        edit_outcome=result.edit,
        lint_outcome=result.lint,
        test_outcome=test_outcome,
        untested=untested,
        test_note=report.note,
        newly_passing=report.newly_passing,
        edits_test_configuration=configures,
        tests_doubted=report.suspect,
        dropped_files=(*(file.path for file in dropped), *submittable.dropped),
        added_files=result.chat_files,
        edited_files=result.edited_files,
        reflections=result.reflections,
        failing=tuple(failure.name for failure in report.failures),
        error=_join_notes(
            work.error, _describe_faults(examination, files_in_submodules(checkout))
        ),
    )
    overriding = status_of_ending(work.ending or result.ending, limits)
    return checked.but(
        status=status_by(checked, _overriding_status(examination, overriding))
    )


def status_of_ending(
    ending: Ending, limits: ConversationLimits
) -> AttemptStatus | None:
    """Return the status of a conversation that did not end by its outcomes."""
    if ending is Ending.REPLAY_EXHAUSTED and not limits.until_exhausted:
        return AttemptStatus.REPLAY_EXHAUSTED
    return _STATUSES_OF_ENDINGS.get(ending)


def _overriding_status(
    examination: Examination,
    early: AttemptStatus | None,
) -> AttemptStatus | None:
    """Return the status of a patch that is never plausible, else how the conversation ended."""
    if early in BROKEN_STATUSES or not examination.applies:
        return early
    if examination.differing:
        return AttemptStatus.TREE_DIFFERS
    if examination.edits is ConfigurationEdits.ALL:
        return AttemptStatus.ONLY_TEST_CONFIGURATION
    return early


def _describe_faults(examination: Examination, submodule_files: Sequence[str]) -> str:
    """Return in words what is wrong with a tree."""
    submodules = ""
    if submodule_files:
        submodules = f"not predicted, in a submodule: {_path_list(submodule_files)}"
    differing = ""
    if examination.differing:
        names = _path_list(examination.differing)
        differing = f"the tested tree is not the predicted one: {names}"
    return _join_notes(submodules, differing)


def _path_list(paths: Sequence[str]) -> str:
    return some(list(map(ascii, paths)), _MAX_NAMES)


def _join_notes(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def changes_of(checkout: Checkout) -> Changes:
    """Return the present bytes of every file that differs from the base commit, by path, sorted.

    New files that the tree ignores are left out; a file that became a link counts as gone.
    """
    root = checkout.root
    git("add", "--all", ".", cwd=root)
    argv = ("diff", "--cached", "--name-status", "--no-renames", "-z")
    listing = git(*argv, checkout.base_commit, cwd=root)
    fields = listing.decode("utf-8", "surrogateescape").split("\0")
    statuses = dict(zip(fields[1::2], fields[::2], strict=False))
    changes: dict[str, bytes | None] = {}
    for path in sorted(statuses):
        file = root / path
        changes[path] = None
        if statuses[path] != "D" and file.is_file() and not file.is_symlink():
            changes[path] = file.read_bytes()
    return changes
