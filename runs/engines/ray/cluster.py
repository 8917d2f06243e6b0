"""A Ray of this run's own or a connection to a running cluster, and the code for its workers."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from core.errors import UserError
from runs.engines.ray.actor import RunActor

_TOP = Path(__file__).resolve().parents[3]
_PACKAGES = ("core", "llm", "agent", "environments", "runs")
# A worker waits for the run's end, and each of its jobs for an answer.
_CALLS_PER_WORKER = 4
_CALLS_OF_DRIVER = 32
# Of the store for large objects, which this harness does not use; Ray's least is 75 MB.
_OBJECT_STORE = 100_000_000
# Seconds that a cluster has to take a connection.
_PATIENCE = 10.0


@contextmanager
def own_ray(cpus: int) -> Iterator[None]:
    """Start a Ray on this machine for so many worker processes, and stop it at the end.

    Its processes inherit the run's key: where the driver is killed, the next start ends them. They
    import the code from where it is.

    Raises:
        UserError: it does not start.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    path = os.pathsep.join(filter(None, [str(_TOP), os.environ.get("PYTHONPATH")]))
    environment = {"env_vars": {"PYTHONPATH": path}}
    with _initialized(
        environment, address="local", num_cpus=cpus, include_dashboard=False,
        object_store_memory=_OBJECT_STORE,
    ) as error:  # fmt: skip
        if error is not None:
            raise UserError(f"--engine ray: Ray does not start on this machine ({error})")
        yield


@contextmanager
def connected(address: str, cpus: float, packages: Sequence[str]) -> Iterator[None]:
    """Connect this process to the cluster at ``address``, with the code for its workers.

    The code travels with the run, so that no node works with an older version that it has.

    Raises:
        UserError: there is no such cluster, it cannot be used, or no node has ``cpus``.
    """
    if address.startswith("ray://"):
        raise UserError(
            f"--ray-address {address}: start the run on a node of the cluster, with auto"
        )
    _check_answers(address)
    with (
        _code(packages) as code,
        _initialized({"working_dir": str(code)}, address=address) as error,
    ):
        if error is not None:
            raise UserError(
                f"--ray-address {address}: no cluster to be used there ({error}); start one "
                "with `ray start --head`"
            )
        _check_processors(cpus)
        yield


@contextmanager
def _initialized(
    runtime_env: Mapping[str, Any],
    **options: Any,  # noqa: ANN401
) -> Iterator[str | None]:
    """Initialize Ray in this process, and yield why that failed, None where it did not.

    Ray would make SIGTERM end the process then, and the run has its own way to end.
    """
    before = signal.getsignal(signal.SIGTERM)
    error = None
    with ExitStack() as stack:
        stack.callback(ray.shutdown)
        try:
            ray.init(
                runtime_env=dict(runtime_env), log_to_driver=False,
                logging_level=logging.ERROR, **options,
            )  # fmt: skip
        except (ConnectionError, RuntimeError, ValueError) as failure:
            error = str(failure).strip().partition("\n")[0]
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)
        yield error


def _check_answers(address: str) -> None:
    """Ray would try for more than a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--ray-address {address}: nothing answers there ({error}); start a cluster with "
            "`ray start --head`"
        ) from error


def _check_processors(cpus: float) -> None:
    most = max(
        (node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0
    )
    if cpus > most:
        raise UserError(
            f"no node has the {cpus:g} processors of an instance, the largest {most:g}: give less "
            "with --cpus-per-instance"
        )


@contextmanager
def _code(packages: Sequence[str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="swe-retry-harness.") as name:
        for package in (*_PACKAGES, *packages):
            ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache")
            shutil.copytree(_TOP / package, Path(name) / package, ignore=ignore)
        yield Path(name)


def make_run_actor(workers: int) -> Any:  # noqa: ANN401 - Ray's handles have no types
    """Return the run's actor, on the driver's own node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": here}
    concurrency = _CALLS_PER_WORKER * workers + _CALLS_OF_DRIVER
    return ray.remote(RunActor).options(**options, max_concurrency=concurrency).remote()
