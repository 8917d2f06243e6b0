"""Apply the edits of a reply to texts; all formats share this."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from agent.formats.base import (
    ApplyReport,
    DeleteFile,
    Edit,
    EditFormat,
    EditResult,
    Fault,
    MoveFile,
    Reader,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from agent.formats.matching.explain import explain_ambiguity, explain_mismatch
from agent.formats.matching.lines import final_newline, to_lines, to_text
from agent.formats.matching.place_edits import Placement, place_edits
from agent.formats.reading.fences import STRAY_MARKER, writes_markers
from agent.workspace import ForeignPathError, UnsafePathError, Workspace

# A comment that stands for lines of the file.
_ELISION = re.compile(
    r"^\s*(?:(?:#|//|/\*|<!--|--|;|%|\"\"\")\W{0,9}(?:\.\.\.|…|.{0,40}\b(?:rest|remain(?:s|ing|der)?|unchanged"
    r"|existing|previous|omitted|as before|same as|other (?:code|methods|functions|classes))\b)"
    r"|[\[(]?(?:\.\.\.|…))",
    re.IGNORECASE,
)
# The search for the nearest lines takes time, and more reports do not help the model.
_MAX_EXPLAINED = 20
# The search for an edit reads its whole file. No recorded reply has a tenth of this.
MAX_EDITS = 500


class EngineFormat(EditFormat):
    """A format whose edits ``apply_edits`` applies."""

    def apply(
        self,
        edits: Sequence[Edit],
        read: Reader,
        chat: Sequence[str],
    ) -> ApplyReport:
        return apply_edits(edits, read)


def apply_edits(edits: Sequence[Edit], read: Reader) -> ApplyReport:
    """Apply ``edits`` in order to the texts that ``read`` returns, and report on each."""
    seen: dict[str, str | None] = {}

    def read_once(path: str) -> str | None:
        if path not in seen:
            seen[path] = read(path)
        return seen[path]

    session = _Session(read_once)
    results: list[EditResult] = []
    for _, group in groupby(edits[:MAX_EDITS], key=type):
        run = list(group)
        blocks = [edit for edit in run if isinstance(edit, SearchReplace)]
        if blocks:
            results += session.apply_blocks(blocks)
        else:
            results += map(session.apply_single, run)
    for edit in edits[MAX_EDITS:]:
        results.append(too_many_edits(edit.path))
    contents: dict[str, str | None] = {}
    for path, text in session.texts.items():
        if text != read_once(path):
            contents[path] = text
    moved = {new: old for new, old in session.moved.items() if new in contents}
    return ApplyReport(contents, tuple(results), moved)


@dataclass
class _Session:
    """The texts of files while the edits of a reply are applied.

    Attributes:
        failing: the files of blocks that failed.
        explained: the number of failed blocks.
    """

    read: Reader
    texts: dict[str, str | None] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    explained: int = 0

    def apply_blocks(self, edits: Sequence[SearchReplace]) -> list[EditResult]:
        """Apply consecutive blocks; those of one file are placed together."""
        results: dict[int, EditResult] = {}
        for path in dict.fromkeys(edit.path for edit in edits):
            searches: dict[int, SearchReplace] = {}
            for number, edit in enumerate(edits):
                if edit.path != path:
                    continue
                if _looks_for_lines(edit, self._current(path)):
                    searches[number] = edit
                else:
                    results[number] = self._apply_empty_search(edit)
            if searches:
                search_results = self._place(path, list(searches.values()))
                results.update(zip(searches, search_results, strict=True))
        for result in results.values():
            if not result.applied:
                self.failing.add(result.path)
        return [results[number] for number in range(len(edits))]

    def _place(self, path: str, edits: Sequence[SearchReplace]) -> list[EditResult]:
        text = self._current(path)
        if text is None:
            results = []
            for edit in edits:
                problem = explain_mismatch(path, edit.search, edit.replace, None)
                results.append(_failure(path, problem))
            return results
        lines = to_lines(text)
        blocks = place_edits(lines, edits)
        after = to_text(lines, text)
        if any(block.span for block in blocks):
            self.texts[path] = after
        return [self._block_result(block, after) for block in blocks]

    def _current(self, path: str) -> str | None:
        if path in self.texts:
            return self.texts[path]
        return self.read(path)

    def _finish(self, path: str, text: str | None) -> EditResult:
        self.texts[path] = text
        return EditResult(path, applied=True, landed_in=path)

    def apply_single(self, edit: Edit) -> EditResult:
        path = edit.path
        before = self._current(path)
        if isinstance(edit, Unreadable):
            return _failure(path, edit.problem, edit.fault)
        if isinstance(edit, WholeFile):
            problem = _doubt_about(edit, before)
            if problem:
                return _failure(path, problem)
            content = edit.content
            if before:
                content = final_newline(content, before)
            return self._finish(path, content)
        if before is None:
            return _failure(path, f"there is no file {path}.")
        if isinstance(edit, DeleteFile):
            if not _may_delete(edit, before):
                problem = f"{path} does not hold the lines that are to go."
                return _failure(path, problem)
            return self._finish(path, None)
        assert isinstance(edit, MoveFile)
        return self._move(edit, before)

    def _move(self, edit: MoveFile, text: str) -> EditResult:
        old = edit.path
        new = edit.to
        if old in self.failing:
            return _failure(old, f"{old} was not moved: an edit of it failed.")
        if self._current(new) is not None:
            return _failure(old, f"{old} cannot be moved: {new} is there already.")
        self.texts[old] = None
        self.texts[new] = text
        self.moved[new] = self.moved.get(old, old)
        return EditResult(old, applied=True, landed_in=new)

    def _block_result(self, block: Placement, text: str) -> EditResult:
        edit = block.edit
        path = edit.path
        if block.span is not None:
            step = block.step.value if block.step else ""
            return EditResult(path, applied=True, landed_in=path, step=step)
        if not block.searched:
            return too_many_edits(path)
        fault = Fault.AMBIGUOUS if block.matches else None
        self.explained += 1
        if self.explained > _MAX_EXPLAINED:
            problem = f"these lines are not in {path}, or not only once."
        elif block.matches:
            starts = [match.start for match in block.matches]
            problem = explain_ambiguity(path, edit.search, starts, text)
        elif edit.headers and not edit.search:
            header = edit.headers[-1].strip()
            problem = f"there is no line `{header}` in {path}, or not only one."
        else:
            problem = explain_mismatch(path, edit.search, edit.replace, text)
        return _failure(path, problem, fault)

    def _apply_empty_search(self, edit: SearchReplace) -> EditResult:
        before = self._current(edit.path)
        if before and not edit.appends:
            problem = (
                f"there are no lines to look for in {edit.path} (an empty SEARCH), but the file "
                "exists. Copy the lines that are to change, or to stand before the new ones"
            )
            if edit.blank_end:
                problem += (
                    ", or write before the block that it is appended to the file."
                )
            return _failure(edit.path, problem)
        text = before or ""
        if text and not text.endswith("\n"):
            text += "\n"
        text += edit.replace
        if before:
            text = final_newline(text, before)
        return self._finish(edit.path, text)


def _may_delete(edit: DeleteFile, text: str) -> bool:
    if edit.content is None:
        return True
    return to_lines(edit.content) == to_lines(text)


def _looks_for_lines(edit: SearchReplace, text: str | None) -> bool:
    """Return whether the edit has lines to find; blank lines count if they are the whole file."""
    if edit.search.strip() or edit.headers:
        return True
    if text is None:
        return False
    if text and edit.line is not None and not edit.search:
        return True
    if any(search.strip() for search, _ in edit.readings):
        return True
    if not edit.search or not text:
        return False
    return to_lines(edit.search) == to_lines(text)


def _doubt_about(edit: WholeFile, before: str | None) -> str:
    """Return why ``edit`` cannot be the complete new content of its file; empty if it can."""
    if edit.new:
        if before is None:
            return ""
        return f"{edit.path} is to be added, but it is there already."
    new = to_lines(edit.content)
    old = to_lines(before or "")
    if writes_markers(new, old):
        return STRAY_MARKER.format(edit.path)
    is_part = False
    if edit.likely and before != edit.content:
        is_part = edit.content.strip() in (before or "")
    new_size = sum(map(bool, new))
    old_size = sum(map(bool, old))
    shrank = 2 * new_size < old_size
    if shrank and not is_part:
        new_lines = set(new).difference(old)
        is_part = edit.likely or any(map(_ELISION.match, new_lines))
    if is_part:
        return (
            f"the content for {edit.path} is only a part of the file. Send the complete file, "
            "without comments that stand for lines."
        )
    return ""


def too_many_edits(path: str) -> EditResult:
    """Return the result of an edit that was not tried because too many came before it."""
    return _failure(
        path,
        "it was not tried, because the reply holds too many edits. Send it in the next reply.",
    )


def _failure(
    path: str,
    problem: str,
    fault: Fault | None = None,
) -> EditResult:
    return EditResult(path, applied=False, problem=problem, fault=fault)


def safe_edits(edits: Sequence[Edit], space: Workspace) -> list[Edit]:
    """Return ``edits`` with those of unsafe paths as ``Unreadable``."""
    return [_safe_edit(edit, space) for edit in edits]


def _safe_edit(edit: Edit, space: Workspace) -> Edit:
    if isinstance(edit, Unreadable):
        return edit
    try:
        space.check(edit.path)
        if isinstance(edit, MoveFile):
            space.check(edit.to)
    except UnsafePathError as error:
        is_foreign = isinstance(error, ForeignPathError)
        fault = Fault.FOREIGN if is_foreign else Fault.UNSAFE
        return Unreadable(edit.path, str(error), fault)
    return edit


def write_report(report: ApplyReport, space: Workspace) -> ApplyReport:
    """Write the new contents; edits of a file that cannot be written fail."""
    written: dict[str, str | None] = {}
    problems: dict[str, str] = {}
    # A move writes the new file and removes the old one in one step.
    groups: list[tuple[str, ...]] = list(report.moved.items())
    in_moves = {*report.moved, *report.moved.values()}
    for path in report.contents:
        if path not in in_moves:
            groups.append((path,))
    for group in groups:
        contents = {}
        for path in group:
            if path in report.contents:
                contents[path] = report.contents[path]
        try:
            space.write(contents, report.moved)
            written.update(contents)
        except UnsafePathError as error:
            problems.update(dict.fromkeys(group, str(error)))
    results = []
    for result in report.results:
        problem = problems.get(result.landed_in)
        if problem is not None:
            result = _failure(result.path, problem)
        results.append(result)
    return replace(report, contents=written, results=tuple(results))
