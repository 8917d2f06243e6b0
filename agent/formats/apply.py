"""Carry out the edits of a reply on texts: the part that all formats share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from agent.formats.base import (
    ApplyReport,
    DeleteFile,
    Edit,
    EditResult,
    MoveFile,
    Reader,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from agent.formats.explain import explain_ambiguity, explain_mismatch
from agent.formats.lines import final_newline, to_lines, to_text
from agent.formats.settle import Block, settle

Numbered = tuple[int, Edit]


def apply_edits(edits: Sequence[Edit], read: Reader) -> ApplyReport:
    """Carry out ``edits`` in order on the texts that ``read`` gives, and report on each."""
    session = _Session(read)
    results: dict[int, EditResult] = {}
    for run in _runs(edits):
        results.update(session.run(run))
    changed = {path: text for path, text in session.texts.items() if text != read(path)}
    ordered = tuple(results[number] for number in range(len(edits)))
    moved = {to: path for to, path in session.moved.items() if to in changed}
    return ApplyReport(changed, ordered, moved)


def _runs(edits: Sequence[Edit]) -> Iterator[list[Numbered]]:
    """Yield the edits one by one, but all neighbouring blocks together."""
    for blocks, run in groupby(enumerate(edits), lambda pair: isinstance(pair[1], SearchReplace)):
        if blocks:
            yield list(run)
        else:
            yield from ([pair] for pair in run)


@dataclass
class _Session:
    """The texts as the edits so far have left them."""

    read: Reader
    texts: dict[str, str | None] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)

    def run(self, run: Sequence[Numbered]) -> dict[int, EditResult]:
        number, edit = run[0]
        if not isinstance(edit, SearchReplace):
            return {number: self._single(edit)}
        results: dict[int, EditResult] = {}
        paths = dict.fromkeys(edit.path for _, edit in run)
        for path in paths:
            own = [(n, e) for n, e in run if isinstance(e, SearchReplace) and e.path == path]
            results.update(self._blocks(path, own))
        return results

    def _current(self, path: str) -> str | None:
        return self.texts[path] if path in self.texts else self.read(path)

    def _done(self, path: str, text: str | None, landed_in: str = "") -> EditResult:
        self.texts[path] = text
        return EditResult(path, applied=True, landed_in=landed_in or path)

    def _single(self, edit: Edit) -> EditResult:
        before = self._current(edit.path)
        if isinstance(edit, Unreadable):
            return EditResult(edit.path, applied=False, problem=edit.problem)
        if isinstance(edit, WholeFile):
            if edit.new and before is not None:
                return _refused(edit.path, f"{edit.path} is to be added, but it is there already.")
            content = final_newline(edit.content, before) if before else edit.content
            return self._done(edit.path, content)
        if before is None:
            return _refused(edit.path, f"there is no file {edit.path}.")
        if isinstance(edit, DeleteFile):
            return self._done(edit.path, None)
        return self._move(edit, before)

    def _move(self, edit: Edit, text: str) -> EditResult:
        to = edit.to if isinstance(edit, MoveFile) else edit.path
        if self._current(to) is not None:
            return _refused(edit.path, f"{edit.path} cannot be moved: {to} is there already.")
        self.texts[edit.path], self.texts[to] = None, text
        self.moved[to] = self.moved.get(edit.path, edit.path)
        return EditResult(edit.path, applied=True, landed_in=to)

    def _blocks(
        self, path: str, numbered: Sequence[tuple[int, SearchReplace]]
    ) -> dict[int, EditResult]:
        results: dict[int, EditResult] = {}
        rest = []
        for number, edit in numbered:
            if edit.search.strip() or edit.headers or _is_all(edit.search, self._current(path)):
                rest.append((number, edit))
            else:
                results[number] = self._empty_search(edit)
        text = self._current(path)
        if rest and text is None:
            why = explain_mismatch
            return results | {
                n: _refused(path, why(path, e.search, e.replace, None)) for n, e in rest
            }
        if rest and text is not None:
            lines = to_lines(text)
            blocks = settle(lines, [edit for _, edit in rest])
            after = to_text(lines, text)
            results |= {n: _judged(b, after) for (n, _), b in zip(rest, blocks, strict=True)}
            if any(block.span for block in blocks):
                self.texts[path] = after
        return results

    def _empty_search(self, edit: SearchReplace) -> EditResult:
        """Create the file, or append to it where the reply says so."""
        before = self._current(edit.path)
        if before and not edit.appends:
            return _refused(
                edit.path,
                f"there are no lines to look for in {edit.path} (an empty SEARCH), but the file "
                "exists. Copy the lines that are to change or to stand before the new ones, or "
                "write that the lines are to be appended at the end of the file.",
            )
        joint = "\n" if before and not before.endswith("\n") else ""
        text = (before or "") + joint + edit.replace
        return self._done(edit.path, final_newline(text, before) if before else text)


def _is_all(search: str, text: str | None) -> bool:
    """Tell whether ``search``, blank as it is, is all that the file has."""
    return bool(search and text) and to_lines(search) == to_lines(text or "")


def _refused(path: str, problem: str) -> EditResult:
    return EditResult(path, applied=False, problem=problem)


def _judged(block: Block, text: str) -> EditResult:
    edit = block.edit
    if block.span is not None:
        step = block.step.value if block.step else ""
        return EditResult(edit.path, applied=True, landed_in=edit.path, step=step)
    if block.found:
        starts = [place.start for place in block.found]
        return _refused(edit.path, explain_ambiguity(edit.path, edit.search, starts, text))
    return _refused(edit.path, explain_mismatch(edit.path, edit.search, edit.replace, text))
