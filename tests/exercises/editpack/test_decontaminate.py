"""Rows that share text with evaluation problems are found, and no others."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from exercises.editpack.decontaminate import (
    BOILERPLATE,
    RUN,
    ProblemIndex,
    tokens_of,
)
from exercises.editpack.rows import DropReason, RowReading
from tests.support import TOP
from tests.support.canitedit import ROWS, problems
from tests.support.editpack import editpack, report_beside, write_rows
from tests.support.exercism import SIX, six


def row(
    old: str,
    new: str,
    message: str = "Change the code",
) -> dict[str, Any]:
    return {"old_contents": old, "new_contents": new, "message": message}


def verbatim(code: str) -> str:
    return code


def reformatted(code: str) -> str:
    """Other indentation, quotes, blank lines, and a line break behind each bracket and comma."""
    text = code.replace("    ", "\t").replace("'", '"').replace("\n", "\n\n")
    return re.sub(r"([(\[,])", r"\1\n\t\t", text)


def commented(code: str) -> str:
    """Other words in every comment, and a comment of its own on every other line."""
    lines = re.sub(r"#.*", "# reworded here", code).splitlines()
    return "\n".join(f"{x}  # remark {n}" if n % 2 else x for n, x in enumerate(lines))


COPIES: tuple[Callable[[str], str], ...] = (verbatim, reformatted, commented)


def secrets() -> Iterator[tuple[str, str]]:
    """Yield ten texts of our own problems with the names of the problems."""
    yield from ((one.full_name, one.after) for one in problems())
    examples = ((one.key, path, one) for one in six().values() for path in one.examples)
    code = [
        (key, one.text(path)) for key, path, one in examples if path.endswith(".py")
    ]
    yield from sorted(code)[:4]


@pytest.fixture(scope="module")
def index() -> ProblemIndex:
    return index_of_sets(ROWS, SIX)


def index_of_sets(*paths: object) -> ProblemIndex:
    made = ProblemIndex()
    for path in paths:
        made.add_set(str(path))
    return made


def leak_of(edit: dict[str, Any], index: ProblemIndex) -> DropReason | None:
    _, why = index.judge((edit, None))
    return why


def test_each_of_thirty_planted_leaks_is_found(index: ProblemIndex) -> None:
    planted = [(name, copy, copy(code)) for name, code in secrets() for copy in COPIES]
    assert len(planted) == 30
    around = "import os\n\n\ndef place():\n    return os.getcwd()\n\n\n{}\n\n\nprint(place())\n"
    for place, (name, copy, code) in enumerate(planted):
        whole = around.format(code)
        found = leak_of(
            row(whole, "x = 1") if place % 2 else row("x = 1", whole), index
        )
        assert found, (name, copy)
        assert f" {name}, " in found["detail"]


def generated(count: int) -> Iterator[dict[str, Any]]:
    """Yield edits of functions with names at random, under a licence that is boilerplate."""
    chance = random.Random(5)
    licence = BOILERPLATE.read_text().split("\n\n")[0]
    words = sorted(set(tokens_of(licence)))
    for _ in range(count):
        name, one, two = chance.sample(words, 3)
        code = f"# {licence}\ndef {name}_{one}({two}):\n    return {two} + {chance.random()}\n"
        yield row(code, code.replace("+", "-"), f"Fix {name} of the {two}")


def clean() -> Iterator[dict[str, Any]]:
    """Yield 300 edits: of the harness's own modules, and generated ones."""
    paths = [
        p
        for room in ("core", "llm", "agent", "runs")
        for p in (TOP / room).rglob("*.py")
    ]
    for path in sorted(paths)[:200]:
        code = path.read_text()
        yield row(
            code, code.replace("return", "yield", 1), f"Change how {path.stem} works"
        )
    yield from generated(300 - min(200, len(paths)))


def test_none_of_three_hundred_clean_rows_is_taken_out(index: ProblemIndex) -> None:
    rows = list(clean())
    assert len(rows) == 300
    assert [leak for one in rows if (leak := leak_of(one, index))] == []


@pytest.fixture
def of(tmp_path: Path) -> Callable[..., ProblemIndex]:
    """Return a function from texts to an index of problems p0, p1, … that have them."""

    def make(*texts: str) -> ProblemIndex:
        rows = [{"id": f"p{n}", "tests": text} for n, text in enumerate(texts)]
        return index_of_sets(write_rows(tmp_path / "problems.jsonl", rows))

    return make


def words(count: int, prefix: str = "w") -> list[str]:
    return [f"{prefix}{n}" for n in range(count)]


@pytest.mark.parametrize(("shared", "found"), [(12, False), (13, True)])
def test_a_run_has_thirteen_tokens(
    of: Callable[..., ProblemIndex],
    shared: int,
    found: bool,
) -> None:
    text = " ".join((*words(60, "a"), *words(shared), *words(60, "b")))
    leak = leak_of(
        row(text, "x"), of(" ".join((*words(40, "c"), *words(shared), "end")))
    )
    assert (leak is not None) is found
    if leak:
        assert leak["rule"] == "run"
        detail = f"p0, tests = old_contents: {' '.join(words(13))}"
        assert leak["detail"] == f"problems.jsonl {detail}"


def spoilt(tokens: Sequence[str], every: int) -> str:
    return " ".join(
        f"{t}x" if n % every == every - 1 else t for n, t in enumerate(tokens)
    )


def test_half_of_the_grams_are_found_without_a_run(
    of: Callable[..., ProblemIndex],
) -> None:
    # In 12 tokens between two changed ones there are five 8-grams: 5 of 13 are shared, so
    # 0.24 of all; with a repeated copy as it was, no run is needed for more.
    text = words(130)
    known = of(" ".join(text))
    assert leak_of(row(spoilt(text, 13), "x"), known) is None
    # The same 12 tokens at the ends of two texts of 12 and 14.
    found = leak_of(
        row("x", " ".join([*words(12), "other"])), of(" ".join([*words(12), "y", "z"]))
    )
    assert found is not None
    assert found["rule"] == "jaccard"
    assert " = new_contents: 0.62 of the 8-grams, first: w0 w1" in found["detail"]


def test_a_short_text_counts_as_a_whole_and_a_very_short_one_does_not(
    of: Callable[..., ProblemIndex],
) -> None:
    known = of("Fix the clamp.", "Make clamp return low for all smaller values")
    assert [record["texts_too_short"] for record in known.records] == [3]
    assert leak_of(row("a", "b", "Fix the clamp."), known) is None
    longer = (
        "As asked: make `clamp` return low for all smaller values, and test it " * 2
    )
    found = leak_of(row("a", "b", longer), known)
    assert found is not None
    assert " p1, tests = instruction: " in found["detail"]
    assert (
        leak_of(row("a", "b", "Make clamp return high for all smaller values"), known)
        is None
    )


def test_what_says_nothing_is_ignored(of: Callable[..., ProblemIndex]) -> None:
    licence = BOILERPLATE.read_text().split("\n\n")[0]
    numbers = "x = [" + ", ".join(map(str, range(40))) + "]"
    letters = " ".join("abcdefghijklmnopqrstuvwxyz")
    known = of(
        f"# {licence}\ndef one(): pass", f"{numbers}\nprint(x)", f"s = '{letters}'"
    )
    assert leak_of(row(f"{licence}\nb = 2", numbers, letters), known) is None
    assert leak_of(
        row(f"{licence} " + " ".join(words(13)), "x"), of(" ".join(words(14)))
    )


def test_the_command_names_what_it_takes_out(tmp_path: Path) -> None:
    problem = problems()[1]
    exercise = six()[sorted(six())[0]]
    example = exercise.text(exercise.examples[0])
    rows = [
        row("a = 1", "a = 2"),
        row(problem.before, problem.after),
        row("x", example),
    ]
    given = write_rows(tmp_path / "rows.jsonl", [*rows, *generated(70)])
    other = write_rows(
        tmp_path / "other.jsonl", [{"task_id": 7, "tests": [" ".join(words(20))]}]
    )
    out = tmp_path / "out.jsonl"
    aside = tmp_path / "dropped.jsonl"
    sets = ("--against", ROWS, SIX, other)
    files = ("--out", out, "--dropped", aside)
    assert editpack("decontaminate", given, *sets, *files) == 0
    dropped = aside.read_text()
    details = [json.loads(line)["detail"] for line in dropped.splitlines()]
    assert details[0].startswith(
        f"{ROWS.name} {problem.full_name}, before = old_contents: def "
    )
    assert details[1].startswith(f"{SIX.name} {exercise.key}, example = new_contents: ")
    report = report_beside(out)
    assert (report["command"], report["kept"]) == ("decontaminate", 71)
    found = [
        (one["name"], one["rows"], one["rows_by_problem"]) for one in report["against"]
    ]
    assert found == [
        (ROWS.name, 1, {problem.full_name: 1}),
        (SIX.name, 1, {exercise.key: 1}),
        ("other.jsonl", 0, {}),
    ]
    hashes = [record["sha256"] for record in index_of_sets(ROWS, SIX, other).records]
    assert [one["sha256"] for one in report["against"]] == hashes
    assert hashes[0] == RowReading().sha256(str(ROWS))


def test_lists_of_texts_count_and_all_columns_of_the_set(tmp_path: Path) -> None:
    text = "one two three four five six seven"
    value = {"task_id": 7, "tests": [text, "c"], "n": 3, "text": f"{text} t"}
    path = write_rows(tmp_path / "x.jsonl", [{**value, "none": None}])
    index = index_of_sets(path)
    assert [tuple(problem) for _, problem in index.texts] == [
        ("7", "tests", f"{text}\nc"),
        ("7", "text", f"{text} t"),
    ]


def test_a_leak_behind_letters_that_become_longer_is_shown(
    of: Callable[..., ProblemIndex],
) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    leak = leak_of(row(f"city = 'İİİ'  # {text} and more", "x"), of(text))
    assert leak is not None
    assert leak["detail"].endswith(text)


def test_a_column_of_other_text_does_not_hide_a_leak(tmp_path: Path) -> None:
    leak = {"text": " ".join(f"word{n}" for n in range(20))}
    against = write_rows(tmp_path / "p.jsonl", [leak])
    out = tmp_path / "out.jsonl"
    given = write_rows(
        tmp_path / "rows.jsonl", [{**row("a", "b"), "content": leak["text"]}]
    )
    assert editpack("decontaminate", given, "--against", against, "--out", out) == 0
    assert leak["text"] not in out.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "no --against given"),
        (("--against", "{tmp}/none.jsonl"), "none.jsonl cannot be read"),
        (("--against", "{tmp}/empty"), "holds no exercises"),
        (("--against", "{tmp}/bad.jsonl"), "bad.jsonl, row 1: it is not a JSON object"),
        (("--against", "{tmp}/numbers.jsonl"), "holds no text"),
        (
            ("--against", "{tmp}/good.jsonl", "--dropped", "{tmp}/good.jsonl"),
            "that is read",
        ),
        (("--against", "{tmp}/short.jsonl"), "nothing would be compared"),
    ],
)
def test_a_mistake_is_one_line(
    options: Sequence[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text("[1]\n")
    (tmp_path / "numbers.jsonl").write_text('{"n": 1}\n')
    write_rows(tmp_path / "good.jsonl", [{"text": " ".join(map(str, range(20)))}])
    write_rows(tmp_path / "short.jsonl", [{"text": "Fix clamp."}])
    given = write_rows(tmp_path / "rows.jsonl", [row("a", "b")])
    named = [option.format(tmp=tmp_path) for option in options]
    assert (
        editpack("decontaminate", given, *named, "--out", tmp_path / "out.jsonl") == 2
    )
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.long
@pytest.mark.parametrize("variable", ["CANITEDIT_ROWS", "EXERCISM"])
def test_each_text_of_real_problems_is_found(variable: str) -> None:
    if variable not in os.environ:
        pytest.skip(f"{variable} names no problems")
    index = index_of_sets(os.environ[variable])
    texts = {problem for _, problem in index.texts}
    long = [one for one in texts if len(tokens_of(one.text)) >= RUN]
    for copy in COPIES:
        missed = [
            one for one in long if not leak_of(row("x = 1", copy(one.text)), index)
        ]
        assert [f"{one.problem} {one.column}" for one in missed] == []
