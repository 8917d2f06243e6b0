"""What tests of all rooms share; each module has the helpers of one subject."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
WITH_EXERCISES = {"PYTHONPATH": str(TOP / "exercises")}
"""For a process that imports the exercises, which need not be installed for the tests."""


def write_files(root: Path, files: Mapping[str, str | bytes | None]) -> Path:
    """Write files below ``root``, with their folders; None is an empty file. Return ``root``."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(content or b""))
    return root


def as_bytes(content: str | bytes) -> bytes:
    if isinstance(content, str):
        return content.encode()
    return content


def write_json(path: Path, value: object) -> Path:
    """Write JSON as it stands, and return ``path``."""
    return write_files(path.parent, {path.name: json.dumps(value)}) / path.name


def change_json(path: Path, change: Callable[[Any], object]) -> None:
    """Apply ``change`` to the content of a JSON file."""
    content = read_json(path)
    change(content)
    write_json(path, content)


def without(value: Any, *keys: str) -> Any:
    """Return a JSON value without these keys, at any depth."""
    if isinstance(value, dict):
        return {k: without(part, *keys) for k, part in value.items() if k not in keys}
    if isinstance(value, list):
        return [without(part, *keys) for part in value]
    return value


def tar_of(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        add_files(archive, files)
    return buffer.getvalue()


def add_files(
    archive: tarfile.TarFile, files: Mapping[str, str | bytes], mode: int = 0o644
) -> None:
    for name, content in files.items():
        data = as_bytes(content)
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        entry.mode = mode
        archive.addfile(entry, io.BytesIO(data))


def read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def text_between(text: str, start: str, end: str) -> str:
    """Return what follows ``start``, up to the next ``end``."""
    rest = text.partition(start)[2]
    return rest.partition(end)[0]


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def contents_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in files_below(folder)}


def from_environment(variable: str) -> Path:
    """Return the path in an environment variable, or skip the test."""
    import pytest  # commands are started by this package and do without it

    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    assert Path(value).exists(), variable
    return Path(value)


def wait_until(done: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def command_lines(mark: str = "") -> list[str]:
    """Return the command lines of all processes that contain ``mark``."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes().decode("utf-8", "replace")
            if mark in line:
                lines.append(line)
    return lines


def still_running(mark: str, seconds: float = 5) -> list[str]:
    """Return the command lines with ``mark`` that are there after so many seconds.

    What was killed ends a moment later: the first process of a sandbox dies with its parent.
    """
    end = time.monotonic() + seconds
    while (lines := command_lines(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return lines


def run_script(
    *argv: object, script: str = "harness.py", cwd: Path | str = "/", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``harness.py`` or another script of the project with an interpreter of its own."""
    return subprocess.run(
        [sys.executable, str(TOP / script), *map(str, argv)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=120,
        env={**os.environ, "COLUMNS": "80", **env},
    )


def assert_in_no_file(text: str, folder: Path, at_least: int = 11) -> None:
    count = 0
    for path in folder.rglob("*"):
        if path.is_file():
            count += 1
            assert text.encode() not in path.read_bytes(), path
    assert count >= at_least
