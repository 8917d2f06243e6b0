"""Stored maps: made once, and never used for another tree, text, budget or tokenizer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.repomap import RenderedMaps, TagStore
from agent.repomap.scanning.tree import blobs_below
from llm.chat import estimate_tokens
from tests.agent.repomap.test_repo_map import FILES
from tests.support import write_files


def maps(tmp_path: Path) -> tuple[RenderedMaps, Path]:
    root = write_files(tmp_path / "tree", FILES)
    return RenderedMaps(blobs_below(root), TagStore(tmp_path / "tags.sqlite")), root


def shown(
    found: tuple[RenderedMaps, Path],
    text: str = "cart",
    tokens: int = 99,
    counter: str = "c",
    count: Callable[[str], int] = estimate_tokens,
) -> str:
    return found[0].render(found[1], text, tokens, count=count, counter=counter)


def refuse(text: str) -> int:
    raise AssertionError("nothing is to be counted")


def test_a_kept_map_needs_neither_tags_nor_files_nor_counting(tmp_path: Path) -> None:
    first = shown(maps(tmp_path))
    assert "class Cart" in first
    with sqlite3.connect(tmp_path / "tags.sqlite") as database:
        database.execute("DELETE FROM trees")
        database.execute("DELETE FROM blobs")
    again = RenderedMaps(maps(tmp_path)[0].blobs, TagStore(tmp_path / "tags.sqlite"))
    assert shown((again, tmp_path / "nowhere"), count=refuse) == first


def test_what_decides_a_map_decides_which_is_read(tmp_path: Path) -> None:
    first = shown(maps(tmp_path))
    with pytest.raises(AssertionError, match="counted"):
        shown(maps(tmp_path), text="mailer", count=refuse)
    with pytest.raises(AssertionError, match="counted"):
        shown(maps(tmp_path), tokens=98, count=refuse)
    with pytest.raises(AssertionError, match="counted"):
        shown(maps(tmp_path), counter="other", count=refuse)
    (tmp_path / "tree/shop/cart.py").write_text("class Basket: ...\n")
    root = tmp_path / "tree"
    other = RenderedMaps(blobs_below(root), TagStore(tmp_path / "tags.sqlite"))
    assert shown((other, root)) != first


def test_without_a_name_for_the_counter_nothing_is_kept(tmp_path: Path) -> None:
    shown(maps(tmp_path), counter="")
    with pytest.raises(AssertionError, match="counted"):
        shown(maps(tmp_path), counter="", count=refuse)


def test_a_broken_text_is_made_again_and_old_ones_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shown(maps(tmp_path))
    with sqlite3.connect(tmp_path / "tags.sqlite") as database:
        database.execute("UPDATE texts SET value = x'ff'")
    assert shown(maps(tmp_path)) == first
    monkeypatch.setattr("agent.repomap.scanning.store._TEXTS_KEPT", 2)
    store = TagStore(tmp_path / "tags.sqlite")
    for number in range(4):
        store.keep_text(str(number), f"map {number}")
    assert [store.text(str(n)) for n in range(4)] == [None, None, "map 2", "map 3"]
