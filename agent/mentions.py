"""Which tracked files a text names: one pass over its words, with look-ups in an index."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LIKE_A_FILE = re.compile(r"[._-]")
_TRAIL = ",.!;:)]}>'\"`*"
_LEAD = "([{<'\"`*"


@dataclass(frozen=True)
class FileIndex:
    """The tracked files, ready for look-ups by path and by unique base name."""

    paths: frozenset[str]
    by_name: dict[str, str]

    @classmethod
    def of(cls, paths: Iterable[str]) -> FileIndex:
        """Index ``paths``."""
        paths = frozenset(paths)
        names: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            names[path.rsplit("/", 1)[-1]].append(path)
        # A plain word such as `test` names no file, even where a script is called so.
        unique = {
            name: found[0]
            for name, found in names.items()
            if len(found) == 1 and _LIKE_A_FILE.search(name)
        }
        return cls(paths, unique)

    def mentioned(self, text: str) -> tuple[str, ...]:
        """Return the tracked files that ``text`` names, in the order of their first mention."""
        found: dict[str, None] = {}
        for word in text.split():
            for form in _forms(word):
                path = form if form in self.paths else self.by_name.get(form)
                if path is not None:
                    found[path] = None
                    break
        return tuple(found)


def _forms(word: str) -> Iterator[str]:
    """Yield the ways to read a word as a path: bare, without ``:12`` behind, without ``./``."""
    bare = word.rstrip(_TRAIL).lstrip(_LEAD)
    yield bare
    before_colon = bare.split(":", 1)[0].rstrip(_TRAIL)
    yield before_colon
    yield before_colon.removeprefix("./")
