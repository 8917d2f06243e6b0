"""Packages of the demo run, and helpers that read and change them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from bench.repos.mirrors import Mirrors
from reports.submission.commands import SubmissionOptions, validate_command
from reports.submission.package import PackageFinding, SizeLimits
from reports.submission.validation import Against, validate
from tests.reports.evaluated_run import change_json, demo

ROWS = demo().rows
IDS = sorted(str(row["instance_id"]) for row in ROWS)
ID = "demo__bank-1"
RESOLVED = IDS[:3]
ROW = next(row for row in ROWS if row["instance_id"] == ID)
TODAY = date(2026, 6, 1)
SMALL = SizeLimits(file=300_000, total=2_000_000, unpacked=400_000)
Change = Callable[[dict[str, Any]], object]
Build = Callable[..., tuple[int, Path, list[str]]]
KEY = "sk-ant-" + "a1" * 20


@dataclass(frozen=True)
class Package:
    """A copy of a valid package in which tests plant faults."""

    root: Path
    mirrors: Mirrors

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def entry(self) -> Path:
        return self.root / "entry/evaluation/lite/20260131_retry_scripted"

    @property
    def logs(self) -> Path:
        return self.artifacts / "logs" / ID

    @property
    def trajectory(self) -> Path:
        return self.artifacts / f"trajs/{ID}.json"

    def findings(self, mirrors: bool = True, **changes: Any) -> list[PackageFinding]:
        places = self.mirrors if mirrors else None
        values: dict[str, Any] = {"rows": ROWS, "today": TODAY, "mirrors": places, "limits": SMALL}
        return validate(self.root, Against(**{**values, **changes}))

    def change_prediction(self, change: Change) -> None:
        path = self.artifacts / "all_preds.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        change(next(row for row in rows if row["instance_id"] == ID))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def change_metadata(self, change: Change) -> None:
        path = self.entry / "metadata.yaml"
        data = yaml.safe_load(path.read_text())
        change(data)
        path.write_text(yaml.safe_dump(data))

    def say(self, text: str, role: str = "user", place: int = 1) -> None:
        """Insert a message into the first attempt's conversation."""

        def add(data: dict[str, Any]) -> None:
            data["attempts"][0]["messages"].insert(place, {"role": role, "content": text})

        change_json(self.trajectory, add)


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def diff(path: str, old: str = "", new: str = "added") -> str:
    if not old:
        head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        return f"{head}@@ -0,0 +1 @@\n+{new}\n"
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1 +1 @@\n-{old}\n+{new}\n"


def entry_of(package: Path, split: str = "lite") -> Path:
    return package / f"entry/evaluation/{split}/20260131_retry_scripted"


def said_of(folder: Path, split: str = "") -> list[str]:
    """Return the output of a validation against the demo dataset."""
    said: list[str] = []
    validate_command(folder, SubmissionOptions(split, dataset="demo"), said.append)
    return said
