"""Run the regression tests of an instance on candidates: selection, baselines and the outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from swe_retry.agent.conversation.testreport import Failure, TestReport
from swe_retry.core.plaintext import some
from swe_retry.core.processes import CommandResult
from swe_retry.core.shutdown import Check
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import Prepared, Session, Setup
from swe_retry.frameworks import OF_PYTHON, SUPPORT, Runner, may_hold_tests
from swe_retry.frameworks.shell import Read
from swe_retry.instances.instance import Instance
from swe_retry.testing.baselines import (
    ALL_TESTS,
    Baseline,
    Baselines,
    TestFiles,
    no_spare,
    was_killed,
)
from swe_retry.testing.failures import failures_of
from swe_retry.testing.origins import doubt, shadowing
from swe_retry.testing.related import History, RelatedTests, has_convention
from swe_retry.testing.setups import (
    Package,
    ProvenSetup,
    build_failures,
    build_files,
    concerns_build,
    edited_packages,
    find_setup,
    needs_rebuild,
    setup_failures,
)
from swe_retry.testing.testconfig import TreeUnderTest, tree_under_test
from swe_retry.testing.testlogs import (
    Results,
    TestRun,
    failed_test_names,
    missing_passes,
    passing_tests,
)
from swe_retry.testing.testsettings import TestChoice, Tests

# The rest is for candidates that are slower than the baseline.
_SHARE_OF_TIMEOUT = 0.5
_MAX_NAMES = 3


@dataclass(frozen=True)
class SuiteReport(TestReport):
    """Everything that a run of the regression tests says of a tree.

    Attributes:
        tested: the changes of the tree in which the tests ran.
        untested: why the outcome is unknown; empty where it is known or there are no tests.
        note: what limits the outcome: files that were left out, flaky tests.
        suspect: whether the run does not report what passed before, or loads other things.
        results: by test file.
        newly_passing: tests that fail at the base commit and pass now.
    """

    tested: Changes = field(default_factory=dict)
    untested: str = ""
    note: str = ""
    suspect: bool = False
    results: Mapping[str, Results] = field(default_factory=dict)
    newly_passing: tuple[str, ...] = ()


@dataclass
class RegressionTests:
    """The regression tests of one instance, in one session of an environment.

    Attributes:
        spare: lends slots that no other work needs now, for baselines.
        history: what changed together before the base commit, by file.
    """

    instance: Instance
    session: Session
    choice: TestChoice
    limits: Tests
    files: Sequence[str]
    read: Read
    cache: Path
    identity: str
    log: logging.Logger
    check: Check = lambda: None
    spare: Callable[[int], AbstractContextManager[int]] = no_spare
    history: History = lambda _: ()
    _setups: dict[tuple[object, ...], ProvenSetup] = field(default_factory=dict)
    _baselines: dict[Setup, Baselines] = field(default_factory=dict)

    def run(self, changes: Changes) -> SuiteReport:
        """Run the tests on a tree with ``changes``; only what newly fails makes it fail."""
        tree = tree_under_test(
            changes, self.files, self.read, self.test_files.configuration
        )
        # The prediction must install, including edits that the tests run without.
        installed = dict(tree.changes)
        for path in build_files(tree.configuration):
            installed[path] = changes[path]
        return _TreeRun(self, tree, installed).report()

    @property
    def full_suite(self) -> RegressionTests:
        """The same tests, of which all run."""
        return replace(self, choice=TestChoice.ALL)

    def baseline(self) -> Baseline:
        """Return the results of all tests at the base commit."""
        tests = self.full_suite
        files = (ALL_TESTS,)
        seconds = min(tests.limits.baseline_timeout, tests.usable_seconds)
        proven = tests.prove_setup({}, files)
        with tests.open_baselines(proven, files) as measure:
            return measure(ALL_TESTS, seconds)

    @property
    def runner(self) -> Runner:
        return self.test_files.runner

    def setup_for(self, changes: Changes) -> ProvenSetup:
        """Return the set-up in which commands run the code of a tree with ``changes``."""
        selected = self.select(tuple(changes))
        return self.prove_setup(changes, selected)

    @cached_property
    def test_files(self) -> TestFiles:
        command = self.session.test_command
        return TestFiles.of(self.instance, command, self.files, self.read)

    def select(self, edited: Sequence[str]) -> Sequence[str]:
        """Return the test files to run for edits of ``edited``."""
        if self.choice is TestChoice.ALL:
            return (ALL_TESTS,)
        if self.choice is not TestChoice.RELATED:
            return ()
        runner = self.runner
        related = [
            path
            for path in self._select_related(edited)
            if may_hold_tests(runner, path)
        ]
        runnable = self.test_files.runnable(related)
        if runnable:
            return runnable
        # Where files cannot be run alone, all of them stand for those that are related.
        stand_in = related or SUPPORT[runner].suffixes == ("",)
        if stand_in and has_convention(edited):
            return (ALL_TESTS,)
        return ()

    @cached_property
    def _select_related(self) -> Callable[[Sequence[str]], tuple[str, ...]]:
        """Select related tests; texts are read once, and the choice for the same edits is kept."""
        runner = self.runner
        files = [path for path in self.files if may_hold_tests(runner, path)]
        title = self.instance.title
        return cache(RelatedTests(files, self.read, self.history, title).of)

    def prove_setup(self, changes: Changes, selected: Sequence[str]) -> ProvenSetup:
        """Return the set-up in which the ``selected`` tests import the edited packages."""
        scripted = self.instance.commands and self.runner is Runner.SCRIPT
        packages: tuple[Package, ...] = ()
        if selected and not scripted:
            packages = edited_packages(changes, set(self.files))
        rebuild = needs_rebuild(changes, packages)
        key = (rebuild, *(package.file for package in packages))
        if key not in self._setups:
            command = self.test_files.command(*selected)
            proven = find_setup(
                self.session,
                packages,
                self.read,
                command,
                self.runner,
                rebuild=rebuild,
            )
            self._setups[key] = proven
            way = proven.setup.way.value
            self.log.info("tests: set up %s %s", way, proven.reason)
        return self._setups[key]

    @contextmanager
    def open_baselines(
        self,
        proven: ProvenSetup,
        files: Sequence[str],
    ) -> Iterator[Callable[[str, float], Baseline]]:
        """Yield what gives the baseline of one of ``files`` within a number of seconds.

        Those that are not stored are measured, with as many others at once as slots are free.
        """
        baselines = self.baselines_on(proven)
        measured: dict[str, Baseline] = {}
        with ExitStack() as stack:

            @cache
            def prepare() -> Prepared:
                base = self.session.prepare({}, proven.setup)
                return stack.enter_context(base)

            def measure(path: str, seconds: float) -> Baseline:
                baseline = measured.get(path) or baselines.find(path)
                if baseline is not None:
                    return baseline
                others = files[files.index(path) :]
                unknown = [other for other in others if baselines.find(other) is None]
                results = baselines.measure(prepare(), unknown, seconds)
                measured.update(zip(unknown, results, strict=False))
                return measured[path]

            yield measure

    def baselines_on(self, proven: ProvenSetup) -> Baselines:
        if proven.setup not in self._baselines:
            self._baselines[proven.setup] = Baselines(
                tests=self.test_files,
                cache=self.cache,
                identity=f"{self.identity}:{proven.setup}",
                longest=min(self.limits.baseline_timeout, self.usable_seconds),
                log=self.log,
                spare=self.spare,
                check=self.check,
            )
        return self._baselines[proven.setup]

    @property
    def usable_seconds(self) -> float:
        """What the baselines of a selection may take."""
        if self.choice is TestChoice.ALL:
            return self.limits.timeout
        return self.limits.timeout * _SHARE_OF_TIMEOUT


@dataclass
class _TreeRun:
    """One run of the tests on one tree.

    Attributes:
        installed: the changes that the prediction installs.
        doubt: why passing tests say nothing.
    """

    suite: RegressionTests
    tree: TreeUnderTest
    installed: Changes
    notes: list[str] = field(default_factory=list)
    results: dict[str, Results] = field(default_factory=dict)
    newly_passing: set[str] = field(default_factory=set)
    doubt: str = ""

    def report(self) -> SuiteReport:
        suite = self.suite
        changes = self.tree.changes
        if self.tree.mixed:
            path = self.tree.mixed[0]
            reason = f"{path} changes test configuration and other things at once"
            return self._report_unknown(reason)
        selected = suite.select(tuple(changes))
        builds = concerns_build(self.installed) and suite.runner in OF_PYTHON
        if not changes or not (selected or builds):
            return self._report_unknown("")
        proven = suite.prove_setup(changes, selected)
        if proven.reason:
            return self._report_unknown(proven.reason)
        baselines = self._measure_baselines(proven, selected)
        if not (baselines or builds):
            if suite.runner is Runner.SCRIPT and ALL_TESTS in selected:
                command = suite.session.test_command
                reason = f"no result of a test in the output of {command!r}"
                return self._report_unknown(reason)
            return self._report_unknown("; ".join(self.notes))
        for baseline in baselines.values():
            for path in shadowing(changes, suite.files, baseline.stated):
                self.doubt = f"{path} takes the place of a module of the environment"
                return self._report_unknown(self.doubt)
        return self._run_tests(proven, baselines)

    def _report_unknown(self, reason: str) -> SuiteReport:
        self.suite.log.info("tests: %s", reason or "no related test can tell")
        return self._report(None, untested=reason)

    def _report(
        self,
        outcome: bool | None,
        failures: tuple[Failure, ...] = (),
        untested: str = "",
    ) -> SuiteReport:
        return SuiteReport(
            outcome,
            failures,
            tested=self.tree.changes,
            untested=untested,
            note="; ".join(self.notes),
            suspect=bool(self.doubt),
            results=self.results,
            newly_passing=tuple(sorted(self.newly_passing)),
        )

    def _measure_baselines(
        self,
        proven: ProvenSetup,
        selected: Sequence[str],
    ) -> dict[str, Baseline]:
        """Return the baselines of the files that can be run within the limits."""
        suite = self.suite
        budget = suite.usable_seconds
        spent = 0.0
        baselines: dict[str, Baseline] = {}
        left_out = []
        without_pass = []
        with suite.open_baselines(proven, selected) as measure:
            for path in selected:
                # A baseline that takes longer than a candidate may run is of no use.
                seconds = min(suite.limits.baseline_timeout - spent, budget)
                if seconds <= 0:
                    left_out.append(path or "all tests")
                    continue
                baseline = measure(path, seconds)
                spent += baseline.seconds
                if baseline.usable and baseline.seconds <= budget:
                    baselines[path] = baseline
                    budget -= baseline.seconds
                elif baseline.died or baseline.usable:
                    left_out.append(path or "all tests")
                else:
                    without_pass.append(path or "all tests")
        if without_pass and not baselines:
            names = ", ".join(without_pass)
            self._add_note(f"no test passes at the base commit: {names}")
        if left_out:
            names = ", ".join(left_out)
            self._add_note(f"left out, the baseline takes too long or dies: {names}")
        return baselines

    def _add_note(self, note: str) -> None:
        self.suite.log.info("tests: %s", note)
        self.notes.append(note)

    def _run_tests(
        self,
        proven: ProvenSetup,
        baselines: Mapping[str, Baseline],
    ) -> SuiteReport:
        session = self.suite.session
        changes = self.tree.changes
        reason = ""
        if self.installed != changes:
            with session.prepare(self.installed, proven.setup) as prepared:
                failures, reason = self._install(prepared, proven, self.installed)
            if failures:
                return self._report(False, failures)
        with session.prepare(changes, proven.setup, len(baselines)) as prepared:
            failures, unsure = self._install(prepared, proven, changes)
            # Where the set-up failed in one of two tries, the tree says nothing of the candidate.
            if not failures and not setup_failures(prepared, proven):
                for path, baseline in baselines.items():
                    failures += self._find_failures(prepared, proven, path, baseline)
        self.suite.log.info(
            "tests: %d files run, %d failures are new",
            len(baselines),
            len(failures),
        )
        if failures:
            return self._report(False, failures)
        untested = reason or unsure or self.doubt
        if untested or not baselines:
            return self._report_unknown(untested)
        return self._report(True)

    def _install(
        self,
        prepared: Prepared,
        proven: ProvenSetup,
        changes: Changes,
    ) -> tuple[tuple[Failure, ...], str]:
        """Return what keeps the set-up or the build from working, or why it is unknown."""
        session = self.suite.session
        if not setup_failures(prepared, proven):
            version = self.suite.instance.version
            return build_failures(session, prepared, proven, changes, version)
        with session.prepare(changes, proven.setup) as again:
            failures = setup_failures(again, proven)
        if failures:
            return failures, ""
        return (), "the set-up failed in one of two tries"

    def _find_failures(
        self,
        prepared: Prepared,
        proven: ProvenSetup,
        path: str,
        baseline: Baseline,
    ) -> tuple[Failure, ...]:
        """Return what newly fails in ``path`` in both of two runs; a run that dies is a failure.

        The base must pass once more. A test that neither passes nor fails makes the run doubtful.
        """
        suite = self.suite
        unconfirmed = passing_tests(baseline.results)
        failed_before = set(failed_test_names(baseline.results))
        dead = True
        for _ in range(2):
            result, run = suite.test_files.run(prepared, path, suite.limits.timeout)
            self.results[path] = run.results
            self.newly_passing |= passing_tests(run.results) & failed_before
            unconfirmed &= missing_passes(baseline.results, run.results)
            dead = dead and was_killed(result) and not baseline.died
            if not unconfirmed and not dead:
                self._compare(baseline, result, run)
                return ()
        unconfirmed, dead = self._confirm(
            proven,
            path,
            baseline,
            unconfirmed,
            dead=dead,
        )
        new = set(failed_test_names(run.results)) - failed_before
        failed = unconfirmed & new
        if dead or new or not baseline.ends_like(result):
            failed |= unconfirmed - run.results.keys()
        if not failed and not dead:
            if unconfirmed:
                tests = some(sorted(unconfirmed), _MAX_NAMES)
                self.doubt = f"passed at the base commit, but not in this run: {tests}"
            self._compare(baseline, result, run)
            return ()
        names = sorted(failed) or [path or "the test suite"]
        ended = ""
        if result.timed_out:
            ended = f"The run did not end within {suite.limits.timeout:.0f} seconds."
        elif was_killed(result):
            ended = f"The run was ended by a signal (exit code {result.exit_code})."
        failures = failures_of(
            run.log,
            suite.runner,
            names,
            ended,
            run.details,
        )
        if suite.runner is not Runner.SYMPY:
            return failures
        return tuple(_with_path(path, failure) for failure in failures)

    def _confirm(
        self,
        proven: ProvenSetup,
        path: str,
        baseline: Baseline,
        unconfirmed: frozenset[str],
        *,
        dead: bool,
    ) -> tuple[frozenset[str], bool]:
        """Return which tests are not flaky: at the base commit they pass again."""
        suite = self.suite
        with suite.session.prepare({}, proven.setup) as prepared:
            result, run = suite.test_files.run(prepared, path, suite.limits.timeout)
        flaky = unconfirmed & missing_passes(baseline.results, run.results)
        if flaky:
            suite.baselines_on(proven).note_flaky(path, baseline, flaky)
        if flaky or (dead and was_killed(result)):
            names = ", ".join(sorted(flaky)) or path or "all tests"
            self._add_note(f"flaky at the base commit: {names}")
        return unconfirmed - flaky, dead and not was_killed(result)

    def _compare(self, baseline: Baseline, result: CommandResult, run: TestRun) -> None:
        """Doubt a run that is not as that of the base commit: did the tests run at all?"""
        if not baseline.ends_like(result) and not failed_test_names(run.results):
            self.doubt = f"no test failed, but the exit code was {result.exit_code}"
        if self.suite.runner in OF_PYTHON and not self.doubt:
            self.doubt = doubt(baseline.stated, run.stated, run.report)


def _with_path(path: str, failure: Failure) -> Failure:
    """Name the file too: sympy's runner gives the names of functions alone."""
    if path in failure.name:
        return failure
    return replace(failure, name=f"{path}:{failure.name}")
