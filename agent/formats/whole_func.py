"""The ``whole-func`` format: each file in full, as a call of ``write_file``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.formats.base import Edit, MalformedReplyError, ReplyScope, Unreadable, WholeFile
from agent.formats.functions import FunctionFormat, FunctionFormat2023, tool, tool_2023
from agent.formats.reading.calls import first_of, text_of
from agent.formats.reading.names import resolve_likely
from agent.formats.reading.syntax import has_errors

_CONTENT = ("content", "contents", "text", "code", "new_content", "file_content", "body")


class WholeFunctionFormat(FunctionFormat):
    """Parse and apply calls of ``write_file``."""

    name = "whole-func"
    function = "write_file"
    contents = _CONTENT
    lists = ("files",)
    tools = (
        tool(
            "write_file",
            "Create a file, or replace the whole content of one that exists. Call it once for "
            "each file.",
            {
                "path": "Path of the file, relative to the repository's root.",
                "content": "The complete new content, from the first line to the last, never "
                "abbreviated.",
            },
        ),
    )

    def _edit(self, path: str, item: Mapping[str, Any], scope: ReplyScope) -> Edit:
        content = text_of(first_of(item, _CONTENT))
        if content is None:
            return Unreadable(path, f"the call of write_file for {path} has no `content`.")
        return WholeFile(resolve_likely(path, scope), content)

    def _from_code(self, code: str, scope: ReplyScope) -> Mapping[str, Any]:
        candidates = list(scope.chat or scope.known)
        if len(candidates) != 1 or has_errors(candidates[0], code):
            raise MalformedReplyError(
                "There is no function python, and the code could be meant for several files or for "
                "none. Call write_file with `path` and `content`."
            )
        return {"path": candidates[0], "content": code}

    def _arguments_for(
        self, path: str, before: str | None, after: str
    ) -> Sequence[Mapping[str, object]]:
        return [{"path": path, "content": after}]


class WholeFunctionFormat2023(FunctionFormat2023, WholeFunctionFormat):
    """``write_file`` with an explanation and a list of files."""

    tools = (
        tool_2023(WholeFunctionFormat.tools[0], "Create files, or replace their content.", "files"),
    )
