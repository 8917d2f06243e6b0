"""What every edit format shares: edits, the report on them, and the protocol.

A format is pure: text in, values out. The coder reads and writes the files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

Reader = Callable[[str], str | None]
"""Gives a file's text with ``\\n`` line ends by its path, None when there is no such file."""


class MalformedReplyError(ValueError):
    """A reply breaks its edit format; the message tells the model what is wrong and where."""


@dataclass(frozen=True)
class EditResult:
    """What became of one edit.

    Attributes:
        path: the file that the edit names.
        applied: whether the edit was carried out.
        landed_in: the file that was changed; another than ``path`` when the lines stood there.
        problem: why it was not applied, for the model; empty when it was.
    """

    path: str
    applied: bool
    landed_in: str = ""
    problem: str = ""


@dataclass(frozen=True)
class ApplyReport:
    """New contents by path, and one result per edit in the order of the reply."""

    contents: dict[str, str] = field(default_factory=dict)
    results: tuple[EditResult, ...] = ()

    @property
    def failed(self) -> tuple[EditResult, ...]:
        """The edits that were not carried out."""
        return tuple(result for result in self.results if not result.applied)


E = TypeVar("E")


class EditFormat(Protocol, Generic[E]):
    """One way for a model to write down edits."""

    @property
    def name(self) -> str:
        """The name that ``--models MODEL@NAME`` takes."""

    def instructions(self, fence: str) -> str:
        """Return the rules and the example for the system message."""

    def parse(self, reply: str, known: Collection[str]) -> Sequence[E]:
        """Return the edits of ``reply``; ``known`` are the paths of the tracked files.

        Raises:
            MalformedReplyError: the reply begins an edit that cannot be read to its end.
        """

    def apply(self, edits: Sequence[E], read: Reader, chat: Sequence[str]) -> ApplyReport:
        """Carry out ``edits`` in order on the texts that ``read`` gives; ``chat`` as in Session."""

    def join(self, partial: str, reply: str) -> str:
        """Return the text to parse when ``reply`` follows ``partial``, which was cut off.

        That is both together when ``reply`` goes on in the middle of an edit, else ``reply``.
        """


def feedback(report: ApplyReport) -> str:
    """Return what to tell the model about ``report``; empty when every edit was applied."""
    if not report.failed:
        return ""
    passed = len(report.results) - len(report.failed)
    parts = [f"# {len(report.failed)} of {len(report.results)} edits could not be applied."]
    parts += [result.problem for result in report.failed]
    if passed:
        parts.append(
            f"# The other {passed} were applied and are in the files now: do not send them again.\n"
            "Reply with corrected versions of the edits above only."
        )
    return "\n\n".join(parts)
