"""Signatures, bands, clusters, and the row that stays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.editpack.dedup import DuplicateChoice, banding, join_texts, shingles

FAST = DuplicateChoice()
PER_LEVEL = 20
LEVELS = [n / 10 for n in range(2, 10)]


def grams(text: str) -> set[str]:
    """As upstream: split at each single separator, lower case."""
    tokens = "".join(c if c.isalnum() or c == "_" else " " for c in text.lower()).split(
        " "
    )
    return {" ".join(tokens[n : n + 5]) for n in range(len(tokens) - 4)}


def true_jaccard(first: str, second: str) -> float:
    left = grams(first)
    right = grams(second)
    return len(left & right) / len(left | right)


def similar_texts(level: float, chosen: random.Random) -> tuple[str, str]:
    """Return two texts of words that occur nowhere else, with exactly this similarity."""
    size = 200
    common = round(size * level)
    own = round(size * (1 - level) / 2)
    vocabulary = [f"w{chosen.getrandbits(60):x}" for _ in range(common + 4 + 2 * own)]
    begin = vocabulary[: common + 4]
    rest = vocabulary[common + 4 :]
    return " ".join(begin + rest[:own]), " ".join(begin + rest[own:])


def clusters(
    texts: Sequence[str | None], choice: DuplicateChoice = FAST
) -> list[list[int]]:
    """Return the numbers of the texts of each cluster of more than one."""
    sets = join_texts(texts, choice, {}).subsets()
    return sorted(sorted(members) for members in sets if len(members) > 1)


def partition(texts: Sequence[str], choice: DuplicateChoice) -> set[tuple[str, ...]]:
    """Return the texts of each cluster, in an order of their own."""
    return {
        tuple(sorted(texts[number] for number in cluster))
        for cluster in clusters(texts, choice)
    }


# The packages that are compared with are imported late: every process that collects tests would
# wait for them.
def test_the_bands_of_the_paper() -> None:
    from datasketch.lsh import _optimal_param

    assert banding(FAST) == (71, 7)
    for threshold, permutations in ((0.5, 90), (0.7, 60), (0.9, 40)):
        choice = DuplicateChoice(threshold=threshold, permutations=permutations)
        cut = banding(choice)
        assert cut == _optimal_param(threshold, permutations, 0.5, 0.5)


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
        assert len(shingles(text)) == len(grams(text)) == count


def test_shingles_ignore_case_and_what_separates() -> None:
    assert shingles("One two-three.four five") == shingles("one TWO three\nfour+five")
    # Two separators have an empty token between them.
    assert not shingles("a b c d e") & shingles("a  b c d e")
    # JSON may hold lone surrogates.
    assert len(shingles("a\ud800b c d e")) == 1


@settings(max_examples=25)
@given(st.text("ab c", max_size=60))
def test_shingles_are_as_written_down(text: str) -> None:
    assert shingles(text) == grams(text)


def test_texts_that_agree_in_a_band_are_joined_as_datasketch_joins_them() -> None:
    from datasketch import MinHash, MinHashLSH

    chosen = random.Random(8)
    texts = [
        " ".join(f"w{chosen.randrange(40)}" for _ in range(chosen.randrange(5, 60)))
        for _ in range(120)
    ]
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
    joined = sorted(sorted(s) for s in naive.subsets() if len(s) > 1)
    assert clusters(texts, choice) == joined
    assert len(joined) > 20


def test_planted_pairs_are_found() -> None:
    chosen = random.Random(6)
    pairs = [
        (level, similar_texts(level, chosen))
        for level in LEVELS
        for _ in range(PER_LEVEL)
    ]
    assert all(true_jaccard(*pair) == pytest.approx(level) for level, pair in pairs)
    texts = [text for _, pair in pairs for text in pair]
    found_counts = dict.fromkeys(LEVELS, 0)
    sets = join_texts(texts, FAST, {})
    for number, (level, _) in enumerate(pairs):
        found_counts[level] += sets.connected(2 * number + 1, 2 * number)
    high = [found_counts[v] for v in LEVELS if v >= 0.7]
    low = [found_counts[v] for v in LEVELS if v <= 0.3]
    assert sum(high) >= 0.99 * PER_LEVEL * len(high), found_counts
    assert sum(low) <= 0.1 * PER_LEVEL * len(low), found_counts
    assert sets.n_subsets == len(texts) - sum(found_counts.values())


# Parts of one text, so that many are near-duplicates of some of the others.
PARTS = st.tuples(st.integers(0, 12), st.integers(1, 20)).map(
    lambda part: " ".join(f"w{n}" for n in range(part[0], sum(part)))
)
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
    chosen = random.Random(3)
    texts = []
    for file in range(8):
        lines = []
        for n in range(20):
            lines.append(f"name_{file}_{n} = call_{file}({chosen.random()}, {n})")
        for version in range(8):
            for index in chosen.sample(range(20), chosen.choice([1, 2, 3, 18])):
                lines[index] = f"other_{version} = new({chosen.random()})"
            texts.append("\n".join(lines))
    sets = [grams(text) for text in texts]
    from scipy.cluster.hierarchy import DisjointSet

    exact = DisjointSet(range(len(texts)))
    for first, second in combinations(range(len(texts)), 2):
        if len(sets[first] & sets[second]) >= 0.5 * len(sets[first] | sets[second]):
            exact.merge(first, second)
    exact_count, count = (
        sets.n_subsets for sets in (exact, join_texts(texts, FAST, {}))
    )
    assert abs(count - exact_count) <= 0.05 * exact_count
    assert 8 < exact_count < len(texts) / 2
