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

from exercises.editpack.decontaminating import (
    BOILERPLATE,
    RUN,
    EvaluationText,
    ProblemIndex,
    ProblemSet,
    index_of,
    leak_of,
    problem_set,
    tokens_of,
)
from tests.support import TOP
from tests.support.canitedit import ROWS, problems
from tests.support.editpack import editpack, write_rows
from tests.support.exercism import SIX, six


def row(old: str, new: str, message: str = "Change the code") -> dict[str, Any]:
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
    sets = [problem_set(str(path), place) for place, path in enumerate((ROWS, SIX))]
    return index_of(text for one in sets for text in one.texts)


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
        assert found.found.problem == name


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
    assert [str(leak) for one in rows if (leak := leak_of(one, index))] == []


def of(*texts: str) -> ProblemIndex:
    return index_of(
        EvaluationText(0, f"p{n}", "tests", text) for n, text in enumerate(texts)
    )


def words(count: int, prefix: str = "w") -> list[str]:
    return [f"{prefix}{n}" for n in range(count)]


@pytest.mark.parametrize(("shared", "found"), [(12, False), (13, True)])
def test_a_run_has_thirteen_tokens(shared: int, found: bool) -> None:
    text = " ".join((*words(60, "a"), *words(shared), *words(60, "b")))
    leak = leak_of(
        row(text, "x"), of(" ".join((*words(40, "c"), *words(shared), "end")))
    )
    assert (leak is not None) is found
    if leak:
        assert (leak.rule, leak.column) == ("run", "old_contents")
        assert leak.shared == " ".join(words(13))


def spoilt(tokens: Sequence[str], every: int) -> str:
    return " ".join(
        f"{t}x" if n % every == every - 1 else t for n, t in enumerate(tokens)
    )


def test_half_of_the_grams_are_found_without_a_run() -> None:
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
    assert (found.rule, found.shared[:4]) == ("jaccard", "0.62")


def test_a_short_text_counts_as_a_whole_and_a_very_short_one_does_not() -> None:
    known = of("Fix the clamp.", "Make clamp return low for all smaller values")
    assert [text.text for text in known.short] == ["Fix the clamp."]
    assert leak_of(row("a", "b", "Fix the clamp."), known) is None
    longer = (
        "As asked: make `clamp` return low for all smaller values, and test it " * 2
    )
    found = leak_of(row("a", "b", longer), known)
    assert found is not None
    assert (found.found.problem, found.column) == ("p1", "instruction")
    assert (
        leak_of(row("a", "b", "Make clamp return high for all smaller values"), known)
        is None
    )


def test_what_says_nothing_is_ignored() -> None:
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
    problem, exercise = problems()[1], six()[sorted(six())[0]]
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
    outs = [tmp_path / f"{n}.jsonl" for n in (1, 4)]
    for out, workers in zip(outs, (1, 4), strict=True):
        sets = ("--against", ROWS, SIX, other)
        aside = (
            "--dropped",
            tmp_path / f"dropped{workers}.jsonl",
            "--workers",
            workers,
        )
        assert editpack("decontaminate", given, *sets, "--out", out, *aside) == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    dropped = (tmp_path / "dropped1.jsonl").read_text()
    assert dropped == (tmp_path / "dropped4.jsonl").read_text()
    details = [json.loads(line)["detail"] for line in dropped.splitlines()]
    assert details[0].startswith(
        f"{ROWS.name} {problem.full_name}, before = old_contents: def "
    )
    assert details[1].startswith(f"{SIX.name} {exercise.key}, example = new_contents: ")
    report = json.loads((tmp_path / "1.jsonl.report.json").read_text())
    assert (report["command"], report["kept"]) == ("decontaminate", 71)
    found = [
        (one["name"], one["rows"], one["rows_by_problem"]) for one in report["against"]
    ]
    assert found == [
        (ROWS.name, 1, {problem.full_name: 1}),
        (SIX.name, 1, {exercise.key: 1}),
        ("other.jsonl", 0, {}),
    ]
    hashes = [problem_set(str(path), 0).sha256 for path in (ROWS, SIX, other)]
    assert [one["sha256"] for one in report["against"]] == hashes


def test_lists_of_texts_count_and_all_columns_of_the_set(tmp_path: Path) -> None:
    value = {"task_id": 7, "tests": ["a b", "c"], "n": 3, "text": "t", "none": None}
    found: ProblemSet = problem_set(str(write_rows(tmp_path / "x.jsonl", [value])), 2)
    assert [(t.origin, t.problem, t.column, t.text) for t in found.texts] == [
        (2, "7", "tests", "a b\nc"),
        (2, "7", "text", "t"),
    ]


def test_a_leak_behind_letters_that_become_longer_is_shown(tmp_path: Path) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    index = index_of([EvaluationText(0, "p", "text", text)])
    found = leak_of(row(f"city = 'İİİ'  # {text} and more", "x"), index)
    assert found is not None and str(found).endswith(text)


def test_a_column_of_other_text_does_not_hide_a_leak(tmp_path: Path) -> None:
    leak = {"text": " ".join(f"word{n}" for n in range(20))}
    against, out = write_rows(tmp_path / "p.jsonl", [leak]), tmp_path / "out.jsonl"
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
    texts = problem_set(os.environ[variable], 0).texts
    index = index_of(texts)
    long = [one for one in texts if len(tokens_of(one.text)) >= RUN]
    for copy in COPIES:
        missed = [
            one for one in long if not leak_of(row("x = 1", copy(one.text)), index)
        ]
        assert [f"{one.problem} {one.column}" for one in missed] == []
