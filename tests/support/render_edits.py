"""Write the reply of a model that edits a file in an edit format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from swe_retry.agent.formats.diff import DiffFormat
from swe_retry.agent.formats.edits import Replacement, SearchReplace
from swe_retry.agent.formats.functions import (
    DiffFunctionFormat,
    FunctionFormat,
    FunctionFormat2023,
)
from swe_retry.agent.formats.matching.lines import (
    Lines,
    PlacingWork,
    to_lines,
    with_ends,
)
from swe_retry.agent.formats.matching.place_edits import place_edits
from swe_retry.agent.formats.protocol import EditFormat
from swe_retry.agent.formats.reading.fences import (
    USUAL_SIZE,
    marker_size,
    shortest_fence,
)
from swe_retry.agent.formats.reading.v4a import BEGIN, END
from swe_retry.agent.formats.text import PatchFormat, UnifiedDiffFormat
from swe_retry.llm.chat import Reply, ToolCall

_CONTEXT_LINES = 3


def render(
    form: EditFormat,
    path: str,
    before: str | None,
    after: str | None,
) -> Reply:
    """Return the reply that turns ``before`` into ``after`` (None: there is no file).

    Parsed and applied, it gives ``after``.
    """
    if isinstance(form, PatchFormat):
        return Reply(_v4a_patch(path, before, after))
    if isinstance(form, UnifiedDiffFormat):
        return Reply(_unified_diff(path, before, after))
    assert after is not None, f"{form.name} cannot delete a file"
    if isinstance(form, FunctionFormat):
        return Reply("", tool_calls=_calls(form, path, before or "", after))
    if isinstance(form, DiffFormat):
        return Reply("\n".join(_blocks(form, path, before or "", after)))
    fence = shortest_fence([after])
    if after and not after.endswith("\n"):
        after += "\n"
    return Reply(f"{path}\n{fence}\n{after}{fence}\n")


def _blocks(
    form: DiffFormat,
    path: str,
    before: str,
    after: str,
) -> Iterator[str]:
    for search, replace in _hunks(before, after):
        used = set(map(marker_size, f"{search}\n{replace}".split("\n")))
        size = USUAL_SIZE
        while size in used:
            size += 1
        fence = shortest_fence([search, replace])
        head = f"{fence}\n{path}" if form.path_inside else f"{path}\n{fence}"
        opening = f"{'<' * size} {form.marker_words[0]}"
        closing = f"{'>' * size} {form.marker_words[1]}"
        lines = f"{opening}\n{search}{'=' * size}\n{replace}{closing}"
        yield f"{head}\n{lines}\n{fence}\n"


def _calls(
    form: FunctionFormat,
    path: str,
    before: str,
    after: str,
) -> tuple[ToolCall, ...]:
    items: list[dict[str, Any]] = [{"path": path, "content": after}]
    is_old = isinstance(form, FunctionFormat2023)
    if isinstance(form, DiffFunctionFormat):
        items = []
        for search, replace in _hunks(before, after):
            items.append(
                {
                    "path": path,
                    "original_lines": to_lines(search) if is_old else search,
                    "updated_lines": to_lines(replace) if is_old else replace,
                }
            )
    if is_old:
        items = [{"explanation": "", form.lists[0]: items}]
    return tuple(ToolCall(form.function, json.dumps(item)) for item in items)


def _v4a_patch(path: str, before: str | None, after: str | None) -> str:
    if after is None:
        rows = [f"*** Delete File: {path}"]
    elif before is None:
        rows = [f"*** Add File: {path}"]
    else:
        rows = [f"*** Update File: {path}"]
    if after is not None and not to_lines(before or ""):
        rows += [f"+{line}" for line in to_lines(after)]
    elif after is not None:
        for search, replace in _hunks(before or "", after):
            rows += ["@@", *_marked_lines(search, replace)]
    return "\n".join([BEGIN, *rows, END, ""])


def _unified_diff(path: str, before: str | None, after: str | None) -> str:
    old = "/dev/null" if before is None else f"a/{path}"
    new = "/dev/null" if after is None else f"b/{path}"
    rows = [f"--- {old}", f"+++ {new}"]
    lines = to_lines(before or "")
    changes = _hunks(before or "", after or "")
    for search, replace in changes:
        removed = to_lines(search)
        added = to_lines(replace)
        first = _line_number(lines, removed)
        rows.append(f"@@ -{first},{len(removed)} +{first},{len(added)} @@")
        rows += _marked_lines(search, replace)
    if not changes:
        rows.append("")
    text = "\n".join(rows)
    fence = shortest_fence([text])
    return f"{fence}diff\n{text}\n{fence}\n"


def _line_number(lines: Lines, removed: Lines) -> int:
    """Return the first line of ``removed`` in ``lines``, counted from 1; 0 for none."""
    if removed:
        for start in range(len(lines)):
            if lines[start : start + len(removed)] == removed:
                return start + 1
    return 0


def _hunks(before: str, after: str) -> list[Replacement]:
    """Return (search, replace) for each change, with enough lines around to be unique.

    Applied in order they turn ``before`` into ``after``; where no lines around make a change
    unique, one hunk holds the whole text.
    """
    old = to_lines(before)
    new = to_lines(after)
    if old == new:
        return []
    if old:
        for context in (_CONTEXT_LINES, 4 * _CONTEXT_LINES):
            changes = _changes(old, new, context)
            if _leads_to(old, changes, new):
                return changes
    return [(with_ends(old), with_ends(new))]


def _changes(old: Lines, new: Lines, context: int) -> list[Replacement]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    changes = []
    for group in matcher.get_grouped_opcodes(context):
        _, old_start, _, new_start, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        search = with_ends(old[old_start:old_end])
        replace = with_ends(new[new_start:new_end])
        changes.append((search, replace))
    return changes


def _leads_to(old: Lines, changes: Sequence[Replacement], new: list[str]) -> bool:
    lines = list(old)
    edits = []
    for search, replace in changes:
        edits.append(SearchReplace("", search, replace, blank_end=True))
    blocks = place_edits(lines, edits, PlacingWork())
    return lines == new and all(block.span is not None for block in blocks)


def _marked_lines(search: str, replace: str) -> list[str]:
    """Return the lines of a hunk as a diff has them: `` `` kept, ``-`` old, ``+`` new."""
    old = to_lines(search)
    new = to_lines(replace)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    rows: list[str] = []
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            rows += [f" {line}" for line in old[first:last]]
            continue
        rows += [f"-{line}" for line in old[first:last]]
        rows += [f"+{line}" for line in new[start:end]]
    return rows
