"""The columns of swebench 5 for a row with a ``spec``, for ``benchmarks.verdict_table``.

Only the evaluation of predictions may use this; ``harness.py`` imports nothing that does.
"""

from __future__ import annotations

import io
import re
import tarfile
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.jsontypes import JsonObject
from swe_retry.environments.docker.engine import engine_errors
from swe_retry.frameworks import Runner, runner_of
from swe_retry.instances.instance import END_MARKER, START_MARKER
from swe_retry.testing.related import directive

_PASSING = ("PASSED", "XFAIL")
_FOLDER = "/testbed"
_ACTIVATION = ("source /opt/miniconda3/bin/activate", "conda activate testbed")
_GOLD = "gold.patch"


def evaluation_columns(row: JsonObject, image: str) -> JsonObject:
    """Return the missing columns of ``row`` except the test lists.

    Raises:
        UserError: swebench has no parser for the repository.
    """
    from swebench.harness.constants import FAIL_ONLY_REPOS, EvalType
    from swebench.harness.log_parsers.python import MAP_REPO_TO_PARSER_PY

    parser = MAP_REPO_TO_PARSER_PY.get(row["repo"])
    if parser is None:
        raise UserError(
            f"swebench has no Python parser for {row['repo']}; leave it out"
        )
    eval_type = EvalType.PASS_AND_FAIL
    if row["repo"] in FAIL_ONLY_REPOS:
        eval_type = EvalType.FAIL_ONLY
    return {
        "image": image,
        "eval_script": eval_script(row),
        "log_parser": parser.__name__,
        "eval_type": eval_type.value,
    }


def eval_script(row: JsonObject) -> str:
    """Return the script of ``row`` as swebench 4's ``make_eval_script_list_py`` writes it.

    The published datasets of version 5 contain the output of that function.
    """
    spec = row["spec"]
    patch = row["test_patch"]
    resets = _resets(patch, row["base_commit"])
    install = []
    if spec.get("install"):
        install = [spec["install"]]
    lines = [
        "#!/bin/bash",
        "set -uxo pipefail",
        *_ACTIVATION,
        f"cd {_FOLDER}",
        *(spec.get("eval_commands") or ()),
        f"git config --global --add safe.directory {_FOLDER}",
        f"cd {_FOLDER}",
        "git status",
        "git show",
        f"git -c core.fileMode=false diff {row['base_commit']}",
        *_ACTIVATION,
        *install,
        *resets,
        f"git apply -v - <<'EOF_114329324912'\n{patch}\nEOF_114329324912",
        f": '{START_MARKER}'",
        _test_command(spec, patch),
        f": '{END_MARKER}'",
        *resets,
    ]
    return "\n".join(lines) + "\n"


def _resets(patch: str, commit: str) -> list[str]:
    from unidiff.patch import PatchSet

    old = []
    new = []
    for file in PatchSet(patch):
        if file.is_added_file:
            new.append(file.target_file.removeprefix("b/"))
        else:
            old.append(file.source_file.removeprefix("a/"))
    lines = []
    if old:
        lines.append(f"git checkout {commit} {' '.join(old)}")
    if new:
        lines.append(f"rm -f {' '.join(new)}")
    return lines


def _test_command(spec: Mapping[str, Any], patch: str) -> str:
    from swebench.harness.constants import NON_TEST_EXTS

    command = str(spec["test_cmd"])
    runner = runner_of(command) or Runner.PYTEST
    argv = [command]
    for path in re.findall(r"diff --git a/.* b/(.*)", patch):
        if not path.endswith(tuple(NON_TEST_EXTS)):
            argv.append(directive(runner, path))
    return " ".join(argv)


@dataclass(frozen=True)
class TestLists:
    """The tests that the gold patch fixes, and those that pass before and after."""

    __test__ = False

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @classmethod
    def of(cls, before: Mapping[str, str], *after: Mapping[str, str]) -> TestLists:
        """Compare statuses before the gold patch with those of runs after it.

        A test is listed only if it passes in all runs after the patch.
        """
        passing = set.intersection(*map(_passing_tests, after))
        unchanged = passing & _passing_tests(before)
        # A test that was skipped before is in neither list, as in swebench's own validation.
        skipped = {name for name in before if before[name] == "SKIPPED"}
        fixed = passing - unchanged - skipped
        return cls(tuple(sorted(fixed)), tuple(sorted(unchanged)))


def _passing_tests(statuses: Mapping[str, str]) -> set[str]:
    return {name for name in statuses if statuses[name] in _PASSING}


@dataclass(frozen=True)
class GoldRuns:
    """Runs an instance's ``eval_script`` in its image, without network.

    Attributes:
        timeout: seconds for one run.
        logs: folder for the output of each run.
    """

    client: Any
    timeout: int
    logs: Path

    def test_lists(self, row: JsonObject) -> TestLists:
        """Return the test lists of a row that has all other columns."""
        before = self._statuses(row, "before", patch="")
        after = [self._statuses(row, f"gold-{n}", patch=row["patch"]) for n in (1, 2)]
        return TestLists.of(before, *after)

    def _statuses(self, row: JsonObject, name: str, patch: str) -> Mapping[str, str]:
        from swebench.harness.grading import get_logs_eval
        from swebench.harness.utils import make_test_spec

        without_tests = {**row, "FAIL_TO_PASS": [], "PASS_TO_PASS": []}
        spec = make_test_spec(without_tests)
        output = self._run(row["image"], spec.eval_script, patch)
        log = self.logs / f"{row['instance_id']}.{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(output)
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / "output.txt"
            copy.write_text(output.decode("utf-8", "replace"), encoding="utf-8")
            statuses, readable = get_logs_eval(spec, str(copy))
        if not readable:
            raise InfrastructureError(f"swebench reads no test results in {log}")
        return dict(statuses)

    def _run(self, image: str, script: str, patch: str) -> bytes:
        lines = [f"cd {_FOLDER}"]
        if patch:
            lines.append(f"git apply /{_GOLD} || exit 1")
        lines.append("bash /eval.sh 2>&1")
        with engine_errors():
            container = self.client.containers.create(
                image,
                ["timeout", "-s", "KILL", str(self.timeout), "bash", "/run.sh"],
                network_mode="none",
                init=True,
                working_dir=_FOLDER,
            )
            try:
                files = {"run.sh": "\n".join(lines), "eval.sh": script, _GOLD: patch}
                container.put_archive("/", _tar(files))
                container.start()
                container.wait(timeout=self.timeout + 60)
                return bytes(container.logs(stdout=True, stderr=True))
            finally:
                container.remove(force=True, v=True)


def _tar(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            data = text.encode("utf-8", "surrogateescape")
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mtime = int(time.time())
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
