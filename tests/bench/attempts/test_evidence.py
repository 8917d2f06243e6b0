"""Classes of equal candidates, what scripts tell of them, and the choice that follows."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bench.attempts.choose import choose
from bench.attempts.evidence.choice import (
    choose_by_evidence,
    matrix,
)
from bench.attempts.evidence.equality import canonical_key, is_directive
from bench.attempts.evidence.scripts import (
    PYTHON,
    script_in,
    script_of_file,
    script_prompt,
)
from bench.regression.runners import Runner
from runs.evidence import (
    CandidateClass,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from runs.records import Attempt, AttemptStatus, InstanceResult, InstanceStatus
from tests.support.attempts import diff, make_candidate

BASE = '"""A module."""\n\ndef f(a):\n    """Add one."""\n    return a + 1\n'


def key(
    text: str | None,
    path: str = "a.py",
    base: str = BASE,
) -> str:
    data = None
    if text is not None:
        data = text.encode("utf-8", "surrogateescape")
    return canonical_key({path: data}, lambda name: base if name == path else None)


SAME = [
    "def f(a):\n    return a + 2\n",
    "def f(a):\n    # why it is so\n    return (a +\n            2)\n",
    "def f(a):\n\n        return a+2",
    "def f(a): return a + 2 ; ",
]
OTHERS = [
    "def f(a):\n    'a docstring'\n    return a + 2\n",
    "def f(a):\n    return a + 2  # type: ignore\n",
    "def f(a):\n    return a + 3\n",
    "def f(a):\n    if a:\n        a += 1\n    return a + 2\n",
    "def f(a):\n    if a:\n        a += 1\n        return a + 2\n",
    "def f(a):\n    return a + '2'\n",
    "def g(a):\n    return a + 2\n",
    None,
    "def f(a:\n",
    "def f(a:\n\n",
]


def test_layout_and_comments_do_not_tell_candidates_apart() -> None:
    """Trae's selector removes all whitespace, and then two of ``OTHERS`` are equal."""
    assert len({key(text) for text in SAME}) == 1
    assert len({key(text) for text in [SAME[0], *OTHERS]}) == 1 + len(OTHERS)


DIRECTIVES = (
    "# noqa|# type: ignore|//go:build linux|// +build linux|/* eslint-disable */"
)
PROSE = "# adds one|// see above|/* the last of them */|# It is not so: why"


def test_a_comment_that_a_program_reads_is_a_directive() -> None:
    assert all(map(is_directive, DIRECTIVES.split("|")))
    assert not any(map(is_directive, PROSE.split("|")))


def test_a_change_of_comments_alone_is_no_change() -> None:
    comment = BASE.replace("    return", "    # it adds one\n    return")
    assert key(comment) == canonical_key({}, lambda _: None)
    unrelated = {"b.py": b"# nothing at all\n", "a.py": SAME[0].encode()}
    read = {"a.py": BASE, "b.py": ""}.get
    assert canonical_key(unrelated, read) == key(SAME[0])


# A file, its text, an equal one, and one that differs.
LANGUAGES = [
    ("a.js", "f(1); // see there\n", "f( 1 )\n;", "f(2);"),
    (
        "a.js",
        "function f() { return g() }",
        "function f() {\n return g()\n}",
        "function f() {\n return\n g()\n}",
    ),
    (
        "a.go",
        "package a\n\nfunc f() int { return 1 }\n",
        "package a\nfunc f() int {\n\t// it is one\n\treturn 1\n}\n",
        "package a\nfunc f() int {\n\treturn 2\n}\n",
    ),
    ("a.rb", "x = 'a  b'\n", "x =   'a  b'  # the c of it\n", "x = 'a b'\n"),
    (
        "a.rs",
        "fn f() -> i32 { 1 }",
        "fn f() -> i32 {\n    /* it is one */ 1\n}",
        "fn f() -> i32 { 1; }",
    ),
    ("a.txt", "a b\n", "a b\n", "a  b\n"),
]


def test_other_languages_are_compared_by_their_grammars() -> None:
    for path, text, same, other in LANGUAGES:
        assert key(text, path) == key(same, path)
        assert key(text, path) != key(other, path)


def test_hostile_texts_have_a_key() -> None:
    texts = [
        "(" * 100_000,
        "\0",
        "\udcff = 1",
        "x = " + "-" * 50_000 + "1",
        "é" * 10,
        "\ufeffx = 1",
    ]
    assert len({key(text) for text in texts}) == len(texts)


def candidate(
    attempt: int,
    *,
    test: bool | None = True,
    **more: Any,
) -> Attempt:
    return make_candidate(attempt, test=test, patch=f"patch {attempt}").but(**more)


def script(number: int, *, base: tuple[int | None, ...] = (2, 2)) -> ReproductionScript:
    return ReproductionScript(
        id=f"s{number}",
        source=ScriptSource.ISSUE,
        model="m",
        text=f"script {number}",
        base=base,
    )


def make_evidence(
    classes: Sequence[Sequence[int]],
    outcomes: Mapping[int, Sequence[int | None]],
    failing: Mapping[int, int] | None = None,
    scripts: Sequence[ReproductionScript] = (),
) -> Evidence:
    """Return evidence; ``outcomes`` are the exit codes of a script, in the order of classes."""
    groups = []
    for members in classes:
        name = f"c{members[0]}"
        group = CandidateClass(id=name, attempts=tuple(members), models=("m",))
        groups.append(group)
    names = [group.id for group in groups]
    codes_by_script = {}
    for number, codes in outcomes.items():
        codes_by_script[f"s{number}"] = dict(zip(names, codes, strict=True))
    return Evidence(
        classes=tuple(groups),
        scripts=(*map(script, outcomes), *scripts),
        outcomes=codes_by_script,
        failing=failing or {},
    )


def choose_winner(candidates: Sequence[Attempt], evidence: Evidence) -> tuple[int, str]:
    choice = choose_by_evidence(candidates, evidence)
    assert choice.winner
    return choice.winner.attempt, choice.reason


def test_the_first_plausible_candidate_loses_to_one_that_passes_more_scripts() -> None:
    evidence = make_evidence([[1], [2, 3]], {1: (2, 0), 2: (0, 0)})
    attempt, reason = choose_winner([candidate(n) for n in (1, 2, 3)], evidence)
    assert attempt == 2
    assert "it passes 2 of 2 valid scripts" in reason
    assert "equal patches of 1 model: attempts 2, 3" in reason


def test_tests_then_class_then_size_then_order_decide() -> None:
    def first(evidence: Evidence, *candidates: Attempt) -> int:
        return choose_winner(candidates, evidence)[0]

    both = {1: (0, 0)}
    equal = make_evidence([[1], [2]], both)
    assert first(equal, candidate(1, test=False), candidate(2)) == 2
    assert first(equal, candidate(1, test=None), candidate(2)) == 2
    failing = make_evidence([[1], [2]], both, {1: 3, 2: 1})
    assert first(failing, candidate(1, test=False), candidate(2, test=False)) == 2
    larger = make_evidence([[1], [2, 3]], both)
    assert first(larger, candidate(1), candidate(2), candidate(3)) == 2
    one_class = make_evidence([[1, 2]], {})
    long = candidate(1, model_patch=diff("a long patch" * 9))
    assert first(one_class, long, candidate(2)) == 2
    swapped = make_evidence([[2], [1]], both)
    assert first(swapped, candidate(1), candidate(2)) == 1
    configures = candidate(1, edits_test_configuration=True)
    assert first(equal, configures, candidate(2)) == 2


NOT_VALID = [script(1, base=(2, 0)), script(2, base=())]
NO_SCRIPT = "no script shows the issue at the base commit twice"
CLASSES = make_evidence([[1], [2]], {}).classes
NOTHING_RUNS = "no environment runs scripts for this instance"
WITHOUT_SCRIPTS = [
    (make_evidence([[1], [2]], {}), f"{NO_SCRIPT} (0 scripts)"),
    (make_evidence([[1], [2]], {}, scripts=NOT_VALID), f"{NO_SCRIPT} (2 scripts)"),
    (Evidence(classes=CLASSES, note=NOTHING_RUNS), NOTHING_RUNS),
]


def test_without_scripts_tests_and_agreement_decide() -> None:
    candidates = [candidate(1, test=False), candidate(2)]
    for evidence, reason in WITHOUT_SCRIPTS:
        choice = choose_by_evidence(candidates, evidence)
        assert choice.winner == candidates[1]
        assert reason in choice.reason


def test_without_classes_the_usual_rule_decides() -> None:
    candidates = [candidate(1, test=False), candidate(2)]
    assert choose_by_evidence(candidates, Evidence()) == choose(candidates)


def test_a_missing_outcome_is_no_pass_and_drops_no_candidate() -> None:
    """A set-up that failed leaves no outcomes; others treat that as failed tests."""
    evidence = make_evidence([[1], [2]], {1: (0, 0)})
    lost = evidence.model_copy(update={"outcomes": {"s1": {"c2": 0}}})
    assert choose_winner([candidate(1), candidate(2)], lost)[0] == 2
    nothing = evidence.model_copy(update={"outcomes": {}})
    assert choose_winner([candidate(1), candidate(2)], nothing)[0] == 1


def test_what_never_is_plausible_is_not_chosen_by_evidence() -> None:
    evidence = make_evidence([[1], [2]], {1: (0, 2)})
    broken = candidate(1, status=AttemptStatus.TREE_DIFFERS)
    assert choose_winner([broken, candidate(2)], evidence)[0] == 2


def test_a_group_that_cannot_be_chosen_hides_no_other() -> None:
    evidence = make_evidence(
        [[1], [2], [3]], {1: (0, 2, 0), 2: (0, 2, 0), 3: (0, 2, 2)}
    )
    late = candidate(1, status=AttemptStatus.TIMEOUT)
    attempt, reason = choose_winner([late, candidate(2), candidate(3)], evidence)
    assert attempt == 3
    assert "it passes 2 of 3 valid scripts" in reason


def test_the_status_says_whether_the_choice_is_plausible() -> None:
    evidence = make_evidence([[1], [2]], {1: (0, 2)})
    statuses = {True: InstanceStatus.PLAUSIBLE, False: InstanceStatus.FALLBACK}
    for test, status in statuses.items():
        candidates = [candidate(1, test=test), candidate(2, test=test)]
        assert choose_by_evidence(candidates, evidence).status is status


def test_the_order_of_candidates_and_classes_decides_nothing() -> None:
    """Reviewers that see patches side by side prefer the first; a pure rule must not."""
    random.seed(5)
    for _ in range(200):
        numbers = iter(range(1, 20))
        classes = []
        for _ in range(3):
            size = random.randint(1, 3)
            classes.append([next(numbers) for _ in range(size)])
        codes = {n: random.choices([0, 2, 1, None], k=3) for n in (1, 2, 3)}
        candidates = []
        for number in itertools.chain.from_iterable(classes):
            test = random.choice([True, False, None])
            candidates.append(candidate(number, test=test))
        results = set()
        for order in itertools.permutations(range(3)):
            ordered = {n: [codes[n][i] for i in order] for n in codes}
            evidence = make_evidence([classes[i] for i in order], ordered)
            random.shuffle(candidates)
            results.add(choose_winner(candidates, evidence)[0])
        assert len(results) == 1


def test_evidence_is_the_same_after_its_file() -> None:
    evidence = make_evidence(
        [[1], [2, 3]], {1: (2, 0), 2: (None, 0)}, {1: 2}, [script(3, base=(1, None))]
    )
    raw = json.loads(json.dumps({"evidence": evidence.model_dump(mode="json")}))
    again = Evidence.model_validate(raw["evidence"])
    assert again == evidence
    assert raw["evidence"]["scripts"][0]["valid"] is True
    candidates = [candidate(n) for n in (1, 2, 3)]
    choice = choose_by_evidence(candidates, again)
    assert choice == choose_by_evidence(candidates, evidence)
    result = InstanceResult(
        instance_id="a",
        attempts=tuple(candidates),
        evidence=evidence,
        belief=choice.belief,
    )
    headings, rows = matrix(result)
    assert headings == ("attempts", "models", "s1", "s2", "weight")
    cells = [row[:-1] for row in rows]
    assert cells == [("2, 3", "m", "solved", "solved"), ("1", "m", "there", "–")]
    weights = [float(row[-1]) for row in rows]
    assert choice.belief
    assert weights[0] == round(choice.belief.weight, 2) > weights[1]
    assert InstanceResult.model_validate_json(result.model_dump_json()) == result


def test_damaged_evidence_is_an_error() -> None:
    damaged: list[Any] = [{"classes": 3}, {"outcomes": {"s1": {"c1": "x"}}}, []]
    for raw in damaged:
        with pytest.raises(ValueError, match="validation error"):
            Evidence.model_validate(raw)


SHELL_AND_PYTHON = (
    "Run it:\n```bash\npython x.py\n```\n```python\nimport sys\nsys.exit(2)\n```\n"
)
SCRIPTS = {
    SHELL_AND_PYTHON: "import sys\nsys.exit(2)\n",
    "````python\nx = '''\n```\n'''\n````": "x = '''\n```\n'''\n",
    "~~~\nexit(2)\n~~~": "exit(2)\n",
    "```\nx = 'a\x0cb\u2028c'\n```": "x = 'a\x0cb\u2028c'\n",
    "NO EVIDENCE": "",
    "```python\nimport sys": "",
    "```\n\n```": "",
    "```\n" + "x" * 200_000 + "\n```": "",
}


def test_the_longest_block_of_a_reply_is_the_script() -> None:
    assert {reply: script_in(reply) for reply in SCRIPTS} == SCRIPTS


def test_a_test_of_an_attempt_becomes_a_script() -> None:
    test = b"def test(): assert '\\n'\n"
    made = script_of_file(PYTHON, Runner.PYTEST, "tests/test_a.py", test)
    compile(made, "s.py", "exec")
    assert "tests/test_a.py" in made
    assert script_of_file(PYTHON, Runner.DJANGO, "tests/test_a.py", b"x") == ""
    program = b"exit(2)\n"
    assert script_of_file(PYTHON, Runner.PYTEST, "repro.py", program) == "exit(2)\n"
    assert script_of_file(PYTHON, Runner.PYTEST, "notes.md", program) == ""


def test_large_files_are_not_shown_to_a_writer() -> None:
    files = {"big.py": "x" * 30_000, **{f"{n}.py": str(n) * 19_000 for n in range(5)}}
    prompt = script_prompt(PYTHON, "It fails.", files, "")
    assert len(prompt) < 62_000
    assert "big.py" not in prompt
    assert "0.py" in prompt
