"""The package of a run that chose by evidence shows how."""

from __future__ import annotations

import json
from pathlib import Path

from bench.cli.commands import run_command
from tests.reports.submission.conftest import Package
from tests.support.evaluated import write_meta, write_verdicts
from tests.support.evidence import NAME, OTHER, by_evidence
from tests.support.runs import options


def test_scripts_matrix_groups_and_reason_are_in_the_package(
    tmp_path: Path, cache: Path, package: Package
) -> None:
    assert run_command(by_evidence(), options(tmp_path, cache, NAME, OTHER), print) == 0
    run = tmp_path / "predictions/r"
    write_verdicts(run, (NAME, OTHER))
    meta = write_meta(tmp_path / "meta", {})
    arguments = ("--split", "lite", "--meta", meta, "--allow-partial")
    code, lines = package(run, tmp_path / "package", *arguments)
    assert code == 0, lines
    transcript = (tmp_path / f"package/artifacts/trajs/{NAME}.md").read_text()
    assert (
        "- choice: attempt 2 is chosen by evidence: it is right with the weight 0.91"
        in transcript
    )
    assert (
        "it passes 4 of 4 valid scripts, and without scripts the weight is 0.69"
        in transcript
    )
    assert (
        "| 2, 3 | scripted-b, scripted-a | solved | solved | solved | solved | 0.91 |"
        in transcript
    )
    assert (
        'sys.exit(0 if slugify("Hello,  World!") == "hello-world" else 2)' in transcript
    )
    other = (tmp_path / f"package/artifacts/trajs/{OTHER}.md").read_text()
    assert "no script shows the issue at the base commit twice (6 scripts)" in other
    raw = json.loads((tmp_path / f"package/artifacts/trajs/{NAME}.json").read_text())
    assert raw["evidence"]["outcomes"]["s1"] == {"c1": 2, "c2": 0, "c4": 2}
    (readme,) = (tmp_path / "package/entry").rglob("README.md")
    assert "select: evidence" in readme.read_text()
    assert (
        "by scripts that models wrote for the issue, without any" in readme.read_text()
    )
