"""The rows of a training as tokens on disk, with what the model's card says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from core.errors import UserError
from exercises.editpack.files import decontaminated, input_record
from exercises.editpack.rows import CONTENT, DroppedRow, EditRow, RowSource, with_content
from exercises.editpack.training.windows import Documents, write_documents

NO_LICENCE = "not stated"
_BATCH = 256
_LICENCES = ("license", "licenses")

Encode = Callable[[list[str]], Sequence[Sequence[int]]]


@dataclass(frozen=True)
class TrainingData:
    """Where the documents are from."""

    source: RowSource
    record: Mapping[str, Any]
    decontaminated: bool


@dataclass(frozen=True)
class Corpus:
    """The documents, and what else the rows said.

    Attributes:
        unreadable: rows that were left out as invalid.
    """

    documents: Documents
    licences: Mapping[str, int]
    unreadable: int


def training_data(source: RowSource, *, contaminated_anyway: bool) -> TrainingData:
    record = input_record(source)
    clean = decontaminated(record)
    if not (clean or contaminated_anyway):
        raise UserError(
            f"{source.name}: its report shows no decontamination; run `decontaminate` on it, or "
            "give --contaminated-anyway, which the model's card will state"
        )
    return TrainingData(source, record, clean)


@contextmanager
def tokenized(
    source: RowSource,
    encode: Encode,
    end_of_text: int,
    folder: Path,
    check: Callable[[], None],
    *,
    skip_bad: bool,
) -> Iterator[Corpus]:
    """Yield the rows as documents of tokens, in a file in ``folder`` that has no name.

    The system removes the file with the process, however that ends. ``check`` is called between
    the rows; what it raises ends the reading.
    """
    licences, unreadable = Counter[str](), Counter[str]()
    with TemporaryFile(dir=folder) as file:
        contents = _contents(source.rows(skip_bad=skip_bad), licences, unreadable, check)
        documents = write_documents(_encoded(contents, encode), end_of_text, file)
        yield Corpus(documents, licences, unreadable.total())


def _contents(
    rows: Iterable[EditRow | DroppedRow],
    licences: Counter[str],
    unreadable: Counter[str],
    check: Callable[[], None],
) -> Iterator[str]:
    for row in rows:
        check()
        if isinstance(row, DroppedRow):
            unreadable[row.rule] += 1
            continue
        licences.update(_licences(row))
        # Made again: `decontaminate` has looked at what it is made of, not at the column.
        yield with_content(row)[CONTENT]


def _licences(row: EditRow) -> Sequence[str]:
    named = next((row[key] for key in _LICENCES if row.get(key)), NO_LICENCE)
    return [str(one) for one in named] if isinstance(named, list) else [str(named)]


def _encoded(texts: Iterator[str], encode: Encode) -> Iterator[tuple[str, Sequence[int]]]:
    while batch := [*islice(texts, _BATCH)]:
        yield from zip(batch, encode(batch), strict=True)
