"""Run the regression tests of an instance on candidates: selection, baselines and the outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

from agent.conversation.testreport import Failure, TestReport
from bench.config import TestChoice
from bench.instances.instance import Instance
from bench.regression.baselines import ALL_TESTS, Baseline, Baselines, TestFiles, died, no_spare
from bench.regression.failures import failures_of
from bench.regression.proof import (
    ProvenSetup,
    build_failures,
    build_files,
    concerns_build,
    edited_packages,
    find_setup,
    needs_rebuild,
    setup_failures,
)
from bench.regression.related import RelatedTests, has_convention
from bench.regression.runners import OF_PYTHON, SUPPORT, Runner, can_take
from bench.regression.runners.commands import find_runner
from bench.regression.statements import doubt, shadowing
from bench.regression.testconfig import tree_under_test
from bench.regression.testlogs import TestRun, broken
from core.worktree import Changes
from environments.base import Prepared, Session, Setup

# The rest is for candidates that are slower than the baseline.
_SHARE_OF_TIMEOUT = 0.5


@dataclass(frozen=True)
class TestLimits:
    """Seconds for one run of a candidate's tests, and for all baselines of a selection."""

    __test__ = False

    test: float
    baseline: float


@dataclass
class RegressionTests:
    """The regression tests of one instance, in one session of an environment.

    Attributes:
        spare: lends slots that no other work needs now, for baselines.
        tested: changes of the last tree whose tests ran.
        note: what limits the last outcome: files that were left out, flaky tests.
        untested: why the last outcome is unknown; empty where it is known or there are no tests.
        suspect: whether the last tree changes what a test run loads.
    """

    instance: Instance
    session: Session
    choice: TestChoice
    limits: TestLimits
    files: Sequence[str]
    read: Callable[[str], str | None]
    cache: Path
    identity: str
    log: logging.Logger
    check: Callable[[], None] = lambda: None
    spare: Callable[[int], AbstractContextManager[int]] = no_spare
    tested: Changes = field(default_factory=dict)
    untested: str = ""
    note: str = ""
    suspect: bool = False
    _setups: dict[tuple[object, ...], ProvenSetup] = field(default_factory=dict)
    _baselines: dict[Setup, Baselines] = field(default_factory=dict)
    _doubt: str = ""

    def run(self, changes: Changes) -> TestReport:
        """Run the tests on a tree with ``changes``; only what newly fails makes it fail."""
        tree = tree_under_test(changes, self.files, self.read)
        self.tested, self.untested, self.note = tree.changes, "", ""
        self._doubt, self.suspect = "", False
        # The prediction must install, including edits that the tests run without.
        built = build_files(tree.configuration)
        whole = {**tree.changes, **{path: changes[path] for path in built}}
        wanted = self._wanted(tuple(tree.changes))
        builds = concerns_build(whole) and self._tests.runner in OF_PYTHON
        if not tree.changes or not (wanted or builds):
            return self._unknown("")
        proven = self._setup(tree.changes, wanted)
        if proven.reason:
            return self._unknown(proven.reason)
        selected = self._selected(proven, wanted)
        if not (selected or builds):
            hidden = self._tests.runner is Runner.SCRIPT and ALL_TESTS in wanted
            words = f"no result of a test in the output of {self.session.test_command!r}"
            return self._unknown(words if hidden else "")
        for baseline in selected.values():
            for path in shadowing(tree.changes, self.files, baseline.stated):
                self.suspect = True
                return self._unknown(f"{path} takes the place of a module of the environment")
        return self._report(proven, tree.changes, whole, selected)

    def _unknown(self, reason: str) -> TestReport:
        self.log.info("tests: %s", reason or "no related test can tell")
        self.untested = reason
        return TestReport(None)

    @cached_property
    def _tests(self) -> TestFiles:
        command = self.session.test_command
        if command.startswith("tox "):
            # tox hides the variable from its commands that proof and statements need.
            command = "python -m pytest"
        runner = find_runner(command, self.instance.log_parser, self.read)
        return TestFiles(self.instance, runner, command, self.files, self.read)

    def _wanted(self, edited: Sequence[str]) -> Sequence[str]:
        if self.choice is TestChoice.ALL:
            return (ALL_TESTS,)
        if self.choice is not TestChoice.RELATED:
            return ()
        runner = self._tests.runner
        related = [path for path in self._related(edited) if can_take(runner, path)]
        alone = self._tests.runnable(related)
        whole = related or not SUPPORT[runner].takes_files
        return alone or ((ALL_TESTS,) if whole and has_convention(edited) else ())

    @cached_property
    def _related(self) -> Callable[[Sequence[str]], tuple[str, ...]]:
        """Select related tests; texts are read once, and the choice for the same edits is kept."""
        files = [path for path in self.files if can_take(self._tests.runner, path)]
        return cache(RelatedTests(files, self.read).of)

    def _setup(self, changes: Changes, wanted: Sequence[str]) -> ProvenSetup:
        packages = edited_packages(changes, set(self.files)) if wanted else ()
        rebuild = needs_rebuild(changes, packages)
        key = (rebuild, *(package.file for package in packages))
        if key not in self._setups:
            command = self._tests.command(*wanted)
            runner = self._tests.runner
            found = find_setup(self.session, packages, self.read, command, runner, rebuild=rebuild)
            self._setups[key] = found
            self.log.info("tests: set up %s %s", found.setup.way.value, found.reason)
        return self._setups[key]

    def _selected(self, proven: ProvenSetup, wanted: Sequence[str]) -> dict[str, Baseline]:
        budget, spent = self._usable_seconds, 0.0
        chosen: dict[str, Baseline] = {}
        left_out = []
        with self._measuring(proven, wanted) as baseline_of:
            for path in wanted:
                # A baseline that takes longer than a candidate may run is of no use.
                seconds = min(self.limits.baseline - spent, budget)
                baseline = baseline_of(path, seconds) if seconds > 0 else None
                spent += baseline.seconds if baseline else 0
                if baseline and baseline.usable and baseline.seconds <= budget:
                    chosen[path] = baseline
                    budget -= baseline.seconds
                elif not baseline or baseline.died or baseline.usable:
                    left_out.append(path or "all tests")
        if left_out:
            self._add_note(f"left out, the baseline takes too long or dies: {', '.join(left_out)}")
        return chosen

    def _add_note(self, words: str) -> None:
        self.log.info("tests: %s", words)
        self.note = "; ".join(filter(None, (self.note, words)))

    @contextmanager
    def _measuring(
        self, proven: ProvenSetup, wanted: Sequence[str]
    ) -> Iterator[Callable[[str, float], Baseline]]:
        baselines = self._baselines_on(proven)
        found: dict[str, Baseline] = {}
        with ExitStack() as stack:
            prepare = cache(lambda: stack.enter_context(self.session.prepare({}, proven.setup)))

            def baseline_of(path: str, seconds: float) -> Baseline:
                known = found.get(path) or baselines.known(path)
                if known is not None:
                    return known
                rest = wanted[wanted.index(path) :]
                unknown = [other for other in rest if baselines.known(other) is None]
                measured = baselines.measure(prepare(), unknown, seconds)
                found.update(zip(unknown, measured, strict=False))
                return found[path]

            yield baseline_of

    def _baselines_on(self, proven: ProvenSetup) -> Baselines:
        if proven.setup not in self._baselines:
            self._baselines[proven.setup] = Baselines(
                tests=self._tests,
                cache=self.cache,
                identity=f"{self.identity}:{proven.setup}",
                longest=min(self.limits.baseline, self._usable_seconds),
                log=self.log,
                spare=self.spare,
                check=self.check,
            )
        return self._baselines[proven.setup]

    @property
    def _usable_seconds(self) -> float:
        alone = self.choice is TestChoice.ALL
        return self.limits.test * (1 if alone else _SHARE_OF_TIMEOUT)

    def _report(
        self,
        proven: ProvenSetup,
        changes: Changes,
        whole: Changes,
        selected: Mapping[str, Baseline],
    ) -> TestReport:
        reason = ""
        if whole != changes:
            with self.session.prepare(whole, proven.setup) as prepared:
                failures, reason = self._installed(prepared, proven, whole)
            if failures:
                return TestReport(False, failures)
        with self.session.prepare(changes, proven.setup, len(selected)) as prepared:
            failures, unsure = self._installed(prepared, proven, changes)
            # Where the set-up failed in one of two tries, the tree says nothing of the candidate.
            if not failures and not setup_failures(prepared, proven):
                found = (self._newly_failing(prepared, proven, *one) for one in selected.items())
                failures = tuple(chain.from_iterable(found))
        self.log.info("tests: %d files run, %d failures are new", len(selected), len(failures))
        if failures:
            return TestReport(False, failures)
        if reason or unsure or self._doubt or not selected:
            return self._unknown(reason or unsure or self._doubt)
        return TestReport(True)

    def _installed(
        self, prepared: Prepared, proven: ProvenSetup, changes: Changes
    ) -> tuple[tuple[Failure, ...], str]:
        if setup_failures(prepared, proven):
            with self.session.prepare(changes, proven.setup) as again:
                failures = setup_failures(again, proven)
            return failures, "" if failures else "the set-up failed in one of two tries"
        return build_failures(self.session, prepared, proven, changes, self.instance.version)

    def _newly_failing(
        self, prepared: Prepared, proven: ProvenSetup, path: str, baseline: Baseline
    ) -> tuple[Failure, ...]:
        """Return what newly fails in ``path`` in both of two runs; a run that dies is a failure.

        The base must pass once more.
        """
        runner = self._tests.runner
        failed: set[str] | None = None
        dead = True
        for _ in range(2):
            result, run = self._tests.run(prepared, path, self.limits.test)
            now = set(broken(baseline.results, run.results))
            failed = now if failed is None else failed & now
            dead = dead and died(result) and not baseline.died
            if not failed and not dead:
                self._compare(baseline, run)
                return ()
        failed, dead = self._confirmed(proven, path, baseline, failed or set(), dead=dead)
        if not failed and not dead:
            self._compare(baseline, run)
            return ()
        names = sorted(failed) or [path or "the test suite"]
        ended = ""
        if result.timed_out:
            ended = f"The run did not end within {self.limits.test:.0f} seconds."
        elif died(result):
            ended = f"The run was ended by a signal (exit code {result.exit_code})."
        found = failures_of(run.log, runner, names, ended, run.details)
        if runner is Runner.SYMPY:  # gives only the names of functions
            found = tuple(
                replace(one, name=f"{path}:{one.name}" if path not in one.name else one.name)
                for one in found
            )
        return found

    def _confirmed(
        self, proven: ProvenSetup, path: str, baseline: Baseline, failed: set[str], *, dead: bool
    ) -> tuple[set[str], bool]:
        with self.session.prepare({}, proven.setup) as prepared:
            result, run = self._tests.run(prepared, path, self.limits.test)
        flaky = failed & set(broken(baseline.results, run.results))
        if flaky:
            self._baselines_on(proven).note_flaky(path, baseline, flaky)
        if flaky or (dead and died(result)):
            names = ", ".join(sorted(flaky)) or path or "all tests"
            self._add_note(f"flaky at the base commit: {names}")
        return failed - flaky, dead and not died(result)

    def _compare(self, baseline: Baseline, run: TestRun) -> None:
        if self._tests.runner in OF_PYTHON:
            found = doubt(baseline.stated, run.stated, run.report)
            self._doubt = self._doubt or found
            self.suspect = bool(self._doubt)
