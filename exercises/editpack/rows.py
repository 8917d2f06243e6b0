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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from bench.instances.dataset import rows_of_hub
from bench.instances.names import DatasetName
from core.atomic import writing_atomic
from core.errors import UserError
from core.parsing.untrusted import DamagedError, json_of
from exercises.canitedit.prompts import Prompt, edit_request

OLD, NEW, INSTRUCTION, CONTENT = (
    "old_contents",
    "new_contents",
    "instruction",
    "content",
)
UNREADABLE = "unreadable"
"""The rule under which what is not a row is counted."""
_MESSAGES = (INSTRUCTION, "message", "subject")
_LONGEST_LINE = 256 << 20
_FIRST_LINE = re.compile(r"line 1(, |: )")
_BATCH = 256
_KINDS = ".jsonl, .jsonl.gz, .parquet, a folder saved by `datasets`, or a hub id"

EditRow = dict[str, Any]


@dataclass(frozen=True)
class DroppedRow:
    """A row that a command leaves out, and the rule that it breaks."""

    row: EditRow
    rule: str
    detail: str = ""


def with_content(row: EditRow) -> EditRow:
    """Return the row with ``instruction`` and ``content``, which a model is trained on.

    ``content`` is the prompt ``editcoder`` of CanItEdit with the edited program behind it.
    ``\\r\\n`` in all three parts becomes ``\\n``.
    """
    old, new, instruction = (
        text.replace("\r\n", "\n") for text in (row[OLD], row[NEW], message_of(row))
    )
    prompt = edit_request(Prompt.EDITCODER, old, instruction).text
    return {**row, INSTRUCTION: instruction, CONTENT: prompt + new}


def message_of(row: Mapping[str, Any]) -> str:
    """Return the first of instruction, message and subject that says something."""
    texts = (row[key] for key in _MESSAGES if isinstance(row.get(key), str))
    return next((text for text in texts if text.strip()), "")


def _mistake_in(value: object) -> str:
    if isinstance(value, DamagedError):
        return _FIRST_LINE.sub("", str(value), count=1)  # the row is one line
    if not isinstance(value, dict):
        return "it is not a JSON object"
    for key in (OLD, NEW):
        if not isinstance(value.get(key), str):
            return f"{key} {'is not text' if key in value else 'is missing'}"
    if not any(isinstance(value.get(key), str) for key in _MESSAGES):
        return f"it has no {', '.join(_MESSAGES[:-1])} or {_MESSAGES[-1]}"
    return ""


@dataclass(frozen=True)
class RowSource:
    """Where rows are from; they can be read several times.

    Attributes:
        path: the file or folder; None for a set on the hub.
        read: yields what the source holds, a ``DamagedError`` in place of what is not JSON.
        skip_bad: go on after what is not a row.
    """

    name: str
    path: Path | None
    read: Callable[[], Iterable[object]]
    skip_bad: bool = False

    @cached_property
    def sha256(self) -> str:
        """The hash of the file; of a folder or a set, that of its rows as JSON."""
        if self.path is not None and self.path.is_file():
            return file_digest(self.path)
        digest = hashlib.sha256()
        for row in self.read():
            digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
        return digest.hexdigest()

    def rows(self) -> Iterator[EditRow | DroppedRow]:
        """Yield the rows; with ``skip_bad``, ``DroppedRow`` in place of what is not a row."""
        number = 0
        for number, value in enumerate(self.read(), 1):
            wrong = _mistake_in(value)
            if not wrong:
                yield value  # type: ignore[misc]  # _mistake_in has looked
            elif self.skip_bad:
                held = value if isinstance(value, dict) else {}
                yield DroppedRow({**held, "row": number}, UNREADABLE, wrong)
            else:
                raise UserError(
                    f"{self.name}, row {number}: {wrong}; correct it, or set rows.skip_bad=true"
                )
        if not number:
            raise UserError(f"{self.name} has no rows; give a file with edits")


def file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while data := handle.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def open_source(name: str, config: str = "", split: str = "train") -> RowSource:
    """Return the source that a name stands for: a file, a folder, or an id on the hub.

    ``config`` and ``split`` are for folders and sets that have several.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return RowSource(name, path, lambda: _rows_of_folder(path, split))
    for suffixes, read in (
        ((".jsonl", ".jsonl.gz"), _json_lines),
        (".parquet", _rows_of_parquet),
    ):
        if path.name.endswith(suffixes):
            try:
                path.open("rb").close()
            except OSError as error:
                raise UserError(
                    f"{path} cannot be read ({error.strerror}); give {_KINDS}"
                ) from error
            return RowSource(name, path, partial(read, path))
    asked = DatasetName("")
    with suppress(UserError):
        asked = DatasetName("") if path.exists() else DatasetName.parse(name)
    if not asked.hub_id:
        raise UserError(f"there are no rows in {name}; give {_KINDS}")
    found, _ = rows_of_hub(asked.hub_id, split, asked.revision, config)
    return RowSource(name, None, lambda: found)


def _json_lines(path: Path) -> Iterator[object]:
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with cast(BinaryIO, opened(path, "rb")) as handle:
            while line := handle.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                    yield DamagedError(f"it has more than {_LONGEST_LINE:,} bytes")
                    while (
                        line := handle.readline(_LONGEST_LINE)
                    ) and not line.endswith(b"\n"):
                        continue
                elif line.strip():
                    try:
                        yield json_of(line.removeprefix(b"\xef\xbb\xbf").strip())
                    except DamagedError as error:
                        yield error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}; write it again") from error


def _rows_of_parquet(path: Path) -> Iterator[object]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH):
                yield from batch.to_pylist()
    # A ValueError is of text that is not UTF-8.
    except (ArrowException, OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise UserError(
            f"{path} cannot be read: {words}; give a .parquet file"
        ) from error


def _rows_of_folder(path: Path, split: str) -> Iterable[object]:
    from datasets import DatasetDict, load_from_disk

    try:
        saved = load_from_disk(str(path))
    except Exception as error:  # damaged files of the folder raise errors of many kinds
        raise UserError(
            f"{path} is not a folder saved by `datasets`; give {_KINDS}"
        ) from error
    if isinstance(saved, DatasetDict):
        if split not in saved:
            raise UserError(f"{path} has no split {split!r}; it has {', '.join(saved)}")
        saved = saved[split]
    found: Iterable[object] = saved
    return found


@contextmanager
def writing_rows(path: Path) -> Iterator[Callable[[Mapping[str, Any]], object]]:
    """Yield a function that writes a row as a line; the file appears after the block."""
    with writing_atomic(path) as raw, ExitStack() as stack:
        handle: BinaryIO = raw
        if path.suffix == ".gz":
            # Without name and time, so that equal rows give equal bytes.
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
            handle = cast(BinaryIO, stack.enter_context(packed))
        yield lambda row: handle.write(line_of(row))


def line_of(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line of JSON; what JSON cannot hold becomes null or text."""
    try:
        text = json.dumps(row, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        loaded = json.loads(json.dumps(row, default=str), parse_constant=lambda _: None)
        text = json.dumps(loaded, ensure_ascii=False)
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError:  # a lone surrogate
        return f"{json.dumps(json.loads(text))}\n".encode()
