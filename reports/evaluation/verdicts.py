"""Verdict files, which ``report.py`` writes and the harness never reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.instances.instance import Evaluation
from bench.repos.patches import patch_paths
from core.atomic import write_json_atomic, write_text_atomic
from core.parsing.untrusted import damage_at, read_object
from reports.data.predictions import Prediction
from reports.evaluation.evaluators.base import REPORT_FILE, Verdict, VerdictStatus
from runs.storage.layouts import shown
from runs.storage.store import RunStore

OTHERS = "attempts"
"""The folder for verdicts on patches that are not predicted."""

_FIX = "delete it and evaluate again"
_NO_FACTS: dict[str, Any] = {"gold_files": [], "repo": None, "created_at": ""}
_TEXTS = ("reason", "image", "evaluated", "swebench", "tool")


def save_verdict(
    store: RunStore, prediction: Prediction, verdict: Verdict, evaluation: Evaluation | None
) -> None:
    """Write a verdict, and its log and report under ``logs/<run>/``."""
    content = {
        "instance_id": verdict.instance_id,
        "status": verdict.status.value,
        "resolved": verdict.status is VerdictStatus.RESOLVED,
        "evaluator": verdict.evaluator,
        "official": verdict.official,
        "reason": verdict.reason,
        "image": verdict.image,
        "evaluated": verdict.evaluated,
        "swebench": verdict.swebench,
        "tool": verdict.tool,
        "patch_sha256": prediction.patch_sha256,
        "dropped_files": list(prediction.dropped),
        **(facts_of(evaluation) if evaluation else _NO_FACTS),
    }
    write_verdict_file(verdict_path(store, prediction), content)
    # Files of an earlier patch must not be taken for those of this patch.
    log, report = eval_log(store, prediction), eval_report(store, prediction)
    log.unlink(missing_ok=True)
    report.unlink(missing_ok=True)
    if verdict.log:
        write_text_atomic(log, verdict.log)
    if verdict.report is not None:
        write_json_atomic(report, verdict.report)


def facts_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return what a verdict repeats of its instance's row."""
    return {
        "gold_files": list(patch_paths(evaluation.patch)),
        "repo": evaluation.row.get("repo"),
        "created_at": str(evaluation.row.get("created_at") or ""),
    }


def verdict_path(store: RunStore, prediction: Prediction) -> Path:
    """Return the path of the verdict on a prediction, or on another attempt's patch."""
    path = store.verdict(prediction.instance_id)
    return path if prediction.chosen else _other_path(path.parent, prediction, "json")


def eval_log(store: RunStore, prediction: Prediction) -> Path:
    """Return the path of the test output of a prediction."""
    if not prediction.chosen:
        return _other_path(store.logs, prediction, "eval.log")
    return store.logs / log_name(prediction.instance_id, prediction.model_name_or_path)


def eval_report(store: RunStore, prediction: Prediction) -> Path:
    """Return the path of swebench's report on a prediction."""
    if not prediction.chosen:
        return _other_path(store.logs, prediction, REPORT_FILE)
    return store.logs / f"{prediction.instance_id}.{REPORT_FILE}"


def forget_others(store: RunStore, keep: Iterable[Prediction]) -> None:
    """Delete what was saved on patches that are not predicted, except on those in ``keep``."""
    others = list(keep)
    kept = {f(store, p) for p in others for f in (verdict_path, eval_log, eval_report)}
    for folder in (store.verdict("x").parent / OTHERS, store.logs / OTHERS):
        for path in sorted({*folder.glob("*.json"), *folder.glob("*.log")} - kept):
            path.unlink()


def _other_path(folder: Path, prediction: Prediction, suffix: str) -> Path:
    """Return a path that depends on the patch: attempts with equal patches share a verdict."""
    return folder / OTHERS / f"{prediction.instance_id}.{prediction.patch_sha256[:16]}.{suffix}"


def log_name(instance_id: str, model_name_or_path: str) -> str:
    """Return the file name of an instance's test output."""
    return f"{instance_id}.{model_name_or_path.replace('/', '__')}.eval.log"


def known_verdict(store: RunStore, prediction: Prediction) -> Verdict | None:
    """Return the saved verdict on this patch, or the one in a prediction of the older layout."""
    path = verdict_path(store, prediction)
    data = read_verdict_file(path)
    if data is not None and data.get("patch_sha256") == prediction.patch_sha256:
        if (name := data.get("instance_id")) != prediction.instance_id:
            words = f"is the verdict on {shown(name)}, and not on {prediction.instance_id}"
            raise damage_at(path, ("instance_id",), words, _FIX)
        return _verdict(path, data)
    if prediction.resolved is None:
        return None
    status = VerdictStatus.RESOLVED if prediction.resolved else VerdictStatus.UNRESOLVED
    return Verdict(prediction.instance_id, status, "as recorded in the prediction")


def write_verdict_file(path: Path, content: Mapping[str, Any]) -> None:
    """Write what is known of a patch, in the layout that ``read_verdict_file`` returns."""
    write_json_atomic(path, content)


def read_verdict_file(path: Path) -> Mapping[str, Any] | None:
    """Return the content of a verdict file, on any patch; None if there is none."""
    try:
        return read_object(path, _FIX)
    except FileNotFoundError:
        return None


def _verdict(path: Path, data: Mapping[str, Any]) -> Verdict:
    try:
        status = _status(path, data["status"])
        texts: dict[str, Any] = {key: str(data.get(key) or "") for key in _TEXTS}
        return Verdict(
            data["instance_id"],
            status,
            _evaluator(path, data["evaluator"]),
            **texts,
        )
    except KeyError as error:
        raise damage_at(path, (), f"is no verdict: it lacks {error}", _FIX) from error


def _status(path: Path, value: object) -> VerdictStatus:
    try:
        return VerdictStatus(value)
    except ValueError as error:
        words = f"is no verdict: {shown(value)} is no status"
        raise damage_at(path, ("status",), words, _FIX) from error


def _evaluator(path: Path, value: object) -> str:
    if not isinstance(value, str):
        raise damage_at(path, ("evaluator",), "is no verdict: `evaluator` is no text", _FIX)
    return value
