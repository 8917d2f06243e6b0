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

from bench.attempts.choose import choose
from bench.attempts.evidence.choice import choose_by_evidence, facts_of
from bench.attempts.evidence.equality import canonical_key
from bench.attempts.evidence.fit import fit_run
from runs.evidence import CandidateClass, Evidence, ReproductionScript, ScriptSource
from runs.records import Attempt
from tests.support.attempts import make_candidate

PROGRAMS = Path(__file__).parents[2] / "data/programs"
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
        return not any([*self.tests, *self.hidden])


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
        members: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            text = self.content["candidates"][attempt.attempt - 1]["text"]
            base = {"program.py": self.content["module"]}
            key = canonical_key({"program.py": text.encode()}, base.get)
            members[key].append(attempt)
        classes = []
        for attempts in members.values():
            equal = CandidateClass(
                id=f"c{attempts[0].attempt}",
                attempts=tuple(attempt.attempt for attempt in attempts),
                models=tuple({attempt.model: None for attempt in attempts}),
            )
            classes.append(equal)
        return classes

    def evidence(self, authors: str) -> Evidence:
        """Return what is known of the candidates with the scripts of some authors."""
        scripts = []
        outcomes = {}
        for name, code in self.outcomes[0].scripts.items():
            if name.split()[0] not in authors:
                continue
            script = ReproductionScript(
                id=name, source=ScriptSource.ISSUE, base=(code, code)
            )
            scripts.append(script)
            if script.valid:
                outcomes[name] = {
                    equal.id: self.outcomes[equal.attempts[0]].scripts[name]
                    for equal in self.classes
                }
        return Evidence(
            classes=tuple(self.classes),
            scripts=tuple(scripts),
            outcomes=outcomes,
            failing={
                a.attempt: self.outcomes[a.attempt].failing for a in self.attempts
            },
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
        codes = iter(exit_codes(programs, module, folder / f"{path.stem}-{number}"))
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
    with ThreadPoolExecutor() as pool:
        paths = sorted(PROGRAMS.glob("*.yaml"))
        return list(pool.map(partial(run_bug, folder=folder), paths))


def test_the_programs_are_what_they_are_for(bugs: list[Bug]) -> None:
    assert len(bugs) == 8
    for bug in bugs:
        base = bug.outcomes[0]
        assert not base.failing
        assert any(base.hidden)
        assert (len(bug.attempts), len(base.scripts)) == (6, 18)
        assert 0 < len(bug.right) < len(bug.classes)


def choose_all(bugs: Sequence[Bug], authors: str) -> list[Attempt]:
    """Return the choices of the belief, fitted over all bugs."""
    facts = [facts_of(bug.evidence(authors), bug.attempts) for bug in bugs]
    fit = fit_run(facts)
    winners = []
    for bug in bugs:
        winner = choose_by_evidence(bug.attempts, bug.evidence(authors), fit).winner
        assert winner
        winners.append(winner)
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
    for bug, winner in zip(bugs, choose_all(bugs, authors), strict=True):
        assert any(attempt.test_outcome for attempt in bug.attempts)
        assert winner.test_outcome, bug.name


def test_votes_of_poor_scripts_break_existing_tests(bugs: list[Bug]) -> None:
    """The programs can tell a rule that harms: the most scripts are passed by such candidates."""
    outcomes = [choose_by_votes(bug, "poor").test_outcome for bug in bugs]
    assert outcomes.count(False) >= 4


def test_more_choices_are_right_than_the_first_plausible(bugs: list[Bug]) -> None:
    """docs/selection.md has these figures."""
    firsts = []
    for bug in bugs:
        winner = choose(bug.attempts).winner
        assert winner
        firsts.append(winner)
    right = {
        name: count_right(bugs, choose_all(bugs, name)) for name in (ALL, *AUTHORS)
    }
    assert count_right(bugs, firsts) == 3
    assert right == {ALL: 6, "able": 8, "middling": 5, "poor": 5}
