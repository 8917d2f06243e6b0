"""A run on one's own repository and issue: a data set of one instance, and what comes of it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.attempts import start_tests
from bench.benchmark import make_mirrors
from bench.cli.commands import run_command
from bench.config import RunConfig, RunSettings, validated
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
from environments.base import EnvironmentKind, UnavailableError, run_once
from environments.choice import make_environment
from environments.docker.engine import engine_answers
from runs.checks import check_models
from runs.keys import RUN_FILE
from runs.leftovers import marked_children, run_key
from runs.options import model_slug
from runs.session import Once
from runs.signals import INTERRUPTED, sigterm_as_interrupt
from runs.storage.runlock import LOCK_FILES
from runs.storage.store import RunStore

NOTHING_TO_TEST = 3
_NAMED, _LINES = 20, 12  # failing tests, and lines of output, in the terminal
IGNORING = ".gitignore"
_OF_DATA_SETS = ("dataset", "ids", "filter", "slice", "prior", "only_valid")


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

    def named(self, config: RunConfig) -> RunConfig:
        name = f"{self.key}--{model_slug(config.models)}"
        return config if config.run else replace(config, run=name)

    @property
    def dataset(self) -> Path:
        """The file of the data set of the one instance."""
        return self.repository.mirrors / f"{self.key}.json"

    def recorded(self) -> dict[str, str]:
        """Return the settings by which ``--continue`` finds the same repository and issue."""
        issue, name = (
            self.issue.url or self.project.issue,
            os.path.expanduser(self.project.issue),  # noqa: PTH111
        )
        if issue == "-":
            issue = self.issue.text
        elif os.path.exists(name):  # noqa: PTH110 - of any length
            issue = str(Path(name).resolve())
        place = self.repository.tree or self.repository.repo.git_dir
        return {
            "repo": without_logins(self.repository.url) or str(place),
            "issue": issue,
        }

    def run(self, config: RunConfig, options: Options, say: Say) -> int:
        """Measure the base, make the attempts and hand the result over; return the exit code."""
        project = self.project
        repository = self.repository
        config = validated(config)
        tell: Say = partial(print, file=sys.stderr) if options.as_json else say
        self._check()
        for line in self._found():
            tell(line)
        if options.dry_run:
            return run_command(config, options, say)
        check_models(config, options.money)
        before = measured(config, options, split_row(self.row)[0], tell)
        for line in before.lines(_NAMED):
            tell(line)
        if before.untested and config.settings.tests.required:
            tell("nothing to test, and tests.required is set: no model was called")
            if options.as_json:
                say(
                    json.dumps(
                        {"outcome": "nothing to test", "exit_code": NOTHING_TO_TEST}
                    )
                )
            return NOTHING_TO_TEST
        store, name = (
            RunStore(options.out, config.run_name),
            str(self.row["instance_id"]),
        )
        for folder in (store.folder, store.logs):
            hide(folder, repository.tree)
        if run_command(config, options, say) == INTERRUPTED:
            return INTERRUPTED
        result = OwnResult.read(repository, self.issue, store, name, before)
        result.write()
        for line in result.lines():
            tell(line)
        for line in deliver(project, result):
            tell(line)
        untested = (
            result.outcome is OwnOutcome.UNTESTED and config.settings.tests.required
        )
        code = NOTHING_TO_TEST if untested else 0 if result.plausible else 1
        if options.as_json:
            taken = result.patch and (result.plausible or project.least_bad)
            say(result.as_json(project.branch if taken else "", code))
        return code

    def _check(self) -> None:
        project = self.project
        repository = self.repository
        if project.branch:
            repository.check_branch(project.branch)
        if repository.tree is None and project.apply:
            raise UserError("--apply: there is no work tree; leave it out")
        if project.patch and (
            project.patch.is_dir() or not project.patch.parent.is_dir()
        ):
            raise UserError(
                f"project.patch {project.patch}: a file cannot be written there; give another"
            )

    def _found(self) -> Iterator[str]:
        """Yield what was found, for the user to see before anything costs."""
        repository, commands = self.repository, self.commands
        changed = ", with uncommitted changes" if repository.changed else ""
        for name, key, words in (
            ("repository", "", f"{repository.name} at {repository.head[:12]}{changed}"),
            ("issue", "", self.issue.title),
            ("set-up", "setup", "; ".join(commands.setup) or "none"),
            ("tests", "test", commands.test or "none found; give --test-cmd"),
            ("lint", "lint", commands.lint or "syntax and names only"),
            ("environment", "image", f"{self.environment.value} {commands.image}"),
        ):
            source = f"  ({self.sources[key]})" if key in self.sources else ""
            yield f"{name:<12} {one_line(words)}{source}"
        if self.issue.note:
            yield f"note: {self.issue.note}"


def prepare(settings: RunSettings, chosen: Layer) -> OwnRun:
    """Read repository and issue, and make the data set of the one instance.

    ``chosen`` has the settings that were given for this start.
    """
    project = settings.project
    if not (project.repo and project.issue):
        raise UserError("give both --repo and --issue")
    for name in ("folders.repos", *(f"instances.{field}" for field in _OF_DATA_SETS)):
        if name in chosen:
            label = chosen[name].label
            raise UserError(f"--repo is a data set of one instance; leave {label} out")
    cache = settings.folders.cache
    repository = open_repository(
        project.repo,
        project.base,
        cache,
        include_changes=project.include_changes,
        ours=lambda tree: own_files(tree, settings.folders.out, cache, project.patch),
    )
    issue = read_issue(project.issue, sys.stdin)
    commands, sources = _commands(project, repository)
    environment = _environment(settings, commands, sources)
    if environment is not EnvironmentKind.DOCKER:
        commands = commands.model_copy(update={"image": ""})
        sources.pop("image", None)
    number = issue.number or sha256_of(issue.text.encode("utf-8", "replace"))[:8]
    row = {
        "instance_id": f"{repository.name.replace('/', '__')}-{number}",
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
        key=f"{row['instance_id']}-{digest}",
    )
    write_json_atomic(run.dataset, [row])
    return run


def _environment(
    settings: RunSettings, commands: Commands, sources: Mapping[str, str]
) -> EnvironmentKind:
    kind = settings.tests.environment
    if kind is None:
        image = sources.get("image")
        in_image = image == "given" or (image is not None and engine_answers())
        kind = EnvironmentKind.DOCKER if in_image else EnvironmentKind.LOCAL
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
    places = [cache]
    for folder in (out / "predictions").glob("*"):
        if any((folder / name).exists() for name in (RUN_FILE, *LOCK_FILES)):
            places += [folder, out / "logs" / folder.name]
    places += [
        journal.parent.parent for journal in (out / "logs").glob("*/journals/*.jsonl")
    ]
    if patch:
        places.append(patch.expanduser().parent.resolve() / patch.name)
    if cache.is_relative_to(tree):
        _check_cache(cache, tree)
        hide(cache, tree)
    return {
        place.relative_to(tree).as_posix()
        for place in places
        if place.is_relative_to(tree)
    }


def _check_cache(cache: Path, tree: Path) -> None:
    known = (cache / IGNORING, *cache.glob("own/*/*__*.git"))
    empty = not cache.exists() or not any(cache.iterdir())
    if cache == tree or not (empty or any(place.exists() for place in known)):
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


def _commands(
    project: ProjectSettings, repository: OwnRepository
) -> tuple[Commands, dict[str, str]]:
    """Return the commands given, else saved, else found, and where each comes from."""
    found = discover(repository.files, repository.read)
    file = repository.tree / CONFIG_FILE if repository.tree else Path()
    text = repository.read(CONFIG_FILE)
    if file.is_file():
        text = file.read_text("utf-8", "replace")
    saved = read_saved(text) if text is not None else Commands()
    given = Commands(
        setup=project.setup,
        test=project.test,
        lint=project.lint,
        image=project.image,
    )
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for commands, source in (
        (found.commands, ""),
        (saved, CONFIG_FILE),
        (given, "given"),
    ):
        for name, value in commands.model_dump(exclude_defaults=True).items():
            values[name], sources[name] = (
                value,
                source or f"found in {found.sources[name]}",
            )
    return Commands.model_validate(values), sources


def measured(
    config: RunConfig, options: Options, instance: Instance, tell: Say
) -> Before:
    """Set the repository up, run all tests at the base commit, and return their results."""
    if not config.runs_tests:
        return Before("tests are not run (tests.which=none or --environment none)")
    key = run_key(RunStore(options.out, config.run_name).folder)
    with (
        tempfile.TemporaryDirectory() as folder,
        marked_children(key),
        sigterm_as_interrupt(),
    ):
        try:
            mirrors = make_mirrors(options)
            snapshots = Snapshots(options.cache / "snapshots")
            snapshot = snapshot_of(instance, mirrors, snapshots)
            base = make_checkout(snapshot, Path(folder) / "base")
            environment = make_environment(
                config.environment, options.cache, Once(tell), key
            )
            tell("setting up the repository at its base commit …")
            tests = start_tests(
                config, instance, mirrors, environment, base, options.cache
            )
        except UnavailableError as error:
            return Before(str(error))
        session = tests.session
        try:
            if not config.full_suite:
                return Before()
            tell("running all tests at the base commit …")
            before = Before.of(
                tests.baseline(), session.test_command, config.settings.tests.timeout
            )
            if before.untested:  # the user should see why
                result = run_once(
                    session, {}, before.command, config.settings.tests.timeout
                )
                for line in result.output.strip().splitlines()[-_LINES:]:
                    tell(f"  | {one_line(line)}")
            return before
        finally:
            session.stop()
