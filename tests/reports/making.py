"""Small runs for tests: as values, and as files in the layout of May 2024."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from reports.data.rundata import AttemptData, InstanceData, RunData
from reports.data.verdicts import Verdict, VerdictStatus

PATCH = (
    "diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n"
    "@@ -1 +1 @@\n-one = 1\n+one = 2\n"
)
GPT, OPUS = "gpt-4o", "openrouter/anthropic/claude-3-opus"
LABEL = "aider--gpt-4o--openrouter-anthropic-claude-3-opus"


def an_attempt(attempt: int = 1, **changes: Any) -> AttemptData:
    """Return a plausible attempt."""
    values: dict[str, Any] = {
        "attempt": attempt, "try_": 1, "model": "m", "edit_format": "diff", "status": "plausible",
        "edit": True, "lint": True, "test": True, "reflections": 0, "calls": (),
        "cost": Decimal(1), "seconds": 2.0, "patch": "p", "submittable_patch": "p",
        "added_files": (), "edited_files": (), "dropped_files": (), "error": "",
    }  # fmt: skip
    return AttemptData(**{**values, **changes})


def an_instance(name: str = "own__thing-1", **changes: Any) -> InstanceData:
    """Return a resolved and plausible instance of one attempt."""
    values: dict[str, Any] = {
        "instance_id": name, "repo": "own/thing", "year": 2020, "status": "plausible",
        "reason": "", "plausible": True, "attempt": 1, "winner": 1, "model": "m", "patch": "p",
        "raw_patch": "p", "attempts": (an_attempt(),), "resolved": True, "cost": Decimal(1),
        "gold_files": None,
    }  # fmt: skip
    values = {**values, **changes}
    status = {True: VerdictStatus.RESOLVED, False: VerdictStatus.UNRESOLVED}
    verdict = None
    if values["resolved"] is not None:
        verdict = Verdict(name, status[values["resolved"]], "docker")
    return InstanceData(**{"verdict": verdict, **values})


def a_run(*instances: InstanceData, **changes: Any) -> RunData:
    """Return a run that selected ``instances``."""
    values: dict[str, Any] = {
        "name": "r", "folder": Path("r"), "model_name_or_path": "me", "described": {},
        "instances": instances, "selected": tuple(sorted(i.instance_id for i in instances)),
        "models": ("m",),
    }  # fmt: skip
    return RunData(**{**values, **changes})


def old_result(attempt: int, *, good: bool, patch: str | None = PATCH) -> dict[str, Any]:
    """Return an attempt in the layout of May 2024."""
    return {
        "model_name_or_path": LABEL, "model_patch": patch, "model": (GPT, OPUS)[(attempt - 1) % 2],
        "cost": 0.5, "added_files": ["a.py"], "gold_files": ["a.py"], "edited_files": ["a.py"],
        "edit_outcome": True, "lint_outcome": True, "test_outcome": good,
        "try": (attempt + 1) // 2,
    }  # fmt: skip


def old_prediction(
    name: str, attempt: int, *, resolved: bool, good: bool = True, patch: str | None = PATCH
) -> dict[str, Any]:
    """Return a prediction in the layout of May 2024: all attempts failed but the chosen one."""
    results = [old_result(n, good=good and n == attempt) for n in range(1, attempt + 1)]
    results[-1]["model_patch"] = patch
    chosen = {**results[-1], "cost": 0.5 * attempt, "tries": (attempt + 1) // 2}
    named = [{"instance_id": name, **result} for result in results]
    return {"instance_id": name, **chosen, "all_results": named, "resolved": resolved}


def write_run(folder: Path, files: Sequence[Mapping[str, Any]]) -> Path:
    """Write prediction files into ``folder`` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for content in files:
        (folder / f"{content['instance_id']}.json").write_text(json.dumps(content))
    return folder
