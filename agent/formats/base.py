"""Edits, the report on them, and the protocol of edit formats.

A format is pure: text in, values out. The coder reads and writes the files.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain

from swe_retry.agent.grammars import language_of
from swe_retry.core.plaintext import some
from swe_retry.llm.chat import Reply, Tool

Reader = Callable[[str], str | None]
"""Returns the text of a file with ``\\n`` line ends, None when there is no such file."""


class MalformedReplyError(ValueError):
    """A reply breaks its edit format; the message explains the error to the model."""


_MAX_EXPLAINED = 20
_MAX_LISTED = 500
# A longer file is not written into an example.
_MAX_EXAMPLE = 600
_MAX_LINE = 200
# Where the example is copied, this line fails as one that stands for others.
_CONTENT = (
    "... (the complete new content, from the first to the last line of the file)\n"
)


class Matching(StrEnum):
    """How the lines of an edit are found (docs/edit-formats.md)."""

    TOLERANT = "tolerant"
    REFERENCE = "reference"


class Notation(StrEnum):
    """The markers and functions that a format's instructions teach; all are always read.

    Those of 2023 are described in docs/edit-formats.md.
    """

    CURRENT = "current"
    OF_2023 = "2023"


class Fault(StrEnum):
    """Why an edit was not applied, where that is counted; its ``problem`` is for the model."""

    UNREADABLE = "unreadable"
    UNSAFE = "unsafe"
    FOREIGN = "foreign"
    AMBIGUOUS = "ambiguous"
    UNSEEN = "unseen"


class OnFailure(StrEnum):
    """Whether the good edits of a reply are kept when others fail."""

    KEEP = "keep"
    ROLL_BACK = "roll-back"


Replacement = tuple[str, str]
"""The old and the new lines of a change, as texts."""


@dataclass(frozen=True)
class SearchReplace:
    """Replace the lines ``search`` of the file ``path`` with ``replace`` (texts with newlines).

    Attributes:
        readings: other ways to read the block, as (search, replace), tried after the first.
        appends: the lines go to the end of the file.
        blank_end: one blank line at the end of either section may be decoration.
        line: where the lines begin (from 1), as the reply says; only decides between places,
            unless there is nothing to search for.
        headers: lines that come before the place, outermost first (the ``@@`` lines of V4A).
        at_end: the lines are the last ones of the file.
        again: other edits of the file, in another notation, may be the same change.
    """

    path: str
    search: str
    replace: str
    readings: tuple[Replacement, ...] = ()
    appends: bool = False
    blank_end: bool = False
    line: int | None = None
    headers: tuple[str, ...] = ()
    at_end: bool = False
    again: bool = False


@dataclass(frozen=True)
class WholeFile:
    """The complete new content of ``path``.

    Attributes:
        new: the file must not be there yet.
        likely: only words beside the content name the file, so it may be a part or a quotation.
    """

    path: str
    content: str
    new: bool = False
    likely: bool = False


@dataclass(frozen=True)
class DeleteFile:
    """Remove ``path``; only if it holds ``content``, where that is given."""

    path: str
    content: str | None = None


@dataclass(frozen=True)
class MoveFile:
    """Rename the file ``path`` to ``to``."""

    path: str
    to: str


@dataclass(frozen=True)
class Unreadable:
    """A part of a reply that looks like an edit and cannot be read.

    Attributes:
        content: the lines in question; where the file has them, they are a quotation, no edit.
    """

    path: str
    problem: str
    fault: Fault = Fault.UNREADABLE
    content: str = ""


Edit = SearchReplace | WholeFile | DeleteFile | MoveFile | Unreadable
Part = Edit | list[str]
"""A part of a reply: an edit, or the lines between edits."""


def quoted_texts(edit: Edit) -> list[str]:
    """Return the old lines that ``edit`` quotes, by each of its readings."""
    if isinstance(edit, SearchReplace):
        return [edit.search, *(search for search, _ in edit.readings)]
    if isinstance(edit, DeleteFile) and edit.content:
        return [edit.content]
    return []


@dataclass(frozen=True)
class EditResult:
    """The result of one edit.

    Attributes:
        problem: the reason for the model why it was not applied; empty when it was.
        fault: None for an edit that was applied, or that failed for any other reason.
        landed_in: the changed file; not ``path`` when the lines were found in another file.
        step: the step of the matching that found the place; empty without a search.
    """

    path: str
    problem: str = ""
    fault: Fault | None = None
    landed_in: str = ""
    step: str = ""

    @property
    def applied(self) -> bool:
        return not self.problem


@dataclass(frozen=True)
class ApplyReport:
    """New contents by path (None: the file is gone), and one result per edit, in their order.

    Attributes:
        moved: new path to old path of renamed files.
        rolled_back: good edits were undone because others failed.
    """

    contents: dict[str, str | None]
    results: tuple[EditResult, ...]
    moved: Mapping[str, str] = field(default_factory=dict)
    rolled_back: bool = False

    @property
    def failures(self) -> tuple[EditResult, ...]:
        failures = []
        for result in self.results:
            if not result.applied:
                failures.append(result)
        return tuple(failures)

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The paths that change together: a move makes the new file and removes the old one."""
        groups: list[tuple[str, ...]] = list(self.moved.items())
        in_moves = {*self.moved, *self.moved.values()}
        for path in self.contents:
            if path not in in_moves:
                groups.append((path,))
        return groups

    def without(
        self, problems: Mapping[str, str], fault: Fault | None = None
    ) -> ApplyReport:
        """Return the report without the files of ``problems``, whose edits fail for these."""
        contents = dict(self.contents)
        for path in problems:
            contents.pop(path, None)
        moved = {new: old for new, old in self.moved.items() if new in contents}
        results = []
        for result in self.results:
            problem = problems.get(result.landed_in)
            if problem:
                result = EditResult(result.path, problem, fault)
            results.append(result)
        return replace(self, contents=contents, moved=moved, results=tuple(results))


@dataclass(frozen=True)
class ReplyScope:
    """The files that a reply may name.

    Attributes:
        files: paths of all files.
        chat: the files shown to the model, in that order.
        read: returns their texts.
    """

    files: Collection[str] = ()
    chat: Sequence[str] = ()
    read: Reader = lambda path: None

    @property
    def only_file(self) -> str | None:
        """The file that an edit without a name means: the only one that was shown."""
        return self.chat[0] if len(self.chat) == 1 else None

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[str]]:
        names: dict[str, list[str]] = {}
        for path in self.files:
            base = path.rsplit("/", 1)[-1]
            names.setdefault(base, []).append(path)
        return names


@dataclass(frozen=True)
class Sample:
    """A file of which the example of a format is made, such that a copy of it changes nothing.

    Attributes:
        failed: lines that failed; the example has one of them, if the file has it.
    """

    path: str = "path/to/file.py"
    text: str = "def total(items):\n    return sum(items)\n"
    failed: str = ""

    @property
    def language(self) -> str:
        return language_of(self.path) or ""

    @property
    def line(self) -> str:
        """A line that the file has once; empty if there is none for an example."""
        counts = Counter(self.text.split("\n"))
        failed = set(self.failed.split("\n"))
        lines = []
        for line, count in counts.items():
            if count == 1 and line.strip() and len(line) < _MAX_LINE:
                lines.append(line)
        return next(chain(filter(failed.__contains__, lines), lines), "")

    @property
    def content(self) -> str:
        """The text, if it is short."""
        if len(self.text) > _MAX_EXAMPLE:
            return _CONTENT
        return self.text.removesuffix("\n") + "\n"


class EditFormat(ABC):
    """A notation in which models write edits."""

    name: str
    """The name in ``--models MODEL@NAME``."""
    plain_mentions: bool = False
    """Whether only plainly written paths bring files into the conversation."""
    joins: bool = False
    """Whether the model can continue a reply that was cut off; see ``join``."""
    path_inside: bool = False
    """Whether the path is the first line inside a fence, not the line above it."""
    whole_files: bool = False
    """Whether a file in full in a fence is an edit in this format."""
    rules: str = "format_"
    """How the name of the prompt with its rules begins."""
    plans: bool = False
    """Whether a reply is a plan for another model, and no edits are asked for."""
    tools: tuple[Tool, ...] = ()
    """The functions that the model calls to edit; none for text formats."""

    def instructions(self, fence: str, sample: Sample | None = None) -> str:
        """Return the rules for the system message, with an example of the file ``sample``."""
        from swe_retry.agent.prompts import render

        name = self.rules + self.name.replace("-", "_")
        sample = sample or Sample()
        return render(name, fence=fence, form=self, sample=sample, quote=json.dumps)

    @abstractmethod
    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        """Return the edits of ``reply``, in order.

        An unreadable part is an ``Unreadable`` where the rest of the reply can be read.
        """

    @abstractmethod
    def apply(
        self,
        edits: Sequence[Edit],
        read: Reader,
        chat: Sequence[str],
    ) -> ApplyReport:
        """Apply ``edits`` to the texts that ``read`` returns; ``chat`` as in ``ReplyScope``."""

    def join(self, partial: str, reply: str) -> str:
        """Return the text to parse when ``reply`` follows ``partial``, which was cut off.

        Returns both joined when ``reply`` continues in the middle of an edit, else ``reply``.
        """
        return reply


def after_failures(report: ApplyReport, on_failure: OnFailure) -> ApplyReport:
    """Return ``report``, without the applied edits where ``on_failure`` rolls them back."""
    if on_failure is OnFailure.ROLL_BACK and report.failures:
        return replace(report, contents={}, moved={}, rolled_back=True)
    return report


def feedback(report: ApplyReport) -> str:
    """Return the message to the model about ``report``; empty when every edit was applied."""
    if not report.failures:
        return ""
    applied = []
    failed = {}
    for number, result in enumerate(report.results, 1):
        if result.applied:
            applied.append(f"{number} ({result.landed_in})")
        else:
            failed[number] = result
    numbers = list(failed)
    total = len(report.results)
    parts = [f"# {len(failed)} of {total} edits could not be applied."]
    for number in numbers[:_MAX_EXPLAINED]:
        parts.append(f"## Edit {number} of {total}: {failed[number].problem}")
    others = [str(number) for number in numbers[_MAX_EXPLAINED:]]
    if others:
        names = some(others, _MAX_LISTED)
        parts.append(f"## The edits {names} could not be applied either.")
    if report.rolled_back:
        rest = "# So none of the reply's edits was kept: send all of them again, corrected."
    elif not applied:
        rest = "Reply with corrected versions of these edits."
    else:
        names = some(applied, _MAX_LISTED)
        rest = (
            f"# The other {len(applied)} were applied and are in the files now, so do not send "
            f"them again: {names}.\nReply with corrected versions of the edits above only."
        )
    return "\n\n".join([*parts, rest])
