"""Make the map of a tree: choose files and definitions, render them, and store the text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from swe_retry.agent.grammars import grammars_version
from swe_retry.agent.repomap.ranking.index import LAYOUT, Index, build_index
from swe_retry.agent.repomap.ranking.rank import RankedFile, Ranker, Ranking
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.agent.repomap.scanning.tags import SCANNER, Definition
from swe_retry.llm.chat import estimate_tokens
from swe_retry.llm.tokens import Count

_WIDTH = 100
_NAMES_WIDTH = 100
_MAX_DECORATORS = 3
CHARACTERS_PER_TOKEN = 4
"""The estimate without a counter of the model."""
_MARGIN = 2.0
_MIN_CHOICE = 4
_SECANTS = 8
# Shares of the budget that go to signatures with documentation, and to signatures alone; the rest
# goes to bare names, which cost a quarter and still tell a model where to look.
DOCUMENTED_SHARE = 0.15
SIGNATURE_SHARE = 0.55
# How fast the worth of a file falls with its rank, and its ratio to that of a definition.
FILE_WORTH = 1.0
FILE_RANK = 2.0
UNIT_RANK = 10.0


class Form(IntEnum):
    """How much of a definition is shown."""

    NAME = 1
    SIGNATURE = 2
    DOCUMENTED = 3


@dataclass(frozen=True)
class FileEntry:
    """One file of the map.

    Attributes:
        definitions: by place in the file, those that are shown and those around them.
        forms: place to form; definitions around a shown one are shown at least by name.
    """

    path: str
    definitions: Mapping[int, Definition]
    forms: Mapping[int, Form]


def render_file(entry: FileEntry) -> list[str]:
    """Return the lines for one file: its path, then definitions in their order, nested by indent.

    Definitions that are shown by name share lines after those with signatures.
    """
    children: dict[int, list[int]] = {}
    for number in sorted(entry.definitions):
        parent = entry.definitions[number].parent
        children.setdefault(parent, []).append(number)
    # One line, with `?` for bytes that are not UTF-8.
    path = "?".join(entry.path.splitlines())
    path = path.encode("utf-8", "replace").decode()
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
    names = []
    for number in children.get(parent, ()):
        definition = entry.definitions[number]
        form = entry.forms.get(number, Form.NAME)
        if form is Form.NAME and number not in children:
            names.append(definition.name)
            continue
        for text in _head(definition, form):
            line = indent + text
            if len(line) > _WIDTH:
                line = line[: _WIDTH - 1] + "…"
            lines.append(line)
        _render_level(entry, children, number, f"{indent} ", lines)
    first = len(lines)
    for name in dict.fromkeys(names):
        if len(lines) > first and len(lines[-1]) + len(name) < _NAMES_WIDTH:
            lines[-1] += f", {name}"
        else:
            lines.append(f"{indent}+ {name}")


def _head(definition: Definition, form: Form) -> list[str]:
    if form is Form.NAME:
        before = definition.signature.partition(definition.name)[0]
        return [before + definition.name]
    lines = [*definition.decorators[:_MAX_DECORATORS], definition.signature]
    if form is Form.DOCUMENTED and definition.doc:
        lines.append(f"  # {definition.doc}")
    return lines


def render(entries: Sequence[FileEntry]) -> str:
    """Return ``entries`` as text."""
    return "\n".join(chain.from_iterable(map(render_file, entries)))


class MapChoice(NamedTuple):
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
        index = build_index(blobs, store.tags(blobs, root))
        store.keep_tree(key, index.pack())
        return cls(index)

    @cached_property
    def _ranker(self) -> Ranker:
        return Ranker(self.index)

    def ranked_files(self, text: str) -> tuple[RankedFile, ...]:
        return self._ranker.rank(text).ranked_files()

    def render(self, text: str, tokens: int, *, count: Count | None = None) -> str:
        """Return the map for ``text``, at most ``tokens`` long.

        ``count`` is the model's token counter; four characters a token by default.
        """
        return render(self.select(text, tokens, count=count))

    def select(
        self, text: str, tokens: int, *, count: Count | None = None
    ) -> tuple[FileEntry, ...]:
        """Return the entries of the map that ``render`` returns as text."""
        ranking = self._ranker.rank(text)
        ranks = {file: rank for rank, file in enumerate(ranking.order)}
        choices = self._affordable_choices(ranking, tokens * CHARACTERS_PER_TOKEN)
        count = count or estimate_tokens

        def entries_of(number: int) -> tuple[FileEntry, ...]:
            return self._entries(choices[:number], ranks)

        def size_of(number: int) -> int:
            return count(render(entries_of(number)))

        return entries_of(largest_number(size_of, len(choices), tokens))

    def _entries(
        self, choices: Sequence[MapChoice], ranks: Mapping[int, int]
    ) -> tuple[FileEntry, ...]:
        forms_by_file: dict[int, dict[int, Form]] = {}
        for choice in choices:
            forms = forms_by_file.setdefault(choice.file, {})
            if choice.unit is not None:
                forms[choice.unit - self._first_definition(choice.file)] = choice.form
        entries = []
        for file in sorted(forms_by_file, key=ranks.__getitem__):
            forms = forms_by_file[file]
            first = self._first_definition(file)
            definitions = {}
            for number in forms:
                while number >= 0 and number not in definitions:
                    definitions[number] = self.index.definition(first + number)
                    number = definitions[number].parent
            entries.append(FileEntry(self.index.paths[file], definitions, forms))
        return tuple(entries)

    def _first_definition(self, file: int) -> int:
        """Return the number of the unit behind the file's own one."""
        return int(self.index.first_unit[file]) + 1

    def _affordable_choices(self, ranking: Ranking, characters: int) -> list[MapChoice]:
        choices = []
        spent = 0
        for choice in self._choices(ranking, characters):
            if choice.unit is None:
                spent += len(self.index.paths[choice.file])
            else:
                spent += len(self.index.name(choice.unit))
            if spent > characters * _MARGIN:
                break
            choices.append(choice)
        return choices

    def _choices(self, ranking: Ranking, characters: int) -> Iterator[MapChoice]:
        """Yield choices for about ``characters`` and beyond, the most valuable first.

        The first definitions come with documentation or signature until their share is used. Files
        and names follow, merged by worth per character (the greedy rule for the knapsack problem,
        Dantzig 1957); worth falls with the rank.
        """
        paths = self.index.paths
        file_of = ranking.file_of
        # Each choice takes at least its name and a separator.
        limit = int(characters * _MARGIN) // _MIN_CHOICE
        units = ranking.units(limit)
        used = 0.0
        detailed = 0
        seen = set()
        for unit in units:
            share = used / max(1, characters)
            if share >= SIGNATURE_SHARE:
                break
            form = Form.SIGNATURE
            file = file_of[unit]
            definition = self.index.definition(unit)
            used += len(definition.signature) + 4
            used += sum(map(len, definition.decorators))
            if share < DOCUMENTED_SHARE:
                form = Form.DOCUMENTED
                used += len(definition.doc)
            if file not in seen:
                used += len(paths[file]) + 2
            seen.add(file)
            detailed += 1
            yield MapChoice(file, unit, form)
        # The sort is stable: of equal worth, names come before files.
        offers: list[tuple[float, int, int | None]] = []
        for rank, unit in enumerate(units[detailed:], detailed):
            length = len(self.index.name(unit)) + 2
            worth = 1 / (rank + UNIT_RANK) / length
            offers.append((worth, file_of[unit], unit))
        for rank, file in enumerate(ranking.order[:limit]):
            worth = FILE_WORTH / (rank + FILE_RANK) / (len(paths[file]) + 2)
            offers.append((worth, file, None))
        offers.sort(key=itemgetter(0), reverse=True)
        for _, file, number in offers:
            yield MapChoice(file, number)


def largest_number(size_of: Callable[[int], int], most: int, limit: int) -> int:
    """Return the largest number up to ``most`` whose size is at most ``limit``.

    Sizes grow with their numbers, mostly evenly: secants need few of them, and bisection ends
    the search where they are uneven.
    """
    low = 1
    high = most
    number = high // 2
    number_before = 0
    size_before = 0
    secants = _SECANTS
    while low <= high:
        number = min(max(number, low), high)
        size = size_of(number)
        if size <= limit:
            low = number + 1
        else:
            high = number - 1
        growth = (size - size_before) / (number - number_before)
        number_before = number
        size_before = size
        secants -= 1
        if growth > 0 and secants > 0:
            number += round((limit - size) / growth)
        else:
            number = (low + high) // 2
    return high


def tree_key(blobs: Mapping[str, str]) -> str:
    """Return the hash of a tree: its files, and the version of scanner and grammars."""
    digest = hashlib.sha256(f"{LAYOUT}:{SCANNER}:{grammars_version()}".encode())
    for path, blob in sorted(blobs.items()):
        digest.update(f"\0{path}\0{blob}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
