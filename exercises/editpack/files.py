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
from typing import Any

from tqdm import tqdm

from core.atomic import check_folder, write_json_atomic
from core.errors import UserError
from core.options import Folder, option, option_group
from core.parsing.untrusted import read_object
from core.plaintext import counted, table
from exercises.editpack.rows import (
    DroppedRow,
    EditRow,
    RowSource,
    file_digest,
    open_source,
    writing_rows,
)
from runs.options import out_option, workers_option
from runs.signals import sigterm_as_interrupt
from runs.storage.versions import versions

REPORT = ".report.json"
DECONTAMINATE = "decontaminate"
_LONGEST_NAME = 240
"""Bytes of a file's name; systems take 255, and a temporary name is longer."""
_SUFFIXES = (".jsonl", ".jsonl.gz")


@option_group
class RowFiles:
    """The file that a command writes, and what it writes beside it."""

    out: Folder | None = out_option("The .jsonl or .jsonl.gz to write.", default=None)
    dropped: Folder | None = option(
        None,
        "Write the rows that were dropped here, with rule and detail.",
        "--dropped",
        given=Path,
    )


@option_group
class RowReading:
    config: str = option(
        "", "Configuration of a hub id that has several.", "--config-name"
    )
    part: str = option(
        "train", "Part of a folder or hub id that has several.", "--part"
    )
    skip_bad: bool = option(
        False, "Count invalid rows as unreadable instead of ending.", "--skip-bad"
    )


@option_group
class RowInput(RowReading):
    rows: str = option(
        "",
        "A .jsonl[.gz], .parquet, folder saved by datasets, or hub id.",
        "rows",
        argument=True,
    )

    def source(self) -> RowSource:
        if not self.rows:
            raise UserError("no rows given; name a file, a folder or a hub id")
        source = open_source(self.rows, self.config, self.part)
        return replace(source, skip_bad=self.skip_bad)


@option_group
class RowSets(RowReading):
    sets: tuple[str, ...] = option(
        (),
        "Files .jsonl[.gz] or .parquet, folders saved by datasets, hub ids.",
        "rows",
        argument=True,
    )

    def sources(self) -> tuple[RowSource, ...]:
        if not self.sets:
            raise UserError("no rows given; name a file, a folder or a hub id")
        places = {Path(name).expanduser().resolve() for name in self.sets}
        if len(places) != len(self.sets):
            raise UserError("the same rows are given twice; name each set once")
        found = (open_source(name, self.config, self.part) for name in self.sets)
        return tuple(replace(source, skip_bad=self.skip_bad) for source in found)


def row_workers_option() -> Any:  # noqa: ANN401 - as of core.options.option
    return workers_option(1, "Processes; the output is the same with any number.")


@dataclass(frozen=True)
class Step:
    """A command with its input and output.

    Attributes:
        options: that decide which rows are written, for the report; no paths.
        details: called at the end, for what the report says beyond counts.
        also_read: files besides the sources, which must not be written.
        also_written: further outputs by their options.
    """

    command: str
    sources: Sequence[RowSource]
    files: RowFiles
    options: Mapping[str, Any]
    packages: Sequence[str] = ()
    details: Callable[[], Mapping[str, Any]] = field(default=dict)
    also_read: Sequence[Path] = ()
    also_written: Mapping[str, Path | None] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        if self.files.out is None:
            raise UserError("no --out given; name the .jsonl to write")
        return self.files.out

    def write(self, results: Iterable[EditRow | DroppedRow]) -> dict[str, Any]:
        """Write the rows and the report, print what was dropped, and return the report."""
        self._check()
        began = time.monotonic()
        # Before the rows: a damaged report must not be found when the output is there.
        inputs = [input_record(source) for source in self.sources]
        dropped, kept = Counter[str](), 0
        with ExitStack() as stack:
            stack.enter_context(sigterm_as_interrupt())
            write = stack.enter_context(writing_rows(self.out))
            aside = self.files.dropped and stack.enter_context(
                writing_rows(self.files.dropped)
            )
            for result in tqdm(results, self.command, unit=" rows", disable=None):
                if isinstance(result, DroppedRow):
                    dropped[result.rule] += 1
                    if aside:
                        aside(
                            {**result.row, "rule": result.rule, "detail": result.detail}
                        )
                else:
                    kept += 1
                    write(result)
        rows = kept + dropped.total()
        report = {
            "command": self.command,
            "inputs": inputs,
            "output": {"name": self.out.name, "sha256": file_digest(self.out)},
            "rows": rows,
            "kept": kept,
            "dropped": dict(dropped),
            "options": dict(self.options),
            **self.details(),
            "versions": used_versions(self.packages),
            "seconds": round(time.monotonic() - began, 3),
        }
        write_json_atomic(report_of(self.out), report)
        counts = [("rows", rows), *dropped.items(), ("kept", kept)]
        cells = ((name, f"{number:,}") for name, number in counts)
        print("\n".join(table(("", self.command), cells, numbers={1})))
        print(f"{counted(kept, 'row')} in {self.out}, the report beside it")
        return report

    def _check(self) -> None:
        report = report_of(self.out)
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
                f"--out {self.out}: {report.name} cannot be written; choose another"
            )
        taken[report] = "the report"
        rows = {"--out": self.out, "--dropped": self.files.dropped}
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
