"""A package for the leaderboard: its split, its folders, and the faults that are found in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path

from bench.instances.names import ALIASES
from core.errors import UserError

# The day of this rule in the leaderboard's README.
RESEARCH_RULE_DAY = date(2025, 11, 18)
RESEARCH_NOTICE = (
    f"note: since {RESEARCH_RULE_DAY} {{split}} accepts only academic and research submissions: "
    "open methods with an arXiv preprint or technical report, and at least one author at an "
    "academic institution or an established research lab; others are closed (the rule does not "
    "apply to multimodal and lite)"
)


class Split(str, Enum):
    """The folders below ``evaluation/`` of the leaderboard's repository."""

    LITE = "lite"
    VERIFIED = "verified"
    TEST = "test"
    MULTILINGUAL = "multilingual"
    MULTIMODAL = "multimodal"

    @classmethod
    def of(cls, name: str) -> Split:
        """Return the split ``name``."""
        try:
            return cls("test" if name == "full" else name)
        except ValueError as error:
            names = ", ".join(split.value for split in cls)
            raise UserError(
                f"--split {name!r} is not a split of the leaderboard: {names}"
            ) from error

    @property
    def dataset(self) -> str:
        if self is Split.MULTIMODAL:
            return "SWE-bench/SWE-bench_Multimodal"
        return ALIASES["full" if self is Split.TEST else self.value]

    @property
    def research_only(self) -> bool:
        return self in (Split.VERIFIED, Split.MULTILINGUAL)


# Names and ids may have any length.
_LONGEST = 400


def fault_line(kind: str, place: str, problem: str, fix: str) -> str:
    """Return a fault as one printable line; other characters are escaped.

    ``kind`` is one of docs/submission.md, ``place`` is relative to the package.
    """
    text = f"{kind}: {place[:_LONGEST]}: {problem[:_LONGEST]}; {fix}"
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


@dataclass(frozen=True)
class PackageFolder:
    """The folder of a package that was built, with its entry's folder."""

    root: Path
    entry: Path

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def logs(self) -> Path:
        return self.artifacts / "logs"

    @property
    def trajectories(self) -> Path:
        return self.artifacts / "trajs"

    @property
    def readme(self) -> Path:
        return self.entry / "README.md"

    def fault(self, kind: str, path: Path, problem: str, fix: str) -> str:
        return fault_line(kind, str(path.relative_to(self.root)), problem, fix)
