"""The choice that follows from what is known of candidates. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from swe_retry.attempts.choose import (
    CandidateChoice,
    choose,
    comes_last,
    doubt_note,
)
from swe_retry.attempts.evidence.facts import (
    ClassFacts,
    InstanceFacts,
    ScriptFacts,
    stated_fit,
)
from swe_retry.core.plaintext import quantity, some
from swe_retry.record.evidence import (
    SOLVED,
    THERE,
    Belief,
    BeliefFit,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from swe_retry.record.records import NEVER_PLAUSIBLE, Attempt
from swe_retry.record.result import InstanceResult, InstanceStatus

_MAX_EQUAL = 6
_EXIT_CODES = {THERE: "there", SOLVED: "solved", None: "–"}
_SOURCES = {
    ScriptSource.ISSUE: "from the issue",
    ScriptSource.FILES: "from the issue and files",
    ScriptSource.CANDIDATE: "from the issue and a candidate",
    ScriptSource.ATTEMPT: "of an attempt",
    ScriptSource.DISTINGUISHING: "to tell two classes apart",
}


@dataclass(frozen=True)
class ClassWeights:
    """The weights of the classes of an instance: that each is right, and that none is.

    Attributes:
        classes: by their positions in the evidence; ``without_scripts`` likewise.
    """

    facts: InstanceFacts
    fit: BeliefFit
    none: float
    classes: Sequence[float]
    without_scripts: Sequence[float]

    @property
    def greatest(self) -> float:
        return max(self.classes, default=0.0)

    def hardest_pair(self) -> tuple[float, int, int]:
        """Return the two classes that a script should tell apart, after the expected gain."""
        from swe_retry.attempts.evidence.belief import expected_gain

        best = self.best_of(range(len(self.classes)))
        gains = []
        for other in range(len(self.classes)):
            if other != best:
                gain = expected_gain(self.facts, self.fit, best, other)
                gains.append((gain, best, other))
        return max(gains)

    def best_of(self, positions: Sequence[int]) -> int:
        """Return the class to choose among ``positions``."""
        from swe_retry.attempts.evidence.belief import Weights, best_class

        weights = Weights(self.none, tuple(self.classes))
        return best_class(self.facts, weights, self.fit, positions)


def facts_of(evidence: Evidence, candidates: Sequence[Attempt]) -> InstanceFacts:
    """Return what a belief about the classes of ``evidence`` follows from."""
    by_number = {candidate.attempt: candidate for candidate in candidates}
    class_of_attempt = {}
    classes = []
    for position, equal in enumerate(evidence.classes):
        class_of_attempt.update(dict.fromkeys(equal.attempts, position))
        members = [
            by_number[number] for number in equal.attempts if number in by_number
        ]
        witnesses = Counter(member.model for member in members)
        failing = [count_failing(member, evidence) for member in members]
        counts = [count for count in failing if count is not None]
        classes.append(ClassFacts(witnesses, min(counts, default=None)))
    scripts = []
    for script in evidence.scripts:
        codes = evidence.outcomes.get(script.id, {})
        if not script.valid or not codes:
            continue
        passed = set()
        unknown = set()
        for position, equal in enumerate(evidence.classes):
            if equal.id not in codes:
                unknown.add(position)
            elif codes[equal.id] == SOLVED:
                passed.add(position)
        author = None
        if script.author is not None:
            author = class_of_attempt.get(script.author)
        script_facts = ScriptFacts(
            passed=frozenset(passed),
            author=author,
            unknown=frozenset(unknown),
        )
        scripts.append(script_facts)
    return InstanceFacts(tuple(classes), tuple(scripts))


def weigh_classes(
    evidence: Evidence,
    candidates: Sequence[Attempt],
    fit: BeliefFit,
) -> ClassWeights:
    """Return the weights of the classes of ``evidence``, of which there is one at least."""
    from swe_retry.attempts.evidence.belief import weigh

    facts = facts_of(evidence, candidates)
    with_scripts, without = weigh([facts, InstanceFacts(facts.classes)], fit)
    return ClassWeights(
        facts=facts,
        fit=fit,
        none=with_scripts.none,
        classes=with_scripts.classes,
        without_scripts=without.classes,
    )


def class_weights(result: InstanceResult) -> ClassWeights | None:
    """Return the weights with which a result was chosen; None where there were none."""
    if result.evidence is None or result.belief is None or not result.evidence.classes:
        return None
    return weigh_classes(result.evidence, result.attempts, result.belief.fit)


def choose_by_evidence(
    candidates: Sequence[Attempt],
    evidence: Evidence | None,
    fit: BeliefFit | None = None,
    *,
    require_tests: bool = False,
) -> CandidateChoice:
    """Choose from the class with the greatest weight; without evidence as ``choose`` does.

    Inside the class: fewest newly failing tests, the smaller patch, the earlier attempt. Candidates
    that rank low come last, as in ``choose``.

    Args:
        fit: of the run; None for what is stated.
    """
    usual = choose(candidates, require_tests=require_tests)
    if evidence is None or usual.winner is None:
        return usual
    usable = {}
    for candidate in candidates:
        if candidate.usable and candidate.status not in NEVER_PLAUSIBLE:
            usable[candidate.attempt] = candidate
    last = {
        candidate.attempt: comes_last(candidate, require_tests=require_tests)
        for candidate in usable.values()
    }
    first_rank = min(last.values(), default=())
    pool = []
    positions = []
    for position, equal in enumerate(evidence.classes):
        members = []
        for number in equal.attempts:
            if last.get(number) == first_rank:
                members.append(usable[number])
        if members:
            pool += members
            positions.append(position)
    if not pool:
        return usual
    if fit is None:
        fit = stated_fit()
    weights = weigh_classes(evidence, candidates, fit)
    positions.sort(key=lambda position: min(evidence.classes[position].attempts))
    best = weights.best_of(positions)
    equal = evidence.classes[best]
    members = [candidate for candidate in pool if candidate.attempt in equal.attempts]
    winner = min(members, key=lambda candidate: _order(candidate, evidence))
    status = InstanceStatus.FALLBACK
    if winner.plausible and not winner.suspect:
        status = InstanceStatus.PLAUSIBLE
    belief = Belief(weight=weights.classes[best], none=weights.none, fit=fit)
    reason = "; ".join(_reasons(winner, evidence, weights, best))
    return CandidateChoice(winner, status, reason, belief)


def _order(candidate: Attempt, evidence: Evidence) -> tuple[Any, ...]:
    """Return the sort key of a candidate in its class; an unknown outcome follows none failing."""
    failing: float | None = count_failing(candidate, evidence)
    if failing is None:
        failing = 0.5
    return failing, len(candidate.patch), candidate.attempt


def count_failing(candidate: Attempt, evidence: Evidence) -> int | None:
    """Return how many checks newly fail: tests, and as one each lint and edits; None if unknown."""
    others = [candidate.edit_outcome, candidate.lint_outcome].count(False)
    if candidate.test_outcome is None:
        return others or None
    if candidate.test_outcome:
        return others
    return others + evidence.failing.get(candidate.attempt, 1)


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


def matrix(result: InstanceResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return headings and rows of a table: classes by their weights, valid scripts."""
    evidence = result.evidence or Evidence()
    weights = class_weights(result)
    rows = []
    positions = list(range(len(evidence.classes)))
    if weights:
        positions.sort(key=lambda position: -weights.classes[position])
    for position in positions:
        equal = evidence.classes[position]
        attempts = ", ".join(map(str, equal.attempts))
        cells = [attempts, ", ".join(equal.models)]
        for script in evidence.valid:
            code = evidence.outcomes.get(script, {}).get(equal.id)
            cells.append(_EXIT_CODES.get(code, f"exit {code}"))
        weight = ""
        if weights:
            weight = f"{weights.classes[position]:.2f}"
        rows.append((*cells, weight))
    return ("attempts", "models", *evidence.valid, "weight"), rows


def why_no_scripts(evidence: Evidence) -> str:
    """Return in words why no script tells candidates apart; empty if one may."""
    if evidence.valid:
        return ""
    if evidence.note and not evidence.scripts:
        return evidence.note
    count = quantity(len(evidence.scripts), "script")
    return f"no script shows the issue at the base commit twice ({count})"


def _reasons(
    winner: Attempt,
    evidence: Evidence,
    weights: ClassWeights,
    position: int,
) -> Iterator[str]:
    """Yield the parts of the reason."""
    weight = weights.classes[position]
    yield (
        f"attempt {winner.attempt} is chosen by evidence: it is right with the weight "
        f"{weight:.2f}, and no candidate is with {weights.none:.2f}"
    )
    equal = evidence.classes[position]
    if len(equal.attempts) > 1:
        names = [str(number) for number in equal.attempts]
        models = quantity(len(equal.models), "model")
        yield f"equal patches of {models}: attempts {some(names, _MAX_EQUAL)}"
    if winner.test_outcome is None:
        yield "its tests are unknown"
    elif winner.test_outcome:
        yield "no test newly fails"
    else:
        failing = evidence.failing.get(winner.attempt, 1)
        yield f"{quantity(failing, 'test')} newly fail"
    no_scripts = why_no_scripts(evidence)
    if no_scripts:
        yield no_scripts
    else:
        passed = len(evidence.scripts_passed_by(equal.id))
        scripts = quantity(len(evidence.valid), "valid script")
        alone = f"{weights.without_scripts[position]:.2f}"
        yield f"it passes {passed} of {scripts}, and without scripts the weight is {alone}"
    note = doubt_note(winner)
    if note:
        yield note.removeprefix("; ")
