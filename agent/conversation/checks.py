"""Check the workspace of a conversation: lint and tests, and what the model is told of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swe_retry.agent.conversation.limits import Topic
from swe_retry.agent.conversation.result import CheckOutcome
from swe_retry.agent.conversation.setup import ConversationSetup
from swe_retry.agent.conversation.testreport import Failure, TestReport, describe
from swe_retry.agent.lint.findings import Change, Finding
from swe_retry.agent.lint.findings import describe as describe_findings
from swe_retry.agent.prompts import render
from swe_retry.agent.workspace import Workspace
from swe_retry.core.worktree import Changes


@dataclass
class ConversationChecks:
    """Checks one workspace, and keeps the failures that the model has seen.

    Attributes:
        new_findings: returns those of the linter in changed files.
        run_tests: runs the tests on the tree with these changes.
        setup: whether to lint, and whether to test unedited trees.
    """

    workspace: Workspace
    new_findings: Callable[[Sequence[Change]], tuple[Finding, ...]]
    run_tests: Callable[[Changes], TestReport]
    setup: ConversationSetup
    _lint_cache: tuple[list[Change], tuple[Finding, ...]] = ([], ())
    _test_report: TestReport | None = None
    _reported_failures: tuple[Failure, ...] = ()

    def discard_results(self) -> None:
        """Discard the test results: the tree has changed, or is to be tested again."""
        self._test_report = None

    def problem(self) -> tuple[Topic, str] | None:
        """Return the next problem as a message with its topic; None without a problem."""
        findings = self._findings()
        if findings:
            read = self.workspace.read
            texts = {finding.path: read(finding.path) or "" for finding in findings}
            description = describe_findings(findings, texts)
            return Topic.LINT, render("lint_failed", findings=description)
        report = self._test(unedited=self.setup.test_unedited)
        if report.outcome is not False:
            return None
        if report.message:
            return Topic.TEST, report.message
        text = describe(report.failures, self._reported_failures)
        self._reported_failures = report.failures
        return Topic.TEST, render("tests_failed", report=text)

    def outcomes(self, *, unedited: bool = False) -> tuple[CheckOutcome, CheckOutcome]:
        """Return the outcomes of lint and tests; runs the tests if they have not run yet.

        Args:
            unedited: run them on a tree without edits, too.
        """
        lint_outcome = None
        if self.setup.lint and self.workspace.originals:
            lint_outcome = not self._findings()
            if not lint_outcome:
                return False, None
        return lint_outcome, self._test(unedited=unedited).outcome

    def _findings(self) -> tuple[Finding, ...]:
        if not self.setup.lint:
            return ()
        changes = []
        for path in sorted(self.workspace.edited_files()):
            after = self.workspace.read(path)
            if after is not None:
                before = self.workspace.original(path)
                changes.append(Change(path, before, after))
        if changes != self._lint_cache[0]:
            self._lint_cache = changes, self.new_findings(changes)
        return self._lint_cache[1]

    def _test(self, *, unedited: bool) -> TestReport:
        if not self._test_report:
            report = TestReport(None)
            if unedited or self.workspace.edited_files():
                report = self.run_tests(self._changes())
            self._test_report = report
        return self._test_report

    def _changes(self) -> Changes:
        changes: dict[str, bytes | None] = {}
        for path in self.workspace.originals:
            file = self.workspace.root / path
            changes[path] = None
            if file.is_file():
                changes[path] = file.read_bytes()
        return changes
