"""Programs made from swebench, whose logs and reports are its own.

Forks of swebench 2 and 4 keep its command (``swebench.harness.run_evaluation``): SWE-rebench (V1),
SWE-Gym and the Python set of SWE-bench Live. SWE-smith calls it as a library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from reports.data.verdicts import OUTPUT_FILE, REPORT_FILE, RUN_LOG, VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.official.tool import (
    MODEL,
    EvaluationFolder,
    OfficialTool,
    Tasks,
    ToolResult,
    read_result,
    read_text,
    resolved_if,
    row_id,
    shows_results,
    unclear,
    write_values,
)
from reports.evaluation.evaluators.swebench import first_error, patch_fault, saved_output


class Fork(OfficialTool):
    """A fork of swebench in a checkout."""

    entry = "swebench/harness/run_evaluation.py"
    modules: ClassVar[tuple[str, ...]] = (
        "docker",
        "datasets",
        "dotenv",
        "git",
        "ghapi",
        "requests",
        "tqdm",
        "unidiff",
    )
    needed: ClassVar[tuple[str, ...]] = ("repo", "base_commit", "test_patch", "FAIL_TO_PASS")
    namespace: str = ""  # of its images, where the command has an option for it

    def start(self, folder: EvaluationFolder) -> Sequence[str]:
        return ["-m", "swebench.harness.run_evaluation"]

    def row(self, task: EvaluationTask) -> Mapping[str, object]:
        return {"hints_text": "", **super().row(task)}

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--dataset_name": folder.rows(),
            "--split": "test",
            "--predictions_path": folder.predictions(),
            "--run_id": folder.run_id,
            "--max_workers": self.workers(tasks),
            "--timeout": int(self.settings.timeout),
            # It keeps images, also those that it pulled.
            "--cache_level": "instance",
            "--instance_ids": [self.identifier(task) for task in tasks],
        }
        namespace = {"--namespace": self.namespace} if self.namespace else {}
        return [self.command(self.start(folder), options | namespace)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        name = self.identifier(task)
        own = folder.outputs / "logs" / "run_evaluation" / folder.run_id / MODEL / name
        output, report = saved_output(own), read_result(own / REPORT_FILE)
        if report is None:
            if not own.is_dir():
                return None
            if fault := patch_fault(own):
                return ToolResult(VerdictStatus.UNRESOLVED, fault, output)
            reason = first_error(own) or "the fork wrote no report"
            return ToolResult(VerdictStatus.NOT_EVALUATED, f"{reason}; see {own}", output)
        found = report.get(name)
        found = found if isinstance(found, Mapping) else {}
        # Without a status the fork did not find the beginning and the end of the tests. The engine
        # may deliver output and errors in another order, so all of the output is looked at.
        if "tests_status" in found and shows_results(output):
            return resolved_if(found.get("resolved") is True, output, found)
        return unclear(output)


class RebenchTool(Fork):
    """SWE-rebench (V1), from the images ``swerebench/…``."""

    name = "rebench"
    repository = "SWE-rebench/SWE-bench-fork"
    modules = (*Fork.modules, "modal")
    needed = (*Fork.needed, "install_config")
    namespace = "swerebench"


class LivePythonTool(Fork):
    """The Python set of SWE-bench Live, from its branch ``python-only``."""

    name = "live-python"
    repository = "microsoft/SWE-bench-Live, branch python-only"
    modules = (*Fork.modules, "modal")
    namespace = "starryzhang"


# The fork has no option for published images: it builds those of the environment first, and removes
# images that are older than these. So this gives published images its names, and skips the builds.
_GYM_PROGRAM = """\
import json, runpy, sys
from pathlib import Path
import docker
from swebench.harness import docker_build
from swebench.harness.test_spec import make_test_spec
client, made = docker.from_env(), []
def held(name):
    try:
        return client.images.get(name)
    except docker.errors.ImageNotFound:
        return None
def give(image, name):
    if image is not None and held(name) is None:
        image.tag(name)
        made.append(name)
published = json.loads(Path(sys.argv.pop(1)).read_text())
rows = json.loads(Path(sys.argv[sys.argv.index("--dataset_name") + 1]).read_text())
pairs = [(make_test_spec(row), published[row["instance_id"]]) for row in rows]
for spec, image in pairs:
    give(held(image), spec.instance_image_key)
images = [(spec, held(spec.instance_image_key)) for spec, _ in pairs]
for spec, image in sorted((p for p in images if p[1]), key=lambda p: p[1].attrs["Created"]):
    give(image, spec.env_image_key)
docker_build.build_env_images = lambda *args, **options: ([], [])
try:
    runpy.run_module("swebench.harness.run_evaluation", run_name="__main__", alter_sys=True)
finally:
    for name in made:
        client.images.remove(name, noprune=True)
"""


class GymTool(Fork):
    """SWE-Gym; the fork writes ids in small letters."""

    name = "gym"
    repository = "SWE-Gym/SWE-Bench-Fork"
    needed = (*Fork.needed, "version")

    def identifier(self, task: EvaluationTask) -> str:
        return row_id(task).lower()

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        super().write(tasks, folder)
        images = {self.identifier(task): task.instance.image for task in tasks}
        write_values(folder.inputs / "images.json", images)

    def start(self, folder: EvaluationFolder) -> Sequence[str]:
        return ["-c", _GYM_PROGRAM, str(folder.inputs / "images.json")]


_SMITH_REASON = re.compile(r"(?:FAILED|Error validating [^:]*): ?(.+)")


class SmithTool(OfficialTool):
    """SWE-smith, of a package or a checkout; its containers fetch the bugs from GitHub."""

    name = "smith"
    repository = "SWE-bench/SWE-smith"
    entry = "swesmith/harness/eval.py"
    package = "swesmith"
    modules = ("swesmith", "swebench", "datasets", "docker", "dotenv", "ghapi", "unidiff")
    needed = ("repo", "FAIL_TO_PASS")
    gold = ()  # its patches make the bugs
    predictions_by_id = True
    # It derives the names of images itself, and they have changed since the set was published.
    names_images = True

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--dataset_path": folder.rows(),
            "--predictions_path": folder.predictions(),
            "--run_id": folder.run_id,
            "--workers": self.workers(tasks),
            "--redo_existing": None,
            "--instance_ids": [row_id(task) for task in tasks],
        }
        return [self.command(["-m", "swesmith.harness.eval"], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        own = folder.outputs / "logs" / "run_evaluation" / folder.run_id / row_id(task)
        report, output = read_result(own / REPORT_FILE), read_text(own / OUTPUT_FILE)
        if report is None:
            if fault := patch_fault(own):
                return ToolResult(VerdictStatus.UNRESOLVED, fault, output)
            found = _SMITH_REASON.findall(read_text(own / RUN_LOG))
            words = f"{self.name}: {found[-1]}"[:300] if found else ""
            return ToolResult(VerdictStatus.NOT_EVALUATED, words) if found else None
        if report.get("timed_out"):
            words = f"the tests did not end within {report.get('timeout')} s"
            return ToolResult(VerdictStatus.UNRESOLVED, words, output, report)
        if "tests_status" in report and shows_results(output):
            return resolved_if(report.get("resolved") is True, output, report)
        return unclear(output)
