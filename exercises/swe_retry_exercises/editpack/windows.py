"""The rows of a training as documents of tokens, joined and cut into windows of one length.

The recipe of the paper (F. Cassano et al., "Can It Edit?", 2023, arXiv:2312.12450): each document
is its tokens and the end-of-text token; all are joined and cut, and the rest that is shorter than
a window is dropped. No token is padding, and the label of each token is the token.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from swe_retry_exercises.editpack.rows import CONTENT, EditRow, batches, with_content

TokenIds = np.ndarray[Any, np.dtype[np.int32]]
Windows = np.ndarray[Any, np.dtype[np.int32]]
"""Windows x their tokens."""
Encode = Callable[[list[str]], Sequence[Sequence[int]]]
_BATCH = 256


class Document(NamedTuple):
    """The tokens of a row, and the start of its text's SHA-256, which decides what is held out."""

    tokens: TokenIds
    digest: bytes


def documents_of(
    rows: Iterable[EditRow], encode: Encode, end_of_text: int
) -> Iterator[Document]:
    """Yield the rows as documents, each with the end-of-text token."""
    for batch in batches(rows, _BATCH):
        # Made again: `decontaminate` has looked at what it is made of, not at the column.
        texts = [row[CONTENT] for row in map(with_content, batch)]
        for text, tokens in zip(texts, encode(texts), strict=True):
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            yield Document(np.asarray([*tokens, end_of_text], np.int32), digest[:8])


def split_documents(
    documents: Sequence[Document], share: float
) -> tuple[list[Document], list[Document]]:
    """Return the documents to train on, and those that are held out.

    Held out are those with the smallest digests, ``share`` of all rounded up: the choice depends
    on the set of texts alone, and equal texts stay together. None are if ``share`` is 0 or all
    texts are equal.
    """
    digests = sorted(document.digest for document in documents)
    smallest = set(digests[: math.ceil(len(digests) * share)])
    training = []
    held_out = []
    for document in documents:
        if document.digest in smallest:
            held_out.append(document)
        else:
            training.append(document)
    if not training:
        return held_out, []
    return training, held_out


def windows_of(documents: Iterable[Document], length: int) -> tuple[Windows, TokenIds]:
    """Return the windows of documents, joined in their order, and the rest of tokens."""
    tokens = [document.tokens for document in documents]
    joined = np.concatenate([np.empty(0, np.int32), *tokens])
    end = len(joined) // length * length
    return joined[:end].reshape(-1, length), joined[end:]


def epoch_order(documents: Sequence[Document], seed: int, epoch: int) -> list[Document]:
    """Return documents in the order of an epoch, which seed and epoch alone decide."""
    order = np.random.default_rng([seed, epoch]).permutation(len(documents))
    return [documents[number] for number in order]
