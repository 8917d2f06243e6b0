"""Choose the files and definitions to show, and how fully, by their worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agent.repomap.rendering import Form
from agent.repomap.scanning.tags import Definition

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

    Attributes:
        files: numbers of files; ``units``: numbers of definitions, only of these files.
        paths, file_of, definition: look-ups by these numbers.
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
        used += _cost(material, unit, form) + _heading(material, file, seen)
        seen.add(file)
        taken += 1
        yield MapChoice(file, unit, form)
    yield from _merged(material, taken)


def _merged(material: Material, taken: int) -> Iterator[MapChoice]:
    """Yield files and names, in the order of worth per character."""
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


def _cost(material: Material, unit: int, form: Form) -> int:
    definition = material.definition(unit)
    cost = len(definition.signature) + 4 + sum(map(len, definition.decorators))
    return cost + (len(definition.doc) if form is Form.DOCUMENTED else 0)


def _heading(material: Material, file: int, seen: set[int]) -> int:
    return 0 if file in seen else len(material.paths[file]) + 2
