"""What each cleanup takes off, and that the exact one takes off no code."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exercises.tests.support.editpack import generated_edits
from swe_retry_exercises.editpack.filter import Cleanup, clean_text

BOTH = {
    "comments": (
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n\n# Licence\nx = 1\n",
        "x = 1\n",
    ),
    "a docstring": ('"""What it\ndoes."""\n\nx = 1\n', "\nx = 1\n"),
    "a docstring behind comments": ('# c\n\n"""Two\nlines.\n"""\nx = 1\n', "x = 1\n"),
    "blank lines before": ("\n\n# c\nx = 1\n", "x = 1\n"),
    "of Windows": ('# c\r\n\r\n"""a\r\nb"""\r\nx = 1\r\n', "x = 1\r\n"),
    "only comments": ("# a\n# b", ""),
    "only a docstring": ('"""a\nb"""', ""),
    "one line stays": ('"""One line."""\nx = 1\n', '"""One line."""\nx = 1\n'),
    "one line behind a comment stays": (
        '# c\n"""One."""\nx = 1\n',
        '"""One."""\nx = 1\n',
    ),
    "comments behind the docstring stay": ('"""a\nb"""\n# c\nx\n', "# c\nx\n"),
    "blank lines behind comments stay": ("# c\n\n\nx\n", "\n\nx\n"),
    "blank lines alone stay": ("\n\nx = 1\n", "\n\nx = 1\n"),
    "what never closes stays": ('# c\n"""a\nx = 1\n', '"""a\nx = 1\n'),
    "comments in the code stay": ("x = 1\n# c\n", "x = 1\n# c\n"),
    "nothing": ("", ""),
}
# The text, what the published cleanup leaves, what the exact one leaves.
APART = {
    "an assignment": ('T = """\na\n"""\nx\n', "x\n", 'T = """\na\n"""\nx\n'),
    "single quotes": ("'''a\nb'''\nx\n", "'''a\nb'''\nx\n", "x\n"),
    "single quotes behind a comment": (
        "# c\n\n'''a\nb'''\nx\n",
        "\n'''a\nb'''\nx\n",
        "x\n",
    ),
    "a backslash": ('"a\\\nb"\nx\n', '"a\\\nb"\nx\n', "x\n"),
    "code behind the docstring": (
        '"""a\n"""; x = 1\ny\n',
        "y\n",
        '"""a\n"""; x = 1\ny\n',
    ),
    "a call": ('"""a\n""".strip()\n', "", '"""a\n""".strip()\n'),
    "bytes": ('b"""a\n"""\nx\n', "x\n", 'b"""a\n"""\nx\n'),
    "a formatted text": ('f"""a\n{b()}"""\nx\n', "x\n", 'f"""a\n{b()}"""\nx\n'),
    "two texts": ('"""a\n""" \\\n"b"\nx\n', '"b"\nx\n', "x\n"),
    "quotes in a comment": ('# """\nx = 1\ny = """\nz\n', "z\n", 'x = 1\ny = """\nz\n'),
    "an indented comment": ("  # c\nx\n", "  # c\nx\n", "x\n"),
    "a byte order mark": ("\ufeff# c\nx\n", "\ufeff# c\nx\n", "x\n"),
    "a mark before code": ("\ufeffx\n", "\ufeffx\n", "x\n"),
    "lines of old Macs": ("# c\rx = 1\r", "", "x = 1\r"),
    "a form feed": ("\f\n# c\nx\n", "x\n", "x\n"),
    "a feed before a comment": ("\f# c\nx\n", "\f# c\nx\n", "x\n"),
    "a null byte behind": ('# c\n"""a\n"""\0\nx\n', "x\n", '"""a\n"""\0\nx\n'),
    "a null byte in a comment": ("# \0\nx\n", "x\n", "x\n"),
    "no Python": ("# c\n?? '\n", "?? '\n", "?? '\n"),
    "an indented docstring": ('  """a\n  """\nx\n', "x\n", '  """a\n  """\nx\n'),
    "a lone surrogate": ('"""\ud800\n"""\nx\n', "x\n", None),
}


def test_where_both_agree() -> None:
    for name, (text, left) in BOTH.items():
        for cleanup in (Cleanup.REFERENCE, Cleanup.EXACT):
            assert clean_text(text, cleanup) == left, name
        assert clean_text(text, Cleanup.NONE) == text, name


def test_where_the_published_one_has_faults() -> None:
    for name, (text, published, exact) in APART.items():
        assert clean_text(text, Cleanup.REFERENCE) == published, name
        left = clean_text(text, Cleanup.EXACT)
        if exact is None:
            # Python's own tokenizer of 3.12 and later refuses lone surrogates.
            assert left in ("x\n", text), name
        else:
            assert left == exact, name


def test_the_published_one_is_not_idempotent() -> None:
    once = clean_text('"""a\nb"""\n# c\nx\n', Cleanup.REFERENCE)
    assert (once, clean_text(once, Cleanup.REFERENCE)) == ("# c\nx\n", "x\n")


def code_behind_docstring(tree: ast.Module) -> list[str]:
    statements = [ast.dump(node) for node in tree.body]
    documented = ast.get_docstring(tree) is not None
    if documented:
        return statements[1:]
    return statements


PIECES = st.sampled_from(
    ['"""', "'''", '"', "'", "#", "\n", "\r\n", "\r", "\f", "\0", "\\", " ", "\t", "r", "f", "b",
     "x", "= 1", "(", ")", ";", "\ufeff", "\ud800", "a\n", "# c\n", '"""a\nb"""', "pass\n",
     "\x0b", "\x1c", "\x85", "\u2028", "def f():\n ", "f'''\n'''"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=14).map("".join)


def code_of(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


@given(TEXTS)
@example('"""a\n"""; x')
@example("# c\rx")
def test_no_code_is_lost_by_the_exact_one(text: str) -> None:
    left = clean_text(text, Cleanup.EXACT)
    assert text.endswith(left)
    before = code_of(text.removeprefix("\ufeff"))
    if before is None:
        return
    after = code_of(left)
    assert after is not None
    statements = [ast.dump(node) for node in before.body]
    rest = [ast.dump(node) for node in after.body]
    assert rest in (statements, code_behind_docstring(before))


def test_no_code_of_generated_files_is_lost() -> None:
    compared = 0
    for row in generated_edits(300):
        for text in (row["old_contents"], row["new_contents"]):
            before = code_of(text.removeprefix("\ufeff"))
            if before is None:
                continue
            after = code_of(clean_text(text, Cleanup.EXACT))
            assert after is not None
            assert [*map(ast.dump, after.body)] in (
                [*map(ast.dump, before.body)],
                code_behind_docstring(before),
            )
            compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        "x" * 10**6,
        "#\n" * 10**5,
        '"' * 10**5,
        '"""' + "a\n" * 10**5,
        "\\\n" * 10**4,
    ],
)
@pytest.mark.parametrize("cleanup", Cleanup)
def test_large_texts_are_clean_text(text: str, cleanup: Cleanup) -> None:
    assert text.endswith(clean_text(text, cleanup))
