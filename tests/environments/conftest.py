"""A demo checkout, and sessions of each environment for hostile test code."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.demo.images import build_images
from swe_retry.demo.setup import build_mirrors
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.choice import make_folders
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.environment import DockerEnvironment
from swe_retry.environments.folders import Folders
from swe_retry.environments.local.bubblewrap import (
    bubblewrap_works,
    process_limit_binds,
)
from swe_retry.environments.local.confinement import Confined, Confinement, cgroups_work
from swe_retry.environments.local.environment import LocalEnvironment, LocalSession
from swe_retry.instances.dataset import load_dataset
from swe_retry.instances.instance import Instance
from swe_retry.repositories.checkout import Checkout, make_checkout
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.repositories.snapshot import get_snapshot
from swe_retry.testing.project import project_of
from tests.fixtures import ShareVenvs
from tests.support.environments import FOLDER_LIMITS as FOLDER_LIMITS
from tests.support.environments import IMAGE, LIMITS, PYTHON, Place, a_mark

WAYS = [
    "cgroup",
    "other-user",
    "rlimits",
    "open",
    pytest.param("docker", marks=pytest.mark.docker),
]
KINDS = [
    EnvironmentKind.LOCAL,
    pytest.param(EnvironmentKind.DOCKER, marks=pytest.mark.docker),
]


@pytest.fixture(scope="module")
def demo(
    cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Instance, Checkout]:
    instances = load_dataset("demo", "test").instances()
    by_id = {instance.instance_id: instance for instance in instances}
    instance = by_id["demo__textkit-1"]
    repo = instance.repo
    commit = instance.base_commit
    mirrors = Mirrors(build_mirrors(cache / "demo-mirrors"))
    mirror = mirrors.get(repo, commit)
    snapshot = get_snapshot(cache / "snapshots", mirror, repo, commit)
    root = tmp_path_factory.mktemp("hostile") / "tree"
    return instance, make_checkout(snapshot, root)


@pytest.fixture(scope="module")
def local(
    cache: Path,
    demo: tuple[Instance, Checkout],
    share_venvs: ShareVenvs,
) -> Iterator[LocalSession]:
    share_venvs(cache / "hostile")
    environment = LocalEnvironment(cache / "hostile", print)
    session: Any = environment.start(project_of(*demo))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def in_docker(demo: tuple[Instance, Checkout]) -> Iterator[Place]:
    instance, _ = demo
    build_images([instance.instance_id])
    environment = DockerEnvironment(connect(), "hostile", LIMITS)
    session = environment.start(project_of(*demo))
    with session.prepare({}) as prepared:
        yield Place("docker", session, prepared)


def skip_where_it_cannot_be(way: Confinement) -> None:
    if way is Confinement.CGROUP and not cgroups_work():
        pytest.skip("no cgroup can be made here")
    if way is Confinement.OTHER_USER and not can_become_another_user():
        pytest.skip("only root can become another user")
    if way is Confinement.RLIMITS and not process_limit_binds():
        pytest.skip("the limit of processes does not bind this user")


def can_become_another_user() -> bool:
    return os.geteuid() == 0 and bool(shutil.which("setpriv"))


@pytest.fixture(params=WAYS)
def environment(request: pytest.FixtureRequest) -> Iterator[Place]:
    way = request.param
    if way == "docker":
        yield replace(request.getfixturevalue("in_docker"), mark=a_mark())
        return
    if way != "open" and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    confinement = Confinement.RLIMITS_PER_PROCESS
    if way != "open":
        confinement = Confinement(way)
    skip_where_it_cannot_be(confinement)
    confined = Confined(confinement, LIMITS, "hostile", lambda: None)
    session = request.getfixturevalue("local")
    session = replace(session, confined=confined, shut_in=way != "open")
    with session.prepare({}) as prepared:
        yield Place(way, session, prepared)


@pytest.fixture(scope="module", params=KINDS)
def folders(request: pytest.FixtureRequest) -> Iterator[Folders]:
    if request.param is EnvironmentKind.LOCAL and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    made = make_folders(
        request.param, PYTHON, IMAGE, limits=FOLDER_LIMITS, run_key="folders"
    )
    yield made
    made.stop()
