"""Names that are made of names fit into a file system, and stay different."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.attempts.config import ModelChoice
from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.hashing import LONGEST_NAME, fitting_name
from swe_retry.record.keys import is_safe_key
from swe_retry.record.store import RunStore
from swe_retry.results.predictions import Prediction, run_id
from swe_retry.results.verdicts import (
    Verdict,
    VerdictStatus,
    eval_log,
    save_verdict,
)
from tests.support import read_json, write_json
from tests.support.reporting import report
from tests.support.rundata import write_generated_run
from tests.support.runs import config

NAMES = [f"provider/a-model-with-a-name-{number}" for number in range(30)]
MODELS = tuple(ModelChoice.parse(name, any_name=True) for name in NAMES)
LETTERS = st.text(st.characters(categories=["Ll"]), min_size=1, max_size=400)


@given(LETTERS, LETTERS)
def test_long_names_are_cut_and_stay_different(one: str, other: str) -> None:
    for name in (one, one + other):
        fitting = fitting_name(name)
        assert len(fitting.encode()) <= LONGEST_NAME
        assert fitting_name(fitting) == fitting
        assert is_safe_key(fitting)
    assert fitting_name(one) != fitting_name(one + other)


def test_a_run_of_thirty_models_has_a_folder_of_its_own() -> None:
    run = config(models=MODELS, run=None)
    other = config(models=MODELS[::-1], run=None)
    run.check_name()
    assert len(run.run_name) <= LONGEST_NAME
    assert run.run_name != other.run_name
    assert run.model_name_or_path != other.model_name_or_path


def test_a_run_of_thirty_models_is_reported(tmp_path: Path) -> None:
    run = write_generated_run(tmp_path, instances=1, attempts=1)
    (path,) = run.glob("*__*.json")
    label = "retry--" + "--".join(NAMES).replace("provider/", "")
    content = read_json(path)
    for part in (content, *content["all_results"]):
        part["model_name_or_path"] = label
    write_json(path, content)
    store = RunStore.of_folder(run)
    prediction = Prediction(path.stem, label, "p")
    verdict = Verdict(
        instance_id=path.stem, status=VerdictStatus.RESOLVED, evaluator="local", log="x"
    )
    save_verdict(store, prediction, verdict, None)
    assert eval_log(store, prediction).read_text() == "x"
    other = Prediction(path.stem, label + "2", "p")
    assert eval_log(store, other) != eval_log(store, prediction)
    name = f"{label[:207]}.{run_id(store, [Prediction('x', label[:207], 'p')])}.json"
    assert len(name) <= 255
    report(run)


@pytest.mark.parametrize("letter", ["x", "\u65e5", "\U00020000"])
def test_long_names_are_written(tmp_path: Path, letter: str) -> None:
    size = len(letter.encode())
    path = tmp_path / (letter * (255 // size))
    write_text_atomic(path, "x")
    assert path.read_text() == "x"


def test_names_that_no_file_can_have_are_no_keys() -> None:
    assert is_safe_key("x" * LONGEST_NAME)
    assert not is_safe_key("x" * (LONGEST_NAME + 1))
