"""Documents of tokens become windows that hold every token but a rest, in an order of the epoch."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from itertools import chain, product
from typing import Any

import numpy as np
import pytest

from exercises.tests.support.editpack import END, edit, tokenizer_of
from swe_retry_exercises.editpack.rows import CONTENT, with_content
from swe_retry_exercises.editpack.windows import (
    Document,
    documents_of,
    epoch_order,
    split_documents,
    windows_of,
)

CHARACTERS = "ab cd\n()=:é\t世🙂\x00'\"#"


def random_texts(number: int = 80) -> list[str]:
    """Return texts of 0 to 400 characters."""
    rng = random.Random(7)
    texts = []
    for _ in range(number):
        length = rng.randrange(400)
        texts.append("".join(rng.choices(CHARACTERS, k=length)))
    return texts


def bpe(texts: Sequence[str]) -> Any:
    return tokenizer_of(texts)


def whole_bytes(texts: Sequence[str]) -> Any:
    return tokenizer_of(texts, vocabulary=0)


def unigram(texts: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=90,
        special_tokens=[END],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@pytest.mark.parametrize("make", [bpe, whole_bytes, unigram])
def test_all_windows_together_are_all_documents_but_the_dropped_rest(
    make: Callable[[Sequence[str]], Any],
) -> None:
    rows = [edit(text, text) for text in random_texts()]
    texts = [with_content(row)[CONTENT] for row in rows]
    tokenizer = make(texts)
    end = tokenizer.token_to_id(END)

    def encode(contents: list[str]) -> list[list[int]]:
        encodings = tokenizer.encode_batch(contents)
        return [encoding.ids for encoding in encodings]

    documents = list(documents_of(rows, encode, end))
    expected = [[*ids, end] for ids in encode(texts)]
    assert tokens_of(documents) == expected
    for length, epoch in product([7, 64, 1000], range(2)):
        order = epoch_order(documents, seed=3, epoch=epoch)
        windows, rest = windows_of(order, length)
        assert windows.shape[1] == length
        joined = list(chain.from_iterable(tokens_of(order)))
        flat = windows.ravel().tolist()
        count = len(flat)
        assert flat == joined[:count]
        assert rest.tolist() == joined[count:]
        assert len(rest) == len(joined) - count
        assert len(rest) < length


def tokens_of(documents: Sequence[Document]) -> list[list[int]]:
    return [document.tokens.tolist() for document in documents]


def document(text: str, *tokens: int) -> Document:
    digest = hashlib.sha256(text.encode()).digest()
    ended = np.array([*tokens, 0], np.int32)
    return Document(ended, digest[:8])


def numbered_documents(count: int) -> list[Document]:
    return [document(f"text {number}", number) for number in range(count)]


def numbers(documents: Sequence[Document]) -> list[int]:
    return [int(document.tokens[0]) for document in documents]


def test_an_order_is_that_of_seed_and_epoch() -> None:
    documents = numbered_documents(50)

    def order_of(seed: int, epoch: int) -> list[int]:
        return numbers(epoch_order(documents, seed, epoch))

    first = order_of(seed=1, epoch=0)
    assert first == order_of(seed=1, epoch=0)
    assert sorted(first) == list(range(50))
    assert first != order_of(seed=1, epoch=1)
    assert first != order_of(seed=2, epoch=0)


def test_a_document_longer_than_a_window_goes_over_several() -> None:
    long = document("long", *range(1, 10))
    short = document("short", 10)
    windows, rest = windows_of([long, short], 4)
    assert windows.tolist() == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 0, 10, 0],
    ]
    assert rest.tolist() == []


@pytest.mark.parametrize(
    ("documents", "tokens"),
    [
        ([document("a", 1, 2)], [1, 2, 0]),
        ([], []),
    ],
)
def test_no_documents_and_too_few_tokens_give_no_window(
    documents: list[Document],
    tokens: list[int],
) -> None:
    windows, rest = windows_of(documents, 4)
    assert len(windows) == 0
    assert rest.tolist() == tokens


def test_the_held_out_share_is_chosen_by_the_texts_alone() -> None:
    documents = numbered_documents(1000)
    training, held_out = split_documents(documents, 0.005)
    assert sorted(numbers([*training, *held_out])) == list(range(1000))
    by_digest = sorted(documents, key=lambda document: document.digest)
    smallest = by_digest[:5]
    assert set(numbers(held_out)) == set(numbers(smallest))


def test_another_order_holds_out_the_same_texts_and_equal_texts_stay_together() -> None:
    texts = ["a", "b", "b", "c", "b", "d"]

    def held_out(order: Sequence[str]) -> set[bytes]:
        documents = [document(text, 1) for text in order]
        training, aside = split_documents(documents, 0.2)
        digests = {document.digest for document in aside}
        training_digests = {document.digest for document in training}
        assert digests.isdisjoint(training_digests)
        assert len(training) + len(aside) == len(order)
        return digests

    assert held_out(texts) == held_out(texts[::-1])


def test_nothing_is_held_out_where_nothing_would_be_left() -> None:
    documents = [document("same", 1)] * 3
    for share in (0.5, 0):
        training, held_out = split_documents(documents, share)
        assert len(training) == 3
        assert len(held_out) == 0
