"""``decontaminate``: take out rows that share text with evaluation problems.

Two texts share a run of 13 tokens (T. Brown et al., "Language models are few-shot learners", 2020,
arXiv:2005.14165, appendix C, with 13-grams), or half of their 8-grams. Tokens are lower-case runs
of letters, digits and ``_``, so that white space, line breaks, quotes and brackets do not matter.
Every text is compared with its comments and without them, so that a copy with other comments is
found as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import UserError
from core.parsing.untrusted import DamagedError
from core.plaintext import shortened
from core.settings import CommandLine, command
from exercises.editpack.files import (
    DECONTAMINATE,
    ONE_PROCESS,
    DroppedFile,
    OutFile,
    RowsArgument,
    RowSettings,
    Step,
    Workers,
)
from exercises.editpack.rows import (
    INSTRUCTION,
    NEW,
    OLD,
    DroppedRow,
    EditRow,
    RowSource,
    file_digest,
    message_of,
    open_source,
    with_content,
)
from exercises.editpack.workers import in_processes, parts_of
from exercises.exercism.catalog import read_catalog

RUN, GRAM, JACCARD = 13, 8, 0.5
"""Tokens of a run; tokens of the grams whose Jaccard index is taken; its limit."""
FEWEST_WORDS = 3
"""A gram of fewer distinct words says nothing: tables of numbers, lists of letters."""
BOILERPLATE = Path(__file__).with_name("boilerplate.txt")
_TOKEN = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d]\w")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_SHOWN = 240


@dataclass(frozen=True)
class EvaluationText:
    """A text of an evaluation problem.

    Attributes:
        origin: the position of its set among those given.
        column: of the row, or the kind of file.
    """

    origin: int
    problem: str
    column: str
    text: str


@dataclass(frozen=True)
class SharedText:
    found: EvaluationText
    column: str
    rule: str
    shared: str

    def __str__(self) -> str:
        return (
            f"{self.found.problem}, {self.found.column} = {self.column}: {self.shared}"
        )


@dataclass(frozen=True)
class ProblemIndex:
    """The grams of evaluation problems.

    Attributes:
        texts: those with at least 8 tokens; one that has comments is there twice, once without.
        sizes: distinct 8-grams of each.
        eights: positions of the texts that have an 8-gram.
        runs: the first text that has a run of 13 tokens. A text of 8 to 12 tokens is one run.
        lengths: tokens of those runs.
        short: texts under 8 tokens, which are not compared.
    """

    texts: tuple[EvaluationText, ...]
    sizes: tuple[int, ...]
    eights: Mapping[str, Sequence[int]]
    runs: Mapping[str, int]
    lengths: tuple[int, ...]
    short: tuple[EvaluationText, ...]


def index_of(texts: Iterable[EvaluationText]) -> ProblemIndex:
    long, sizes, short = list[EvaluationText](), list[int](), list[EvaluationText]()
    eights, runs, lengths = dict[str, list[int]](), dict[str, int](), {RUN}
    for text in texts:
        if len(tokens_of(text.text)) < GRAM:
            short.append(text)
            continue
        for tokens in map(tokens_of, _versions(text.text)):
            length, grams = max(GRAM, min(RUN, len(tokens))), _telling(tokens, GRAM)
            lengths.add(length)
            for gram in grams:
                eights.setdefault(gram, []).append(len(long))
            for gram in _telling(tokens, length):
                runs.setdefault(gram, len(long))
            long.append(text)
            sizes.append(len(grams))
    order = tuple(sorted(lengths, reverse=True))
    return ProblemIndex(tuple(long), tuple(sizes), eights, runs, order, tuple(short))


def leak_of(row: EditRow, index: ProblemIndex) -> SharedText | None:
    """Return the first text that a row shares with a problem, None if there is none."""
    columns = ((OLD, row[OLD]), (NEW, row[NEW]), (INSTRUCTION, message_of(row)))
    for column, text in columns:
        for version in _versions(text):
            tokens = tokens_of(version)
            # Without a known 8-gram there is no known run either.
            if known := {gram for gram in _grams(tokens, GRAM) if gram in index.eights}:
                found = _run(column, version, tokens, index) or _alike(
                    column, tokens, known, index
                )
                if found:
                    return found
    return None


def _run(
    column: str, text: str, tokens: Sequence[str], index: ProblemIndex
) -> SharedText | None:
    for length in index.lengths:
        known = [gram in index.runs for gram in _grams(tokens, length)]
        if True not in known:
            continue
        start = known.index(True)
        # The run goes on as long as its grams are known.
        grams = (
            known.index(False, start) - start
            if False in known[start:]
            else len(known) - start
        )
        spans = [match.span() for match in _TOKEN.finditer(text)]
        shared = text[spans[start][0] : spans[start + grams + length - 2][1]]
        place = index.runs[" ".join(tokens[start : start + length])]
        return SharedText(index.texts[place], column, "run", shortened(shared, _SHOWN))
    return None


def _alike(
    column: str, tokens: Sequence[str], known: Iterable[str], index: ProblemIndex
) -> SharedText | None:
    shared = Counter(place for gram in known for place in index.eights[gram])
    size = len(_telling(tokens, GRAM))
    values = {place: n / (size + index.sizes[place] - n) for place, n in shared.items()}
    place = min(values, key=lambda place: (-values[place], place))
    if values[place] < JACCARD:
        return None
    gram = next(
        gram for gram in _grams(tokens, GRAM) if place in index.eights.get(gram, ())
    )
    words = f"{values[place]:.2f} of the {GRAM}-grams, first: {gram}"
    return SharedText(index.texts[place], column, "jaccard", shortened(words, _SHOWN))


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text: lower-case runs of letters, digits and ``_``."""
    # Lowered one by one: lower-case letters may be more characters, and their places would shift.
    return [match[0].lower() for match in _TOKEN.finditer(text)]


def _versions(text: str) -> Iterator[str]:
    yield text
    bare = _COMMENT.sub("", text)
    if bare != text:
        yield bare


def _grams(tokens: Sequence[str], length: int) -> Iterator[str]:
    return (" ".join(tokens[n : n + length]) for n in range(len(tokens) - length + 1))


def _telling(tokens: Sequence[str], length: int) -> dict[str, None]:
    ignored = [gram in boilerplate() for gram in _grams(tokens, GRAM)]
    return {
        gram: None
        for n, gram in enumerate(_grams(tokens, length))
        if len(set(filter(_WORD.match, tokens[n : n + length]))) >= FEWEST_WORDS
        and not any(ignored[n : n + length - GRAM + 1])
    }


@cache
def boilerplate() -> frozenset[str]:
    """Return the 8-grams of texts that any project may hold, such as licences."""
    paragraphs = BOILERPLATE.read_text(encoding="utf-8").split("\n\n")
    return frozenset(
        gram for text in paragraphs for gram in _grams(tokens_of(text), GRAM)
    )


_CHUNK = 32
# The usual one of problems, where a folder or hub id has several.
_SPLIT = "test"
_KINDS = ("stub", "example", "test")
_ARCHIVES = (".tar.gz", ".tgz")
_NAMES = ("full_name", "task_id", "instance_id", "id", "name")
# What `datasets` leaves in a folder that it saves.
_SAVED = "dataset_*.json"


@dataclass
class ProblemSet:
    """A file of ``--against``; ``rows`` counts those taken out by problem."""

    name: str
    sha256: str
    texts: Sequence[EvaluationText]
    rows: Counter[str] = field(default_factory=Counter)


@command(RowSettings, ())
def main(
    line: CommandLine[RowSettings],
    rows: RowsArgument = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="MORE", help="Further files of --against."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="PROBLEMS",
            help="Compare with these: rows with text, or a folder or .tar.gz of exercises; "
            "repeatable.",
        ),
    ] = None,
    out: OutFile = None,
    dropped: DroppedFile = None,
    workers: Workers = ONE_PROCESS,
) -> None:
    """Take out rows that share a run of tokens, or most of a text, with evaluation problems."""
    settings = line.load()
    if line.prints(settings, rows):
        return
    if not against:
        raise UserError(
            f"no --against given; name the rows or exercises to {DECONTAMINATE} from"
        )
    named = [*against, *(more or ())]
    source = settings.rows.source(rows)
    sets = [problem_set(name, place) for place, name in enumerate(named)]
    index = index_of(text for one in sets for text in one.texts)
    if not index.texts:
        raise UserError(
            f"--against {', '.join(named)}: each text has fewer than {GRAM} tokens, so nothing "
            "would be compared; give other problems"
        )
    short = Counter(text.origin for text in index.short)
    options = {
        "skip_bad": source.skip_bad,
        "run": RUN,
        "gram": GRAM,
        "jaccard": JACCARD,
        "boilerplate": file_digest(BOILERPLATE),
    }

    def clean() -> Iterator[EditRow | DroppedRow]:
        parts = parts_of(source.rows(), _CHUNK)
        for part, leaks in in_processes(_leaks, parts, workers, _start, index):
            for row, leak in zip(part, leaks, strict=True):
                if isinstance(row, DroppedRow):
                    yield row
                elif leak is None:
                    # A column of another text would not have been compared.
                    yield with_content(row)
                else:
                    found = sets[leak.found.origin]
                    found.rows[leak.found.problem] += 1
                    yield DroppedRow(row, leak.rule, f"{found.name} {leak}")

    def details() -> dict[str, Any]:
        against = [
            {
                "name": one.name,
                "sha256": one.sha256,
                "problems": len({text.problem for text in one.texts}),
                "texts": len(one.texts),
                "texts_too_short": short[place],
                "rows": one.rows.total(),
                "rows_by_problem": dict(sorted(one.rows.items())),
            }
            for place, one in enumerate(sets)
        ]
        return {"against": against}

    read = [Path(name).expanduser() for name in named]
    step = Step(
        DECONTAMINATE,
        (source,),
        out,
        dropped,
        options,
        details=details,
        also_read=read,
    )
    step.write(clean())
    for one in sets:
        print(f"{one.rows.total():,} rows share text with {one.name}")


_shared: list[ProblemIndex] = []
"""The index, which each process is sent once."""


def _start(index: ProblemIndex) -> None:
    _shared[:] = [index]


def _leaks(rows: Iterable[EditRow | DroppedRow]) -> list[SharedText | None]:
    (index,) = _shared
    return [
        None if isinstance(row, DroppedRow) else leak_of(row, index) for row in rows
    ]


def problem_set(name: str, origin: int) -> ProblemSet:
    """Return the evaluation problems that a name stands for.

    It names a file or set of rows, whose text columns all count, or a folder or archive of
    exercises, whose stubs, examples and tests count. ``origin`` is the position among those given.
    """
    path = Path(name).expanduser()
    if name.endswith(_ARCHIVES) or (path.is_dir() and not any(path.glob(_SAVED))):
        catalog = read_catalog(path)
        texts = [
            EvaluationText(origin, one.key, kind, one.text(file))
            for one in catalog.exercises
            for kind, files in zip(
                _KINDS, (one.solution, one.examples, one.tests), strict=True
            )
            for file in files
        ]
        return ProblemSet(path.name, catalog.sha256, texts)
    source = open_source(name, split=_SPLIT)
    texts = [*_texts(source, origin)]
    if not texts:
        raise UserError(f"--against {name} holds no text; give a file with problems")
    return ProblemSet(path.name if source.path else name, source.sha256, texts)


def _texts(source: RowSource, origin: int) -> Iterator[EvaluationText]:
    for number, row in enumerate(source.read(), 1):
        if not isinstance(row, dict):
            wrong = row if isinstance(row, DamagedError) else "it is not a JSON object"
            raise UserError(
                f"--against {source.name}, row {number}: {wrong}; correct it"
            )
        problem = next(
            (str(row[key]) for key in _NAMES if row.get(key) is not None), ""
        )
        for column, value in row.items():
            parts = value if isinstance(value, list) else [value]
            text = "\n".join(part for part in parts if isinstance(part, str))
            if text.strip():
                yield EvaluationText(origin, problem or f"row {number}", column, text)
