"""The folder of a package for the leaderboard, the splits, and the lines of faults."""

from __future__ import annotations

from pathlib import Path

from bench.instances.names import ALIASES
from core.errors import UserError
from reports.data.predictions import ALL_PREDS

SPLITS = {
    "lite": ALIASES["lite"],
    "verified": ALIASES["verified"],
    "test": ALIASES["full"],
    "multilingual": ALIASES["multilingual"],
    "multimodal": ALIASES["multimodal"],
}
"""The data sets of the folders below ``evaluation/`` of the leaderboard's repository."""
# Names and ids may have any length.
_MAX_LENGTH = 400


def split_of(name: str) -> str:
    """Return the name of a split; a UserError if the leaderboard has none of this name."""
    if name == "full":
        return "test"
    if name not in SPLITS:
        names = ", ".join(SPLITS)
        raise UserError(f"--split {name!r} is not a split of the leaderboard: {names}")
    return name


class PackageFolder:
    """The folder of a package, with the entry below ``evaluation/``."""

    def __init__(self, root: Path, entry: str) -> None:
        self.root = root
        self.artifacts = root / "artifacts"
        self.predictions = self.artifacts / ALL_PREDS
        self.logs = self.artifacts / "logs"
        self.trajectories = self.artifacts / "trajs"
        self.entry = root / "entry" / "evaluation" / entry
        self.readme = self.entry / "README.md"

    def fault(
        self,
        kind: str,
        path: Path,
        problem: str,
        fix: str,
        line: int | None = None,
    ) -> str:
        """Return a fault as one printable line; other characters are escaped.

        ``kind`` is one of docs/submission.md.
        """
        location = str(path.relative_to(self.root))
        if line:
            location += f":{line}"
        text = f"{kind}: {location[:_MAX_LENGTH]}: {problem[:_MAX_LENGTH]}; {fix}"
        printable = ""
        for character in text:
            if not character.isprintable():
                character = character.encode("unicode_escape").decode()
            printable += character
        return printable
