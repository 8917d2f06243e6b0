"""Official programs of other task sets, and swebench's own service: those that were run here."""

from __future__ import annotations

from swe_retry.report.evaluation.multiswebench import MultiSweBench
from swe_retry.report.evaluation.program import OfficialEvaluator
from swe_retry.report.evaluation.sbcli import SbCli

PROGRAMS: dict[str, type[OfficialEvaluator]] = {
    "multi-swe-bench": MultiSweBench,
    "sb-cli": SbCli,
}
"""By the value of ``--evaluator``; ``OFFICIAL_TOOLS`` lists these values for the user."""
