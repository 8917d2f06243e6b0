"""Signatures, bands, clusters, and the row that stays."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from multiprocessing import active_children

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InfrastructureError
from exercises.editpack.dedup import (
    SEED,
    DuplicateChoice,
    JoinedTexts,
    banding,
    buckets,
    join_similar,
    join_texts,
    replaced,
    shingles,
    signature,
    similar,
)

FAST = DuplicateChoice()
PER_LEVEL = 20
LEVELS = [n / 10 for n in range(2, 10)]


def grams(text: str) -> set[str]:
    """As upstream: split at each single separator, lower case."""
    tokens = "".join(c if c.isalnum() or c == "_" else " " for c in text.lower()).split(
        " "
    )
    return {" ".join(tokens[n : n + 5]) for n in range(len(tokens) - 4)}


def true_jaccard(one: str, other: str) -> float:
    left, right = grams(one), grams(other)
    return len(left & right) / len(left | right)


def planted(level: float, chosen: random.Random) -> tuple[str, str]:
    """Return two texts of words that occur nowhere else, with exactly this similarity."""
    size = 200
    common, own = round(size * level), round(size * (1 - level) / 2)
    words = [f"w{chosen.getrandbits(60):x}" for _ in range(common + 4 + 2 * own)]
    begin, rest = words[: common + 4], words[common + 4 :]
    return " ".join(begin + rest[:own]), " ".join(begin + rest[own:])


def partition(sets: JoinedTexts, values: Sequence[object]) -> set[tuple[object, ...]]:
    """Return the values of each cluster, in an order of their own."""
    return {
        tuple(sorted(str(values[n]) for n in cluster)) for cluster in sets.clusters()
    }


# The packages that are compared with are imported late: every process that collects tests would
# wait for them.
def test_the_bands_of_the_paper() -> None:
    from datasketch.lsh import _optimal_param

    assert banding(0.5, 500) == (71, 7)
    for threshold, permutations in ((0.5, 500), (0.7, 256), (0.9, 40)):
        cut = banding(threshold, permutations)
        assert cut == _optimal_param(threshold, permutations, 0.5, 0.5)


@pytest.mark.parametrize(
    ("text", "count"),
    [("a b c d", 0), ("a b c d e", 1), ("a b c d e a b c d e", 5), ("a = 1", 0), ("", 0),
     ("A b c d e", 1), ("if x:\n    return", 4), ("é b c d e", 1), ("a_b c d e", 0)],
)  # fmt: skip
def test_shingles_are_runs_of_five_tokens(text: str, count: int) -> None:
    assert len(shingles(text)) == len(grams(text)) == count


def test_shingles_ignore_case_and_what_separates() -> None:
    assert (
        shingles("One two-three.four five") == shingles("one TWO three\nfour+five")
    ).all()
    # Two separators have an empty token between them.
    assert len(np.intersect1d(shingles("a b c d e"), shingles("a  b c d e"))) == 0
    # JSON may hold lone surrogates.
    assert len(shingles("a\ud800b c d e")) == 1


@settings(max_examples=25)
@given(st.integers(5, 900), st.integers(2, 40), st.integers(0, 9))
def test_signatures_are_those_of_datasketch(
    words: int, permutations: int, seed: int
) -> None:
    chosen = random.Random(seed)
    text = " ".join(f"w{chosen.randrange(50)}" for _ in range(words))
    from datasketch import MinHash

    plain = MinHash(num_perm=permutations, seed=SEED)
    for gram in grams(text):
        plain.update(gram.encode())
    assert (signature(shingles(text), permutations) == plain.hashvalues).all()


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.integers(0, 2), min_size=6, max_size=6), min_size=1, max_size=30
    )
)
def test_buckets_are_rows_that_agree_in_a_band(rows: list[list[int]]) -> None:
    expected = []
    for band in range(3):
        found: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, row in enumerate(rows):
            found[tuple(row[2 * band : 2 * band + 2])].append(number)
        expected += [tuple(numbers) for numbers in found.values() if len(numbers) > 1]
    seen = buckets([np.array(row, dtype=np.uint32) for row in rows], 3, 2)
    assert sorted(map(tuple, seen)) == sorted(expected)


@settings(max_examples=60)
@given(
    st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.permutations(range(10))
)
def test_only_pairs_that_are_alike_are_joined(
    pairs: set[tuple[int, int]], order: list[int]
) -> None:
    from scipy.cluster.hierarchy import DisjointSet

    sets, naive = DisjointSet(range(10)), DisjointSet(range(10))
    for pair in pairs:
        naive.merge(*pair)
    compared = join_similar(
        order, sets, lambda a, b: (a, b) in pairs or (b, a) in pairs
    )
    assert sorted(map(sorted, sets.subsets())) == sorted(map(sorted, naive.subsets()))
    assert compared <= 45


def test_the_true_similarity_is_compared_with_the_threshold() -> None:
    one, other = (np.array(v, dtype=np.uint64) for v in ([1, 2, 3, 4], [3, 4, 5, 6]))
    assert similar(one, other, 2 / 6)
    assert not similar(one, other, 0.34)
    assert not similar(one, one[:1], 0.5)


def test_the_row_of_most_worth_stays_the_first_of_equal_ones() -> None:
    assert replaced([[0, 2, 5], [3, 4]], [0] * 6) == {2: 0, 5: 0, 4: 3}
    assert replaced([[0, 2, 5], [3, 4]], [1, 0, 7, 3, 9, 7]) == {0: 2, 5: 2, 3: 4}


def test_planted_pairs_are_found() -> None:
    chosen = random.Random(6)
    pairs = [
        (level, planted(level, chosen)) for level in LEVELS for _ in range(PER_LEVEL)
    ]
    assert all(true_jaccard(*pair) == pytest.approx(level) for level, pair in pairs)
    texts = [text for _, pair in pairs for text in pair]
    found, verified = dict.fromkeys(LEVELS, 0), dict.fromkeys(LEVELS, 0)
    fast, slow = (
        join_texts(texts, FAST),
        join_texts(texts, DuplicateChoice(verify=True)),
    )
    for place, (level, _) in enumerate(pairs):
        found[level] += fast.sets.connected(2 * place + 1, 2 * place)
        verified[level] += slow.sets.connected(2 * place + 1, 2 * place)
    high, low = (
        [found[v] for v in LEVELS if v >= 0.7],
        [found[v] for v in LEVELS if v <= 0.3],
    )
    assert sum(high) >= 0.99 * PER_LEVEL * len(high), found
    assert sum(low) <= 0.1 * PER_LEVEL * len(low), found
    assert verified == {v: n if v >= 0.5 else 0 for v, n in found.items()}
    # Without verify some pairs below the threshold are joined.
    assert found != verified
    assert len(fast.clusters()) == sum(found.values())


# Parts of one text, so that many are near-duplicates of some of the others.
PARTS = st.tuples(st.integers(0, 12), st.integers(1, 20)).map(
    lambda part: " ".join(f"w{n}" for n in range(part[0], sum(part)))
)
TEXTS = st.lists(PARTS, max_size=12)


@settings(max_examples=80)
@given(
    TEXTS.flatmap(lambda texts: st.tuples(st.just(texts), st.permutations(texts))),
    st.booleans(),
)
def test_clusters_do_not_depend_on_the_order(
    orders: tuple[list[str], list[str]], verify: bool
) -> None:
    how = DuplicateChoice(permutations=8, verify=verify)
    first, second = (partition(join_texts(texts, how), texts) for texts in orders)
    assert first == second


def test_short_texts_are_compared_by_equality_alone() -> None:
    texts = [
        "a b",
        "",
        "c\ud800",
        "a b",
        None,
        "A b",
        "",
        "a b c d e",
        "a b c d f",
        None,
    ]
    result = join_texts(texts, FAST)
    assert result.clusters() == [[0, 3], [1, 6]]
    assert result.short == 6


def test_workers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exercises.editpack.dedup._BATCH", 3)
    chosen = random.Random(1)
    texts = [text for _ in range(15) for text in planted(0.6, chosen)]
    one = join_texts([*texts, None, "a"], FAST)
    many = join_texts([*texts, None, "a"], FAST, workers=2)
    assert one.clusters() == many.clusters()
    assert len(one.clusters()) > 5


def test_a_mistake_in_the_rows_ends_the_workers() -> None:
    def texts() -> Iterable[str]:
        yield "a b c d e f" * 200_000
        raise ValueError("row 2")

    with pytest.raises(ValueError, match="row 2"):
        join_texts(texts(), DuplicateChoice(permutations=20), workers=2)


def test_a_killed_worker_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exercises.editpack.dedup._BATCH", 1)

    def texts() -> Iterable[str]:
        for _ in range(20):
            yield "a b c d e f" * 200_000
            for child in active_children():
                child.kill()

    with pytest.raises(InfrastructureError, match="give fewer --workers"):
        join_texts(texts(), DuplicateChoice(permutations=20), workers=2)


def test_clusters_are_near_those_of_all_pairs() -> None:
    """Versions of files, as the history of a repository has them: few lines change, or most."""
    chosen, texts = random.Random(3), []
    for file in range(8):
        lines = [
            f"name_{file}_{n} = call_{file}({chosen.random()}, {n})" for n in range(20)
        ]
        for version in range(8):
            for place in chosen.sample(range(20), chosen.choice([1, 2, 3, 18])):
                lines[place] = f"other_{version} = new({chosen.random()})"
            texts.append("\n".join(lines))
    sets = [grams(text) for text in texts]
    from scipy.cluster.hierarchy import DisjointSet

    exact = DisjointSet(range(len(texts)))
    for one, other in combinations(range(len(texts)), 2):
        if len(sets[one] & sets[other]) >= 0.5 * len(sets[one] | sets[other]):
            exact.merge(one, other)
    kept, found = (sets.n_subsets for sets in (exact, join_texts(texts, FAST).sets))
    assert abs(found - kept) <= 0.05 * kept
    assert 8 < kept < len(texts) / 2
