"""The failures of a test run, and the message that reports them to the model. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_NAMES = 30
_LONGEST_NAME = 160
_ALIKE_SHOWN = 5
_SMALLEST_DETAIL = 400
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
    tokens: int = 1500,
    characters_per_token: float = 4.0,
) -> str:
    """Return ``failures`` as a message of at most ``tokens`` tokens, 50 or more.

    ``previous`` are the failures of the last report. The message then begins with their changes
    and does not repeat the details of failures that stayed the same.
    """
    budget = int(tokens * characters_per_token)
    if previous:
        head, explained = _changes(previous, failures)
    else:
        names = [
            f"- {failure.name[:_LONGEST_NAME]}" for failure in failures[:_MOST_NAMES]
        ]
        more = len(failures) - len(names)
        head = "\n".join([*names, *([f"… and {more} more"] if more else [])])
        explained = list(failures)
    head = cut(head, budget // 2 if explained else budget)
    return "\n\n".join([head, *_details(explained, budget - len(head) - 2)])


def _changes(
    previous: Sequence[Failure], current: Sequence[Failure]
) -> tuple[str, list[Failure]]:
    """Return the changes in words, and the failures whose reasons are new."""
    before = {failure.name: _VOLATILE.sub("", failure.detail) for failure in previous}
    now = {failure.name for failure in current}
    gone = [name for name in before if name not in now]
    same, changed, new = list[Failure](), list[Failure](), list[Failure]()
    for failure in current:
        detail = before.get(failure.name)
        equal = detail == _VOLATILE.sub("", failure.detail)
        (new if detail is None else same if equal else changed).append(failure)
    rows = [(f"no longer failing ({len(gone)} of {len(previous)})", gone)]
    for what, failures in (
        ("failing in the same way as before", same),
        ("failing in another way than before", changed),
        ("failing that did not fail before", new),
    ):
        rows.append(
            (f"{what} ({len(failures)})", [failure.name for failure in failures])
        )
    changes = [f"- {what}: {_listed(names)}" for what, names in rows if names]
    if not (gone or changed or new):
        changes.append(
            "The last edits made no difference to the failures; they are not repeated."
        )
    return "\n".join(["Since the last report of failing tests:", *changes]), [
        *changed,
        *new,
    ]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:_LONGEST_NAME] for name in names[:_ALIKE_SHOWN])
    more = len(names) - _ALIKE_SHOWN
    return f"{shown} … and {more} more" if more > 0 else shown


def _details(failures: Sequence[Failure], room: int) -> list[str]:
    groups: dict[str, list[Failure]] = {}
    for failure in failures:
        if failure.detail:
            groups.setdefault(failure.cause or failure.detail, []).append(failure)
    parts: list[str] = []
    waiting = list(groups.values())
    room -= _RESERVE
    while waiting and room >= min(_SMALLEST_DETAIL, len(waiting[0][0].detail)):
        share = min(room, max(room // len(waiting), _SMALLEST_DETAIL))
        alike = waiting.pop(0)
        first, *others = [failure.name for failure in alike]
        title = f"## {first[:_LONGEST_NAME]}"
        title += f"\nLikewise: {_listed(others)}" if others else ""
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
        from_end = sum(map(len, tail)) <= 2 * sum(map(len, head))
        line = (lines.pop() if from_end else lines.pop(0))[:_LONGEST_NAME]
        left -= len(line) + 1
        if left >= 0:
            tail[:0] = [line] * from_end
            head += [line] * (not from_end)
        else:
            lines.append(line)
    return "\n".join([*head, f"… ({len(lines)} lines left out)", *tail])[:room]
