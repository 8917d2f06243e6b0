"""The function-call formats: ``whole-func`` (write_file) and ``diff-func`` (replace_lines)."""

from __future__ import annotations

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
from agent.formats.reading.answer import answer_lines
from agent.formats.reading.calls import (
    PATH_NAMES,
    arguments_of,
    calls_of,
    first_of,
    text_of,
)
from agent.formats.reading.fences import STRAY_MARKER, writes_markers
from agent.formats.reading.names import clean_name, resolve_existing, resolve_likely
from agent.formats.text import edits_of
from agent.grammars import has_errors
from llm.chat import Reply, Tool, ToolCall

Arguments = Mapping[str, Any]


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
            return edits_of(self, [answer_lines(reply.content)], scope)
        edits: list[Edit] = []
        for call in calls:
            edits += self._call_edits(call, scope)
        return tuple(edits)

    def _call_edits(self, call: ToolCall, scope: ReplyScope) -> Iterator[Edit]:
        try:
            arguments = self._arguments(call, scope)
        except MalformedReplyError as error:
            yield Unreadable("", str(error))
            return
        is_expected = call.name in (self.function, "python")
        # Another function name counts only when the arguments are unambiguous.
        markers = (*PATH_NAMES, *self.lists)
        if not is_expected and first_of(arguments, markers) is None:
            yield Unreadable("", no_function(call.name, self.function))
            return
        items = first_of(arguments, self.lists)
        if not isinstance(items, list):
            items = [arguments]
        for item in items:
            if not isinstance(item, dict):
                problem = f"an edit of {self.function} is not an object: {reprlib.repr(item):.200}"
                yield Unreadable("", problem)
                continue
            path = _path_of(item, arguments)
            if isinstance(path, str) and path.strip():
                yield self._edit(clean_name(path), item, scope)
            else:
                yield Unreadable("", f"a call of {self.function} has no `path`.")

    def _arguments(self, call: ToolCall, scope: ReplyScope) -> Arguments:
        names = (*PATH_NAMES, *self.lists, *self.contents, "explanation")
        try:
            return arguments_of(call, names)
        except MalformedReplyError:
            # Models with a code interpreter call ``python`` with bare code.
            if call.name != "python":
                raise
        return self._from_code(call.arguments, scope)

    @abstractmethod
    def _from_code(self, code: str, scope: ReplyScope) -> Arguments:
        """Return the arguments that bare code stands for.

        Raises:
            MalformedReplyError: it could mean several things.
        """

    @abstractmethod
    def _edit(
        self,
        path: str,
        item: Arguments,
        scope: ReplyScope,
    ) -> Edit: ...


class FunctionFormat2023(FunctionFormat):
    """A function format of 2023: one call with an explanation and a list of edits."""

    rules = "2023/format_"

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        for call in calls_of(reply):
            if call.name != self.function:
                raise MalformedReplyError(no_function(call.name, self.function))
        return super().parse(reply, scope)


def _path_of(item: Arguments, arguments: Arguments) -> Any:  # noqa: ANN401 - JSON
    """Return the path of an edit: for each name, its own goes before that of the whole call."""
    for name in PATH_NAMES:
        for owner in (item, arguments):
            if name in owner:
                return owner[name]
    return None


def no_function(name: str, function: str) -> str:
    """Return the message about a call of the unknown function ``name``."""
    return f"there is no function {name}: call {function}."


def tool(
    name: str,
    description: str,
    arguments: Mapping[str, str],
) -> Tool:
    """Return the description of a function whose ``arguments`` are strings, all required."""
    properties = {}
    for key, text in arguments.items():
        properties[key] = {"type": "string", "description": text}
    parameters = _object_schema(properties)
    return {"name": name, "description": description, "parameters": parameters}


def tool_2023(
    plain: Tool,
    description: str,
    several: str,
) -> Tool:
    """Return the function of 2023 with the arguments of ``plain`` in a list named ``several``."""
    string = {"type": "string"}
    text = [string, {"type": "array", "items": string}]
    properties = {}
    for key, schema in plain["parameters"]["properties"].items():
        if key != "path":
            schema = {"anyOf": text, "description": schema["description"]}
        properties[key] = schema
    explanation = {"type": "string", "description": "The changes and their reasons."}
    edits = {"type": "array", "items": _object_schema(properties)}
    parameters = _object_schema({"explanation": explanation, several: edits})
    return {"name": plain["name"], "description": description, "parameters": parameters}


def _object_schema(properties: Arguments) -> Arguments:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_CONTENT_NAMES = (
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
    contents = _CONTENT_NAMES
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

    def _edit(
        self,
        path: str,
        item: Arguments,
        scope: ReplyScope,
    ) -> Edit:
        content = text_of(first_of(item, _CONTENT_NAMES))
        if content is None:
            return Unreadable(
                path, f"the call of write_file for {path} has no `content`."
            )
        return WholeFile(resolve_likely(path, scope), content)

    def _from_code(self, code: str, scope: ReplyScope) -> Arguments:
        candidates = list(scope.chat or scope.files)
        if len(candidates) != 1 or has_errors(candidates[0], code):
            raise MalformedReplyError(
                "There is no function python, and the code could be meant for several files or for "
                "none. Call write_file with `path` and `content`."
            )
        return {"path": candidates[0], "content": code}


class WholeFunctionFormat2023(FunctionFormat2023, WholeFunctionFormat):
    """``write_file`` with an explanation and a list of files."""

    tools = (
        tool_2023(
            WholeFunctionFormat.tools[0],
            "Create files, or replace their content.",
            "files",
        ),
    )


_OLD_NAMES = (
    "original_lines",
    "original",
    "search",
    "old",
    "old_lines",
    "old_string",
    "old_str",
)
_NEW_NAMES = (
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
    contents = (*_OLD_NAMES, *_NEW_NAMES)
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

    def _edit(
        self,
        path: str,
        item: Arguments,
        scope: ReplyScope,
    ) -> Edit:
        old = text_of(first_of(item, _OLD_NAMES))
        new = text_of(first_of(item, _NEW_NAMES))
        if old is None or new is None:
            missing = "original_lines" if old is None else "updated_lines"
            return Unreadable(
                path, f"the call of replace_lines for {path} has no `{missing}`."
            )
        old_lines = old.split("\n")
        if writes_markers(new.split("\n"), old_lines):
            return Unreadable(path, STRAY_MARKER.format(path))
        if old.strip():
            path = resolve_existing(path, scope)
        search = with_ends(to_lines(old))
        replace = with_ends(to_lines(new))
        return SearchReplace(path, search, replace)

    def _from_code(self, code: str, scope: ReplyScope) -> Arguments:
        raise MalformedReplyError(
            "There is no function python. Call replace_lines with `path`, `original_lines` and "
            "`updated_lines`."
        )


class DiffFunctionFormat2023(FunctionFormat2023, DiffFunctionFormat):
    """``replace_lines`` with an explanation and a list of edits, whose texts are lists of lines."""

    tools = (
        tool_2023(
            DiffFunctionFormat.tools[0],
            "Replace runs of whole lines of files by others.",
            "edits",
        ),
    )
