"""Result files of the documented forms, with what is to be read from them.

A case names the tool, its files below the working folder, the status (empty if there is no
result), and a part of the reason.
"""

from __future__ import annotations

from typing import Any

from tests.reports.evaluation.official.samples import F2P, P2P

OUTPUT = f">>>>> Start Test Output\nPASSED {P2P}\nFAILED {F2P}\n"
FORK = "logs/run_evaluation/run-1-x/candidate/own__calc-1"
SMITH = "logs/run_evaluation/run-1-x/own__calc-1"
MULTI = "work/own/calc/evals/pr-7"
PRO = "own__calc-1/candidate"
TESTS = {"tests": [{"name": F2P, "status": "PASSED"}]}
STATUS = {"tests_status": {"FAIL_TO_PASS": {}}}


def rebench_v2(passed: list[str], failed: list[str], **more: Any) -> dict[str, Any]:
    own = {
        "instance_id": "own__calc-1", "from_fail_to_pass": passed, "passed_match": False,
        "failed_from_pass_to_pass": failed, "exit_code": 1, "error": "", **more,
    }  # fmt: skip
    return {"all_ok": False, "items": [{"instance_id": "other"}, own]}


def multi(kind: str, count: int = 1, message: str = "") -> dict[str, Any]:
    report = {"valid": False, "error_msg": message, "fix_patch_result": {"passed_count": count}}
    return {
        f"{MULTI}/report.json": report,
        f"{MULTI}/fix-patch-run.log": "log",
        "report/final_report.json": {f"{kind}_ids": ["own/calc:pr-7"]},
    }


def log_of(message: str) -> str:
    return f"2026-01-01 10:00:00,123 - INFO - {message}\n"


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "pro",
        {"eval_results.json": {"own__calc-1": True}, f"{PRO}_output.json": TESTS},
        "resolved",
        "",
    ),
    (
        "pro",
        {"eval_results.json": {"own__calc-1": False}, f"{PRO}_output.json": TESTS},
        "unresolved",
        "",
    ),
    ("pro", {"eval_results.json": {"own__calc-1": False}}, "", ""),
    (
        "pro",
        {"eval_results.json": {"own__calc-1": False}, f"{PRO}_stdout.log": "killed"},
        "not_evaluated",
        "the test run left no result",
    ),
    (
        "pro",
        {"eval_results.json": {"own__calc-1": False}, f"{PRO}_output.json": {"tests": []}},
        "not_evaluated",
        "no test result could be read",
    ),
    ("pro", {"eval_results.json": {}, f"{PRO}_output.json": TESTS}, "", ""),
    (
        "live",
        {"results/own__calc-1/report.json": {"resolved": True}},
        "resolved",
        "",
    ),
    (
        "live",
        {
            "results/own__calc-1/report.json": {"resolved": False},
            "results/own__calc-1/status.json": {F2P: "fail"},
        },
        "unresolved",
        "",
    ),
    (
        "live",
        {
            "results/own__calc-1/report.json": {"resolved": False},
            "results/own__calc-1/status.json": {},
        },
        "not_evaluated",
        "no test result",
    ),
    ("live", {"results/results.json": {"error_ids": ["own__calc-1"]}}, "", ""),
    ("rebench-v2", {"rebench_v2.json": rebench_v2([F2P], [])}, "resolved", ""),
    ("rebench-v2", {"rebench_v2.json": rebench_v2([f"{F2P} [12 ms]"], [])}, "resolved", ""),
    (
        "rebench-v2",
        {"rebench_v2.json": rebench_v2([F2P], [P2P]), "logs/own__calc-1_log.txt": OUTPUT},
        "unresolved",
        "",
    ),
    ("rebench-v2", {"rebench_v2.json": rebench_v2([], [P2P])}, "not_evaluated", "no test result"),
    (
        "rebench-v2",
        {
            "rebench_v2.json": rebench_v2([], [P2P]),
            "logs/own__calc-1_log.txt": "error: patch failed: calc.py:1\nerror: calc.py: no\n",
        },
        "unresolved",
        "the patch does not apply",
    ),
    (
        "rebench-v2",
        {
            "rebench_v2.json": rebench_v2([], [P2P]),
            "logs/own__calc-1_log.txt": "error: patch failed: tests/test_calc.py:1\n",
        },
        "not_evaluated",
        "no test result",
    ),
    (
        "rebench-v2",
        {"rebench_v2.json": rebench_v2([], [P2P], error="Task lacks test_patch")},
        "not_evaluated",
        "Task lacks test_patch",
    ),
    (
        "rebench-v2",
        {
            "rebench_v2.json": rebench_v2([], [P2P], exit_code=125),
            "logs/own__calc-1_log.txt": "Unable to find image\nFAILED x\n",
        },
        "not_evaluated",
        "Unable to find image",
    ),
    ("rebench-v2", {"rebench_v2.json": {"items": [{"instance_id": "other"}]}}, "", ""),
    ("multi-swe-bench", multi("resolved"), "resolved", ""),
    (
        "multi-swe-bench",
        multi("unresolved", message="It fails. A brief summary"),
        "unresolved",
        "It fails",
    ),
    ("multi-swe-bench", multi("unresolved", 0), "not_evaluated", "no test result"),
    ("multi-swe-bench", multi("error"), "not_evaluated", "the report could not be made"),
    ("multi-swe-bench", {}, "", ""),
    (
        "smith",
        {f"{SMITH}/report.json": {"resolved": True, **STATUS}, f"{SMITH}/test_output.txt": OUTPUT},
        "resolved",
        "",
    ),
    (
        "smith",
        {f"{SMITH}/report.json": {"resolved": False, **STATUS}, f"{SMITH}/test_output.txt": "no"},
        "not_evaluated",
        "no test result",
    ),
    (
        "smith",
        {f"{SMITH}/report.json": {"timed_out": True, "timeout": 90}},
        "unresolved",
        "the tests did not end within 90 s",
    ),
    (
        "smith",
        {f"{SMITH}/run_instance.log": log_of("CHECKOUT FAILED: no branch")},
        "not_evaluated",
        "no branch",
    ),
    ("smith", {}, "", ""),
    (
        "sb-cli",
        {"reports/swe-bench_lite__test__run-1.json": {"resolved_ids": ["own__calc-1"]}},
        "resolved",
        "",
    ),
    (
        "sb-cli",
        {"reports/swe-bench_lite__test__run-1.json": {"unresolved_ids": ["own__calc-1"]}},
        "unresolved",
        "",
    ),
    (
        "sb-cli",
        {"reports/swe-bench_lite__test__run-1.json": {"pending_ids": ["own__calc-1"]}},
        "not_evaluated",
        "under pending_ids",
    ),
    (
        "sb-cli",
        {"reports/swe-bench_lite__test__run-1-1.json": {"resolved_ids": ["own__calc-1"]}},
        "",
        "",
    ),
]
for fork in ("rebench", "live-python", "gym"):
    CASES += [
        (
            fork,
            {
                f"{FORK}/report.json": {"own__calc-1": {"resolved": resolved, **STATUS}},
                f"{FORK}/test_output.txt": OUTPUT,
            },
            "resolved" if resolved else "unresolved",
            "",
        )
        for resolved in (True, False)
    ]
    CASES += [
        (
            fork,
            {
                f"{FORK}/report.json": {"own__calc-1": {"resolved": False}},
                f"{FORK}/test_output.txt": OUTPUT,
            },
            "not_evaluated",
            "no test result",
        ),
        (
            fork,
            {f"{FORK}/run_instance.log": log_of(">>>>> Patch Apply Failed:\nerror")},
            "unresolved",
            "Patch Apply Failed",
        ),
        (
            fork,
            {
                f"{FORK}/run_instance.log": "x\n__main__.EvaluationError: Evaluation error for x: "
                "Test timed out after 5 seconds.\n"
            },
            "unresolved",
            "Test timed out after 5 seconds",
        ),
        (
            fork,
            {f"{FORK}/run_instance.log": log_of("Creating container")},
            "not_evaluated",
            "the fork wrote no report",
        ),
        (fork, {"logs/run_evaluation/run-0/candidate/own__calc-1/report.json": {}}, "", ""),
    ]
