"""``decontaminate``: take out rows that share text with evaluation problems.

Two texts share a run of 13 tokens (T. Brown et al., "Language models are few-shot learners", 2020,
arXiv:2005.14165, appendix C, with 13-grams), or half of their 8-grams. Tokens are lower-case runs
of letters, digits and ``_``, so that white space, line breaks, quotes and brackets do not matter.
Every text is compared with its comments and without them, so that a copy with other comments is
found as well.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from swe_retry.kit import DamagedError, UserError, abbreviate, settings_command
from swe_retry_exercises.editpack.files import (
    DECONTAMINATE,
    DroppedFile,
    OutFile,
    RowsArgument,
    RowSettings,
    write_rows,
)
from swe_retry_exercises.editpack.rows import (
    INSTRUCTION,
    NEW,
    OLD,
    JudgedRow,
    RowReading,
    file_digest,
    message_of,
    reason,
    with_content,
)
from swe_retry_exercises.exercism.catalog import Catalog, read_catalog
from swe_retry_exercises.values import JsonObject

RUN = 13
"""Tokens of a run."""
GRAM = 8
"""Tokens of the grams whose Jaccard index is taken."""
JACCARD = 0.5
MIN_WORDS = 3
"""A gram of fewer distinct words says nothing: tables of numbers, lists of letters."""
BOILERPLATE = Path(__file__).with_name("boilerplate.txt")
_TOKEN = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d]\w")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_MAX_SHOWN = 240
_ARCHIVES = (".tar.gz", ".tgz")
_NAMES = ("full_name", "task_id", "instance_id", "id", "name")
# What `datasets` leaves in a folder that it saves.
_SAVED = "dataset_*.json"


@settings_command(RowSettings, "rows")
def main(
    settings: RowSettings,
    rows: RowsArgument = None,
    further: Annotated[
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
) -> None:
    """Take out rows that share a run of tokens, or most of a text, with evaluation problems."""
    if not against:
        raise UserError(
            f"no --against given; name the rows or exercises to {DECONTAMINATE} from"
        )
    names = [*against, *(further or ())]
    reading = settings.rows
    index = ProblemIndex()
    for name in names:
        index.add_set(name)
    if not index.texts:
        raise UserError(
            f"--against {', '.join(names)}: each text has fewer than {GRAM} tokens, so nothing "
            "would be compared; give other problems"
        )
    write_rows(
        DECONTAMINATE,
        map(index.judge, reading.rows(rows)),
        out,
        dropped,
        reading=reading,
        names=[rows],
        also_read=names,
        options={
            "run": RUN,
            "gram": GRAM,
            "jaccard": JACCARD,
            "boilerplate": file_digest(BOILERPLATE),
        },
        details=lambda: {"against": list(map(_sorted_record, index.records))},
    )
    for record in index.records:
        print(f"{record['rows']:,} rows share text with {record['name']}")


class ProblemText(NamedTuple):
    """A text of an evaluation problem; ``column`` is that of the row, or the kind of file."""

    problem: str
    column: str
    text: str


class ProblemIndex:
    """The grams of evaluation problems.

    Attributes:
        records: what the report says of each set; they count the rows that are taken out.
        texts: those with at least 8 tokens, with the record of their set; one that has comments is
            there twice, once without.
        sizes: distinct 8-grams of each.
        eights: positions of the texts that have an 8-gram.
        runs: the first text that has a run of 13 tokens. A text of 8 to 12 tokens is one run.
        lengths: tokens of those runs.
    """

    def __init__(self) -> None:
        self.records: list[JsonObject] = []
        self.texts: list[tuple[JsonObject, ProblemText]] = []
        self.sizes: list[int] = []
        self.eights: dict[str, list[int]] = defaultdict(list)
        self.runs: dict[str, int] = {}
        self.lengths = {RUN}

    def add_set(self, name: str) -> None:
        """Add the problems that a name stands for.

        It names a file or set of rows, whose text columns all count, or a folder or archive of
        exercises, whose stubs, examples and tests count.
        """
        path = Path(name).expanduser()
        if name.endswith(_ARCHIVES) or (path.is_dir() and not any(path.glob(_SAVED))):
            catalog = read_catalog(path)
            sha256 = catalog.sha256
            texts = list(_texts_of_exercises(catalog))
        else:
            # The usual part of problems, where a folder or hub id has several.
            reading = RowReading(part="test")
            sha256 = reading.sha256(name)
            texts = list(_texts_of_rows(reading, name))
        if not texts:
            raise UserError(
                f"--against {name} holds no text; give a file with problems"
            )
        record: JsonObject = {
            "name": path.name if path.exists() else name,
            "sha256": sha256,
            "problems": len({text.problem for text in texts}),
            "texts": len(texts),
            "texts_too_short": 0,
            "rows": 0,
            "rows_by_problem": Counter(),
        }
        self.records.append(record)
        for text in texts:
            if len(tokens_of(text.text)) < GRAM:
                record["texts_too_short"] += 1
                continue
            for version in _versions(text.text):
                self._add_tokens(tokens_of(version))
                self.texts.append((record, text))

    def _add_tokens(self, tokens: Sequence[str]) -> None:
        number = len(self.texts)
        length = max(GRAM, min(RUN, len(tokens)))
        self.lengths.add(length)
        for run in _telling_grams(tokens, length):
            self.runs.setdefault(run, number)
        grams = _telling_grams(tokens, GRAM)
        for gram in grams:
            self.eights[gram].append(number)
        self.sizes.append(len(grams))

    def judge(self, judged: JudgedRow) -> JudgedRow:
        """Return a row, dropped if it shares text with a problem; count it there."""
        row = judged[0]
        if judged[1]:
            return judged
        columns = {OLD: row[OLD], NEW: row[NEW], INSTRUCTION: message_of(row)}
        for column, text in columns.items():
            for version in _versions(text):
                leak = self.leak_of(version)
                if leak:
                    record, problem = self.texts[leak.number]
                    record["rows"] += 1
                    record["rows_by_problem"][problem.problem] += 1
                    detail = (
                        f"{record['name']} {problem.problem}, {problem.column} = {column}: "
                        f"{abbreviate(leak.shared, _MAX_SHOWN)}"
                    )
                    return row, reason(leak.rule, detail)
        # A column of another text would not have been compared.
        return with_content(row), None

    def leak_of(self, text: str) -> Leak | None:
        """Return what a text shares with a problem; a run goes before what is alike."""
        tokens = tokens_of(text)
        grams = list(filter(self.eights.__contains__, _grams(tokens, GRAM)))
        # Without an 8-gram of a problem there is no run of one either.
        if not grams:
            return None
        for length in sorted(self.lengths, reverse=True):
            runs = list(_grams(tokens, length))
            for start, run in enumerate(runs):
                if run in self.runs:
                    # It goes on as long as its grams are runs of problems.
                    end = start
                    while end < len(runs) and runs[end] in self.runs:
                        end += 1
                    spans = [match.span() for match in _TOKEN.finditer(text)]
                    shared = text[spans[start][0] : spans[end + length - 2][1]]
                    return Leak(self.runs[run], "run", shared)
        return self._alike_text(tokens, grams)

    def _alike_text(self, tokens: Sequence[str], grams: Sequence[str]) -> Leak | None:
        """Return the text most like some tokens, if half of the 8-grams are the same."""
        shared: Counter[int] = Counter()
        for gram in set(grams):
            shared.update(self.eights[gram])
        size = len(_telling_grams(tokens, GRAM))
        similarity = {}
        for number, count in shared.items():
            similarity[number] = count / (size + self.sizes[number] - count)
        best = min(similarity, key=lambda number: (-similarity[number], number))
        if similarity[best] < JACCARD:
            return None
        first = next(gram for gram in grams if best in self.eights[gram])
        detail = f"{similarity[best]:.2f} of the {GRAM}-grams, first: {first}"
        return Leak(best, "jaccard", detail)


class Leak(NamedTuple):
    """What a row shares with a problem: the position of its text, the rule, and the words."""

    number: int
    rule: str
    shared: str


def _sorted_record(record: JsonObject) -> JsonObject:
    return {
        **record,
        "rows_by_problem": dict(sorted(record["rows_by_problem"].items())),
    }


def _texts_of_exercises(catalog: Catalog) -> Iterator[ProblemText]:
    for exercise in catalog.exercises:
        kinds = {
            "stub": exercise.solution,
            "example": exercise.examples,
            "test": exercise.tests,
        }
        for kind, files in kinds.items():
            for file in files:
                yield ProblemText(exercise.key, kind, exercise.text(file))


def _texts_of_rows(reading: RowReading, name: str) -> Iterator[ProblemText]:
    for number, row in enumerate(reading.values(name), 1):
        if not isinstance(row, dict):
            mistake = "it is not a JSON object"
            if isinstance(row, DamagedError):
                mistake = str(row)
            raise UserError(f"--against {name}, row {number}: {mistake}; correct it")
        problem = f"row {number}"
        for key in reversed(_NAMES):
            if row.get(key) is not None:
                problem = str(row[key]) or f"row {number}"
        for column, value in row.items():
            parts = value if isinstance(value, list) else [value]
            text = "\n".join(part for part in parts if isinstance(part, str))
            if text.strip():
                yield ProblemText(problem, column, text)


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text: lower-case runs of letters, digits and ``_``."""
    # Lowered one by one: lower-case letters may be more characters, and their places would shift.
    return list(map(str.lower, _TOKEN.findall(text)))


def _versions(text: str) -> Collection[str]:
    return dict.fromkeys((text, _COMMENT.sub("", text)))


def _grams(tokens: Sequence[str], length: int) -> Iterator[str]:
    starts = range(len(tokens) - length + 1)
    return (" ".join(tokens[n : n + length]) for n in starts)


def _telling_grams(tokens: Sequence[str], length: int) -> dict[str, None]:
    """Return the distinct grams with enough words and no boilerplate, in their order."""
    grams: dict[str, None] = {}
    ignored = [gram in boilerplate() for gram in _grams(tokens, GRAM)]
    for start, gram in enumerate(_grams(tokens, length)):
        distinct = set(filter(_WORD.match, tokens[start : start + length]))
        is_boilerplate = any(ignored[start : start + length - GRAM + 1])
        if len(distinct) >= MIN_WORDS and not is_boilerplate:
            grams[gram] = None
    return grams


@cache
def boilerplate() -> frozenset[str]:
    """Return the 8-grams of texts that any project may hold, such as licences."""
    paragraphs = BOILERPLATE.read_text("utf-8").split("\n\n")
    grams: set[str] = set()
    for paragraph in paragraphs:
        grams.update(_grams(tokens_of(paragraph), GRAM))
    return frozenset(grams)
