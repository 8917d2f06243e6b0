"""What one run left is removed; what other runs made stays."""

from __future__ import annotations

import contextlib
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from swe_retry.demo.images import build_images
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.environment import DockerEnvironment
from swe_retry.environments.leftovers import remove_containers, remove_mounted
from swe_retry.environments.local.confinement import (
    cgroups_work,
    limited_group,
    remove_groups,
)
from swe_retry.instances.instance import Instance
from swe_retry.repositories.checkout import Checkout
from swe_retry.testing.project import project_of
from tests.support.environments import IMAGE, LIMITS


@pytest.mark.skipif(not cgroups_work(), reason="no cgroup can be made here")
def test_groups_of_one_run_alone_are_removed() -> None:
    with limited_group(LIMITS, "run.a") as own, limited_group(LIMITS, "run_a") as other:
        removed = remove_groups("run.a")
        assert set(removed) == {str(folder) for folder in own.folders}
        assert len(removed) == len(own.folders)
        for folder in other.folders:
            assert folder.is_dir()
    for folder in other.folders:
        assert not folder.exists()


@pytest.mark.docker
def test_containers_of_one_run_alone_are_removed(
    demo: tuple[Instance, Checkout],
) -> None:
    instance, _ = demo
    build_images([instance.instance_id])
    client = connect()
    assert client is not None
    key = f"run-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        names = []
        images = []
        for run_key in (key, f"{key}-b", ""):
            environment = DockerEnvironment(client, run_key, LIMITS)
            session: Any = environment.start(project_of(*demo))
            container = stack.enter_context(session.containers.start(instance.image))
            names.append(container.made.name)
            prepared = stack.enter_context(session.prepare({}))
            images.append(client.images.get(prepared.image))
        own_name, *other_names = names
        own_image, *other_images = images
        removed = remove_containers(client, key)
        assert removed == [f"container {own_name}", f"image {own_image.short_id}"]
        assert remove_containers(client, key) == []
        names_left = {container.name for container in client.containers.list()}
        assert names_left.issuperset(other_names)
        assert own_name not in names_left
        images_left = {image.id for image in client.images.list()}
        assert images_left.issuperset(image.id for image in other_images)
        with pytest.raises(ValueError, match="key"):
            remove_containers(client, "")


@pytest.mark.docker
def test_the_next_container_is_started_meanwhile_and_none_stays(
    demo: tuple[Instance, Checkout],
) -> None:
    instance, _ = demo
    build_images([instance.instance_id])
    client: Any = connect()
    key = f"run-{secrets.token_hex(4)}"
    ours = {"label": f"swe-retry-harness.run={key}"}
    environment = DockerEnvironment(client, key, LIMITS)
    session = environment.start(project_of(*demo))
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
    names = {}
    for folder in (own, other):
        below = folder / "below"
        below.mkdir(parents=True)
        volumes = {str(below): {"bind": "/x"}}
        container = client.containers.create(IMAGE, "true", volumes=volumes)
        names[folder] = container.name
    try:
        assert remove_mounted(client, [own]) == [names[own]]
        assert remove_mounted(client, [own]) == []
    finally:
        assert remove_mounted(client, [other]) == [names[other]]
        client.close()
