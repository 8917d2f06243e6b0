"""The function-call formats: ``whole-func`` (write_file) and ``diff-func`` (replace_lines)."""

from __future__ import annotations

import reprlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence

from swe_retry.agent.formats.apply import EngineFormat
from swe_retry.agent.formats.edits import Edit, SearchReplace, Unreadable, WholeFile
from swe_retry.agent.formats.matching.lines import to_lines, with_ends
from swe_retry.agent.formats.protocol import MalformedReplyError, ReplyScope
from swe_retry.agent.formats.reading.answer import answer_lines
from swe_retry.agent.formats.reading.calls import (
    PATH_NAMES,
    arguments_of,
    calls_of,
    first_of,
    text_of,
)
from swe_retry.agent.formats.reading.fences import STRAY_MARKER, writes_markers
from swe_retry.agent.formats.reading.names import (
    clean_name,
    resolve_existing,
    resolve_likely,
)
from swe_retry.agent.formats.text import edits_of
from swe_retry.agent.grammars import has_errors
from swe_retry.core.data import read_yaml
from swe_retry.core.jsontypes import JsonObject
from swe_retry.llm.chat import Reply, ToolCall


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
            # Its own path goes before that of the whole call.
            path = first_of(arguments | item, PATH_NAMES) or scope.only_file
            if isinstance(path, str) and path.strip():
                yield self._edit(clean_name(path), item, scope)
            else:
                yield Unreadable("", f"a call of {self.function} has no `path`.")

    def _arguments(self, call: ToolCall, scope: ReplyScope) -> JsonObject:
        names = (*PATH_NAMES, *self.lists, *self.contents, "explanation")
        try:
            return arguments_of(call, names)
        except MalformedReplyError:
            # Models with a code interpreter call ``python`` with bare code.
            if call.name != "python":
                raise
        return self._from_code(call.arguments, scope)

    @abstractmethod
    def _from_code(self, code: str, scope: ReplyScope) -> JsonObject:
        """Return the arguments that bare code stands for.

        Raises:
            MalformedReplyError: it could mean several things.
        """

    @abstractmethod
    def _edit(self, path: str, item: JsonObject, scope: ReplyScope) -> Edit: ...


class FunctionFormat2023(FunctionFormat):
    """A function format of 2023: one call with an explanation and a list of edits."""

    rules = "2023/format_"

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        for call in calls_of(reply):
            if call.name != self.function:
                raise MalformedReplyError(no_function(call.name, self.function))
        return super().parse(reply, scope)


def no_function(name: str, function: str) -> str:
    """Return the message about a call of the unknown function ``name``."""
    return f"there is no function {name}: call {function}."


_TOOLS: JsonObject = read_yaml(__file__, "tools.yaml")
_NAMES = _TOOLS["names"]
_CONTENT_NAMES = _NAMES["content"]


class WholeFunctionFormat(FunctionFormat):
    """Parse and apply calls of ``write_file``."""

    name = "whole-func"
    function = "write_file"
    contents = _CONTENT_NAMES
    lists = ("files",)
    tools = (_TOOLS["write_file"],)

    def _edit(self, path: str, item: JsonObject, scope: ReplyScope) -> Edit:
        content = text_of(first_of(item, _CONTENT_NAMES))
        if content is None:
            return Unreadable(
                path, f"the call of write_file for {path} has no `content`."
            )
        return WholeFile(resolve_likely(path, scope), content)

    def _from_code(self, code: str, scope: ReplyScope) -> JsonObject:
        candidates = list(scope.chat or scope.files)
        if len(candidates) != 1 or has_errors(candidates[0], code):
            raise MalformedReplyError(
                "There is no function python, and the code could be meant for several files or for "
                "none. Call write_file with `path` and `content`."
            )
        return {"path": candidates[0], "content": code}


class WholeFunctionFormat2023(FunctionFormat2023, WholeFunctionFormat):
    """``write_file`` with an explanation and a list of files."""

    tools = (_TOOLS["write_file_2023"],)


_OLD_NAMES = _NAMES["original_lines"]
_NEW_NAMES = _NAMES["updated_lines"]


class DiffFunctionFormat(FunctionFormat):
    """Parse and apply calls of ``replace_lines``."""

    name = "diff-func"
    function = "replace_lines"
    contents = (*_OLD_NAMES, *_NEW_NAMES)
    lists = ("edits", "replacements", "changes")
    tools = (_TOOLS["replace_lines"],)

    def _edit(self, path: str, item: JsonObject, scope: ReplyScope) -> Edit:
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

    def _from_code(self, code: str, scope: ReplyScope) -> JsonObject:
        raise MalformedReplyError(
            "There is no function python. Call replace_lines with `path`, `original_lines` and "
            "`updated_lines`."
        )


class DiffFunctionFormat2023(FunctionFormat2023, DiffFunctionFormat):
    """``replace_lines`` with an explanation and a list of edits, whose texts are lists of lines."""

    tools = (_TOOLS["replace_lines_2023"],)
