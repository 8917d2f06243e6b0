"""Make the image of a session from a project's: with the project's files, and without others'.

An image may show more than the project, such as its later history. What root removes here is gone
from every container of the session, because these are containers of the new image.
"""

from __future__ import annotations

import io
import secrets
import tarfile
from dataclasses import replace
from pathlib import Path

from environments.base import ImageSpec, UnavailableError
from environments.docker.containers import Container, Containers
from environments.docker.engine import engine_errors
from environments.docker.setupscript import HARNESS

_SECONDS = 900.0
_SCRIPT = f"{HARNESS}/clean.sh"
# Links of the image's repository would lead files of the new tree elsewhere, so all go first.
_EMPTY = """git -c safe.directory='*' ls-files -z >/harness/tracked || exit 1
xargs -0 rm -f -- </harness/tracked; rm /harness/tracked"""


def cleaned_image(containers: Containers, spec: ImageSpec, root: Path) -> str:
    """Return the id of a new image: ``spec``'s with the tree in ``root``, cleaned.

    Raises:
        UnavailableError: the image has no repository at its place, or a line of cleaning fails.
        InfrastructureError: the engine failed.
    """
    as_root = replace(containers, user="0:0", home="/root")
    with as_root.started(spec.name) as container:
        _run(container, spec, f"test -e .git || {{ echo no repository in {spec.folder}; exit 1; }}")
        if spec.fresh_tree:
            _run(container, spec, _EMPTY)
            with engine_errors():
                container.made.put_archive(spec.folder, _archive(root))
        _run(container, spec, "\n".join(spec.cleaning))
        return container.commit()


def _run(container: Container, spec: ImageSpec, script: str) -> None:
    token = secrets.token_hex(8)
    container.put({}, {_SCRIPT: f"exec 2>&1\n{script}\n[ $? = 0 ] && echo {token}\n"})
    result = container.bash([_SCRIPT], _SECONDS)
    if token not in result.output:
        words = " ".join(result.output.split())[-300:]
        raise UnavailableError(f"the image {spec.shown or spec.name} cannot be prepared: {words}")


def _archive(root: Path) -> bytes:
    """Return all files and links below ``root`` but those of its repository."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(root, ".", filter=_kept)
    return buffer.getvalue()


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name == "./.git" or entry.name == ".git":
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    if entry.isdir():
        entry.mode = 0o755
    return entry
