"""The half of a row that only ``report.py`` may know, whatever the set calls its columns.

SWE-smith's ``patch`` plants the bug, so its gold patch is the reverse.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import UserError

_PATCHES = ("patch", "fix_patch")
_FAIL_TO_PASS = ("FAIL_TO_PASS", "fail_to_pass", "f2p_tests", "s2p_tests", "n2p_tests")
_PASS_TO_PASS = ("PASS_TO_PASS", "pass_to_pass", "p2p_tests")
_HINTS = ("hints_text", "all_hints_text", "hints")
_TEXTS = (*_PATCHES, "test_patch", *_HINTS, "eval_script")
_HUNK = re.compile(r"@@ -(\S+) \+(\S+) @@(.*)")
_NAMES = re.compile(r"diff --git (\S+) (\S+)$")
_SWAPPED = {
    "new file mode": "deleted file mode",
    "old mode": "new mode",
    "rename from": "rename to",
    "copy from": "copy to",
}


@dataclass(frozen=True)
class Evaluation:
    """The half that only ``report.py`` may know: the gold patch and the hidden tests.

    Attributes:
        instance_id: the set's own id, as its evaluator knows it.
        row: all fields, for the evaluator.
    """

    instance_id: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    hints_text: str
    row: Mapping[str, Any]


def evaluation_of(row: Mapping[str, Any], instance_id: str, *, plants_bug: bool) -> Evaluation:
    """Read the hidden half of ``row``.

    Args:
        row: of any set.
        instance_id: for rows without the column of this name.
        plants_bug: the patch makes the bug.

    Raises:
        UserError: a column has the wrong type.
    """
    for key in _TEXTS:
        if not isinstance(row.get(key) or "", str):
            raise UserError(f"`{key}` is not a text")
    patch = _first(row, _PATCHES)
    return Evaluation(
        instance_id=row.get("instance_id") or instance_id,
        patch=reversed_patch(patch) if plants_bug else patch,
        test_patch=row.get("test_patch") or "",
        fail_to_pass=_all_names(row, _FAIL_TO_PASS),
        pass_to_pass=_all_names(row, _PASS_TO_PASS),
        hints_text=_first(row, _HINTS),
        row=row,
    )


def _first(row: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return str(next((row[key] for key in keys if row.get(key)), ""))


def _all_names(row: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    found = (name for key in keys for name in _names(row, key))
    return tuple(dict.fromkeys(found))


def _names(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the names of tests in a list, an object with a key for each, or the text of one.

    The text is JSON, or in SWE-bench Pro a list as Python writes it.
    """
    value: Any = row.get(key) or []
    try:
        if isinstance(value, str):
            value = _list_of(value)
        return tuple(str(name) for name in value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise UserError(f"`{key}` is not a list") from error


def _list_of(value: str) -> object:
    try:
        return json.loads(value)
    except ValueError:
        return ast.literal_eval(value.strip())


def reversed_patch(patch: str) -> str:
    """Return the patch that undoes ``patch``, a unified diff of text files."""
    return "".join(_reversed_lines(patch.splitlines(keepends=True)))


def _reversed_lines(lines: list[str]) -> Iterator[str]:
    removed: list[str] = []
    added: list[str] = []
    in_hunk, last = False, added
    old_name = ""
    for line in lines:
        if in_hunk and line[:1] in ("+", "-", "\\"):
            if line[0] != "\\":
                last = removed if line[0] == "+" else added
                line = ("-" if line[0] == "+" else "+") + line[1:]
            # After a line that is the same on both sides, the mark belongs to that line.
            if line[0] == "\\" and not (removed or added):
                yield line
            else:
                last.append(line)
            continue
        yield from (*removed, *added)
        removed.clear()
        added.clear()
        if line.startswith("diff --git "):
            in_hunk = False
        if in_hunk and not line.startswith("@@ "):
            yield line
        elif line.startswith("--- "):
            old_name = line[4:]
        elif line.startswith("+++ "):
            yield f"--- {_sided(line[4:], 'a')}"
            yield f"+++ {_sided(old_name, 'b')}"
        else:
            in_hunk = in_hunk or line.startswith("@@ ")
            yield _reversed_header(line)
    yield from (*removed, *added)


def _sided(name: str, side: str) -> str:
    return re.sub(r"^[ab]/", f"{side}/", name)


def _reversed_header(line: str) -> str:
    if found := _HUNK.match(line):
        return f"@@ -{found[2]} +{found[1]} @@{found[3]}\n"
    if found := _NAMES.match(line.rstrip("\n")):
        return f"diff --git {_sided(found[2], 'a')} {_sided(found[1], 'b')}\n"
    if line.startswith("index ") and ".." in line:
        before, _, after = line[6:].partition("..")
        after, space, mode = after.rstrip("\n").partition(" ")
        return f"index {after}..{before}{space}{mode}\n"
    for one, other in (*_SWAPPED.items(), *((b, a) for a, b in _SWAPPED.items())):
        if line.startswith(one + " "):
            return other + line[len(one) :]
    return line
