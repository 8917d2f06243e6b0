"""What each command writes: rows as a stream, atomically, and a report beside them.

``OUT.report.json`` states the options, the hashes of input and output, and what was dropped. It
holds the report of the file that was read, so the last report tells how its rows came about.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Annotated, Any

import typer
from pydantic import Field
from tqdm import tqdm

from core.atomic import check_folder, write_json_atomic
from core.errors import UserError
from core.parsing.untrusted import read_object
from core.plaintext import counted, table
from core.settings import Section
from exercises.editpack.rows import (
    DroppedRow,
    EditRow,
    RowSource,
    file_digest,
    open_source,
    writing_rows,
)
from runs.options import OUT, WORKERS
from runs.signals import sigterm_as_interrupt
from runs.storage.versions import versions

REPORT = ".report.json"
DECONTAMINATE = "decontaminate"
_LONGEST_NAME = 240
"""Bytes of a file's name; systems take 255, and a temporary name is longer."""
_SUFFIXES = (".jsonl", ".jsonl.gz")


class RowReading(Section):
    """How rows are read."""

    config: str = Field(
        default="", description="Take this configuration of a hub id that has several."
    )
    part: str = Field(
        default="train",
        description="Take this part of a folder or a hub id that has several.",
    )
    skip_bad: bool = Field(
        default=False,
        description="Count invalid rows as unreadable, and go on behind them.",
    )

    def source(self, name: str | None) -> RowSource:
        """Return the rows that ``name`` stands for; see ``open_source``."""
        if not name:
            raise UserError("no rows given; name a file, a folder or a hub id")
        source = open_source(name, self.config, self.part)
        return replace(source, skip_bad=self.skip_bad)


class RowSettings(Section):
    """What every command that reads rows is told; each adds a section of its own."""

    rows: RowReading = RowReading()


ONE_PROCESS = 1


def absolute_path(text: str) -> Path:
    return Path(text).expanduser().resolve()


RowsArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="ROWS",
        help="A .jsonl[.gz], a .parquet, a folder saved by datasets, or a hub id.",
    ),
]
OutFile = Annotated[
    Path | None,
    typer.Option(
        *OUT,
        metavar="FILE",
        parser=absolute_path,
        help="Write the rows to this .jsonl or .jsonl.gz.",
    ),
]
OUT_FOLDER = typer.Option(
    *OUT,
    metavar="FOLDER",
    parser=absolute_path,
    help="Write the results to this folder.",
)
DroppedFile = Annotated[
    Path | None,
    typer.Option(
        "--dropped",
        metavar="FILE",
        parser=absolute_path,
        help="Write the rows that were dropped here, with rule and detail.",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        *WORKERS,
        metavar="N",
        min=1,
        help="Use this many processes; the output is the same with any number.",
    ),
]


@dataclass(frozen=True)
class Step:
    """A command with its input and output.

    Attributes:
        dropped: the file of the rows that are dropped; None to count them alone.
        options: that decide which rows are written, for the report; no paths.
        details: called at the end, for what the report says beyond counts.
        also_read: files besides the sources, which must not be written.
        also_written: further outputs by their options.
    """

    command: str
    sources: Sequence[RowSource]
    out: Path | None
    dropped: Path | None
    options: Mapping[str, Any]
    packages: Sequence[str] = ()
    details: Callable[[], Mapping[str, Any]] = field(default=dict)
    also_read: Sequence[Path] = ()
    also_written: Mapping[str, Path | None] = field(default_factory=dict)

    @property
    def output(self) -> Path:
        if self.out is None:
            raise UserError("no --out given; name the .jsonl to write")
        return self.out

    def write(self, results: Iterable[EditRow | DroppedRow]) -> dict[str, Any]:
        """Write the rows and the report, print what was dropped, and return the report."""
        self._check()
        start = time.monotonic()
        # Before the rows: a damaged report must not be found when the output is there.
        inputs = [input_record(source) for source in self.sources]
        dropped = Counter[str]()
        kept = 0
        with ExitStack() as stack:
            stack.enter_context(sigterm_as_interrupt())
            write = stack.enter_context(writing_rows(self.output))
            write_dropped = None
            if self.dropped:
                write_dropped = stack.enter_context(writing_rows(self.dropped))
            for result in tqdm(results, self.command, unit=" rows", disable=None):
                if not isinstance(result, DroppedRow):
                    kept += 1
                    write(result)
                    continue
                dropped[result.rule] += 1
                if write_dropped:
                    reason = {"rule": result.rule, "detail": result.detail}
                    write_dropped({**result.row, **reason})
        rows = kept + dropped.total()
        report = {
            "command": self.command,
            "inputs": inputs,
            "output": {"name": self.output.name, "sha256": file_digest(self.output)},
            "rows": rows,
            "kept": kept,
            "dropped": dict(dropped),
            "options": dict(self.options),
            **self.details(),
            "versions": used_versions(self.packages),
            "seconds": round(time.monotonic() - start, 3),
        }
        write_json_atomic(report_of(self.output), report)
        counts = [("rows", rows), *dropped.items(), ("kept", kept)]
        cells = ((name, f"{number:,}") for name, number in counts)
        print("\n".join(table(("", self.command), cells, numbers={1})))
        print(f"{counted(kept, 'row')} in {self.output}, the report beside it")
        return report

    def _check(self) -> None:
        report = report_of(self.output)
        read = {source.path for source in self.sources if source.path} | {
            *self.also_read
        }
        taken = {path.resolve(): "a file that is read" for path in read}
        if (
            report.is_dir()
            or report in taken
            or len(os.fsencode(report.name)) > _LONGEST_NAME
        ):
            raise UserError(
                f"--out {self.output}: {report.name} cannot be written; choose another"
            )
        taken[report] = "the report"
        rows = {"--out": self.output, "--dropped": self.dropped}
        for name, path in {**rows, **self.also_written}.items():
            if path is None:
                continue
            if name in rows and not path.name.endswith(_SUFFIXES):
                raise UserError(f"{name} {path}: give a file {' or '.join(_SUFFIXES)}")
            if path.is_dir():
                raise UserError(f"{name} {path} is a folder; choose another")
            check_folder(name, path.parent)
            if path in taken:
                raise UserError(f"{name} {path} is {taken[path]}; choose another")
            taken[path] = name


def used_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of the harness, of Python and of the packages that are installed."""
    found = {key: versions()[key] for key in ("harness", "harness_commit")}
    found["python"] = python_version()
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def input_record(source: RowSource) -> dict[str, Any]:
    """Return what a report says of an input: name, hash, and the report beside it if it fits."""
    name = source.path.resolve().name if source.path else source.name
    record: dict[str, Any] = {"name": name, "sha256": source.sha256}
    if source.path and (place := report_of(source.path)).is_file():
        report = read_object(place, "write the rows again, or remove it")
        # A report of other bytes says nothing of these.
        if _mapping(report.get("output")).get("sha256") == source.sha256:
            record["report"] = report
    return record


def report_of(path: Path) -> Path:
    return path.with_name(path.name + REPORT)


def decontaminated(record: Mapping[str, Any]) -> bool:
    """Return whether an input, as ``input_record`` describes it, went through ``decontaminate``."""
    report = _mapping(record.get("report"))
    if report.get("command") == DECONTAMINATE:
        return True
    inputs = report.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        return False
    return all(decontaminated(_mapping(one)) for one in inputs)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
