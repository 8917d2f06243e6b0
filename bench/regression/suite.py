"""Run the regression tests of an instance on candidates: selection, baselines and the outcome.

A set-up counts only where the tests import the work tree and no older copy of the project. Images
hold the project installed. Where that installation is a copy and cannot be repeated without
network, the tests would run the old code, whatever a candidate changes. So a marker is written into
the tree, and the test runner must state that it imports the file that holds it.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path, PurePosixPath

from agent.conversation.testreport import Failure, TestReport
from bench.config import TestChoice
from bench.instances.instance import Instance
from bench.regression.baselines import (
    ALL_TESTS,
    Baseline,
    Baselines,
    TestFiles,
    died,
    no_spare,
)
from bench.regression.failures import failures_of
from bench.regression.related import RelatedTests, has_convention
from bench.regression.runners import OF_PYTHON, SUPPORT, Runner, can_take
from bench.regression.runners.commands import find_runner, takes_arguments
from bench.regression.statements import (
    doubt,
    mark_of,
    shadowing,
    split_statements,
    stating,
)
from bench.regression.testconfig import tree_under_test
from bench.regression.testlogs import Results, TestRun, broken
from core.worktree import Changes
from environments.base import AS_GIVEN, Prepared, Session, Setup, SetupWay
from environments.docker.setupscript import WHOLE_SETUP, installs_project

_IMPORT_ROOTS = ("", "src", "lib")
# The process ends itself once everything is imported.
_SECONDS = 120.0
_BUILD_SECONDS = 300.0
_SHOWN_LINES = 30
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_BUILD_FILES = frozenset({"setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in"})
# Other files that setup scripts read: versions, long descriptions, lists of requirements.
_READ_BY_BUILDS = re.compile(
    r"[^/]*\.(py|txt|in|cfg|toml|rst|md)|VERSION|(.*/)?(_?version|__about__|__init__)\.py",
    re.IGNORECASE,
)
# Computes the project's metadata as an installation would, and installs nothing.
_BUILD_CHECK = """export SETUPTOOLS_SCM_PRETEND_VERSION={version} PIP_DISABLE_PIP_VERSION_CHECK=1
if python -m pip install --help | grep -q -e --dry-run; then
  python -m pip install -q --dry-run --no-index --no-deps --no-build-isolation --ignore-installed .
else
  python setup.py -q --name
fi"""


@dataclass(frozen=True)
class Package:
    """A top-level package or module; imports find it in the folder ``root`` of the tree."""

    name: str
    root: str
    file: str


@dataclass(frozen=True)
class ProvenSetup:
    """A way of setting the tree up in which its tests import the tree.

    Attributes:
        failing: set-up commands that fail at the base commit too.
        installs: whether the set-up installs the project from the changed tree.
        reason: why no outcome can be trusted; empty where it can.
    """

    setup: Setup = AS_GIVEN
    failing: tuple[str, ...] = ()
    installs: bool = False
    reason: str = ""


def edited_packages(
    edited: Iterable[str], files: Collection[str]
) -> tuple[Package, ...]:
    """Return the top-level packages and modules of the base tree that contain ``edited``."""
    found = (_package(PurePosixPath(path), files) for path in edited)
    return tuple(sorted({p for p in found if p}, key=lambda p: p.file))


def _package(path: PurePosixPath, files: Collection[str]) -> Package | None:
    top = None
    for folder in path.parents[:-1]:
        if f"{folder}/__init__.py" not in files:
            break
        top = folder
    if top is not None:
        return Package(top.name, _root(top), f"{top}/__init__.py")
    module = (
        path.suffix == ".py" and _root(path) in _IMPORT_ROOTS and str(path) in files
    )
    # Nothing imports a setup script, and pytest imports conftest files by their paths.
    if not module or path.name in ("setup.py", "conftest.py"):
        return None
    return Package(path.stem, _root(path), str(path))


def _root(path: PurePosixPath) -> str:
    return "" if str(path.parent) == "." else str(path.parent)


def concerns_build(edited: Iterable[str]) -> bool:
    """Return whether one of ``edited`` may affect the installation of the project."""
    return any(_READ_BY_BUILDS.fullmatch(path) for path in edited)


def needs_rebuild(edited: Collection[str], packages: Sequence[Package]) -> bool:
    """Return whether edits may change what an installation does; edits of modules do not."""
    folders = tuple(p.file.removesuffix("__init__.py") for p in packages)
    modules = all(path.endswith(".py") and path.startswith(folders) for path in edited)
    return not (folders and modules) or concerns_build(edited)


def build_files(edited: Iterable[str]) -> list[str]:
    return [path for path in edited if path in _BUILD_FILES]


def find_setup(
    session: Session,
    packages: Sequence[Package],
    read: Callable[[str], str | None],
    command: str,
    runner: Runner,
    *,
    rebuild: bool = True,
) -> ProvenSetup:
    """Return the best way of setting up in which ``command`` imports ``packages`` from the tree.

    A way in which the installation works is preferred to one that only puts the tree on the path,
    because it also shows that a candidate breaks the installation. Without ``rebuild`` no
    installation is needed where the tests import the tree already.
    """
    token = secrets.token_hex(16)
    command = stating(command, token, runner, [package.name for package in packages])
    mark = f"\n# {mark_of(token)}\n"
    marked = {p.file: f"{read(p.file) or ''}{mark}" for p in packages}
    changes = {
        file: text.encode("utf-8", "surrogateescape") for file, text in marked.items()
    }
    roots = tuple(sorted({p.root for p in packages})) or ("",)
    without_installation: ProvenSetup | None = None
    reason = ""
    for way in session.ways:
        if way is SetupWay.INSTALLED and rebuild:
            continue
        if way is SetupWay.ON_PATH and without_installation:
            break
        setup = Setup(way, roots if way is SetupWay.ON_PATH else ())
        with session.prepare(changes, setup) as prepared:
            failing = tuple(one.command for one in prepared.failed)
            output = prepared.run(command, _SECONDS).output if packages else ""
        reason = _doubt(output, token, packages) if packages else ""
        installs = session.installs(setup) and not any(map(installs_project, failing))
        found = ProvenSetup(setup, failing, installs, reason)
        if not reason and (installs or not session.installs(setup)):
            return found
        if not reason and WHOLE_SETUP not in failing:
            without_installation = without_installation or found
    return without_installation or ProvenSetup(reason=reason)


def _doubt(output: str, token: str, packages: Sequence[Package]) -> str:
    end = split_statements(output, token)[1].get("end", {})
    places = {**end.get("outside", {}), **end.get("inside", {})}
    names = [package.name for package in packages]
    seen = [name for name in names if name in places]
    stale = next((name for name in seen if name not in end["marked"]), None)
    if stale is not None:
        return f"the tests import {stale} from {places[stale]}, not from the work tree"
    return "" if seen else f"no selected test was seen to import {' or '.join(names)}"


def setup_failures(prepared: Prepared, proven: ProvenSetup) -> tuple[Failure, ...]:
    """Return the set-up commands that fail with the candidate and not at the base commit."""
    new = [one for one in prepared.failed if one.command not in proven.failing]
    return tuple(_setup_failure(one.command, one.output) for one in new)


def build_failures(
    session: Session,
    prepared: Prepared,
    proven: ProvenSetup,
    kept: Changes,
    version: str,
) -> tuple[tuple[Failure, ...], str]:
    """Return what prevents the installation of the project, or why that is unknown.

    Where the set-up installs the project from the changed tree, nothing is checked.
    """
    if proven.installs or not concerns_build(kept):
        return (), ""
    number = _VERSION.search(version)
    command = _BUILD_CHECK.format(version=number.group() if number else "0.0")
    result = prepared.run(command, _BUILD_SECONDS)
    if result.exit_code == 0:
        return (), ""
    with session.prepare({}, proven.setup) as base:
        if base.run(command, _BUILD_SECONDS).exit_code == 0:
            return (
                _setup_failure("the installation of the project", result.output),
            ), ""
    reason = "the project's build cannot be tried here, and the edits concern it"
    return (), reason if build_files(kept) else ""


def _setup_failure(what: str, output: str) -> Failure:
    shown = "\n".join(output.strip().splitlines()[-_SHOWN_LINES:])
    return Failure(f"set-up: {what}", f"{what} fails with these edits:\n{shown}")


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
        results: of the last tree, by test file.
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
    results: dict[str, Results] = field(default_factory=dict)
    _setups: dict[tuple[object, ...], ProvenSetup] = field(default_factory=dict)
    _baselines: dict[Setup, Baselines] = field(default_factory=dict)
    _doubt: str = ""

    def run(self, changes: Changes) -> TestReport:
        """Run the tests on a tree with ``changes``; only what newly fails makes it fail."""
        tree = tree_under_test(changes, self.files, self.read)
        self.tested, self.untested, self.note = tree.changes, "", ""
        self._doubt, self.suspect = "", False
        self.results.clear()
        if tree.mixed:
            path = tree.mixed[0]
            return self._unknown(
                f"{path} changes test configuration and other things at once"
            )
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
            words = (
                f"no result of a test in the output of {self.session.test_command!r}"
            )
            return self._unknown(words if hidden else "")
        for baseline in selected.values():
            for path in shadowing(tree.changes, self.files, baseline.stated):
                self.suspect = True
                return self._unknown(
                    f"{path} takes the place of a module of the environment"
                )
        return self._report(proven, tree.changes, whole, selected)

    @property
    def whole(self) -> RegressionTests:
        """The same tests, of which all run."""
        return replace(self, choice=TestChoice.ALL, results={})

    def baseline(self) -> Baseline:
        """Return the results of all tests at the base commit."""
        tests = self.whole
        with tests._measuring(
            tests._setup({}, (ALL_TESTS,)), (ALL_TESTS,)
        ) as baseline_of:
            return baseline_of(
                ALL_TESTS, min(tests.limits.baseline, tests._usable_seconds)
            )

    def _unknown(self, reason: str) -> TestReport:
        self.log.info("tests: %s", reason or "no related test can tell")
        self.untested = reason
        return TestReport(None)

    @property
    def runner(self) -> Runner:
        return self._tests.runner

    def setup_for(self, changes: Changes) -> ProvenSetup:
        """Return the set-up in which commands run the code of a tree with ``changes``."""
        return self._setup(changes, self._wanted(tuple(changes)))

    @cached_property
    def _tests(self) -> TestFiles:
        command = self.session.test_command
        if command.startswith("tox "):
            # tox hides the variable from its commands that proof and statements need.
            command = "python -m pytest"
        runner = find_runner(command, self.instance.log_parser, self.read)
        if (
            self.instance.commands
            and runner in OF_PYTHON
            and not takes_arguments(command, runner)
        ):
            runner = Runner.SCRIPT
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
        runner = self._tests.runner
        proves = wanted and not (self.instance.commands and runner is Runner.SCRIPT)
        packages = edited_packages(changes, set(self.files)) if proves else ()
        rebuild = needs_rebuild(changes, packages)
        key = (rebuild, *(package.file for package in packages))
        if key not in self._setups:
            command = self._tests.command(*wanted)
            found = find_setup(
                self.session, packages, self.read, command, runner, rebuild=rebuild
            )
            self._setups[key] = found
            self.log.info("tests: set up %s %s", found.setup.way.value, found.reason)
        return self._setups[key]

    def _selected(
        self, proven: ProvenSetup, wanted: Sequence[str]
    ) -> dict[str, Baseline]:
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
            self._add_note(
                f"left out, the baseline takes too long or dies: {', '.join(left_out)}"
            )
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
            prepare = cache(
                lambda: stack.enter_context(self.session.prepare({}, proven.setup))
            )

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
                found = (
                    self._newly_failing(prepared, proven, *one)
                    for one in selected.items()
                )
                failures = tuple(chain.from_iterable(found))
        self.log.info(
            "tests: %d files run, %d failures are new", len(selected), len(failures)
        )
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
        return build_failures(
            self.session, prepared, proven, changes, self.instance.version
        )

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
            self.results[path] = run.results
            now = set(broken(baseline.results, run.results))
            failed = now if failed is None else failed & now
            dead = dead and died(result) and not baseline.died
            if not failed and not dead:
                self._compare(baseline, run)
                return ()
        failed, dead = self._confirmed(
            proven, path, baseline, failed or set(), dead=dead
        )
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
                replace(
                    one, name=f"{path}:{one.name}" if path not in one.name else one.name
                )
                for one in found
            )
        return found

    def _confirmed(
        self,
        proven: ProvenSetup,
        path: str,
        baseline: Baseline,
        failed: set[str],
        *,
        dead: bool,
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
