"""Classes of equal candidates, what scripts tell of them, and the choice that follows."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from swe_retry.attempts.choose import choose
from swe_retry.attempts.evidence.choice import (
    choose_by_evidence,
    matrix,
)
from swe_retry.attempts.evidence.equality import canonical_key, is_directive
from swe_retry.attempts.evidence.scripts import (
    PYTHON,
    script_in,
    script_of_file,
    script_prompt,
)
from swe_retry.frameworks import Runner
from swe_retry.record.evidence import (
    CandidateClass,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.record.result import InstanceResult, InstanceStatus
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
    read_base = {path: base}.get
    return canonical_key({path: data}, read_base)


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
    same_keys = {key(text) for text in SAME}
    assert len(same_keys) == 1
    other_keys = {key(text) for text in OTHERS}
    assert len(same_keys | other_keys) == 1 + len(OTHERS)


DIRECTIVES = [
    "# noqa",
    "# type: ignore",
    "//go:build linux",
    "// +build linux",
    "/* eslint-disable */",
]
PROSE = [
    "# adds one",
    "// see above",
    "/* the last of them */",
    "# It is not so: why",
]


def test_a_comment_that_a_program_reads_is_a_directive() -> None:
    for comment in DIRECTIVES:
        assert is_directive(comment)
    for comment in PROSE:
        assert not is_directive(comment)


def test_a_change_of_comments_alone_is_no_change() -> None:
    comment = BASE.replace("    return", "    # it adds one\n    return")
    assert key(comment) == canonical_key({}, lambda _: None)
    changes: dict[str, bytes | None] = {
        "a.py": SAME[0].encode(),
        "b.py": b"# nothing at all\n",
    }
    read_base = {"a.py": BASE, "b.py": ""}.get
    assert canonical_key(changes, read_base) == key(SAME[0])


# A file, its text, an equal one, and one that differs.
LANGUAGES = [
    (
        "a.js",
        "f(1); // see there\n",
        "f( 1 )\n;",
        "f(2);",
    ),
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
    (
        "a.rb",
        "x = 'a  b'\n",
        "x =   'a  b'  # the c of it\n",
        "x = 'a b'\n",
    ),
    (
        "a.rs",
        "fn f() -> i32 { 1 }",
        "fn f() -> i32 {\n    /* it is one */ 1\n}",
        "fn f() -> i32 { 1; }",
    ),
    (
        "a.txt",
        "a b\n",
        "a b\n",
        "a  b\n",
    ),
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
    keys = {key(text) for text in texts}
    assert len(keys) == len(texts)


def candidate(
    attempt: int,
    *,
    test: bool | None = True,
    **changes: Any,
) -> Attempt:
    attempt_made = make_candidate(attempt, test=test, patch=f"patch {attempt}")
    return attempt_made.but(**changes)


Codes = Sequence[int | None]
TWO_CLASSES = [[1], [2]]


def script(number: int, *, base: Codes = (2, 2)) -> ReproductionScript:
    """Return a script that ended with ``base`` at the base commit."""
    return ReproductionScript(
        id=f"s{number}",
        source=ScriptSource.ISSUE,
        model="m",
        text=f"script {number}",
        base=tuple(base),
    )


def make_evidence(
    classes: Sequence[Sequence[int]],
    outcomes: Mapping[int, Codes],
    failing: Mapping[int, int] | None = None,
    scripts: Sequence[ReproductionScript] = (),
) -> Evidence:
    """Return evidence; ``outcomes`` are the exit codes of a script, in the order of classes."""
    groups = []
    for members in classes:
        group = CandidateClass(
            id=f"c{members[0]}",
            attempts=tuple(members),
            models=("m",),
        )
        groups.append(group)
    names = [group.id for group in groups]
    codes_by_script = {}
    for number, codes in outcomes.items():
        codes_by_class = zip(names, codes, strict=True)
        codes_by_script[f"s{number}"] = dict(codes_by_class)
    valid_scripts = map(script, outcomes)
    return Evidence(
        classes=tuple(groups),
        scripts=(*valid_scripts, *scripts),
        outcomes=codes_by_script,
        failing=failing or {},
    )


def choose_winner(candidates: Sequence[Attempt], evidence: Evidence) -> tuple[int, str]:
    choice = choose_by_evidence(candidates, evidence)
    assert choice.winner
    return choice.winner.attempt, choice.reason


def winner(evidence: Evidence, *candidates: Attempt) -> int:
    attempt, _ = choose_winner(candidates, evidence)
    return attempt


def test_the_first_plausible_candidate_loses_to_one_that_passes_more_scripts() -> None:
    outcomes = {
        1: (2, 0),
        2: (0, 0),
    }
    evidence = make_evidence([[1], [2, 3]], outcomes)
    candidates = [candidate(1), candidate(2), candidate(3)]
    attempt, reason = choose_winner(candidates, evidence)
    assert attempt == 2
    assert "it passes 2 of 2 valid scripts" in reason
    assert "equal patches of 1 model: attempts 2, 3" in reason


def test_tests_then_class_then_size_then_order_decide() -> None:
    first = candidate(1)
    first_failed = candidate(1, test=False)
    first_untested = candidate(1, test=None)
    first_long = candidate(1, model_patch=diff("a long patch" * 9))
    first_configures = candidate(1, edits_test_configuration=True)
    second = candidate(2)
    second_failed = candidate(2, test=False)

    both_pass = {1: (0, 0)}
    equal = make_evidence(TWO_CLASSES, both_pass)
    failing = make_evidence(TWO_CLASSES, both_pass, {1: 3, 2: 1})
    larger = make_evidence([[1], [2, 3]], both_pass)
    one_class = make_evidence([[1, 2]], {})
    swapped = make_evidence([[2], [1]], both_pass)

    assert winner(equal, first_failed, second) == 2
    assert winner(equal, first_untested, second) == 2
    assert winner(failing, first_failed, second_failed) == 2
    assert winner(larger, first, second, candidate(3)) == 2
    assert winner(one_class, first_long, second) == 2
    assert winner(swapped, first, second) == 1
    assert winner(equal, first_configures, second) == 2


NO_SCRIPT = "no script shows the issue at the base commit twice"
NOTHING_RUNS = "no environment runs scripts for this instance"
ONLY_CLASSES = make_evidence(TWO_CLASSES, {})
NOT_VALID = [
    script(1, base=(2, 0)),
    script(2, base=()),
]
WITHOUT_SCRIPTS = [
    (
        ONLY_CLASSES,
        f"{NO_SCRIPT} (0 scripts)",
    ),
    (
        make_evidence(TWO_CLASSES, {}, scripts=NOT_VALID),
        f"{NO_SCRIPT} (2 scripts)",
    ),
    (
        Evidence(classes=ONLY_CLASSES.classes, note=NOTHING_RUNS),
        NOTHING_RUNS,
    ),
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
    evidence = make_evidence(TWO_CLASSES, {1: (0, 0)})
    only_second = {"s1": {"c2": 0}}
    without_first = evidence.model_copy(update={"outcomes": only_second})
    assert winner(without_first, candidate(1), candidate(2)) == 2
    without_any = evidence.model_copy(update={"outcomes": {}})
    assert winner(without_any, candidate(1), candidate(2)) == 1


def test_what_never_is_plausible_is_not_chosen_by_evidence() -> None:
    evidence = make_evidence(TWO_CLASSES, {1: (0, 2)})
    broken = candidate(1, status=AttemptStatus.TREE_DIFFERS)
    assert winner(evidence, broken, candidate(2)) == 2


def test_a_group_that_cannot_be_chosen_hides_no_other() -> None:
    outcomes = {
        1: (0, 2, 0),
        2: (0, 2, 0),
        3: (0, 2, 2),
    }
    evidence = make_evidence([[1], [2], [3]], outcomes)
    late = candidate(1, status=AttemptStatus.TIMEOUT)
    candidates = [late, candidate(2), candidate(3)]
    attempt, reason = choose_winner(candidates, evidence)
    assert attempt == 3
    assert "it passes 2 of 3 valid scripts" in reason


def test_the_status_says_whether_the_choice_is_plausible() -> None:
    evidence = make_evidence(TWO_CLASSES, {1: (0, 2)})
    passing = [candidate(1), candidate(2)]
    choice = choose_by_evidence(passing, evidence)
    assert choice.status is InstanceStatus.PLAUSIBLE
    failing = [candidate(1, test=False), candidate(2, test=False)]
    choice = choose_by_evidence(failing, evidence)
    assert choice.status is InstanceStatus.FALLBACK


def test_the_order_of_candidates_and_classes_decides_nothing() -> None:
    """Reviewers that see patches side by side prefer the first; a pure rule must not."""
    random.seed(5)
    for _ in range(200):
        numbers = itertools.count(1)
        classes = []
        for _ in range(3):
            size = random.randint(1, 3)
            classes.append(list(itertools.islice(numbers, size)))
        outcomes = {}
        for number in (1, 2, 3):
            outcomes[number] = random.choices([0, 2, 1, None], k=3)
        candidates = []
        for number in itertools.chain.from_iterable(classes):
            test = random.choice([True, False, None])
            candidates.append(candidate(number, test=test))
        winners = set()
        for order in itertools.permutations(range(3)):
            ordered_classes = [classes[position] for position in order]
            ordered_outcomes = {}
            for number, codes in outcomes.items():
                ordered_outcomes[number] = [codes[position] for position in order]
            evidence = make_evidence(ordered_classes, ordered_outcomes)
            random.shuffle(candidates)
            winners.add(winner(evidence, *candidates))
        assert len(winners) == 1


def test_evidence_is_the_same_after_its_file() -> None:
    evidence = make_evidence(
        classes=[[1], [2, 3]],
        outcomes={1: (2, 0), 2: (None, 0)},
        failing={1: 2},
        scripts=[script(3, base=(1, None))],
    )
    text = json.dumps(evidence.model_dump(mode="json"))
    raw = json.loads(text)
    again = Evidence.model_validate(raw)
    assert again == evidence
    assert raw["scripts"][0]["valid"] is True
    candidates = [candidate(1), candidate(2), candidate(3)]
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
    assert cells == [
        ("2, 3", "m", "solved", "solved"),
        ("1", "m", "there", "–"),
    ]
    weights = [float(row[-1]) for row in rows]
    assert choice.belief
    assert weights[0] == round(choice.belief.weight, 2)
    assert weights[0] > weights[1]
    assert InstanceResult.model_validate_json(result.model_dump_json()) == result


def test_damaged_evidence_is_an_error() -> None:
    damaged: list[Any] = [
        {"classes": 3},
        {"outcomes": {"s1": {"c1": "x"}}},
        [],
    ]
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
    text = script_of_file(PYTHON, Runner.PYTEST, "tests/test_a.py", test)
    compile(text, "s.py", "exec")
    assert "tests/test_a.py" in text
    assert script_of_file(PYTHON, Runner.DJANGO, "tests/test_a.py", b"x") == ""
    program = b"exit(2)\n"
    assert script_of_file(PYTHON, Runner.PYTEST, "repro.py", program) == "exit(2)\n"
    assert script_of_file(PYTHON, Runner.PYTEST, "notes.md", program) == ""


def test_large_files_are_not_shown_to_a_writer() -> None:
    files = {"big.py": "x" * 30_000}
    for number in range(5):
        files[f"{number}.py"] = str(number) * 19_000
    prompt = script_prompt(PYTHON, "It fails.", files, "")
    assert len(prompt) < 62_000
    assert "big.py" not in prompt
    assert "0.py" in prompt
