"""What each command writes: rows as a stream, atomically, and a report beside them.

``OUT.report.json`` states the options, the hashes of input and output, and what was dropped. It
holds the report of the file that was read, so the last report tells how its rows came about.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Annotated

import typer
from tqdm import tqdm

from swe_retry.kit import (
    Section,
    UserError,
    check_folder,
    quantity,
    read_object,
    table,
    value_at,
    versions,
    write_json_atomic,
)
from swe_retry_exercises.editpack.rows import (
    JSON_LINES,
    JudgedRow,
    RowReading,
    file_digest,
    writing_rows,
)
from swe_retry_exercises.values import JsonMapping, JsonObject

DECONTAMINATE = "decontaminate"
_REPORT = ".report.json"
_READING = RowReading()
_MAX_NAME = 240
"""Bytes of a file's name; systems take 255, and a temporary name is longer."""


class RowSettings(Section):
    """What every command that reads rows is told; each adds a section of its own."""

    rows: RowReading = RowReading()


def _absolute_path(text: str) -> Path:
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
        "--out",
        "-o",
        metavar="FILE",
        parser=_absolute_path,
        help="Write the rows to this .jsonl or .jsonl.gz.",
    ),
]
OUT_FOLDER = typer.Option(
    "--out",
    "-o",
    metavar="FOLDER",
    parser=_absolute_path,
    help="Write the results to this folder.",
)
DroppedFile = Annotated[
    Path | None,
    typer.Option(
        "--dropped",
        metavar="FILE",
        parser=_absolute_path,
        help="Write the rows that were dropped here, with rule and detail.",
    ),
]


def write_rows(
    command: str,
    rows: Iterable[JudgedRow],
    out: Path | None,
    dropped: Path | None,
    *,
    reading: RowReading = _READING,
    names: Sequence[str | None] = (),
    also_read: Iterable[str] = (),
    options: JsonMapping,
    packages: Iterable[str] = (),
    details: Callable[[], JsonMapping] = dict,
) -> None:
    """Write the rows that stay, those that are dropped, and the report; print the counts.

    Args:
        names: of the rows that are read, as ``reading`` says.
        also_read: files besides, which must not be written.
        options: that decide which rows are written, besides those of the reading; no paths.
        packages: whose versions the report states.
        details: called at the end, for what the report says beyond counts.
    """
    if out is None:
        raise UserError("no --out given; name the .jsonl to write")
    _check_outputs([*names, *also_read], out, dropped)
    start = time.monotonic()
    # Before the rows: a damaged report must not be found when the output is there.
    inputs = [input_record(name, reading) for name in names]
    counts: Counter[str] = Counter()
    written = 0
    with ExitStack() as stack:
        write = stack.enter_context(writing_rows(out))
        write_dropped = None
        if dropped:
            write_dropped = stack.enter_context(writing_rows(dropped))
        for row, why in tqdm(rows, command, unit=" rows", disable=None):
            if why is None:
                written += 1
                write(row)
                continue
            counts[why["rule"]] += 1
            if write_dropped:
                write_dropped({**row, **why})
    if names:
        options = {"skip_bad": reading.skip_bad, **options}
    report = {
        "command": command,
        "inputs": inputs,
        "output": {"name": out.name, "sha256": file_digest(out)},
        "rows": written + counts.total(),
        "kept": written,
        "dropped": counts,
        "options": options,
        **details(),
        "versions": used_versions(packages),
        "seconds": round(time.monotonic() - start, 3),
    }
    write_json_atomic(report_of(out), report)
    lines = [("rows", report["rows"]), *counts.items(), ("kept", written)]
    cells = [(name, f"{number:,}") for name, number in lines]
    print("\n".join(table(("", command), cells, numbers={1})))
    print(f"{quantity(written, 'row')} in {out}, the report beside it")


def _check_outputs(
    names: Iterable[str | None], out: Path, dropped: Path | None
) -> None:
    """Check that each file can be written, and that no two options name the same one."""
    outputs = [("--out", report_of(out)), ("--out", out)]
    if dropped:
        outputs.append(("--dropped", dropped))
    uses = {_absolute_path(name or ""): "a file that is read" for name in names}
    for option, path in outputs:
        if not path.name.endswith((*JSON_LINES, _REPORT)):
            kinds = " or ".join(JSON_LINES)
            raise UserError(f"{option} {path}: give a file {kinds}")
        use = uses.get(path)
        if path.is_dir():
            use = "a folder"
        elif len(os.fsencode(path.name)) > _MAX_NAME:
            use = "too long a name"
        if use:
            raise UserError(f"{option} {path} is {use}; choose another")
        check_folder(option, path.parent)
        uses[path] = option


def report_of(path: Path) -> Path:
    return path.with_name(path.name + _REPORT)


def used_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of the harness, of Python and of the packages that are installed."""
    used = {
        "harness": versions()["harness"],
        "harness_commit": versions()["harness_commit"],
        "python": python_version(),
    }
    for name in packages:
        try:
            used[name] = version(name)
        except PackageNotFoundError:
            continue
    return used


def input_record(name: str | None, reading: RowReading) -> JsonObject:
    """Return what a report says of an input: name, hash, and the report beside it if it fits."""
    sha256 = reading.sha256(name)
    record: JsonObject = {"name": name, "sha256": sha256}
    path = _absolute_path(str(name))
    if path.exists():
        record["name"] = path.name
        report = report_of(path)
        if report.is_file():
            content = read_object(report, "write the rows again, or remove it")
            # A report of other bytes says nothing of these.
            if value_at(content, "output", "sha256") == sha256:
                record["report"] = content
    return record


def is_decontaminated(record: object) -> bool:
    """Return whether an input, as ``input_record`` describes it, went through ``decontaminate``."""
    if value_at(record, "report", "command") == DECONTAMINATE:
        return True
    inputs = value_at(record, "report", "inputs")
    if not isinstance(inputs, list) or not inputs:
        return False
    return all(map(is_decontaminated, inputs))
