"""The function-call formats: ``whole-func`` (write_file) and ``diff-func`` (replace_lines)."""

from __future__ import annotations

import json
import reprlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.formats.apply import EngineFormat
from agent.formats.base import (
    Edit,
    MalformedReplyError,
    ReplyScope,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from agent.formats.matching.lines import to_lines, with_ends
from agent.formats.matching.place_edits import hunks
from agent.formats.reading.calls import (
    PATH_NAMES,
    arguments_of,
    calls_of,
    first_of,
    text_of,
)
from agent.formats.reading.fences import STRAY, writes_markers
from agent.formats.reading.names import clean_name, resolve_existing, resolve_likely
from agent.formats.text import edits_of, lines_of
from agent.grammars import has_errors
from llm.chat import Reply, Tool, ToolCall


class FunctionFormat(EngineFormat):
    """Edits as calls of one function, with one edit or a list of edits each."""

    function: str
    """The function's name."""
    contents: tuple[str, ...]
    """Names of the arguments that hold text, the documented one first."""
    lists: tuple[str, ...]
    """Names of an argument that holds a list of edits, the documented one first."""

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        calls = calls_of(reply)
        if not calls:
            return edits_of(self, reply, [lines_of(reply)], scope)
        return tuple(edit for call in calls for edit in self._call(call, scope))

    def _call(self, call: ToolCall, scope: ReplyScope) -> Iterator[Edit]:
        names = (*PATH_NAMES, *self.lists, *self.contents, "explanation")
        arguments: Mapping[str, Any]
        try:
            try:
                arguments = arguments_of(call, names)
            except MalformedReplyError:
                # Models with a code interpreter call ``python`` with bare code.
                if call.name != "python":
                    raise
                arguments = self._from_code(call.arguments, scope)
        except MalformedReplyError as error:
            yield Unreadable("", str(error))
            return
        known = call.name in (self.function, "python")
        # Another function name counts only when the arguments are unambiguous.
        if not known and first_of(arguments, (*PATH_NAMES, *self.lists)) is None:
            yield Unreadable("", no_function(call.name, self.function))
            return
        several = first_of(arguments, self.lists)
        for item in several if isinstance(several, list) else [arguments]:
            if not isinstance(item, dict):
                problem = f"an edit of {self.function} is not an object: {reprlib.repr(item):.200}"
                yield Unreadable("", problem)
                continue
            paths = (
                own[name]
                for name in PATH_NAMES
                for own in (item, arguments)
                if name in own
            )
            given = next(paths, None)
            if isinstance(given, str) and given.strip():
                yield self._edit(clean_name(given), item, scope)
            else:
                yield Unreadable("", f"a call of {self.function} has no `path`.")

    @abstractmethod
    def _from_code(self, code: str, scope: ReplyScope) -> Mapping[str, Any]:
        """Return the arguments that bare code stands for.

        Raises:
            MalformedReplyError: it could mean several things.
        """

    @abstractmethod
    def _edit(self, path: str, item: Mapping[str, Any], scope: ReplyScope) -> Edit: ...

    @abstractmethod
    def _arguments_for(
        self, path: str, before: str | None, after: str
    ) -> Sequence[Mapping[str, object]]: ...

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        items = self._arguments_for(path, before, self._existing(after))
        return Reply("", tool_calls=tuple(map(self._written, items)))

    def _existing(self, after: str | None) -> str:
        if after is None:
            raise ValueError(f"{self.function} cannot delete a file")
        return after

    def _written(self, arguments: Mapping[str, object]) -> ToolCall:
        return ToolCall(self.function, json.dumps(arguments))


class FunctionFormat2023(FunctionFormat):
    """A function format of 2023: one call with an explanation and a list of edits."""

    rules = "2023/format_"

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        for call in calls_of(reply):
            if call.name != self.function:
                raise MalformedReplyError(no_function(call.name, self.function))
        return super().parse(reply, scope)

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        items = self._arguments_for(path, before, self._existing(after))
        return Reply(
            "", tool_calls=(self._written({"explanation": "", self.lists[0]: items}),)
        )


def no_function(name: str, function: str) -> str:
    """Return the message about a call of the unknown function ``name``."""
    return f"there is no function {name}: call {function}."


def tool(name: str, description: str, arguments: Mapping[str, str]) -> Tool:
    """Return the description of a function whose ``arguments`` are strings, all required."""
    properties = {
        key: {"type": "string", "description": what} for key, what in arguments.items()
    }
    return {"name": name, "description": description, "parameters": _object(properties)}


def tool_2023(plain: Tool, description: str, several: str) -> Tool:
    """Return the function of 2023 with the arguments of ``plain`` in a list named ``several``."""
    text = [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
    properties = {
        key: said
        if key == "path"
        else {"anyOf": text, "description": said["description"]}
        for key, said in plain["parameters"]["properties"].items()
    }
    explanation = {"type": "string", "description": "The changes and their reasons."}
    edits = {"type": "array", "items": _object(properties)}
    parameters = _object({"explanation": explanation, several: edits})
    return {"name": plain["name"], "description": description, "parameters": parameters}


def _object(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_CONTENT = (
    "content",
    "contents",
    "text",
    "code",
    "new_content",
    "file_content",
    "body",
)


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
            return Unreadable(
                path, f"the call of write_file for {path} has no `content`."
            )
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
        tool_2023(
            WholeFunctionFormat.tools[0],
            "Create files, or replace their content.",
            "files",
        ),
    )


_OLD = (
    "original_lines",
    "original",
    "search",
    "old",
    "old_lines",
    "old_string",
    "old_str",
)
_NEW = (
    "updated_lines",
    "updated",
    "replace",
    "new",
    "new_lines",
    "new_string",
    "new_str",
)


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
            return Unreadable(
                path, f"the call of replace_lines for {path} has no `{missing}`."
            )
        if writes_markers(new.split("\n"), old.split("\n")):
            return Unreadable(path, STRAY.format(path))
        if old.strip():
            path = resolve_existing(path, scope)
        return SearchReplace(path, with_ends(to_lines(old)), with_ends(to_lines(new)))

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
            DiffFunctionFormat.tools[0],
            "Replace runs of whole lines of files by others.",
            "edits",
        ),
    )

    def _arguments_for(
        self, path: str, before: str | None, after: str
    ) -> Sequence[Mapping[str, object]]:
        return [
            {
                "path": path,
                "original_lines": to_lines(search),
                "updated_lines": to_lines(replace),
            }
            for search, replace in hunks(before or "", after)
        ]
