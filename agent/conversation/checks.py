"""Lint and test the tree after each edit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent import lint
from agent.conversation.outcomes import Outcome
from agent.conversation.reflections import Topic
from agent.conversation.testreport import Failure, TestReport, describe
from agent.prompts import render
from agent.workspace import Workspace


@dataclass
class Checks:
    """Checks one workspace, and keeps the failures that the model has seen.

    Attributes:
        run_tests: runs the tests on the current tree; None where none can run.
    """

    workspace: Workspace
    linter: lint.Linter = field(default_factory=lint.Linter)
    run_tests: Callable[[], TestReport] | None = None
    _linted: tuple[list[lint.Change], tuple[lint.Finding, ...]] = ([], ())
    _tested: TestReport | None = None
    _reported: tuple[Failure, ...] = ()

    def changed(self) -> None:
        """Discard the test results, because the tree has changed."""
        self._tested = None

    def problem(self) -> tuple[Topic, str] | None:
        """Return the next problem as a message with its topic; None without a problem."""
        if found := self._findings():
            texts = {finding.path: self.workspace.read(finding.path) or "" for finding in found}
            return Topic.LINT, render("lint_failed", findings=lint.describe(found, texts))
        report = self._test()
        if report.outcome is not False:
            return None
        text = describe(report.failures, self._reported)
        self._reported = report.failures
        return Topic.TEST, render("tests_failed", report=text)

    def outcomes(self) -> tuple[Outcome, Outcome]:
        """Return the outcomes of lint and tests; runs the tests if they have not run yet."""
        clean = not self._findings() if self.workspace.originals else None
        return clean, self._test().outcome if clean else None

    def _findings(self) -> tuple[lint.Finding, ...]:
        space = self.workspace
        changes = [
            lint.Change(path, space.original(path), after)
            for path in sorted(space.edited())
            if (after := space.read(path)) is not None
        ]
        if changes != self._linted[0]:
            self._linted = changes, self.linter.new_findings(changes)
        return self._linted[1]

    def _test(self) -> TestReport:
        if self._tested is None:
            run = self.run_tests if self.workspace.edited() else None
            self._tested = run() if run else TestReport(None)
        return self._tested
