"""The README of the entry answers the leaderboard's checklist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from runs.storage.store import RunStore
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
    text = (entry_of(build()[1]) / "README.md").read_text()
    assert "best@k with one prediction: up to 6 attempts" in text
    assert (
        "Resolved 3 of 6 instances (50.00%; 95 % Wilson interval 18.8 to 81.2)" in text
    )
    assert "only that one was evaluated" in text
    write_other_verdicts(RunStore.of_folder(run))
    judged = (entry_of(build(place="judged")[1]) / "README.md").read_text()
    assert "others were evaluated after the choice, for pass@k" in judged
    assert "- versions: litellm: " in judged
    assert "- parameters: tries: 3" in judged
    assert "- parameters: replay" not in judged, "a folder of the one who made it"
    for name in IDS:
        only_the_winner(run, name)
    place = entry_of(build(place="single")[1])
    assert "One attempt was made on each" in (place / "README.md").read_text()
    metadata = yaml.safe_load((place / "metadata.yaml").read_text())
    assert metadata["tags"]["system"]["attempts"] == "1"


def only_the_winner(run: Path, name: str) -> None:
    """Remove all attempts of an instance except the winner."""

    def cut(data: dict[str, Any]) -> None:
        data["attempts"] = [
            a for a in data["attempts"] if a["attempt"] == data["winner"]
        ]
        data["attempts"][0]["attempt"] = data["winner"] = 1

    change_json(run / f"trajectories/{name}.json", cut)

    def cut_prediction(data: dict[str, Any]) -> None:
        data["all_results"] = [
            a for a in data["all_results"] if a["attempt"] == data["attempt"]
        ]
        data["all_results"][0]["attempt"] = data["attempt"] = 1

    change_json(run / f"{name}.json", cut_prediction)


def test_web_browsing_and_other_agents_are_declared(build: Build, run: Path) -> None:
    change_json(
        run / "run.json",
        lambda data: data["config"].update(agent="command:x --key sesame"),
    )
    place = entry_of(
        build(web_browsing=True, web_measures="A proxy let nothing through.")[1]
    )
    text = (place / "README.md").read_text()
    assert (
        "Can browse the web, and could not look solutions up: A proxy let nothing"
        in text
    )
    assert "another agent than the harness's own (command)" in text
    assert "sesame" not in text


def test_edits_of_test_configuration_are_listed(build: Build, run: Path) -> None:
    path = next(p for p in sorted(run.glob("*.json")) if p.stem in RESOLVED)

    def mark(data: dict[str, Any]) -> None:
        for part in (data, *data["all_results"]):
            part["edits_test_configuration"] = True

    change_json(path, mark)
    text = (entry_of(build()[1]) / "README.md").read_text()
    assert f"Predictions that edit test configuration: {path.stem}.\n" in text


@pytest.mark.parametrize("split", ["verified", "multilingual"])
def test_the_restriction_is_said_before_anything_is_built(
    build: Build, split: str, run: Path
) -> None:
    said = build(split)[2]
    assert said[0].startswith(
        f"note: since 2025-11-18 {split} accepts only academic and research"
    )
    assert (
        "open methods with an arXiv preprint or technical report, and at least one"
        in said[0]
    )
    assert sum(line.startswith("note: ") for line in said) == 1
    said = build(split, place="closed", os_system=False, affiliations=[])[2]
    assert (
        f"note: metadata.yaml says os_system: false, and {split} asks for open methods"
        in said
    )
    assert f"note: README.md names no affiliation, and {split} asks for one" in said
    other = build("lite", place="other", os_system=False, affiliations=[])[2]
    assert not any(line.startswith("note") for line in other)
    code, _, said = build(split, place="third", report=None)
    assert code == 2
    assert len(said) == 1 and "report is missing" in said[0]


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
    text = (entry_of(build()[1]) / "README.md").read_text()
    assert SUMMARY in text
    assert (
        "- Authors: A. Author, B. Author\n- First author: A. Author, https://example.org/~a\n"
        in text
    )
    assert "- Affiliations: University of Examples\n" in text


def test_rates_are_rounded_as_the_leaderboards_script_does(
    build: Build, rows_file: Callable[..., Path]
) -> None:
    rows = [{**ROW, "instance_id": f"x__y-{n}", "repo": "x/y"} for n in range(14)]
    place = build(partial=True, dataset=rows_file([*ROWS, *rows]))[1]
    text = (entry_of(place) / "README.md").read_text()
    assert "\nResolved 3 instances (15.0%)\n" in text
    rows = [{**row, "repo": "x/y", "created_at": "2019"} for row in (*ROWS, *rows[:11])]
    place = build(partial=True, dataset=rows_file(rows), place="other")[1]
    text = (entry_of(place) / "README.md").read_text()
    assert "\nResolved 3 instances (17.65%)\n" in text
    assert "\n- x/y: 3/17 (17.65%)\n" in text and "\n- 2019: 3/17 (17.65%)\n" in text
