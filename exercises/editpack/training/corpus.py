"""The rows of a training as documents of tokens on disk, joined and cut into windows of one length.

The recipe of the paper (F. Cassano et al., "Can It Edit?", 2023, arXiv:2312.12450): each document
is its tokens and the end-of-text token; all are joined and cut, and the rest that is shorter than
a window is dropped. No token is padding, and the label of each token is the token.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO

from core.errors import UserError
from exercises.editpack.files import decontaminated, input_record
from exercises.editpack.rows import CONTENT, DroppedRow, RowSource, with_content

if TYPE_CHECKING:
    import numpy as np

    Tokens = np.ndarray[Any, np.dtype[np.int32]]
    Numbers = np.ndarray[Any, np.dtype[np.int64]]

HELD_OUT = 0.005
"""The share of the documents on which the loss is measured and no model is trained."""
NO_LICENCE = "not stated"
_LICENCES = ("license", "licenses")
_BATCH = 256

Encode = Callable[[list[str]], Sequence[Sequence[int]]]


@dataclass(frozen=True)
class TrainingData:
    """Where the documents are from."""

    source: RowSource
    record: Mapping[str, Any]
    decontaminated: bool


def training_data(source: RowSource, *, contaminated_anyway: bool) -> TrainingData:
    record = input_record(source)
    clean = decontaminated(record)
    if not (clean or contaminated_anyway):
        raise UserError(
            f"{source.name}: its report shows no decontamination; run `decontaminate` on it, or "
            "give --contaminated-anyway, which the model's card will state"
        )
    return TrainingData(source, record, clean)


@dataclass(frozen=True)
class Documents:
    """Documents of tokens, which may lie on disk.

    Attributes:
        ends: where each document ends in ``tokens``.
        digests: a number of each document's text, which decides whether it is held out.
    """

    tokens: Tokens
    ends: Numbers
    digests: np.ndarray[Any, np.dtype[np.uint64]]

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def lengths(self) -> Numbers:
        import numpy as np

        return np.diff(self.ends, prepend=0)

    def split(self, share: float = HELD_OUT) -> tuple[Numbers, Numbers]:
        """Return the numbers of the documents to train on, and of those held out.

        Held out are those with the smallest digests, ``share`` of all rounded up: the choice
        depends on the set of texts alone, and equal texts stay together. None are if ``share`` is
        0 or all texts are equal.
        """
        import numpy as np

        number = math.ceil(len(self) * share)
        everyone = np.arange(len(self), dtype=np.int64)
        if not number:
            return everyone, everyone[:0]
        held = self.digests <= np.partition(self.digests, number - 1)[number - 1]
        return (everyone, everyone[:0]) if held.all() else (everyone[~held], everyone[held])


@dataclass(frozen=True)
class Corpus:
    """The documents, and what else the rows said.

    Attributes:
        unreadable: rows that were left out as invalid.
    """

    documents: Documents
    licences: Mapping[str, int]
    unreadable: int


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

    def contents() -> Iterator[str]:
        for row in source.rows(skip_bad=skip_bad):
            check()
            if isinstance(row, DroppedRow):
                unreadable[row.rule] += 1
                continue
            named = next((row[key] for key in _LICENCES if row.get(key)), NO_LICENCE)
            licences.update(map(str, named if isinstance(named, list) else [named]))
            # Made again: `decontaminate` has looked at what it is made of, not at the column.
            yield with_content(row)[CONTENT]

    def encoded(texts: Iterator[str]) -> Iterator[tuple[str, Sequence[int]]]:
        while batch := [*islice(texts, _BATCH)]:
            yield from zip(batch, encode(batch), strict=True)

    with TemporaryFile(dir=folder) as file:
        documents = write_documents(encoded(contents()), end_of_text, file)
        yield Corpus(documents, licences, unreadable.total())


def write_documents(
    texts: Iterable[tuple[str, Sequence[int]]], end_of_text: int, file: BinaryIO
) -> Documents:
    """Write tokens into an open file, and return them as an array that is read from there.

    Args:
        file: empty; stays open as long as the documents are used.
    """
    import numpy as np

    ends, digests, length = array("q"), array("Q"), 0
    for text, tokens in texts:
        length += len(tokens) + 1
        file.write(np.asarray([*tokens, end_of_text], dtype=np.int32).tobytes())
        ends.append(length)
        digests.append(text_digest(text))
    file.flush()
    # An empty file cannot be mapped.
    stored = np.memmap(file, np.int32, "r") if length else np.empty(0, np.int32)
    return Documents(stored, np.asarray(ends, np.int64), np.asarray(digests, np.uint64))


def text_digest(text: str) -> int:
    """Return the first 8 bytes of a text's SHA-256 as a number."""
    found = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(found[:8], "big")


def shuffled(numbers: Numbers, seed: int, epoch: int) -> Numbers:
    """Return documents in the order of an epoch, which seed and epoch alone decide."""
    import numpy as np

    order: Numbers = np.random.default_rng([seed, epoch]).permutation(numbers)
    return order


@dataclass(frozen=True)
class Windows(Sequence["Tokens"]):
    """The windows of documents in one order; each is cut when it is asked for.

    Attributes:
        order: numbers of the documents that are joined.
    """

    documents: Documents
    order: Numbers
    length: int

    @cached_property
    def _joined_ends(self) -> Numbers:
        found: Numbers = self.documents.lengths[self.order].cumsum()
        return found

    @property
    def tokens(self) -> int:
        return int(self._joined_ends[-1]) if len(self.order) else 0

    @property
    def dropped(self) -> int:
        """The tokens of the rest, which is shorter than a window."""
        return self.tokens % self.length

    def __len__(self) -> int:
        return self.tokens // self.length

    def __getitem__(self, number: int) -> Tokens:  # type: ignore[override]  # no slices
        """Return a window as an array of ``length`` tokens."""
        import numpy as np

        if not 0 <= number < len(self):
            raise IndexError(number)
        begin = number * self.length
        return np.concatenate([*self._pieces(begin, begin + self.length)])

    def rest(self) -> Tokens:
        """Return the tokens that no window holds."""
        import numpy as np

        pieces = self._pieces(self.tokens - self.dropped, self.tokens)
        return np.concatenate([np.empty(0, np.int32), *pieces])

    def _pieces(self, begin: int, end: int) -> Iterator[Tokens]:
        import numpy as np

        place = int(np.searchsorted(self._joined_ends, begin, side="right"))
        while begin < end:
            document = int(self.order[place])
            left = int(self._joined_ends[place]) - begin
            last = int(self.documents.ends[document])
            yield self.documents.tokens[last - left : last - left + min(left, end - begin)]
            begin += left
            place += 1


@dataclass(frozen=True)
class TrainingSet:
    """The windows of all epochs; each epoch has as many as the first.

    Attributes:
        of_epoch: returns the windows of an epoch, counted from 0.
        held_out: windows or one shorter piece to measure the loss on; may be empty.
    """

    of_epoch: Callable[[int], Windows]
    each: int
    epochs: int
    held_out: Sequence[Tokens]


def labelled(window: Tokens) -> dict[str, Tokens]:
    """Return a window as a model is trained on it: the label of each token is the token."""
    return {"input_ids": window, "labels": window.copy()}
