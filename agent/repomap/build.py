"""Choose and render the part of a repository that fits the budget."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.mentions import FileIndex
from agent.repomap.tags import TagStore

__all__ = ["CHARACTERS_PER_TOKEN", "RepoMap", "TagStore"]

CHARACTERS_PER_TOKEN = 4
_WORD = re.compile(r"[A-Za-z][a-z0-9]+|[A-Z]+(?![a-z])|[a-z0-9]{2,}")
_TEST = re.compile(
    r"(^|/)(tests?|testing|test_[^/]*|[^/]*_test\.py|conftest\.py|docs?|examples?)(/|$)"
)


@dataclass(frozen=True)
class RepoMap:
    """The Python files of one commit with their top-level definitions.

    Attributes:
        tags: path to headings such as ``class A`` and ``def f``.
    """

    tags: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, blobs: Mapping[str, str], root: Path, store: TagStore) -> RepoMap:
        """Build the map of the checkout at ``root``, whose files are ``blobs`` (path to hash)."""
        python = {path: blob for path, blob in blobs.items() if path.endswith(".py")}
        return cls(store.tags(python, root))

    def render(self, issue: str, tokens: int) -> str:
        """Return the map for ``issue``, at most ``tokens`` long (of four characters each)."""
        left = tokens * CHARACTERS_PER_TOKEN
        parts = []
        for path in self.ranked(issue):
            lines = [f"{path}:", *(f"  {tag}" for tag in self.tags[path])]
            kept = _fitting(lines, left)
            if not kept:
                break
            parts += kept
            left -= sum(len(line) + 1 for line in kept)
        return "\n".join(parts)

    def ranked(self, issue: str) -> list[str]:
        """Return all paths: those that the issue names, then by words shared with it.

        A shared word weighs its inverse document frequency (Spärck Jones 1972), so the package's
        own name weighs nothing; tests and documentation come after sources of the same score.
        """
        named = FileIndex.of(self.tags).mentioned(issue)
        order = {path: number for number, path in enumerate(named)}
        words = {path: _words(f"{path} {' '.join(tags)}") for path, tags in self.tags.items()}
        spread = Counter(word for found in words.values() for word in found)
        asked = _words(issue)
        scores = {
            path: sum(math.log(len(words) / spread[word]) for word in sorted(found & asked))
            for path, found in words.items()
        }
        unnamed = len(order)
        return sorted(
            self.tags,
            key=lambda p: (order.get(p, unnamed), bool(_TEST.search(p)), -scores[p], p),
        )


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _fitting(lines: list[str], characters: int) -> list[str]:
    """Return the first lines that fit; a name without any definition is worth showing, too."""
    kept = []
    for line in lines:
        characters -= len(line) + 1
        if characters < 0:
            break
        kept.append(line)
    return kept
