"""The protocol of edit formats.

A format is pure: text in, values out. The coder reads and writes the files.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain

from swe_retry.agent.formats.edits import Edit, Reader
from swe_retry.agent.formats.report import ApplyReport
from swe_retry.agent.grammars import language_of
from swe_retry.llm.chat import Reply, Tool


class MalformedReplyError(ValueError):
    """A reply breaks its edit format; the message explains the error to the model."""


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
        self, edits: Sequence[Edit], read: Reader, chat: Sequence[str]
    ) -> ApplyReport:
        """Apply ``edits`` to the texts that ``read`` returns; ``chat`` as in ``ReplyScope``."""

    def join(self, partial: str, reply: str) -> str:
        """Return the text to parse when ``reply`` follows ``partial``, which was cut off.

        Returns both joined when ``reply`` continues in the middle of an edit, else ``reply``.
        """
        return reply
