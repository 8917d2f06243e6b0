"""Folders with small limits, and Python programs in them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from environments.base import ResourceLimits
from environments.folders import FolderCommand, FolderResult, Folders

MB = 1 << 20
IMAGE = "python:3.11-slim"
LIMITS = ResourceLimits(
    processes=40, memory=200 * MB, file_size=20 * MB, written=30 * MB, temporary=10 * MB,
    output=200_000, collected=100_000,
)  # fmt: skip
PYTHON = Path(sys.executable)


def python(folders: Folders, code: str, seconds: float = 20, **more: Any) -> FolderResult:
    """Run a program; ``more`` are fields of FolderCommand."""
    files = {"program.py": code.encode(), **more.pop("files", {})}
    return folders.run(FolderCommand(("python", "program.py"), files, seconds, **more))
