"""Rows of one's own repositories: their tests run by the project's runner, read by our readers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.instances.split import split_row
from swe_retry.own.opening import open_repository
from swe_retry.record.description import DatasetFacts, Run
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.evaluate import RunEvaluation
from swe_retry.report.evaluation.evaluator import EvaluationTask
from swe_retry.report.evaluation.grading import failed_tests
from swe_retry.results.predictions import Prediction
from swe_retry.results.verdicts import Verdict, VerdictStatus
from tests.support.evaluated import report_settings
from tests.support.ownrows import add_row, patch_of, write_rows
from tests.support.ownworld import FILES, SOURCE, TESTS

FIXED = SOURCE.replace("a - b", "a + b")
ADDED = f"{TESTS}\n\ndef test_add():\n    assert add(2, 3) == 5\n"
CALC = "tests/test_calc.py"
LATE = "tests/test_late.py"
HOOK = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)
Evaluate = Callable[..., Verdict]


@pytest.fixture
def evaluate(tmp_path: Path, cache: Path) -> Evaluate:
    """Evaluates a patch for a row by default; the repository is opened, as by ``--repo``."""

    def call(root: Path, row: dict[str, Any], patch: str, **settings: Any) -> Verdict:
        open_repository(str(root), "", cache)
        rows = write_rows(tmp_path / "rows.jsonl", row)
        evaluation = RunEvaluation(
            RunStore(tmp_path, "r"),
            report_settings(cache, **{"evaluator": None, **settings}),
            Run(dataset=DatasetFacts(name=str(rows), split="test")),
            print,
        )
        instance, hidden = split_row(row)
        prediction = Prediction(instance.instance_id, "me/too", patch)
        task = EvaluationTask(prediction, instance, hidden)
        (verdict,) = evaluation.evaluator.evaluate([task], "r")
        return verdict

    return call


def python_row(root: Path, **fields: Any) -> dict[str, Any]:
    old = "def test_old():\n    assert False\n"
    base = {**FILES, "tests/test_old.py": old, "conftest.py": "# All share it.\n"}
    late = "import pytest\n\n\n@pytest.mark.xfail\ndef test_late():\n    assert False\n"
    tests = {
        CALC: ADDED,
        LATE: late,
        "tests/test_old.py": None,
        "tests/data.txt": "not a test",
        "tests/helper.py": "raise SystemExit",
    }
    values = {
        "own_repository": {"test": "pytest"},
        "FAIL_TO_PASS": [f"{CALC}::test_add"],
        "PASS_TO_PASS": [f"{CALC}::test_mul", f"{CALC}::test_add_zero"],
        **fields,
    }
    return add_row(root, "calc-1", base, {"lib/calc.py": FIXED}, tests, **values)


def test_candidates_of_python_are_told_apart(
    tmp_path: Path, evaluate: Evaluate
) -> None:
    root = tmp_path / "calc"
    row = python_row(root)
    gold = evaluate(root, row, row["patch"])
    assert (gold.status, gold.reason) == (VerdictStatus.RESOLVED, "")
    # The files that the patch names are run, and no other.
    assert "xfailed" in gold.log
    assert "test_old" not in gold.log
    wrong = evaluate(root, row, patch_of(root, {"lib/calc.py": f"{SOURCE}\n"}))
    assert wrong.status is VerdictStatus.UNRESOLVED
    assert failed_tests(wrong) == (f"{CALC}::test_add",)
    hook = evaluate(root, row, patch_of(root, {"conftest.py": HOOK}))
    assert hook.status is VerdictStatus.UNRESOLVED
    assert "resolved only with its edits of test configuration" in hook.reason
    hidden = patch_of(root, {"lib/calc.py": FIXED, "lib/argparse.py": ""})
    assert "hides a module" in evaluate(root, row, hidden).reason
    slow = patch_of(root, {"lib/calc.py": f"import time\ntime.sleep(99)\n{FIXED}"})
    late = evaluate(root, row, slow, timeout=4)
    assert late.status is VerdictStatus.UNRESOLVED
    assert late.reason == "the tests did not end within 4 s"
    killed = f"import os\nos.kill(os.getpid(), 9)\n{FIXED}"
    died = evaluate(root, row, patch_of(root, {"lib/calc.py": killed}))
    assert died.status is VerdictStatus.NOT_EVALUATED
    assert "does not show that the tests ran" in died.reason


def test_what_the_gold_patch_changes_too_is_no_doubt(
    tmp_path: Path, evaluate: Evaluate
) -> None:
    """Without the fix the test file does not load, so the base commit's run changes nothing."""
    root = tmp_path / "calc"
    fixed = f"{FIXED}\n\ndef total(a, b):\n    return a + b\n"
    lazy = "import json\n\nfrom calc import total\n\n\ndef test_total():\n"
    lazy += "    json.late = lambda: 0\n    assert total(2, 3) == 5\n"
    row = add_row(
        root,
        "calc-2",
        FILES,
        {"lib/calc.py": fixed},
        {"tests/test_total.py": lazy},
        own_repository={"test": "pytest"},
        FAIL_TO_PASS=["tests/test_total.py::test_total"],
        PASS_TO_PASS=[],
    )
    assert evaluate(root, row, row["patch"]).status is VerdictStatus.RESOLVED
    forged = f"import json\n\njson.loads = lambda _: 0\n{fixed}"
    other = evaluate(root, row, patch_of(root, {"lib/calc.py": forged}))
    assert other.status is VerdictStatus.UNRESOLVED
    assert "json.loads is not as at the base commit" in other.reason


def test_an_expected_failure_is_no_pass(tmp_path: Path, evaluate: Evaluate) -> None:
    root = tmp_path / "calc"
    row = python_row(root, PASS_TO_PASS=[f"{LATE}::test_late"])
    verdict = evaluate(root, row, row["patch"])
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert (
        f"not resolved in this environment either: {LATE}::test_late" in verdict.reason
    )


NODE_TEST = "require('node:test')('{0}', () => {{ if ({1}) throw Error('{0}') }})\n"
WORKS = "require('../lib/calc')(2, 3) !== 5"


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
def test_files_of_javascript_run_one_by_one(tmp_path: Path, evaluate: Evaluate) -> None:
    root = tmp_path / "sums"
    base = {
        "package.json": '{"scripts": {"test": "node --test"}}',
        "lib/calc.js": "module.exports = (a, b) => a - b\n",
        "test/broken.test.js": NODE_TEST.format("broken", "true"),
        "test/old.test.js": NODE_TEST.format("old", "false"),
    }
    tests = {
        "test/add.test.js": NODE_TEST.format("adds", WORKS),
        "test/new.test.js": NODE_TEST.format("new", "false"),
        "test/old.test.js": None,
        "test/data.json": "{}",
    }
    fix = {"lib/calc.js": "module.exports = (a, b) => a + b\n"}
    row = add_row(
        root,
        "sums-1",
        base,
        fix,
        tests,
        own_repository={"test": "npm test"},
        FAIL_TO_PASS=["adds"],
        PASS_TO_PASS=["new"],
    )
    gold = evaluate(root, row, row["patch"])
    assert gold.status is VerdictStatus.RESOLVED, gold
    assert "broken" not in gold.log
    empty = evaluate(root, row, patch_of(root, {"README.md": "A text.\n"}))
    assert failed_tests(empty) == ("adds",)
    lines = "ok 1 - adds\\nok 2 - new\\n# tests 2\\n# pass 2\\n# fail 0\\n"
    scripts = {"package.json": f'{{"scripts": {{"test": "printf \'{lines}\' #"}}}}'}
    forged = evaluate(root, row, patch_of(root, scripts))
    assert "resolved only with its edits of test configuration" in forged.reason


def test_of_a_script_the_exit_code_is_a_test(
    tmp_path: Path, evaluate: Evaluate
) -> None:
    root = tmp_path / "shell"
    command = "sh check.sh"
    base = {
        "check.sh": "grep -q right answer.txt && sh tests/all.sh\n",
        "answer.txt": "wrong\n",
    }
    row = add_row(
        root,
        "shell-1",
        base,
        {"answer.txt": "right\n"},
        {"tests/all.sh": "true\n"},
        own_repository={"test": command},
        FAIL_TO_PASS=[command],
    )
    assert evaluate(root, row, row["patch"]).status is VerdictStatus.RESOLVED
    other = evaluate(root, row, patch_of(root, {"answer.txt": "other\n"}))
    assert failed_tests(other) == (command,)


def test_docker_is_refused_for_rows_without_an_image(
    tmp_path: Path, evaluate: Evaluate
) -> None:
    root = tmp_path / "calc"
    row = python_row(root)
    with pytest.raises(
        UserError, match=r"--evaluator docker: .* give --evaluator local"
    ):
        evaluate(root, row, row["patch"], evaluator="docker")
