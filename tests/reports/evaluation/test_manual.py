"""Programs that users run themselves: their predictions files, and the command that is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from reports.data.verdicts import MANUAL_TOOLS, Verdict, VerdictStatus
from reports.evaluation.manual import PROGRAMS
from reports.report import report_command
from runs.storage.store import RunStore
from tests.support import official
from tests.support.evaluated import (
    BANK,
    TEXTKIT,
    UNITS,
    WRONG,
    evaluator_of,
    make_run,
    on_disk,
    report_settings,
)
from tests.support.official import GOLD

PATCH = GOLD.replace("+", "*")
NAME = "Own__calc-1"
SWEBENCH = {
    "instance_id": NAME,
    "model_name_or_path": "candidate",
    "model_patch": PATCH,
}
LAYOUTS: dict[str, Any] = {
    "pro": [{"instance_id": NAME, "patch": PATCH, "prefix": "candidate"}],
    "live": {NAME: {"model_patch": PATCH}},
    "live-python": [SWEBENCH],
    "rebench": [SWEBENCH],
    "rebench-v2": [{"instance_id": NAME, "patch": PATCH}],
    "gym": [{**SWEBENCH, "instance_id": "own__calc-1"}],
    "smith": {NAME: SWEBENCH},
}


def evaluate(
    name: str, place: Path, instance_id: str = NAME
) -> tuple[Verdict, list[str]]:
    said: list[str] = []
    store = RunStore(place / "my runs", "r")
    evaluator = evaluator_of(store, report_settings(place, name), said.append)
    task = official.task({"instance_id": instance_id}, PATCH, "neutral-1", "")
    assert evaluator.prepare([task]) == {}
    (verdict,) = evaluator.evaluate([task], "run-1")
    return verdict, said


def test_the_tools_are_those_that_the_user_can_name() -> None:
    assert tuple(PROGRAMS) == MANUAL_TOOLS
    assert LAYOUTS.keys() == PROGRAMS.keys()
    for name in MANUAL_TOOLS:
        assert Verdict(
            instance_id="x", status=VerdictStatus.RESOLVED, evaluator=name
        ).final, "as version 0.12 wrote it"


@pytest.mark.parametrize("name", MANUAL_TOOLS)
def test_the_predictions_are_written_and_the_command_is_named(
    name: str, tmp_path: Path
) -> None:
    verdict, (line,) = evaluate(name, tmp_path)
    (file,) = (tmp_path / "my runs/logs/r/evaluation" / name).iterdir()
    assert json.loads(file.read_text()) == LAYOUTS[name]
    repository = PROGRAMS[name].repository
    assert line.startswith(
        f"{name}: run in a checkout of {repository} (docs/evaluators.md): "
    )
    assert f"'{file}'" in line and "{" not in line and "\n" not in line
    assert (verdict.instance_id, verdict.evaluator) == ("neutral-1", name)
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert verdict.reason == f"run the program of {repository} on {file}"


def test_a_program_that_evaluates_every_row_gets_the_ids(tmp_path: Path) -> None:
    _, (line,) = evaluate("rebench-v2", tmp_path)
    assert f"--instance-ids {NAME} " in line


@pytest.mark.parametrize("instance_id", ["../../x", "a/b", "-x y"])
def test_an_id_that_is_no_name_of_a_file_is_refused(
    instance_id: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="an id holds only"):
        evaluate("pro", tmp_path, instance_id)


def test_a_report_names_the_command_and_keeps_verdicts_of_the_program(
    tmp_path: Path, cache: Path
) -> None:
    store = make_run(tmp_path, {BANK: WRONG, TEXTKIT: WRONG, UNITS: ""})
    chosen = report_settings(cache, "pro", page=False)
    said: list[str] = []
    assert report_command([store.folder], chosen, said.append) == 1
    assert sum(line.startswith("pro: run in a checkout of ") for line in said) == 1
    (file,) = (store.logs / "evaluation/pro").iterdir()
    predictions = json.loads(file.read_text())
    assert [prediction["instance_id"] for prediction in predictions] == [BANK, TEXTKIT]
    assert on_disk(store, BANK)["status"] == "not_evaluated"
    resolved = {
        **on_disk(store, BANK),
        "status": "resolved",
        "resolved": True,
        "official": True,
    }
    store.verdict(BANK).write_text(json.dumps(resolved))
    assert report_command([store.folder], chosen, said.append) == 1
    assert on_disk(store, BANK) == resolved
    assert "resolved           1  33.3 % of the selected" in said


def test_the_python_of_installed_programs_is_not_used(
    tmp_path: Path, cache: Path
) -> None:
    store = make_run(tmp_path, {BANK: WRONG})
    settings = report_settings(cache, "pro", python=str(tmp_path / "nowhere"))
    said: list[str] = []
    assert report_command([store.folder], settings, said.append) == 1
    assert sum(line.startswith("pro: run in a checkout of ") for line in said) == 1
