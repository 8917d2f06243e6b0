"""Measure the making of training data against its bounds.

``python -m benchmarks.editpack dedup`` generates rows, a third of them near-duplicates of others,
and measures the command ``dedup`` on them in a process of its own: seconds, and the memory of the
process and its workers. Plain datasketch (a MinHash and a query of ``MinHashLSH`` for each row, all
in memory) does the same to the first rows; its seconds are scaled to all rows, as it works
through them one by one.

The exit code is 1 above a bound.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from benchmarks.exercises import BoundedFigure
from exercises.editpack.rows import CONTENT, OLD, Row, with_content

MOST_MINUTES = 15.0
"""For 100,000 rows on two cores."""
MOST_MEMORY = 2000.0
"""Megabytes, shared pages counted once."""
_TOP = Path(__file__).resolve().parents[1]
_EVERY = 0.5
_SEPARATOR = re.compile(r"\W")


def generated(count: int, lines: int, seed: int = 1) -> Iterator[Row]:
    """Yield rows of ``lines`` lines on each side; one in three changes few lines of an earlier."""
    chosen = random.Random(seed)
    names = [f"{a}_{b}" for a in _PARTS for b in _PARTS]
    files: list[list[str]] = []
    for number in range(count):
        if files and chosen.random() < 1 / 3:
            before = list(chosen.choice(files))
            for place in chosen.sample(range(lines), 1 + lines // 20):
                before[place] = _line(chosen, names)
        else:
            before = [_line(chosen, names) for _ in range(lines)]
            # Few enough for memory, and histories of some length.
            files = [*files[-999:], before]
        after = list(before)
        after[chosen.randrange(lines)] = _line(chosen, names)
        yield {
            "commit": f"{number:040x}",
            "message": f"Change {chosen.choice(names)} of {chosen.choice(names)}",
            OLD: "\n".join(before),
            "new_contents": "\n".join(after),
        }


_PARTS = (
    *("read", "write", "open", "close", "make", "find", "count", "parse", "print", "build"),
    *("value", "index", "block", "table", "field", "key", "name", "line", "token", "path"),
    *("file", "state", "cache", "entry", "node"),
)


def _line(chosen: random.Random, names: Sequence[str]) -> str:
    one, two, three = chosen.choices(names, k=3)
    depth = "    " * chosen.randrange(3)
    return f"{depth}{one} = {two}({three}, {chosen.randrange(100)})"


def dedup(count: int, plain: int, lines: int, workers: int) -> Iterator[BoundedFigure]:
    """Measure the command and plain datasketch."""
    with tempfile.TemporaryDirectory() as folder:
        rows, first = Path(folder) / "rows.jsonl", Path(folder) / "first.jsonl"
        with rows.open("w") as handle:
            handle.writelines(f"{json.dumps(row)}\n" for row in generated(count, lines))
        with rows.open() as source, first.open("w") as handle:
            handle.writelines(islice(source, plain))
        print(f"{count:,} rows, {rows.stat().st_size / 1e6:,.0f} MB", flush=True)
        out = str(Path(folder) / "out.jsonl")
        words = ("exercises.editpack", "dedup", str(rows), "--out", out, "--workers", str(workers))
        ours = _Measured.of(*words)
        yield BoundedFigure(f"dedup, {workers} workers", ours.seconds / 60, MOST_MINUTES, "minutes")
        yield BoundedFigure("memory", ours.peak_bytes / 1e6, MOST_MEMORY, "MB")
        theirs, scale = _plain_of(first), count / plain
        print(
            f"plain datasketch: {theirs['cpu'] * scale:,.0f} s of CPU, measured on {plain:,} rows "
            f"({theirs['peak_bytes'] / 1e6:,.0f} MB) and scaled by {scale:g}\n"
            f"dedup: {ours.cpu:,.0f} s of CPU; ratio {ours.cpu / theirs['cpu'] / scale:.2f} in "
            f"CPU, {ours.seconds / theirs['seconds'] / scale:.2f} in time"
        )


def _plain_of(path: Path) -> dict[str, float]:
    """Run plain datasketch in a process of its own."""
    argv = [sys.executable, "-m", "benchmarks.editpack", "plain", str(path)]
    done = subprocess.run(argv, cwd=_TOP, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


class _Measured:
    """Seconds, CPU seconds of a command and its children, and the peak of their bytes."""

    def __init__(self, seconds: float, cpu: float, peak_bytes: int) -> None:
        self.seconds, self.cpu, self.peak_bytes = seconds, cpu, peak_bytes

    @classmethod
    def of(cls, module: str, *words: str) -> _Measured:
        """Run a module."""
        before, began, peak = _children_cpu(), time.monotonic(), 0
        with subprocess.Popen([sys.executable, "-m", module, *words], cwd=_TOP) as process:
            while process.poll() is None:
                peak = max(peak, sum(map(_bytes_of, _family(process.pid))))
                time.sleep(_EVERY)
        if process.returncode:
            raise SystemExit(f"{module} {words[0]} ended with {process.returncode}")
        return cls(time.monotonic() - began, _children_cpu() - before, peak)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _family(pid: int) -> Iterator[int]:
    yield pid
    for place in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = place.read_text().split()
        except OSError:  # it ended
            continue
        for child in map(int, children):
            yield from _family(child)


def _bytes_of(pid: int) -> int:
    """Return the memory of a process; pages that several share are divided among them."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def plain(path: Path) -> dict[str, float]:
    """Deduplicate with datasketch alone, as its documentation does; return what that took.

    Imports are not counted, because the seconds are scaled.
    """
    from datasketch import MinHash, MinHashLSH

    began, cpu = time.monotonic(), time.process_time()
    index, kept = MinHashLSH(threshold=0.5, num_perm=500), 0
    empty = MinHash(num_perm=500)
    with path.open() as handle:
        for number, line in enumerate(handle):
            tokens = _SEPARATOR.split(with_content(json.loads(line))[CONTENT].lower())
            grams = {" ".join(tokens[n : n + 5]).encode() for n in range(len(tokens) - 4)}
            # As MinHash.generator does, which makes the permutations once.
            sketch = empty.copy()
            sketch.update_batch(grams)
            kept += not index.query(sketch)
            index.insert(number, sketch)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = {"seconds": time.monotonic() - began, "cpu": time.process_time() - cpu}
    return {**took, "kept": kept, "peak_bytes": peak}


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the figures, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("dedup")
    command.add_argument("--rows", type=int, default=100_000)
    command.add_argument("--plain", type=int, default=5_000, help="rows for plain datasketch")
    command.add_argument("--lines", type=int, default=60, help="lines of a side")
    command.add_argument("--workers", type=int, default=2)
    commands.add_parser("plain").add_argument("path", type=Path)
    asked = parser.parse_args(words)
    if asked.command == "plain":
        print(json.dumps(plain(asked.path)))
        return 0
    good = True
    for figure in dedup(asked.rows, min(asked.plain, asked.rows), asked.lines, asked.workers):
        print(figure, flush=True)
        good = good and figure.value <= figure.bound
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
