"""Make the map of a tree: choose files and definitions, render them, and store the text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from pathlib import Path

from agent.grammars import grammars_version
from agent.repomap.ranking.index import LAYOUT, Index, IndexBuilder
from agent.repomap.ranking.rank import RankedFile, Ranker, Ranking
from agent.repomap.scanning.store import TagStore
from agent.repomap.scanning.tags import SCANNER, Definition
from llm.chat import estimate_tokens
from llm.tokens import Count

_WIDTH = 100
_NAMES_WIDTH = 100
_MOST_DECORATORS = 3
CHARACTERS_PER_TOKEN = 4
"""The estimate without a counter of the model."""
_MARGIN = 2.0
_SHORTEST_CHOICE = 4
# Shares of the budget that go to signatures with documentation, and to signatures alone; the rest
# goes to bare names, which cost a quarter and still tell a model where to look.
DOCUMENTED_SHARE = 0.15
SIGNATURE_SHARE = 0.55
# How fast the worth of a file falls with its rank, and its ratio to that of a definition.
FILE_WORTH = 1.0
FILE_RANK = 2.0
UNIT_RANK = 10.0

Definer = Callable[[int], Definition]


class Form(IntEnum):
    """How much of a definition is shown."""

    NAME = 1
    SIGNATURE = 2
    DOCUMENTED = 3


@dataclass(frozen=True)
class FileEntry:
    """One file of the map.

    Attributes:
        definitions: by place in the file, at least those that are shown and those around them.
        shown: place to form; definitions around a shown one are shown at least by name.
    """

    path: str
    definitions: Mapping[int, Definition]
    shown: Mapping[int, Form]

    def visible(self) -> set[int]:
        """Return the places of all definitions that the map names: shown ones and those around."""
        wanted = set(self.shown)
        for number in self.shown:
            parent = self.definitions[number].parent
            while parent >= 0 and parent not in wanted:
                wanted.add(parent)
                parent = self.definitions[parent].parent
        return wanted


def render_file(entry: FileEntry) -> list[str]:
    """Return the lines for one file: its path, then definitions in their order, nested by indent.

    Definitions that are shown by name share lines after those with signatures.
    """
    children: dict[int, list[int]] = {}
    for number in sorted(entry.visible()):
        children.setdefault(entry.definitions[number].parent, []).append(number)
    # One line, with `?` for bytes that are not UTF-8.
    path = "?".join(entry.path.splitlines()).encode("utf-8", "replace").decode()
    lines = [f"{path}:"]
    _render_level(entry, children, -1, " ", lines)
    return lines


def _render_level(
    entry: FileEntry,
    children: Mapping[int, list[int]],
    parent: int,
    indent: str,
    lines: list[str],
) -> None:
    plain: list[str] = []
    for number in children.get(parent, ()):
        definition = entry.definitions[number]
        form = entry.shown.get(number, Form.NAME)
        if form is Form.NAME and number not in children:
            plain.append(definition.name)
            continue
        if form is Form.NAME:
            head = [
                definition.signature.partition(definition.name)[0] + definition.name
            ]
        else:
            head = [*definition.decorators[:_MOST_DECORATORS], definition.signature]
        if form is Form.DOCUMENTED and definition.doc:
            head.append(f"  # {definition.doc}")
        for line in (indent + text for text in head):
            lines.append(line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…")
        _render_level(entry, children, number, indent + " ", lines)
    first = len(lines)
    for name in dict.fromkeys(plain):
        if len(lines) > first and len(lines[-1]) + len(name) < _NAMES_WIDTH:
            lines[-1] += f", {name}"
        else:
            lines.append(f"{indent}+ {name}")


def render(entries: Sequence[FileEntry]) -> str:
    """Return ``entries`` as text."""
    return "\n".join(line for entry in entries for line in render_file(entry))


@dataclass(frozen=True)
class MapChoice:
    """A file's path (``unit`` is None) or one of its definitions to be shown in ``form``."""

    file: int
    unit: int | None = None
    form: Form = Form.NAME


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
        builder = IndexBuilder()
        for path, tags in store.tags(blobs, root):
            builder.add(path, tags)
        index = builder.build(blobs)
        store.keep_tree(key, index.pack())
        return cls(index)

    @cached_property
    def _ranker(self) -> Ranker:
        return Ranker(self.index)

    def ranked(self, text: str) -> tuple[RankedFile, ...]:
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
        """Return the entries of the map that ``render`` returns as text."""
        ranking = self._ranker.rank(text)
        order = {file: place for place, file in enumerate(ranking.order)}
        definition = cache(self.index.definition)
        offered = self._offered(
            ranking, tokens * CHARACTERS_PER_TOKEN, chat, definition
        )
        count = count or estimate_tokens
        best: tuple[FileEntry, ...] = ()
        low, high = 1, len(offered)
        while low <= high:
            middle = (low + high) // 2
            candidate = self._entries(offered[:middle], order, definition)
            if count(render(candidate)) <= tokens:
                best, low = candidate, middle + 1
            else:
                high = middle - 1
        return best

    def _entries(
        self, chosen: Sequence[MapChoice], order: Mapping[int, int], definition: Definer
    ) -> tuple[FileEntry, ...]:
        shown: dict[int, dict[int, Form]] = {}
        for choice in chosen:
            forms = shown.setdefault(choice.file, {})
            if choice.unit is not None:
                forms[choice.unit - int(self.index.first_unit[choice.file]) - 1] = (
                    choice.form
                )
        entries = []
        for file in sorted(shown, key=lambda file: order[file]):
            first = int(self.index.first_unit[file]) + 1
            around: dict[int, Definition] = {}
            for place in shown[file]:
                while place >= 0 and place not in around:
                    around[place] = definition(first + place)
                    place = around[place].parent
            entries.append(FileEntry(self.index.paths[file], around, shown[file]))
        return tuple(entries)

    def _offered(
        self,
        ranking: Ranking,
        characters: int,
        chat: Collection[str],
        definition: Definer,
    ) -> list[MapChoice]:
        index = self.index
        left_out = {file for file, path in enumerate(index.paths) if path in set(chat)}
        # Each choice takes at least its name and a separator.
        most = int(characters * _MARGIN) // _SHORTEST_CHOICE
        hidden = sum(
            int(index.first_unit[f + 1] - index.first_unit[f]) for f in left_out
        )
        files = [f for f in ranking.order if f not in left_out][:most]
        units = [
            u
            for u in ranking.units(most + hidden)
            if ranking.file_of[u] not in left_out
        ]
        offered: list[MapChoice] = []
        spent = 0
        for choice in self._choices(
            files, units, ranking.file_of, characters, definition
        ):
            path = index.paths[choice.file]
            spent += len(path if choice.unit is None else definition(choice.unit).name)
            if spent > characters * _MARGIN:
                break
            offered.append(choice)
        return offered

    def _choices(
        self,
        files: Sequence[int],
        units: Sequence[int],
        file_of: Sequence[int],
        characters: int,
        definition: Definer,
    ) -> Iterator[MapChoice]:
        """Yield choices for about ``characters`` and beyond, the most valuable first.

        The first definitions come with documentation or signature until their share is used. Files
        and names follow, merged by worth per character (the greedy rule for the knapsack problem,
        Dantzig 1957); worth falls with the rank.
        """
        paths = self.index.paths
        used, taken = 0.0, 0
        seen: set[int] = set()
        for unit in units:
            share = used / max(1, characters)
            if share >= SIGNATURE_SHARE:
                break
            form = Form.DOCUMENTED if share < DOCUMENTED_SHARE else Form.SIGNATURE
            file, found = file_of[unit], definition(unit)
            used += len(found.signature) + 4 + sum(map(len, found.decorators))
            used += len(found.doc) if form is Form.DOCUMENTED else 0
            used += 0 if file in seen else len(paths[file]) + 2
            seen.add(file)
            taken += 1
            yield MapChoice(file, unit, form)
        offers = [
            (
                FILE_WORTH / (rank + FILE_RANK) / (len(paths[file]) + 2),
                1,
                MapChoice(file),
            )
            for rank, file in enumerate(files)
        ]
        for rank, unit in enumerate(units[taken:], taken):
            worth = 1 / (rank + UNIT_RANK) / (len(definition(unit).name) + 2)
            offers.append((worth, 0, MapChoice(file_of[unit], unit)))
        offers.sort(key=lambda offer: (-offer[0], offer[1]))
        yield from (choice for _, _, choice in offers)


def tree_key(blobs: Mapping[str, str]) -> str:
    """Return the hash of a tree: its files, and the version of scanner and grammars."""
    digest = hashlib.sha256(f"{LAYOUT}:{SCANNER}:{grammars_version()}".encode())
    for path, blob in sorted(blobs.items()):
        digest.update(f"\0{path}\0{blob}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
