"""What tests of all rooms share; each module has the helpers of one subject."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]


def write_files(root: Path, files: Mapping[str, str | bytes | None]) -> Path:
    """Write files below ``root``, with their folders; None is an empty file. Return ``root``."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        (root / path).write_bytes(data or b"")
    return root


def read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
        try:
            lines.append(path.read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    return [line for line in lines if mark in line]


def run_script(
    *words: object, script: str = "harness.py", cwd: Path | str = "/", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``harness.py`` or another script of the project with an interpreter of its own."""
    return subprocess.run(
        [sys.executable, str(TOP / script), *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=120,
        env={**os.environ, "COLUMNS": "80", **env},
    )
