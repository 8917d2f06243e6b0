from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.agent.mentions import FileIndex

INDEX = FileIndex(
    [
        "src/app/main.py",
        "src/app/util.py",
        "lib/util.py",
        "setup.py",
        "sympy/core/add.py",
        "sympy/core/__init__.py",
        "x/y/array.py",
        "requests/models.py",
        ".github/ci.yml",
        "bin/isympy",
        "src/com/acme/Engine.java",
    ]
)


def test_files_at_the_top_in_diffs_and_addresses() -> None:
    index = FileIndex(["setup.py", "pkg/add.py"])
    for text in (
        "--- a/setup.py",
        "diff --git a/setup.py b/setup.py",
        "https://github.com/pallets/flask/blob/main/setup.py#L3",
    ):
        assert index.mentioned_files(text) == ("setup.py",), text


def test_only_plain_paths_count_where_recorded_runs_are_replayed() -> None:
    index = FileIndex(["pkg/core/add.py", "pkg/mul.py", "setup.py", "bin/test"])
    text = "`pkg/core/add.py:12`, (mul.py) and ./setup.py; pkg.mul, core/add.py, test"
    assert index.plainly_mentioned_files(text) == (
        "pkg/core/add.py",
        "pkg/mul.py",
        "setup.py",
    )
    assert index.plainly_mentioned_files("pkg.mul core/add.py test") == ()
    assert index.mentioned_files("pkg.mul core/add.py test") == (
        "pkg/mul.py",
        "pkg/core/add.py",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see src/app/main.py.", ("src/app/main.py",)),
        ("`main.py`, please", ("src/app/main.py",)),
        ("**setup.py**", ("setup.py",)),
        ("in .github/ci.yml", (".github/ci.yml",)),
        # The reference agent misses each of these.
        ("(src/app/util.py)", ("src/app/util.py",)),
        ("at lib/util.py:347 and ./setup.py", ("lib/util.py", "setup.py")),
        ("lib/util.py:347:12: error", ("lib/util.py",)),
        (
            'File "/home/x/site-packages/requests/models.py", line 3, in send',
            ("requests/models.py",),
        ),
        (
            "https://github.com/sympy/sympy/blob/master/sympy/core/add.py#L12-L20",
            ("sympy/core/add.py",),
        ),
        ("core/add.py", ("sympy/core/add.py",)),
        ("sympy.core.add", ("sympy/core/add.py",)),
        ("`sympy.core.add.Add`", ("sympy/core/add.py",)),
        ("sympy.core.add.Add.flatten(x)", ("sympy/core/add.py",)),
        ("com.acme.Engine", ("src/com/acme/Engine.java",)),
        ("sympy.core", ("sympy/core/__init__.py",)),
        (r"C:\work\app\main.py", ("src/app/main.py",)),
        ("lib/util.py::TestUtil::test_it", ("lib/util.py",)),
        ("a/src/app/main.py b/src/app/main.py", ("src/app/main.py",)),
        (
            "first lib/util.py, then setup.py, then lib/util.py",
            ("lib/util.py", "setup.py"),
        ),
    ],
)
def test_names_that_are_understood(text: str, expected: tuple[str, ...]) -> None:
    assert INDEX.mentioned_files(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "util.py fits two files",
        "main.pyx is none",
        "e.g. this, i.e. that",
        "numpy.array and self.add and os.path",
        "run isympy",
        "sympy.Symbol",
        "add",
        "/usr/lib/python3/setup.py is another machine's",
        "other/main.py",
    ],
)
def test_what_names_no_file(text: str) -> None:
    assert INDEX.mentioned_files(text) == ()


def test_an_exact_path_wins_over_a_longer_one_with_the_same_end() -> None:
    index = FileIndex(["lib/util.py", "vendor/lib/util.py"])
    assert index.mentioned_files("lib/util.py") == ("lib/util.py",)
    assert index.mentioned_files("vendor/lib/util.py") == ("vendor/lib/util.py",)


@given(st.text(max_size=200))
def test_any_text_can_be_searched(text: str) -> None:
    assert set(INDEX.mentioned_files(text)) <= INDEX.paths


@given(
    st.sampled_from(sorted(INDEX.paths)),
    st.sampled_from(["({})", '"{}",', "{}:3", "<{}>."]),
)
def test_a_full_path_is_found_in_any_dress(path: str, dress: str) -> None:
    assert INDEX.mentioned_files(f"look at {dress.format(path)} now") == (path,)
