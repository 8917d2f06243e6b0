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
from agent.formats.reading.fences import STRAY, writes_markers
from agent.workspace import ForeignPathError, UnsafePathError, Workspace

# A comment that stands for lines of the file.
_ELISION = re.compile(
    r"^\s*(?:(?:#|//|/\*|<!--|--|;|%|\"\"\")\W{0,9}(?:\.\.\.|…|.{0,40}\b(?:rest|remain(?:s|ing|der)?|unchanged"
    r"|existing|previous|omitted|as before|same as|other (?:code|methods|functions|classes))\b)"
    r"|[\[(]?(?:\.\.\.|…))",
    re.IGNORECASE,
)
Numbered = tuple[int, Edit]

# The search for the nearest lines takes time, and more reports do not help the model.
_MOST_EXPLAINED = 20
# The search for an edit reads its whole file. No recorded reply has a tenth of this.
MOST_EDITS = 500


class EngineFormat(EditFormat):
    """A format whose edits ``apply_edits`` applies."""

    def apply(
        self, edits: Sequence[Edit], read: Reader, chat: Sequence[str]
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
    results = {
        number: too_many(edit.path)
        for number, edit in enumerate(edits)
        if number >= MOST_EDITS
    }
    numbered = enumerate(edits[:MOST_EDITS])
    for blocks, run in groupby(
        numbered, lambda pair: isinstance(pair[1], SearchReplace)
    ):
        if blocks:
            results.update(session.replace(list(run)))
        else:
            results.update((number, session.single(edit)) for number, edit in run)
    changed = {
        path: text for path, text in session.texts.items() if text != read_once(path)
    }
    ordered = tuple(results[number] for number in range(len(edits)))
    moved = {to: path for to, path in session.moved.items() if to in changed}
    return ApplyReport(changed, ordered, moved)


@dataclass
class _Session:
    read: Reader
    texts: dict[str, str | None] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    explained: int = 0

    def replace(self, run: Sequence[Numbered]) -> dict[int, EditResult]:
        """Apply consecutive blocks; those of one file are placed together."""
        results: dict[int, EditResult] = {}
        for path in dict.fromkeys(edit.path for _, edit in run):
            rest: list[tuple[int, SearchReplace]] = []
            for number, edit in run:
                if not isinstance(edit, SearchReplace) or edit.path != path:
                    continue
                if _looks_for_lines(edit, self._current(path)):
                    rest.append((number, edit))
                else:
                    results[number] = self._empty_search(edit)
            text = self._current(path)
            if text is None:
                for number, edit in rest:
                    why = explain_mismatch(path, edit.search, edit.replace, None)
                    results[number] = _refused(path, why)
            elif rest:
                lines = to_lines(text)
                blocks = place_edits(lines, [edit for _, edit in rest])
                after = to_text(lines, text)
                for (number, _), block in zip(rest, blocks, strict=True):
                    results[number] = self._result(block, after)
                if any(block.span for block in blocks):
                    self.texts[path] = after
        self.failing |= {
            result.path for result in results.values() if not result.applied
        }
        return results

    def _current(self, path: str) -> str | None:
        return self.texts[path] if path in self.texts else self.read(path)

    def _done(self, path: str, text: str | None) -> EditResult:
        self.texts[path] = text
        return EditResult(path, applied=True, landed_in=path)

    def single(self, edit: Edit) -> EditResult:
        before = self._current(edit.path)
        if isinstance(edit, Unreadable):
            return _refused(edit.path, edit.problem, edit.fault)
        if isinstance(edit, WholeFile):
            if problem := _doubt(edit, before):
                return _refused(edit.path, problem)
            content = final_newline(edit.content, before) if before else edit.content
            return self._done(edit.path, content)
        if before is None:
            return _refused(edit.path, f"there is no file {edit.path}.")
        if isinstance(edit, DeleteFile):
            if edit.content is not None and to_lines(edit.content) != to_lines(before):
                return _refused(
                    edit.path, f"{edit.path} does not hold the lines that are to go."
                )
            return self._done(edit.path, None)
        to = edit.to if isinstance(edit, MoveFile) else edit.path
        if edit.path in self.failing:
            return _refused(
                edit.path, f"{edit.path} was not moved: an edit of it failed."
            )
        if self._current(to) is not None:
            return _refused(
                edit.path, f"{edit.path} cannot be moved: {to} is there already."
            )
        self.texts[edit.path], self.texts[to] = None, before
        self.moved[to] = self.moved.get(edit.path, edit.path)
        return EditResult(edit.path, applied=True, landed_in=to)

    def _result(self, block: Placement, text: str) -> EditResult:
        edit = block.edit
        if block.span is not None:
            step = block.step.value if block.step else ""
            return EditResult(edit.path, applied=True, landed_in=edit.path, step=step)
        if not block.looked:
            return too_many(edit.path)
        fault = Fault.AMBIGUOUS if block.found else None
        self.explained += 1
        if self.explained > _MOST_EXPLAINED:
            problem = f"these lines are not in {edit.path}, or not only once."
            return _refused(edit.path, problem, fault)
        if block.found:
            starts = [place.start for place in block.found]
            problem = explain_ambiguity(edit.path, edit.search, starts, text)
            return _refused(edit.path, problem, fault)
        if edit.headers and not edit.search:
            header = edit.headers[-1].strip()
            return _refused(
                edit.path,
                f"there is no line `{header}` in {edit.path}, or not only one.",
            )
        return _refused(
            edit.path, explain_mismatch(edit.path, edit.search, edit.replace, text)
        )

    def _empty_search(self, edit: SearchReplace) -> EditResult:
        before = self._current(edit.path)
        if before and not edit.appends:
            return _refused(
                edit.path,
                f"there are no lines to look for in {edit.path} (an empty SEARCH), but the file "
                "exists. Copy the lines that are to change, or to stand before the new ones"
                + (
                    ", or write before the block that it is appended to the file."
                    * edit.blank_end
                ),
            )
        joint = "\n" if before and not before.endswith("\n") else ""
        text = (before or "") + joint + edit.replace
        return self._done(edit.path, final_newline(text, before) if before else text)


def _looks_for_lines(edit: SearchReplace, text: str | None) -> bool:
    """Return whether the edit has lines to find; blank lines count if they are the whole file."""
    if edit.search.strip() or edit.headers:
        return True
    if text and edit.line is not None and not edit.search:
        return True
    if text is not None and any(search.strip() for search, _ in edit.readings):
        return True
    return bool(edit.search and text) and to_lines(edit.search) == to_lines(text or "")


def _doubt(edit: WholeFile, before: str | None) -> str:
    """Return why ``edit`` cannot be the complete new content of its file; empty if it can."""
    if edit.new:
        there = f"{edit.path} is to be added, but it is there already."
        return there if before is not None else ""
    new, old = to_lines(edit.content), to_lines(before or "")
    if writes_markers(new, old):
        return STRAY.format(edit.path)
    shrank = 2 * sum(map(bool, new)) < sum(map(bool, old))
    part = (
        edit.likely
        and before != edit.content
        and edit.content.strip() in (before or "")
    )
    if part or (
        shrank and (edit.likely or any(map(_ELISION.match, set(new).difference(old))))
    ):
        return (
            f"the content for {edit.path} is only a part of the file. Send the complete file, "
            "without comments that stand for lines."
        )
    return ""


def too_many(path: str) -> EditResult:
    """Return the result of an edit that was not tried because too many came before it."""
    return _refused(
        path,
        "it was not tried, because the reply holds too many edits. Send it in the next reply.",
    )


def _refused(path: str, problem: str, fault: Fault | None = None) -> EditResult:
    return EditResult(path, applied=False, problem=problem, fault=fault)


def safe_edits(edits: Sequence[Edit], space: Workspace) -> list[Edit]:
    """Return ``edits`` with those of unsafe paths as ``Unreadable``."""
    safe: list[Edit] = []
    for edit in edits:
        checked = edit
        if not isinstance(edit, Unreadable):
            try:
                for path in (
                    edit.path,
                    *([edit.to] if isinstance(edit, MoveFile) else []),
                ):
                    space.check(path)
            except UnsafePathError as error:
                foreign = isinstance(error, ForeignPathError)
                fault = Fault.FOREIGN if foreign else Fault.UNSAFE
                checked = Unreadable(edit.path, str(error), fault)
        safe.append(checked)
    return safe


def write_report(report: ApplyReport, space: Workspace) -> ApplyReport:
    """Write the new contents; edits of a file that cannot be written fail."""
    written: dict[str, str | None] = {}
    refused: dict[str, str] = {}
    # A move writes the new file and removes the old one in one step.
    groups = [(to, old) for to, old in report.moved.items()]
    single = [
        (path,)
        for path in report.contents
        if not any(path in group for group in groups)
    ]
    for paths in (*groups, *single):
        part = {
            path: report.contents[path] for path in paths if path in report.contents
        }
        try:
            space.write(part, report.moved)
            written.update(part)
        except UnsafePathError as error:
            refused.update(dict.fromkeys(paths, str(error)))
    results = tuple(
        EditResult(result.path, applied=False, problem=refused[result.landed_in])
        if result.landed_in in refused
        else result
        for result in report.results
    )
    return replace(report, contents=written, results=results)
