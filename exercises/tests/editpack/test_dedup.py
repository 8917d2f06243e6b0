"""Signatures, bands, clusters, and the row that stays."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_retry_exercises.editpack.dedup import (
    DuplicateChoice,
    banding,
    join_texts,
    shingles,
)

FAST = DuplicateChoice()
PER_LEVEL = 20
LEVELS = [n / 10 for n in range(2, 10)]


def grams(text: str) -> set[str]:
    """As upstream: split at each single separator, lower case."""
    spaced = ""
    for character in text.lower():
        if character.isalnum() or character == "_":
            spaced += character
        else:
            spaced += " "
    tokens = spaced.split(" ")
    return {" ".join(tokens[n : n + 5]) for n in range(len(tokens) - 4)}


def jaccard(first: set[str], second: set[str]) -> float:
    return len(first & second) / len(first | second)


def similar_texts(level: float, rng: random.Random) -> tuple[str, str]:
    """Return two texts of words that occur nowhere else, with exactly this similarity."""
    size = 200
    shared_grams = round(size * level)
    own_grams = round(size * (1 - level) / 2)

    def new_words(count: int) -> list[str]:
        return [f"w{rng.getrandbits(60):x}" for _ in range(count)]

    shared_words = new_words(shared_grams + 4)
    first = shared_words + new_words(own_grams)
    second = shared_words + new_words(own_grams)
    return " ".join(first), " ".join(second)


def clusters(
    texts: Sequence[str | None],
    choice: DuplicateChoice = FAST,
) -> list[list[int]]:
    """Return the numbers of the texts of each cluster of more than one."""
    return clusters_in(join_texts(texts, choice, {}))


def clusters_in(sets: Any) -> list[list[int]]:
    """Return the sorted members of each set of more than one."""
    clusters = []
    for members in sets.subsets():
        if len(members) > 1:
            clusters.append(sorted(members))
    return sorted(clusters)


def partition(texts: Sequence[str], choice: DuplicateChoice) -> set[tuple[str, ...]]:
    """Return the texts of each cluster, in an order of their own."""
    parts = set()
    for cluster in clusters(texts, choice):
        members = sorted(texts[number] for number in cluster)
        parts.add(tuple(members))
    return parts


# The packages that are compared with are imported late: every process that collects tests would
# wait for them.
def test_the_bands_of_the_paper() -> None:
    from datasketch.lsh import _optimal_param  # type: ignore[import-untyped]

    assert banding(FAST) == (71, 7)
    for threshold, permutations in {0.5: 90, 0.7: 60, 0.9: 40}.items():
        choice = DuplicateChoice(threshold=threshold, permutations=permutations)
        expected = _optimal_param(threshold, permutations, 0.5, 0.5)
        assert banding(choice) == expected


def test_shingles_are_runs_of_five_tokens() -> None:
    for text, count in {
        "a b c d": 0,
        "a b c d e": 1,
        "a b c d e a b c d e": 5,
        "a = 1": 0,
        "": 0,
        "A b c d e": 1,
        "if x:\n    return": 4,
        "é b c d e": 1,
        "a_b c d e": 0,
    }.items():
        assert len(shingles(text)) == count
        assert len(grams(text)) == count


def test_shingles_ignore_case_and_what_separates() -> None:
    expected = shingles("one TWO three\nfour+five")
    assert shingles("One two-three.four five") == expected
    # Two separators have an empty token between them.
    single_space = shingles("a b c d e")
    two_spaces = shingles("a  b c d e")
    assert single_space.isdisjoint(two_spaces)
    # JSON may hold lone surrogates.
    assert len(shingles("a\ud800b c d e")) == 1


@settings(max_examples=25)
@given(st.text("ab c", max_size=60))
def test_shingles_are_as_written_down(text: str) -> None:
    assert shingles(text) == grams(text)


def test_texts_that_agree_in_a_band_are_joined_as_datasketch_joins_them() -> None:
    from datasketch import MinHash, MinHashLSH

    rng = random.Random(8)
    texts = []
    for _ in range(120):
        length = rng.randrange(5, 60)
        text = " ".join(f"w{rng.randrange(40)}" for _ in range(length))
        texts.append(text)
    texts += [f"{text} and more" for text in texts[::3]]
    choice = DuplicateChoice(threshold=0.6, permutations=64)
    index = MinHashLSH(threshold=0.6, num_perm=64)
    from scipy.cluster.hierarchy import DisjointSet

    naive = DisjointSet(range(len(texts)))
    for number, text in enumerate(texts):
        sketch = MinHash(num_perm=64, seed=1)
        for gram in grams(text):
            sketch.update(gram.encode())
        for other in index.query(sketch):
            naive.merge(number, other)
        index.insert(number, sketch)
    joined = clusters_in(naive)
    assert clusters(texts, choice) == joined
    assert len(joined) > 20


def test_planted_pairs_are_found() -> None:
    rng = random.Random(6)
    pair_levels = []
    texts: list[str] = []
    for level in LEVELS:
        for _ in range(PER_LEVEL):
            first, second = similar_texts(level, rng)
            similarity = jaccard(grams(first), grams(second))
            assert similarity == pytest.approx(level)
            pair_levels.append(level)
            texts += [first, second]
    sets = join_texts(texts, FAST, {})
    joined_pairs = Counter[float]()
    for number, level in enumerate(pair_levels):
        first_number = 2 * number
        joined_pairs[level] += sets.connected(first_number + 1, first_number)
    high = [joined_pairs[level] for level in LEVELS if level >= 0.7]
    low = [joined_pairs[level] for level in LEVELS if level <= 0.3]
    assert sum(high) >= 0.99 * PER_LEVEL * len(high), joined_pairs
    assert sum(low) <= 0.1 * PER_LEVEL * len(low), joined_pairs
    assert sets.n_subsets == len(texts) - joined_pairs.total()


def part_of_a_text(start: int, length: int) -> str:
    return " ".join(f"w{number}" for number in range(start, start + length))


# Parts of one text, so that many are near-duplicates of some of the others.
PARTS = st.builds(part_of_a_text, st.integers(0, 12), st.integers(1, 20))
TEXTS = st.lists(PARTS, max_size=12)


@settings(max_examples=80)
@given(TEXTS.flatmap(lambda texts: st.tuples(st.just(texts), st.permutations(texts))))
def test_clusters_do_not_depend_on_the_order(
    orders: tuple[list[str], list[str]],
) -> None:
    choice = DuplicateChoice(permutations=8)
    first, second = orders
    assert partition(first, choice) == partition(second, choice)


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
    assert clusters(texts) == [[0, 3], [1, 6]]
    facts: dict[str, int] = {}
    join_texts(texts, FAST, facts)
    assert facts == {"short": 6}


def test_clusters_are_near_those_of_all_pairs() -> None:
    """Versions of files, as the history of a repository has them: few lines change, or most."""
    rng = random.Random(3)
    texts = []
    for file in range(8):
        lines = []
        for n in range(20):
            lines.append(f"name_{file}_{n} = call_{file}({rng.random()}, {n})")
        for version in range(8):
            changes = rng.choice([1, 2, 3, 18])
            for index in rng.sample(range(20), changes):
                lines[index] = f"other_{version} = new({rng.random()})"
            texts.append("\n".join(lines))
    sets = [grams(text) for text in texts]
    from scipy.cluster.hierarchy import DisjointSet

    exact = DisjointSet(range(len(texts)))
    for first, second in combinations(range(len(texts)), 2):
        if jaccard(sets[first], sets[second]) >= 0.5:
            exact.merge(first, second)
    exact_count = exact.n_subsets
    count = join_texts(texts, FAST, {}).n_subsets
    assert abs(count - exact_count) <= 0.05 * exact_count
    assert 8 < exact_count < len(texts) / 2
