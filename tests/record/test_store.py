from __future__ import annotations

import json
from pathlib import Path

import pytest

from swe_retry.core.atomic import write_json_atomic, write_text_atomic
from swe_retry.core.errors import UserError
from swe_retry.record.manifest import differences
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore
from tests.support.runner import PATCH

OLD = {
    "instance_id": "a__b-1",
    "model_patch": None,
    "model": "opus",
    "try": 2,
    "gold_files": ["secret.py"],
    "resolved": True,
    "all_results": [
        {"model": "gpt-4o", "try": 1, "gold_files": ["secret.py"]},
        {"model": "opus", "try": 1},
        {"model": "gpt-4o", "try": 2},
        {"model": "opus", "try": 2},
    ],
}


def test_what_only_reports_may_know_is_dropped_before_the_harness_sees_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a__b-1.json"
    path.write_text(json.dumps(OLD))
    store = RunStore.of_folder(tmp_path)
    text = json.dumps(store.read_prediction(path).prediction())
    assert "gold_files" not in text
    assert "resolved" not in text
    assert store.raw_prediction(path)["resolved"] is True


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"instance_id": 1}',
        '{"instance_id": "a", "model_patch": 5}',
    ],
)
def test_broken_predictions_are_named_and_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"x\.json is"):
        RunStore.of_folder(tmp_path).read_prediction(path)
    assert path.read_text() == content


def test_older_predictions_are_plausible_by_their_outcomes() -> None:
    clean = {
        "instance_id": "a__b-1",
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": True,
        "model_patch": PATCH,
    }
    test_patch = PATCH.replace("a.py", "tests/a.py")
    untested = {**clean, "test_outcome": None}
    only_tests = {**clean, "model_patch": test_patch}
    assert InstanceResult.of_prediction(clean).plausible
    assert not InstanceResult.of_prediction(untested).plausible
    assert not InstanceResult.of_prediction(only_tests).plausible


def test_differences_are_in_words() -> None:
    before = {"models.tries": 1, "models": ["a", "b"], "top_p": None}
    now = {"models.tries": 2, "models": ["a"], "top_p": 0.5}
    assert differences(before, now) == [
        "--models was a,b, is a",
        "models.tries was 1, is 2",
        "--top-p was none, is 0.5",
    ]
    assert differences(5, {}) == ["run.json does not say how the run was started"]


@pytest.mark.parametrize(
    ("recorded", "messages"),
    [
        ("0.10.0", []),
        ("0.6.0", ["version of the harness was 0.6.0, is 0.10.0"]),
        (None, ["version of the harness was none, is 0.10.0"]),
        ([1], ["version of the harness was 1, is 0.10.0"]),
    ],
)
def test_of_a_run_of_another_version_only_the_version_is_named(
    recorded: object, messages: list[str]
) -> None:
    before: dict[str, object] = {"harness": recorded}
    now: dict[str, object] = {"harness": "0.10.0"}
    assert differences(before, now) == messages
    before["tries"] = 1
    now["tries"] = 2
    assert differences(before, now) == (messages or ["--tries was 1, is 2"])


def test_writes_are_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    write_json_atomic(path, {"a": "\udce9 é"})
    assert json.loads(path.read_text()) == {"a": "\udce9 é"}
    with pytest.raises(TypeError):
        write_json_atomic(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": "\udce9 é"}
    write_text_atomic(path, "x")
    assert [p.name for p in tmp_path.iterdir()] == ["f.json"]
