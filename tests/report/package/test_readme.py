"""The README of the entry answers the leaderboard's checklist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from swe_retry.record.store import RunStore
from tests.report.package.conftest import readme_of
from tests.support import read_json, text_between, write_json
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


def built_readme(build: Build, **changes: Any) -> str:
    """Build a package, and return the README of its entry."""
    _, folder, _ = build(**changes)
    return readme_of(folder)


def test_the_checklist_says_how_many_attempts_were_made(
    build: Build, run: Path
) -> None:
    text = built_readme(build)
    for part in (
        "best@k with one prediction: up to 6 attempts",
        "Resolved 3 of 6 instances (50.00%; 95 % Wilson interval 18.8 to 81.2)",
        "only that one was evaluated",
    ):
        assert part in text
    write_other_verdicts(RunStore.of_folder(run))
    judged = built_readme(build, target="judged")
    assert "others were evaluated after the choice, for pass@k" in judged
    assert "- versions: litellm: " in judged
    assert "- parameters: tries: 3" in judged
    assert "- parameters: replay" not in judged, "a folder of the one who made it"
    for name in IDS:
        only_the_winner(run, name)
    _, folder, _ = build(target="single")
    entry = entry_of(folder)
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
        by_number = {attempt["attempt"]: attempt for attempt in data[attempts]}
        only = by_number[data[winner]]
        data[attempts] = [{**only, "attempt": 1}]
        data[winner] = 1
        write_json(path, data)


def test_web_browsing_and_other_agents_are_declared(build: Build, run: Path) -> None:
    change_json(
        run / "run.json",
        lambda data: data["config"].update(agent="command:x --key sesame"),
    )
    measures = "A proxy let nothing through."
    text = built_readme(build, web_browsing=True, web_measures=measures)
    assert f"Can browse the web, and could not look solutions up: {measures}" in text
    assert "another agent than the harness's own (command)" in text
    assert "sesame" not in text


def test_edits_of_test_configuration_are_listed(build: Build, run: Path) -> None:
    path = run / f"{RESOLVED[0]}.json"

    def mark(data: dict[str, Any]) -> None:
        for part in (data, *data["all_results"]):
            part["edits_test_configuration"] = True

    change_json(path, mark)
    text = built_readme(build)
    assert f"Predictions that edit test configuration: {path.stem}.\n" in text


@pytest.mark.parametrize("split", ["verified", "multilingual"])
def test_the_restriction_is_said_before_anything_is_built(
    build: Build, split: str, run: Path
) -> None:
    _, _, lines = build(split)
    note = lines[0]
    notes = [line for line in lines if line.startswith("note: ")]
    assert notes == [note]
    rule = f"note: since 2025-11-18 {split} accepts only academic and research"
    assert note.startswith(rule)
    methods = (
        "open methods with an arXiv preprint or technical report, and at least one"
    )
    assert methods in note
    closed = {"os_system": False, "affiliations": []}
    _, _, lines = build(split, target="closed", **closed)
    for problem in (
        f"metadata.yaml says os_system: false, and {split} asks for open methods",
        f"README.md names no affiliation, and {split} asks for one",
    ):
        assert f"note: {problem}" in lines
    _, _, lines = build("lite", target="other", **closed)
    assert not any(line.startswith("note") for line in lines)
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
    text = built_readme(build)
    assert SUMMARY in text
    authors = "- Authors: A. Author, B. Author\n"
    assert f"{authors}- First author: A. Author, https://example.org/~a\n" in text
    assert "- Affiliations: University of Examples\n" in text


def test_rates_are_rounded_as_the_leaderboards_script_does(
    build: Build, rows_file: Callable[..., Path]
) -> None:
    rows = list(ROWS)
    for number in range(14):
        rows.append({**ROW, "instance_id": f"x__y-{number}", "repo": "x/y"})
    dataset = rows_file(rows)
    text = built_readme(build, partial=True, rows=dataset)
    assert "\nResolved 3 instances (15.0%)\n" in text
    of_one_group = []
    for row in rows[:17]:
        of_one_group.append({**row, "repo": "x/y", "created_at": "2019"})
    dataset = rows_file(of_one_group)
    text = built_readme(build, partial=True, rows=dataset, target="other")
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
            for attempt in data[key]:
                attempt["origin"] = origin
            write_json(path, data)
    text = built_readme(build)
    checklist = text_between(text, "## Checklist", "##")
    assert "- [x] Does not use" not in checklist
    assert "scripted-a by mini-swe-agent 2.1 in theirs" in checklist
    assert "This harness chose one for each instance" in checklist
