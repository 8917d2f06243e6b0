"""What the map keeps on disk changes no map."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from agent.repomap import TagStore
from agent.repomap.build import RepoMap
from agent.repomap.scanning.tree import blob_hash, blobs_below
from tests.agent.repomap.test_repo_map import FILES
from tests.support import TOP, write_files


def map_in(
    folder: Path,
    seed: str,
    cache: Path,
    asked: str = "",
) -> str:
    command = [sys.executable, "-m", "agent.repomap", str(folder), "--tokens", "300"]
    text = folder.parent / "text"
    text.write_text(
        asked or "The cart's total is not rounded, nor mailed\nCart().total, Mailer"
    )
    result = subprocess.run(
        [*command, "--text", str(text)],
        cwd=TOP,
        env={**os.environ, "PYTHONHASHSEED": seed, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


def test_neither_hash_seed_nor_folder_nor_cache_changes_the_map(tmp_path: Path) -> None:
    one = tmp_path / "one"
    other = tmp_path / "deep" / "er" / "other"
    first = map_in(write_files(one, FILES), "1", tmp_path / "a")
    assert "class Cart" in first
    assert map_in(one, "2", tmp_path / "a") == first
    assert map_in(write_files(other, FILES), "3", tmp_path / "b") == first
    assert map_in(other, "4", tmp_path / "a") == first


def test_equal_scores_are_in_the_order_of_paths_for_any_hash_seed(
    tmp_path: Path,
) -> None:
    root = write_files(
        tmp_path / "tree", {f"m{n}.py": "def f(): ...\n" for n in range(9)}
    )
    maps = [map_in(root, seed, tmp_path / seed, "?") for seed in ("1", "2")]
    headings = [line for line in maps[0].split("\n") if line.endswith(":")]
    assert maps[0] == maps[1]
    assert headings == sorted(headings) and len(headings) == 9


def test_another_checkout_of_the_same_blobs_reads_no_file(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", FILES)
    store = TagStore(tmp_path / "tags.sqlite")
    blobs = {
        path: blob for path, blob in blobs_below(root).items() if path.endswith(".py")
    }
    RepoMap.of(blobs, root, store)
    moved = {path: blob for path, blob in blobs.items() if "price" not in path}
    elsewhere = RepoMap.of(moved, tmp_path / "empty", store)
    assert "def add_item" in elsewhere.render("cart", 400)


def test_the_contents_of_the_store_do_not_change_the_map(tmp_path: Path) -> None:
    """Tags come in another order when some are stored: numbers must not depend on it."""
    root = write_files(tmp_path / "tree", FILES)
    blobs = blobs_below(root)
    cold = RepoMap.of(blobs, root, TagStore(tmp_path / "a.sqlite"))
    half = {path: blob for path, blob in blobs.items() if "m" in path}
    RepoMap.of(half, root, TagStore(tmp_path / "b.sqlite"))
    warm = RepoMap.of(blobs, root, TagStore(tmp_path / "b.sqlite"))
    assert list(cold.index.pack()) == list(warm.index.pack())


def test_a_new_tree_reads_only_blobs_never_seen(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", FILES)
    store = TagStore(tmp_path / "tags.sqlite")
    blobs = blobs_below(root)
    RepoMap.of(blobs, root, store)
    for path in FILES:
        (root / path).unlink()
    (root / "shop/new.py").write_text("def brand_new(): ...\n")
    blobs["shop/new.py"] = blob_hash((root / "shop/new.py").read_bytes())
    found = RepoMap.of(blobs, root, TagStore(store.path)).render("cart, brand_new", 400)
    assert "def add_item" in found and "def brand_new" in found


@pytest.mark.parametrize("content", [b"this is no database", b""])
def test_a_broken_store_only_costs_time(tmp_path: Path, content: bytes) -> None:
    root = write_files(tmp_path / "tree", FILES)
    store = tmp_path / "tags.sqlite"
    store.write_bytes(content)
    assert "class Cart" in RepoMap.of(blobs_below(root), root, TagStore(store)).render(
        "cart", 99
    )


def test_broken_values_in_the_store_are_made_again(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", FILES)
    store = TagStore(tmp_path / "tags.sqlite")
    blobs = blobs_below(root)
    want = RepoMap.of(blobs, root, store).render("cart", 400)
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE blobs SET value = x'00'")
        database.execute("UPDATE trees SET value = x'00'")
    assert RepoMap.of(blobs, root, store).render("cart", 400) == want


def test_only_the_newest_trees_are_kept(tmp_path: Path) -> None:
    store = TagStore(tmp_path / "tags.sqlite")
    for number in range(12):
        store.keep_tree(str(number), [("a", b"1"), ("b", b"2")])
    store.keep_tree("5", [("a", b"3")])
    assert store.tree("11") == {"a": b"1", "b": b"2"}
    assert store.tree("5") == {"a": b"3"}
    assert [bool(store.tree(str(n))) for n in range(12)] == [n >= 4 for n in range(12)]


def test_a_store_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", FILES)
    (tmp_path / "file").write_text("in the way")
    store = TagStore(tmp_path / "file" / "tags.sqlite")
    assert "class Cart" in RepoMap.of(blobs_below(root), root, store).render("cart", 99)


def test_several_processes_fill_one_store(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", FILES)
    (tmp_path / "text").write_text("cart")
    command = [
        sys.executable,
        "-m",
        "agent.repomap",
        str(root),
        "--text",
        str(tmp_path / "text"),
    ]
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    running = []
    for _ in range(4):
        running.append(
            subprocess.Popen(command, cwd=TOP, env=env, stdout=subprocess.PIPE)
        )
    outputs = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(outputs) == 1
    with sqlite3.connect(tmp_path / "swe-retry-harness/tags.sqlite") as database:
        python = sum(path.endswith(".py") for path in FILES)
        assert database.execute("SELECT count(*) FROM blobs").fetchone() == (python,)
