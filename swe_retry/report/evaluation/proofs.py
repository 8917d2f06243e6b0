"""Proofs that gold patches are resolved here, without which no prediction is unresolved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.jsontypes import JsonObject
from swe_retry.environments.base import UnavailableError
from swe_retry.record.records import Recorded
from swe_retry.report.evaluation.grading import (
    failed_tests,
    failure_cause,
    unconfirmed_tests,
)
from swe_retry.results.verdicts import FIX, Verdict, write_eval_log


class GoldProof(Recorded):
    """That the gold patch of an instance is resolved.

    Attributes:
        conditions: the row, the environment, the limits and the grader for which it is so.
        not_reported_as_passed: the deciding tests that count as passed in doubt.
    """

    conditions: JsonObject
    not_reported_as_passed: tuple[str, ...]


def prove(
    path: Path,
    conditions: JsonObject,
    problems: dict[str, str],
    evaluate: Callable[[], Verdict],
) -> GoldProof:
    """Return the proof in the file ``path``, beside which the test output lies.

    The gold patch is evaluated once for all predictions: later commands find the proof, and
    ``problems`` keeps for this one why there is none, by the name of the file.

    Raises:
        UnavailableError: the gold patch is not resolved.
    """
    proof = GoldProof.of_file(path, "a proof", FIX)
    if proof and proof.conditions == conditions:
        return proof
    if path.stem not in problems:
        verdict = evaluate()
        write_eval_log(path.with_suffix(".eval.log"), verdict.log)
        if verdict.resolved:
            proof = GoldProof(
                conditions=conditions,
                not_reported_as_passed=tuple(sorted(unconfirmed_tests(verdict))),
            )
            write_json_atomic(path, proof.as_json())
            return proof
        cause = failure_cause(failed_tests(verdict) or (), verdict.reason)
        problems[path.stem] = (
            f"the gold patch is not resolved in this environment either: {cause}"
        )
    raise UnavailableError(problems[path.stem])
