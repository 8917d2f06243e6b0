"""The names that data sets have here: aliases, hub ids, and those that come with the project."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_retry.core.data import read_yaml
from swe_retry.core.errors import UserError

DEFAULT_SPLIT = "test"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_REVISION = re.compile(r"[\w./-]+")


_SETS: dict[str, tuple[str, str]] = read_yaml(__file__, "sets.yaml")
ALIASES = {alias: name for alias, (name, _) in _SETS.items()}
_SPLITS = dict(_SETS.values())


@dataclass(frozen=True)
class DatasetName:
    """What ``--dataset`` names: an alias, a hub id or a path, and a revision of the hub."""

    name: str
    revision: str = ""

    @classmethod
    def parse(cls, text: str) -> DatasetName:
        """Read ``NAME`` or ``NAME@REVISION``; a path that exists may have ``@`` in it."""
        name, mark, revision = text.rpartition("@")
        if not mark or Path(text).expanduser().exists():
            return cls(text)
        if not (name in ALIASES or _HUB_ID.fullmatch(name)):
            raise UserError(
                f"--dataset {text}: only a set on the hub has revisions; give NAME@REVISION with "
                "an alias or a hub id"
            )
        if not _REVISION.fullmatch(revision):
            raise UserError(
                f"--dataset {text}: {revision!r} is not a revision; give a commit or tag"
            )
        return cls(name, revision)

    @property
    def hub_id(self) -> str:
        if self.name in ALIASES:
            return ALIASES[self.name]
        if _HUB_ID.fullmatch(self.name):
            return self.name
        return ""

    def split(self, requested: str) -> str:
        """Return the split to load: the set's only one in place of a default that it lacks."""
        if requested != DEFAULT_SPLIT:
            return requested
        return _SPLITS.get(self.hub_id, requested)


@dataclass(frozen=True)
class Bundled:
    """The parts of a bundled dataset, which no host serves."""

    path: Path
    build_mirrors: Callable[[Path], Path]
    build_images: Callable[[Sequence[str]], None]


BUNDLED: dict[str, Bundled] = {}
"""The registered datasets by name."""
