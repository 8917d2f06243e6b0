"""A Ray worker: works on instances far from the run's files, and writes to the driver about it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import ray

from bench.assembly import Options, make_models, make_services
from bench.attempts.services import Services
from bench.cli.config import RunConfig
from bench.instances.instances import Instance
from core.errors import StoppedError, UserError
from core.redaction import Redactor
from core.stop import Stop
from environments.base import EnvironmentKind
from llm.replay import RecordedAttempt
from runs.calls.modelsource import ModelSource, ReplayedModels
from runs.checks import check_models
from runs.engines.letters import RemoteHub, RemoteSteps, Topic
from runs.engines.ray.nodes import Claim, claim, node_cache, node_name, sweep
from runs.engines.remote import Line, Returned, Wire, work_on
from runs.leftovers import mark_children


@dataclass(frozen=True)
class Plan:
    """What all workers of a run are told; equal when it is of one start of one run.

    Attributes:
        token: names that start.
        mailbox: the handle of the run's ``Mailbox``.
    """

    token: str
    config: RunConfig = field(compare=False)
    options: Options = field(compare=False)
    run_key: str = field(compare=False)
    mailbox: Any = field(compare=False)


@dataclass(frozen=True)
class Task:
    """One instance for one worker.

    Attributes:
        start: how often it was begun, see ``Letter``.
        recorded: in a replay, its recorded attempts: the folder lies on the driver's side.
    """

    instance: Instance
    start: int
    recorded: Mapping[int, RecordedAttempt] = field(default_factory=dict)


@dataclass(frozen=True)
class Workplace:
    """What a worker process keeps from one instance to the next."""

    services: Services
    claim: Claim


def work(plan: Plan, task: Task) -> Returned:
    """Work on one instance: what runs as a Ray task."""
    line = Line(_wire(plan.mailbox), task.instance.instance_id, task.start)
    try:
        services = _with_recorded(_workplace(plan).services, task)
        return work_on(task.instance, services, line, Redactor.of_environment(os.environ))
    except StoppedError:
        return Returned()
    except UserError as error:
        return Returned(mend=str(error))


def _wire(mailbox: Any) -> Wire:  # noqa: ANN401 - an actor's handle
    """Return the way to the mailbox.

    Answers are waited for by futures: in ``ray.get`` Ray would give the worker's processor to
    another task meanwhile, and more would run than there are processors for.
    """

    def ask(letter: bytes) -> bytes:
        answer: bytes = mailbox.ask.remote(letter).future().result()
        return answer

    return Wire(ask, mailbox.tell.remote, ray.exceptions.RayError)


def _with_recorded(services: Services, task: Task) -> Services:
    models = services.models
    if not isinstance(models, ReplayedModels):
        return services
    read = {task.instance.instance_id: dict(task.recorded)}
    return replace(services, models=replace(models, read=read))


@lru_cache(maxsize=1)
def _workplace(plan: Plan) -> Workplace:
    """Set this process up, once: it serves one run and nothing else.

    Raises:
        UserError: this node lacks something.
    """
    node = node_name(os.environ, ray.util.get_node_ip_address())
    try:
        return _set_up(plan, node)
    except UserError as error:
        raise UserError(f"on the node {node}: {error}") from error


def _set_up(plan: Plan, node: str) -> Workplace:
    config, line = plan.config, Line(_wire(plan.mailbox))
    check_models(config, plan.options.money)
    cache = node_cache(plan.options.cache, node)
    for thing in sweep(cache, containers=config.environment is EnvironmentKind.DOCKER):
        line.tell(Topic.NOTE, f"{node}: removed {thing}")
    own = claim(cache, plan.run_key)
    mark_children(own.key)
    stop = Stop()
    threading.Thread(target=_heed, args=(plan.mailbox, stop), daemon=True).start()

    def warn_once(text: str) -> None:
        line.tell(Topic.NOTE, text)

    # A task has its processors to itself: they were reserved for it.
    options = replace(plan.options, cache=cache, scale=replace(plan.options.scale, jobs=1))
    models = _models(config, options, warn_once)
    services = make_services(
        config, options, RemoteHub(line, stop), stop, RemoteSteps(line), own.key, warn_once,
        models,
    )  # fmt: skip
    return Workplace(services, own)


def _models(config: RunConfig, options: Options, warn_once: Any) -> ModelSource:  # noqa: ANN401
    if config.replay:
        return ReplayedModels(config.replay, options.settings.aliases)
    return make_models(config, options, warn_once)


def _heed(mailbox: Any, stop: Stop) -> None:  # noqa: ANN401 - an actor's handle
    """Stop when the run stops, or nobody is left to say so."""
    try:
        stop.request(str(mailbox.stopping.remote().future().result()))
    except ray.exceptions.RayError as error:
        stop.request(f"the driver is gone: {error}")
