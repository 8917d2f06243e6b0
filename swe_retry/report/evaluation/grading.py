"""Grade test output with swebench's own functions.

The tests of a local evaluation can print anything. A test that swebench reads as passed counts only
if pytest's own report, unittest's results, or the count of sympy's runner confirms it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from swe_retry.core.jsontypes import JsonObject, object_at, value_at
from swe_retry.core.plaintext import some
from swe_retry.environments.base import UnavailableError
from swe_retry.frameworks import OF_PYTHON, Runner, runner_of
from swe_retry.frameworks.results import XFAIL
from swe_retry.instances.instance import END_MARKER, START_MARKER
from swe_retry.record.patches import patch_paths
from swe_retry.report.evaluation.evaluator import EXIT_CODE, EvaluationTask
from swe_retry.results.jsonvalues import texts
from swe_retry.results.verdicts import Verdict, VerdictStatus
from swe_retry.testing.origins import Statements
from swe_retry.testing.project import local_command
from swe_retry.testing.testlogs import (
    Results,
    cross_check,
    fallback_parser,
    limited_output,
    passing_tests,
    report_results,
    results_in,
    split_report,
)

# A test that is expected to fail counts as passed for swebench.
_PASSING = frozenset({"PASSED", XFAIL})
_FIXED = "FAIL_TO_PASS"
_KEPT = "PASS_TO_PASS"
_UNCONFIRMED = "not_reported_as_passed"
_HEAD = "swe-retry-harness: the report of pytest follows on the line "


def output_for_log(output: str, token: str) -> str:
    """Return a test output for its file; the first line names the line before the report."""
    return f"{_HEAD}{token}\n{_with_markers(output)}"


def grade_output(
    task: EvaluationTask,
    output: str,
    token: str,
    statements: Statements,
    exit_code: int | None = 0,
) -> Verdict:
    """Return the verdict on the output of a local evaluation, with swebench's report.

    A test that swebench counts as passed in doubt is unconfirmed (``unconfirmed_tests``).
    """
    from swebench.harness.constants import EvalType, ResolvedStatus
    from swebench.harness.grading import (
        get_eval_tests_report,
        get_resolution_status,
        test_maintained,
        test_passed,
    )

    test_spec = _test_spec(task)
    fail_to_pass = test_spec.FAIL_TO_PASS
    pass_to_pass = test_spec.PASS_TO_PASS
    printed, junit_report = split_report(output, token)
    printed = limited_output(printed)
    marked = f"{_with_markers(printed)}{EXIT_CODE}{exit_code}\n"
    statuses = _read_statuses(test_spec, marked)
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
        {_FIXED: fail_to_pass, _KEPT: pass_to_pass},
        eval_type=EvalType(test_spec.eval_type),
    )
    # Where failures alone count, swebench takes a test that did not run for one that is fixed.
    absent = [name for name in fail_to_pass if not test_passed(name, statuses)]
    _move_to_failures(tests, absent)
    certain = _without_expected_failures(statuses)
    unconfirmed = []
    for kind, is_good in ((_FIXED, test_passed), (_KEPT, test_maintained)):
        names = tests[kind]["success"]
        unconfirmed += [name for name in names if not is_good(name, certain)]
    # Without any status no test ran, even if swebench counts unnamed tests as passed.
    resolved = get_resolution_status(tests) == ResolvedStatus.FULL.value
    resolved = resolved and bool(statuses)
    verdict = _verdict(task, tests, unconfirmed, resolved=resolved)
    return verdict.but(reason=reason, log=output_for_log(output, token))


def grade_results(task: EvaluationTask, results: Results) -> Verdict:
    """Return the verdict on one's own repository: its row has names of our readers of output.

    All tests must be reported as passed; an expected failure is none.
    """
    passing = passing_tests(results)
    hidden = task.evaluation
    tests = {}
    failures = []
    for kind, names in ((_FIXED, hidden.fail_to_pass), (_KEPT, hidden.pass_to_pass)):
        tests[kind] = {"success": list(names), "failure": []}
        failures += [name for name in names if name not in passing]
    _move_to_failures(tests, failures)
    return _verdict(task, tests, [], resolved=not failures)


def _verdict(
    task: EvaluationTask,
    tests: JsonObject,
    unconfirmed: Sequence[str],
    *,
    resolved: bool,
) -> Verdict:
    report = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": resolved,
        "infra_failure": False,
        "tests_status": tests,
        _UNCONFIRMED: unconfirmed,
    }
    status = VerdictStatus.RESOLVED if resolved else VerdictStatus.UNRESOLVED
    return task.verdict(status, report=report)


def unconfirmed_tests(verdict: Verdict) -> frozenset[str]:
    """Return the deciding tests that count as passed, and that the run does not report as passed.

    They are expected failures, and where failures alone count, tests that did not run. Whether the
    gold patch passes them decides.
    """
    return frozenset(texts(value_at(verdict.report, verdict.instance_id, _UNCONFIRMED)))


def failed_tests(verdict: Verdict) -> tuple[str, ...] | None:
    """Return the deciding tests that did not pass, by swebench's report; None without one."""
    status = object_at(verdict.report, verdict.instance_id, "tests_status")
    if not status.keys() & {_FIXED, _KEPT}:
        return None
    failed: set[str] = set()
    for kind in (_FIXED, _KEPT):
        failed.update(texts(value_at(status, kind, "failure")))
    return tuple(sorted(failed))


def failure_cause(tests: Iterable[str], reason: str) -> str:
    """Return why a patch is unresolved: the tests that did not pass, and the evaluator's reason."""
    parts = [some(sorted(tests), 3), reason]
    return "; ".join(filter(None, parts)) or "no test results were read"


def unresolve(verdict: Verdict, reason: str, failed: Collection[str] = ()) -> Verdict:
    """Return ``verdict`` as unresolved, also in its report, where the tests ``failed`` fail."""
    report = deepcopy(verdict.report)
    part = object_at(report, verdict.instance_id)
    part["resolved"] = False
    _move_to_failures(part["tests_status"], failed)
    return verdict.but(status=VerdictStatus.UNRESOLVED, reason=reason, report=report)


def _move_to_failures(tests: JsonObject, names: Collection[str]) -> None:
    for kind in (_FIXED, _KEPT):
        lists = tests[kind]
        lists["failure"] += [name for name in lists["success"] if name in names]
        lists["success"] = [name for name in lists["success"] if name not in names]


def doubt_official(task: EvaluationTask, output: str) -> str:
    """Return our doubt of an output that swebench calls resolved; empty if there is none."""
    from swebench.harness.grading import test_passed

    test_spec = _test_spec(task)
    statuses = _read_statuses(test_spec, limited_output(output))
    certain = _without_expected_failures(statuses)
    names = test_spec.FAIL_TO_PASS
    failed = [name for name in names if not test_passed(name, certain)]
    if not failed:
        return ""
    return f"official: resolved; reported as failing: {some(failed, 3)}"


def _without_expected_failures(statuses: Mapping[str, str]) -> dict[str, str]:
    return {name: status for name, status in statuses.items() if status != XFAIL}


def _test_spec(task: EvaluationTask) -> Any:  # noqa: ANN401 - swebench has no types
    from swebench.harness.constants import FAIL_ONLY_REPOS, EvalType
    from swebench.harness.log_parsers import PARSER_REGISTRY
    from swebench.types import TestSpec

    instance = task.instance
    command = instance.spec.test_cmd if instance.spec else ""
    log_parser = instance.log_parser or fallback_parser(instance.repo, command)
    if log_parser not in PARSER_REGISTRY:
        raise UnavailableError(f"swebench has no log_parser {log_parser!a}")
    eval_type = "pass_and_fail"
    if instance.repo in FAIL_ONLY_REPOS:
        eval_type = "fail_only"
    eval_type = task.evaluation.row.get("eval_type") or eval_type
    if eval_type not in [kind.value for kind in EvalType]:
        raise UnavailableError(f"swebench has no eval_type {eval_type!a}")
    return TestSpec(
        instance_id=instance.instance_id,
        image=instance.image,
        eval_script_list=[],
        repo=instance.repo,
        version=instance.version,
        FAIL_TO_PASS=list(task.evaluation.fail_to_pass),
        PASS_TO_PASS=list(task.evaluation.pass_to_pass),
        log_parser=log_parser,
        eval_type=eval_type,
    )


def _read_statuses(test_spec: Any, output: str) -> dict[str, str]:  # noqa: ANN401
    from swebench.harness.grading import get_logs_eval

    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="replace") as file:
        file.write(output)
        file.flush()
        return dict(get_logs_eval(test_spec, file.name)[0])


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
