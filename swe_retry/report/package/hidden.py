"""Find an instance's hidden half in the texts that a model was shown.

A model that solves an issue writes lines of the gold patch itself. So a line counts only if it was
not first written by the model, and, because repositories repeat lines, only if it is not in the
base commit. Without a mirror to look that up, more than half of a field's lines must be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from swe_retry.core.git import git_result
from swe_retry.core.jsontypes import texts_in
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import Evaluation
from swe_retry.record.result import InstanceResult
from swe_retry.repositories.mirrors import Mirrors, has_commit


@dataclass(frozen=True)
class Conversation:
    """The messages of a conversation in their order.

    Attributes:
        texts: each with whether the model wrote it.
        literal: the model's messages contain all of its edits, as in this harness's edit formats.
        later: it came after attempts, and shows what they wrote: writers of scripts see candidates.
    """

    texts: Sequence[tuple[str, bool]]
    literal: bool
    later: bool

    def shows(self, line: str, patch: str) -> bool:
        """Return whether ``line`` was shown to the model before the model wrote it.

        If edits are not literal, a line of the model's own ``patch`` may be shown to it, for
        example by ``cat``, after its first message.
        """
        has_replied = False
        for text, by_model in self.texts:
            if line in text:
                may_be_own = has_replied and not self.literal and line in patch
                return not by_model and not may_be_own
            has_replied = has_replied or by_model
        return False


@dataclass(frozen=True)
class TrajectoryTexts:
    """All texts of a trajectory; ``rest`` are those of unknown authors."""

    conversations: Sequence[Conversation]
    written_by_model: str
    rest: str

    def shows(self, line: str, patch: str) -> bool:
        """Return whether ``line`` was not first written by the model; ``patch`` is predicted."""
        is_written = line in self.written_by_model
        for conversation in self.conversations:
            if is_written and conversation.later:
                continue
            if conversation.shows(line, patch):
                return True
        return line in self.rest and not is_written and line not in patch


def texts_of(result: InstanceResult) -> TrajectoryTexts:
    """Return all texts of a trajectory."""
    conversations = []
    others = []
    written = []
    for attempt in (*result.attempts, *result.writers):
        texts = []
        for message in attempt.messages or ():
            by_model = message.role == "assistant"
            text = "\n".join(texts_in(asdict(message)))
            texts.append((text, by_model))
            if by_model:
                written.append(text)
        later = attempt in result.writers
        conversations.append(Conversation(texts, attempt.is_ours, later))
        others.append(attempt.but(messages=None, calls=None, model_patch=""))
    for attempt in result.attempts:
        written.append(attempt.model_patch)
        written += texts_in(attempt.as_json()["calls"])
    if result.evidence:
        written += texts_in(result.evidence.model_dump(mode="json"))
    rest = result.but(attempts=others, writers=(), evidence=None).trajectory()
    return TrajectoryTexts(
        conversations=conversations,
        written_by_model="\n".join(written),
        rest="\n".join(texts_in(rest)),
    )


# Shorter lines are common, as `return result`. 7 of 124 gold patches of SWE-bench Lite have no
# longer line that is neither in the issue nor in the context of the patches.
_MIN_LINE = 16
# Shorter names of tests are common, as `test_copy`.
_MIN_NAME = 12
_WORD = re.compile(r"[A-Za-z]{3,}")
_INDEX = re.compile(r"^index [0-9a-f]{7,}\.\.[0-9a-f]{7,}", re.MULTILINE)
_DEFINITION = re.compile(r"\b(?:def|class|function|func|fn)\s+(\w+)")
_NAME = re.compile(r"\w+")
# The dataset's names of hidden fields: they occur only in prompts that were made from it.
_FIELDS = ("FAIL_TO_PASS", "PASS_TO_PASS")


@dataclass(frozen=True)
class HiddenField:
    """What a field of an instance's hidden half is recognized by; each mark alone is evidence."""

    name: str
    lines: Sequence[str] = ()
    marks: Sequence[str] = ()


def hidden_fields(instance: Instance, evaluation: Evaluation) -> Iterator[HiddenField]:
    """Yield the hidden fields of an instance with their distinctive lines.

    A line is distinctive if it is long enough, contains two words, and is neither in the issue nor
    in the lines of the base commit that the patches show. A patch's ``index`` line is distinctive
    as well, because it contains the hash of the patched file.
    """
    gold = evaluation.patch
    tests = evaluation.test_patch
    base = [*_lines(gold, " -"), *_lines(tests, " -")]
    public = "\n".join([instance.problem_statement, *base])
    yield HiddenField(
        "the gold patch",
        lines=_distinctive(_lines(gold, "+"), public),
        marks=_index_lines(gold),
    )
    yield HiddenField(
        "the hidden tests",
        lines=_distinctive(_lines(tests, "+"), public),
        marks=[*_index_lines(tests), *_new_tests(evaluation, public)],
    )
    hints = evaluation.hints_text.splitlines()
    yield HiddenField("the hints", lines=_distinctive(hints, public))
    names = [name for name in _FIELDS if name not in public]
    yield HiddenField("the dataset's lists of tests", marks=names)


def _new_tests(evaluation: Evaluation, public: str) -> list[str]:
    """Return the names of tests that only the hidden tests define."""
    defined = set()
    for line in _lines(evaluation.test_patch, "+"):
        defined.update(_DEFINITION.findall(line))
    listed = set()
    for test in evaluation.fail_to_pass:
        listed.update(_NAME.findall(test))
    names = []
    for name in sorted(defined):
        is_test = name in listed
        if not listed:
            is_test = name.lower().startswith("test")
        if is_test and len(name) >= _MIN_NAME and name not in public:
            names.append(name)
    return names


def _index_lines(patch: str) -> list[str]:
    return list(dict.fromkeys(_INDEX.findall(patch)))


def _lines(patch: str, marks: str) -> list[str]:
    """Return the lines of a patch that begin with one of the marks, without it."""
    lines = []
    for line in patch.split("\n"):
        is_header = line.startswith(("+++ ", "--- "))
        if line.startswith(tuple(marks)) and not is_header:
            lines.append(line[1:])
    return lines


def _distinctive(lines: Iterable[str], public: str) -> list[str]:
    distinctive = []
    for line in dict.fromkeys(map(str.strip, lines)):
        has_words = len(line) >= _MIN_LINE and len(_WORD.findall(line)) > 1
        if has_words and line not in public:
            distinctive.append(line)
    return distinctive


def mirror_of(instance: Instance, mirrors: Mirrors) -> Path | None:
    """Return the mirror that has the base commit, which a model may be shown; None without one."""
    mirror = mirrors.find(instance.repo)
    if mirror and has_commit(mirror, instance.base_commit):
        return mirror
    return None


def traces(
    texts: TrajectoryTexts,
    instance: Instance,
    evaluation: Evaluation,
    patch: str,
    mirror: Path | None,
) -> Iterator[tuple[str, str]]:
    """Yield the name of each hidden field that a model was shown, and an example."""
    for field in hidden_fields(instance, evaluation):
        marks = [line for line in field.marks if texts.shows(line, patch)]
        lines = [line for line in field.lines if texts.shows(line, patch)]
        evidence = marks + lines
        if mirror:
            base = _lines_of_base(evidence, instance, mirror)
            evidence = [line for line in evidence if line not in base]
        elif 2 * len(lines) <= len(field.lines):
            evidence = marks
        if evidence:
            yield field.name, evidence[0]


def _lines_of_base(lines: Sequence[str], instance: Instance, mirror: Path) -> set[str]:
    """Return those of some lines that are in the base commit."""
    if not lines:
        return set()
    patterns = []
    for line in lines:
        patterns += ["-e", line]
    options = ("grep", "-a", "-h", "-F", *patterns, instance.base_commit, "--")
    result = git_result(*options, cwd=mirror)
    text = result.stdout.decode("utf-8", "replace")
    return {line for line in lines if line in text}
