"""Pre-existing tests: which ones are run on a candidate, and what they say about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

from agent.conversation.testreport import Failure, TestReport
from bench.cli.config import TestChoice
from bench.instances.instances import Instance
from bench.regression.baselines import ALL_TESTS, Baseline, Baselines, TestFiles, died, no_spare
from bench.regression.configuration.testconfig import kept_of
from bench.regression.feedback import failures_of
from bench.regression.proof import (
    Ground,
    build_failures,
    build_files,
    concerns_build,
    edited_packages,
    find_ground,
    needs_rebuild,
    setup_failures,
)
from bench.regression.related import related_tests
from bench.regression.runners import Runner, runner_of
from bench.regression.testlogs import broken
from environments import Changes, CommandResult, Prepared, Session, Setup

# A candidate's run may take somewhat longer than the baseline's before it counts as dead.
_SHARE_OF_TIMEOUT = 0.5


@dataclass(frozen=True)
class TestLimits:
    """Seconds for one run of a candidate's tests and for all baselines of a selection."""

    __test__ = False

    test: float
    baseline: float


@dataclass
class Preexisting:
    """The pre-existing tests of one instance, in one session of an environment.

    Attributes:
        files: tracked files of the base commit.
        read: gives a base file's text.
        cache: folder of baselines, shared by all runs.
        identity: the environment's part of the cache key.
        check: raises when the run stops.
        spare: gives slots that no other work needs now; baselines use them.
        silence: why the last outcome is unknown; empty where it is not, or for no tests.
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
    silence: str = ""
    _grounds: dict[tuple[object, ...], Ground] = field(default_factory=dict)
    _baselines: dict[Setup, Baselines] = field(default_factory=dict)

    def judge(self, changes: Changes) -> TestReport:
        """Return the verdict on a tree with ``changes``: false only for what newly fails."""
        self.silence = ""
        if self._tests is None:
            return self._unknown(f"unknown runner in {self.session.test_command!r}")
        tested = kept_of(changes, self.files, self.read)
        kept = tested.changes
        # What is predicted must install, whatever of it the tests run without.
        whole = {**kept, **{path: changes[path] for path in build_files(tested.configuration)}}
        wanted = self._wanted(tuple(kept))
        builds = concerns_build(whole)
        if not kept or not (wanted or builds):
            return self._unknown("")
        ground = self._ground(kept, wanted)
        if ground.reason:
            return self._unknown(ground.reason)
        selected = self._selected(ground, wanted)
        if not (selected or builds):
            return self._unknown("")
        return self._verdict(ground, kept, whole, selected)

    def _unknown(self, reason: str) -> TestReport:
        self.log.info("tests: %s", reason or "no related test can speak")
        self.silence = reason
        return TestReport(None)

    @cached_property
    def _tests(self) -> TestFiles | None:
        command = self.session.test_command
        runner = runner_of(command)
        return TestFiles(self.instance, runner, command, self.files) if runner else None

    def kept(self, changes: Changes) -> Changes:
        """Return what of ``changes`` is tested; see ``kept_of``."""
        return kept_of(changes, self.files, self.read).changes

    def _wanted(self, edited: Sequence[str]) -> Sequence[str]:
        """Return the test files to run, the closest first."""
        if self.choice is TestChoice.ALL:
            return (ALL_TESTS,)
        if self.choice is TestChoice.RELATED:
            return related_tests(edited, self.files, self.read)
        return ()

    def _ground(self, kept: Changes, wanted: Sequence[str]) -> Ground:
        """Return how to set the tree up so that the tests import what was edited."""
        packages = edited_packages(kept, set(self.files)) if wanted else ()
        rebuild = needs_rebuild(kept, packages)
        key = (rebuild, *(package.file for package in packages))
        if key not in self._grounds:
            assert self._tests is not None
            tests = self._tests
            if tests.test_command.startswith("tox "):
                # It hides from its commands the variable that the proof needs.
                tests = replace(tests, test_command="python -m pytest")
            command = tests.command(*wanted)
            self._grounds[key] = find_ground(
                self.session, packages, self.read, command, rebuild=rebuild
            )
            found = self._grounds[key]
            self.log.info("tests: set up %s %s", found.setup.way.value, found.reason)
        return self._grounds[key]

    def _selected(self, ground: Ground, wanted: Sequence[str]) -> dict[str, Baseline]:
        """Return the files to run with their baselines, the closest first, within the time."""
        budget, spent = self._usable, 0.0
        chosen: dict[str, Baseline] = {}
        found: dict[str, Baseline] = {}
        with self._measuring(ground) as measure:
            for number, path in enumerate(wanted):
                if path not in found:
                    # More than a candidate could use would be measured in vain.
                    seconds = min(self.limits.baseline - spent, budget)
                    found |= measure(wanted[number:], seconds)
                baseline = found[path]
                spent += baseline.seconds
                if baseline.speaks and baseline.seconds <= budget:
                    chosen[path] = baseline
                    budget -= baseline.seconds
                elif baseline.speaks:
                    self.log.info("tests: %s takes too long to be run on candidates", path or "all")
                if spent >= self.limits.baseline or budget <= 0:
                    break
        return chosen

    @contextmanager
    def _measuring(
        self, ground: Ground
    ) -> Iterator[Callable[[Sequence[str], float], Mapping[str, Baseline]]]:
        """Yield a function that returns the baseline of the first path, and of more if it can.

        The base tree is set up once, when the first one has to be measured.
        """
        baselines = self._baselines_on(ground)
        with ExitStack() as stack:
            prepare = cache(lambda: stack.enter_context(self.session.prepare({}, ground.setup)))

            def measure(paths: Sequence[str], seconds: float) -> Mapping[str, Baseline]:
                known = baselines.known(paths[0])
                if known is not None:
                    return {paths[0]: known}
                unknown = [path for path in paths if baselines.known(path) is None]
                measured = baselines.measure(prepare(), unknown, seconds)
                return dict(zip(unknown, measured, strict=False))

            yield measure

    def _baselines_on(self, ground: Ground) -> Baselines:
        assert self._tests is not None
        if ground.setup not in self._baselines:
            self._baselines[ground.setup] = Baselines(
                tests=self._tests,
                cache=self.cache,
                identity=f"{self.identity}:{ground.setup}",
                longest=min(self.limits.baseline, self._usable),
                log=self.log,
                spare=self.spare,
                check=self.check,
            )
        return self._baselines[ground.setup]

    @property
    def _usable(self) -> float:
        """Seconds that the files of one candidate may take by their baselines."""
        alone = self.choice is TestChoice.ALL
        return self.limits.test * (1 if alone else _SHARE_OF_TIMEOUT)

    def _verdict(
        self, ground: Ground, kept: Changes, whole: Changes, selected: Mapping[str, Baseline]
    ) -> TestReport:
        """Set the candidate up once and run the selected files on it; twice what seems to fail."""
        reason = ""
        if whole != kept:
            with self.session.prepare(whole, ground.setup) as prepared:
                failures, reason = self._installed(prepared, ground, whole)
            if failures:
                return TestReport(False, failures)
        with self.session.prepare(kept, ground.setup) as prepared:
            failures, doubt = self._installed(prepared, ground, kept)
            # A tree whose set-up failed in one of two tries says nothing about the candidate.
            if not failures and not setup_failures(prepared, ground):
                found = (self._newly_failing(prepared, p, b) for p, b in selected.items())
                failures = tuple(chain.from_iterable(found))
        self.log.info("tests: %d files run, %d failures are new", len(selected), len(failures))
        if failures:
            return TestReport(False, failures)
        if reason or doubt or not selected:
            return self._unknown(reason or doubt)
        return TestReport(True)

    def _installed(
        self, prepared: Prepared, ground: Ground, changes: Changes
    ) -> tuple[tuple[Failure, ...], str]:
        """Return what keeps a tree from being set up and installed, or why that is unknown."""
        if setup_failures(prepared, ground):
            with self.session.prepare(changes, ground.setup) as again:
                failures = setup_failures(again, ground)
            return failures, "" if failures else "the set-up failed in one of two tries"
        return build_failures(self.session, prepared, ground, changes, self.instance.version)

    def _newly_failing(
        self, prepared: Prepared, path: str, baseline: Baseline
    ) -> tuple[Failure, ...]:
        """Return what newly fails in ``path``, in two runs; a run that dies is one failure."""
        assert self._tests is not None
        failed: set[str] | None = None
        dead = True
        for _ in range(2):
            result, run = self._tests.run(prepared, path, self.limits.test)
            now = set(broken(baseline.results, run.results))
            failed = now if failed is None else failed & now
            dead = dead and died(result) and not baseline.died
            if not failed and not dead:
                return ()
        runner = self._tests.runner
        names = sorted(failed or ()) or [path or "the test suite"]
        found = failures_of(run.log, runner, names, self._ended(result))
        return tuple(replace(one, name=_full_name(runner, path, one.name)) for one in found)

    def _ended(self, result: CommandResult) -> str:
        """Return in words how a run ended that did not end by itself; empty for any other."""
        if result.timed_out:
            return f"The run did not end within {self.limits.test:.0f} seconds."
        if died(result):
            return f"The run was ended by a signal (exit code {result.exit_code})."
        return ""


def _full_name(runner: Runner, path: str, name: str) -> str:
    """Return a name that no other file's test has: sympy's runner only gives the function's."""
    return f"{path}:{name}" if runner is Runner.SYMPY and path and path not in name else name
