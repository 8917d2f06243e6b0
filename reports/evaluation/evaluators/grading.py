"""Grade test output with swebench's own functions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.regression.testlogs import fallback_parser
from reports.data.verdicts import Verdict
from reports.evaluation.evaluators.base import EvaluationTask, verdict_of_report

Statuses = Mapping[str, str]
"""swebench's status of each test, by name."""


def grade_output(task: EvaluationTask, output: str, evaluator: str) -> Verdict:
    """Return swebench's verdict on ``output``, which its own script printed."""
    from swebench.harness.grading import get_eval_report

    with tempfile.TemporaryDirectory() as scratch:
        report: Mapping[str, object] = get_eval_report(
            test_spec=test_spec(task),
            prediction={
                "instance_id": task.instance.instance_id,
                "model_patch": task.prediction.patch,
            },
            test_log_path=_written(output, Path(scratch)),
            include_tests_status=True,
        )
    return verdict_of_report(task, report, output, evaluator)


def printed_statuses(task: EvaluationTask, output: str) -> Statuses:
    from swebench.harness.grading import get_logs_eval

    with tempfile.TemporaryDirectory() as scratch:
        statuses, _ = get_logs_eval(test_spec(task), _written(output, Path(scratch)))
    return dict(statuses)


def grade_statuses(task: EvaluationTask, statuses: Statuses, log: str, evaluator: str) -> Verdict:
    """Return the verdict on ``statuses``, with a report in swebench's format."""
    from swebench.harness.constants import EvalType, ResolvedStatus
    from swebench.harness.grading import get_eval_tests_report, get_resolution_status

    spec = test_spec(task)
    wanted = {"FAIL_TO_PASS": spec.FAIL_TO_PASS, "PASS_TO_PASS": spec.PASS_TO_PASS}
    tests = get_eval_tests_report(dict(statuses), wanted, eval_type=EvalType(spec.eval_type))
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
    return verdict_of_report(task, {task.instance.instance_id: own}, log, evaluator)


def parser_of(task: EvaluationTask) -> Callable[[str], Statuses]:
    """Return swebench's parser for the instance's test output."""
    from swebench.harness.log_parsers import PARSER_REGISTRY

    spec = test_spec(task)
    parser = PARSER_REGISTRY[spec.log_parser]
    return lambda text: dict(parser(text, spec))


def test_spec(task: EvaluationTask) -> Any:  # noqa: ANN401 - swebench has no types
    """Return the value that swebench's grading takes for an instance."""
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


def _written(text: str, folder: Path) -> Path:
    path = folder / "test_output.txt"
    path.write_text(text, encoding="utf-8", errors="replace")
    return path
