"""Rows that share text with evaluation problems are found, and no others."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exercises.tests.commands import EDITPACK
from exercises.tests.support.canitedit import ROWS, problems
from exercises.tests.support.editpack import edit, read_rows, report_beside, write_rows
from exercises.tests.support.exercism import SIX, six
from swe_retry_exercises.editpack.decontaminate import (
    BOILERPLATE,
    RUN,
    ProblemIndex,
    tokens_of,
)
from swe_retry_exercises.editpack.rows import DropReason, EditRow, RowReading
from tests.support import TOP


def copy_verbatim(code: str) -> str:
    return code


def reformat(code: str) -> str:
    """Other indentation, quotes, blank lines, and a line break behind each bracket and comma."""
    text = code.replace("    ", "\t").replace("'", '"').replace("\n", "\n\n")
    return re.sub(r"([(\[,])", r"\1\n\t\t", text)


def change_comments(code: str) -> str:
    """Other words in every comment, and a comment of its own on every other line."""
    lines = re.sub(r"#.*", "# reworded here", code).splitlines()
    for number in range(1, len(lines), 2):
        lines[number] += f"  # remark {number}"
    return "\n".join(lines)


COPIES: tuple[Callable[[str], str], ...] = (copy_verbatim, reformat, change_comments)


def problem_texts() -> Iterator[tuple[str, str]]:
    """Yield ten texts of our own problems with the names of the problems."""
    for problem in problems():
        yield problem.full_name, problem.after
    examples = []
    for exercise in six().values():
        for path in exercise.examples:
            if path.endswith(".py"):
                examples.append((exercise.key, exercise.text(path)))
    yield from sorted(examples)[:4]


@pytest.fixture(scope="module")
def index() -> ProblemIndex:
    return index_of_sets(ROWS, SIX)


def index_of_sets(*paths: object) -> ProblemIndex:
    index = ProblemIndex()
    for path in paths:
        index.add_set(str(path))
    return index


def leak_of(row: EditRow, index: ProblemIndex) -> DropReason | None:
    _, leak = index.judge((row, None))
    return leak


def certain_leak_of(row: EditRow, index: ProblemIndex) -> DropReason:
    leak = leak_of(row, index)
    assert leak is not None
    return leak


AROUND = (
    "import os\n\n\ndef place():\n    return os.getcwd()\n\n\n{}\n\n\nprint(place())\n"
)


def test_each_of_thirty_planted_leaks_is_found(index: ProblemIndex) -> None:
    number = 0
    for name, code in problem_texts():
        for copy in COPIES:
            number += 1
            planted = AROUND.format(copy(code))
            sides = ["x = 1", planted]
            if number % 2:
                sides.reverse()
            leak = leak_of(edit(*sides), index)
            assert leak, (name, copy)
            assert f" {name}, " in leak["detail"]
    assert number == 30


def generated_edits(count: int) -> Iterator[EditRow]:
    """Yield edits of functions with names at random, under a licence that is boilerplate."""
    rng = random.Random(5)
    licence = licence_text()
    vocabulary = sorted(set(tokens_of(licence)))
    for _ in range(count):
        name, noun, argument = rng.sample(vocabulary, 3)
        head = f"# {licence}\ndef {name}_{noun}({argument}):\n"
        old = f"{head}    return {argument} + {rng.random()}\n"
        new = old.replace("+", "-")
        yield edit(old, new, f"Fix {name} of the {argument}")


def licence_text() -> str:
    licence, _, _ = BOILERPLATE.read_text().partition("\n\n")
    return licence


def clean_edits() -> Iterator[EditRow]:
    """Yield 300 edits: of the harness's own modules, and generated ones."""
    paths = []
    for room in ("core", "llm", "agent", "runs"):
        paths += sorted((TOP / "swe_retry" / room).rglob("*.py"))
    modules = sorted(paths)[:200]
    for path in modules:
        old = path.read_text()
        new = old.replace("return", "yield", 1)
        yield edit(old, new, f"Change how {path.stem} works")
    yield from generated_edits(300 - len(modules))


def test_none_of_three_hundred_clean_rows_is_taken_out(index: ProblemIndex) -> None:
    leaks = [leak_of(row, index) for row in clean_edits()]
    assert leaks == [None] * 300


IndexOfTexts = Callable[..., ProblemIndex]


@pytest.fixture
def index_of_texts(tmp_path: Path) -> IndexOfTexts:
    """Return a function from texts to an index of problems p0, p1, … that have them."""

    def make(*texts: str) -> ProblemIndex:
        rows = []
        for number, text in enumerate(texts):
            rows.append({"id": f"p{number}", "tests": text})
        path = write_rows(tmp_path / "problems.jsonl", rows)
        return index_of_sets(path)

    return make


def numbered_words(count: int, prefix: str = "w") -> str:
    return " ".join(f"{prefix}{number}" for number in range(count))


def test_a_run_has_thirteen_tokens(index_of_texts: IndexOfTexts) -> None:
    leaks = {}
    for count in (12, 13):
        shared = numbered_words(count)
        text = f"{numbered_words(60, 'a')} {shared} {numbered_words(60, 'b')}"
        index = index_of_texts(f"{numbered_words(40, 'c')} {shared} end")
        leaks[count] = leak_of(edit(text, "x"), index)
    assert leaks[12] is None
    leak = leaks[13]
    assert leak is not None
    assert leak["rule"] == "run"
    detail = f"p0, tests = old_contents: {numbered_words(13)}"
    assert leak["detail"] == f"problems.jsonl {detail}"


def change_every(text: str, every: int) -> str:
    tokens = []
    for number, token in enumerate(text.split(), start=1):
        if number % every == 0:
            token += "x"
        tokens.append(token)
    return " ".join(tokens)


def test_half_of_the_grams_are_found_without_a_run(
    index_of_texts: IndexOfTexts,
) -> None:
    # In 12 tokens between two changed ones there are five 8-grams: 5 of 13 are shared, so
    # 0.24 of all; with a repeated copy as it was, no run is needed for more.
    text = numbered_words(130)
    index = index_of_texts(text)
    assert leak_of(edit(change_every(text, 13), "x"), index) is None
    # The same 12 tokens at the ends of two texts of 12 and 14.
    twelve = numbered_words(12)
    index = index_of_texts(f"{twelve} y z")
    leak = certain_leak_of(edit("x", f"{twelve} other"), index)
    assert leak["rule"] == "jaccard"
    assert " = new_contents: 0.62 of the 8-grams, first: w0 w1" in leak["detail"]


def test_a_short_text_counts_as_a_whole_and_a_very_short_one_does_not(
    index_of_texts: IndexOfTexts,
) -> None:
    text = "Make clamp return low for all smaller values"
    index = index_of_texts("Fix the clamp.", text)
    assert [record["texts_too_short"] for record in index.records] == [3]
    for clean in ("Fix the clamp.", text.replace("low", "high")):
        assert leak_of(edit("a", "b", clean), index) is None
    longer = (
        "As asked: make `clamp` return low for all smaller values, and test it " * 2
    )
    leak = certain_leak_of(edit("a", "b", longer), index)
    assert " p1, tests = instruction: " in leak["detail"]


def test_what_says_nothing_is_ignored(index_of_texts: IndexOfTexts) -> None:
    licence = licence_text()
    numbers = f"x = {list(range(40))}"
    letters = " ".join("abcdefghijklmnopqrstuvwxyz")
    index = index_of_texts(
        f"# {licence}\ndef one(): pass",
        f"{numbers}\nprint(x)",
        f"s = '{letters}'",
    )
    row = edit(f"{licence}\nb = 2", numbers, letters)
    assert leak_of(row, index) is None
    index = index_of_texts(numbered_words(14))
    row = edit(f"{licence} {numbered_words(13)}", "x")
    assert leak_of(row, index)


def test_the_command_names_what_it_takes_out(tmp_path: Path) -> None:
    problem = problems()[1]
    exercises = six()
    exercise = exercises[min(exercises)]
    example = exercise.text(exercise.examples[0])
    rows = [
        edit("a = 1", "a = 2"),
        edit(problem.before, problem.after),
        edit("x", example),
    ]
    path = write_rows(tmp_path / "rows.jsonl", [*rows, *generated_edits(70)])
    other_row = {"task_id": 7, "tests": [numbered_words(20)]}
    other = write_rows(tmp_path / "other.jsonl", [other_row])
    out = tmp_path / "out.jsonl"
    dropped = tmp_path / "dropped.jsonl"
    sets = f"--against {ROWS} {SIX} {other}"
    EDITPACK.output(f"decontaminate {path} {sets} --out {out} --dropped {dropped}")
    details = [line["detail"] for line in read_rows(dropped)]
    name = problem.full_name
    assert details[0].startswith(f"{ROWS.name} {name}, before = old_contents: def ")
    assert details[1].startswith(f"{SIX.name} {exercise.key}, example = new_contents: ")
    report = report_beside(out)
    assert report["command"] == "decontaminate"
    assert report["kept"] == 71
    records = report["against"]
    leaks = []
    for record in records:
        leaks.append((record["name"], record["rows"], record["rows_by_problem"]))
    assert leaks == [
        (ROWS.name, 1, {name: 1}),
        (SIX.name, 1, {exercise.key: 1}),
        ("other.jsonl", 0, {}),
    ]
    index = index_of_sets(ROWS, SIX, other)
    hashes = [record["sha256"] for record in index.records]
    assert [record["sha256"] for record in records] == hashes
    assert hashes[0] == RowReading().sha256(str(ROWS))


def test_lists_of_texts_count_and_all_columns_of_the_set(tmp_path: Path) -> None:
    text = "one two three four five six seven"
    value = {
        "task_id": 7,
        "tests": [text, "c"],
        "n": 3,
        "text": f"{text} t",
        "none": None,
    }
    path = write_rows(tmp_path / "x.jsonl", [value])
    index = index_of_sets(path)
    assert [tuple(problem) for _, problem in index.texts] == [
        ("7", "tests", f"{text}\nc"),
        ("7", "text", f"{text} t"),
    ]


def test_a_leak_behind_letters_that_become_longer_is_shown(
    index_of_texts: IndexOfTexts,
) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    row = edit(f"city = 'İİİ'  # {text} and more", "x")
    leak = certain_leak_of(row, index_of_texts(text))
    assert leak["detail"].endswith(text)


def test_a_column_of_other_text_does_not_hide_a_leak(tmp_path: Path) -> None:
    text = numbered_words(20, "word")
    against = write_rows(tmp_path / "p.jsonl", [{"text": text}])
    row = edit("a", "b", content=text)
    rows = write_rows(tmp_path / "rows.jsonl", [row])
    out = tmp_path / "out.jsonl"
    EDITPACK.output(f"decontaminate {rows} --against {against} --out {out}")
    assert text not in out.read_text()


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text("[1]\n")
    (tmp_path / "numbers.jsonl").write_text('{"n": 1}\n')
    write_rows(tmp_path / "good.jsonl", [{"text": numbered_words(20)}])
    write_rows(tmp_path / "short.jsonl", [{"text": "Fix clamp."}])
    rows = write_rows(tmp_path / "rows.jsonl", [edit("a", "b")])
    out = tmp_path / "out.jsonl"
    against = f"--against {tmp_path}"
    for options, problem in {
        "": "no --against given",
        f"{against}/none.jsonl": "none.jsonl cannot be read",
        f"{against}/empty": "holds no exercises",
        f"{against}/bad.jsonl": "bad.jsonl, row 1: it is not a JSON object",
        f"{against}/numbers.jsonl": "holds no text",
        f"{against}/good.jsonl --dropped {tmp_path}/good.jsonl": "that is read",
        f"{against}/short.jsonl": "nothing would be compared",
    }.items():
        error = EDITPACK.refusal(f"decontaminate {rows} {options} --out {out}")
        assert problem in error
        assert not out.exists()


@pytest.mark.long
@pytest.mark.parametrize("variable", ["CANITEDIT_ROWS", "EXERCISM"])
def test_each_text_of_real_problems_is_found(variable: str) -> None:
    if variable not in os.environ:
        pytest.skip(f"{variable} names no problems")
    index = index_of_sets(os.environ[variable])
    for text in {problem for _, problem in index.texts}:
        if len(tokens_of(text.text)) < RUN:
            continue
        for copy in COPIES:
            row = edit("x = 1", copy(text.text))
            assert leak_of(row, index), f"{text.problem} {text.column}"
