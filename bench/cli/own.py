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
from functools import partial
from pathlib import Path
from typing import Any

from bench.attempts import start_tests
from bench.benchmark import make_mirrors
from bench.cli.commands import check_run, forecast_run
from bench.config import RunConfig, RunSettings
from bench.instances.adapters.own import COMMANDS
from bench.instances.instance import Instance, split_row
from bench.instances.project import snapshot_of
from bench.instances.shape import Commands
from bench.options import Options
from bench.own.discovery import CONFIG_FILE, discover, read_saved
from bench.own.issues import Issue, read_issue
from bench.own.repository import OwnRepository, open_repository
from bench.own.result import Before, OwnOutcome, OwnResult, deliver
from bench.own.settings import ProjectSettings
from bench.repos.checkout import Snapshots, make_checkout
from core.address import without_logins
from core.atomic import write_json_atomic
from core.errors import UserError
from core.hashing import sha256_of
from core.plaintext import Say, one_line
from core.settings import Layer
from environments.base import EnvironmentKind, Session, UnavailableError, run_once
from environments.choice import make_environment
from environments.docker.engine import engine_answers
from runs.keys import RUN_FILE
from runs.leftovers import marked_children, run_key
from runs.progress.state import duration
from runs.session import Once, check_start, start_run
from runs.signals import INTERRUPTED, sigterm_as_interrupt
from runs.storage.runlock import LOCK_FILES
from runs.storage.store import RunStore

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
    """A repository and an issue, and the row that they make.

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
    row: Mapping[str, Any]
    key: str

    def with_run_name(self, config: RunConfig) -> RunConfig:
        """Return the configuration with a name of the run."""
        if config.run:
            return config
        return replace(config, run=f"{self.key}--{config.run_name}")

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
            repo = str(self.repository.tree or self.repository.repo.git_dir)
        return {"repo": repo, "issue": issue}

    def run(self, config: RunConfig, options: Options, say: Say) -> int:
        """Measure the base, make the attempts and hand the result over; return the exit code."""
        note = say
        if options.as_json:
            note = partial(print, file=sys.stderr)
        self._check()
        for line in self._description():
            note(line)
        benchmark = check_run(config, options, say)
        if options.dry_run:
            return forecast_run(benchmark)
        check_start(benchmark)
        config = benchmark.config
        store = benchmark.store
        before = measure_base(config, options, split_row(self.row)[0], note)
        for line in before.lines(_MAX_FAILING):
            note(line)
        if before.untested and config.settings.tests.required:
            note("nothing to test, and tests.required is set: no model was called")
            if options.as_json:
                content = {"outcome": "nothing to test", "exit_code": NOTHING_TO_TEST}
                say(json.dumps(content))
            return NOTHING_TO_TEST
        for folder in (store.folder, store.logs):
            hide(folder, self.repository.tree)
        if start_run(benchmark) == INTERRUPTED:
            return INTERRUPTED
        return self._hand_over(config, options, store, before, say, note)

    def _hand_over(
        self,
        config: RunConfig,
        options: Options,
        store: RunStore,
        before: Before,
        say: Say,
        note: Say,
    ) -> int:
        """Write the result and put the patch where it was asked for; return the exit code."""
        name = str(self.row["instance_id"])
        result = OwnResult.read(self.repository, self.issue, store, name, before)
        result.write()
        for line in result.lines():
            note(line)
        for line in deliver(self.project, result):
            note(line)
        code = int(not result.plausible)
        if result.outcome is OwnOutcome.UNTESTED and config.settings.tests.required:
            code = NOTHING_TO_TEST
        if options.as_json:
            branch = ""
            if result.patch and (result.plausible or self.project.least_bad):
                branch = self.project.branch
            say(result.as_json(branch, code))
        return code

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

    def _description(self) -> Iterator[str]:
        """Yield what the run works with, for the user to see before anything costs."""
        repository = self.repository
        commands = self.commands
        base = f"{repository.name} at {repository.head[:12]}"
        if repository.changed:
            base += ", with uncommitted changes"
        environment = f"{self.environment.value} {commands.image}"
        for name, field, text in (
            ("repository", "", base),
            ("issue", "", self.issue.title),
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


def prepare(settings: RunSettings, chosen: Layer) -> OwnRun:
    """Read repository and issue, and make the data set of the one instance.

    ``chosen`` has the settings of the command line and of files.
    """
    project = settings.project
    if not (project.repo and project.issue):
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
    issue = read_issue(project.issue, sys.stdin)
    commands, sources = _find_commands(project, repository)
    environment = _choose_environment(settings, commands, sources)
    if environment is not EnvironmentKind.DOCKER:
        commands = commands.model_copy(update={"image": ""})
        sources.pop("image", None)
    number = issue.number or sha256_of(issue.text.encode("utf-8", "replace"))[:8]
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
        row=row,
        key=f"{name}-{digest}",
    )
    write_json_atomic(run.dataset, [row])
    return run


def _choose_environment(
    settings: RunSettings, commands: Commands, sources: Mapping[str, str]
) -> EnvironmentKind:
    kind = settings.tests.environment
    if kind is None:
        kind = EnvironmentKind.LOCAL
        source = sources.get("image")
        if source == _SETTING or (source and engine_answers()):
            kind = EnvironmentKind.DOCKER
    in_docker = kind is EnvironmentKind.DOCKER
    if in_docker and not commands.image:
        raise UserError("--environment docker needs an image; set project.image")
    if settings.project.image and not in_docker:
        raise UserError(
            "project.image and --environment docker belong together; give both or none"
        )
    return kind


def own_files(
    tree: Path,
    out: Path,
    cache: Path,
    patch: Path | None,
) -> set[str]:
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
        paths.append(patch.expanduser().parent.resolve() / patch.name)
    if cache.is_relative_to(tree):
        _check_cache(cache, tree)
        hide(cache, tree)
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


def hide(folder: Path, tree: Path | None) -> None:
    """Make a folder of the harness's own in ``tree`` such that git does not show it."""
    if tree is None or not folder.is_relative_to(tree):
        return
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / IGNORING).exists():
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
    if repository.tree and (repository.tree / CONFIG_FILE).is_file():
        text = (repository.tree / CONFIG_FILE).read_text("utf-8", "replace")
    if text is None:
        return Commands()
    return read_saved(text)


def measure_base(
    config: RunConfig, options: Options, instance: Instance, note: Say
) -> Before:
    """Set the repository up, run all tests at the base commit, and return their results."""
    if not config.runs_tests:
        return Before("tests are not run (tests.which=none or --environment none)")
    cache = options.cache
    key = run_key(RunStore(options.out, config.run_name).folder)
    with (
        tempfile.TemporaryDirectory() as folder,
        marked_children(key),
        sigterm_as_interrupt(),
    ):
        try:
            mirrors = make_mirrors(options)
            snapshot = snapshot_of(instance, mirrors, Snapshots(cache / "snapshots"))
            base = make_checkout(snapshot, Path(folder) / "base")
            environment = make_environment(config.environment, cache, Once(note), key)
            with timed_step("setting up the repository at its base commit", note):
                tests = start_tests(config, instance, mirrors, environment, base, cache)
        except UnavailableError as error:
            return Before(str(error))
        try:
            if not config.full_suite:
                return Before()
            seconds = config.settings.tests.timeout
            command = tests.session.test_command
            with timed_step("running all tests at the base commit", note):
                baseline = tests.baseline()
            before = Before.of(baseline, command, seconds)
            if before.untested:
                _show_output(tests.session, before.command, seconds, note)
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


def _show_output(
    session: Session,
    command: str,
    seconds: float,
    note: Say,
) -> None:
    """Run the tests again and show the end of the output, so that the user sees what is wrong."""
    result = run_once(session, {}, command, seconds)
    for line in result.output.strip().splitlines()[-_MAX_LINES:]:
        note(f"  | {one_line(line)}")
