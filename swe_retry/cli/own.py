"""A run on one's own repository and issue: a data set of one instance, and what comes of it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path

from swe_retry.attempts.benchmark import InstanceBenchmark, make_mirrors
from swe_retry.attempts.config import RunConfig, RunSettings, validate_config
from swe_retry.attempts.own_settings import ProjectSettings
from swe_retry.attempts.prepare import start_tests
from swe_retry.cli.commands import check_run, forecast_run
from swe_retry.core.address import without_logins
from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import Say, one_line, visible
from swe_retry.core.settings import Layer
from swe_retry.environments.base import (
    EnvironmentKind,
    Session,
    UnavailableError,
    run_once,
)
from swe_retry.environments.choice import make_environment
from swe_retry.environments.docker.engine import engine_answers
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.instances.adapters.own import COMMANDS
from swe_retry.instances.instance import Commands
from swe_retry.instances.split import Instance, split_row
from swe_retry.own.discovery import CONFIG_FILE, discover, read_saved
from swe_retry.own.issues import Issue, read_issue
from swe_retry.own.repository import OwnRepository, open_repository
from swe_retry.own.result import Before, OwnOutcome, OwnResult, deliver, failure_cause
from swe_retry.record.keys import RUN_FILE
from swe_retry.record.runlock import LOCK_FILES
from swe_retry.record.store import RunStore
from swe_retry.repositories.checkout import make_checkout
from swe_retry.repositories.snapshot import Snapshots
from swe_retry.runner.leftovers import marked_children, run_key
from swe_retry.runner.progress.state import duration
from swe_retry.runner.session import Once, check_start, start_run
from swe_retry.runner.signals import INTERRUPTED
from swe_retry.testing.project import snapshot_of

NOTHING_TO_TEST = 3
IGNORING = ".gitignore"
_SETTING = "given"
"""The source of a command that a setting gives."""
# In the terminal.
_MAX_FAILING = 20
_MAX_LINES = 12
_OF_DATA_SETS = (
    "folders.repos",
    "instances.dataset",
    "instances.ids",
    "instances.filter",
    "instances.slice",
    "instances.prior",
    "instances.only_valid",
)


@dataclass(frozen=True)
class OwnRun:
    """A repository and an issue, and the instance that they make.

    Attributes:
        sources: where each of the commands comes from.
        key: names the run with its models; the same start has the same.
    """

    project: ProjectSettings
    environment: EnvironmentKind
    repository: OwnRepository
    issue: Issue
    commands: Commands
    sources: Mapping[str, str]
    instance: Instance
    key: str

    def own_config(self, config: RunConfig) -> RunConfig:
        """Return the configuration with a name of the run and the data set of the one instance."""
        recorded = self.recorded_settings()
        project = config.settings.project.model_copy(update=recorded)
        return replace(
            config,
            settings=config.settings.model_copy(update={"project": project}),
            run=config.run or f"{self.key}--{config.run_name}",
            own_dataset=self.dataset,
        )

    @property
    def dataset(self) -> Path:
        """The file of the data set of the one instance."""
        return self.repository.mirrors / f"{self.key}.json"

    def recorded_settings(self) -> dict[str, str]:
        """Return the settings by which ``--continue`` finds the same repository and issue."""
        issue = self.issue.url or self.project.issue
        path = os.path.expanduser(self.project.issue)  # noqa: PTH111 - of any length
        if issue == "-":
            issue = self.issue.text
        elif os.path.exists(path):  # noqa: PTH110 - of any length
            issue = str(Path(path).resolve())
        repo = without_logins(self.repository.url)
        if not repo:
            repo = str(self.repository.project_root or self.repository.repo.git_dir)
        return {"repo": repo, "issue": issue}

    def run(self, config: RunConfig, say: Say) -> int:
        """Measure the base, make the attempts and hand the result over; return the exit code."""
        note = say
        if config.prints_json:
            note = partial(print, file=sys.stderr)
        benchmark = self._prepare(config, say, note)
        if config.dry_run:
            return forecast_run(benchmark)
        result = self._solve(benchmark, note)
        if result is None:
            return INTERRUPTED
        code = int(not result.plausible)
        requires_tests = benchmark.config.requires_tests
        is_untested = result.outcome is OwnOutcome.UNTESTED and requires_tests
        if is_untested or result.outcome is OwnOutcome.NOTHING_TO_TEST:
            code = NOTHING_TO_TEST
        if config.prints_json:
            branch = ""
            if result.patch and (result.plausible or self.project.least_bad):
                branch = self.project.branch
            say(result.as_json(branch, code))
        return code

    def solve(self, config: RunConfig, say: Say) -> OwnResult | None:
        """Do what ``run`` does, and return the result; None if the run was interrupted."""
        return self._solve(self._prepare(config, say, say), say)

    def _prepare(self, config: RunConfig, say: Say, note: Say) -> InstanceBenchmark:
        """Say what the run works with, and return it after all checks without a set-up."""
        self._check()
        for line in self._description():
            note(line)
        if not config.dry_run:
            self._check_trust()
        return check_run(config, say)

    def _solve(self, benchmark: InstanceBenchmark, note: Say) -> OwnResult | None:
        check_start(benchmark)
        config = benchmark.config
        before = measure_base(config, self.instance, note)
        for line in before.lines(_MAX_FAILING):
            note(line)
        if before.untested and config.requires_tests:
            note(
                "no model was called: no test could judge a patch; correct --setup-cmd and "
                "--test-cmd, or give --set tests.required=false"
            )
            return OwnResult(
                repository=self.repository,
                issue=self.issue,
                store=benchmark.store,
                before=before,
                cost=Decimal(),
                outcome=OwnOutcome.NOTHING_TO_TEST,
                reason=before.untested,
            )
        for folder in (benchmark.store.folder, benchmark.store.logs):
            hide(folder)
        if start_run(benchmark) == INTERRUPTED:
            return None
        return self._hand_over(benchmark.store, before, note)

    def check(self, config: RunConfig, say: Say) -> int:
        """Set up and run all tests at the base, show all output; return the exit code."""
        config = validate_config(config)
        for line in self._description():
            say(line)
        self._check_trust()
        before = measure_base(config, self.instance, say, checks=True)
        for line in before.lines(_MAX_FAILING):
            say(line)
        if before.untested:
            return NOTHING_TO_TEST
        return 0

    def _hand_over(self, store: RunStore, before: Before, note: Say) -> OwnResult:
        """Write the result, put the patch where it was asked for, and return the result."""
        name = self.instance.instance_id
        result = OwnResult.read(self.repository, self.issue, store, name, before)
        result.write()
        for line in result.lines():
            note(line)
        for line in deliver(self.project, result):
            note(line)
        return result

    def _check(self) -> None:
        project = self.project
        repository = self.repository
        if project.branch:
            repository.check_branch(project.branch)
        if repository.tree is None and project.apply:
            raise UserError("--apply: there is no work tree; leave it out")
        patch = project.patch
        if patch and (patch.is_dir() or not patch.parent.is_dir()):
            raise UserError(
                f"project.patch {patch}: a file cannot be written there; give another"
            )

    def _check_trust(self) -> None:
        """Refuse what a cloned repository would run, unless the user has said yes."""
        runs_nothing = self.environment is EnvironmentKind.NONE
        if self.project.trust_commands or runs_nothing or not self.repository.remote:
            return
        fix = "read the commands above, then give --set project.trust_commands=true"
        if CONFIG_FILE in self.sources.values():
            raise UserError(
                f"{CONFIG_FILE}: its commands are those of a cloned repository; {fix}"
            )
        if self.environment is EnvironmentKind.LOCAL and not bubblewrap_works():
            raise UserError(
                f"{self.repository.name} is cloned, and without bubblewrap its set-up and tests "
                f"run with your rights; install it, or {fix}"
            )

    def _description(self) -> Iterator[str]:
        """Yield what the run works with, for the user to see before anything costs."""
        repository = self.repository
        commands = self.commands
        base = f"{repository.name} at {repository.head[:12]}"
        if repository.folder:
            base += f", folder {repository.folder}"
        if repository.changed:
            base += ", with uncommitted changes"
        environment = f"{self.environment.value} {commands.image}"
        for name, field, text in (
            ("repository", "", base),
            ("issue", "", self.issue.title or "none"),
            ("set-up", "setup", "; ".join(commands.setup) or "none"),
            ("tests", "test", commands.test or "none found; give --test-cmd"),
            ("lint", "lint", commands.lint or "syntax and names only"),
            ("environment", "image", environment),
        ):
            source = ""
            if field in self.sources:
                source = f"  ({self.sources[field]})"
            yield f"{name:<12} {one_line(text)}{source}"
        if self.issue.note:
            yield f"note: {self.issue.note}"


def prepare(settings: RunSettings, chosen: Layer, issue: Issue | None = None) -> OwnRun:
    """Read repository and issue, and make the data set of the one instance.

    Args:
        chosen: the settings of the command line and of files.
        issue: None for that of the settings.
    """
    project = settings.project
    if not (project.repo and (project.issue or issue)):
        raise UserError("give both --repo and --issue")
    for name in _OF_DATA_SETS:
        if name in chosen:
            label = chosen[name].label
            raise UserError(f"--repo is a data set of one instance; leave {label} out")
    cache = settings.folders.cache

    def list_ours(tree: Path) -> set[str]:
        return own_files(tree, settings.folders.out, cache, project.patch)

    repository = open_repository(
        project.repo,
        project.base,
        cache,
        include_changes=project.include_changes,
        list_ours=list_ours,
    )
    issue = issue or read_issue(project.issue, sys.stdin)
    commands, sources = _find_commands(project, repository)
    environment = _choose_environment(settings, commands, sources)
    if environment is not EnvironmentKind.DOCKER:
        commands = commands.model_copy(update={"image": ""})
        sources.pop("image", None)
    digest = sha256_of(issue.text.encode("utf-8", "replace"))
    number = issue.number or digest[:8]
    name = f"{repository.name.replace('/', '__')}-{number}"
    row = {
        "instance_id": name,
        "repo": repository.name,
        "base_commit": repository.commit,
        "problem_statement": issue.text,
        "version": repository.version,
        COMMANDS: commands.model_dump(mode="json"),
    }
    digest = sha256_of(json.dumps(row, sort_keys=True))[:8]
    run = OwnRun(
        project=project,
        environment=environment,
        repository=repository,
        issue=issue,
        commands=commands,
        sources=sources,
        instance=split_row(row)[0],
        key=f"{name}-{digest}",
    )
    write_json_atomic(run.dataset, [row])
    return run


def _choose_environment(
    settings: RunSettings,
    commands: Commands,
    sources: Mapping[str, str],
) -> EnvironmentKind:
    kind = settings.tests.environment
    if kind is None:
        kind = EnvironmentKind.LOCAL
        source = sources.get("image")
        if source == _SETTING or (source == CONFIG_FILE and engine_answers()):
            kind = EnvironmentKind.DOCKER
    in_docker = kind is EnvironmentKind.DOCKER
    if in_docker and not commands.image:
        raise UserError("--environment docker needs an image; set project.image")
    if settings.project.image and not in_docker:
        raise UserError(
            "project.image and --environment docker belong together; give both or none"
        )
    return kind


def own_files(tree: Path, out: Path, cache: Path, patch: Path | None) -> set[str]:
    """Return the files and folders in ``tree`` that are the harness's own, not the user's.

    What this version makes is hidden from git; runs of earlier ones are known by their files.
    """
    paths = [cache]
    for folder in (out / "predictions").glob("*"):
        files = [folder / name for name in (RUN_FILE, *LOCK_FILES)]
        if any(file.exists() for file in files):
            paths += [folder, out / "logs" / folder.name]
    for journal in (out / "logs").glob("*/journals/*.jsonl"):
        paths.append(journal.parent.parent)
    if patch:
        paths.append(patch)
    if cache.is_relative_to(tree):
        _check_cache(cache, tree)
        hide(cache)
    ours = set()
    for path in paths:
        if path.is_relative_to(tree):
            ours.add(path.relative_to(tree).as_posix())
    return ours


def _check_cache(cache: Path, tree: Path) -> None:
    """Refuse a folder in the repository that holds files of others."""
    is_used = cache.exists() and any(cache.iterdir())
    marks = [cache / IGNORING, *cache.glob("own/*/*__*.git")]
    is_ours = any(mark.exists() for mark in marks)
    if cache == tree or (is_used and not is_ours):
        raise UserError(
            f"folders.cache {cache}: it holds files of the repository; give another folder"
        )


def hide(folder: Path) -> None:
    """Make a folder of the harness's own such that no work tree around it shows it."""
    folder.mkdir(parents=True, exist_ok=True)
    in_tree = any((parent / ".git").exists() for parent in folder.parents)
    if in_tree and not (folder / IGNORING).exists():
        (folder / IGNORING).write_text("*\n")


def _find_commands(
    project: ProjectSettings, repository: OwnRepository
) -> tuple[Commands, dict[str, str]]:
    """Return the commands of settings, else of the file, else discovered, and their sources."""
    discovered = discover(repository.files, repository.read)
    values = discovered.commands.model_dump(exclude_defaults=True)
    sources = {}
    for name in values:
        sources[name] = f"found in {discovered.sources[name]}"
    of_settings = Commands(
        setup=project.setup,
        test=project.test,
        lint=project.lint,
        image=project.image,
    )
    saved = _read_saved_commands(repository)
    for source, commands in {CONFIG_FILE: saved, _SETTING: of_settings}.items():
        fields = commands.model_dump(exclude_defaults=True)
        values |= fields
        sources |= dict.fromkeys(fields, source)
    return Commands.model_validate(values), sources


def _read_saved_commands(repository: OwnRepository) -> Commands:
    """Return the commands of the file in the work tree, else of that in the base commit."""
    text = repository.read(CONFIG_FILE)
    root = repository.project_root
    if root and (root / CONFIG_FILE).is_file():
        text = (root / CONFIG_FILE).read_text("utf-8", "replace")
    if text is None:
        return Commands()
    return read_saved(text)


def measure_base(
    config: RunConfig, instance: Instance, note: Say, *, checks: bool = False
) -> Before:
    """Set the repository up, run all tests at the base commit, and return their results.

    With ``checks`` all output is shown; without, the end of what says why no test passes.
    """
    if not config.runs_tests:
        return Before("tests are not run (tests.which=none or --environment none)")
    cache = config.cache
    key = run_key(RunStore(config.out, config.run_name).folder)
    with tempfile.TemporaryDirectory() as folder, marked_children(key):
        try:
            mirrors = make_mirrors(config)
            snapshot = snapshot_of(instance, mirrors, Snapshots(cache / "snapshots"))
            base = make_checkout(snapshot, Path(folder) / "base")
            environment = make_environment(
                config.environment,
                cache,
                Once(note),
                key,
                limits=config.settings.tests.limits,
            )
            with timed_step("setting up the repository at its base commit", note):
                tests = start_tests(config, instance, mirrors, environment, base, cache)
        except UnavailableError as error:
            return Before(str(error))
        finally:
            if checks:
                _show_setup(cache / "environments", instance.tested_as, note)
        try:
            if not config.full_suite:
                return Before()
            seconds = config.settings.tests.timeout
            command = tests.session.test_command
            with timed_step("running all tests at the base commit", note):
                baseline = tests.baseline()
            before = Before.of(baseline, command, seconds)
            lines = _MAX_LINES
            if checks:
                lines = 0
            if checks or before.untested:
                cause = _show_output(tests.session, command, seconds, note, lines)
            if before.untested:
                untested = f"{before.untested}: {cause}"
                before = replace(before, untested=untested)
            return before
        finally:
            tests.session.stop()


@contextmanager
def timed_step(text: str, note: Say, every: float = 15.0) -> Iterator[None]:
    """Say what is done meanwhile and how long it takes, every so many seconds and at its end."""
    started = time.monotonic()
    ended = threading.Event()

    def show(word: str) -> None:
        note(f"{text}: {word} {duration(time.monotonic() - started)}")

    def keep_showing() -> None:
        while not ended.wait(every):
            show("at work for")

    thread = threading.Thread(target=keep_showing, daemon=True)
    note(f"{text} …")
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        note("stopping; no model was called, and the same command starts again")
        raise
    finally:
        ended.set()
        thread.join()
    show("done in")


def _show_setup(environments: Path, key: str, note: Say) -> None:
    """Show what the set-up printed when the environment was made."""
    for folder in (environments, environments / "open"):
        log = folder / "logs" / f"{key}.log"
        if log.is_file():
            note(visible(log.read_text("utf-8", "replace")))


def _show_output(
    session: Session,
    command: str,
    seconds: float,
    note: Say,
    lines: int,
) -> str:
    """Run the tests again, show the last ``lines`` of their output, and return the cause."""
    result = run_once(session, {}, command, seconds)
    for line in result.output.strip().splitlines()[-lines:]:
        note(f"  | {one_line(line)}")
    return failure_cause(result.output)
