"""Join texts that are near-duplicates, with what is compared in temporary files.

Memory holds a few numbers for a text. The files have no name, so a killed process leaves none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from exercises.editpack.commands.workers import in_processes
from exercises.editpack.dedup import (
    UnionFind,
    banding,
    buckets,
    join_alike,
    join_all,
    shingles,
    signature,
    similar,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Characters that a worker gets at once.
_BATCH = 1 << 20


@dataclass(frozen=True)
class Comparison:
    """How texts are compared.

    Attributes:
        threshold: the Jaccard similarity from which texts are joined.
        verify: compute it for candidates; else all candidates are joined.
        workers: processes; they change nothing but the time.
    """

    threshold: float
    permutations: int
    verify: bool = False
    workers: int = 1


@dataclass(frozen=True)
class JoinedTexts:
    """Texts by their place, in sets of near-duplicates.

    Attributes:
        short: how many have no shingles and are compared by equality.
        compared: candidates whose similarity was computed.
    """

    sets: UnionFind
    short: int
    compared: int


@dataclass(frozen=True)
class _Sketch:
    """What is compared of a text; one without shingles has the hash of the text alone."""

    values: bytes = b""
    shingles: bytes = b""
    equal: bytes = b""


def join_texts(texts: Iterable[str | None], how: Comparison, folder: Path) -> JoinedTexts:
    """Join the texts that are near-duplicates; None is like no text.

    Args:
        folder: where the temporary files go: 4 bytes for a value of a signature, and with
            ``verify`` 8 for a shingle.

    Raises:
        InfrastructureError: a worker was killed.
    """
    equal: dict[bytes, list[int]] = {}
    # The texts that have a signature, and where each text's shingles end.
    places, ends = list[int](), [0]
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder) as values, TemporaryFile(dir=folder) as grams:
        for place, sketch in enumerate(_sketches(texts, how)):
            ends.append(ends[-1] + len(sketch.shingles) // 8)
            if sketch.equal:
                equal.setdefault(sketch.equal, []).append(place)
            elif sketch.values:
                places.append(place)
                values.write(sketch.values)
                grams.write(sketch.shingles)
        sets = UnionFind(len(ends) - 1)
        for numbers in equal.values():
            join_all(numbers, sets)
        compared = _join_candidates(values, grams, places, ends, how, sets) if places else 0
    return JoinedTexts(sets, sum(map(len, equal.values())), compared)


def _join_candidates(
    values: IO[bytes],
    grams: IO[bytes],
    places: list[int],
    ends: list[int],
    how: Comparison,
    sets: UnionFind,
) -> int:
    """Join the texts that agree in a band, and return how many pairs were compared."""
    cut = banding(how.threshold, how.permutations)
    signatures = _mapped(values, "<u4").reshape(len(places), cut.width)
    found = ([places[row] for row in bucket] for bucket in buckets(signatures, cut))
    if not how.verify:
        for numbers in found:
            join_all(numbers, sets)
        return 0
    hashes = _mapped(grams, "<u8")

    def alike(one: int, other: int) -> bool:
        first, second = (hashes[ends[place] : ends[place + 1]] for place in (one, other))
        return similar(first, second, how.threshold)

    return sum(join_alike(numbers, sets, alike) for numbers in found)


def _mapped(file: IO[bytes], kind: str) -> NDArray[Any]:
    import numpy as np

    file.flush()
    return np.memmap(file, dtype=kind, mode="r")


def _sketches(texts: Iterable[str | None], how: Comparison) -> Iterator[_Sketch]:
    """Yield the sketch of each text in order."""
    task = partial(_sketched, how=how)
    for _, sketches in in_processes(task, _batches(texts), how.workers):
        yield from sketches


def _batches(texts: Iterable[str | None]) -> Iterator[list[str | None]]:
    batch, size = list[str | None](), 0
    for text in texts:
        batch.append(text)
        size += len(text or "") + 1
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _sketched(texts: Iterable[str | None], how: Comparison) -> list[_Sketch]:
    width = banding(how.threshold, how.permutations).width
    return [_Sketch() if text is None else _sketch(text, width, how) for text in texts]


def _sketch(text: str, width: int, how: Comparison) -> _Sketch:
    found = shingles(text)
    if not len(found):
        # JSON may hold lone surrogates; shingles have none, they are separators.
        return _Sketch(equal=hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    values = signature(found, how.permutations)[:width].astype("<u4")
    return _Sketch(values.tobytes(), found.tobytes() if how.verify else b"")
