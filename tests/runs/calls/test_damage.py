"""Damaged files of a run: named with their line, set aside, and the rest of the run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from core.atomic import write_json_atomic
from core.errors import UserError
from environments.base import EnvironmentKind
from runs.storage.store import RunStore
from runs.upkeep import status_command
from tests.support.provider import Provider
from tests.support.runs import EDIT, config, live, options, read

ONE = "demo__textkit-1"
OTHER = "demo__bank-1"
HUGE = (
    b'{"kind":"answered","call":"c","reply":{"content":"x","seconds":1'
    + b"0" * 400
    + b"}}"
)
DAMAGE = [b"[" * 100_000, b'{"kind":"\\u001b[31mx\\ny"}', HUGE, b"\xff\xfe"]


def entries(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_run_goes_on_from_what_is_whole_of_its_journal_and_ledger(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    run = live(provider, environment=EnvironmentKind.NONE)
    order = options(tmp_path, cache, ONE)
    assert run_command(run, order, lambda _: None) == 0
    store = RunStore(tmp_path, "r")
    asked = len(provider.requests)
    first = read(tmp_path, ONE)
    journal = store.journals / f"{ONE}.jsonl"
    store.prediction(ONE).unlink()
    whole = {path: path.read_bytes() for path in (journal, store.ledger)}
    for path, data in whole.items():
        path.write_bytes(b"".join(line + b"\n" for line in DAMAGE) + data)

    said: list[str] = []
    assert status_command(store, said.append) == 1
    assert said[-9] == "broken files: 8"
    for path in whole:
        for number in range(1, 5):
            (line,) = (line for line in said if f"{path}, line {number}: " in line)
            assert line.isprintable()

    said.clear()
    assert run_command(run, order, said.append) == 0
    assert len(provider.requests) == asked, (
        "replies that were paid for are bought again"
    )
    assert read(tmp_path, ONE) == first
    aside = b"".join(line + b"\n" for line in DAMAGE)
    for path, data in whole.items():
        assert path.with_name(path.name + ".damaged").read_bytes() == aside
        assert entries(path) == [json.loads(line) for line in data.splitlines()]
        assert (
            sum(f"{path}, line 1: " in line and "moved to" in line for line in said)
            == 1
        )

    said.clear()
    assert status_command(store, said.append) == 0
    assert not any("broken" in line for line in said)


def test_what_a_ledger_lost_comes_back_from_the_journals(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT, "textkit/slug.py", EDIT)
    run = live(provider, environment=EnvironmentKind.NONE)
    order = options(tmp_path, cache, ONE)
    run_command(run, order, lambda _: None)
    # The first journal is retired.
    run_command(run, options(tmp_path, cache, ONE, redo=ONE), lambda _: None)
    store = RunStore(tmp_path, "r")
    before = entries(store.ledger)
    assert len(before) == 4
    store.ledger.write_bytes(store.ledger.read_bytes().replace(b'"model"', b'"modem"'))
    said: list[str] = []
    assert run_command(run, order, said.append) == 0
    assert sum("moved to ledger.jsonl.damaged" in line for line in said) == 4
    assert sorted(entries(store.ledger), key=str) == sorted(before, key=str)


@pytest.mark.parametrize(
    "content", [b'{"instance_id": "demo__t', b"[" * 100_000, b"{}"]
)
def test_a_broken_prediction_is_left_alone_and_the_rest_is_worked_on(
    tmp_path: Path, cache: Path, content: bytes
) -> None:
    run = config(environment=EnvironmentKind.NONE)
    order = options(tmp_path, cache, ONE, OTHER)
    assert run_command(run, order, lambda _: None) == 0
    store = RunStore(tmp_path, "r")
    store.prediction(ONE).write_bytes(content)
    store.prediction(OTHER).unlink()
    said: list[str] = []
    assert run_command(run, order, said.append) == 1
    named = []
    for line in said:
        if line.startswith(f"left alone: {store.prediction(ONE)} is "):
            named.append(line)
    assert len(named) == 1 and "delete it to redo the instance" in named[0]
    assert store.prediction(ONE).read_bytes() == content
    assert read(tmp_path, OTHER)["instance_id"] == OTHER
    assert status_command(store, said.append) == 1
    assert str(store.prediction(ONE)) in said[-1]


def write(store: RunStore, name: str, instance_id: str) -> None:
    store.folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"instance_id": instance_id, "model_patch": ""})
    (store.folder / f"{name}.json").write_text(content)


@pytest.mark.parametrize(
    ("instance_id", "words"),
    [
        (
            "a__b-1",
            "b__c-2.json and {folder}/a__b-1.json are both predictions of a__b-1",
        ),
        (
            "c__d-3",
            "is the prediction of c__d-3 (at 'instance_id'); call it c__d-3.json",
        ),
        ("../../x", "'../../x' cannot be an id"),
        ("b__c-2\n", "cannot be an id"),
        ("", "'' cannot be an id"),
    ],
)
def test_a_prediction_of_another_instance_is_refused(
    tmp_path: Path, instance_id: str, words: str
) -> None:
    store = RunStore(tmp_path, "r")
    write(store, "a__b-1", "a__b-1")
    write(store, "b__c-2", instance_id)
    with pytest.raises(UserError) as raised:
        store.read_prediction(store.prediction("b__c-2"))
    assert str(store.folder / "b__c-2.json") in str(raised.value)
    assert words.format(folder=store.folder) in str(raised.value)


def test_an_earlier_run_with_such_a_prediction_is_refused(
    tmp_path: Path, cache: Path
) -> None:
    store = RunStore(tmp_path / "old", "r")
    write(store, ONE, OTHER)
    order = options(tmp_path, cache, ONE, prior=(store.folder,))
    with pytest.raises(UserError, match=rf"{ONE}\.json is the prediction of {OTHER}"):
        run_command(config(environment=EnvironmentKind.NONE), order, lambda _: None)


@pytest.mark.parametrize(
    ("content", "words"),
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
    tmp_path: Path, content: str, words: str
) -> None:
    store = RunStore(tmp_path, "r")
    store.folder.mkdir(parents=True)
    (store.folder / "run.json").write_text(content)
    with pytest.raises(UserError) as raised:
        store.read_run()
    assert "run.json is" in str(raised.value) and words in str(raised.value)


def test_an_unfinished_instance_of_another_name_is_broken(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r")
    store.folder.mkdir(parents=True)
    content = {"instance_id": OTHER, "status": "infra_error"}
    write_json_atomic(store.unfinished_path(ONE), content)
    said: list[str] = []
    assert status_command(RunStore(tmp_path, "r"), said.append) == 1
    assert f"{ONE}.unfinished.json is about '{OTHER}'" in said[-1]
