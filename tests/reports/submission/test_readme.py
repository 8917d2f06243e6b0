"""The README of the entry answers the leaderboard's checklist."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from runs.storage.store import RunStore
from tests.reports.submission.conftest import readme_of
from tests.support import read_json
from tests.support.evaluated import (
    IDS,
    RESOLVED,
    ROW,
    ROWS,
    Build,
    change_json,
    entry_of,
    write_other_verdicts,
)


def test_the_checklist_says_how_many_attempts_were_made(
    build: Build, run: Path
) -> None:
    text = readme_of(build()[1])
    for part in (
        "best@k with one prediction: up to 6 attempts",
        "Resolved 3 of 6 instances (50.00%; 95 % Wilson interval 18.8 to 81.2)",
        "only that one was evaluated",
    ):
        assert part in text
    write_other_verdicts(RunStore.of_folder(run))
    judged = readme_of(build(target="judged")[1])
    assert "others were evaluated after the choice, for pass@k" in judged
    assert "- versions: litellm: " in judged
    assert "- parameters: tries: 3" in judged
    assert "- parameters: replay" not in judged, "a folder of the one who made it"
    for name in IDS:
        only_the_winner(run, name)
    entry = entry_of(build(target="single")[1])
    assert "One attempt was made on each" in (entry / "README.md").read_text()
    metadata = yaml.safe_load((entry / "metadata.yaml").read_text())
    assert metadata["tags"]["system"]["attempts"] == "1"


def only_the_winner(run: Path, name: str) -> None:
    """Remove all attempts of an instance except the winner."""
    for path, attempts, winner in (
        (run / f"trajectories/{name}.json", "attempts", "winner"),
        (run / f"{name}.json", "all_results", "attempt"),
    ):
        data = read_json(path)
        (only,) = (each for each in data[attempts] if each["attempt"] == data[winner])
        data[attempts] = [{**only, "attempt": 1}]
        data[winner] = 1
        path.write_text(json.dumps(data))


def test_web_browsing_and_other_agents_are_declared(build: Build, run: Path) -> None:
    change_json(
        run / "run.json",
        lambda data: data["config"].update(agent="command:x --key sesame"),
    )
    measures = "A proxy let nothing through."
    text = readme_of(build(web_browsing=True, web_measures=measures)[1])
    assert f"Can browse the web, and could not look solutions up: {measures}" in text
    assert "another agent than the harness's own (command)" in text
    assert "sesame" not in text


def test_edits_of_test_configuration_are_listed(build: Build, run: Path) -> None:
    path = next(p for p in sorted(run.glob("*.json")) if p.stem in RESOLVED)

    def mark(data: dict[str, Any]) -> None:
        for part in (data, *data["all_results"]):
            part["edits_test_configuration"] = True

    change_json(path, mark)
    text = readme_of(build()[1])
    assert f"Predictions that edit test configuration: {path.stem}.\n" in text


@pytest.mark.parametrize("split", ["verified", "multilingual"])
def test_the_restriction_is_said_before_anything_is_built(
    build: Build, split: str, run: Path
) -> None:
    lines = build(split)[2]
    (note,) = (line for line in lines if line.startswith("note: "))
    assert lines[0] == note
    rule = f"note: since 2025-11-18 {split} accepts only academic and research"
    assert note.startswith(rule)
    methods = (
        "open methods with an arXiv preprint or technical report, and at least one"
    )
    assert methods in note
    closed = {"os_system": False, "affiliations": []}
    lines = build(split, target="closed", **closed)[2]
    for problem in (
        f"metadata.yaml says os_system: false, and {split} asks for open methods",
        f"README.md names no affiliation, and {split} asks for one",
    ):
        assert f"note: {problem}" in lines
    other = build("lite", target="other", **closed)[2]
    assert not any(line.startswith("note") for line in other)
    code, _, lines = build(split, target="third", report=None)
    assert code == 2
    assert len(lines) == 1
    assert "report is missing" in lines[0]


# The output of the leaderboard's analysis/get_results.py, as its pull requests show it.
SUMMARY = """
```
Submission summary for 20260131_retry_scripted on SWE-bench lite split
==================================================
Resolved 3 instances (50.0%)
==================================================
Resolved by Repository
- demo/bank: 2/2 (100.0%)
- demo/textkit: 1/2 (50.0%)
- demo/units: 0/2 (0.0%)
==================================================
Resolved by Time
- 2024: 3/6 (50.0%)
```
"""


def test_the_readme_holds_what_the_checklist_asks_for(build: Build) -> None:
    text = readme_of(build()[1])
    assert SUMMARY in text
    authors = "- Authors: A. Author, B. Author\n"
    assert f"{authors}- First author: A. Author, https://example.org/~a\n" in text
    assert "- Affiliations: University of Examples\n" in text


def test_rates_are_rounded_as_the_leaderboards_script_does(
    build: Build, rows_file: Callable[..., Path]
) -> None:
    rows = [{**ROW, "instance_id": f"x__y-{n}", "repo": "x/y"} for n in range(14)]
    text = readme_of(build(partial=True, dataset=rows_file([*ROWS, *rows]))[1])
    assert "\nResolved 3 instances (15.0%)\n" in text
    rows = [{**row, "repo": "x/y", "created_at": "2019"} for row in (*ROWS, *rows[:11])]
    folder = build(partial=True, dataset=rows_file(rows), target="other")[1]
    text = readme_of(folder)
    assert "\nResolved 3 instances (17.65%)\n" in text
    assert "\n- x/y: 3/17 (17.65%)\n" in text
    assert "\n- 2019: 3/17 (17.65%)\n" in text


def test_the_authors_of_candidates_of_others_have_to_check_the_boxes(
    build: Build, run: Path
) -> None:
    """A run that only chose among candidates says who made them and who chose how."""
    origin = {"run": "theirs", "attempt": 2, "harness": "mini-swe-agent 2.1"}
    for name in IDS:
        for path, key in (
            (run / f"trajectories/{name}.json", "attempts"),
            (run / f"{name}.json", "all_results"),
        ):
            data = read_json(path)
            data[key] = [{**attempt, "origin": origin} for attempt in data[key]]
            path.write_text(json.dumps(data))
    text = readme_of(build()[1])
    checklist = text.partition("## Checklist")[2].partition("##")[0]
    assert "- [x] Does not use" not in checklist
    assert "scripted-a by mini-swe-agent 2.1 in theirs" in checklist
    assert "This harness chose one for each instance" in checklist
