"""From the configuration of a run to the tools of the work on one instance."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from swe_retry.agent.conversation.limits import ConversationLimits
from swe_retry.agent.conversation.setup import ConversationSetup, harness_setup
from swe_retry.agent.lint.linter import Linter
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.repomap.rendered import RenderedMaps
from swe_retry.agent.workspace import Workspace
from swe_retry.attempts.checkouts import Checkouts
from swe_retry.attempts.config import RunConfig
from swe_retry.attempts.services import Services
from swe_retry.core.processes import remove_tree
from swe_retry.environments.base import (
    BrokenEnvironmentError,
    Environment,
    EnvironmentKind,
    UnavailableError,
)
from swe_retry.instances.instance import Instance
from swe_retry.repositories.checkout import Checkout, make_checkout, make_spread
from swe_retry.repositories.mirrors import Mirrors, add_submodules
from swe_retry.runner.jobs import JobContext
from swe_retry.runner.modelsource import Turn
from swe_retry.runner.progress.state import WorkStep
from swe_retry.testing.health import check_sample, note_problem
from swe_retry.testing.lintcommand import make_linter
from swe_retry.testing.project import project_of, snapshot_of
from swe_retry.testing.suite import RegressionTests


@dataclass(frozen=True)
class InstanceTools:
    """What the attempts on an instance share.

    Attributes:
        maps: maps of the base commit.
        linter: checks edited files with the compiler of the instance's Python.
        base: a checkout of the base commit; None where nothing needs one.
        tests: None where no test can run.
        untestable: why none can; empty where tests were not asked for.
    """

    instance: Instance
    services: Services
    context: JobContext
    checkouts: Checkouts
    files: FileIndex
    maps: RenderedMaps
    linter: Linter
    base: Checkout | None
    tests: RegressionTests | None
    untestable: str

    @property
    def max_attempts(self) -> int:
        """How many attempts there are at most."""
        candidates = self.services.candidates
        if candidates is not None:
            return len(candidates[self.instance.instance_id])
        config = self.services.config
        return len(config.models) * config.settings.models.tries

    def draw_map(self, root: Path, turn: Turn) -> str:
        """Return the map for a model of a checkout of the base commit."""
        return self.maps.render(
            root,
            self.instance.problem_statement,
            self.services.config.settings.builtin.map_tokens,
            count=turn.model.count,
            counter=turn.counter,
        )


def conversation_setup(
    config: RunConfig, instance: Instance, *, until_exhausted: bool = False
) -> ConversationSetup:
    """Return what a conversation about an instance begins with, and what it may use."""
    builtin = config.settings.builtin
    return replace(
        harness_setup(),
        limits=ConversationLimits(builtin.reflections, until_exhausted),
        matching=builtin.matching,
        on_failure=builtin.on_failed_edit,
        image_urls=instance.image_urls,
    )


@contextmanager
def instance_folder(instance: Instance, context: JobContext) -> Iterator[Path]:
    """Make a folder for the checkouts of an instance, and remove it at the end."""
    work = context.worker.work
    make_spread(work)
    folder = Path(tempfile.mkdtemp(dir=work, prefix=f"{instance.instance_id}."))
    try:
        yield folder
    finally:
        remove_tree(folder)


@contextmanager
def prepare(
    instance: Instance, services: Services, context: JobContext, folder: Path
) -> Iterator[InstanceTools]:
    """Yield the tools for an instance, whose checkouts lie in ``folder``; end its tests later.

    Raises:
        LeakError, InfrastructureError: as ``make_checkout``.
        BrokenEnvironmentError: no test could judge, and calls of a model would be paid for.
    """
    config = services.config
    context.step(0, "", WorkStep.CHECKOUT)
    snapshot = snapshot_of(instance, services.mirrors, services.snapshots)
    base = None
    if config.runs_tests or config.compares_candidates:
        base = make_checkout(snapshot, folder / "base")
    with _open_tests(instance, services, context, base) as (tests, untestable):
        session = tests.session if tests else None
        yield InstanceTools(
            instance=instance,
            services=services,
            context=context,
            checkouts=Checkouts(snapshot, folder),
            files=FileIndex(snapshot.blobs, snapshot.submodules),
            maps=RenderedMaps(snapshot.blobs, services.tags),
            linter=make_linter(instance, session, context.worker.warn_once),
            base=base,
            tests=tests,
            untestable=untestable,
        )


@contextmanager
def _open_tests(
    instance: Instance,
    services: Services,
    context: JobContext,
    base: Checkout | None,
) -> Iterator[tuple[RegressionTests | None, str]]:
    """Yield the tests of an instance in a session, or None and why it cannot be tested."""
    config = services.config
    if base is None or not config.runs_tests:
        yield None, ""
        return
    worker = context.worker
    untestable = ""
    with ExitStack() as stack:
        tests = None
        try:
            environment = services.environment
            tests = start_tests(config, instance, services.mirrors, environment, base)
            stack.callback(tests.session.stop)
            check = worker.stop.check
            spare = worker.slots.spare
            tests = replace(tests, check=check, spare=spare, log=context.log)
            if config.environment is EnvironmentKind.LOCAL and instance.spec:
                check_sample(tests, config.settings.tests.min_passing)
        except UnavailableError as error:
            untestable = str(error)
            context.log.warning("no tests: %s", error)
            if isinstance(error, BrokenEnvironmentError):
                note_problem(worker.cache, instance, untestable)
                if config.calls_models and config.settings.tests.required is not False:
                    raise
                worker.warn_once(f"{instance.instance_id}: {error}")
            else:
                tests = None
                worker.warn_once(f"{instance.repo}: {error}; test outcomes are unknown")
        if not untestable:
            note_problem(worker.cache, instance, "")
        yield tests, untestable


def start_tests(
    config: RunConfig,
    instance: Instance,
    mirrors: Mirrors,
    environment: Environment,
    base: Checkout,
) -> RegressionTests:
    """Start a session for the tests of an instance, whose base commit lies in ``base``.

    Raises:
        UnavailableError: the environment does not have what they need.
    """
    if instance.commands:
        mirror = mirrors.get(instance.repo, instance.base_commit)
        add_submodules(mirror, base)
    session = environment.start(project_of(instance, base, mirrors))
    return RegressionTests(
        instance=instance,
        session=session,
        choice=config.settings.tests.which,
        limits=config.settings.tests,
        files=base.tracked_files(),
        read=Workspace(base.root).read,
        cache=config.cache / "baselines",
        identity=session.identity,
        log=logging.getLogger("tests"),
        history=partial(mirrors.past_changes, instance.repo, instance.base_commit),
    )
