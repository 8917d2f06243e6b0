"""The engine that a run asks for."""

from __future__ import annotations

from importlib.util import find_spec

from bench.assembly import make_models, make_services
from bench.attempts.solving import Finished, solve, unfinished
from bench.instances.instances import Instance
from core.errors import UserError
from runs.engines.base import Engine
from runs.engines.driver import Driver
from runs.engines.local import LocalPool
from runs.progress.statuses import InstanceStatus
from runs.scale import EngineKind
from runs.storage.story import instance_log


def make_engine(driver: Driver) -> Engine:
    """Return the engine for ``--engine``.

    Raises:
        UserError: Ray is asked for and not to be had.
    """
    return _ray(driver) if driver.options.scale.engine is EngineKind.RAY else _local(driver)


def _ray(driver: Driver) -> Engine:
    if find_spec("ray") is None:
        raise UserError("--engine ray needs Ray: install requirements-ray.txt")
    from runs.engines.ray.ray import RayEngine  # Ray takes a second, and most runs do without it

    return RayEngine(driver)


def _local(driver: Driver) -> Engine:
    services = make_services(
        driver.config, driver.options, driver.hub, driver.stop, driver.board,
        driver.run_key, driver.warn_once,
        make_models(driver.config, driver.options, driver.warn_once),
    )  # fmt: skip
    store = driver.store

    def worked(instance: Instance) -> Finished:
        name = instance.instance_id
        try:
            store.begin(name)
            with instance_log(store.logs / f"{name}.log", name, driver.log, store.redact) as own:
                services.board.started(name)
                return solve(instance, services, own)
        except OSError as error:  # a full disk takes no log; the others may need less
            reason = f"cannot write its log: {error}"
            return unfinished(name, InstanceStatus.INFRA_ERROR, reason)

    def failed(error: BaseException) -> None:
        driver.stop.request(str(error))

    return LocalPool(driver.options.scale.workers, worked, failed)
