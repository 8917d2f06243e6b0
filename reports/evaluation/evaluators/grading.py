"""Grade test output with swebench's own functions.

The tests of a local evaluation can print anything. A test that swebench reads as passed counts only
if pytest's own report, or the count at the end of another runner's output, confirms it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.instances.project import local_command
from bench.instances.shape import END_MARKER, START_MARKER
from bench.regression.runners import Runner, runner_of
from bench.regression.testlogs import (
    PASSING,
    cross_checked,
    fallback_parser,
    limited_output,
    report_results,
    split_report,
)
from core.plaintext import some
from reports.data.verdicts import Verdict
from reports.evaluation.evaluators.base import EvaluationTask, verdict_of_report
from reports.evaluation.settings import EvaluatorKind
from runs.patches import patch_paths

Statuses = Mapping[str, str]
"""swebench's status of each test, by name."""


def printed_statuses(task: EvaluationTask, output: str) -> Statuses:
    from swebench.harness.grading import get_logs_eval

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "test_output.txt"
        path.write_text(output, encoding="utf-8", errors="replace")
        statuses, _ = get_logs_eval(test_spec(task), path)
    return dict(statuses)


def grade_statuses(task: EvaluationTask, statuses: Statuses, log: str) -> Verdict:
    """Return the verdict on ``statuses``, with a report in swebench's format."""
    from swebench.harness.constants import EvalType, ResolvedStatus
    from swebench.harness.grading import get_eval_tests_report, get_resolution_status

    spec = test_spec(task)
    wanted = {"FAIL_TO_PASS": spec.FAIL_TO_PASS, "PASS_TO_PASS": spec.PASS_TO_PASS}
    tests = get_eval_tests_report(
        dict(statuses), wanted, eval_type=EvalType(spec.eval_type)
    )
    full = get_resolution_status(tests) == ResolvedStatus.FULL.value
    own = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        # Without any status no test ran, even if swebench counts unnamed tests as passed.
        "resolved": full and bool(statuses),
        "infra_failure": False,
        "tests_status": tests,
    }
    return verdict_of_report(
        task, {task.instance_id: own}, log, EvaluatorKind.LOCAL.value
    )


def parser_of(task: EvaluationTask) -> Callable[[str], Statuses]:
    from swebench.harness.log_parsers import PARSER_REGISTRY

    spec = test_spec(task)
    parser = PARSER_REGISTRY[spec.log_parser]
    return lambda text: dict(parser(text, spec))


def test_spec(task: EvaluationTask) -> Any:  # noqa: ANN401 - swebench has no types
    from swebench.types import TestSpec

    instance, row = task.instance, task.evaluation
    command = instance.spec.test_cmd if instance.spec else ""
    return TestSpec(
        instance_id=instance.instance_id,
        image=instance.image,
        eval_script_list=[],
        repo=instance.repo,
        version=instance.version,
        FAIL_TO_PASS=list(row.fail_to_pass),
        PASS_TO_PASS=list(row.pass_to_pass),
        log_parser=instance.log_parser or fallback_parser(command),
        eval_type=row.row.get("eval_type") or "pass_and_fail",
    )


_HEAD = "swe-retry-harness: the report of pytest follows on the line "


def saved(output: str, token: str) -> str:
    """Return ``output`` for the log, after ``token``."""
    return f"{_HEAD}{token}\n{_marked(output)}"


def grade_output(task: EvaluationTask, output: str, token: str) -> Verdict:
    """Return the verdict on the output of a local evaluation."""
    log = saved(output, token)
    runner = (
        runner_of(local_command(task.instance.spec)) if task.instance.spec else None
    )
    printed, report = split_report(output, token)
    printed = limited_output(printed)
    statuses = printed_statuses(task, _marked(printed))
    if runner is Runner.PYTEST:
        statuses, unreported = _confirmed(task, statuses, report)
        return _with_note(grade_statuses(task, statuses, log), task, unreported)
    if runner is not None:
        statuses = cross_checked(statuses, printed, runner)
    return grade_statuses(task, statuses, log)


def _marked(output: str) -> str:
    return f"{START_MARKER}\n{output}\n{END_MARKER}\n"


def _confirmed(
    task: EvaluationTask, statuses: Statuses, report: str
) -> tuple[Statuses, Sequence[str]]:
    """Return ``statuses``; passed tests that pytest's report does not confirm become failed.

    The names that the report cannot contain follow; for them swebench's status is kept.
    swebench's parser also takes parts of nested output for names, such as ``[100%]`` and the tests
    of runs that a test of pytest starts. No file of this run has these names, so the report can
    neither confirm nor contradict them. Without a report no test is confirmed.
    """
    row = task.evaluation
    own = map(_file, (*row.fail_to_pass, *row.pass_to_pass))
    results = report_results(report, {*patch_paths(row.test_patch), *own})
    lines = [
        f"{status} {name}" for name, status in results.items() if status in PASSING
    ]
    # The parser shortens and rewrites names, so the names of the report pass through it as well.
    parse = parser_of(task)
    passed = parse("\n".join(lines)).keys()
    doubted = {
        n for n, status in statuses.items() if status in PASSING and n not in passed
    }
    known = parse("\n".join(f"PASSED {name}" for name in results)).keys()
    ran = {_file(name) for name in (*results, *patch_paths(row.test_patch))}
    unreported = {
        n for n in doubted if results and _file(n) not in ran and n not in known
    }
    failed = doubted - unreported
    return {n: "FAILED" if n in failed else s for n, s in statuses.items()}, sorted(
        unreported
    )


def _file(name: str) -> str:
    return name.partition("::")[0]


def _with_note(
    verdict: Verdict, task: EvaluationTask, unreported: Sequence[str]
) -> Verdict:
    wanted = {*task.evaluation.fail_to_pass, *task.evaluation.pass_to_pass}
    names = [name for name in unreported if name in wanted]
    if not names or verdict.reason:
        return verdict
    shown = some(names, 3)
    return verdict.but(
        reason=f"as swebench reads {shown}, which pytest's report cannot confirm",
    )
