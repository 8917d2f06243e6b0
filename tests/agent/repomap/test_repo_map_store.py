"""What the map keeps on disk changes no map."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from swe_retry.agent.repomap.build import RepoMap
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.agent.repomap.scanning.tree import blob_hash, blobs_below
from tests.agent.repomap.test_repo_map import FILES
from tests.support import TOP, write_files

QUERY = "The cart's total is not rounded, nor mailed\nCart().total, Mailer"


MODULE = [sys.executable, "-m", "swe_retry.agent.repomap"]


def map_in(folder: Path, seed: str, cache: Path, query: str = QUERY) -> str:
    text = folder.parent / "text"
    text.write_text(query)
    result = subprocess.run(
        [*MODULE, str(folder), "--tokens", "300", "--text", str(text)],
        cwd=TOP,
        env={**os.environ, "PYTHONHASHSEED": seed, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path / "tree", FILES)


@pytest.fixture
def store(tmp_path: Path) -> TagStore:
    return TagStore(tmp_path / "tags.sqlite")


def render(root: Path, store: TagStore) -> str:
    repo_map = RepoMap.of(blobs_below(root), root, store)
    return repo_map.render("cart", 400)


def test_neither_hash_seed_nor_folder_nor_cache_changes_the_map(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "one", FILES)
    other = write_files(tmp_path / "deep/er/other", FILES)
    cache = tmp_path / "a"
    first = map_in(folder, "1", cache)
    assert "class Cart" in first
    assert map_in(folder, "2", cache) == first
    assert map_in(other, "3", tmp_path / "b") == first
    assert map_in(other, "4", cache) == first


def test_equal_scores_are_in_the_order_of_paths_for_any_hash_seed(
    tmp_path: Path,
) -> None:
    files = {f"m{number}.py": "def f(): ...\n" for number in range(9)}
    root = write_files(tmp_path / "tree", files)
    first = map_in(root, "1", tmp_path / "1", query="?")
    second = map_in(root, "2", tmp_path / "2", query="?")
    assert first == second
    headings = [line for line in first.split("\n") if line.endswith(":")]
    assert headings == sorted(headings)
    assert len(headings) == 9


def test_another_checkout_of_the_same_blobs_reads_no_file(
    root: Path, store: TagStore
) -> None:
    blobs = blobs_below(root)
    sources = {path: blob for path, blob in blobs.items() if path.endswith(".py")}
    RepoMap.of(sources, root, store)
    without_price = {path: sources[path] for path in sources if "price" not in path}
    elsewhere = RepoMap.of(without_price, root.parent / "empty", store)
    assert "def add_item" in elsewhere.render("cart", 400)


def test_the_contents_of_the_store_do_not_change_the_map(
    root: Path, store: TagStore
) -> None:
    """Tags come in another order when some are stored: numbers must not depend on it."""
    blobs = blobs_below(root)
    cold = RepoMap.of(blobs, root, TagStore(root.parent / "cold.sqlite"))
    half = {path: blob for path, blob in blobs.items() if "m" in path}
    RepoMap.of(half, root, store)
    warm = RepoMap.of(blobs, root, TagStore(store.path))
    assert list(cold.index.pack()) == list(warm.index.pack())


def test_a_new_tree_reads_only_blobs_never_seen(root: Path, store: TagStore) -> None:
    blobs = blobs_below(root)
    RepoMap.of(blobs, root, store)
    for path in FILES:
        (root / path).unlink()
    content = b"def brand_new(): ...\n"
    (root / "shop/new.py").write_bytes(content)
    blobs["shop/new.py"] = blob_hash(content)
    repo_map = RepoMap.of(blobs, root, TagStore(store.path))
    rendered = repo_map.render("cart, brand_new", 400)
    assert "def add_item" in rendered
    assert "def brand_new" in rendered


@pytest.mark.parametrize("content", [b"this is no database", b""])
def test_a_broken_store_only_costs_time(
    root: Path, store: TagStore, content: bytes
) -> None:
    store.path.write_bytes(content)
    assert "class Cart" in render(root, TagStore(store.path))


def test_broken_values_in_the_store_are_made_again(root: Path, store: TagStore) -> None:
    first = render(root, store)
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE blobs SET value = x'00'")
        database.execute("UPDATE trees SET value = x'00'")
    assert render(root, store) == first


def test_only_the_newest_trees_are_kept(store: TagStore) -> None:
    for number in range(12):
        store.keep_tree(str(number), [("a", b"1"), ("b", b"2")])
    store.keep_tree("5", [("a", b"3")])
    assert store.tree("11") == {"a": b"1", "b": b"2"}
    assert store.tree("5") == {"a": b"3"}
    for number in range(12):
        tree = store.tree(str(number))
        assert bool(tree) == (number >= 4), number


def test_a_store_that_cannot_be_written_only_costs_time(root: Path) -> None:
    assert "class Cart" in render(root, TagStore(root / "setup.cfg/tags.sqlite"))


def test_what_a_killed_process_stored_stays_and_was_not_waited_for(
    store: TagStore,
) -> None:
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from swe_retry.agent.repomap.scanning.store import TagStore\n"
        "store = TagStore(Path(sys.argv[1]))\n"
        "store.keep_text('1', 'a map')\n"
        "store.keep_tree('2', [('a', b'3')])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(store.path)]
    assert subprocess.run(command, cwd=TOP).returncode == -signal.SIGKILL
    # SQLite waits for the disk when it copies this log to the file.
    assert Path(f"{store.path}-wal").stat().st_size
    assert store.text("1") == "a map"
    assert store.tree("2") == {"a": b"3"}


def test_threads_of_one_store_do_not_mix_what_they_write(store: TagStore) -> None:
    other = Thread(target=store.keep_text, args=("1", "map"))

    def unfinished_parts() -> Iterator[tuple[str, bytes]]:
        yield "a", b"2"
        other.start()
        other.join(0.5)
        raise sqlite3.Error

    store.keep_tree("3", unfinished_parts())
    other.join()
    assert store.tree("3") == {}
    assert store.text("1") == "map"


def test_several_processes_fill_one_store(tmp_path: Path, root: Path) -> None:
    text = tmp_path / "text"
    text.write_text("cart")
    command = [*MODULE, str(root), "--text", str(text)]
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    processes = []
    for _ in range(4):
        process = subprocess.Popen(command, cwd=TOP, env=env, stdout=subprocess.PIPE)
        processes.append(process)
    outputs = set()
    for process in processes:
        output, _ = process.communicate()
        outputs.add(output)
        assert process.returncode == 0
    assert len(outputs) == 1
    python = [path for path in FILES if path.endswith(".py")]
    with sqlite3.connect(tmp_path / "swe-retry-harness/tags.sqlite") as database:
        count = database.execute("SELECT count(*) FROM blobs").fetchone()
    assert count == (len(python),)
