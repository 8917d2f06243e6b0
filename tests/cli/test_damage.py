"""Damaged files of runs are reported with their names, without a traceback.

``python -m tests.cli.test_damage`` makes any number of damages. A demo run with verdicts is
damaged in one place at a time. Then ``report.py verify`` is called as from the command line. No
damage may raise an exception or take long. Each damage must be reported, or must not change what is
computed from the files: ``all_preds.jsonl``, ``results.json``, ``stats.json``, the tables and the
package's predictions, logs and results. Text that a package only copies or generates (transcripts,
trajectories, test output, the README) is not computed.
"""

from __future__ import annotations

import io
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from unittest.mock import patch

import pytest
import typer

from swe_retry.cli.report import main as report
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import table
from swe_retry.demo import register
from swe_retry.report.combine.combine import combine
from swe_retry.report.named_runs import stores_of
from tests.support.evaluated import (
    BANK,
    UNITS,
    Made,
    change_json,
    derived_of_run,
    make_evaluated,
)
from tests.support.reported import report_run, verify_run

# A value in JSON or YAML.
_VALUE = re.compile(rb"(?<=[:\[,]) *(\"[^\"\n]*\"|-?\d[\d.e+-]*|true|false|null)")
_OTHERS = (
    b"null",
    b"true",
    b"5",
    b"-1",
    b"1e999",
    b"NaN",
    b"9" * 5000,
    b'""',
    b'"../../x"',
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"[5]",
    b'{"a": null}',
    b'"' + b"x" * 5000 + b'"',
)


_FLIPS = (1, 1, 1, 2, 8)
_DEPTHS = (90, 150, 950, 5_000, 100_000)
_BRACKETS = (
    (b"[", b"]"),
    (b'{"a":', b"}"),
    (b"- ", b""),
)


def _flip_bits(data: bytes, source: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(source.choice(_FLIPS)):
        position = source.randrange(len(data))
        changed[position] ^= 1 << source.randrange(8)
    return bytes(changed)


def _truncate(data: bytes, source: random.Random) -> bytes:
    # Half of the cuts are near the end.
    near_end = max(0, len(data) - 80)
    start = source.choice((0, near_end))
    return data[: source.randrange(start, len(data))]


def _repeat_line(data: bytes, source: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    number = source.randrange(len(lines))
    lines.insert(number, lines[number])
    return b"".join(lines)


def _swap_lines(data: bytes, source: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    first = source.randrange(len(lines))
    second = source.randrange(len(lines))
    line = lines[first]
    lines[first] = lines[second]
    lines[second] = line
    return b"".join(lines)


def _nest(data: bytes, source: random.Random) -> bytes:
    depth = source.choice(_DEPTHS)
    opening, closing = source.choice(_BRACKETS)
    deep = opening * depth
    if source.random() < 0.7:
        deep += b"1" + closing * depth
    if source.random() < 0.2:
        return deep
    return _replace_value(data, deep, source)


def _other_value(data: bytes, source: random.Random) -> bytes:
    return _replace_value(data, source.choice(_OTHERS), source)


def _replace_value(
    data: bytes,
    value: bytes,
    source: random.Random,
) -> bytes:
    """Return ``data`` with one of its values, or else one of its lines, replaced by ``value``."""
    matches = list(_VALUE.finditer(data))
    if matches:
        start, end = source.choice(matches).span(1)
        return data[:start] + value + data[end:]
    lines = data.splitlines(keepends=True)
    lines[source.randrange(len(lines))] = value + b"\n"
    return b"".join(lines)


KINDS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "bit flips": _flip_bits,
    "truncation": _truncate,
    "duplicated line": _repeat_line,
    "swapped lines": _swap_lines,
    "deep nesting": _nest,
    "other value": _other_value,
}
_LINE = re.compile(r"\bline \d+|:\d+:")


@dataclass
class Figures:
    """The results of the damages of a run, by kind; more than ``limit`` seconds is a fault."""

    limit: float
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    faults: list[str] = field(default_factory=list)
    without_line: list[str] = field(default_factory=list)

    def add(
        self,
        kind: str,
        file: Path,
        damage: str,
        seconds: float,
        output: str,
    ) -> None:
        """Count a damage; ``output`` is that of a command that failed."""
        self.counts[kind, "damages"] += 1
        self.slowest = max(self.slowest, (seconds, damage))
        if seconds > self.limit:
            self.faults.append(f"{damage}: took {seconds:.1f} s")
        if "Traceback" in output:
            self.faults.append(f"{damage}: {output}")
        elif output:
            has_line = bool(_LINE.search(output))
            self.counts[kind, "reported"] += 1
            self.counts[kind, "with line"] += has_line
            self.counts[kind, "file named"] += file.name in output
            if not has_line:
                self.without_line.append(f"{damage}: {output.splitlines()[0]}")
        else:
            self.counts[kind, "unchanged"] += 1

    def total(self, column: str) -> int:
        return sum(self.counts[kind, column] for kind in KINDS)

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        columns = ("damages", "reported", "with line", "file named", "unchanged")
        rows = []
        for kind in sorted(KINDS):
            counts = [self.counts[kind, column] for column in columns]
            rows.append((kind, *counts))
        yield from table(("run", *columns), rows, numbers=range(1, 6))
        yield f"slowest: {self.slowest[0]:.2f} s ({self.slowest[1]})"
        for problem in self.without_line:
            yield f"no line: {problem}"
        for fault in self.faults:
            yield f"FAULT {fault}"


def run_damages(
    made: Made,
    seed: int,
    numbers: Iterable[int],
    limit: float = 5.0,
) -> Figures:
    """Damage and verify the run once for each of ``numbers``."""
    groups = _groups(sorted(made.run_files()))
    undamaged = derived_of_run(made)
    figures = Figures(limit)
    problem = _verify_failure(made.run)
    assert not problem, f"the undamaged files have a fault: {problem}"
    for number in numbers:
        source = random.Random(f"{seed}:{number}")
        group = source.choice(sorted(groups))
        file = source.choice(groups[group])
        kind = sorted(KINDS)[number % len(KINDS)]
        damage = f"number {number}, {kind} of {'/'.join(file.parts[-3:])}"
        before = file.read_bytes()
        try:
            file.write_bytes(KINDS[kind](before, source))
            started = time.perf_counter()
            output = _verify_failure(made.run)
            seconds = time.perf_counter() - started
            figures.add(kind, file, damage, seconds, output)
            if not output and derived_of_run(made) != undamaged:
                text = "is not reported and changes a computed result"
                figures.faults.append(f"{damage}: {text}")
        finally:
            file.write_bytes(before)
    return figures


def _groups(files: Iterable[Path]) -> Mapping[str, list[Path]]:
    """Return files by folder and extension, so that each group is damaged equally often.

    Empty files are left out.
    """
    groups: dict[str, list[Path]] = {}
    for file in files:
        if not file.stat().st_size:
            continue
        kind = file.suffix
        if file.name in ("run.json", "results.json", "stats.json"):
            kind = file.name
        elif file.parent.parent.name != "logs":
            kind = file.parent.name + file.suffix
        groups.setdefault(kind, []).append(file)
    return groups


def _verify_failure(run: Path) -> str:
    """Call ``report.py verify`` in this process; return its output where it fails, else nothing."""
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    argv = ["report.py", "verify", str(run)]
    arguments = patch.object(sys, "argv", argv)
    with arguments, redirect_stdout(stream), redirect_stderr(stream):
        code = report()
    stream.flush()
    output = stream.buffer.getvalue().decode()
    if code or "Traceback" in output:
        return output or f"exit code {code}"
    return ""


def main(
    count: Annotated[int, typer.Option(help="Number of damages.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the damages.")] = 1,
    only: Annotated[int | None, typer.Option(help="Do only this damage.")] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of one command.")] = 5.0,
) -> None:
    """Print the results; exit with 1 if a damage raised, took too long or went unnoticed."""
    register()
    numbers = range(count)
    if only is not None:
        numbers = range(only, only + 1)
    with TemporaryDirectory() as folder:
        made = make_evaluated(Path(folder))
        figures = run_damages(made, seed, numbers, seconds)
    for line in figures.lines():
        print(line)
    raise typer.Exit(int(bool(figures.faults)))


@pytest.fixture(scope="module")
def evaluated_run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Made:
    return make_evaluated(tmp_path_factory.mktemp("damaged"), cache)


@pytest.fixture
def run(evaluated_run: Made, tmp_path: Path) -> Path:
    shutil.copytree(evaluated_run.out, tmp_path / "out")
    return tmp_path / "out/predictions/r"


@pytest.mark.parametrize(
    "count",
    [12, pytest.param(1000, marks=pytest.mark.long)],
)
def test_each_damage_is_reported_or_changes_nothing(
    evaluated_run: Made, count: int
) -> None:
    # Generous: other processes may keep this one from its processor.
    figures = run_damages(evaluated_run, 7, range(count), limit=30.0)
    assert figures.faults == []
    assert figures.total("damages") == count
    assert figures.total("reported") > count / 2
    # Where two intact files contradict each other, the other one may be named.
    assert figures.total("file named") >= 0.99 * figures.total("reported")


def test_all_broken_files_of_a_run_are_named_with_their_places(run: Path) -> None:
    broken = {
        "run.json": ('{"starts": 5}', "'starts': Input should be a valid list"),
        f"{BANK}.json": (
            '{"instance_id":\n 5}',
            "is not a prediction: 'instance_id': Input should be a valid string",
        ),
        f"trajectories/{UNITS}.json": ('{\n\n"attempts": [}', "line 3"),
    }
    for name, (content, _) in broken.items():
        (run / name).write_text(content)
    printed = verify_run(run)
    assert printed.code == 1
    for name, (_, problem) in broken.items():
        (line,) = printed.starting(f"predictions/r/{name}: ")
        assert problem in line


def set_id(path: Path, name: str) -> None:
    change_json(path, lambda data: data.update(instance_id=name))


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (f"{BANK}.json", f"r/{UNITS}.json are both predictions of {UNITS}"),
        (
            f"trajectories/{BANK}.json",
            f"is the trajectory of '{UNITS}', and not of {BANK}",
        ),
        (f"verdicts/{BANK}.json", f"is the verdict on '{UNITS}', and not on {BANK}"),
    ],
)
def test_a_file_about_another_instance_is_refused(
    run: Path, cache: Path, file: str, problem: str
) -> None:
    set_id(run / file, UNITS)
    printed = verify_run(run)
    assert printed.code == 1
    lines = printed.starting(f"predictions/r/{file}: ")
    assert any(problem in line for line in lines), printed.lines
    with pytest.raises(UserError, match=re.escape(file)):
        report_run(run, cache)


def test_runs_with_such_files_are_not_combined(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "out/predictions/s")
    set_id(other / f"{BANK}.json", "../../x")
    problem = rf"s/{BANK}\.json is not .*'\.\./\.\./x' cannot be an id"
    with pytest.raises(UserError, match=problem):
        combine(stores_of([run, other]), "both", lambda _: None)
    assert not (tmp_path / "out/predictions/both").exists()


def test_a_damaged_ledger_is_used_without_the_line(run: Path, cache: Path) -> None:
    ledger = run / "ledger.jsonl"
    text = ledger.read_text()
    first, _, _ = text.partition("\n")
    deep = "[" * 100_000
    ledger.write_text(f"{deep}\n{first}\n{text}")
    printed = report_run(run, cache)
    for problem in ("line 1: it is nested", "line 3: it is the same"):
        assert len(printed.starting(f"note: {ledger}, {problem}")) == 1
    verified = verify_run(run)
    assert verified.code == 1
    (line,) = verified.starting("predictions/r/ledger.jsonl: ")
    assert line.split(": ")[1] == "line 1"


if __name__ == "__main__":
    typer.run(main)
