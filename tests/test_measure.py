"""The figures of ``tests/measure.py``, by hand and on each Python that is there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.measure import dense_lines, measure, measure_text
from tests.support import TOP, write_files

MODULE = """\"\"\"A docstring of several words.\"\"\"


def shown(found):
    \"\"\"Another docstring.\"\"\"
    first, last = found[0], f"{found[-1]!r} and {len(found)}"
    return [first if first else last for _ in found]  # a comment


class Name:
    not_counted = "a string"
"""


def test_the_figures_of_a_module_are_those_counted_by_hand() -> None:
    figures = measure_text(MODULE)
    assert figures.rows == [6, 10, 12, 3, 3]
    assert (figures.tokens, figures.p90, figures.per_row) == (34, 12, 6.8)
    assert figures.participles == 100
    assert figures.per_statement == 34 / 5
    assert figures.counts == {
        "filler": 6,
        "statements": 5,
        "signatures": 1,
        "long": 0,
        "functions": 1,
        "participles": 1,
        "classes": 1,
        "tuples": 1,
        "conditionals": 1,
        "comprehensions": 1,
    }


def test_packing_and_renaming_change_no_size() -> None:
    plain = "a = [\n    1,\n    2,\n]\nif a:\n    b = 3\n"
    packed = "size = [1, 2,]\nif size: width = 3\n"
    assert measure_text(plain).tokens == measure_text(packed).tokens
    assert measure_text(plain).per_row < measure_text(packed).per_row


@pytest.mark.parametrize(
    ("signature", "is_split"),
    [
        ("def f(\n    a,\n): ...\n", 1),
        ("def f(a,\n      *, b=1) -> int: ...\n", 1),
        ("def f(a) -> int: ...\n", 0),
        ("def f(\n): ...\n", 0),
        (f"def f(\n    a{'b' * 80},\n): ...\n", 0),
    ],
)
def test_a_signature_that_is_split_without_need_is_counted(
    signature: str, is_split: int
) -> None:
    figures = measure_text(signature)
    assert figures.counts["split"] == is_split
    assert figures.split == 100 * is_split


def test_a_module_of_many_lines_is_counted() -> None:
    assert measure_text("x = 1\n" * 400).counts["long"] == 0
    assert measure_text("x = 1\n" * 401).counts["long"] == 1


def test_folders_that_are_not_product_are_left_out(tmp_path: Path) -> None:
    files = {
        "a.py": "x = 1\n",
        "tests/b.py": "y = 2\n",
        "sub/c.py": "",
        "sub/d.py": "def",
    }
    figures = measure(write_files(tmp_path, files))
    assert (figures.files, figures.tokens) == (1, 3)


def test_dense_lines_are_named(tmp_path: Path) -> None:
    path = write_files(tmp_path, {"a.py": "x = 1\ny = f(x, x)\n"}) / "a.py"
    assert list(dense_lines(path, 4)) == [f"{path}:2:   8  y = f(x, x)"]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_each_python_measures_the_same(version: str, tmp_path: Path) -> None:
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "--version"], check=False).returncode:
        pytest.skip(f"python{version} is not installed")
    write_files(tmp_path, {"a.py": MODULE})
    command = ["tests/measure.py", "core", str(tmp_path / "a.py")]
    printed = []
    for name in (python, sys.executable):
        printed.append(
            subprocess.run(
                [name, *command], cwd=TOP, capture_output=True, text=True, check=True
            )
        )
    assert printed[0].stdout == printed[1].stdout
    assert " 34 tokens" in printed[0].stdout
