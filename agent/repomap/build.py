"""Make the map of a tree: choose files and definitions, render them, and store the text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from itertools import takewhile
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
    entry: FileEntry, children: Mapping[int, list[int]], parent: int, indent: str, lines: list[str]
) -> None:
    plain: list[str] = []
    for number in children.get(parent, ()):
        definition = entry.definitions[number]
        form = entry.shown.get(number, Form.NAME)
        if form is Form.NAME and number not in children:
            plain.append(definition.name)
            continue
        lines += _head(definition, form, indent)
        _render_level(entry, children, number, indent + " ", lines)
    lines += _wrapped(plain, indent)


def _head(definition: Definition, form: Form, indent: str) -> list[str]:
    if form is Form.NAME:
        before = definition.signature.partition(definition.name)[0]
        return [_clipped(f"{indent}{before}{definition.name}")]
    lines = [_clipped(indent + d) for d in definition.decorators[:_MOST_DECORATORS]]
    lines.append(_clipped(indent + definition.signature))
    if form is Form.DOCUMENTED and definition.doc:
        lines.append(_clipped(f"{indent}  # {definition.doc}"))
    return lines


def _wrapped(names: Sequence[str], indent: str) -> list[str]:
    lines: list[str] = []
    for name in dict.fromkeys(names):
        if lines and len(lines[-1]) + len(name) < _NAMES_WIDTH:
            lines[-1] += f", {name}"
        else:
            lines.append(f"{indent}+ {name}")
    return lines


def _clipped(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


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
        builder = IndexBuilder()
        for path, tags in store.tags(blobs, root):
            builder.add(path, tags)
        index = builder.build(blobs)
        store.keep_tree(key, index.pack())
        return cls(index)

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
        shown: dict[int, dict[int, Form]] = {}
        for choice in chosen:
            forms = shown.setdefault(choice.file, {})
            if choice.unit is not None:
                forms[choice.unit - int(self.index.first_unit[choice.file]) - 1] = choice.form
        return shown

    def _around(
        self, file: int, shown: Collection[int], definition: Callable[[int], Definition]
    ) -> dict[int, Definition]:
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


def _longest(
    entries: Callable[[int], tuple[FileEntry, ...]],
    most: int,
    tokens: int,
    count: Count,
) -> tuple[FileEntry, ...]:
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


# Shares of the budget that go to signatures with documentation, and to signatures alone; the rest
# goes to bare names, which cost a quarter and still tell a model where to look.
DOCUMENTED_SHARE = 0.15
SIGNATURE_SHARE = 0.55
# How fast the worth of a file falls with its rank, and its ratio to that of a definition.
FILE_WORTH = 1.0
FILE_RANK = 2.0
UNIT_RANK = 10.0


@dataclass(frozen=True)
class MapChoice:
    """A file's path (``unit`` is None) or one of its definitions to be shown in ``form``."""

    file: int
    unit: int | None = None
    form: Form = Form.NAME


@dataclass(frozen=True)
class Material:
    """The files and definitions to choose from, best first.

    ``files`` and ``units`` are numbers, the units only of these files; ``paths``, ``file_of`` and
    ``definition`` are look-ups by these numbers.
    """

    files: Sequence[int]
    units: Sequence[int]
    paths: Sequence[str]
    file_of: Sequence[int]
    definition: Callable[[int], Definition]


def choices(material: Material, characters: int) -> Iterator[MapChoice]:
    """Yield choices for about ``characters`` and beyond, the most valuable first.

    The first definitions come with documentation or signature until their share is used. Files
    and names follow, merged by worth per character (the greedy rule for the knapsack problem,
    Dantzig 1957); worth falls with the rank.
    """
    used, taken = 0.0, 0
    seen: set[int] = set()
    for unit in material.units:
        share = used / max(1, characters)
        if share >= SIGNATURE_SHARE:
            break
        form = Form.DOCUMENTED if share < DOCUMENTED_SHARE else Form.SIGNATURE
        file = material.file_of[unit]
        definition = material.definition(unit)
        used += len(definition.signature) + 4 + sum(map(len, definition.decorators))
        used += len(definition.doc) if form is Form.DOCUMENTED else 0
        used += 0 if file in seen else len(material.paths[file]) + 2
        seen.add(file)
        taken += 1
        yield MapChoice(file, unit, form)
    yield from _merged(material, taken)


def _merged(material: Material, taken: int) -> Iterator[MapChoice]:
    paths, definition = material.paths, material.definition
    offers = [
        (FILE_WORTH / (rank + FILE_RANK) / (len(paths[file]) + 2), 1, MapChoice(file))
        for rank, file in enumerate(material.files)
    ]
    offers += [
        (
            1 / (rank + UNIT_RANK) / (len(definition(unit).name) + 2),
            0,
            MapChoice(material.file_of[unit], unit),
        )
        for rank, unit in enumerate(material.units)
        if rank >= taken
    ]
    offers.sort(key=lambda offer: (-offer[0], offer[1]))
    return (choice for _, _, choice in offers)
