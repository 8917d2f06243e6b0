"""``dedup``: one row of each cluster of near-duplicates.

As the published EditPackFT was made (near-deduplication of BigCode, arXiv:2211.15533, on
CommitPackFT's rows): a text is split at each ``\\W`` and lowered, its 5-grams are a set, and sets
that agree in one band of their signatures are joined. Adjacent separators leave empty tokens, so
indentation counts. The first row of a cluster stays. All rows are held in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field
from tqdm import tqdm

from swe_retry.kit import Section, UserError, quantity, settings_command
from swe_retry_exercises.editpack.files import (
    DroppedFile,
    OutFile,
    RowSettings,
    write_rows,
)
from swe_retry_exercises.editpack.rows import (
    CONTENT,
    JudgedRow,
    RowReading,
    batches,
    reason,
    with_content,
)

if TYPE_CHECKING:
    from scipy.cluster.hierarchy import DisjointSet

GRAM = 5
"""Tokens in a shingle; a shorter text has none."""
SEED = 1
ORIGIN = "origin"
"""The column that names the set that a row of several sets is from."""
_SEPARATOR = re.compile(r"\W")
# Shingles whose permutations are in memory at once; more gain no speed.
_AT_ONCE = 256


class DuplicateChoice(Section):
    """What is a near-duplicate."""

    threshold: float = Field(default=0.5, gt=0, le=1)
    """Call rows near-duplicates from this Jaccard similarity on."""

    permutations: int = Field(default=500, ge=2, le=10_000)
    """Give a signature this many values."""


class DedupSettings(RowSettings):
    """All that ``dedup`` is told."""

    dedup: DuplicateChoice = DuplicateChoice()


@settings_command(DedupSettings, "rows")
def main(
    settings: DedupSettings,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROWS",
            help="Files .jsonl[.gz] or .parquet, folders saved by datasets, hub ids.",
        ),
    ] = None,
    out: OutFile = None,
    dropped: DroppedFile = None,
) -> None:
    """Keep one row of each cluster of near-duplicates; of several sets, name each row's origin."""
    # No name is refused as an empty one is.
    names = rows or [""]
    paths = {Path(name).expanduser().resolve() for name in names}
    if len(paths) < len(names):
        raise UserError("the same rows are given twice; name each set once")
    choice = settings.dedup
    bands, width = banding(choice)
    facts = {"bands": bands, "rows_per_band": width}
    write_rows(
        "dedup",
        _judge(_titled_rows(settings.rows, names), choice, facts),
        out,
        dropped,
        reading=settings.rows,
        names=names,
        options={"seed": SEED, **choice.model_dump()},
        packages=("datasketch", "numpy"),
        details=lambda: facts,
    )
    print(
        f"{quantity(facts['clusters'], 'cluster')}, the largest of "
        f"{quantity(facts['largest_cluster'], 'row')}; {bands} bands × {width} rows"
    )


def _titled_rows(
    reading: RowReading, names: Sequence[str]
) -> Iterator[tuple[str, JudgedRow]]:
    """Yield each row with its title; those of several sets have an origin."""
    base_names = [Path(name).name for name in names]
    for name, base_name in zip(names, base_names, strict=True):
        is_file = Path(name).expanduser().exists()
        is_unique = base_names.count(base_name) == 1
        origin = base_name if is_file and is_unique else name
        for number, (row, why) in enumerate(reading.rows(name), 1):
            title = f"row {number}"
            if len(names) > 1 and why is None:
                row = {**row, ORIGIN: origin}
                title += f" of {origin}"
            if row.get("commit"):
                title += f", commit {row['commit']}"
            yield title, (row, why)


def _judge(
    titled_rows: Iterable[tuple[str, JudgedRow]],
    choice: DuplicateChoice,
    facts: dict[str, int],
) -> Iterator[JudgedRow]:
    """Yield the rows, all but the first of a cluster as dropped; add to the facts."""
    rows = list(titled_rows)
    texts = (None if why else with_content(row)[CONTENT] for _, (row, why) in rows)
    progress = tqdm(texts, "signatures", len(rows), disable=None)
    clusters = join_texts(progress, choice, facts)
    sizes = Counter(clusters[number] for number in range(len(rows)))
    facts["clusters"] = sum(size > 1 for size in sizes.values())
    facts["largest_cluster"] = max(sizes.values())
    first_titles: dict[int, str] = {}
    for number, (title, (row, why)) in enumerate(rows):
        if why:
            yield row, why
        elif clusters[number] in first_titles:
            yield row, reason("duplicate", f"of {first_titles[clusters[number]]}")
        else:
            first_titles[clusters[number]] = title
            yield with_content(row), None


def join_texts(
    texts: Iterable[str | None], choice: DuplicateChoice, facts: dict[str, int]
) -> DisjointSet:
    """Return the numbers of the texts, near-duplicates in one set; None is like no text.

    ``short`` of the facts is the number of those without shingles, which are compared by equality.
    Memory holds 4 bytes for a value of a signature.
    """
    from datasketch import MinHash
    from scipy.cluster.hierarchy import DisjointSet

    bands, width = banding(choice)
    empty = MinHash(num_perm=choice.permutations, seed=SEED)
    sets = DisjointSet()
    short_texts: dict[str, int] = {}
    facts["short"] = 0
    signatures = {}
    for number, text in enumerate(texts):
        sets.add(number)
        grams = shingles(text or "")
        if grams:
            sketch = empty.copy()
            for batch in batches(grams, _AT_ONCE):
                sketch.update_batch([gram.encode() for gram in batch])
            signatures[number] = sketch.hashvalues
        elif text is not None:
            facts["short"] += 1
            sets.merge(short_texts.setdefault(text, number), number)
    for start in range(0, bands * width, width):
        first_of: dict[bytes, int] = {}
        for number, values in signatures.items():
            band = values[start : start + width].tobytes()
            sets.merge(first_of.setdefault(band, number), number)
    return sets


def banding(choice: DuplicateChoice) -> tuple[int, int]:
    """Return bands and rows of a band with the fewest false positives and negatives.

    By datasketch's sum, in which both integrals weigh the same.
    """
    from datasketch import MinHashLSH

    try:
        index = MinHashLSH(threshold=choice.threshold, num_perm=choice.permutations)
    except ValueError as error:  # of the optimiser: one band would be the best
        raise UserError(
            f"dedup.threshold={choice.threshold:g} with "
            f"dedup.permutations={choice.permutations} leaves no bands; give a lower threshold "
            "or more permutations"
        ) from error
    return index.b, index.r


def shingles(text: str) -> set[str]:
    """Return the 5-grams of a text."""
    tokens = _SEPARATOR.split(text.lower())
    shifted = [tokens[n:] for n in range(GRAM)]
    grams = zip(*shifted, strict=False)
    return set(map(" ".join, grams))
