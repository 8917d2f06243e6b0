"""Find 6,000 files in 5,000 words by index and by a naive scan: ``python -m benchmarks.mentions``.

The naive scan compares each file with each word. It finds paths and base names only, and is slower.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from agent.conversation.mentions import FileIndex

FILES, WORDS = 6_000, 5_000


def main() -> None:
    """Print the seconds of both, and their ratio."""
    paths, text = _material(random.Random(0))
    started = time.process_time()
    index = FileIndex.of(paths)
    built = time.process_time() - started
    ours, found = _timed(lambda: set(index.mentioned(text)))
    theirs, naive = _timed(lambda: _naive(paths, text))
    assert naive <= found, "the index must find what the naive scan finds"
    print(f"{FILES} files, {WORDS} words: {len(found)} files found, {len(naive)} by the naive scan")
    print(f"index {built:.4f} s once, then {ours:.4f} s; files x words {theirs:.3f} s")
    print(f"ratio {ours / theirs:.5f}, including the index {(built + ours) / theirs:.5f}")


def _material(source: random.Random) -> tuple[list[str], str]:
    folders = [f"package/part{n}/inner{n % 7}" for n in range(100)]
    paths = [f"{folders[n % 100]}/module_{n}.py" for n in range(FILES)]
    plain = [f"word{n}" for n in range(800)]
    dressed = ("({}),", "`{}`", '"{}"', "./{}", "{}:12", "{}.")
    words = [
        source.choice(dressed).format(source.choice(paths))
        if number % 50 == 0
        else source.choice(plain)
        for number in range(WORDS)
    ]
    return paths, " ".join(words)


def _timed(run: Callable[[], set[str]]) -> tuple[float, set[str]]:
    started = time.process_time()
    found = run()
    return time.process_time() - started, found


def _naive(paths: list[str], text: str) -> set[str]:
    words = [word.strip(",.!;:?\"'`*()[]{}<>") for word in text.split()]
    return {path for path in paths for word in words if word in (path, path.rpartition("/")[2])}


if __name__ == "__main__":
    main()
