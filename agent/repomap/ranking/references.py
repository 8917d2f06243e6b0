"""The graph of a tree: which definitions use which others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swe_retry.agent.repomap.ranking.index import Ints
from swe_retry.agent.repomap.ranking.lexicon import Floats, Lexicon, sum_by_number

# A name with more definitions than this does not identify one of them.
_MAX_DEFINITIONS = 5
_MIN_NAME = 3
_DAMPING = 0.6
_MAX_STEPS = 50
_CLOSE_ENOUGH = 1e-6


@dataclass(frozen=True)
class References:
    """Edges from the units that use a name to the units that define it.

    Attributes:
        users, definitions: one unit each.
        weights: of each edge, less for names used everywhere.
    """

    users: Ints
    definitions: Ints
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, lexicon: Lexicon) -> References:
        lengths = np.array([len(word) for word in lexicon.index.identifiers])
        all_uses = np.diff(lexicon.index.starts)
        users = []
        definitions = []
        weights = []
        for definition_count in range(1, _MAX_DEFINITIONS + 1):
            shared = lexicon.definition_counts == definition_count
            names = np.flatnonzero(shared & (lengths >= _MIN_NAME))
            postings, counts = lexicon.postings(names)
            uses = all_uses[names]
            commonness = definition_count**2 * np.repeat(uses, uses)
            weight = np.sqrt(counts / commonness)
            units_of_names = lexicon.units_defining(names)
            for units in units_of_names.reshape(-1, definition_count).T:
                users.append(postings)
                definitions.append(np.repeat(units, uses))
                weights.append(weight.astype(np.float32))
        return cls.without_loops(
            users=np.concatenate(users),
            definitions=np.concatenate(definitions),
            weights=np.concatenate(weights),
        )

    @classmethod
    def without_loops(
        cls, users: Ints, definitions: Ints, weights: NDArray[np.float32]
    ) -> References:
        remaining = users != definitions
        return cls(users[remaining], definitions[remaining], weights[remaining])

    def neighbours(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return, for each unit, the weighted scores of its users, and of what it uses."""
        from_users = self.weights * scores[self.users]
        from_definitions = self.weights * scores[self.definitions]
        return (
            sum_by_number(self.definitions, from_users, len(scores)),
            sum_by_number(self.users, from_definitions, len(scores)),
        )

    def between_files(self, lexicon: Lexicon) -> References:
        """Return the edges from file to file, one for each edge of units in different files."""
        users = lexicon.file_of[self.users]
        definitions = lexicon.file_of[self.definitions]
        return self.without_loops(users, definitions, self.weights)

    def importance(self, start: Floats) -> Floats:
        """Return the rank of each node for surfers that start at the nodes of ``start``, by weight.

        PageRank (Page et al. 1999) with weighted edges and a personalised start (Haveliwala
        2002), by power iteration; all zeros for no start. Surfers without an edge start again.
        """
        number = len(start)
        total = start.sum()
        if total <= 0:
            return np.zeros(number)
        begin = start / total
        leaving = sum_by_number(self.users, self.weights, number)
        share = self.weights / leaving[self.users]
        stuck = leaving == 0
        ranks: Floats = begin
        for _ in range(_MAX_STEPS):
            flow = share * ranks[self.users]
            moved = sum_by_number(self.definitions, flow, number)
            moved += ranks[stuck].sum() * begin
            moved = _DAMPING * moved + (1 - _DAMPING) * begin
            change = np.abs(moved - ranks).sum()
            ranks = moved
            if change < _CLOSE_ENOUGH:
                break
        return ranks
