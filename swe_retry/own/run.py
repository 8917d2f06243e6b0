"""A run on one's own repository and issue: a data set of one instance."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from swe_retry.attempts.config import RunConfig, RunSettings
from swe_retry.attempts.own_settings import ProjectSettings
from swe_retry.core.address import without_logins
from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import one_line
from swe_retry.core.sources import Layer
from swe_retry.environments.base import (
    EnvironmentKind,
)
from swe_retry.environments.docker.engine import engine_answers
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.instances.adapters.own import COMMANDS
from swe_retry.instances.instance import Commands, Instance
from swe_retry.instances.split import split_row
from swe_retry.own.discovery import CONFIG_FILE, discover, read_saved
from swe_retry.own.folders import own_files
from swe_retry.own.issues import Issue, read_issue
from swe_retry.own.opening import open_repository
from swe_retry.own.repository import OwnRepository

_SETTING = "given"
"""The source of a command that a setting gives."""
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

    def configure(self, config: RunConfig) -> RunConfig:
        """Return it with a name of the run, and with the data set of the one instance."""
        recorded = self.recorded_settings()
        project = config.settings.project.model_copy(update=recorded)
        return replace(
            config,
            settings=config.settings.model_copy(update={"project": project}),
            run=config.run or f"{self.key}--{config.run_name}",
            own_dataset=self.dataset,
        )

    def check_delivery(self) -> None:
        """Refuse what the result could not be written to."""
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

    def check_trust(self) -> None:
        """Refuse what a cloned repository would run, unless the user has said yes."""
        check_trust(self.project, self.repository, self.environment, self.sources)

    def describe(self) -> Iterator[str]:
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
    commands, sources = find_commands(project, repository)
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


def check_trust(
    project: ProjectSettings,
    repository: OwnRepository,
    environment: EnvironmentKind,
    sources: Mapping[str, str],
) -> None:
    """Refuse what a cloned repository would run, unless the user has said yes.

    ``sources`` are those of its commands.
    """
    runs_nothing = environment is EnvironmentKind.NONE
    if project.trust_commands or runs_nothing or not repository.remote:
        return
    fix = "read its commands first, then give --set project.trust_commands=true"
    if CONFIG_FILE in sources.values():
        raise UserError(
            f"{CONFIG_FILE}: its commands are those of a cloned repository; {fix}"
        )
    if environment is EnvironmentKind.LOCAL and not bubblewrap_works():
        raise UserError(
            f"{repository.name} is cloned, and without bubblewrap its set-up and tests "
            f"run with your rights; install it, or {fix}"
        )


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


def find_commands(
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
