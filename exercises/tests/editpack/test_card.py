"""The card of a tuned model states how it was trained, and on what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.commands import EDITPACK
from exercises.tests.support.canitedit import write_folder
from exercises.tests.support.editpack import edits, write_training_rows
from swe_retry_exercises.canitedit.report import read_folder, report_on
from swe_retry_exercises.canitedit.tables import report_json
from swe_retry_exercises.editpack.train import card_of

RESUME = "--resume --out"
OPTIONS = {
    "model": "/home/me/tiny",
    "lora": False,
    "lr": 2e-5,
    "warmup": 10,
    "weight_decay": 0.05,
    "window": 8192,
    "step_windows": 32,
    "epochs": 8,
}


@pytest.fixture
def record() -> dict[str, Any]:
    """Return a record as ``train.json`` holds it, with what the card needs."""
    return {
        "model": "tiny",
        "parameters": 365_472,
        "options": OPTIONS,
        "data": {"name": "clean.jsonl", "sha256": "ab12", "decontaminated": True},
        "corpus": {
            "documents": 32,
            "held_out_documents": 1,
            "licences": {"MIT": 30, "ISC": 2},
        },
        "steps": 2,
        "tokens_seen": 960,
        "device": "cpu",
        "seconds": 1.5,
        "held_out_loss": [{"step": 0, "loss": 5.5}, {"step": 2, "loss": 5.25}],
    }


def test_the_card_states_data_and_licences(record: dict[str, Any]) -> None:
    card = card_of(record)
    assert "32 edits of `clean.jsonl`, SHA-256 `ab12`; 1 edit of them held out." in card
    assert "| MIT | 30 |\n| ISC | 2 |" in card
    assert "| held-out loss before | 5.5 |\n| held-out loss at the end | 5.25 |" in card
    assert "| lr | 2e-05 |" in card
    assert "/home/" not in card
    assert "went through `decontaminate`" in card


def test_the_card_states_what_was_not_done(record: dict[str, Any]) -> None:
    record["data"]["decontaminated"] = False
    record["held_out_loss"] = [{"step": 0, "loss": None}]
    card = card_of(record)
    assert "**Not decontaminated**" in card
    assert "went through `decontaminate`" not in card
    assert "| held-out loss before | infinite |" in card


def test_the_most_frequent_licences_are_stated(record: dict[str, Any]) -> None:
    record["corpus"]["licences"] = {f"l{n:02}": 100 - n for n in range(25)} | {"a|b": 1}
    card = card_of(record)
    assert "| l19 | 81 |" in card
    assert "l20" not in card


@pytest.fixture
def tuned_folder(tmp_path: Path, record: dict[str, Any]) -> Path:
    """Return a folder in which a training is complete."""
    folder = tmp_path / "tuned"
    folder.mkdir()
    (folder / "train.json").write_text(json.dumps(record))
    return folder


def test_measured_scores_go_into_card_and_record(
    tmp_path: Path, tuned_folder: Path
) -> None:
    folder = write_folder(tmp_path / "edits", [2, 1, 0, 0, 0, 0])
    scored = read_folder(folder, v1=False, allow_partial=False)
    scores = tmp_path / "scores.json"
    scores.write_text(report_json(*report_on([scored], (1,), ())))
    EDITPACK.output(f"train {RESUME} {tuned_folder} --scores {scores}")
    card = (tuned_folder / "README.md").read_text()
    assert "pass@1" in card
    assert "| 25.00 |" in card
    assert "None was measured" not in card
    recorded = json.loads((tuned_folder / "train.json").read_text())["scores"]
    assert [row["instruction"] for row in recorded["rows"]] == ["descriptive", "lazy"]


def test_a_file_without_scores_is_refused(tmp_path: Path, tuned_folder: Path) -> None:
    before = (tuned_folder / "train.json").read_bytes()
    scores = tmp_path / "scores.json"
    for text in ("{}", '{"rows": []}', '{"rows": [{"pass@1": 3}]}', "[", ""):
        scores.write_text(text)
        error = EDITPACK.refusal(f"train {RESUME} {tuned_folder} --scores {scores}")
        assert "scores.json" in error
        assert (tuned_folder / "train.json").read_bytes() == before


def test_a_complete_training_is_not_overwritten(
    tmp_path: Path, tuned_folder: Path
) -> None:
    rows = write_training_rows(tmp_path / "rows.jsonl", edits(2))
    line = f"train {rows} --model m --out {tuned_folder}"
    error = EDITPACK.refusal(line)
    assert "holds a tuned model; choose another --out" in error
    before = (tuned_folder / "train.json").read_bytes()
    assert "is complete; nothing to do" in EDITPACK.output(f"{line} --resume")
    assert (tuned_folder / "train.json").read_bytes() == before
