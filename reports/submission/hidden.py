"""Find an instance's hidden half in the texts that a model was shown.

A model that solves an issue writes lines of the gold patch itself. So a line counts only if it was
not first written by the model, and, because repositories repeat lines, only if it is not in the
base commit. Without a mirror to look that up, more than half of a field's lines must be shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, ValuesView
from dataclasses import asdict, dataclass

from bench.instances.instance import Evaluation, Instance
from bench.instances.names import BUNDLED
from bench.repos.mirrors import Mirrors, has_commit
from core.git import git_result
from runs.records import InstanceResult
from runs.settings import FolderSettings


@dataclass(frozen=True)
class Conversation:
    """The messages of a conversation in their order."""

    texts: tuple[tuple[str, bool], ...]  # and whether the model wrote them
    # The model's messages contain all of its edits, as in this harness's edit formats.
    literal: bool
    # It came after attempts, and shows what they wrote: the writers of scripts see candidates.
    later: bool = False

    def shows(self, line: str, patch: str) -> bool:
        """Return whether ``line`` was shown to the model before the model wrote it.

        If edits are not literal, a line of the model's own ``patch`` may be shown to it, for
        example by ``cat``, after its first message.
        """
        after_reply = False
        for text, by_model in self.texts:
            if line in text:
                own = after_reply and line in patch and not self.literal
                return not by_model and not own
            after_reply = after_reply or by_model
        return False


@dataclass(frozen=True)
class TrajectoryTexts:
    conversations: tuple[Conversation, ...] = ()
    written: str = ""  # by the model
    rest: str = ""  # by unknown authors

    def shows(self, line: str, patch: str) -> bool:
        """Return whether ``line`` was not first written by the model; ``patch`` is predicted."""
        own = (c for c in self.conversations if not (c.later and line in self.written))
        if any(conversation.shows(line, patch) for conversation in own):
            return True
        return line in self.rest and line not in self.written and line not in patch


def texts_of(result: InstanceResult) -> TrajectoryTexts:
    """Return all texts of a trajectory."""
    conversations = []
    attempts = []
    for attempt in (*result.attempts, *result.writers):
        messages = []
        for message in attempt.messages or ():
            text = "\n".join(_texts_in(asdict(message)))
            messages.append((text, message.role == "assistant"))
        later = attempt in result.writers
        conversations.append(Conversation(tuple(messages), attempt.is_ours, later))
        attempts.append(attempt.but(messages=None, calls=None, model_patch=""))
    written = [attempt.model_patch for attempt in result.attempts]
    for conversation in conversations:
        written += [text for text, by_model in conversation.texts if by_model]
    written += _texts_in([attempt.as_json()["calls"] for attempt in result.attempts])
    others = result.but(attempts=attempts, writers=(), evidence=None)
    if result.evidence:
        written += _texts_in(result.evidence.model_dump(mode="json"))
    rest = _texts_in(others.trajectory())
    return TrajectoryTexts(tuple(conversations), "\n".join(written), "\n".join(rest))


def _texts_in(data: object) -> Iterator[str]:
    """Yield all texts in ``data`` except keys."""
    if isinstance(data, str):
        yield data
    values = data
    if isinstance(data, dict):
        values = data.values()
    if isinstance(values, list | tuple | ValuesView):
        for value in values:
            yield from _texts_in(value)


# Shorter lines are common, as `return result`. 7 of 124 gold patches of SWE-bench Lite have no
# longer line that is neither in the issue nor in the context of the patches.
_SHORTEST_LINE = 16
# Shorter names of tests are common, as `test_copy`.
_SHORTEST_NAME = 12
_WORD = re.compile(r"[A-Za-z]{3,}")
_INDEX = re.compile(r"^index [0-9a-f]{7,}\.\.[0-9a-f]{7,}", re.MULTILINE)
_DEFINED = re.compile(r"\b(?:def|class|function|func|fn)\s+(\w+)")
_NAME = re.compile(r"\w+")
# The dataset's names of hidden fields: they occur only in prompts that were made from it.
_FIELDS = ("FAIL_TO_PASS", "PASS_TO_PASS")
StandInBase = Callable[[Sequence[str]], frozenset[str]]
"""Returns those of some lines that are in the base commit."""


@dataclass(frozen=True)
class Hidden:
    what: str
    lines: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()  # each one alone is evidence


def hidden_of(instance: Instance, evaluation: Evaluation) -> tuple[Hidden, ...]:
    """Return the distinctive lines of each hidden field of an instance.

    A line is distinctive if it is long enough, contains two words, and is neither in the issue nor
    in the lines of the base commit that the patches show. A patch's ``index`` line is distinctive
    as well, because it contains the hash of the patched file.
    """
    gold, tests = evaluation.patch, evaluation.test_patch
    known = "\n".join(
        [instance.problem_statement, *_lines(gold, " -"), *_lines(tests, " -")]
    )
    fields = tuple(name for name in _FIELDS if name not in known)
    defined = {name for line in _lines(tests, "+") for name in _DEFINED.findall(line)}
    listed = {word for test in evaluation.fail_to_pass for word in _NAME.findall(test)}
    new = (
        defined & listed
        if listed
        else {n for n in defined if n.lower().startswith("test")}
    )
    names = sorted(n for n in new if len(n) >= _SHORTEST_NAME and n not in known)
    return (
        Hidden(
            "the gold patch", _distinctive(_lines(gold, "+"), known), _index_lines(gold)
        ),
        Hidden(
            "the hidden tests",
            _distinctive(_lines(tests, "+"), known),
            (*_index_lines(tests), *names),
        ),
        Hidden("the hints", _distinctive(evaluation.hints_text.splitlines(), known)),
        Hidden("the dataset's lists of tests", marks=fields),
    )


def _index_lines(patch: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_INDEX.findall(patch)))


def _lines(patch: str, marks: str) -> list[str]:
    lines = patch.split("\n")
    return [
        t[1:] for t in lines if t[:1] in tuple(marks) and t[:4] not in ("+++ ", "--- ")
    ]


def _distinctive(lines: Iterable[str], known: str) -> tuple[str, ...]:
    stripped = dict.fromkeys(line.strip() for line in lines)
    return tuple(
        line
        for line in stripped
        if len(line) >= _SHORTEST_LINE
        and len(_WORD.findall(line)) > 1
        and line not in known
    )


def mirrors_at_hand(dataset: str, folders: FolderSettings) -> Mirrors:
    """Return the mirrors to look base commits up; bundled datasets have their own."""
    name = f"{dataset}-mirrors" if dataset in BUNDLED else "mirrors"
    return Mirrors(folders.repos or folders.cache / name)


def base_lookup(instance: Instance, mirrors: Mirrors) -> StandInBase | None:
    """Return the function for a base commit, which a model may be shown; None without a mirror."""
    mirror = mirrors.find(instance.repo)
    commit = instance.base_commit
    if mirror is None or not has_commit(mirror, commit):
        return None

    def stand_in_base(lines: Sequence[str]) -> frozenset[str]:
        if not lines:
            return frozenset()
        patterns = [word for line in lines for word in ("-e", line)]
        result = git_result(
            "grep", "-a", "-h", "-F", *patterns, commit, "--", cwd=mirror
        )
        found = result.stdout.decode("utf-8", "replace")
        return frozenset(line for line in lines if line in found)

    return stand_in_base


def traces(
    trajectory: TrajectoryTexts,
    fields: Sequence[Hidden],
    patch: str,
    base: StandInBase | None,
) -> Iterator[tuple[str, str]]:
    """Yield each hidden field with a trace in ``trajectory``, and an example.

    ``base`` is None without a mirror.
    """
    for hidden in fields:
        marks = [line for line in hidden.marks if trajectory.shows(line, patch)]
        lines = [line for line in hidden.lines if trajectory.shows(line, patch)]
        if base is not None:
            known = base([*marks, *lines])
            counted = [line for line in (*marks, *lines) if line not in known]
        elif 2 * len(lines) > len(hidden.lines):
            counted = [*marks, *lines]
        else:
            counted = marks
        if counted:
            yield hidden.what, counted[0]
