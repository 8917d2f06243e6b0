"""Grade test output with swebench's own functions.

The tests of a local evaluation can print anything. A test that swebench reads as passed counts only
if pytest's own report, unittest's results, or the count of sympy's runner confirms it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.instances.project import local_command
from bench.instances.shape import END_MARKER, START_MARKER
from bench.regression.runners import OF_PYTHON, Runner, runner_of
from bench.regression.statements import Statements
from bench.regression.testlogs import (
    cross_check,
    fallback_parser,
    limited_output,
    passing_tests,
    report_results,
    results_in,
    split_report,
)
from core.plaintext import some
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluator import EvaluationTask
from reports.evaluation.settings import EvaluatorKind
from runs.patches import patch_paths

# A test that is expected to fail counts as passed for swebench.
_PASSING = frozenset({"PASSED", "XFAIL"})
_HEAD = "swe-retry-harness: the report of pytest follows on the line "


def output_for_log(output: str, token: str) -> str:
    """Return a test output for its file; the first line names the line before the report."""
    return f"{_HEAD}{token}\n{_with_markers(output)}"


def grade_output(
    task: EvaluationTask,
    output: str,
    token: str,
    statements: Statements,
) -> Verdict:
    """Return the verdict on the output of a local evaluation, with swebench's report."""
    from swebench.harness.constants import EvalType, ResolvedStatus
    from swebench.harness.grading import get_eval_tests_report, get_resolution_status

    test_spec = _test_spec(task)
    fail_to_pass = test_spec.FAIL_TO_PASS
    pass_to_pass = test_spec.PASS_TO_PASS
    printed, junit_report = split_report(output, token)
    printed = limited_output(printed)
    statuses = _printed_statuses(test_spec, printed)
    runner = None
    if task.instance.spec:
        runner = runner_of(local_command(task.instance.spec))
    reason = ""
    if runner is Runner.PYTEST:
        names = _fail_unconfirmed(task, test_spec, statuses, junit_report)
        names = [name for name in names if name in fail_to_pass + pass_to_pass]
        if names:
            reason = f"as swebench reads {some(names, 3)}, which pytest's report cannot confirm"
    elif runner is Runner.SYMPY:
        statuses = cross_check(statuses, printed)
    elif runner in OF_PYTHON:
        # The names differ: swebench takes the first lines of docstrings for some.
        confirmed = passing_tests(results_in(statements))
        if len(passing_tests(statuses)) > len(confirmed):
            statuses = {}
    tests = get_eval_tests_report(
        statuses,
        {"FAIL_TO_PASS": fail_to_pass, "PASS_TO_PASS": pass_to_pass},
        eval_type=EvalType(test_spec.eval_type),
    )
    # Without any status no test ran, even if swebench counts unnamed tests as passed.
    resolved = get_resolution_status(tests) == ResolvedStatus.FULL.value
    resolved = resolved and bool(statuses)
    report = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": resolved,
        "infra_failure": False,
        "tests_status": tests,
    }
    return task.verdict(
        EvaluatorKind.LOCAL.value,
        VerdictStatus.RESOLVED if resolved else VerdictStatus.UNRESOLVED,
        reason,
        log=output_for_log(output, token),
        report=report,
    )


def _test_spec(task: EvaluationTask) -> Any:  # noqa: ANN401 - swebench has no types
    from swebench.types import TestSpec

    instance = task.instance
    command = instance.spec.test_cmd if instance.spec else ""
    return TestSpec(
        instance_id=instance.instance_id,
        image=instance.image,
        eval_script_list=[],
        repo=instance.repo,
        version=instance.version,
        FAIL_TO_PASS=list(task.evaluation.fail_to_pass),
        PASS_TO_PASS=list(task.evaluation.pass_to_pass),
        log_parser=instance.log_parser or fallback_parser(command),
        eval_type=task.evaluation.row.get("eval_type") or "pass_and_fail",
    )


def _printed_statuses(test_spec: Any, printed: str) -> dict[str, str]:  # noqa: ANN401
    from swebench.harness.grading import get_logs_eval

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "test_output.txt")
        text = _with_markers(printed)
        path.write_text(text, encoding="utf-8", errors="replace")
        statuses = get_logs_eval(test_spec, path)[0]
    return dict(statuses)


def _with_markers(output: str) -> str:
    return f"{START_MARKER}\n{output}\n{END_MARKER}\n"


def _fail_unconfirmed(
    task: EvaluationTask,
    test_spec: Any,  # noqa: ANN401
    statuses: dict[str, str],
    junit_report: str,
) -> list[str]:
    """Make passed tests that pytest's report does not confirm failed ones in ``statuses``.

    swebench's parser also takes parts of nested output for names, such as ``[100%]`` and the tests
    of runs that a test of pytest starts. No file of this run has these names, so the report can
    neither confirm nor contradict them. Without a report no test is confirmed.

    Returns:
        The names that the report cannot hold, sorted; their status is swebench's.
    """
    from swebench.harness.log_parsers import PARSER_REGISTRY

    hidden = task.evaluation
    test_files = patch_paths(hidden.test_patch)
    deciding_files = map(_file_of, (*hidden.fail_to_pass, *hidden.pass_to_pass))
    results = report_results(junit_report, {*test_files, *deciding_files})
    # The parser shortens and rewrites names, so the names of the report pass through it as well.
    parse = PARSER_REGISTRY[test_spec.log_parser]
    lines = [f"{status} {name}" for name, status in results.items()]
    passed = parse("\n".join(lines), test_spec)
    lines = [f"PASSED {name}" for name in results]
    in_report = parse("\n".join(lines), test_spec)
    files_that_ran = set(map(_file_of, (*results, *test_files)))
    outside = []
    for name, status in statuses.items():
        if status not in _PASSING or passed.get(name) in _PASSING:
            continue
        is_outside = _file_of(name) not in files_that_ran and name not in in_report
        if results and is_outside:
            outside.append(name)
        else:
            statuses[name] = "FAILED"
    return sorted(outside)


def _file_of(test: str) -> str:
    return test.partition("::")[0]
