"""The commands import slow packages only where they use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import TOP, WITH_EXERCISES

pytestmark = pytest.mark.check

HEAVY = {
    "datasets", "docker", "git", "jsonschema", "litellm", "matplotlib", "networkx", "numpy", "ray",
    "requests", "swebench", "tree_sitter",
}  # fmt: skip


def imported_packages(*argv: str) -> set[str]:
    """Return the packages that a Python command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv],
        cwd=TOP,
        env={**os.environ, **WITH_EXERCISES},
        text=True,
        capture_output=True,
        check=True,
    )
    packages = set()
    for line in done.stderr.splitlines():
        if line.startswith("import time:"):
            module = line.rpartition("|")[2].strip()
            packages.add(module.partition(".")[0])
    return packages


@pytest.mark.parametrize(
    "command",
    [
        "harness.py --help",
        "harness.py --version",
        "report.py --help",
        "-m swe_retry_exercises.canitedit report --help",
        "-m swe_retry_exercises.canitedit run --help",
        "-m swe_retry_exercises.exercism run --help",
        "-m swe_retry_exercises.exercism report --help",
        "-m swe_retry_exercises.editpack mine --help",
    ],
)
def test_heavy_packages_are_imported_only_where_they_are_used(command: str) -> None:
    packages = imported_packages(*command.split())
    assert "typing" in packages
    assert not packages & HEAVY


def test_the_commands_of_both_scripts_import_no_heavy_package() -> None:
    modules = ("cli.start", "cli.forecast", "report.report", "cli.report_commands")
    code = "".join(f"import swe_retry.{module}\n" for module in modules)
    packages = imported_packages("-c", code)
    assert "typing" in packages
    assert not packages & HEAVY


def test_the_kit_imports_only_what_is_used() -> None:
    packages = imported_packages("-c", "import swe_retry.kit")
    assert not packages & (HEAVY | {"pydantic", "typer", "yaml"})


def test_the_status_and_the_tables_of_a_run_need_no_heavy_package(
    tmp_path: Path,
) -> None:
    prediction = {"instance_id": "a__b-1", "model_patch": "", "model_name_or_path": "m"}
    folder = tmp_path / "predictions/r"
    folder.mkdir(parents=True)
    (folder / "a__b-1.json").write_text(json.dumps(prediction))
    status = ("harness.py", "status", "r", "--out", str(tmp_path))
    assert not imported_packages(*status) & (HEAVY | {"asyncio"})
    options = [
        "--format",
        "markdown",
        "--evaluator",
        "none",
        "--set",
        "report.page=false",
    ]
    # A lock of files loads asyncio.
    assert not imported_packages("report.py", str(folder), *options) & HEAVY


def test_a_heavy_import_is_seen() -> None:
    assert imported_packages("-c", "import swe_retry.agent.repomap.build") & HEAVY == {
        "numpy"
    }
