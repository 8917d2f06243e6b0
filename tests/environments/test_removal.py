"""What one run left is removed; what other runs made stays."""

from __future__ import annotations

import contextlib
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.instances.instance import Instance
from bench.instances.project import project_of
from bench.repos.checkout import Checkout
from demo.images import build_images
from environments.docker.engine import connect
from environments.docker.environment import DockerEnvironment
from environments.leftovers import remove_containers, remove_mounted
from environments.local.confinement import cgroups_work, limited_group, remove_groups
from tests.support.environments import LIMITS


@pytest.mark.skipif(not cgroups_work(), reason="no cgroup can be made here")
def test_groups_of_one_run_alone_are_removed() -> None:
    with limited_group(LIMITS, "run.a") as own, limited_group(LIMITS, "run_a") as other:
        removed = remove_groups("run.a")
        assert sorted(removed) == sorted(str(folder) for folder in own.folders)
        assert all(folder.is_dir() for folder in other.folders)
    assert not any(folder.exists() for folder in other.folders)


@pytest.mark.docker
def test_containers_of_one_run_alone_are_removed(
    demo: tuple[Instance, Checkout],
) -> None:
    build_images([demo[0].instance_id])
    client = connect()
    assert client is not None
    key = f"run-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        made = []
        images = []
        for other in (key, f"{key}-b", ""):
            session: Any = DockerEnvironment(client, other, LIMITS).start(
                project_of(*demo)
            )
            container = stack.enter_context(
                session.containers.start(demo[0].image)
            ).made
            made.append(f"container {container.name}")
            images.append(
                client.images.get(stack.enter_context(session.prepare({})).image)
            )
        assert remove_containers(client, key) == [
            made[0],
            f"image {images[0].short_id}",
        ]
        assert remove_containers(client, key) == []
        left = {f"container {c.name}" for c in client.containers.list()}
        assert left >= {*made[1:]} and made[0] not in left
        assert {image.id for image in client.images.list()} >= {
            image.id for image in images[1:]
        }
        with pytest.raises(ValueError, match="key"):
            remove_containers(client, "")


@pytest.mark.docker
def test_the_next_container_is_started_meanwhile_and_none_stays(
    demo: tuple[Instance, Checkout],
) -> None:
    build_images([demo[0].instance_id])
    client: Any = connect()
    key = f"run-{secrets.token_hex(4)}"
    ours = {"label": f"swe-retry-harness.run={key}"}
    session = DockerEnvironment(client, key, LIMITS).start(project_of(*demo))
    with session.prepare({}, commands=3) as prepared:
        assert client.containers.list(all=True, filters=ours) == []
        for number in (1, 2):  # the third is not run
            with ThreadPoolExecutor() as pool:
                running = pool.submit(prepared.run, "ls; touch left; sleep 4", 60)
                time.sleep(2.5)
                assert len(client.containers.list(filters=ours)) == 2, number
            assert "left" not in running.result().output.split()
    assert client.containers.list(all=True, filters=ours) == []
    assert client.images.list(filters=ours) == []


@pytest.mark.docker
def test_containers_with_a_mounted_folder_alone_are_removed(tmp_path: Path) -> None:
    client: Any = connect()
    own = tmp_path / "own"
    other = tmp_path / "own-b"
    made = {}
    for folder in (own, other):
        (folder / "below").mkdir(parents=True)
        made[folder] = client.containers.create(
            "python:3.11-slim", "true", volumes={str(folder / "below"): {"bind": "/x"}}
        )
    try:
        assert remove_mounted(client, [own]) == [made[own].name]
        assert remove_mounted(client, [own]) == []
    finally:
        assert remove_mounted(client, [other]) == [made[other].name]
        client.close()
