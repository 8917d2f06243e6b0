"""The published filter, written down a second time from its description.

Only the standard library: no tokens, no regular expressions, and the distance by the table of
Wagner and Fischer.
"""

from __future__ import annotations

import ast
import warnings

from tests.exercises.editpack.edits import EditRow

QUOTES = '"""'


def plain_cleanup(text: str) -> str:
    """Drop the comments on top and one block in triple double quotes, line by line."""
    lines = text.split("\n")
    comments, opened = 0, None
    for number, line in enumerate(lines):
        once = line.find(QUOTES) >= 0 and len(line.split(QUOTES)) == 2
        if opened is not None:
            if once:
                return "\n".join(lines[number + 1 :])
        elif once:
            opened = number
        elif line[:1] == "#":
            comments = number + 1
        elif not line.isspace() and line:
            break
    return "\n".join(lines[comments:])


def plain_distance(a: str, b: str, most: int = 1000) -> int:
    """Return the Levenshtein distance, ``most`` for any that is as large.

    What both begin and end with costs nothing; no row of the table is better than that above, and
    no cell is better than its distance from the diagonal.
    """
    for _ in range(2):
        apart = (place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        same = next(apart, min(len(a), len(b)))
        a, b = a[same:][::-1], b[same:][::-1]
    above = {column: column for column in range(min(len(b), most) + 1)}
    for row, left in enumerate(a, 1):
        here = {0: row}
        for column in range(max(1, row - most), min(len(b), row + most) + 1):
            changed = above.get(column - 1, most) + (left != b[column - 1])
            beside = min(above.get(column, most), here.get(column - 1, most)) + 1
            here[column] = min(changed, beside)
        above = here
        if min(above.values()) >= most:
            break
    return min(above.get(len(b), most), most)


def plain_parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except Exception:
        return False
    return True


def plain_verdict(row: EditRow) -> tuple[str, str, str]:
    """Return both cleaned sides and the first rule of the published code that the row breaks."""
    old, new = plain_cleanup(row["old_contents"]), plain_cleanup(row["new_contents"])
    words = ["TODO", "FIXME", "BUG", "FIX ME", "from setuptools import", "import setuptools"]
    if not old.strip() or not new.strip():
        rule = "blank"
    elif any(word in new or word.lower() in new for word in words):
        rule = "words"
    elif abs(len(old) - len(new)) < 10 and plain_distance(old, new, 10) < 10:
        rule = "small"
    elif not plain_parses(new):
        rule = "syntax"
    else:
        rule = ""
    return old, new, rule
