"""A run on one's own repository and issue: a data set of one instance, and what comes of it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from bench.attempts.solving import regression_tests
from bench.benchmark import make_mirrors
from bench.cli.commands import run_command
from bench.config import FullSuite, RunConfig, validated
from bench.instances.adapters.own import COMMANDS
from bench.instances.instance import Commands, Instance, split_row
from bench.instances.project import project_of, snapshot_of
from bench.options import Options
from bench.own.discovery import discover, read_saved, saved_text
from bench.own.issues import Issue, read_issue
from bench.own.options import OwnOptions
from bench.own.repository import CONFIG_FILE, OwnRepository, open_repository
from bench.own.result import Before, OwnOutcome, OwnResult, deliver
from bench.repos.checkout import Snapshots, make_checkout
from bench.repos.mirrors import add_submodules
from core.atomic import write_json_atomic, write_text_atomic
from core.errors import UserError
from core.plaintext import Say, one_line
from environments.base import EnvironmentKind, UnavailableError
from environments.choice import make_environment
from environments.docker.engine import engine_answers
from runs.checks import check_models
from runs.leftovers import marked_children, run_key
from runs.options import default_cache, model_slug
from runs.signals import INTERRUPTED, sigterm_as_interrupt
from runs.storage.store import RunStore

NOTHING_TO_TEST = 3
_FOUND, _SAVED, _GIVEN = "found in {}", CONFIG_FILE, "given"


@dataclass(frozen=True)
class OwnRun:
    """A repository and an issue, and the row that they make.

    Attributes:
        sources: where each of the commands comes from.
        key: names the run; the same start has the same.
    """

    own: OwnOptions
    repository: OwnRepository
    issue: Issue
    commands: Commands
    sources: Mapping[str, str]
    row: Mapping[str, Any]
    key: str

    def named(self, config: RunConfig) -> RunConfig:
        return config if config.run else replace(config, run=self.key + model_slug(config.models))

    def recorded(self) -> dict[str, Any]:
        """Return the options by which ``--continue`` finds the same repository and issue."""
        own, issue = self.own, self.own.issue
        if issue == "-":
            issue = self.issue.text
        elif os.path.exists(place := Path(issue).expanduser()):  # noqa: PTH110 - of any length
            issue = str(place.resolve())
        repo = own.repo if self.repository.url else str(Path(own.repo).expanduser().resolve())
        return {"repo": repo, "issue": issue}

    def run(self, config: RunConfig, options: Options, say: Say) -> int:
        """Measure the base, make the attempts and hand the result over; return the exit code."""
        own, repository = self.own, self.repository
        tell: Say = (lambda _: None) if options.as_json else say
        config = validated(config)
        self._check()
        for line in self.lines(config):
            tell(line)
        if own.save_config:
            self._save(tell)
        if options.dry_run:
            return run_command(config, options, say)
        check_models(config, options.money)
        before = measured(config, options, split_row(self.row)[0], tell)
        for line in before.lines():
            tell(line)
        if before.untested and config.require_tests:
            tell("nothing to test, and --require-tests is given: no model was called")
            return NOTHING_TO_TEST
        code = run_command(config, options, say)
        store = RunStore(options.out, config.run_name)
        if code == INTERRUPTED:
            return code
        name = str(self.row["instance_id"])
        result = OwnResult.read(repository, self.issue, store, name, before)
        result.write()
        for line in result.lines():
            tell(line)
        for line in deliver(own, result):
            tell(line)
        code = 0 if result.plausible else 1
        if result.outcome is OwnOutcome.UNTESTED and config.require_tests:
            code = NOTHING_TO_TEST
        if options.as_json:
            applied = own.branch if result.plausible or own.apply_anyway else ""
            say(result.as_json(applied, code))
        return code

    def lines(self, config: RunConfig) -> list[str]:
        """Return what was found, for the user to see before anything costs."""
        repository, commands = self.repository, self.commands
        version = f" (after {repository.version})" if repository.version else ""
        changed = ", with uncommitted changes" if repository.commit != repository.head else ""
        image = f" in {commands.image}" if commands.image else ""
        shown = {
            "repository": f"{repository.name} at {repository.head[:12]}{version}{changed}",
            "issue": one_line(self.issue.title),
            "set-up": "; ".join(commands.setup) or "none",
            "tests": commands.test or "none found; give --test-cmd",
            "lint": commands.lint or "syntax and names only",
            "environment": config.environment.value + image,
        }
        of = {"set-up": "setup", "tests": "test", "lint": "lint", "environment": "image"}
        used = self.commands.model_dump()
        notes = {name: self.sources.get(field, "") for name, field in of.items() if used[field]}
        return [
            f"{name:<12} {one_line(words)}" + (f"  ({notes[name]})" if notes.get(name) else "")
            for name, words in shown.items()
        ] + ([f"note: {self.issue.note}"] if self.issue.note else [])

    def _check(self) -> None:
        if self.own.branch:
            self.repository.check_branch(self.own.branch)
        if self.own.apply and self.repository.tree is None:
            raise UserError("--apply: the repository has no work tree; use --branch or --patch")

    def _save(self, tell: Say) -> None:
        tree = self.repository.tree
        if tree is None:
            raise UserError("--save-config: the repository has no work tree; leave it out")
        write_text_atomic(tree / CONFIG_FILE, saved_text(self.commands, self.sources))
        tell(f"wrote {tree / CONFIG_FILE}")


def prepare(values: dict[str, Any], own: OwnOptions, chosen: Mapping[str, Any]) -> OwnRun:
    """Read repository and issue, and set in ``values`` what a run of the one instance needs.

    ``chosen`` are the options that were given, by name.
    """
    if not (own.repo and own.issue):
        raise UserError("give both --repo and --issue")
    if sets := sorted({"dataset", "instances", "filter", "slice", "repos", "prior"} & {*chosen}):
        raise UserError(f"--repo is a data set of one instance; leave --{sets[0]} out")
    place = Path(values["cache"] or default_cache()).expanduser().resolve()
    repository = open_repository(own.repo, own.base, place, include_changes=own.include_changes)
    issue = read_issue(own.issue, sys.stdin)
    commands, sources = _commands(own, repository)
    kind = _environment(values["environment"], commands, sources)
    if kind is not EnvironmentKind.DOCKER:
        commands = commands.model_copy(update={"image": ""})
    elif not commands.image:
        raise UserError("--environment docker: no image is known; give --image")
    number = issue.number or hashlib.sha256(issue.text.encode("utf-8", "replace")).hexdigest()[:8]
    row = {
        "instance_id": f"{repository.name.replace('/', '__')}-{number}",
        "repo": repository.name,
        "base_commit": repository.commit,
        "problem_statement": issue.text,
        "version": repository.version,
        COMMANDS: commands.model_dump(mode="json"),
    }
    digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:8]
    key = f"{row['instance_id']}-{digest}"
    dataset = repository.mirrors / f"{key}.json"
    write_json_atomic(dataset, [row])
    values |= {"dataset": str(dataset), "repos": repository.mirrors, "environment": kind}
    values["full_suite"] = values["full_suite"] or FullSuite.WINNER
    return OwnRun(own, repository, issue, commands, sources, row, f"{key}--")


def _commands(own: OwnOptions, repository: OwnRepository) -> tuple[Commands, Mapping[str, str]]:
    """Return the commands given, else saved, else found, and where each comes from."""
    found = discover(repository.files, repository.read)
    file = repository.tree / CONFIG_FILE if repository.tree else None
    text = file.read_text(encoding="utf-8") if file and file.exists() else None
    text = repository.read(CONFIG_FILE) if text is None else text
    saved = read_saved(text).model_dump() if text is not None else {}
    given = {
        "setup": own.setup_cmd, "test": own.test_cmd, "lint": own.lint_cmd, "image": own.image
    }  # fmt: skip
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, value in found.commands.model_dump().items():
        chosen = given.get(name) or saved.get(name)
        values[name] = chosen or value
        if values[name]:
            where = _GIVEN if given.get(name) else _SAVED
            sources[name] = where if chosen else _FOUND.format(found.sources[name])
    return Commands.model_validate(values), sources


def _environment(
    given: EnvironmentKind | None, commands: Commands, sources: Mapping[str, str]
) -> EnvironmentKind:
    asked = sources.get("image") in (_GIVEN, _SAVED)
    if given is not None:
        if given is not EnvironmentKind.DOCKER and sources.get("image") == _GIVEN:
            raise UserError("--image is for --environment docker; leave one of both out")
        return given
    if asked or (commands.image and engine_answers()):
        return EnvironmentKind.DOCKER
    return EnvironmentKind.LOCAL


def measured(config: RunConfig, options: Options, instance: Instance, tell: Say) -> Before:
    """Set the repository up, run all tests at the base commit, and return their results."""
    if not config.runs_tests:
        return Before("tests are not run (--tests none or --environment none)")
    key = run_key(RunStore(options.out, config.run_name).folder)
    log = logging.getLogger("bench.own")
    with tempfile.TemporaryDirectory() as folder, marked_children(key), sigterm_as_interrupt():
        try:
            mirrors, snapshots = make_mirrors(options), Snapshots(options.cache / "snapshots")
            base = make_checkout(snapshot_of(instance, mirrors, snapshots), Path(folder) / "base")
            add_submodules(mirrors.get(instance.repo, instance.base_commit), base)
            note = cache(lambda words: tell(f"note: {words}"))
            environment = make_environment(config.environment, options.cache, note, key)
            tell("setting up the repository at its base commit …")
            session = environment.start(project_of(instance, base))
        except UnavailableError as error:
            return Before(str(error))
        try:
            if config.full_suite is FullSuite.NEVER:
                return Before()
            tell("running all tests at the base commit …")
            tests = regression_tests(config, instance, session, base, options.cache, log)
            found = tests.baseline()
        finally:
            session.stop()
    return Before.of(found, session.test_command, config.test_timeout)
