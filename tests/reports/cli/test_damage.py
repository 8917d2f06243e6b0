"""Damaged files of runs are reported with their names, without a traceback.

``python -m tests.reports.cli.test_damage`` makes any number of damages. A demo run with verdicts is
damaged in one place at a time. Then ``report.py verify`` is called as from the command line. No
damage may raise an exception or take long. Each damage must be reported, or must not change what is
computed from the files: ``all_preds.jsonl``, ``results.json``, ``stats.json``, the tables and the
package's predictions, logs and results. Text that a package only copies or generates (transcripts,
trajectories, test output, the README) is not computed.
"""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from unittest.mock import patch

import pytest
import typer

from core.errors import UserError
from core.plaintext import table
from demo import register
from report import main as report
from reports.combine.combine import combine
from reports.named_runs import stores_of
from reports.report import report_command
from reports.verify import verify_command
from tests.support.evaluated import (
    Made,
    derived_of_run,
    make_evaluated,
    report_settings,
)

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


@dataclass(frozen=True)
class DamagedLine:
    """One damage of one file."""

    number: int
    kind: str
    file: Path

    def __str__(self) -> str:
        return f"number {self.number}, {self.kind} of {'/'.join(self.file.parts[-3:])}"


def _bits(data: bytes, source: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 8))):
        place = source.randrange(len(data))
        changed[place] ^= 1 << source.randrange(8)
    return bytes(changed)


def _truncation(data: bytes, source: random.Random) -> bytes:
    # Half of the cuts are near the end.
    start = source.choice((0, max(0, len(data) - 80)))
    return data[: source.randrange(start, len(data))]


def _duplicated(data: bytes, source: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    number = source.randrange(len(lines))
    return b"".join([*lines[: number + 1], *lines[number:]])


def _swapped(data: bytes, source: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    one, other = (source.randrange(len(lines)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _nested(data: bytes, source: random.Random) -> bytes:
    depth = source.choice((90, 150, 950, 5_000, 100_000))
    begin, end = source.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"- ", b"")))
    deep = begin * depth + (b"1" + end * depth if source.random() < 0.7 else b"")
    if source.random() < 0.2:
        return deep
    return _in_place(data, deep, source)


def _other_value(data: bytes, source: random.Random) -> bytes:
    return _in_place(data, source.choice(_OTHERS), source)


def _in_place(
    data: bytes,
    value: bytes,
    source: random.Random,
) -> bytes:
    """Return ``data`` with one of its values, or else one of its lines, replaced by ``value``."""
    places = [match.span(1) for match in _VALUE.finditer(data)]
    if places:
        start, end = source.choice(places)
        return data[:start] + value + data[end:]
    lines = data.splitlines(keepends=True)
    lines[source.randrange(len(lines))] = value + b"\n"
    return b"".join(lines)


KINDS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "bit flips": _bits,
    "truncation": _truncation,
    "duplicated line": _duplicated,
    "swapped lines": _swapped,
    "deep nesting": _nested,
    "other value": _other_value,
}


_LINE = re.compile(r"\bline \d+|:\d+:")


@dataclass(frozen=True)
class Outcome:
    """The result of a command on a damaged file.

    Attributes:
        said: the output on both streams.
        changed: whether a computed result differs from that of the undamaged files.
    """

    code: int
    said: str
    seconds: float
    changed: bool

    @property
    def raised(self) -> bool:
        """Whether a traceback was printed."""
        return "Traceback" in self.said

    @property
    def reported(self) -> bool:
        """Whether the command reported a fault."""
        return self.code != 0 and not self.raised


@dataclass
class Figures:
    """The results of the damages of a run, by kind."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    faults: list[str] = field(default_factory=list)
    without_line: list[str] = field(default_factory=list)

    def add(
        self,
        damage: DamagedLine,
        outcome: Outcome,
        most: float,
    ) -> None:
        """Count the outcome of one damage; more than ``most`` seconds is a fault."""
        self.counts[damage.kind, "damages"] += 1
        self.counts[damage.kind, "reported" if outcome.reported else "unchanged"] += 1
        if outcome.reported:
            self.counts[damage.kind, "with line"] += bool(_LINE.search(outcome.said))
            self.counts[damage.kind, "file named"] += damage.file.name in outcome.said
            if not _LINE.search(outcome.said):
                self.without_line.append(f"{damage}: {outcome.said.splitlines()[0]}")
        self.slowest = max(self.slowest, (outcome.seconds, str(damage)))
        fault = _fault(outcome, most)
        if fault:
            self.faults.append(f"{damage}: {fault}")


def _fault(outcome: Outcome, most: float) -> str:
    if outcome.raised:
        return outcome.said
    if outcome.seconds > most:
        return f"took {outcome.seconds:.1f} s"
    if outcome.changed and not outcome.reported:
        return "is not reported and changes a computed result"
    return ""


def run_damages(
    made: Made,
    seed: int,
    numbers: Sequence[int],
    most: float = 5.0,
) -> Figures:
    """Damage and verify the run once for each of ``numbers``."""
    files = [path for path in sorted(made.run_files()) if path.stat().st_size]
    arguments = ["verify", str(made.run)]
    whole = derived_of_run(made)
    return _damages(
        files, seed, numbers, most, arguments, lambda: derived_of_run(made) != whole
    )


def _damages(
    files: Sequence[Path],
    seed: int,
    numbers: Sequence[int],
    most: float,
    arguments: Sequence[str],
    changed: Callable[[], bool],
) -> Figures:
    figures = Figures()
    groups = _groups(files)
    code, said = _call(arguments)
    if code:
        raise AssertionError(f"the undamaged files have a fault: {said}")
    for number in numbers:
        source = random.Random(f"{seed}:{number}")
        file = source.choice(groups[source.choice(sorted(groups))])
        kind = sorted(KINDS)[number % len(KINDS)]
        before = file.read_bytes()
        damage = DamagedLine(number, kind, file)
        try:
            file.write_bytes(KINDS[kind](before, source))
            started = time.perf_counter()
            code, said = _call(arguments)
            seconds = time.perf_counter() - started
            figures.add(
                damage, Outcome(code, said, seconds, not code and changed()), most
            )
        finally:
            file.write_bytes(before)
    return figures


def _groups(files: Sequence[Path]) -> Mapping[str, list[Path]]:
    """Return files by folder and extension, so that each group is damaged equally often."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        kind = file.suffix
        if file.parent.parent.name != "logs":
            kind = file.parent.name + file.suffix
        single = file.name in ("run.json", "results.json", "stats.json")
        groups.setdefault(file.name if single else kind, []).append(file)
    return groups


def _call(arguments: Sequence[str]) -> tuple[int, str]:
    """Return exit code and output of ``report.py``, called in this process."""
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    argv = patch.object(sys, "argv", ["report.py", *arguments])
    with argv, redirect_stdout(stream), redirect_stderr(stream):
        code = report()
    stream.flush()
    return code, stream.buffer.getvalue().decode()


def lines(figures: Figures) -> Iterator[str]:
    """Yield the table of ``figures``."""
    columns = ("damages", "reported", "with line", "file named", "unchanged")
    rows = []
    for kind in sorted(KINDS):
        rows.append((kind, *(figures.counts[kind, c] for c in columns)))
    yield from table(("run", *columns), rows, numbers=range(1, 6))
    yield f"slowest: {figures.slowest[0]:.2f} s ({figures.slowest[1]})"
    yield from (f"no line: {said}" for said in figures.without_line)
    for fault in figures.faults:
        yield f"FAULT {fault}"


def main(
    count: Annotated[int, typer.Option(help="Number of damages.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the damages.")] = 1,
    only: Annotated[int | None, typer.Option(help="Do only this damage.")] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of one command.")] = 5.0,
) -> None:
    """Print the results; exit with 1 if a damage raised, took too long or went unnoticed."""
    register()
    numbers = range(count) if only is None else range(only, only + 1)
    with TemporaryDirectory() as folder:
        made = make_evaluated(Path(folder))
        figures = run_damages(made, seed, numbers, seconds)
    for line in lines(figures):
        print(line)
    raise typer.Exit(int(bool(figures.faults)))


ONE = "demo__bank-1"
OTHER = "demo__units-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Made:
    return make_evaluated(tmp_path_factory.mktemp("damaged"), cache)


@pytest.fixture
def run(made: Made, tmp_path: Path) -> Path:
    shutil.copytree(made.out, tmp_path / "out")
    return tmp_path / "out/predictions/r"


def total(figures: Figures, what: str) -> int:
    return sum(count for (_, column), count in figures.counts.items() if column == what)


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_each_damage_is_reported_or_changes_nothing(made: Made, count: int) -> None:
    # Generous: other processes may keep this one from its processor.
    figures = run_damages(made, 7, range(count), most=30.0)
    assert figures.faults == []
    assert total(figures, "damages") == count
    # Where two intact files contradict each other, the other one may be named.
    assert total(figures, "file named") >= 0.99 * total(figures, "reported") > count / 2


def verify(run: Path, cache: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    return verify_command([run], said.append), said


def test_all_broken_files_of_a_run_are_named_with_their_places(
    run: Path, cache: Path
) -> None:
    broken = {
        "run.json": ('{"starts": 5}', "'starts': Input should be a valid list"),
        f"{ONE}.json": (
            '{"instance_id":\n 5}',
            "is not a prediction: 'instance_id': Input should be a valid string",
        ),
        f"trajectories/{OTHER}.json": ('{\n\n"attempts": [}', "line 3"),
    }
    for name, (content, _) in broken.items():
        (run / name).write_text(content)
    code, said = verify(run, cache)
    assert code == 1
    for name, (_, words) in broken.items():
        assert (
            sum(
                text.startswith(f"predictions/r/{name}: ") and words in text
                for text in said
            )
            == 1
        )


def rename_within(path: Path, name: str) -> None:
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "instance_id": name}))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (f"{ONE}.json", f"and {{run}}/{OTHER}.json are both predictions of {OTHER}"),
        (
            f"trajectories/{ONE}.json",
            f"is the trajectory of '{OTHER}', and not of {ONE}",
        ),
        (f"verdicts/{ONE}.json", f"is the verdict on '{OTHER}', and not on {ONE}"),
    ],
)
def test_a_file_about_another_instance_is_refused(
    run: Path, cache: Path, file: str, words: str
) -> None:
    rename_within(run / file, OTHER)
    code, said = verify(run, cache)
    assert code == 1
    expected = words.format(run=run)
    assert any(
        t.startswith(f"predictions/r/{file}: ") and expected in t for t in said
    ), said
    with pytest.raises(UserError, match=file.replace(".", r"\.")):
        report_command([run], report_settings(cache), said.append)


def test_runs_with_such_files_are_not_combined(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "out/predictions/s")
    rename_within(other / f"{ONE}.json", "../../x")
    with pytest.raises(
        UserError, match=rf"s/{ONE}\.json is not .*'\.\./\.\./x' cannot be an id"
    ):
        combine(stores_of([run, other]), "both", lambda _: None)
    assert not (tmp_path / "out/predictions/both").exists()


def test_a_damaged_ledger_is_used_without_the_line(run: Path, cache: Path) -> None:
    ledger = run / "ledger.jsonl"
    first, *rest = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(["[" * 100_000 + "\n", first, first, *rest]))
    said: list[str] = []
    report_command([run], report_settings(cache), said.append)
    assert (
        sum(line.startswith(f"note: {ledger}, line 1: it is nested") for line in said)
        == 1
    )
    assert (
        sum(line.startswith(f"note: {ledger}, line 3: it is the same") for line in said)
        == 1
    )
    code, said = verify(run, cache)
    assert code == 1
    named = [line for line in said if line.startswith("predictions/r/ledger.jsonl: ")]
    assert [line.split(": ")[1] for line in named] == ["line 1"]


if __name__ == "__main__":
    typer.run(main)
