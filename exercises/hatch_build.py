"""Take the dependencies of the package from the files of requirements, and the house beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Requirements(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        house = f"swe-retry-harness=={metadata['version']}"
        metadata["dependencies"] = [house, *self._read("requirements.txt")]
        metadata["optional-dependencies"] = {
            "train": self._read("requirements-train.txt")
        }

    def _read(self, name: str) -> list[str]:
        lines = Path(self.root, name).read_text(encoding="utf-8").splitlines()
        return [
            line for line in lines if line.strip() and not line.startswith(("#", "-r "))
        ]
