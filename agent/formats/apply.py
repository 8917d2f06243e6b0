"""Apply the edits of a reply to texts; all formats share this."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby

from rapidfuzz.distance import Indel

from swe_retry.agent.formats.edits import (
    DeleteFile,
    Edit,
    Fault,
    MoveFile,
    Reader,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from swe_retry.agent.formats.matching.explain import explain_ambiguity, explain_mismatch
from swe_retry.agent.formats.matching.lines import (
    Lines,
    PlacingWork,
    bare_lines,
    final_newline,
    full_lines,
    starts_of,
    to_lines,
    to_text,
)
from swe_retry.agent.formats.matching.place_edits import Placement, place_edits
from swe_retry.agent.formats.protocol import EditFormat
from swe_retry.agent.formats.reading.fences import (
    MARKUP_SUFFIXES,
    STRAY_MARKER,
    fence_of,
    writes_markers,
)
from swe_retry.agent.formats.reading.listings import is_edit
from swe_retry.agent.formats.report import ApplyReport, EditResult
from swe_retry.agent.workspace import ForeignPathError, UnsafePathError, Workspace

# A comment that stands for lines of the file.
_ELISION = re.compile(
    r"^\s*(?:(?:#|//|/\*|<!--|--|;|%|\"\"\")\W{0,9}(?:\.\.\.|…|.{0,40}\b(?:rest|remain(?:s|ing|der)?|unchanged"
    r"|existing|previous|omitted|as before|same as|other (?:code|methods|functions|classes))\b)"
    r"|[\[(]?(?:\.\.\.|…))",
    re.IGNORECASE,
)
# Pairs of lines; the comparison of two files of 30,000 lines takes a tenth of a second.
_MAX_COMPARED = 10**9
# The search for the nearest lines takes time, and more reports do not help the model.
_MAX_EXPLAINED = 20
_LOOKS_TO_EXPLAIN = 3
# To split and join a text.
_LINES_PER_LOOK = 8
# The search for an edit reads its whole file. No recorded reply has a tenth of this.
MAX_EDITS = 500


class EngineFormat(EditFormat):
    """A format whose edits ``apply_edits`` applies."""

    def apply(
        self, edits: Sequence[Edit], read: Reader, chat: Sequence[str]
    ) -> ApplyReport:
        return apply_edits(edits, read)


def apply_edits(edits: Sequence[Edit], read: Reader) -> ApplyReport:
    """Apply ``edits`` in order to the texts that ``read`` returns, and report on each."""
    read_once = cache(read)
    session = _Session(read_once)
    results = []
    for _, group in groupby(edits[:MAX_EDITS], key=type):
        run = list(group)
        blocks = [edit for edit in run if isinstance(edit, SearchReplace)]
        if blocks:
            results += session.apply_blocks(blocks)
            continue
        for edit in run:
            if not session.is_quotation(edit):
                results.append(session.apply_single(edit))
    results += [too_many_edits(edit.path) for edit in edits[MAX_EDITS:]]
    contents = {}
    for path, text in session.texts.items():
        if text != read_once(path):
            contents[path] = text
    moved = {new: old for new, old in session.moved.items() if new in contents}
    return ApplyReport(contents, tuple(results), moved)


@dataclass
class _Session:
    """The texts of files while the edits of a reply are applied.

    Attributes:
        done: the edits that were applied.
        failing: the files of blocks that failed.
        explained: the number of failed blocks.
        work: what all blocks together may cost.
    """

    read: Reader
    texts: dict[str, str | None] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    done: set[Edit] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    explained: int = 0
    work: PlacingWork = field(default_factory=PlacingWork)

    def apply_blocks(self, edits: Sequence[SearchReplace]) -> list[EditResult]:
        """Apply consecutive blocks; those of one file are placed together."""
        results = {}
        for path in dict.fromkeys(edit.path for edit in edits):
            searches = {}
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
                results.append(EditResult(path, problem))
            return results
        if self.work.left < 0:
            left_over = [Placement(edit, [], given_up=True) for edit in edits]
            return [self._block_result(block, text) for block in left_over]
        lines = to_lines(text)
        self.work.left -= len(lines) // _LINES_PER_LOOK
        blocks = place_edits(lines, edits, self.work)
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
        return EditResult(path, landed_in=path)

    def is_quotation(self, edit: Edit) -> bool:
        """Return whether ``edit`` is no edit: its lines are the file's, or far less than it has."""
        if not isinstance(edit, Unreadable) or not edit.content:
            return False
        quoted = bare_lines(edit.content)
        original = self.read(edit.path)
        current = self._current(edit.path)
        for text in (original, current):
            lines = bare_lines(text or "")
            start = next(starts_of(lines, quoted), None)
            if start is not None or 2 * len(quoted) < len(lines):
                return True
        return False

    def apply_single(self, edit: Edit) -> EditResult:
        """Apply an edit that is not a block; one that was applied already is done."""
        is_done = isinstance(edit, DeleteFile | MoveFile) and edit in self.done
        if isinstance(edit, WholeFile) and edit.new:
            is_done = self._current(edit.path) == edit.content
        if is_done:
            return EditResult(edit.path, landed_in=edit.path)
        result = self._apply_single(edit)
        if result.applied:
            self.done.add(edit)
        return result

    def _apply_single(self, edit: Edit) -> EditResult:
        path = edit.path
        before = self._current(path)
        if isinstance(edit, Unreadable):
            return EditResult(path, edit.problem, edit.fault)
        if isinstance(edit, WholeFile):
            problem = _doubt_about(edit, before)
            if problem:
                return EditResult(path, problem)
            content = edit.content
            if before:
                content = final_newline(content, before)
            return self._finish(path, content)
        if before is None:
            return EditResult(path, f"there is no file {path}.")
        if isinstance(edit, DeleteFile):
            removed = to_lines(before if edit.content is None else edit.content)
            if removed != to_lines(before):
                problem = f"{path} does not hold the lines that are to go."
                return EditResult(path, problem)
            return self._finish(path, None)
        assert isinstance(edit, MoveFile)
        return self._move(edit, before)

    def _move(self, edit: MoveFile, text: str) -> EditResult:
        old = edit.path
        new = edit.to
        if old in self.failing:
            return EditResult(old, f"{old} was not moved: an edit of it failed.")
        if self._current(new) is not None:
            return EditResult(old, f"{old} cannot be moved: {new} is there already.")
        self.texts[old] = None
        self.texts[new] = text
        self.moved[new] = self.moved.get(old, old)
        return EditResult(old, landed_in=new)

    def _block_result(self, block: Placement, text: str) -> EditResult:
        edit = block.edit
        path = edit.path
        if block.span:
            step = block.step.value if block.step else ""
            return EditResult(path, landed_in=path, step=step)
        is_ambiguous = bool(block.matches) or block.given_up
        fault = Fault.AMBIGUOUS if is_ambiguous else None
        self.explained += 1
        if block.given_up:
            problem = (
                f"these lines, or lines like them, stand in too many places of {path} to look at "
                "each. Send fewer edits, and take lines that the file has once."
            )
        elif self.explained > _MAX_EXPLAINED or self.work.left < 0:
            problem = f"these lines are not in {path}, or not only once."
        elif block.matches:
            starts = [match.start for match in block.matches]
            problem = explain_ambiguity(path, edit.search, starts, text)
        elif edit.headers and not edit.search:
            header = edit.headers[-1].strip()
            problem = f"there is no line `{header}` in {path}, or not only one."
        else:
            # Each line of the file is looked at some times more.
            self.work.left -= _LOOKS_TO_EXPLAIN * text.count("\n")
            problem = explain_mismatch(path, edit.search, edit.replace, text)
        return EditResult(path, problem, fault)

    def _apply_empty_search(self, edit: SearchReplace) -> EditResult:
        before = self._current(edit.path)
        is_there = edit.appends and edit in self.done
        if before and (is_there or final_newline(edit.replace, before) == before):
            return EditResult(edit.path, landed_in=edit.path)
        self.done.add(edit)
        if before and not edit.appends:
            problem = (
                f"there are no lines to look for in {edit.path} (an empty SEARCH), but the file "
                "exists. Copy the lines that are to change, or to stand before the new ones"
            )
            if edit.blank_end:
                problem += (
                    ", or write before the block that it is appended to the file."
                )
            return EditResult(edit.path, problem)
        text = before or ""
        if text and not text.endswith("\n"):
            text += "\n"
        text += edit.replace
        if before:
            text = final_newline(text, before)
        return self._finish(edit.path, text)


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
    if _is_another_text(edit.path, new) and not _is_another_text(edit.path, old):
        return (
            f"the content for {edit.path} is an edit, or stands in a fence. Send the complete file "
            "itself."
        )
    is_part = _leaves_lines_out(old, new)
    if edit.likely and before != edit.content:
        is_part = is_part or edit.content.strip() in (before or "")
    new_size = sum(map(bool, new))
    old_size = sum(map(bool, old))
    shrank = 2 * new_size < old_size
    if is_part or (shrank and edit.likely):
        return (
            f"the content for {edit.path} is only a part of the file. Send the complete file, "
            "without comments that stand for lines."
        )
    return ""


def _is_another_text(path: str, lines: Lines) -> bool:
    """Return whether ``lines`` are a diff, or a fence with a file inside, which ``path`` is not."""
    full = full_lines(lines)
    if not path.endswith((".diff", ".patch")) and is_edit(full, 0, len(full)):
        return True
    if len(full) < 2 or path.endswith(MARKUP_SUFFIXES):
        return False
    first = fence_of(full[0])
    last = fence_of(full[-1])
    if not first or not last:
        return False
    return last[0].startswith(first[0]) and not last[1]


def _leaves_lines_out(old: Lines, new: Lines) -> bool:
    """Return whether a new comment stands where more lines of ``old`` are gone than are new."""
    added = set(new).difference(old)
    elisions = {line for line in added if _ELISION.match(line)}
    if not elisions:
        return False
    if elisions.issuperset(full_lines(new)):
        return True
    if len(old) * len(new) > _MAX_COMPARED:
        return len(new) < len(old)
    changes = Indel.opcodes(old, new)
    for is_equal, group in groupby(changes, key=lambda change: change.tag == "equal"):
        removed = []
        inserted = []
        for change in group:
            removed += full_lines(old[change.src_start : change.src_end])
            inserted += full_lines(new[change.dest_start : change.dest_end])
        is_shorter = not is_equal and len(inserted) < len(removed)
        if is_shorter and not elisions.isdisjoint(inserted):
            return True
    return False


def too_many_edits(path: str) -> EditResult:
    """Return the result of an edit that was not tried because too many came before it."""
    return EditResult(
        path,
        "it was not tried, because the reply holds too many edits. Send it in the next reply.",
    )


def safe_edits(edits: Sequence[Edit], space: Workspace) -> list[Edit]:
    """Return ``edits`` with those of unsafe paths as ``Unreadable``."""
    safe: list[Edit] = []
    for edit in edits:
        try:
            if not isinstance(edit, Unreadable):
                space.check(edit.path)
            if isinstance(edit, MoveFile):
                space.check(edit.to)
        except UnsafePathError as error:
            is_foreign = isinstance(error, ForeignPathError)
            fault = Fault.FOREIGN if is_foreign else Fault.UNSAFE
            edit = Unreadable(edit.path, str(error), fault)
        safe.append(edit)
    return safe


def write_report(report: ApplyReport, space: Workspace) -> ApplyReport:
    """Write the new contents; edits of a file that cannot be written fail."""
    problems = {}
    for group in report.groups:
        contents = {}
        for path in group:
            if path in report.contents:
                contents[path] = report.contents[path]
        try:
            space.write(contents, report.moved)
        except UnsafePathError as error:
            problems.update(dict.fromkeys(group, str(error)))
    return report.without(problems)
