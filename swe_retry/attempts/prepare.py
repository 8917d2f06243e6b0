"""From the configuration of a run to the policies and tools of the work on one instance."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from swe_retry.agent.conversation.limits import ConversationLimits
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.repomap.rendered import RenderedMaps
from swe_retry.agent.workspace import Workspace
from swe_retry.attempts.attempt import AttemptSetup, AttemptWork
from swe_retry.attempts.checkouts import Checkouts
from swe_retry.attempts.config import HistoryChoice, RunConfig
from swe_retry.attempts.evidence.choice import choose_by_evidence
from swe_retry.attempts.evidence.facts import stated_fit
from swe_retry.attempts.evidence.gathering import EvidenceGathering
from swe_retry.attempts.evidence.writers import ScriptWriters
from swe_retry.attempts.fullsuite import Choose, FullSuitePolicy
from swe_retry.attempts.history import Briefing
from swe_retry.attempts.services import Services
from swe_retry.attempts.stop import StopPolicy
from swe_retry.core.processes import remove_tree
from swe_retry.environments.base import (
    BrokenEnvironmentError,
    Environment,
    EnvironmentKind,
    UnavailableError,
)
from swe_retry.instances.instance import Instance
from swe_retry.llm.options import ModelChoice
from swe_retry.record.evidence import BeliefFit, Evidence
from swe_retry.record.records import Attempt
from swe_retry.repositories.checkout import Checkout, make_checkout, make_spread
from swe_retry.repositories.mirrors import Mirrors, add_submodules
from swe_retry.runner.jobs import JobContext
from swe_retry.runner.progress.state import WorkStep
from swe_retry.testing.health import check_sample, note_problem
from swe_retry.testing.lintcommand import make_linter
from swe_retry.testing.project import project_of, snapshot_of
from swe_retry.testing.suite import RegressionTests


@dataclass(frozen=True)
class InstancePlan:
    """How the work on one instance is done.

    Attributes:
        models: they alternate.
        attempts: how many there are at most.
    """

    setup: AttemptSetup
    models: tuple[ModelChoice, ...]
    attempts: int
    checkouts: Checkouts
    history: HistoryChoice
    stop_policy: StopPolicy
    evidence: EvidenceGathering
    full_suite: FullSuitePolicy
    require_tests: bool

    def attempt(
        self,
        number: int,
        checkout: Checkout,
        briefing: Briefing,
    ) -> AttemptWork:
        """Return the work on an attempt."""
        rounds, turn = divmod(number - 1, len(self.models))
        try_ = rounds + 1
        settings = self.setup.services.config.settings
        return AttemptWork(
            setup=self.setup,
            number=number,
            try_=try_,
            choice=self.models[turn],
            temperature=settings.models.temperature(try_),
            checkout=checkout,
            briefing=briefing,
        )

    def chooser_for(self, evidence: Evidence | None) -> Choose:
        """Return what chooses among attempts by their outcomes and by ``evidence``."""
        return partial(
            choose_by_evidence,
            evidence=evidence,
            fit=self.evidence.fit,
            require_tests=self.require_tests,
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
    instance: Instance,
    services: Services,
    context: JobContext,
    folder: Path,
    writers: ScriptWriters,
    keep: Callable[[Attempt], None],
    stop_fit: BeliefFit | None,
) -> Iterator[InstancePlan]:
    """Yield the plan for an instance, whose checkouts lie in ``folder``; stop its tests at the end.

    Raises:
        LeakError, InfrastructureError: as ``make_checkout``.
        BrokenEnvironmentError: no test could judge, and calls of a model would be paid for.
    """
    config = services.config
    settings = config.settings
    choice = settings.choice
    attempts = len(config.models) * settings.models.tries
    if services.candidates is not None:
        attempts = len(services.candidates[instance.instance_id])
    context.step(0, "", WorkStep.CHECKOUT)
    snapshot = snapshot_of(instance, services.mirrors, services.snapshots)
    base = None
    if config.runs_tests or config.compares_candidates:
        base = make_checkout(snapshot, folder / "base")
    with _open_tests(instance, services, context, base) as (tests, untestable):
        session = tests.session if tests else None
        stated = stated_fit(choice.right)
        evidence = EvidenceGathering(
            instance=instance,
            base=base if config.compares_candidates else None,
            tests=tests if config.by_evidence else None,
            ask=writers.ask,
            models=len(config.models),
            choice=choice,
            fit=stated,
            stop_fit=stop_fit or stated,
            cache=context.worker.cache / "scripts",
            log=context.log,
        )
        checkouts = Checkouts(snapshot, folder)
        yield InstancePlan(
            setup=AttemptSetup(
                instance=instance,
                services=services,
                context=context,
                checkouts=checkouts,
                files=FileIndex.of(snapshot.blobs),
                maps=RenderedMaps(snapshot.blobs, services.tags),
                linter=make_linter(instance, session, context.worker.warn_once),
                tests=tests,
                limits=_limits(config),
                keep=keep,
                untestable=untestable,
            ),
            models=config.models,
            attempts=attempts,
            checkouts=checkouts,
            history=choice.history,
            stop_policy=StopPolicy(
                choice.stop,
                config.requires_tests,
                choice.sure,
                evidence.greatest_weight,
            ),
            evidence=evidence,
            full_suite=FullSuitePolicy(
                base=base,
                tests=tests if config.full_suite else None,
                context=context,
            ),
            require_tests=config.requires_tests,
        )


def _limits(config: RunConfig) -> ConversationLimits:
    # Without an environment a replay goes on to its end: what tests said is not there again.
    replayed = config.settings.calls.replay is not None
    untested = config.environment is EnvironmentKind.NONE
    until_exhausted = replayed and untested
    reflections = config.settings.builtin.reflections
    return ConversationLimits(reflections, until_exhausted=until_exhausted)


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
            tests = start_tests(
                config,
                instance,
                services.mirrors,
                services.environment,
                base,
                worker.cache,
            )
            stack.callback(tests.session.stop)
            slots = worker.slots
            check = worker.stop.check
            tests = replace(
                tests,
                check=check,
                spare=slots.spare,
                log=context.log,
            )
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
    cache: Path,
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
        cache=cache / "baselines",
        identity=session.identity,
        log=logging.getLogger("tests"),
        history=partial(mirrors.past_changes, instance.repo, instance.base_commit),
    )
