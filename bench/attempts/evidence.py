"""The choice that follows from what scripts tell about candidates (``runs.evidence``). Pure.

Candidates are grouped by the set of scripts that they pass; the score of a group is
scripts² × candidates, as in SWE-RL's agreement groups, which go back to CodeT (arXiv 2207.10397):
wrong scripts rarely agree with many candidates.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agent.grammars import language_of, parser
from agent.workspace import TextFile
from bench.attempts.candidates import CandidateChoice, choose
from core.plaintext import counted, some
from core.worktree import Changes
from runs.evidence import (
    SOLVED,
    THERE,
    CandidateClass,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from runs.records import NEVER_PLAUSIBLE, Attempt, InstanceStatus

if TYPE_CHECKING:
    from tree_sitter import Node

_SHOWN = 6


@dataclass(frozen=True)
class AgreementGroup:
    """Classes that pass the same scripts."""

    passed: frozenset[str]
    classes: tuple[CandidateClass, ...]

    @property
    def attempts(self) -> list[int]:
        return sorted(attempt for one in self.classes for attempt in one.attempts)

    @property
    def score(self) -> int:
        return len(self.passed) ** 2 * len(self.attempts)


def groups_of(evidence: Evidence) -> list[AgreementGroup]:
    """Return the groups, the best first; of equal scores that with the earlier attempt."""
    by_passed: dict[frozenset[str], list[CandidateClass]] = {}
    for one in evidence.classes:
        by_passed.setdefault(evidence.passed(one.id), []).append(one)
    groups = [
        AgreementGroup(passed, tuple(found)) for passed, found in by_passed.items()
    ]
    return sorted(groups, key=lambda group: (-group.score, group.attempts))


def is_close(groups: Sequence[AgreementGroup]) -> bool:
    """Return whether the second group has at least half the score of the best."""
    return len(groups) > 1 and 0 < groups[0].score <= 2 * groups[1].score


def choose_by_evidence(
    candidates: Sequence[Attempt], evidence: Evidence, *, require_tests: bool = False
) -> CandidateChoice:
    """Choose from the best groups; without evidence as ``choose`` does.

    Inside the best groups: fewest newly failing tests, then the larger class, the smaller patch,
    the earlier attempt. Candidates that edit test configuration come last, as in ``choose``.
    """
    usual = choose(candidates, require_tests=require_tests)
    fit = {
        c.attempt: c for c in candidates if c.usable and c.status not in NEVER_PLAUSIBLE
    }
    groups = [group for group in groups_of(evidence) if fit.keys() & {*group.attempts}]
    best = [g for g in groups if g.score and g.score == groups[0].score]
    members = fit.keys() & {attempt for group in best for attempt in group.attempts}
    pool = [fit[attempt] for attempt in members]
    if usual.winner is None or not pool:
        if usual.winner is None or len(candidates) == 1:
            return usual
        return replace(
            usual, reason=f"no evidence: {why_none(evidence)}; {usual.reason}"
        )

    def order(candidate: Attempt) -> tuple[Any, ...]:
        same = evidence.class_of(candidate.attempt)
        return (
            candidate.edits_test_configuration,
            _failing(candidate, evidence),
            -len(same.attempts) if same else 0,
            len(candidate.patch),
            candidate.attempt,
        )

    winner = min(pool, key=order)
    clean = winner.plausible and not winner.suspect
    status = InstanceStatus.PLAUSIBLE if clean else InstanceStatus.FALLBACK
    return CandidateChoice(winner, status, _why(winner, evidence, groups))


def described(script: ReproductionScript) -> str:
    """Return in words what a script was made from, by whom, and whether it counts."""
    made = {
        ScriptSource.ISSUE: "from the issue",
        ScriptSource.FILES: "from the issue and files",
        ScriptSource.CANDIDATE: "from the issue and a candidate",
        ScriptSource.ATTEMPT: "of an attempt",
        ScriptSource.DISTINGUISHING: "to tell two groups apart",
    }[script.source]
    by = f", {script.model}" if script.model else ""
    codes = ", ".join(
        "time limit" if code is None else str(code) for code in script.base
    )
    ran = f"; exit codes at the base commit: {codes}" if codes else ""
    counts = "valid" if script.valid else script.note or "not valid"
    return f"{made}{by}: {counts}{ran}"


def matrix(evidence: Evidence) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return headings and rows of a table: classes in the order of their groups, valid scripts."""
    words = {THERE: "there", SOLVED: "solved", None: "–"}
    rows = []
    for group in groups_of(evidence):
        for one in group.classes:
            codes = [
                evidence.outcomes.get(script, {}).get(one.id)
                for script in evidence.valid
            ]
            cells = [words.get(code, f"exit {code}") for code in codes]
            attempts = ", ".join(map(str, one.attempts))
            rows.append((attempts, ", ".join(one.models), *cells, str(group.score)))
    return ("attempts", "models", *evidence.valid, "score of the group"), rows


def _failing(candidate: Attempt, evidence: Evidence) -> float:
    """Return how many tests newly fail; an unknown outcome ranks between none and one."""
    if candidate.test_outcome is None:
        return 0.5
    return 0 if candidate.test_outcome else evidence.failing.get(candidate.attempt, 1)


def why_none(evidence: Evidence) -> str:
    """Return in words why the scripts do not tell."""
    if evidence.note and not evidence.scripts:
        return evidence.note
    if not evidence.valid:
        made = counted(len(evidence.scripts), "script")
        return f"no script shows the issue at the base commit twice ({made})"
    return f"no candidate passes one of {counted(len(evidence.valid), 'valid script')}"


def _why(winner: Attempt, evidence: Evidence, groups: Sequence[AgreementGroup]) -> str:
    attempt = winner.attempt
    group = next(one for one in groups if attempt in one.attempts)
    same = evidence.class_of(attempt)
    text = f"attempt {attempt} is chosen by evidence: it passes {len(group.passed)} of "
    text += f"{counted(len(evidence.valid), 'valid script')}; {counted(len(groups), 'group')}, its "
    text += f"own has {counted(len(group.attempts), 'candidate')} and the score {group.score}"
    rest = [one for one in groups if one is not group]
    text += f", the next has {rest[0].score}" if rest else ""
    text += {True: "; no test newly fails", None: "; its tests are unknown"}.get(
        winner.test_outcome,
        f"; {counted(evidence.failing.get(attempt, 1), 'test')} newly fail",
    )
    if same and len(same.attempts) > 1:
        text += f"; equal patches: attempts {some([*map(str, same.attempts)], _SHOWN)}"
    return text + (
        "; it edits test configuration" if winner.edits_test_configuration else ""
    )


_LONGEST = 2_000_000
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def canonical_key(changes: Changes, base: Callable[[str], str | None]) -> str:
    """Return a hash that equal changes have in common; ``base`` reads the base commit.

    Python is compared with its indentation: others remove all whitespace and make patches equal
    that are not (Trae's ``clean_patch``). Files that say the same as before do not count, so a
    change of comments is no change.
    """
    digest = hashlib.sha256()
    for path, data in sorted(changes.items()):
        new = None if data is None else canonical(path, TextFile.decode(data).text)
        old = base(path)
        if new != (None if old is None else canonical(path, old)):
            digest.update(repr((path, new)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def canonical(path: str, text: str) -> str:
    """Return what ``text`` says: the syntax tree of Python, tokens of other languages.

    A text without grammar, and one that breaks its grammar, stands for itself.
    """
    language = language_of(path)
    if language is None or len(text) > _LONGEST:
        return text
    if language == "python" and (tree := _tree(text)) is not None:
        return tree
    root = parser(language).parse(text.encode("utf-8", "surrogatepass")).root_node
    # Blanks at the beginning of a line have a meaning in Python alone.
    return text if root.has_error or language == "python" else "\n".join(_tokens(root))


def _tree(text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        for node in ast.walk(tree):
            if (
                isinstance(node, _DOCUMENTED)
                and ast.get_docstring(node, clean=False) is not None
            ):
                node.body = node.body[1:] or [ast.Pass()]
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _tokens(root: Node) -> Iterator[str]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if "comment" in node.type:
            continue
        if node.children and "string" not in node.type and "template" not in node.type:
            # The kinds of inner nodes tell where a statement ends at the end of its line.
            yield node.type
            waiting.extend(reversed(node.children))
        else:
            yield (node.text or b"").decode("utf-8", "surrogatepass")
