"""Who uses whom: references between units, and weighted personalised PageRank over files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import rustworkx as rx
from numpy.typing import NDArray

from agent.repomap.index import Ints
from agent.repomap.lexicon import Floats, Lexicon, summed

FileGraph = rx.PyDiGraph[int, float]

# A name with more definitions than this says nothing of which one is meant.
_MOST_DEFINERS = 5
_SHORTEST_NAME = 3
_DAMPING = 0.6
_PIECE = 4096


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
        """Find the uses of all names that few definitions share."""
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

    def between_files(self, lexicon: Lexicon) -> FileGraph:
        """Return the graph of all files, edges of the same two added up."""
        files = len(lexicon.index.paths)
        source, target = lexicon.file_of[self.users], lexicon.file_of[self.defined]
        apart = source != target
        keys = source[apart].astype(np.int64) * files + target[apart]
        keys, places = np.unique(keys, return_inverse=True)
        weights = np.bincount(places, self.weights[apart])
        graph: FileGraph = rx.PyDiGraph(multigraph=False)
        graph.add_nodes_from(range(files))
        # By pieces: the edges of a large tree as Python objects would be most of its memory.
        for piece in range(0, len(keys), _PIECE):
            some = keys[piece : piece + _PIECE]
            rows = (some // files).tolist(), (some % files).tolist()
            graph.add_edges_from(
                list(zip(*rows, weights[piece : piece + _PIECE].tolist(), strict=True))
            )
        return graph


def important(graph: FileGraph, start: Floats) -> Floats:
    """Return each file's rank when surfers begin at the files of ``start``, most often the heavy.

    PageRank (Page et al. 1999) with a personalised start (Haveliwala 2002); zeros for no start.
    """
    chosen = {int(n): float(start[n]) for n in np.flatnonzero(start)}
    if not chosen:
        return np.zeros(len(start))
    ranks = rx.pagerank(
        graph, alpha=_DAMPING, weight_fn=float, personalization=chosen, tol=1e-6, max_iter=100
    )
    return np.array([ranks[n] for n in range(len(start))])
