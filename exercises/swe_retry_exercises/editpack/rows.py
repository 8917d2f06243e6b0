"""Rows that hold an edit: their columns, and reading and writing them as a stream.

The columns are those of CommitPackFT (N. Muennighoff et al., "OctoPack", 2023, arXiv:2308.07124):
``commit old_file new_file old_contents new_contents subject message lang license repos``. Only
both contents and a message are required; other columns travel along.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from swe_retry.kit import (
    DamagedError,
    DatasetName,
    Section,
    UserError,
    json_of,
    rows_of_hub,
    writing_atomic,
)
from swe_retry_exercises.canitedit.prompts import Prompt, edit_request
from swe_retry_exercises.values import JsonMapping, JsonObject

OLD = "old_contents"
NEW = "new_contents"
INSTRUCTION = "instruction"
CONTENT = "content"
UNREADABLE = "unreadable"
"""The rule under which what is not a row is dropped."""
JSON_LINES = (".jsonl", ".jsonl.gz")
_MESSAGES = (INSTRUCTION, "message", "subject")
_MAX_LINE = 256 << 20
_FIRST_LINE = re.compile(r"line 1(, |: )")
_BATCH = 256
_KINDS = ".jsonl, .jsonl.gz, .parquet, a folder saved by `datasets`, or a hub id"

EditRow = JsonObject
DropReason = dict[str, str]
"""Why a row is dropped: its ``rule``, and the ``detail`` that breaks it."""
JudgedRow = tuple[EditRow, DropReason | None]
"""A row with the reason why it is dropped, None for one that stays."""
T = TypeVar("T")


def reason(rule: str, detail: str = "") -> DropReason:
    return {"rule": rule, "detail": detail}


def with_content(row: EditRow) -> EditRow:
    """Return the row with ``instruction`` and ``content``, which a model is trained on.

    ``content`` is the prompt ``editcoder`` of CanItEdit with the edited program behind it.
    ``\\r\\n`` in all three parts becomes ``\\n``.
    """
    old = row[OLD].replace("\r\n", "\n")
    new = row[NEW].replace("\r\n", "\n")
    instruction = message_of(row).replace("\r\n", "\n")
    prompt = edit_request(Prompt.EDITCODER, old, instruction).text
    return {**row, INSTRUCTION: instruction, CONTENT: prompt + new}


def message_of(row: JsonMapping) -> str:
    """Return the first of instruction, message and subject that says something."""
    for key in _MESSAGES:
        text = row.get(key)
        if isinstance(text, str) and text.strip():
            return text
    return ""


class RowReading(Section):
    """How rows are read: from a file, a folder saved by ``datasets``, or a set on the hub."""

    config: str = ""
    """Take this configuration of a hub id that has several."""

    part: str = "train"
    """Take this part of a folder or a hub id that has several."""

    skip_bad: bool = False
    """Count invalid rows as unreadable, and go on behind them."""

    def rows(self, name: str | None) -> Iterator[JudgedRow]:
        """Yield the rows; with ``skip_bad``, what is not a row is dropped as unreadable."""
        number = 0
        for number, value in enumerate(self.values(name), 1):
            mistake = _mistake_in(value)
            row = value if isinstance(value, dict) else {}
            if not mistake:
                yield row, None
            elif self.skip_bad:
                yield {**row, "row": number}, reason(UNREADABLE, mistake)
            else:
                raise UserError(
                    f"{name}, row {number}: {mistake}; correct it, or set rows.skip_bad=true"
                )
        if not number:
            raise UserError(f"{name} has no rows; give a file with edits")

    def values(self, name: str | None) -> Iterable[object]:
        """Return what a source holds, a ``DamagedError`` in place of what is not JSON."""
        if not name:
            raise UserError("no rows given; name a file, a folder or a hub id")
        path = Path(name).expanduser()
        if path.is_dir():
            return _folder_rows(path, self.part)
        if path.name.endswith(JSON_LINES):
            return _json_lines(path)
        if path.name.endswith(".parquet"):
            return _parquet_rows(path)
        hub = DatasetName("")
        if not path.exists():
            with suppress(UserError):
                hub = DatasetName.parse(name)
        if hub.hub_id:
            return rows_of_hub(hub.hub_id, self.part, hub.revision, self.config)[0]
        raise UserError(f"there are no rows in {name}; give {_KINDS}")

    def sha256(self, name: str | None) -> str:
        """Return the hash of a file; of a folder or a set, that of its rows as JSON."""
        path = Path(name or "").expanduser()
        if path.is_file():
            return file_digest(path)
        digest = hashlib.sha256()
        for row in self.values(name):
            line = json.dumps(row, sort_keys=True, default=str)
            digest.update(f"{line}\n".encode())
        return digest.hexdigest()


def _mistake_in(value: object) -> str:
    if isinstance(value, DamagedError):
        return _FIRST_LINE.sub("", str(value), count=1)  # the row is one line
    if not isinstance(value, dict):
        return "it is not a JSON object"
    for key in (OLD, NEW):
        if key not in value:
            return f"{key} is missing"
        if not isinstance(value[key], str):
            return f"{key} is not text"
    if any(isinstance(value.get(key), str) for key in _MESSAGES):
        return ""
    return f"it has no {', '.join(_MESSAGES[:-1])} or {_MESSAGES[-1]}"


def _json_lines(path: Path) -> Iterator[object]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with cast(BinaryIO, opener(path, "rb")) as handle:
            while line := handle.readline(_MAX_LINE):
                rest = line
                while len(rest) == _MAX_LINE and not rest.endswith(b"\n"):
                    rest = handle.readline(_MAX_LINE)
                if rest is not line:
                    yield DamagedError(f"it has more than {_MAX_LINE:,} bytes")
                elif line.strip():
                    try:
                        yield json_of(line.removeprefix(b"\xef\xbb\xbf").strip())
                    except DamagedError as error:
                        yield error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}; write it again") from error


def _parquet_rows(path: Path) -> Iterator[object]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH):
                yield from batch.to_pylist()
    # A ValueError is of text that is not UTF-8.
    except (ArrowException, OSError, ValueError) as error:
        message = " ".join(str(error).split())
        raise UserError(
            f"{path} cannot be read: {message}; give a .parquet file"
        ) from error


def _folder_rows(path: Path, part: str) -> Iterable[object]:
    from datasets import DatasetDict, load_from_disk

    try:
        saved = load_from_disk(str(path))
    except Exception as error:  # damaged files of the folder raise errors of many kinds
        raise UserError(
            f"{path} is not a folder saved by `datasets`; give {_KINDS}"
        ) from error
    if isinstance(saved, DatasetDict):
        if part not in saved:
            raise UserError(f"{path} has no split {part!r}; it has {', '.join(saved)}")
        saved = saved[part]
    rows: Iterable[object] = saved
    return rows


def file_digest(path: Path) -> str:
    with path.open("rb") as handle:
        digest = hashlib.sha256()
        while data := handle.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of ``size``; the last may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


@contextmanager
def writing_rows(path: Path) -> Iterator[Callable[[EditRow], object]]:
    """Yield a function that writes a row as a line; the file appears after the block."""
    with writing_atomic(path) as raw, ExitStack() as stack:
        handle = raw
        if path.suffix == ".gz":
            # Without name and time, so that equal rows give equal bytes.
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
            handle = cast(BinaryIO, stack.enter_context(packed))
        yield lambda row: handle.write(line_of(row))


def line_of(row: EditRow) -> bytes:
    """Return a row as a line of JSON; what JSON cannot hold becomes null or text."""
    try:
        text = json.dumps(row, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(row, default=str), parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False)
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError:  # a lone surrogate
        return f"{json.dumps(json.loads(text))}\n".encode()
