"""The two tables of the run of May 2024, from generated files with the same counts."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from swe_retry.cli.report import main
from tests.support import TOP, read_json, write_json
from tests.support.rundata import (
    GPT,
    LABEL,
    OPUS,
    PATCH,
    old_prediction,
    write_run,
)

PREDICTIONS = (208, 49, 20, 9, 11, 3)
RESOLVED = (61, 10, 3, 2, 2, 1)
BY_ATTEMPT = f"""\
| Attempt | Agent | Predictions | Share | Resolved | Share | Score |
| :-- | :-- | --: | --: | --: | --: | --: |
| 1 | {GPT} | 208 | 69.3 % | 61 | 77.2 % | 20.3 % |
| 2 | {OPUS} | 49 | 16.3 % | 10 | 12.7 % | 3.3 % |
| 3 | {GPT} | 20 | 6.7 % | 3 | 3.8 % | 1.0 % |
| 4 | {OPUS} | 9 | 3.0 % | 2 | 2.5 % | 0.7 % |
| 5 | {GPT} | 11 | 3.7 % | 2 | 2.5 % | 0.7 % |
| 6 | {OPUS} | 3 | 1.0 % | 1 | 1.3 % | 0.3 % |
| Total |  | 300 | 100.0 % | 79 | 100.0 % | 26.3 % |
"""
BY_MODEL = f"""\
| Agent | Predictions | Resolved | Share resolved |
| :-- | --: | --: | --: |
| {GPT} | 239 | 66 | 27.6 % |
| {OPUS} | 61 | 13 | 21.3 % |
| Total | 300 | 79 | 26.3 % |
"""


def published_files() -> list[dict[str, Any]]:
    """Return 300 predictions; ten have no patch, some lack their model or their attempts."""
    files = []
    unresolved = []
    counts = zip(PREDICTIONS, RESOLVED, strict=True)
    for attempt, (predictions, resolved) in enumerate(counts, 1):
        for number in range(predictions):
            name = f"own__thing-{attempt}{number:03d}"
            content = old_prediction(name, attempt, resolved=number < resolved)
            files.append(content)
            if number >= resolved:
                unresolved.append(content)
    for content in unresolved[::22][:10]:
        content["model_patch"] = None
    dice = random.Random(0)
    for content in files:
        lacks_model = content["model"] == GPT and dice.random() < 0.2
        if lacks_model:
            for part in (content, *content["all_results"]):
                del part["model"]
        if dice.random() < 0.3:
            del content["all_results"]
    return files


def report(folder: Path, *options: str) -> str:
    """Return what the command prints, called in this process, which imported everything."""
    argv = ["report.py", str(folder), "--evaluator", "none"]
    argv += ["--set", "report.page=false", *options]
    printed = io.StringIO()
    with patch.object(sys, "argv", argv), redirect_stdout(printed):
        code = main()
    assert code == 0
    return printed.getvalue()


@pytest.mark.parametrize("name", [f"lite--{LABEL.removeprefix('aider--')}", "any-name"])
def test_both_tables_to_the_digit(tmp_path: Path, name: str) -> None:
    files = published_files()
    patches = [content["model_patch"] for content in files]
    assert patches.count(None) == 10
    folder = write_run(tmp_path / name, files)
    text = report(folder, "--format", "markdown", "--dataset", "lite")
    assert text.startswith(f"{BY_ATTEMPT}\n{BY_MODEL}\n")
    assert "79 of 300, 26.3 % (95 % Wilson interval 21.7 % to 31.6 %)" in text
    assert "- Without a patch: 10 of the predictions" in text
    assert (
        "- Resolved of the whole split, SWE-bench/SWE-bench_Lite (test): 79 of 300"
        in text
    )


def test_no_file_has_its_attempts_and_the_folder_alone_names_the_models(
    tmp_path: Path,
) -> None:
    files = published_files()
    for content in files:
        content.pop("all_results", None)
        content.pop("model_name_or_path")
    folder = write_run(tmp_path / LABEL, files)
    assert report(folder, "--format", "markdown").startswith(
        f"{BY_ATTEMPT}\n{BY_MODEL}\n"
    )


def test_a_part_of_the_run_names_its_denominators(tmp_path: Path) -> None:
    files = published_files()[::10]
    names = [content["instance_id"] for content in files]
    for content in files[:3]:
        del content["resolved"]
        content["model_patch"] = PATCH
    folder = write_run(tmp_path / "r", files)
    described = {
        "selected": sorted([*names, "own__thing-not-done"]),
        "dataset": {"name": "SWE-bench/SWE-bench_Lite"},
    }
    write_json(folder / "run.json", described)
    resolved = sum(content.get("resolved", False) for content in files)
    text = report(folder, "--format", "markdown")
    assert f"Score, resolved of the selected instances: {resolved} of 31," in text
    assert f"Resolved of the evaluated instances: {resolved} of 27," in text
    assert f"SWE-bench/SWE-bench_Lite (test): {resolved} of 300," in text
    assert "Not evaluated: 3 patches; all shares are lower bounds" in text


def test_json_stands_alone_on_standard_output_and_is_what_the_file_holds(
    tmp_path: Path,
) -> None:
    folder = write_run(tmp_path / LABEL, published_files())
    arguments = [str(TOP / "report.py"), str(folder), "--evaluator", "none"]
    arguments += ["--set", "report.page=false", "--format", "json"]
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    stats = json.loads(done.stdout)
    assert stats == read_json(folder / "stats.json")
    assert stats["counts"]["resolved"] == 79
    assert stats["bought"][5]["resolved"]["count"] == 79
    results = read_json(folder / "results.json")
    assert len(results["no_generation"]) == 10
