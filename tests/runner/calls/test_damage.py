"""Damaged files of a run: named with their line, set aside, and the rest of the run goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import UserError
from swe_retry.environments.base import EnvironmentKind
from swe_retry.record.store import RunStore
from swe_retry.runner.housekeeping import status_command
from tests.support.runner import ID, OTHER, Outcome, Runner
from tests.support.runs import EDIT, config

HUGE = (
    b'{"kind":"answered","call":"c","reply":{"content":"x","seconds":1'
    + b"0" * 400
    + b"}}"
)
DAMAGE = [b"[" * 100_000, b'{"kind":"\\u001b[31mx\\ny"}', HUGE, b"\xff\xfe"]
DAMAGED_LINES = b"".join(line + b"\n" for line in DAMAGE)
NO_ENVIRONMENT = {"environment": EnvironmentKind.NONE}


def contents_of(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def entries(path: Path) -> list[Any]:
    return contents_of(path.read_bytes())


def status_of(store: RunStore) -> Outcome:
    lines: list[str] = []
    code = status_command(store, lines.append)
    return Outcome(code, "\n".join(lines))


def lines_with(text: str, outcome: Outcome) -> list[str]:
    return [line for line in outcome.lines if text in line]


def test_a_run_goes_on_from_what_is_whole_of_its_journal_and_ledger(
    runner: Runner,
) -> None:
    runner.provider.will_answer("textkit/slug.py", EDIT)
    chosen = runner.live(**NO_ENVIRONMENT)
    assert runner.start(chosen).code == 0
    store = runner.store
    request_count = len(runner.provider.requests)
    first = runner.prediction()
    store.prediction(ID).unlink()
    contents = {}
    for path in (store.journals / f"{ID}.jsonl", store.ledger):
        contents[path] = path.read_bytes()
        path.write_bytes(DAMAGED_LINES + contents[path])

    status = status_of(store)
    assert status.code == 1
    assert status.lines[-9] == "broken files: 8"
    for path in contents:
        for number in range(1, 5):
            (line,) = lines_with(f"{path}, line {number}: ", status)
            assert line.isprintable()

    started = runner.start(chosen)
    assert started.code == 0
    assert len(runner.provider.requests) == request_count, "paid for, and bought again"
    assert runner.prediction() == first
    for path, data in contents.items():
        aside = path.with_name(path.name + ".damaged")
        assert aside.read_bytes() == DAMAGED_LINES
        assert entries(path) == contents_of(data)
        (line,) = lines_with(f"{path}, line 1: ", started)
        assert "moved to" in line

    status = status_of(store)
    assert status.code == 0
    assert "broken" not in status.output


def test_what_a_ledger_lost_comes_back_from_the_journals(runner: Runner) -> None:
    runner.provider.will_answer("textkit/slug.py", EDIT, "textkit/slug.py", EDIT)
    chosen = runner.live(**NO_ENVIRONMENT)
    runner.start(chosen)
    runner.start(chosen, redo=ID)  # the first journal is retired
    ledger = runner.store.ledger
    before = entries(ledger)
    assert len(before) == 4
    data = ledger.read_bytes()
    ledger.write_bytes(data.replace(b'"model"', b'"modem"'))
    started = runner.start(chosen)
    assert started.code == 0
    assert len(lines_with("moved to ledger.jsonl.damaged", started)) == 4
    assert sorted(entries(ledger), key=str) == sorted(before, key=str)


def test_a_broken_prediction_is_left_alone_and_the_rest_is_worked_on(
    runner: Runner,
) -> None:
    chosen = config(**NO_ENVIRONMENT)
    runner = replace(runner, ids=(ID, OTHER))
    broken = runner.store.prediction(ID)
    assert runner.start(chosen).code == 0
    for content in (b'{"instance_id": "demo__t', b"[" * 100_000, b"{}"):
        broken.write_bytes(content)
        runner.store.prediction(OTHER).unlink()
        started = runner.start(chosen)
        assert started.code == 1
        (line,) = lines_with(f"left alone: {broken} is ", started)
        assert "delete it to redo the instance" in line
        assert broken.read_bytes() == content
        assert runner.prediction(OTHER)["instance_id"] == OTHER
        status = status_of(runner.store)
        assert status.code == 1
        assert str(broken) in status.lines[-1]


def write_prediction(store: RunStore, name: str, instance_id: str) -> None:
    store.folder.mkdir(parents=True, exist_ok=True)
    content = {"instance_id": instance_id, "model_patch": ""}
    write_json_atomic(store.prediction(name), content)


@pytest.mark.parametrize(
    ("instance_id", "message"),
    [
        ("a__b-1", "b__c-2.json and {folder}/a__b-1.json are both predictions of a__b-1"),
        ("c__d-3", "is the prediction of c__d-3 (at 'instance_id'); call it c__d-3.json"),
        ("../../x", "'../../x' cannot be an id"),
        ("b__c-2\n", "cannot be an id"),
        ("", "'' cannot be an id"),
    ],
)  # fmt: skip
def test_a_prediction_of_another_instance_is_refused(
    tmp_path: Path, instance_id: str, message: str
) -> None:
    store = RunStore(tmp_path, "r")
    write_prediction(store, "a__b-1", "a__b-1")
    write_prediction(store, "b__c-2", instance_id)
    with pytest.raises(UserError) as raised:
        store.read_prediction(store.prediction("b__c-2"))
    problem = str(raised.value)
    assert str(store.prediction("b__c-2")) in problem
    assert message.format(folder=store.folder) in problem


def test_an_earlier_run_with_such_a_prediction_is_refused(runner: Runner) -> None:
    earlier = runner.below("old").store
    write_prediction(earlier, ID, OTHER)
    message = rf"{ID}\.json is the prediction of {OTHER}"
    with pytest.raises(UserError, match=message):
        runner.start(config(**NO_ENVIRONMENT), prior=(earlier.folder,))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000, "nested"),
        ('{"starts": 5}', "'starts': Input should be a valid list"),
        ('{"starts": [5]}', "'starts[0]': Input should be a valid dict"),
        ('{"versions": "1"}', "'versions': Input should be a valid dict"),
        ('{"dataset": {"name": []}}', "'dataset.name': Input should be a valid string"),
        ('{"selected": ["../../x"]}', "'selected[0]': '../../x' cannot be an id"),
        (
            '{"models_returned": {"m": 5}}',
            "'models_returned.m': Input should be a valid list",
        ),
    ],
)
def test_a_damaged_description_of_a_run_is_named(
    tmp_path: Path, content: str, message: str
) -> None:
    store = RunStore(tmp_path, "r")
    store.folder.mkdir(parents=True)
    store.run_file.write_text(content)
    with pytest.raises(UserError) as raised:
        store.read_run()
    problem = str(raised.value)
    assert "run.json is" in problem
    assert message in problem


def test_an_unfinished_instance_of_another_name_is_broken(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r")
    store.folder.mkdir(parents=True)
    content = {"instance_id": OTHER, "status": "infra_error"}
    write_json_atomic(store.unfinished_path(ID), content)
    status = status_of(store)
    assert status.code == 1
    assert f"{ID}.unfinished.json is about '{OTHER}'" in status.lines[-1]
