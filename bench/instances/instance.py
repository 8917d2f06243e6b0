"""Rows, split into the half that the harness may know and the half for reports only.

``split_row`` is the only place with both halves of a row. The second half cannot reach an attempt:
it has another type, which ``bench.attempts`` and ``agent`` never accept. The first half is made by
the adapter of the row's set, from the columns that it may see.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.instances.adapters import ADAPTERS, adapter_of, nearest
from bench.instances.adapters.base import TEST_SETUP, SetAdapter, own_id
from bench.instances.shape import (
    ImagePlace,
    Instance,
    Spec,
    TestSetup,
    bare_setup,
    derived_image,
)
from core.errors import UserError
from runs.keys import is_safe_key
from runs.patches import patch_paths

__all__ = [
    "Evaluation",
    "ImagePlace",
    "Instance",
    "Spec",
    "TestSetup",
    "derived_image",
    "instance_id_of",
    "split_row",
]

_PLAIN_TEXTS = ("instance_id", "repo", "base_commit", "problem_statement")
_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SHOWN_COLUMNS = 12


def split_row(row: Mapping[str, Any]) -> tuple[Instance, Evaluation]:
    """Split a dataset row into the harness's half and the reports' half.

    Raises:
        UserError: a required field is missing or has the wrong type, or the set is unknown.
    """
    adapter = _adapter(row)
    name = adapter.identify(row)
    try:
        for key in _PLAIN_TEXTS:
            value = row.get(key)
            if value is not None and not isinstance(value, str):
                kind = type(value).__name__
                raise UserError(
                    f"the field `{key}` must be a text, not {kind}; fix the dataset"
                )
        evaluation = evaluation_of(row, name, plants_bug="patch" in adapter.visible)
        # The adapter sees its columns, and of a script what it does not have of the others.
        shown = {key: value for key, value in row.items() if key in adapter.visible}
        if TEST_SETUP in adapter.visible and row.get("eval_script"):
            shown[TEST_SETUP] = bare_setup(
                row["eval_script"], patch_paths(evaluation.test_patch)
            )
        instance = adapter.read(shown)
        if not is_safe_key(instance.instance_id):
            raise UserError(
                "an id holds only letters, digits and ._+-, and names no file of a run"
            )
        if not _COMMIT.fullmatch(instance.base_commit):
            raise UserError("`base_commit` is not a commit hash")
        if not _REPO.fullmatch(instance.repo):
            raise UserError("`repo` is not of the form owner/name")
    except UserError as error:
        raise UserError(
            f"instance {name}: {error} (the row looks like {adapter.name})"
        ) from error
    return instance, evaluation


def instance_id_of(row: Mapping[str, Any]) -> str:
    """Return the id under which the harness knows ``row``, also if ``row`` is damaged."""
    adapter = adapter_of(row)
    return adapter.identify(row) if adapter else own_id(row)


def _adapter(row: Mapping[str, Any]) -> SetAdapter:
    found = adapter_of(row)
    adapter = found or nearest(row)
    missing = [key for key in adapter.required if row.get(key) in (None, "", [], {})]
    if found is None and 2 * len(missing) > len(adapter.required):
        columns = ", ".join(sorted(map(str, row))[:_SHOWN_COLUMNS])
        known = ", ".join(adapter.name for adapter in ADAPTERS)
        raise UserError(
            f"a row of no known set: it has the columns {columns or 'of an empty row'}; "
            f"known sets: {known}"
        )
    if missing:
        name = row.get("instance_id") or "?"
        raise UserError(
            f"instance {name}: the field `{missing[0]}` is missing; fix the dataset (the row looks "
            f"like {adapter.name})"
        )
    return adapter


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


def evaluation_of(
    row: Mapping[str, Any], instance_id: str, *, plants_bug: bool
) -> Evaluation:
    """Read the hidden half of ``row``."""
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
    found: dict[str, None] = {}
    for key in keys:
        value: Any = row.get(key) or []
        try:
            if isinstance(value, str):
                try:
                    value = json.loads(value)
                except ValueError:
                    value = ast.literal_eval(value.strip())
            found |= dict.fromkeys(str(name) for name in value)
        except (
            ValueError,
            TypeError,
            SyntaxError,
            RecursionError,
            MemoryError,
        ) as error:
            raise UserError(f"`{key}` is not a list") from error
    return tuple(found)


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
