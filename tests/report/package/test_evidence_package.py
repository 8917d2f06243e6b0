"""The package of a run that chose by evidence shows how."""

from __future__ import annotations

from pathlib import Path

from tests.report.package.conftest import Package
from tests.support import read_json
from tests.support.evaluated import split_of_dataset, write_meta, write_verdicts
from tests.support.evidence import NAME, OTHER, by_evidence
from tests.support.runs import options
from tests.support.start import run_command


def test_scripts_matrix_groups_and_reason_are_in_the_package(
    tmp_path: Path, cache: Path, package: Package
) -> None:
    started = options(tmp_path, cache, NAME, OTHER)
    code = run_command(by_evidence(), started, print)
    assert code == 0
    run = tmp_path / "predictions/r"
    write_verdicts(run, (NAME, OTHER))
    meta = write_meta(tmp_path / "meta", {})
    arguments = ("--split", "lite", "--meta", meta, "--allow-partial")
    with split_of_dataset("lite", "demo"):
        code, lines = package(run, tmp_path / "package", *arguments)
    assert code == 0, lines
    trajectories = tmp_path / "package/artifacts/trajs"
    transcript = (trajectories / f"{NAME}.md").read_text()
    for part in (
        "- choice: attempt 2 is chosen by evidence: it is right with the weight 0.91",
        "it passes 4 of 4 valid scripts, and without scripts the weight is 0.69",
        "| 2, 3 | scripted-b, scripted-a | solved | solved | solved | solved | 0.91 |",
        'sys.exit(0 if slugify("Hello,  World!") == "hello-world" else 2)',
    ):
        assert part in transcript
    other = (trajectories / f"{OTHER}.md").read_text()
    assert "no script shows the issue at the base commit twice (6 scripts)" in other
    recorded = read_json(trajectories / f"{NAME}.json")
    outcomes = recorded["evidence"]["outcomes"]
    assert outcomes["s1"] == {"c1": 2, "c2": 0, "c4": 2}
    (readme,) = (tmp_path / "package/entry").rglob("README.md")
    text = readme.read_text()
    assert "select: evidence" in text
    assert "by scripts that models wrote for the issue, without any" in text
