"""References between units, and weighted personalised PageRank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.repomap.ranking.index import Ints
from agent.repomap.ranking.lexicon import Floats, Lexicon, summed

# A name with more definitions than this does not identify one of them.
_MOST_DEFINERS = 5
_SHORTEST_NAME = 3
_DAMPING = 0.6
_MOST_STEPS, _CLOSE_ENOUGH = 50, 1e-6


@dataclass(frozen=True)
class References:
    """Edges from the units that use a name to the units that define it.

    Attributes:
        users, defined: one unit each; ``weights``: of the edge, less for names used everywhere.
    """

    users: Ints
    defined: Ints
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, lexicon: Lexicon) -> References:
        """Find the uses of all names with few definitions."""
        lengths = np.array([len(word) for word in lexicon.index.identifiers])
        users, defined, weights = [], [], []
        for definers in range(1, _MOST_DEFINERS + 1):
            shared = lexicon.definers == definers
            names = np.flatnonzero(shared & (lengths >= _SHORTEST_NAME))
            where, counts = lexicon.postings(names)
            uses = np.diff(lexicon.index.starts)[names]
            weight = np.sqrt(counts / (definers**2 * np.repeat(uses, uses))).astype(np.float32)
            for units in lexicon.defining(names).reshape(-1, definers).T:
                users.append(where)
                defined.append(np.repeat(units, uses))
                weights.append(weight)
        edges = cls(*map(np.concatenate, (users, defined, weights)))
        return edges._without(edges.users == edges.defined)

    def _without(self, dropped: NDArray[np.bool_]) -> References:
        kept = ~dropped
        return References(self.users[kept], self.defined[kept], self.weights[kept])

    def neighbours(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return, for each unit, the weighted scores of its users, and of what it uses."""
        number = len(scores)
        return (
            summed(self.defined, self.weights * scores[self.users], number),
            summed(self.users, self.weights * scores[self.defined], number),
        )

    def between_files(self, lexicon: Lexicon) -> References:
        """Return the edges from file to file, one for each edge of units in different files."""
        users, defined = lexicon.file_of[self.users], lexicon.file_of[self.defined]
        return References(users, defined, self.weights)._without(users == defined)

    def importance(self, start: Floats) -> Floats:
        """Return the rank of each node for surfers that start at the nodes of ``start``, by weight.

        PageRank (Page et al. 1999) with weighted edges and a personalised start (Haveliwala
        2002), by power iteration; all zeros for no start. Surfers without an edge start again.
        """
        number, total = len(start), start.sum()
        if total <= 0:
            return np.zeros(number)
        begin = start / total
        leaving = summed(self.users, self.weights, number)
        share = self.weights / leaving[self.users]
        stuck = leaving == 0
        ranks: Floats = begin
        for _ in range(_MOST_STEPS):
            moved = summed(self.defined, share * ranks[self.users], number)
            moved += ranks[stuck].sum() * begin
            moved = _DAMPING * moved + (1 - _DAMPING) * begin
            done = np.abs(moved - ranks).sum() < _CLOSE_ENOUGH
            ranks = moved
            if done:
                break
        return ranks
