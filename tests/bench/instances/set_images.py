"""Tiny images that are laid out as those of the task sets: places, histories and hidden files."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.git import git
from demo.setup import commit_all
from environments.docker.engine import connect

FILES = {
    "core.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n",
    "tests/test_core.py": (
        "import os\n\nfrom core import double\n\n\n"
        "def test_double():\n    assert double(2) == 4\n\n\n"
        "def test_environment():\n"
        "    assert os.environ['HOME'] == os.environ.get('WANTED_HOME', '/harness/home')\n"
        "    assert os.environ.get('CONDA_DEFAULT_ENV', '') == os.environ.get('WANTED_ENV', '')\n"
    ),
    "tool.sh": "#!/bin/sh\n",
    "conftest.py": "",
}
FIXED = FILES["core.py"].replace("a - b", "a + b  # ZQHIDDEN_GOLD")
BROKEN = FILES["core.py"].replace("2 * a", "3 * a")
CORRECT = FILES["core.py"].replace("a - b", "a + b")
# What the sets' images have under this name, as far as it matters here.
_CONDA = "conda() { export CONDA_DEFAULT_ENV=$2; }\nexport WANTED_ENV=testbed\n"
_ACTIVATE = "opt/miniconda3/bin/activate"


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write text files below ``folder``."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def history(folder: Path) -> tuple[str, str]:
    """Make a repository with the base commit and the later fix; return both hashes.

    Its work tree is that of the fix.
    """
    write(folder, FILES)
    (folder / "link").symlink_to("core.py")
    base = commit_all(folder, "Begin")
    git("tag", "v1", cwd=folder)
    write(folder, {"core.py": FIXED, "ZQHIDDEN_NEW": "ZQHIDDEN"})
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "-m", "Fix ZQHIDDEN", cwd=folder)
    return base, git("rev-parse", "HEAD", cwd=folder).decode().strip()


@contextmanager
def built(
    name: str, place: str, repository: Path, files: Mapping[str, str], *, keeps_home: bool
) -> Iterator[None]:
    """Build the image ``name`` with ``repository`` at ``place`` and other ``files``; remove it.

    Its entry point fails, so that nothing runs where it is used.
    """
    client: Any = connect()
    variables = "ENV WANTED_HOME=/root" if keeps_home else "ENV PLAIN=1"
    dockerfile = (
        f"FROM python:3.11-slim\nCOPY root /\n{variables}\nRUN true >/root/.tool\n"
        'ENTRYPOINT ["/bin/false"]\n'
    )
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        archive.add(repository, f"root{place}")
        texts = {f"root/{path}": text for path, text in files.items()}
        for path, text in {"Dockerfile": dockerfile, f"root/{_ACTIVATE}": _CONDA, **texts}.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True)
    try:
        yield
    finally:
        client.images.remove(name, force=True)
        client.close()


def mirror_of(repository: Path, target: Path) -> None:
    """Make a bare mirror of ``repository``."""
    target.parent.mkdir(parents=True, exist_ok=True)
    git("clone", "--quiet", "--bare", repository, target, cwd=target.parent)
    os.utime(target)
