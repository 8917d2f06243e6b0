"""``decontaminate``: take out rows that share text with evaluation problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import typer

from core.errors import UserError
from core.options import built, command, option, option_group
from core.parsing.untrusted import DamagedError
from exercises.canitedit.problems import against_option
from exercises.editpack.commands.workers import in_processes
from exercises.editpack.decontaminate import (
    BOILERPLATE,
    GRAM,
    JACCARD,
    RUN,
    EvaluationText,
    ProblemIndex,
    SharedText,
    index_of,
    leak_of,
)
from exercises.editpack.files import (
    DECONTAMINATE,
    RowFiles,
    RowInput,
    Step,
    row_workers_option,
)
from exercises.editpack.rows import (
    DroppedRow,
    Row,
    RowSource,
    file_digest,
    open_source,
    with_content,
)
from exercises.exercism.catalog import read_catalog

_CHUNK = 32
# The usual one of problems, where a folder or hub id has several.
_SPLIT = "test"
_ARCHIVES = (".tar.gz", ".tgz")
_NAMES = ("full_name", "task_id", "instance_id", "id", "name")
# What `datasets` leaves in a folder that it saves.
_SAVED = "dataset_*.json"


@option_group
class ProblemChoice:
    """The evaluation problems that rows are compared with."""

    against: tuple[str, ...] = against_option(
        (), "Problems: rows with text, or a folder or .tar.gz of exercises; several times."
    )
    more: tuple[str, ...] = option((), "Further files of --against.", "more", argument=True)
    workers: int = row_workers_option()


@option_group
class DecontaminateAsked:
    """What ``decontaminate`` is asked for."""

    given: RowInput
    problems: ProblemChoice
    files: RowFiles


@dataclass
class ProblemSet:
    """A file of ``--against``, and what was found of it."""

    name: str
    sha256: str
    texts: Sequence[EvaluationText]
    rows: Counter[str] = field(default_factory=Counter)

    def record(self, short: int) -> dict[str, Any]:
        """Return what the report says; ``short`` is the number of texts not compared."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "problems": len({text.problem for text in self.texts}),
            "texts": len(self.texts),
            "texts_too_short": short,
            "rows": self.rows.total(),
            "rows_by_problem": dict(sorted(self.rows.items())),
        }


@command(DecontaminateAsked)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Take out rows that share a run of tokens, or most of a text, with evaluation problems."""
    asked = built(DecontaminateAsked, values)
    named = asked.problems.against and (*asked.problems.against, *asked.problems.more)
    if not named:
        raise UserError(f"no --against given; name the rows or exercises to {DECONTAMINATE} from")
    source, bad = asked.given.source(), asked.given.skip_bad
    sets = [problem_set(name, place) for place, name in enumerate(named)]
    index = index_of(text for one in sets for text in one.texts)
    if not index.texts:
        raise UserError(
            f"--against {', '.join(named)}: each text has fewer than {GRAM} tokens, so nothing "
            "would be compared; give other problems"
        )
    with BOILERPLATE.open("rb") as handle:
        ignored = file_digest(handle)
    chosen = {"skip_bad": bad, "run": RUN, "gram": GRAM, "jaccard": JACCARD, "boilerplate": ignored}
    step = Step(
        DECONTAMINATE,
        (source,),
        asked.files,
        chosen,
        also_read=[Path(name).expanduser() for name in named],
        details=lambda: _records(sets, index),
    )
    step.write(_clean(source.rows(skip_bad=bad), index, sets, asked.problems.workers))
    for one in sets:
        print(f"{one.rows.total():,} rows share text with {one.name}")


def _records(sets: Sequence[ProblemSet], index: ProblemIndex) -> dict[str, Any]:
    short = Counter(text.origin for text in index.short)
    return {"against": [one.record(short[place]) for place, one in enumerate(sets)]}


def _clean(
    rows: Iterable[Row | DroppedRow],
    index: ProblemIndex,
    sets: Sequence[ProblemSet],
    workers: int,
) -> Iterator[Row | DroppedRow]:
    for row, leak in _with_leaks(rows, index, workers):
        if isinstance(row, DroppedRow):
            yield row
        elif leak is None:
            # A column of another text would not have been compared.
            yield with_content(row)
        else:
            found = sets[leak.found.origin]
            found.rows[leak.found.problem] += 1
            yield DroppedRow(row, leak.rule, f"{found.name} {leak}")


Checked = tuple[Row | DroppedRow, SharedText | None]


def _with_leaks(
    rows: Iterable[Row | DroppedRow], index: ProblemIndex, workers: int
) -> Iterator[Checked]:
    chunks = iter(rows)
    parts = iter(lambda: list(islice(chunks, _CHUNK)), [])
    for part, leaks in in_processes(_leaks, parts, workers, _start, index):
        yield from zip(part, leaks, strict=True)


_shared: list[ProblemIndex] = []
"""The index, which each process is sent once."""


def _start(index: ProblemIndex) -> None:
    _shared[:] = [index]


def _leaks(rows: Iterable[Row | DroppedRow]) -> list[SharedText | None]:
    (index,) = _shared
    return [None if isinstance(row, DroppedRow) else leak_of(row, index) for row in rows]


def problem_set(name: str, origin: int) -> ProblemSet:
    """Return the evaluation problems that a name stands for.

    Args:
        name: of a file or set of rows, whose text columns all count, or of a folder or archive of
            exercises, whose stubs, examples and tests count.
        origin: the position among those given.
    """
    path = Path(name).expanduser()
    if name.endswith(_ARCHIVES) or (path.is_dir() and not any(path.glob(_SAVED))):
        return _exercises(path, origin)
    source = open_source(name, split=_SPLIT)
    texts = tuple(_texts(source, origin))
    if not texts:
        raise UserError(f"--against {name} holds no text; give a file with problems")
    return ProblemSet(path.name if source.path else name, source.sha256, texts)


def _exercises(path: Path, origin: int) -> ProblemSet:
    catalog = read_catalog(path)
    texts = (
        EvaluationText(origin, one.key, kind, one.text(file))
        for one in catalog.exercises
        for kind, files in (("stub", one.solution), ("example", one.examples), ("test", one.tests))
        for file in files
    )
    return ProblemSet(path.name, catalog.sha256, tuple(texts))


def _texts(source: RowSource, origin: int) -> Iterator[EvaluationText]:
    for number, row in enumerate(source.read(), 1):
        if isinstance(row, DamagedError) or not isinstance(row, dict):
            wrong = row if isinstance(row, DamagedError) else "it is not a JSON object"
            raise UserError(f"--against {source.name}, row {number}: {wrong}; correct it")
        problem = next((str(row[key]) for key in _NAMES if row.get(key) is not None), "")
        for column, text in _text_columns(row):
            yield EvaluationText(origin, problem or f"row {number}", column, text)


def _text_columns(row: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for column, value in row.items():
        parts = value if isinstance(value, list) else [value]
        text = "\n".join(part for part in parts if isinstance(part, str))
        if text.strip():
            yield column, text
