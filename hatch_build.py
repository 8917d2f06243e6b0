"""Take the dependencies of the package from the files of requirements, which state them once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Requirements(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = self._read("requirements.txt")
        metadata["optional-dependencies"] = {"ray": self._read("requirements-ray.txt")}

    def _read(self, name: str) -> list[str]:
        requirements = []
        for line in Path(self.root, name).read_text(encoding="utf-8").splitlines():
            requirement = line.partition("#")[0].strip()
            # `-r requirements.txt` is what the extra has in common with the package.
            if requirement and not requirement.startswith("-r "):
                requirements.append(requirement)
        return requirements
