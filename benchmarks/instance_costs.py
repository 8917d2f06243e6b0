"""Measure CPU, disk and network per instance: ``python -m benchmarks.instance_costs -- ARGS``.

Runs ``harness.py ARGS`` with separate folders and measures that process with its children, the
size of its cache and of a checkout of each instance, and the bytes of its requests.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.repos.checkout import make_checkout
from bench.repos.snapshots import Snapshot

_TOP = Path(__file__).resolve().parents[1]
_MB = 1e6


def main(
    words: Annotated[list[str], typer.Argument(help="Options of harness.py.")],
    cache: Annotated[Path | None, typer.Option(help="Use this warm cache.")] = None,
) -> None:
    """Print the means per instance of one run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cache = cache or folder / "cache"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, str(_TOP / "harness.py"), *words, "--run", "costs"]
        command += ["--out", name, "--cache", str(cache)]
        code = subprocess.run(command, cwd=_TOP, check=False).returncode
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        done = sorted((folder / "predictions/costs/trajectories").glob("*.json"))
        _tell(code, cpu, done)
        _tell_disk(folder, cache, len(done))


def _tell(code: int, cpu: float, done: list[Path]) -> None:
    print(f"\nexit code {code}; {len(done)} instances; means of one instance:")
    count = len(done) or 1
    attempts = [a for path in done for a in json.loads(path.read_text())["attempts"]]
    sent = [size for attempt in attempts for size in _requests(attempt)]
    replies = [m for a in attempts for m in a["messages"] if m["role"] == "assistant"]
    got = sum(len(json.dumps(message)) for message in replies)
    print(f"CPU seconds {cpu / count:.1f}; attempts {len(attempts) / count:.1f}")
    print(f"calls {len(sent) / count:.1f}; request bytes {sum(sent) / count:,.0f}, ", end="")
    print(f"reply bytes {got / count:,.0f}")


def _requests(attempt: Mapping[str, Any]) -> Iterator[int]:
    """Yield the bytes of each request, as JSON, without compression."""
    messages = attempt["messages"]
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            yield len(json.dumps(messages[:number]))


def _tell_disk(folder: Path, cache: Path, count: int) -> None:
    for part in sorted(path for path in cache.iterdir() if path.name != "mirrors"):
        print(f"cache/{part.name}: {_size(part) / _MB / count:.2f} MB an instance")
    for name in ("predictions", "logs"):
        print(f"{name}: {_size(folder / name) / _MB / count:.3f} MB an instance")
    sizes = []
    for number, place in enumerate(cache.glob("snapshots/*/*")):
        if place.is_dir():
            checkout = make_checkout(Snapshot.read(place), folder / f"checkout-{number}")
            sizes.append(_size(checkout.root))
    print(f"checkout: {sum(sizes) / _MB / len(sizes):.1f} MB, the largest {max(sizes) / _MB:.1f}")


def _size(path: Path) -> int:
    """Return the bytes that ``path`` uses on disk, in whole blocks."""
    files = [path, *path.rglob("*")]
    return sum(file.lstat().st_blocks * 512 for file in files if not file.is_dir())


if __name__ == "__main__":
    typer.run(main)
