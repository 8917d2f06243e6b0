"""The ``diff-func`` format: lines and their replacement, as a call of ``replace_lines``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.formats.base import Edit, MalformedReplyError, ReplyScope, SearchReplace, Unreadable
from agent.formats.functions import FunctionFormat, FunctionFormat2023, tool, tool_2023
from agent.formats.matching.hunks import hunks
from agent.formats.reading.calls import first_of, text_of
from agent.formats.reading.markers import STRAY, writes_markers
from agent.formats.reading.names import resolve_existing

_OLD = ("original_lines", "original", "search", "old", "old_lines", "old_string", "old_str")
_NEW = ("updated_lines", "updated", "replace", "new", "new_lines", "new_string", "new_str")


class DiffFunctionFormat(FunctionFormat):
    """Parse and apply calls of ``replace_lines``."""

    name = "diff-func"
    function = "replace_lines"
    contents = (*_OLD, *_NEW)
    lists = ("edits", "replacements", "changes")
    tools = (
        tool(
            "replace_lines",
            "Replace a run of whole lines of a file with others. Call it once for each place.",
            {
                "path": "Path of the file, relative to the repository's root.",
                "original_lines": "The lines as they are in the file now, copied exactly, enough "
                "of them to be unique. Empty to create a file.",
                "updated_lines": "The lines that take their place. Empty to delete them.",
            },
        ),
    )

    def _edit(self, path: str, item: Mapping[str, Any], scope: ReplyScope) -> Edit:
        old, new = text_of(first_of(item, _OLD)), text_of(first_of(item, _NEW))
        if old is None or new is None:
            missing = "original_lines" if old is None else "updated_lines"
            return Unreadable(path, f"the call of replace_lines for {path} has no `{missing}`.")
        if writes_markers(new.split("\n"), old.split("\n")):
            return Unreadable(path, STRAY.format(path))
        if old.strip():
            path = resolve_existing(path, scope)
        return SearchReplace(path, _ended(old), _ended(new))

    def _from_code(self, code: str, scope: ReplyScope) -> Mapping[str, Any]:
        raise MalformedReplyError(
            "There is no function python. Call replace_lines with `path`, `original_lines` and "
            "`updated_lines`."
        )

    def _arguments_for(
        self, path: str, before: str | None, after: str
    ) -> Sequence[Mapping[str, object]]:
        return [
            {"path": path, "original_lines": search, "updated_lines": replace}
            for search, replace in hunks(before or "", after)
        ]


class DiffFunctionFormat2023(FunctionFormat2023, DiffFunctionFormat):
    """``replace_lines`` with an explanation and a list of edits, whose texts are lists of lines."""

    tools = (
        tool_2023(
            DiffFunctionFormat.tools[0], "Replace runs of whole lines of files by others.", "edits"
        ),
    )

    def _arguments_for(
        self, path: str, before: str | None, after: str
    ) -> Sequence[Mapping[str, object]]:
        return [
            {"path": path, "original_lines": _lines(search), "updated_lines": _lines(replace)}
            for search, replace in hunks(before or "", after)
        ]


def _lines(text: str) -> list[str]:
    return _ended(text).split("\n")[:-1]


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
