"""Root nouns by our rule agree with labels made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exercises.editpack.stats import (
    ruled_noun,
    singular,
)

LABELS = Path(__file__).parent / "data" / "root-nouns.tsv"


def labelled(kind: str) -> Iterator[tuple[str, str]]:
    for line in LABELS.read_text(encoding="utf-8").splitlines()[1:]:
        of, noun, message = line.split("\t")
        if of == kind:
            yield message, "" if noun == "-" else noun


@pytest.mark.parametrize(("kind", "size"), [("hundred", 100), ("further", 28), ("unseen", 47)])
def test_the_rule_agrees_with_labels(
    kind: str, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = list(labelled(kind))
    agreed = sum(ruled_noun(message, message.split()[0].lower()) == noun for message, noun in pairs)
    with capsys.disabled():
        print(f"\nroot nouns by rule, {kind}: {agreed} of {len(pairs)} as labelled by hand")
    assert len(pairs) == size
    assert agreed >= 0.85 * size


@pytest.mark.parametrize(
    ("message", "noun"),
    [
        ("Fix", ""),
        ("fix\n\nthe bug", ""),
        ("Fix ```", ""),
        ("Fix 🐛", ""),
        ("Fix " + "(" * 5000, ""),
        ("Fix " + "x" * 5000, "x" * 40),
        ("Fix the the the", ""),
        ("Fix " + "`" * 100 + "a b" + "`" * 100, "b"),
    ],
)
def test_any_message_has_a_short_noun_or_none(message: str, noun: str) -> None:
    assert ruled_noun(message, "fix") == noun


@pytest.mark.parametrize(
    ("plural", "noun"),
    [
        ("tests", "test"), ("entries", "entry"), ("classes", "class"), ("caches", "cache"),
        ("branches", "branch"), ("status", "status"), ("css", "css"), ("cookies", "cookie"),
        ("string_types", "string_types"), ("alias", "alias"), ("analysis", "analysis"),
    ],
)  # fmt: skip
def test_words_become_singular(plural: str, noun: str) -> None:
    assert singular(plural) == noun
