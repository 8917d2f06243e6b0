"""The leaderboard's splits, and the names of entries."""

from __future__ import annotations

import re
from datetime import date, datetime
from enum import Enum

from bench.instances.dataset import ALIASES
from core.errors import UserError

_ENTRY = re.compile(r"(\d{8})_[A-Za-z0-9][\w.+-]*")
NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
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
        """The Hugging Face id of the dataset."""
        if self is Split.MULTIMODAL:
            return "SWE-bench/SWE-bench_Multimodal"
        return ALIASES["full" if self is Split.TEST else self.value]

    @property
    def research_only(self) -> bool:
        """Whether ``RESEARCH_NOTICE`` applies."""
        return self in (Split.VERIFIED, Split.MULTILINGUAL)


def entry_name(day: date, name: str) -> str:
    """Return the name of an entry's folder: ``YYYYMMDD_name``."""
    return f"{day:%Y%m%d}_{name}"


def entry_date(folder: str) -> date | None:
    """Return the date in the name of an entry's folder, None if the name has another form."""
    match = _ENTRY.fullmatch(folder)
    if not match:
        return None
    try:
        return datetime.strptime(match[1], "%Y%m%d").date()
    except ValueError:
        return None
