"""Programs that users run themselves: their predictions files, and the command that is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.manual import PROGRAMS
from swe_retry.results.verdicts import MANUAL_TOOLS, Verdict, VerdictStatus
from tests.support import official, read_json
from tests.support.evaluated import (
    BANK,
    TEXTKIT,
    UNITS,
    WRONG,
    change_json,
    evaluator_of,
    make_run,
    on_disk,
    report_settings,
)
from tests.support.official import GOLD
from tests.support.reported import report_run

PATCH = GOLD.replace("+", "*")
NAME = "Own__calc-1"
SWEBENCH = {
    "instance_id": NAME,
    "model_name_or_path": "candidate",
    "model_patch": PATCH,
}
LAYOUTS: dict[str, Any] = {
    "pro": [
        {
            "instance_id": NAME,
            "patch": PATCH,
            "prefix": "candidate",
        }
    ],
    "live": {NAME: {"model_patch": PATCH}},
    "live-python": [SWEBENCH],
    "rebench": [SWEBENCH],
    "rebench-v2": [{"instance_id": NAME, "patch": PATCH}],
    "gym": [{**SWEBENCH, "instance_id": "own__calc-1"}],
    "smith": {NAME: SWEBENCH},
}


def evaluate(
    name: str, folder: Path, instance_id: str = NAME
) -> tuple[Verdict, list[str]]:
    lines: list[str] = []
    store = RunStore(folder / "my runs", "r")
    evaluator = evaluator_of(store, report_settings(folder, name), lines.append)
    task = official.task({"instance_id": instance_id}, PATCH, "neutral-1", "")
    assert evaluator.prepare([task]) == {}
    (verdict,) = evaluator.evaluate([task], "run-1")
    return verdict, lines


def test_the_tools_are_those_that_the_user_can_name() -> None:
    assert tuple(PROGRAMS) == MANUAL_TOOLS
    assert LAYOUTS.keys() == PROGRAMS.keys()
    for name in MANUAL_TOOLS:
        status = VerdictStatus.RESOLVED
        verdict = Verdict(instance_id="x", status=status, evaluator=name)
        assert verdict.final, "as version 0.12 wrote it"


@pytest.mark.parametrize("name", MANUAL_TOOLS)
def test_the_predictions_are_written_and_the_command_is_named(
    name: str, tmp_path: Path
) -> None:
    verdict, (line,) = evaluate(name, tmp_path)
    (file,) = (tmp_path / "my runs/logs/r/evaluation" / name).iterdir()
    assert read_json(file) == LAYOUTS[name]
    repository = PROGRAMS[name].repository
    start = f"{name}: run in a checkout of {repository} (docs/evaluators.md): "
    assert line.startswith(start)
    assert f"'{file}'" in line
    assert "{" not in line
    assert "\n" not in line
    # A program that evaluates every row of the set gets the ids.
    assert (f"--instance-ids {NAME} " in line) is (name == "rebench-v2")
    assert verdict.instance_id == "neutral-1"
    assert verdict.evaluator == ""  # added where it is saved
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert verdict.reason == f"run the program of {repository} on {file}"


@pytest.mark.parametrize("instance_id", ["../../x", "a/b", "-x y"])
def test_an_id_that_is_no_name_of_a_file_is_refused(
    instance_id: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="an id holds only"):
        evaluate("pro", tmp_path, instance_id)


def test_a_report_names_the_command_and_keeps_verdicts_of_the_program(
    tmp_path: Path, cache: Path
) -> None:
    store = make_run(
        tmp_path,
        {
            BANK: WRONG,
            TEXTKIT: WRONG,
            UNITS: "",
        },
    )
    # The Python of programs that are installed is not used.
    python = str(tmp_path / "nowhere")
    printed = report_run(store.folder, cache, "pro", python=python)
    assert printed.code == 1
    assert len(printed.starting("pro: run in a checkout of ")) == 1
    (file,) = (store.logs / "evaluation/pro").iterdir()
    ids = [prediction["instance_id"] for prediction in read_json(file)]
    assert ids == [BANK, TEXTKIT]
    verdict = on_disk(store, BANK)
    assert verdict["status"] == "not_evaluated"
    resolved = {"status": "resolved", "resolved": True, "official": True}
    change_json(store.verdict(BANK), lambda data: data.update(resolved))
    printed = report_run(store.folder, cache, "pro")
    assert printed.code == 1
    assert on_disk(store, BANK) == {**verdict, **resolved}
    assert "resolved           1  33.3 % of the selected" in printed.lines
