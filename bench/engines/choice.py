"""The engine that a run asks for."""

from __future__ import annotations

import logging

from bench.assembly import Options
from bench.config import RunConfig
from bench.engines.base import Engine
from bench.engines.local import LocalPool
from bench.instances import Instance
from bench.services import Services
from bench.solving import Finished, solve, unable
from bench.store import RunStore
from bench.story import instance_log


def make_engine(
    config: RunConfig, options: Options, services: Services, store: RunStore, log: logging.Logger
) -> Engine:
    """Return the engine for ``--engine``.

    Raises:
        UserError: Ray is asked for and not to be had.
    """

    def worked(instance: Instance) -> Finished:
        name = instance.instance_id
        try:
            with instance_log(store.logs / f"{name}.log", name, log, store.redact) as own:
                services.board.started(name)
                return solve(instance, services, own)
        except OSError as error:  # a full disk takes no log; the others may need less
            return unable(name, f"cannot write its log: {error}")

    def failed(error: BaseException) -> None:
        services.stop.request(str(error))

    return LocalPool(options.scale.workers, worked, failed)
