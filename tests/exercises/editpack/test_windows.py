"""Documents of tokens become windows that hold every token but a rest, in an order of the epoch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from exercises.editpack.training.corpus import (
    HELD_OUT,
    documents_of,
    labelled,
    shuffled,
    text_digest,
    windows_of,
)
from tests.support.editpack import END, tokenizer_of

CHARACTERS = "ab cd\n()=:é\t世🙂\x00'\"#"


def random_texts(number: int = 200) -> list[str]:
    """Return texts of 0 to 400 characters."""
    rng = random.Random(7)
    return [
        "".join(rng.choices(CHARACTERS, k=rng.randrange(400))) for _ in range(number)
    ]


def bpe(texts: Sequence[str]) -> Any:
    return tokenizer_of(texts)


def whole_bytes(texts: Sequence[str]) -> Any:
    return tokenizer_of(texts, vocabulary=0)


def unigram(texts: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.train_from_iterator(
        texts,
        trainers.UnigramTrainer(
            vocab_size=90, special_tokens=[END], show_progress=False
        ),
    )
    return made


@pytest.mark.parametrize("make", [bpe, whole_bytes, unigram])
def test_all_windows_together_are_all_documents_but_the_dropped_rest(
    make: Callable[[Sequence[str]], Any],
) -> None:
    texts = random_texts()
    tokenizer = make(texts)
    end = tokenizer.token_to_id(END)
    tokens = [tokenizer.encode(text).ids for text in texts]
    documents = documents_of(zip(texts, tokens, strict=True), end)
    for length, epoch in product([7, 64, 1000], range(2)):
        order = shuffled(np.arange(len(texts)), 3, epoch)
        windows, rest = windows_of(documents, order, length)
        joined = [token for number in order for token in [*tokens[number], end]]
        found = [labelled(window) for window in windows]
        assert all(len(one["input_ids"]) == length for one in found)
        assert all((one["labels"] == one["input_ids"]).all() for one in found)
        flat = [int(token) for one in found for token in one["input_ids"]]
        assert flat == joined[: len(flat)]
        assert rest.tolist() == joined[len(flat) :]
        assert len(rest) == len(joined) - len(flat) < length


def test_an_order_is_that_of_seed_and_epoch() -> None:
    numbers = np.arange(50)
    first = shuffled(numbers, 1, 0).tolist()
    assert first == shuffled(numbers, 1, 0).tolist()
    assert sorted(first) == numbers.tolist()
    others = [shuffled(numbers, 1, 1).tolist(), shuffled(numbers, 2, 0).tolist()]
    assert first not in others


def test_a_document_longer_than_a_window_goes_over_several() -> None:
    documents = documents_of([("long", range(1, 10)), ("short", [10])], 0)
    windows, rest = windows_of(documents, np.array([0, 1]), 4)
    assert windows.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 0, 10, 0]]
    assert rest.tolist() == []


def test_no_documents_and_too_few_tokens_give_no_window() -> None:
    documents = documents_of([("a", [1, 2])], 0)
    windows, rest = windows_of(documents, np.array([0]), 4)
    assert (len(windows), rest.tolist()) == (0, [1, 2, 0])
    windows, rest = windows_of(documents, np.array([], np.int64), 4)
    assert (len(windows), rest.tolist()) == (0, [])


def test_the_held_out_share_is_chosen_by_the_texts_alone() -> None:
    texts = [f"text {number}" for number in range(1000)]
    kept, held = documents_of(((text, [1]) for text in texts), 0).split()
    chosen = {texts[number] for number in held}
    assert len(held) == 1000 * HELD_OUT
    assert sorted([*kept, *held]) == [*range(1000)]
    assert chosen == {*sorted(texts, key=text_digest)[:5]}


def test_another_order_holds_out_the_same_texts_and_equal_texts_stay_together() -> None:
    texts = ["a", "b", "b", "c", "b", "d"]

    def held(order: Sequence[str]) -> set[str]:
        kept, aside = documents_of(((text, [1]) for text in order), 0).split(0.2)
        assert not {order[n] for n in kept} & {order[n] for n in aside}
        return {order[n] for n in aside}

    assert held(texts) == held(texts[::-1])


def test_nothing_is_held_out_where_nothing_would_be_left() -> None:
    documents = documents_of([("same", [1])] * 3, 0)
    assert [len(part) for part in documents.split(0.5)] == [3, 0]
    assert [len(part) for part in documents.split(0)] == [3, 0]
