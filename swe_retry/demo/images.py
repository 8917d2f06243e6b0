"""Build the demo's images with the local engine, without a registry.

swebench builds task repositories with buildx, which not every engine has, and without the
repository in the build context; the classic builder of the Docker SDK does.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swe_retry.core.errors import InfrastructureError
from swe_retry.demo.setup import DEMO_DATASET, build_mirrors


def build_images(instance_ids: Sequence[str]) -> None:
    """Build the missing images of instances of the demo.

    Raises:
        InfrastructureError: the engine failed, or the base image is not available.
    """
    import docker
    from swebench.task.repo import load_task_repo

    try:
        client = docker.from_env(timeout=600)
        rows = load_task_repo(DEMO_DATASET, list(instance_ids))
        for row in rows:
            if not _has(client, row["image"]):
                _build(client, row)
    except docker.errors.DockerException as error:
        raise InfrastructureError(f"cannot build the demo's images: {error}") from error


def _has(client: Any, image: str) -> bool:  # noqa: ANN401 - the SDK has no types
    import docker.errors

    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        return False
    return True


def _build(client: Any, row: dict[str, Any]) -> None:  # noqa: ANN401
    with tempfile.TemporaryDirectory() as scratch:
        mirrors = build_mirrors(Path(scratch))
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as archive:
            archive.add(
                DEMO_DATASET / "tasks" / row["instance_id"] / "Dockerfile", "Dockerfile"
            )
            archive.add(
                mirrors / f"{row['repo'].replace('/', '__')}.git", "repository.git"
            )
    context.seek(0)
    client.images.build(
        fileobj=context, custom_context=True, tag=row["image"], rm=True, forcerm=True
    )
