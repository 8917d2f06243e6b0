"""The choice that follows from what scripts tell about candidates (``runs.evidence``). Pure.

Candidates are grouped by the set of scripts that they pass; the score of a group is
scripts² × candidates, as in SWE-RL's agreement groups, which go back to CodeT (arXiv 2207.10397):
wrong scripts rarely agree with many candidates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.attempts.choose import CandidateChoice, choose, configuration_note
from core.plaintext import quantity, some
from runs.evidence import (
    SOLVED,
    THERE,
    CandidateClass,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from runs.records import NEVER_PLAUSIBLE, Attempt, InstanceStatus

_MAX_EQUAL = 6
_EXIT_CODES = {THERE: "there", SOLVED: "solved", None: "–"}
_SOURCES = {
    ScriptSource.ISSUE: "from the issue",
    ScriptSource.FILES: "from the issue and files",
    ScriptSource.CANDIDATE: "from the issue and a candidate",
    ScriptSource.ATTEMPT: "of an attempt",
    ScriptSource.DISTINGUISHING: "to tell two groups apart",
}


@dataclass(frozen=True)
class AgreementGroup:
    """Classes that pass the same scripts."""

    passed: frozenset[str]
    classes: tuple[CandidateClass, ...]

    @property
    def attempts(self) -> list[int]:
        attempts: list[int] = []
        for candidates in self.classes:
            attempts += candidates.attempts
        return sorted(attempts)

    @property
    def score(self) -> int:
        return len(self.passed) ** 2 * len(self.attempts)


def groups_of(evidence: Evidence) -> list[AgreementGroup]:
    """Return the groups, the best first; of equal scores that with the earlier attempt."""
    classes = defaultdict(list)
    for candidates in evidence.classes:
        classes[evidence.scripts_passed_by(candidates.id)].append(candidates)
    groups = []
    for passed, members in classes.items():
        groups.append(AgreementGroup(passed, tuple(members)))
    return sorted(groups, key=lambda group: (-group.score, group.attempts))


def is_close(groups: Sequence[AgreementGroup]) -> bool:
    """Return whether the second group has at least half the score of the best."""
    if len(groups) < 2:
        return False
    return 0 < groups[0].score <= 2 * groups[1].score


def choose_by_evidence(
    candidates: Sequence[Attempt],
    evidence: Evidence | None,
    *,
    require_tests: bool = False,
) -> CandidateChoice:
    """Choose from the best groups; without evidence as ``choose`` does.

    Inside the best groups: fewest newly failing tests, then the larger class, the smaller patch,
    the earlier attempt. Candidates that edit test configuration come last, as in ``choose``.
    """
    usual = choose(candidates, require_tests=require_tests)
    if evidence is None or usual.winner is None:
        return usual
    usable = {}
    for candidate in candidates:
        if candidate.usable and candidate.status not in NEVER_PLAUSIBLE:
            usable[candidate.attempt] = candidate
    groups = []
    for group in groups_of(evidence):
        if usable.keys() & set(group.attempts):
            groups.append(group)
    best = []
    for group in groups:
        if group.score and group.score == groups[0].score:
            best += group.attempts
    pool = [usable[attempt] for attempt in usable.keys() & set(best)]
    if not pool:
        if len(candidates) == 1:
            return usual
        reason = f"no evidence: {why_no_evidence(evidence)}; {usual.reason}"
        return replace(usual, reason=reason)
    winner = min(pool, key=lambda candidate: _order(candidate, evidence))
    status = InstanceStatus.FALLBACK
    if winner.plausible and not winner.suspect:
        status = InstanceStatus.PLAUSIBLE
    return CandidateChoice(
        winner, status, "; ".join(_reasons(winner, evidence, groups))
    )


def _order(candidate: Attempt, evidence: Evidence) -> tuple[Any, ...]:
    """Return the sort key of a candidate of the best groups."""
    equal = evidence.class_of(candidate.attempt)
    return (
        candidate.edits_test_configuration,
        _count_failing(candidate, evidence),
        -len(equal.attempts) if equal else 0,
        len(candidate.patch),
        candidate.attempt,
    )


def _count_failing(candidate: Attempt, evidence: Evidence) -> float:
    """Return how many tests newly fail; an unknown outcome ranks between none and one."""
    if candidate.test_outcome is None:
        return 0.5
    if candidate.test_outcome:
        return 0
    return evidence.failing.get(candidate.attempt, 1)


def describe_script(script: ReproductionScript) -> str:
    """Return in words what a script was made from, by whom, and whether it counts."""
    text = _SOURCES[script.source]
    if script.model:
        text += f", {script.model}"
    validity = script.note or "not valid"
    if script.valid:
        validity = "valid"
    text += f": {validity}"
    if script.base:
        codes = [_exit_code(code) for code in script.base]
        text += f"; exit codes at the base commit: {', '.join(codes)}"
    return text


def _exit_code(code: int | None) -> str:
    if code is None:
        return "time limit"
    return str(code)


def matrix(evidence: Evidence) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return headings and rows of a table: classes in the order of their groups, valid scripts."""
    rows = []
    for group in groups_of(evidence):
        for candidates in group.classes:
            attempts = ", ".join(map(str, candidates.attempts))
            cells = [attempts, ", ".join(candidates.models)]
            for script in evidence.valid:
                code = evidence.outcomes.get(script, {}).get(candidates.id)
                cells.append(_EXIT_CODES.get(code, f"exit {code}"))
            rows.append((*cells, str(group.score)))
    return ("attempts", "models", *evidence.valid, "score of the group"), rows


def why_no_evidence(evidence: Evidence) -> str:
    """Return in words why the scripts do not tell."""
    if evidence.note and not evidence.scripts:
        return evidence.note
    if not evidence.valid:
        count = quantity(len(evidence.scripts), "script")
        return f"no script shows the issue at the base commit twice ({count})"
    count = quantity(len(evidence.valid), "valid script")
    return f"no candidate passes one of {count}"


def _reasons(
    winner: Attempt,
    evidence: Evidence,
    groups: Sequence[AgreementGroup],
) -> Iterator[str]:
    """Yield the parts of the reason."""
    attempt = winner.attempt
    others = list(groups)
    group = next(group for group in groups if attempt in group.attempts)
    others.remove(group)
    scripts = quantity(len(evidence.valid), "valid script")
    passed = f"it passes {len(group.passed)} of {scripts}"
    yield f"attempt {attempt} is chosen by evidence: {passed}"
    candidates = quantity(len(group.attempts), "candidate")
    text = quantity(len(groups), "group")
    text += f", its own has {candidates} and the score {group.score}"
    if others:
        text += f", the next has {others[0].score}"
    yield text
    if winner.test_outcome is None:
        yield "its tests are unknown"
    elif winner.test_outcome:
        yield "no test newly fails"
    else:
        failing = evidence.failing.get(attempt, 1)
        yield f"{quantity(failing, 'test')} newly fail"
    equal = evidence.class_of(attempt)
    if equal and len(equal.attempts) > 1:
        names = [str(number) for number in equal.attempts]
        yield f"equal patches: attempts {some(names, _MAX_EQUAL)}"
    note = configuration_note(winner)
    if note:
        yield note.removeprefix("; ")
