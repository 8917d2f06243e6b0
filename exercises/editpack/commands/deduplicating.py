"""``dedup``: one row of each cluster of near-duplicates.

The rows are read twice: for their signatures, which go to a temporary file, and to be written.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

import typer
from tqdm import tqdm

from core.atomic import check_folder, writing_atomic
from core.errors import UserError
from core.options import Folder, built, command, option, option_group
from core.plaintext import counted
from exercises.editpack.commands.workers import in_processes
from exercises.editpack.dedup import (
    SEED,
    UnionFind,
    banding,
    buckets,
    join_alike,
    join_all,
    replaced,
    shingles,
    signature,
    similar,
)
from exercises.editpack.files import RowFiles, RowInput, Step, report_of, row_workers_option
from exercises.editpack.rows import CONTENT, NEW, OLD, DroppedRow, Row, line_of, with_content
from reports.cli.options import verify_option

if TYPE_CHECKING:
    from numpy.typing import NDArray

DUPLICATE = "duplicate"
"""The rule under which near-duplicates are dropped."""
ORIGIN = "origin"
"""The column that names the set that a row of ``mix`` is from."""
_COMMIT = "commit"
# As ``mine`` writes it, and as others do.
_DATES = ("author_date", "date")
_UNDATED = -math.inf
_PACKAGES = ("datasketch", "numpy")
_MOST_PERMUTATIONS = 10_000

RowName = dict[str, Any]
"""What a row is called: ``row`` (its number from 1), and ``origin`` and ``commit`` if it has."""
NamedRows = Callable[[], Iterable[tuple[RowName, Row | DroppedRow]]]
"""Reads rows with their names; can be called again."""


class ComparedText(str, Enum):
    PROMPT = "prompt"
    CODE = "code"


class KeptRow(str, Enum):
    FIRST = "first"
    LONGEST = "longest"
    NEWEST = "newest"


@option_group
class DuplicateChoice:
    """What is a near-duplicate, and which row of several stays."""

    threshold: float = option(
        0.5, "Jaccard similarity from which rows are near-duplicates.", "--threshold"
    )
    permutations: int = option(500, "Values of a signature.", "--permutations", least=2)
    on: ComparedText = option(
        ComparedText.PROMPT, "Compare prompt and edit (content), or both contents alone.", "--on"
    )
    keep: KeptRow = option(
        KeptRow.FIRST, "Row of a cluster that stays; newest goes by author_date.", "--keep"
    )
    clusters: Folder | None = option(
        None, "Write the clusters here, one JSON object a line.", "--clusters", given=Path
    )
    verify: bool = verify_option("Join only candidates whose true similarity is as high.")
    workers: int = row_workers_option()

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise UserError(f"--threshold {self.threshold:g}: give a number above 0, at most 1")
        if self.permutations > _MOST_PERMUTATIONS:
            raise UserError(
                f"--permutations {self.permutations}: give at most {_MOST_PERMUTATIONS:,}"
            )

    def recorded(self) -> dict[str, Any]:
        """Return what decides the rows that stay, for a report."""
        values = {"threshold": self.threshold, "permutations": self.permutations, "seed": SEED}
        return {**values, "on": self.on.value, "keep": self.keep.value, "verify": self.verify}


@option_group
class DedupAsked:
    given: RowInput
    files: RowFiles
    duplicates: DuplicateChoice


@command(DedupAsked)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Keep one row of each cluster of near-duplicates."""
    asked = built(DedupAsked, values)
    source, skip_bad = asked.given.source(), asked.given.skip_bad

    def rows() -> Iterator[tuple[RowName, Row | DroppedRow]]:
        for number, row in enumerate(source.rows(skip_bad=skip_bad), 1):
            yield {"row": number}, row

    step = Step("dedup", (source,), asked.files, {"skip_bad": skip_bad})
    write_without_duplicates(step, rows, asked.duplicates)


def write_without_duplicates(step: Step, rows: NamedRows, asked: DuplicateChoice) -> None:
    """Write one row of each cluster, the report, and the clusters if they are asked for."""
    _check(step, asked)
    try:
        banding(asked.threshold, asked.permutations)
    except ValueError as error:  # of the optimiser: one band would be the best
        raise UserError(
            f"--threshold {asked.threshold:g} with --permutations {asked.permutations} leaves no "
            "bands; give a lower threshold or more permutations"
        ) from error
    facts: dict[str, Any] = {}
    options = {**step.options, **asked.recorded()}
    step = replace(step, options=options, packages=_PACKAGES, details=lambda: facts)
    step.write(_without_duplicates(rows, asked, step.out.parent, facts))
    print(
        f"{counted(facts['clusters'], 'cluster')}, the largest of "
        f"{counted(facts['largest_cluster'], 'row')}; {facts['bands']} bands × "
        f"{facts['rows_per_band']} rows"
    )


def _check(step: Step, asked: DuplicateChoice) -> None:
    if asked.clusters is None:
        return
    read = [source.path.resolve() for source in step.sources if source.path]
    if asked.clusters in (step.out, report_of(step.out), step.files.dropped, *read):
        raise UserError(f"--clusters {asked.clusters} is another file here; choose another")
    if asked.clusters.is_dir():
        raise UserError(f"--clusters {asked.clusters} is a folder; choose another")
    check_folder("--clusters", asked.clusters.parent)


def _without_duplicates(
    rows: NamedRows, asked: DuplicateChoice, folder: Path, facts: dict[str, Any]
) -> Iterator[Row | DroppedRow]:
    # What memory keeps of each row; of a cluster the row of most worth stays.
    names, worth = list[RowName](), list[float]()
    joined = join_texts(_texts(rows, asked, names, worth), asked, folder)
    if asked.keep is KeptRow.NEWEST:
        facts["undated"] = worth.count(_UNDATED)
        if not any(seconds > _UNDATED for seconds in worth):
            raise UserError(
                f"--keep newest: no row has an ISO date in {' or '.join(_DATES)}; keep the first "
                "or the longest"
            )
    clusters = joined.sets.clusters()
    kept = replaced(clusters, worth)
    number = -1
    for number, (_, row) in enumerate(rows()):
        if isinstance(row, DroppedRow):
            yield row
        elif number in kept:
            yield DroppedRow(row, DUPLICATE, f"of {_words(names[kept[number]])}")
        else:
            yield with_content(row)
    if number + 1 != len(names):
        raise UserError("the rows changed while they were read; start again when they are there")
    cut = banding(asked.threshold, asked.permutations)
    facts |= {"clusters": len(clusters), "largest_cluster": max(map(len, clusters), default=1)}
    facts |= {"bands": cut.bands, "rows_per_band": cut.rows, "short": joined.short}
    facts |= {"compared": joined.compared} if asked.verify else {}
    if asked.clusters is not None:
        _write_clusters(asked.clusters, clusters, kept, names)


def _texts(
    rows: NamedRows, asked: DuplicateChoice, names: list[RowName], worth: list[float]
) -> Iterator[str | None]:
    for name, row in tqdm(rows(), "signatures", unit=" rows", disable=None):
        if isinstance(row, DroppedRow):
            names.append(name)
            worth.append(math.nan)
            yield None
            continue
        if asked.on is ComparedText.CODE:
            text = f"{row[OLD]}\n{row[NEW]}".replace("\r\n", "\n")
        else:
            text = with_content(row)[CONTENT]
        commit = row.get(_COMMIT)
        names.append({**name, _COMMIT: commit} if commit else name)
        worth.append(_worth(row, text, asked.keep))
        yield text


def _words(name: RowName) -> str:
    origin = f" of {name[ORIGIN]}" if ORIGIN in name else ""
    commit = f", commit {name[_COMMIT]}" if _COMMIT in name else ""
    return f"row {name['row']}{origin}{commit}"


def _worth(row: Row, text: str, keep: KeptRow) -> float:
    if keep is KeptRow.LONGEST:
        return len(text)
    return _seconds(row) if keep is KeptRow.NEWEST else 0


def _seconds(row: Row) -> float:
    given = next((str(row[key]) for key in _DATES if row.get(key)), "")
    try:
        # Python 3.10 reads no Z.
        day = datetime.fromisoformat(given.replace("Z", "+00:00"))
        return (day if day.tzinfo else day.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return _UNDATED


def _write_clusters(
    path: Path, clusters: Iterable[Sequence[int]], kept: dict[int, int], names: Sequence[RowName]
) -> None:
    with writing_atomic(path) as handle:
        for rows in clusters:
            stays = next(row for row in rows if row not in kept)
            cluster = {
                "size": len(rows),
                "kept": names[stays],
                "rows": [names[row] for row in rows],
            }
            handle.write(line_of(cluster))


# Characters that a worker gets at once.
_BATCH = 1 << 20


@dataclass(frozen=True)
class JoinedTexts:
    """Texts by their place, in sets of near-duplicates.

    Attributes:
        short: how many have no shingles and are compared by equality.
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


def join_texts(texts: Iterable[str | None], asked: DuplicateChoice, folder: Path) -> JoinedTexts:
    """Join the texts that are near-duplicates; None is like no text.

    Args:
        folder: where the temporary files go: 4 bytes for a value of a signature, and with
            ``verify`` 8 for a shingle.
    """
    equal: dict[bytes, list[int]] = {}
    # The texts that have a signature, and where each text's shingles end.
    places, ends = list[int](), [0]
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder) as values, TemporaryFile(dir=folder) as grams:
        task = partial(_sketched, asked=asked)
        done = in_processes(task, _batches(texts), asked.workers)
        sketches = (sketch for _, found in done for sketch in found)
        for place, sketch in enumerate(sketches):
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
        compared = _join_candidates(values, grams, places, ends, asked, sets) if places else 0
    return JoinedTexts(sets, sum(map(len, equal.values())), compared)


def _join_candidates(
    values: IO[bytes],
    grams: IO[bytes],
    places: list[int],
    ends: list[int],
    asked: DuplicateChoice,
    sets: UnionFind,
) -> int:
    cut = banding(asked.threshold, asked.permutations)
    signatures = _mapped(values, "<u4").reshape(len(places), cut.width)
    found = ([places[row] for row in bucket] for bucket in buckets(signatures, cut))
    if not asked.verify:
        for numbers in found:
            join_all(numbers, sets)
        return 0
    hashes = _mapped(grams, "<u8")

    def alike(one: int, other: int) -> bool:
        first, second = (hashes[ends[place] : ends[place + 1]] for place in (one, other))
        return similar(first, second, asked.threshold)

    return sum(join_alike(numbers, sets, alike) for numbers in found)


def _mapped(file: IO[bytes], kind: str) -> NDArray[Any]:
    import numpy as np

    file.flush()
    return np.memmap(file, dtype=kind, mode="r")


def _batches(texts: Iterable[str | None]) -> Iterator[list[str | None]]:
    batch, size = list[str | None](), 0
    for text in texts:
        batch.append(text)
        size += len(text or "") + 1
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _sketched(texts: Iterable[str | None], asked: DuplicateChoice) -> list[_Sketch]:
    width = banding(asked.threshold, asked.permutations).width
    sketches = []
    for text in texts:
        if text is None:
            sketches.append(_Sketch())
        elif len(found := shingles(text)):
            values = signature(found, asked.permutations)[:width].astype("<u4").tobytes()
            sketches.append(_Sketch(values, found.tobytes() if asked.verify else b""))
        else:
            # JSON may hold lone surrogates; shingles have none, they are separators.
            equal = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            sketches.append(_Sketch(equal=equal))
    return sketches
