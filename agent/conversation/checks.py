"""Lint and test the tree after each edit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent import lint
from agent.conversation.brief import Brief, harness_brief
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
        brief: whether to lint, and whether to test unedited trees.
    """

    workspace: Workspace
    linter: lint.Linter = field(default_factory=lint.Linter)
    run_tests: Callable[[], TestReport] | None = None
    brief: Brief = field(default_factory=harness_brief)
    _linted: tuple[list[lint.Change], tuple[lint.Finding, ...]] = ([], ())
    _tested: TestReport | None = None
    _reported: tuple[Failure, ...] = ()

    def changed(self) -> None:
        """Discard the test results: the tree has changed, or is to be tested again."""
        self._tested = None

    def problem(self) -> tuple[Topic, str] | None:
        """Return the next problem as a message with its topic; None without a problem."""
        if found := self._findings():
            texts = {finding.path: self.workspace.read(finding.path) or "" for finding in found}
            return Topic.LINT, render("lint_failed", findings=lint.describe(found, texts))
        report = self._test(unedited=self.brief.test_unedited)
        if report.outcome is not False:
            return None
        if report.message:
            return Topic.TEST, report.message
        text = describe(report.failures, self._reported)
        self._reported = report.failures
        return Topic.TEST, render("tests_failed", report=text)

    def outcomes(self, *, unedited: bool = False) -> tuple[Outcome, Outcome]:
        """Return the outcomes of lint and tests; runs the tests if they have not run yet.

        Args:
            unedited: run them on a tree without edits, too.
        """
        linted = self.brief.lint and self.workspace.originals
        clean = not self._findings() if linted else None
        return clean, None if clean is False else self._test(unedited=unedited).outcome

    def _findings(self) -> tuple[lint.Finding, ...]:
        if not self.brief.lint:
            return ()
        space = self.workspace
        changes = [
            lint.Change(path, space.original(path), after)
            for path in sorted(space.edited())
            if (after := space.read(path)) is not None
        ]
        if changes != self._linted[0]:
            self._linted = changes, self.linter.new_findings(changes)
        return self._linted[1]

    def _test(self, *, unedited: bool) -> TestReport:
        if self._tested is None:
            run = self.run_tests if unedited or self.workspace.edited() else None
            self._tested = run() if run else TestReport(None)
        return self._tested
