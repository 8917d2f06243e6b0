"""Rows, split into the half that the harness may know and the half for reports only.

``split_row`` is the only place with both halves of a row. The second half cannot reach an attempt:
it has another type, which ``swe_retry.attempts`` and ``agent`` never accept. The first half
is made by the adapter of the row's set, from the columns that it may see.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonMapping
from swe_retry.instances.adapters import ADAPTERS, adapter_of, nearest_adapter
from swe_retry.instances.adapters.adapter import (
    REQUIRED,
    TEST_SETUP,
    SetAdapter,
    own_id,
)
from swe_retry.instances.instance import Instance, bare_setup
from swe_retry.record.keys import is_safe_key
from swe_retry.record.patches import patch_paths

_EMPTY: tuple[object, ...] = (None, "", [], {})
_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_MAX_COLUMNS = 12


def split_row(row: JsonMapping) -> tuple[Instance, Evaluation]:
    """Split a dataset row into the harness's half and the reports' half.

    Raises:
        UserError: a required field is missing or has the wrong type, or the set is unknown.
    """
    adapter = _adapter_for(row)
    name = adapter.identify(row)
    try:
        _check_texts(row)
        evaluation = evaluation_of(row, name, plants_bug="patch" in adapter.visible)
        # The adapter sees its columns, and of a script what it does not have of the others.
        visible_row = {}
        for key, value in row.items():
            if key in adapter.visible:
                visible_row[key] = value
        script = row.get("eval_script")
        if TEST_SETUP in adapter.visible and script:
            hidden_paths = patch_paths(evaluation.test_patch)
            visible_row[TEST_SETUP] = bare_setup(script, hidden_paths)
        instance = adapter.read(visible_row)
        _check_instance(instance)
    except UserError as error:
        raise UserError(
            f"instance {name}: {error} (the row looks like {adapter.name})"
        ) from error
    return instance, evaluation


def _check_texts(row: JsonMapping) -> None:
    for key in REQUIRED:
        value = row.get(key)
        if value is not None and not isinstance(value, str):
            kind = type(value).__name__
            raise UserError(
                f"the field `{key}` must be a text, not {kind}; fix the dataset"
            )


def _check_instance(instance: Instance) -> None:
    if not is_safe_key(instance.instance_id):
        raise UserError(
            "an id holds only letters, digits and ._+-, and names no file of a run"
        )
    if not _COMMIT.fullmatch(instance.base_commit):
        raise UserError("`base_commit` is not a commit hash")
    if not _COMMIT.fullmatch(instance.setup_commit or instance.base_commit):
        raise UserError("`environment_setup_commit` is not a commit hash")
    if not _REPO.fullmatch(instance.repo):
        raise UserError("`repo` is not of the form owner/name")


def instance_id_of(row: JsonMapping) -> str:
    """Return the id under which the harness knows ``row``, also if ``row`` is damaged."""
    adapter = adapter_of(row)
    if adapter is None:
        return own_id(row)
    return adapter.identify(row)


def _adapter_for(row: JsonMapping) -> SetAdapter:
    recognized = adapter_of(row)
    adapter = recognized or nearest_adapter(row)
    missing = [key for key in adapter.required if row.get(key) in _EMPTY]
    if recognized is None and 2 * len(missing) > len(adapter.required):
        columns = sorted(map(str, row))[:_MAX_COLUMNS]
        column_names = ", ".join(columns) or "of an empty row"
        set_names = ", ".join(adapter.name for adapter in ADAPTERS)
        raise UserError(
            f"a row of no known set: it has the columns {column_names}; "
            f"known sets: {set_names}"
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
# The ranges of both sides, and the text behind them.
_HUNK = re.compile(r"@@ -(\S+) \+(\S+) @@(.*)")
_DIFF_HEADER = re.compile(r"diff --git (\S+) (\S+)$")
_OPPOSITE_HEADERS = {
    "new file mode": "deleted file mode",
    "deleted file mode": "new file mode",
    "old mode": "new mode",
    "new mode": "old mode",
    "rename from": "rename to",
    "rename to": "rename from",
    "copy from": "copy to",
    "copy to": "copy from",
}


def has_test_lists(row: JsonMapping) -> bool:
    """Return whether a row has tests to evaluate by; which they are is not looked at."""
    return any(row.get(name) for name in _FAIL_TO_PASS)


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
    row: JsonMapping


def evaluation_of(
    row: JsonMapping,
    instance_id: str,
    *,
    plants_bug: bool,
) -> Evaluation:
    """Read the hidden half of ``row``."""
    for key in _TEXTS:
        if not isinstance(row.get(key) or "", str):
            raise UserError(f"`{key}` is not a text")
    patch = _first_text(row, _PATCHES)
    if plants_bug:
        patch = reverse_patch(patch)
    return Evaluation(
        instance_id=row.get("instance_id") or instance_id,
        patch=patch,
        test_patch=row.get("test_patch") or "",
        fail_to_pass=_all_names(row, _FAIL_TO_PASS),
        pass_to_pass=_all_names(row, _PASS_TO_PASS),
        hints_text=_first_text(row, _HINTS),
        row=row,
    )


def _first_text(row: JsonMapping, keys: tuple[str, ...]) -> str:
    for key in keys:
        value = row.get(key)
        if value:
            return str(value)
    return ""


def _all_names(row: JsonMapping, keys: tuple[str, ...]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for key in keys:
        try:
            values: Any = row.get(key) or []
            if isinstance(values, str):
                values = _parse_list(values)
            names |= dict.fromkeys(map(str, values))
        except (
            ValueError,
            TypeError,
            SyntaxError,
            RecursionError,
            MemoryError,
        ) as error:
            raise UserError(f"`{key}` is not a list") from error
    return tuple(names)


def _parse_list(text: str) -> Iterable[object]:
    """Read a list as JSON or as Python writes it."""
    try:
        values: Iterable[object] = json.loads(text)
    except ValueError:
        values = ast.literal_eval(text.strip())
    return values


def reverse_patch(patch: str) -> str:
    """Return the patch that undoes ``patch``, a unified diff of text files."""
    return "".join(_reverse_lines(patch.splitlines(keepends=True)))


def _reverse_lines(lines: list[str]) -> Iterator[str]:
    removed: list[str] = []
    added: list[str] = []
    last = added
    in_hunk = False
    old_name = ""
    for line in lines:
        sign = line[0] if in_hunk else ""
        if sign == "+":
            removed.append(f"-{line[1:]}")
            last = removed
            continue
        if sign == "-":
            added.append(f"+{line[1:]}")
            last = added
            continue
        if sign == "\\":
            # After a line that is the same on both sides, the mark belongs to that line.
            if removed or added:
                last.append(line)
            else:
                yield line
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
            yield f"--- {_on_side(line[4:], 'a')}"
            yield f"+++ {_on_side(old_name, 'b')}"
        else:
            in_hunk = in_hunk or line.startswith("@@ ")
            yield _reverse_header(line)
    yield from (*removed, *added)


def _on_side(name: str, side: str) -> str:
    return re.sub(r"^[ab]/", f"{side}/", name)


def _reverse_header(line: str) -> str:
    match = _HUNK.match(line)
    if match:
        before, after, text = match.groups()
        return f"@@ -{after} +{before} @@{text}\n"
    match = _DIFF_HEADER.match(line.rstrip("\n"))
    if match:
        return f"diff --git {_on_side(match[2], 'a')} {_on_side(match[1], 'b')}\n"
    if line.startswith("index ") and ".." in line:
        before, _, after = line[6:].partition("..")
        after, space, mode = after.rstrip("\n").partition(" ")
        return f"index {after}..{before}{space}{mode}\n"
    for start, opposite in _OPPOSITE_HEADERS.items():
        if line.startswith(f"{start} "):
            return opposite + line[len(start) :]
    return line
