"""The map of one commit: built once, ranked for many texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path

from agent.grammars import grammars_version
from agent.repomap.ranking.index import LAYOUT, Index, IndexBuilder
from agent.repomap.ranking.rank import RankedFile, Ranker, Ranking
from agent.repomap.rendering import FileEntry, Form, render_file
from agent.repomap.scanning.store import TagStore
from agent.repomap.scanning.tags import SCANNER, Definition
from agent.repomap.select import MapChoice, Material, choices
from llm.chat import estimate_tokens
from llm.tokens import Count

CHARACTERS_PER_TOKEN = 4
"""The estimate without a counter of the model."""

_MARGIN = 2.0
_SHORTEST_CHOICE = 4


@dataclass(frozen=True)
class RepoMap:
    """All definitions of one tree, ready to be ranked."""

    index: Index

    @classmethod
    def of(cls, blobs: Mapping[str, str], root: Path, store: TagStore) -> RepoMap:
        """Build the map of the files ``blobs`` (path to git blob hash), which lie below ``root``.

        Files are read only where the store has neither the tree nor the blob.
        """
        key = tree_key(blobs)
        with suppress(ValueError):
            return cls(Index.unpack(store.tree(key)))
        index = _build(blobs, root, store)
        store.keep_tree(key, index.pack())
        return cls(index)

    def ranked(self, text: str) -> tuple[RankedFile, ...]:
        """Return all files: those that ``text`` names in its order, then by falling score."""
        return self._ranker.rank(text).ranked_files()

    def render(
        self,
        text: str,
        tokens: int,
        *,
        count: Count | None = None,
        chat: Collection[str] = (),
    ) -> str:
        """Return the map for ``text``, at most ``tokens`` long.

        Args:
            count: the model's token counter; four characters a token by default.
            chat: files that the model sees already; they are left out.
        """
        return render(self.select(text, tokens, count=count, chat=chat))

    def select(
        self,
        text: str,
        tokens: int,
        *,
        count: Count | None = None,
        chat: Collection[str] = (),
    ) -> tuple[FileEntry, ...]:
        """Return the content of ``render`` as data."""
        ranking = self._ranker.rank(text)
        offered = self._offered(ranking, tokens * CHARACTERS_PER_TOKEN, chat)
        order = {file: place for place, file in enumerate(ranking.order)}

        definition = cache(self.index.definition)

        def entries(number: int) -> tuple[FileEntry, ...]:
            shown = self._shown(offered[:number])
            return tuple(
                FileEntry(
                    self.index.paths[file], self._around(file, shown[file], definition), shown[file]
                )
                for file in sorted(shown, key=lambda file: order[file])
            )

        return _longest(entries, len(offered), tokens, count or estimate_tokens)

    @cached_property
    def _ranker(self) -> Ranker:
        return Ranker(self.index)

    def _offered(self, ranking: Ranking, characters: int, chat: Collection[str]) -> list[MapChoice]:
        """Return the choices in order, enough for any counter to find the limit among them."""
        index, definition = self.index, cache(self.index.definition)
        left_out = {file for file, path in enumerate(index.paths) if path in set(chat)}
        # Each choice takes at least its name and a separator.
        most = int(characters * _MARGIN) // _SHORTEST_CHOICE
        hidden = sum(int(index.first_unit[f + 1] - index.first_unit[f]) for f in left_out)
        material = Material(
            files=[f for f in ranking.order if f not in left_out][:most],
            units=[u for u in ranking.units(most + hidden) if ranking.file_of[u] not in left_out],
            paths=index.paths,
            file_of=ranking.file_of,
            definition=definition,
        )
        spent = 0

        def affordable(choice: MapChoice) -> bool:
            nonlocal spent
            unit, path = choice.unit, index.paths[choice.file]
            spent += len(path if unit is None else definition(unit).name)
            return spent <= characters * _MARGIN

        return list(takewhile(affordable, choices(material, characters)))

    def _shown(self, chosen: Sequence[MapChoice]) -> dict[int, dict[int, Form]]:
        """Return, by file, the form of each chosen definition by its place in the file."""
        shown: dict[int, dict[int, Form]] = {}
        for choice in chosen:
            forms = shown.setdefault(choice.file, {})
            if choice.unit is not None:
                forms[choice.unit - int(self.index.first_unit[choice.file]) - 1] = choice.form
        return shown

    def _around(
        self, file: int, shown: Collection[int], definition: Callable[[int], Definition]
    ) -> dict[int, Definition]:
        """Return the shown definitions of ``file`` and those around them, by place."""
        first = int(self.index.first_unit[file]) + 1
        found: dict[int, Definition] = {}
        for place in shown:
            while place >= 0 and place not in found:
                found[place] = definition(first + place)
                place = found[place].parent
        return found


def render(entries: Sequence[FileEntry]) -> str:
    """Return ``entries`` as text."""
    return "\n".join(line for entry in entries for line in render_file(entry))


def _build(blobs: Mapping[str, str], root: Path, store: TagStore) -> Index:
    builder = IndexBuilder()
    for path, tags in store.tags(blobs, root):
        builder.add(path, tags)
    return builder.build(blobs)


def _longest(
    entries: Callable[[int], tuple[FileEntry, ...]],
    most: int,
    tokens: int,
    count: Count,
) -> tuple[FileEntry, ...]:
    """Return ``entries(n)`` for the largest ``n`` found to fit, by bisection."""
    best: tuple[FileEntry, ...] = ()
    low, high = 1, most
    while low <= high:
        middle = (low + high) // 2
        candidate = entries(middle)
        if count(render(candidate)) <= tokens:
            best, low = candidate, middle + 1
        else:
            high = middle - 1
    return best


def tree_key(blobs: Mapping[str, str]) -> str:
    """Return the hash of a tree: its files, and the version of scanner and grammars."""
    digest = hashlib.sha256(f"{LAYOUT}:{SCANNER}:{grammars_version()}".encode())
    for path, blob in sorted(blobs.items()):
        digest.update(f"\0{path}\0{blob}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
