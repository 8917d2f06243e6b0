"""Fixtures: real repositories, a real server of the OpenAI protocol, and small instances."""

from __future__ import annotations

import gc
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from swe_retry.demo import register
from swe_retry.demo.setup import commit_all
from swe_retry.instances.instance import Instance
from swe_retry.repositories.checkout import Checkout, make_checkout
from swe_retry.repositories.snapshot import get_snapshot
from tests.support import write_files
from tests.support.commands import Preloaded
from tests.support.provider import Provider
from tests.support.requirements import MISSING

MakeMirror = Callable[..., tuple[Path, str]]
MakeCheckout = Callable[[Mapping[str, bytes | str]], Checkout]
ShareVenvs = Callable[[Path], None]
_LONGEST_ID = 80
register()
# Neither says anything of the code, only of how busy the machine is.
settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")


# The files that take longest. Workers take groups in this order, so long groups must start first.
_SLOWEST = (
    "runner/ray/test_ray.py",
    "agent/gateway/test_faults.py",
    "own/test_own_run.py",
    "testing/test_suite.py",
    "attempts/test_select_evidence.py",
    "environments/test_hostile_code.py",
    "demo/test_demo.py",
    "own/test_own_base.py",
    "study/test_gold.py",
    "runner/test_jobs.py",
    "testing/test_forged_runs.py",
    "runner/test_stopping.py",
    "test_walks.py",
    "runner/ray/test_own_ray.py",
)


# Who asks for them starts whole runs, commands or environments.
_OF_RUNS = frozenset({"cache", "preloaded", "provider", "share_venvs"})


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups and -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a file in one worker, all tests with the engine in another; long ones first.

    Tests of the engine see each other's containers and images, so they never run at the same time.
    """
    slowest = [Path(__file__).parent / name for name in _SLOWEST]

    def order(item: pytest.Item) -> int:
        if item.get_closest_marker("docker"):
            return -1
        if item.path in slowest:
            return slowest.index(item.path)
        return len(slowest)

    for item in items:
        group = "engine" if order(item) < 0 else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
        if _requirements(item):
            item.add_marker("system")
        if _OF_RUNS.intersection(item.fixturenames):  # type: ignore[attr-defined]
            item.add_marker("run")
    items.sort(key=order)


def _requirements(item: pytest.Item) -> list[str]:
    return [name for name in MISSING if item.get_closest_marker(name)]


@pytest.hookimpl(tryfirst=True)  # before fixtures that need what is missing
def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in _requirements(item):
        reason = MISSING[name]()
        if reason:
            pytest.skip(reason)


def pytest_collection_finish() -> None:
    """Leave what lives to the end, a quarter of a million objects, out of garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Cut long texts: ids of megabytes are sent between the processes of a session."""
    if not isinstance(val, (str, bytes)) or len(val) <= _LONGEST_ID:
        return None
    return f"{val[:_LONGEST_ID]!r} of {len(val)}"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory, share_venvs: ShareVenvs) -> Path:
    """One cache for the whole session: virtual environments take seconds to build."""
    made = tmp_path_factory.mktemp("cache")
    share_venvs(made / "environments")
    return made


@pytest.fixture(scope="session")
def share_venvs(tmp_path_factory: pytest.TempPathFactory) -> ShareVenvs:
    """Let a folder of environments have its dependencies in common with all others.

    They take longest to build and are locked only meanwhile; a project's own environment is locked
    as long as it is used, and stays apart.
    """
    common = shared_folder(tmp_path_factory, "venvs")

    def share(root: Path) -> None:
        root.mkdir(parents=True)
        (root / "venvs").symlink_to(common)

    return share


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    """Starts the commands as processes that need not import litellm first."""
    with Preloaded(shared_folder(tmp_path_factory, "commands")) as connection:
        yield connection


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder that all workers of the session share."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def make_mirror(tmp_path: Path) -> MakeMirror:
    """Make a bare mirror with one commit that contains the given files."""

    def make(
        files: dict[str, bytes | str], repo: str = "own/thing"
    ) -> tuple[Path, str]:
        work = tmp_path / "source" / repo.replace("/", "__")
        write_files(work, files)
        commit = commit_all(work, "Begin")
        mirror = tmp_path / "mirrors" / f"{repo.replace('/', '__')}.git"
        mirror.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(work / ".git", mirror)
        return mirror, commit

    return make


@pytest.fixture
def make_tree(make_mirror: MakeMirror, tmp_path: Path) -> MakeCheckout:
    """Make a fresh checkout of a repository with the given files."""

    def make(files: Mapping[str, bytes | str]) -> Checkout:
        mirror, commit = make_mirror(files)
        snapshot = get_snapshot(tmp_path / "snapshots", mirror, "own/thing", commit)
        checkout = make_checkout(snapshot, tmp_path / "checkout")
        checkout.settle()
        return checkout

    return make


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A server on loopback that speaks the OpenAI chat protocol and gives the set answers."""
    with Provider() as server:
        yield server


@pytest.fixture
def log() -> logging.Logger:
    """A logger without output."""
    return logging.Logger("test")


def an_instance(**changes: object) -> Instance:
    """Return an instance with default values."""
    values: dict[str, object] = {
        "instance_id": "own__thing-1",
        "repo": "own/thing",
        "base_commit": "0" * 40,
        "problem_statement": "It is broken.",
        "version": "1.0",
        "image": "own/thing:latest",
    }
    return Instance(**{**values, **changes})  # type: ignore[arg-type]
