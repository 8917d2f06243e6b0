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


@dataclass(frozen=True)
class FailureChanges:
    """Two runs' failures side by side: names that ended, and failures of the second run."""

    gone: tuple[str, ...]
    same: tuple[Failure, ...]
    changed: tuple[Failure, ...]
    new: tuple[Failure, ...]


def compare(previous: Sequence[Failure], current: Sequence[Failure]) -> FailureChanges:
    """Compare two runs' failures; line numbers and clock times make no difference."""
    before = {failure.name: _kind(failure) for failure in previous}
    now = {failure.name for failure in current}
    known = [failure for failure in current if failure.name in before]
    return FailureChanges(
        gone=tuple(name for name in before if name not in now),
        same=tuple(failure for failure in known if _kind(failure) == before[failure.name]),
        changed=tuple(failure for failure in known if _kind(failure) != before[failure.name]),
        new=tuple(failure for failure in current if failure.name not in before),
    )


def _kind(failure: Failure) -> str:
    return _VOLATILE.sub("", failure.detail)


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
        comparison = compare(previous, failures)
        head = _changes(comparison, len(previous))
        explained: Sequence[Failure] = (*comparison.changed, *comparison.new)
    else:
        names = [f"- {failure.name[:_LONGEST_NAME]}" for failure in failures[:_MOST_NAMES]]
        head, explained = "\n".join([*names, *_more(len(failures) - len(names))]), failures
    head = cut(head, budget // 2 if explained else budget)
    return "\n\n".join([head, *_details(explained, budget - len(head) - 2)])


def _changes(comparison: FailureChanges, before: int) -> str:
    gone, same, changed = comparison.gone, comparison.same, comparison.changed
    rows = [
        (f"no longer failing ({len(gone)} of {before})", _listed(gone)),
        (f"failing in the same way as before ({len(same)})", _listed_names(same)),
        (f"failing in another way than before ({len(changed)})", _listed_names(changed)),
        (
            f"failing that did not fail before ({len(comparison.new)})",
            _listed_names(comparison.new),
        ),
    ]
    changes = [f"- {what}: {names}" for what, names in rows if names]
    if not (gone or changed or comparison.new):
        changes.append("The last edits made no difference to the failures; they are not repeated.")
    return "\n".join(["Since the last report of failing tests:", *changes])


def _listed_names(failures: Sequence[Failure]) -> str:
    return _listed([failure.name for failure in failures])


def _listed(names: Sequence[str]) -> str:
    shown = [name[:_LONGEST_NAME] for name in names[:_ALIKE_SHOWN]]
    return ", ".join(shown) + "".join(_more(len(names) - len(shown), " "))


def _more(count: int, before: str = "") -> list[str]:
    return [f"{before}… and {count} more"] if count > 0 else []


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
        parts.append(cut(f"{_title(alike)}\n{alike[0].detail}", share))
        room -= len(parts[-1]) + 2
    if waiting:
        left = sum(map(len, waiting))
        parts.append(f"(Why {left} more fail is left out for lack of room.)")
    return parts


def _title(alike: Sequence[Failure]) -> str:
    first, *others = [failure.name for failure in alike]
    title = f"## {first[:_LONGEST_NAME]}"
    return title if not others else f"{title}\nLikewise: {_listed(others)}"


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
