"""Which predictions are evaluated again, and which verdicts are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.instances.dataset import Dataset, load_dataset
from core.errors import UserError
from reports.data.predictions import run_id
from reports.data.rundata import read_predictions
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.choice import NoEvaluator
from reports.evaluation.requested import RunEvaluation
from runs.storage.store import RunStore
from tests.support.evaluated import (
    BANK,
    FORGED,
    TEXTKIT,
    UNITS,
    WRONG,
    Say,
    make_run,
    on_disk,
    rows,
)


@dataclass
class Fixed:
    """An evaluator with a fixed answer, which records what it is asked."""

    status: VerdictStatus = VerdictStatus.RESOLVED
    missing: dict[str, str] = field(default_factory=dict)
    name: str = "docker"
    asked: list[str] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)

    def accepts(self, verdict: Verdict | None) -> bool:
        return verdict is not None and verdict.final

    def prepare(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        return self.missing

    def evaluate(
        self, tasks: Sequence[EvaluationTask], run_id: str
    ) -> Iterator[Verdict]:
        self.run_ids.append(run_id)
        for task in tasks:
            self.asked.append(task.instance.instance_id)
            yield Verdict(
                instance_id=task.instance.instance_id,
                status=self.status,
                evaluator=self.name,
                log="out",
                report={},
            )


def evaluation(store: RunStore, say: Say = lambda _: None) -> RunEvaluation:
    def load() -> Dataset:
        return load_dataset("demo", "test")

    return RunEvaluation(store, read_predictions(store), load, say)


def test_only_changed_patches_are_evaluated_again(tmp_path: Path) -> None:
    gold = rows()[BANK]["patch"]
    store = make_run(tmp_path, {BANK: gold, TEXTKIT: WRONG, UNITS: ""})
    first, second, third = Fixed(), Fixed(), Fixed()
    verdicts = evaluation(store).evaluate(first).verdicts
    assert first.asked == [BANK, TEXTKIT]
    assert verdicts[UNITS].status is VerdictStatus.EMPTY
    assert on_disk(store, UNITS)["gold_files"] == ["units/parse.py"]
    assert (
        evaluation(store).evaluate(second).verdicts[BANK].status
        is VerdictStatus.RESOLVED
    )
    assert second.asked == []
    make_run(tmp_path, {TEXTKIT: FORGED})
    said: list[str] = []
    evaluation(store, said.append).evaluate(third)
    assert third.asked == [TEXTKIT]
    assert third.run_ids != first.run_ids
    assert said[0] == "kept: 2 verdicts on unchanged patches, 1 official"


def test_none_takes_what_is_there_and_loads_nothing(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG, UNITS: ""})

    def load() -> Dataset:
        raise AssertionError("no row is needed")

    work = RunEvaluation(store, read_predictions(store), load, print)
    verdicts = work.evaluate(NoEvaluator()).verdicts
    statuses = {name: verdict.status for name, verdict in verdicts.items()}
    assert statuses == {BANK: VerdictStatus.NOT_EVALUATED, UNITS: VerdictStatus.EMPTY}
    assert not store.verdict(BANK).exists()


def test_what_cannot_be_evaluated_again_keeps_the_verdict_it_has(
    tmp_path: Path,
) -> None:
    store = make_run(tmp_path, {BANK: WRONG, TEXTKIT: WRONG})
    evaluation(store).evaluate(Fixed(name="local", missing={TEXTKIT: "no image"}))
    said: list[str] = []
    evaluator = Fixed(missing={BANK: "no image", TEXTKIT: "no image"})
    done = evaluation(store, said.append).evaluate(evaluator)
    assert set(done.failed) == {BANK, TEXTKIT}
    assert (done.verdicts[BANK].status, done.verdicts[BANK].evaluator) == (
        VerdictStatus.RESOLVED,
        "local",
    )
    assert done.verdicts[TEXTKIT].status is VerdictStatus.NOT_EVALUATED
    assert f"{BANK}: the verdict of local stands" in said
    assert on_disk(store, BANK)["status"] == "resolved"
    assert on_disk(store, TEXTKIT)["reason"] == "no image"


def test_files_of_an_earlier_patch_do_not_stay(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG})
    evaluation(store).evaluate(Fixed())
    log, report = (
        store.logs / f"{BANK}.me__too.eval.log",
        store.logs / f"{BANK}.report.json",
    )
    assert log.read_text() == "out"
    assert report.exists()
    make_run(tmp_path, {BANK: FORGED})
    evaluation(store).evaluate(Fixed(missing={BANK: "no image"}))
    assert not log.exists()
    assert not report.exists()


def test_instances_outside_the_dataset_are_reported(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG, "own__thing-1": WRONG})
    said: list[str] = []
    done = evaluation(store, said.append).evaluate(evaluator := Fixed())
    assert evaluator.asked == [BANK]
    assert done.failed == ("own__thing-1",)
    assert done.verdicts["own__thing-1"].reason.startswith("not in the dataset")
    assert any(line.startswith("1 instance: not in the dataset") for line in said)
    with pytest.raises(UserError, match="check --dataset"):
        evaluation(make_run(tmp_path / "else", {"own__thing-1": WRONG})).evaluate(
            Fixed()
        )


def test_the_id_of_a_combined_runs_evaluation_may_stand_in_a_containers_name(
    tmp_path: Path,
) -> None:
    assert re.fullmatch(r"a_b-[0-9a-f]{12}", run_id(RunStore(tmp_path, "a+b"), []))


def test_runs_of_one_name_in_two_folders_share_no_container(tmp_path: Path) -> None:
    ids = {
        run_id(RunStore(tmp_path / folder, "demo"), [])
        for folder in ("one", "two", "two")
    }
    assert len(ids) == 2
