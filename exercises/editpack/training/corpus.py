"""The rows of a training as documents of tokens, joined and cut into windows of one length.

The recipe of the paper (F. Cassano et al., "Can It Edit?", 2023, arXiv:2312.12450): each document
is its tokens and the end-of-text token; all are joined and cut, and the rest that is shorter than
a window is dropped. No token is padding, and the label of each token is the token.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from core.errors import UserError
from exercises.editpack.files import decontaminated, input_record
from exercises.editpack.rows import CONTENT, DroppedRow, RowSource, with_content

if TYPE_CHECKING:
    import numpy as np

    Tokens = np.ndarray[Any, np.dtype[np.int32]]
    Numbers = np.ndarray[Any, np.dtype[np.int64]]
    # Windows × their tokens.
    Windows = np.ndarray[Any, np.dtype[np.int32]]

HELD_OUT = 0.005
"""The share of the documents on which the loss is measured and no model is trained."""
NO_LICENCE = "not stated"
_LICENCES = ("license", "licenses")
_BATCH = 256

Encode = Callable[[list[str]], Sequence[Sequence[int]]]


def checked_record(source: RowSource, *, contaminated_anyway: bool) -> dict[str, Any]:
    """Return what a report says of the rows, unless they hold problems of benchmarks."""
    record = input_record(source)
    if not (decontaminated(record) or contaminated_anyway):
        raise UserError(
            f"{source.name}: its report shows no decontamination; run `decontaminate` on it, or "
            "set train.contaminated_anyway=true, which the model's card will state"
        )
    return record


@dataclass(frozen=True)
class Documents:
    """Documents of tokens, and a number of each text, which decides whether it is held out."""

    tokens: Sequence[Tokens]
    digests: np.ndarray[Any, np.dtype[np.uint64]]

    def __len__(self) -> int:
        return len(self.tokens)

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
        return (
            (everyone, everyone[:0])
            if held.all()
            else (everyone[~held], everyone[held])
        )


def tokenized(
    source: RowSource, encode: Encode, end_of_text: int, check: Callable[[], None]
) -> tuple[Documents, dict[str, Any]]:
    """Return the rows as documents of tokens, and what else of them the record states.

    ``check`` is called between the rows; what it raises ends the reading.
    """
    licences, unreadable = Counter[str](), 0

    def contents() -> Iterator[str]:
        nonlocal unreadable
        for row in source.rows():
            check()
            if isinstance(row, DroppedRow):
                unreadable += 1
                continue
            named = next((row[key] for key in _LICENCES if row.get(key)), NO_LICENCE)
            licences.update(map(str, named if isinstance(named, list) else [named]))
            # Made again: `decontaminate` has looked at what it is made of, not at the column.
            yield with_content(row)[CONTENT]

    def encoded(texts: Iterator[str]) -> Iterator[tuple[str, Sequence[int]]]:
        while batch := [*islice(texts, _BATCH)]:
            yield from zip(batch, encode(batch), strict=True)

    documents = documents_of(encoded(contents()), end_of_text)
    return documents, {"unreadable": unreadable, "licences": dict(licences)}


def documents_of(
    texts: Iterable[tuple[str, Sequence[int]]], end_of_text: int
) -> Documents:
    """Return texts with their tokens as documents, each with the end-of-text token."""
    import numpy as np

    found: list[Tokens] = []
    digests: list[int] = []
    for text, tokens in texts:
        found.append(np.asarray([*tokens, end_of_text], dtype=np.int32))
        digests.append(text_digest(text))
    return Documents(found, np.asarray(digests, np.uint64))


def text_digest(text: str) -> int:
    """Return the first 8 bytes of a text's SHA-256 as a number."""
    found = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(found[:8], "big")


def shuffled(numbers: Numbers, seed: int, epoch: int) -> Numbers:
    """Return documents in the order of an epoch, which seed and epoch alone decide."""
    import numpy as np

    order: Numbers = np.random.default_rng([seed, epoch]).permutation(numbers)
    return order


def windows_of(
    documents: Documents, order: Numbers, length: int
) -> tuple[Windows, Tokens]:
    """Return the windows of the documents that ``order`` names, joined, and the rest of tokens."""
    import numpy as np

    joined = np.concatenate(
        [np.empty(0, np.int32), *(documents.tokens[n] for n in order)]
    )
    rest = len(joined) // length * length
    return joined[:rest].reshape(-1, length), joined[rest:]


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
