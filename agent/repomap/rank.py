"""From evidence to one score for each file and each definition, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agent.repomap.graph import References, important
from agent.repomap.index import Index
from agent.repomap.kinds import is_documentation, is_test
from agent.repomap.lexical import Evidence, Floats, Lexicon, weigh
from agent.repomap.query import Query, read_query

# Each kind of evidence is scaled to at most 1 and then weighs this much. Found by a random search
# over the 47 develop instances; within a third of these values the figures hardly move.
_FILE_WEIGHTS = {
    "words": 1.0,
    "identifiers": 0.5,
    "defines": 0.3,
    "path": 0.4,
    "traceback": 0.7,
    "named": 1.5,
    "references": 0.3,
    "size": 0.1,
}
_UNIT_WEIGHTS = {
    "words": 1.0,
    "identifiers": 0.5,
    "name": 0.8,
    "name words": 0.4,
    "qualified": 0.5,
    "traceback": 1.0,
    "called": 0.3,
    "calls": 0.3,
    "size": 0.1,
}
_PARENT = 0.2
_FILE_IN_UNIT = 1.0
_PRODUCT = 1.0
_BEST_UNIT_IN_FILE = 0.3
_TYPE = 0.9
_SIDE = 0.25
_NO_DEFINITION = 0.3
# Surfers start at this many files, more often at better ones.
_STARTS = 100
_ASKED_TESTS = frozenset({"test", "tests"})


@dataclass(frozen=True)
class RankedFile:
    """A file and why it is where it is; ``reasons`` are kinds of evidence, strongest first."""

    path: str
    score: float
    reasons: tuple[str, ...]
