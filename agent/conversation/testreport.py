"""The failures of a test run, and the message that reports them to the model. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# About 1,500 tokens.
_MAX_CHARACTERS = 6_000
_MAX_NAMES = 30
_MAX_NAME = 160
_MAX_ALIKE = 5
_MIN_DETAIL = 400
# Room for the sentence that says how many tests have no details.
_RESERVE = 80
# Line numbers and clock times differ between two runs that fail in the same way.
_VOLATILE = re.compile(r"\d+(?=:\d)|(?<=:)\d+|(?<=\bline )\d+")


@dataclass(frozen=True)
class Failure:
    """A test that passed at the base commit and fails now.

    Attributes:
        name: unique among the failures of a run.
        detail: why, trimmed and without noise: the last frames and the message; may be empty.
        cause: equal for tests that fail for the same reason; the detail when empty.
    """

    name: str
    detail: str = ""
    cause: str = ""


@dataclass(frozen=True)
class TestReport:
    """The result of a test run.

    Attributes:
        outcome: None when no test could tell.
        message: what the model is told where ``outcome`` is False; empty: ``describe`` it.
    """

    __test__ = False  # the name makes pytest think that this is a test

    outcome: bool | None
    failures: tuple[Failure, ...] = ()
    message: str = ""


def describe(
    failures: Sequence[Failure],
    previous: Sequence[Failure] = (),
    room: int = _MAX_CHARACTERS,
) -> str:
    """Return ``failures`` as a message of at most ``room`` characters, 200 or more.

    ``previous`` are the failures of the last report. The message then begins with their changes
    and does not repeat the details of failures that stayed the same.
    """
    if previous:
        head, explained = _changes(previous, failures)
    else:
        lines = [f"- {failure.name[:_MAX_NAME]}" for failure in failures[:_MAX_NAMES]]
        others = len(failures) - len(lines)
        if others:
            lines.append(f"… and {others} more")
        head = "\n".join(lines)
        explained = list(failures)
    head = cut(head, room // 2 if explained else room)
    details = _details(explained, room - len(head) - 2)
    return "\n\n".join([head, *details])


def _changes(
    previous: Sequence[Failure], current: Sequence[Failure]
) -> tuple[str, list[Failure]]:
    """Return the changes in words, and the failures whose reasons are new."""
    before = {failure.name: _VOLATILE.sub("", failure.detail) for failure in previous}
    now = {failure.name for failure in current}
    gone = [name for name in before if name not in now]
    same = []
    changed = []
    new = []
    for failure in current:
        detail = before.get(failure.name)
        if detail is None:
            new.append(failure)
        elif detail == _VOLATILE.sub("", failure.detail):
            same.append(failure)
        else:
            changed.append(failure)
    lines = ["Since the last report of failing tests:"]
    if gone:
        count = f"{len(gone)} of {len(previous)}"
        lines.append(f"- no longer failing ({count}): {_name_list(gone)}")
    groups = {
        "failing in the same way as before": same,
        "failing in another way than before": changed,
        "failing that did not fail before": new,
    }
    for label, failures in groups.items():
        if failures:
            names = [failure.name for failure in failures]
            lines.append(f"- {label} ({len(names)}): {_name_list(names)}")
    if not (gone or changed or new):
        lines.append(
            "The last edits made no difference to the failures; they are not repeated."
        )
    return "\n".join(lines), changed + new


def _name_list(names: Sequence[str]) -> str:
    line = ", ".join(name[:_MAX_NAME] for name in names[:_MAX_ALIKE])
    others = len(names) - _MAX_ALIKE
    if others > 0:
        line += f" … and {others} more"
    return line


def _details(failures: Sequence[Failure], room: int) -> list[str]:
    groups: dict[str, list[Failure]] = {}
    for failure in failures:
        if failure.detail:
            cause = failure.cause or failure.detail
            groups.setdefault(cause, []).append(failure)
    parts: list[str] = []
    waiting = list(groups.values())
    room -= _RESERVE
    while waiting and room >= min(_MIN_DETAIL, len(waiting[0][0].detail)):
        share = min(room, max(room // len(waiting), _MIN_DETAIL))
        alike = waiting.pop(0)
        title = f"## {alike[0].name[:_MAX_NAME]}"
        others = [failure.name for failure in alike[1:]]
        if others:
            title += f"\nLikewise: {_name_list(others)}"
        parts.append(cut(f"{title}\n{alike[0].detail}", share))
        room -= len(parts[-1]) + 2
    if waiting:
        left = sum(map(len, waiting))
        parts.append(f"(Why {left} more fail is left out for lack of room.)")
    return parts


def cut(text: str, room: int) -> str:
    """Return ``text`` in at most ``room`` characters: whole lines, and the number left out.

    The first lines say what failed, the last ones why; lines in the middle go first.
    """
    if len(text) <= room:
        return text
    lines = text.split("\n")
    note = f"… ({len(lines)} lines left out)"
    left = room - len(note) - 2
    head: list[str] = []
    tail: list[str] = []
    while lines and left > 0:
        length_of_tail = sum(map(len, tail))
        length_of_head = sum(map(len, head))
        from_end = length_of_tail <= 2 * length_of_head
        line = lines[-1 if from_end else 0][:_MAX_NAME]
        left -= len(line) + 1
        if left < 0:
            break
        if from_end:
            tail.insert(0, line)
            del lines[-1]
        else:
            head.append(line)
            del lines[0]
    note = f"… ({len(lines)} lines left out)"
    return "\n".join([*head, note, *tail])[:room]
