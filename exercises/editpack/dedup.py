"""``dedup``: one row of each cluster of near-duplicates.

As the published EditPackFT was made (near-deduplication of BigCode, arXiv:2211.15533, on
CommitPackFT's rows): a text is split at each ``\\W`` and lowered, its 5-grams are a set, and sets
that agree in one band of their signatures are joined. Adjacent separators leave empty tokens, so
indentation counts. All rows are held in memory.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field
from tqdm import tqdm

from core.atomic import writing_atomic
from core.errors import UserError
from core.plaintext import counted
from core.settings import CommandLine, Folder, Section, command
from exercises.editpack.files import (
    ONE_PROCESS,
    DroppedFile,
    OutFile,
    RowSettings,
    Step,
    Workers,
)
from exercises.editpack.rows import (
    CONTENT,
    NEW,
    OLD,
    DroppedRow,
    EditRow,
    RowSource,
    line_of,
    with_content,
)
from exercises.editpack.workers import in_processes, parts_of

if TYPE_CHECKING:
    import numpy as np
    from datasketch import MinHash
    from numpy.typing import NDArray
    from scipy.cluster.hierarchy import DisjointSet

GRAM = 5
"""Tokens in a shingle; a shorter text has none."""
SEED = 1
DUPLICATE = "duplicate"
"""The rule under which near-duplicates are dropped."""
ORIGIN = "origin"
"""The column that names the set that a row of several sets is from."""
_SEPARATOR = re.compile(r"\W")
# Shingles whose permutations are in memory at once; more gain no speed.
_AT_ONCE = 256
_COMMIT = "commit"
# As ``mine`` writes it, and as others do.
_DATES = ("author_date", "date")
_UNDATED = -math.inf
_PACKAGES = ("datasketch", "numpy")
# Texts that a worker gets at once.
_BATCH = 128


class DuplicateChoice(Section):
    """What is a near-duplicate, and which row of several stays."""

    threshold: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Call rows near-duplicates from this Jaccard similarity on.",
    )
    permutations: int = Field(
        default=500,
        ge=2,
        le=10_000,
        description="Give a signature this many values.",
    )
    on: Literal["prompt", "code"] = Field(
        default="prompt",
        description="Compare prompt and edit (prompt), or both contents alone (code).",
    )
    keep: Literal["first", "longest", "newest"] = Field(
        default="first",
        description="Keep this row of a cluster: first, longest, or newest by author_date.",
    )
    clusters: Folder | None = Field(
        default=None,
        description="Write the clusters to this file, one JSON object a line.",
    )
    verify: bool = Field(
        default=False,
        description="Join only candidates whose true similarity is as high.",
    )


class DedupSettings(RowSettings):
    """All that ``dedup`` is told."""

    dedup: DuplicateChoice = DuplicateChoice()


@command(DedupSettings, ())
def main(
    line: CommandLine[DedupSettings],
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROWS",
            help="Files .jsonl[.gz] or .parquet, folders saved by datasets, hub ids.",
        ),
    ] = None,
    out: OutFile = None,
    dropped: DroppedFile = None,
    workers: Workers = ONE_PROCESS,
) -> None:
    """Keep one row of each cluster of near-duplicates; of several sets, name each row's origin."""
    settings = line.load()
    names = rows or []
    if line.prints(settings, " ".join(names)):
        return
    # No name is refused as an empty one is.
    sources = _by_origin([settings.rows.source(name) for name in names or [""]])
    choice = settings.dedup
    # Before any row is read.
    banding(choice.threshold, choice.permutations)
    facts: dict[str, Any] = {}
    options = {
        "skip_bad": settings.rows.skip_bad,
        "seed": SEED,
        **choice.model_dump(exclude={"clusters"}),
    }
    step = Step(
        "dedup",
        list(sources.values()),
        out,
        dropped,
        options,
        _PACKAGES,
        lambda: facts,
        also_written={"dedup.clusters": choice.clusters},
    )
    step.write(_without_duplicates(sources, choice, workers, facts))
    print(
        f"{counted(facts['clusters'], 'cluster')}, the largest of "
        f"{counted(facts['largest_cluster'], 'row')}; {facts['bands']} bands × "
        f"{facts['rows_per_band']} rows"
    )


def _by_origin(sources: Sequence[RowSource]) -> dict[str, RowSource]:
    """Return sets by their origin: the file's name, all of it where two are alike.

    The origin of a single set is empty.
    """
    if len(sources) == 1:
        return {"": sources[0]}
    paths = {Path(source.name).expanduser().resolve() for source in sources}
    if len(paths) != len(sources):
        raise UserError("the same rows are given twice; name each set once")
    short_names = []
    for source in sources:
        short_names.append(Path(source.name).name if source.path else source.name)
    times = Counter(short_names)
    origins = {}
    for name, source in zip(short_names, sources, strict=True):
        origins[name if times[name] == 1 else source.name] = source
    return origins


def _named(
    sources: Mapping[str, RowSource],
) -> Iterator[tuple[dict[str, Any], EditRow | DroppedRow]]:
    """Yield each row with its name: ``row`` (its number from 1), ``origin`` and ``commit``."""
    for origin, source in sources.items():
        of_set = {ORIGIN: origin} if origin else {}
        for number, row in enumerate(source.rows(), 1):
            if isinstance(row, DroppedRow):
                yield {"row": number, **of_set}, row
                continue
            commit = {_COMMIT: row[_COMMIT]} if row.get(_COMMIT) else {}
            yield {"row": number, **of_set, **commit}, {**row, **of_set}


def _without_duplicates(
    sources: Mapping[str, RowSource],
    choice: DuplicateChoice,
    workers: int,
    facts: dict[str, Any],
) -> Iterator[EditRow | DroppedRow]:
    rows = list(_named(sources))
    # Of a cluster the row of most worth stays.
    worth: list[float] = []

    def texts() -> Iterator[str | None]:
        for _, row in tqdm(rows, "signatures", unit=" rows", disable=None):
            if isinstance(row, DroppedRow):
                worth.append(math.nan)
                yield None
                continue
            text, value = _compared(row, choice)
            worth.append(value)
            yield text

    joined = join_texts(texts(), choice, workers)
    if choice.keep == "newest":
        facts["undated"] = worth.count(_UNDATED)
        if not any(seconds > _UNDATED for seconds in worth):
            raise UserError(
                f"dedup.keep=newest: no row has an ISO date in {' or '.join(_DATES)}; keep the "
                "first or the longest"
            )
    clusters = joined.clusters()
    kept = replaced(clusters, worth)
    names = [name for name, _ in rows]
    for number, (_, row) in enumerate(rows):
        if isinstance(row, DroppedRow):
            yield row
        elif number in kept:
            yield DroppedRow(row, DUPLICATE, f"of {_words(names[kept[number]])}")
        else:
            yield with_content(row)
    bands, width = banding(choice.threshold, choice.permutations)
    facts |= {
        "clusters": len(clusters),
        "largest_cluster": max(map(len, clusters), default=1),
        "bands": bands,
        "rows_per_band": width,
        "short": joined.short,
    }
    if choice.verify:
        facts["compared"] = joined.compared
    if choice.clusters is not None:
        with writing_atomic(choice.clusters) as handle:
            for cluster in clusters:
                stays = next(row for row in cluster if row not in kept)
                held = {"kept": names[stays], "rows": [names[row] for row in cluster]}
                handle.write(line_of({"size": len(cluster), **held}))


def _compared(row: EditRow, choice: DuplicateChoice) -> tuple[str, float]:
    """Return the text of a row that is compared, and what the row is worth in its cluster."""
    text = with_content(row)[CONTENT]
    if choice.on == "code":
        text = f"{row[OLD]}\n{row[NEW]}".replace("\r\n", "\n")
    if choice.keep != "newest":
        return text, len(text) if choice.keep == "longest" else 0
    given = next((str(row[key]) for key in _DATES if row.get(key)), "")
    try:
        # Python 3.10 reads no Z.
        day = datetime.fromisoformat(given.replace("Z", "+00:00"))
        return text, (
            day if day.tzinfo else day.replace(tzinfo=timezone.utc)
        ).timestamp()
    except (ValueError, OverflowError):
        return text, _UNDATED


def replaced(
    clusters: Iterable[Sequence[int]], worth: Sequence[float]
) -> dict[int, int]:
    """Return by which row each row that goes is replaced: the first one of the greatest worth."""
    kept = {max(rows, key=lambda row: (worth[row], -row)): rows for rows in clusters}
    return {row: stays for stays, rows in kept.items() for row in rows if row != stays}


def _words(name: dict[str, Any]) -> str:
    origin = f" of {name[ORIGIN]}" if ORIGIN in name else ""
    commit = f", commit {name[_COMMIT]}" if _COMMIT in name else ""
    return f"row {name['row']}{origin}{commit}"


@dataclass(frozen=True)
class JoinedTexts:
    """Texts by their place, in sets of near-duplicates.

    Attributes:
        short: how many have no shingles and are compared by equality.
        compared: pairs whose true similarity was computed.
    """

    sets: DisjointSet
    short: int
    compared: int

    def clusters(self) -> list[list[int]]:
        """Return the sets of more than one text, each in order, by their first."""
        return sorted(sorted(found) for found in self.sets.subsets() if len(found) > 1)


def join_texts(
    texts: Iterable[str | None], choice: DuplicateChoice, workers: int = ONE_PROCESS
) -> JoinedTexts:
    """Join the texts that are near-duplicates; None is like no text.

    Memory holds 4 bytes for a value of a signature, and with ``verify`` 8 for a shingle.
    """
    from scipy.cluster.hierarchy import DisjointSet

    equal: dict[bytes, list[int]] = defaultdict(list)
    places: list[int] = []
    signatures: list[NDArray[np.uint32]] = []
    grams: dict[int, NDArray[np.uint64]] = {}
    sets = DisjointSet()
    for _, sketches in in_processes(
        partial(_sketched, choice=choice), parts_of(texts, _BATCH), workers
    ):
        for sketch in sketches:
            place = sets.n_subsets
            sets.add(place)
            if isinstance(sketch, bytes):
                equal[sketch].append(place)
            elif sketch is not None:
                places.append(place)
                signatures.append(sketch[0])
                grams[place] = sketch[1]
    for numbers in equal.values():
        _join_all(numbers, sets)

    def alike(one: int, other: int) -> bool:
        return similar(grams[one], grams[other], choice.threshold)

    compared = 0
    for bucket in buckets(signatures, *banding(choice.threshold, choice.permutations)):
        numbers = [places[row] for row in bucket]
        if choice.verify:
            compared += join_similar(numbers, sets, alike)
        else:
            _join_all(numbers, sets)
    return JoinedTexts(sets, sum(map(len, equal.values())), compared)


def _join_all(numbers: Sequence[int], sets: DisjointSet) -> None:
    for other in numbers[1:]:
        sets.merge(numbers[0], other)


def join_similar(
    numbers: Iterable[int], sets: DisjointSet, alike: Callable[[int, int], bool]
) -> int:
    """Join those numbers that are alike, and return how many pairs were compared.

    Numbers of one set are not compared: that changes nothing.
    """
    compared = 0
    seen: dict[int, list[int]] = {}
    for number in numbers:
        for first, members in seen.items():
            for member in members:
                if sets.connected(first, number):
                    break
                compared += 1
                if alike(number, member):
                    sets.merge(number, member)
        seen.setdefault(sets[number], []).append(number)
    return compared


def _sketched(
    texts: Iterable[str | None], choice: DuplicateChoice
) -> list[tuple[NDArray[np.uint32], NDArray[np.uint64]] | bytes | None]:
    """Return signature and shingles of each text, of one without shingles its hash alone."""
    import numpy as np

    bands, width = banding(choice.threshold, choice.permutations)
    nothing = np.empty(0, np.uint64)
    sketches: list[tuple[NDArray[np.uint32], NDArray[np.uint64]] | bytes | None] = []
    for text in texts:
        if text is None:
            sketches.append(None)
        elif len(found := shingles(text)):
            values = signature(found, choice.permutations)[: bands * width]
            sketches.append((values, found if choice.verify else nothing))
        else:
            # JSON may hold lone surrogates; shingles have none, they are separators.
            sketches.append(
                hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            )
    return sketches


@cache
def banding(threshold: float, permutations: int) -> tuple[int, int]:
    """Return bands and rows of a band with the fewest false positives and negatives.

    By datasketch's sum, in which both integrals weigh the same.
    """
    from datasketch import MinHashLSH

    try:
        index = MinHashLSH(threshold=threshold, num_perm=permutations)
    except ValueError as error:  # of the optimiser: one band would be the best
        raise UserError(
            f"dedup.threshold={threshold:g} with dedup.permutations={permutations} leaves no "
            "bands; give a lower threshold or more permutations"
        ) from error
    return index.b, index.r


def shingles(text: str) -> NDArray[np.uint64]:
    """Return the hashes of a text's 5-grams, sorted, each once.

    A hash is the first 8 bytes of SHA-1. Its lower half is what datasketch hashes bytes to.
    """
    import numpy as np

    tokens = _SEPARATOR.split(text.lower())
    grams = set(map(" ".join, zip(*(tokens[n:] for n in range(GRAM)), strict=False)))
    hashes = (hashlib.sha1(gram.encode()).digest()[:8] for gram in grams)
    return np.unique(np.frombuffer(b"".join(hashes), dtype="<u8"))


@cache
def _empty_sketch(permutations: int) -> MinHash:
    from datasketch import MinHash

    return MinHash(num_perm=permutations, seed=SEED, hashfunc=int)


def signature(found: NDArray[np.uint64], permutations: int) -> NDArray[np.uint32]:
    """Return datasketch's MinHash of shingles: a value for each permutation."""
    sketch = _empty_sketch(permutations).copy()
    hashes = (found & 0xFFFFFFFF).tolist()
    for start in range(0, len(hashes), _AT_ONCE):
        sketch.update_batch(hashes[start : start + _AT_ONCE])
    values: NDArray[np.uint32] = sketch.hashvalues
    return values


def similar(
    one: NDArray[np.uint64], other: NDArray[np.uint64], threshold: float
) -> bool:
    """Return whether two sets of shingles have a Jaccard similarity of at least ``threshold``."""
    import numpy as np

    small, large = sorted((len(one), len(other)))
    if small < threshold * large:
        return False
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common >= threshold * (small + large - common)


def buckets(
    signatures: Sequence[NDArray[np.uint32]], bands: int, width: int
) -> Iterator[list[int]]:
    """Yield the positions of the signatures that agree in a band, band by band."""
    for start in range(0, bands * width, width):
        positions: dict[bytes, list[int]] = defaultdict(list)
        for position, values in enumerate(signatures):
            key = values[start : start + width].tobytes()
            positions[key].append(position)
        for bucket in positions.values():
            if len(bucket) > 1:
                yield bucket
