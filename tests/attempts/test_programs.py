"""Choices among six candidates for each of eight small bugs of real projects, by what runs tell.

``tests/data/programs`` has a file for each bug: the module that has it, existing tests, six
candidates of two models, scripts of three differently able authors, and hidden tests that decide
which candidates are right. All of them run; the belief sees the exit codes of tests and scripts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from swe_retry.attempts.choose import choose
from swe_retry.attempts.evidence.choice import choose_by_evidence, facts_of
from swe_retry.attempts.evidence.equality import canonical_key
from swe_retry.attempts.evidence.fit import fit_run
from swe_retry.record.evidence import (
    CandidateClass,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from swe_retry.record.records import Attempt
from tests.support.attempts import make_candidate

PROGRAMS = Path(__file__).parents[1] / "data/programs"
AUTHORS = ("able", "middling", "poor")
ALL = "able, middling, poor"
# One interpreter for all programs that run on a tree: starting it takes longest.
RUN_EACH = """
import json, sys

sys.path.insert(0, sys.argv[1])
codes = []
for text in json.load(sys.stdin):
    sys.modules.pop("program", None)
    code = 0
    try:
        exec(text, {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code
    except Exception:
        code = 1
    codes.append(code)
json.dump(codes, sys.stdout)
"""


def exit_codes(programs: Sequence[str], module: str, folder: Path) -> list[int]:
    """Return how programs end that import the text ``module`` as ``program``."""
    folder.mkdir()
    (folder / "program.py").write_text(module)
    result = subprocess.run(
        [sys.executable, "-c", RUN_EACH, folder],
        input=json.dumps(programs),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    codes: list[int] = json.loads(result.stdout)
    assert len(codes) == len(programs)
    return codes


@dataclass(frozen=True)
class Outcomes:
    """The exit codes of a bug's programs on one tree; of scripts by their names."""

    tests: Sequence[int]
    hidden: Sequence[int]
    scripts: Mapping[str, int]

    @property
    def failing(self) -> int:
        return sum(map(bool, self.tests))

    @property
    def is_right(self) -> bool:
        return not any(self.tests) and not any(self.hidden)


@dataclass(frozen=True)
class Bug:
    """A bug with its candidates and what ran on them; the first of ``outcomes`` is the base's."""

    name: str
    content: Mapping[str, Any]
    outcomes: Sequence[Outcomes]

    @cached_property
    def right(self) -> list[int]:
        numbers = range(1, len(self.outcomes))
        return [number for number in numbers if self.outcomes[number].is_right]

    @cached_property
    def attempts(self) -> list[Attempt]:
        attempts = []
        for number, candidate in enumerate(self.content["candidates"], 1):
            attempt = make_candidate(
                number,
                test=not self.outcomes[number].failing,
                patch=candidate["text"],
                model=candidate["model"],
            )
            attempts.append(attempt)
        return attempts

    @cached_property
    def classes(self) -> list[CandidateClass]:
        base = {"program.py": self.content["module"]}
        members: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            candidate = self.content["candidates"][attempt.attempt - 1]
            files = {"program.py": candidate["text"].encode()}
            key = canonical_key(files, base.get)
            members[key].append(attempt)
        classes = []
        for attempts in members.values():
            numbers = [attempt.attempt for attempt in attempts]
            models = dict.fromkeys(attempt.model for attempt in attempts)
            equal = CandidateClass(
                id=f"c{numbers[0]}",
                attempts=tuple(numbers),
                models=tuple(models),
            )
            classes.append(equal)
        return classes

    def evidence(self, authors: str) -> Evidence:
        """Return what the scripts of some authors tell about the candidates."""
        scripts = []
        outcomes = {}
        for name, code in self.outcomes[0].scripts.items():
            if name.split()[0] not in authors:
                continue
            script = ReproductionScript(
                id=name,
                source=ScriptSource.ISSUE,
                base=(code, code),
            )
            scripts.append(script)
            if not script.valid:
                continue
            codes = {}
            for equal in self.classes:
                first = equal.attempts[0]
                codes[equal.id] = self.outcomes[first].scripts[name]
            outcomes[name] = codes
        failing = {}
        for attempt in self.attempts:
            number = attempt.attempt
            failing[number] = self.outcomes[number].failing
        return Evidence(
            classes=tuple(self.classes),
            scripts=tuple(scripts),
            outcomes=outcomes,
            failing=failing,
        )


def run_bug(path: Path, folder: Path) -> Bug:
    content = yaml.safe_load(path.read_text())
    scripts = {}
    for author in AUTHORS:
        for number, text in enumerate(content["scripts"][author], 1):
            scripts[f"{author} {number}"] = text
    texts = [*content["tests"], *content["hidden"], *scripts.values()]
    programs = [f"{content['imports']}; {text}" for text in texts]
    modules = [content["module"]]
    modules += [candidate["text"] for candidate in content["candidates"]]
    outcomes = []
    for number, module in enumerate(modules):
        tree = folder / f"{path.stem}-{number}"
        codes = iter(exit_codes(programs, module, tree))
        of_module = Outcomes(
            tests=[next(codes) for _ in content["tests"]],
            hidden=[next(codes) for _ in content["hidden"]],
            scripts={name: next(codes) for name in scripts},
        )
        outcomes.append(of_module)
    return Bug(path.stem, content, outcomes)


@pytest.fixture(scope="module")
def bugs(tmp_path_factory: pytest.TempPathFactory) -> list[Bug]:
    folder = tmp_path_factory.mktemp("programs")
    paths = sorted(PROGRAMS.glob("*.yaml"))
    run = partial(run_bug, folder=folder)
    with ThreadPoolExecutor() as pool:
        return list(pool.map(run, paths))


def test_the_programs_are_what_they_are_for(bugs: list[Bug]) -> None:
    assert len(bugs) == 8
    for bug in bugs:
        base = bug.outcomes[0]
        assert not base.failing
        assert any(base.hidden)
        assert len(bug.attempts) == 6
        assert len(base.scripts) == 18
        assert 0 < len(bug.right) < len(bug.classes)


def choose_all(bugs: Sequence[Bug], authors: str) -> list[Attempt]:
    """Return the choices of the belief, fitted over all bugs."""
    facts = [facts_of(bug.evidence(authors), bug.attempts) for bug in bugs]
    fit = fit_run(facts)
    winners = []
    for bug in bugs:
        evidence = bug.evidence(authors)
        choice = choose_by_evidence(bug.attempts, evidence, fit)
        assert choice.winner
        winners.append(choice.winner)
    return winners


def choose_by_votes(bug: Bug, authors: str) -> Attempt:
    evidence = bug.evidence(authors)

    def passes(attempt: Attempt) -> int:
        equal = evidence.class_of(attempt.attempt)
        assert equal
        return len(evidence.scripts_passed_by(equal.id))

    return max(bug.attempts, key=passes)


def count_right(bugs: Sequence[Bug], winners: Sequence[Attempt]) -> int:
    pairs = zip(bugs, winners, strict=True)
    return sum(winner.attempt in bug.right for bug, winner in pairs)


@pytest.mark.parametrize("authors", [ALL, *AUTHORS])
def test_no_choice_breaks_an_existing_test(bugs: list[Bug], authors: str) -> None:
    winners = choose_all(bugs, authors)
    for bug, winner in zip(bugs, winners, strict=True):
        assert any(attempt.test_outcome for attempt in bug.attempts)
        assert winner.test_outcome, bug.name


def test_votes_of_poor_scripts_break_existing_tests(bugs: list[Bug]) -> None:
    """The programs can tell a rule that harms: the most scripts are passed by such candidates."""
    winners = [choose_by_votes(bug, "poor") for bug in bugs]
    outcomes = [winner.test_outcome for winner in winners]
    assert outcomes.count(False) >= 4


def test_more_choices_are_right_than_the_first_plausible(bugs: list[Bug]) -> None:
    """docs/selection.md has these figures."""
    firsts = []
    for bug in bugs:
        winner = choose(bug.attempts).winner
        assert winner
        firsts.append(winner)
    assert count_right(bugs, firsts) == 3
    right = {}
    for authors in (ALL, *AUTHORS):
        winners = choose_all(bugs, authors)
        right[authors] = count_right(bugs, winners)
    assert right == {
        ALL: 6,
        "able": 8,
        "middling": 5,
        "poor": 5,
    }
