"""An official tool for tests: a program that does what the patches say."""

from __future__ import annotations

import sys

from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.official.tool import (
    EvaluationFolder,
    OfficialTool,
    Tasks,
    ToolResult,
    read_result,
    resolved_if,
    row_id,
    write_values,
)

# Prints, writes results, and ends, waits or starts others as the words in the patches say.
PROGRAM = """\
import json, os, subprocess, sys, time
from pathlib import Path
predictions = json.loads(Path(sys.argv[1]).read_text())
words = " ".join(predictions.values())
print("working in", os.getcwd(), end="\\n\\n")
print("10%\\r20%\\r\\x1b[31mdone\\x1b[0m")
results = {}
for name, patch in predictions.items():
    if "CRASH" in patch:
        print(f"Error evaluating {name}: it crashed")
    elif "LOST" not in patch:
        results[name] = "RIGHT" in patch
Path("results.json").write_text(json.dumps(results))
if "HANG" in words:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("child", child.pid, flush=True)
    time.sleep(600)
if "LINK" in words:
    print("linked", Path("shared").resolve().name)
print("secret", os.environ.get("PLANTED_API_KEY"), os.environ["TMPDIR"])
sys.exit(3 if "FAIL" in words else 0)
"""


class StandIn(OfficialTool):
    """Runs ``PROGRAM``."""

    name = "standin"
    repository = "own/standin"
    entry = "shared"
    package = "pytest"
    modules = ("json",)
    needed = ("repo",)
    uses_engine = False
    allowance = 1.0

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        patches = {row_id(task): task.prediction.patch for task in tasks}
        write_values(folder.predictions(), patches)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        return [[sys.executable, "-c", PROGRAM, str(folder.predictions())]]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        results = read_result(folder.outputs / "results.json") or {}
        found = results.get(row_id(task))
        return resolved_if(found, "the log") if isinstance(found, bool) else None


class LinkedStandIn(StandIn):
    """Needs an entry of its checkout in the working folder."""

    links = ("shared",)
