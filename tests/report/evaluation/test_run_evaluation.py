"""Which predictions are evaluated again, and which verdicts are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from swe_retry.core.errors import UserError
from swe_retry.record.description import DatasetFacts, Run
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.evaluate import Evaluated, RunEvaluation
from swe_retry.report.evaluation.evaluator import Evaluator, Tasks
from swe_retry.results.predictions import run_id
from swe_retry.results.read import read_predictions
from swe_retry.results.verdicts import Verdict, VerdictStatus
from tests.support.evaluated import (
    BANK,
    FORGED,
    TEXTKIT,
    UNITS,
    WRONG,
    Say,
    make_run,
    on_disk,
    report_settings,
    rows,
)


class Fixed(Evaluator):
    """Resolves each prediction but those of ``missing``, and records what it evaluates."""

    missing: Mapping[str, str]
    names: list[str]
    run_ids: list[str]

    def __init__(
        self,
        missing: Mapping[str, str] | None = None,
        name: str = "docker",
    ) -> None:
        super().__init__(name, Path(), report_settings(Path()), "demo", "test", print)
        self.__dict__.update(
            missing=missing or {},
            names=[],
            run_ids=[],
        )

    def prepare(self, tasks: Tasks) -> dict[str, str]:
        return dict(self.missing)

    def evaluate(
        self,
        tasks: Tasks,
        run_id: str,
    ) -> Iterator[Verdict]:
        self.run_ids.append(run_id)
        for task in tasks:
            self.names.append(task.instance_id)
            yield task.verdict(
                VerdictStatus.RESOLVED,
                log="out",
                report={},
            )


def evaluate(
    store: RunStore,
    evaluator: Evaluator | None,
    say: Say = lambda _: None,
) -> Evaluated:
    """Evaluate a run on the demo; by default with the evaluator that the settings name."""
    described = Run(dataset=DatasetFacts(name="demo", split="test"))
    settings = report_settings(Path(), "local" if evaluator else "none")
    requested = RunEvaluation(store, settings, described, say)
    if evaluator:
        vars(requested)["evaluator"] = evaluator
    return requested.evaluate(read_predictions(store))


def test_only_changed_patches_are_evaluated_again(tmp_path: Path) -> None:
    patches = {
        BANK: rows()[BANK]["patch"],
        TEXTKIT: WRONG,
        UNITS: "",
    }
    store = make_run(tmp_path, patches)
    first = Fixed()
    verdicts = evaluate(store, first).verdicts
    assert first.names == [BANK, TEXTKIT]
    assert verdicts[UNITS].status is VerdictStatus.EMPTY
    assert on_disk(store, UNITS)["gold_files"] == ["units/parse.py"]
    second = Fixed()
    assert evaluate(store, second).verdicts[BANK].status is VerdictStatus.RESOLVED
    assert second.names == []
    make_run(tmp_path, {TEXTKIT: FORGED})
    third = Fixed()
    evaluate(store, third)
    assert third.names == [TEXTKIT]
    assert third.run_ids != first.run_ids


def test_none_takes_what_is_there_and_loads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_run(tmp_path, {BANK: WRONG, UNITS: ""})
    monkeypatch.delattr("swe_retry.report.evaluation.evaluate.load_dataset")
    verdicts = evaluate(store, None).verdicts
    assert sorted(verdicts) == [BANK, UNITS]
    assert verdicts[BANK].status is VerdictStatus.NOT_EVALUATED
    assert verdicts[UNITS].status is VerdictStatus.EMPTY
    assert not store.verdict(BANK).exists()


def test_what_cannot_be_evaluated_again_keeps_the_verdict_it_has(
    tmp_path: Path,
) -> None:
    store = make_run(tmp_path, {BANK: WRONG, TEXTKIT: WRONG})
    missing = {BANK: "no image", TEXTKIT: "no image"}
    evaluate(store, Fixed({TEXTKIT: "no image"}, name="local"))
    lines: list[str] = []
    done = evaluate(store, Fixed(missing), lines.append)
    assert set(done.failed) == {BANK, TEXTKIT}
    assert done.verdicts[BANK].status is VerdictStatus.RESOLVED
    assert done.verdicts[BANK].evaluator == "local"
    assert done.verdicts[TEXTKIT].status is VerdictStatus.NOT_EVALUATED
    assert f"{BANK}: the verdict of local stands" in lines
    assert on_disk(store, BANK)["status"] == "resolved"
    assert on_disk(store, TEXTKIT)["reason"] == "no image"


def test_files_of_an_earlier_patch_do_not_stay(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG})
    evaluate(store, Fixed())
    log = store.logs / f"{BANK}.me__too.eval.log"
    report = store.logs / f"{BANK}.report.json"
    assert log.read_text() == "out"
    assert report.exists()
    make_run(tmp_path, {BANK: FORGED})
    evaluate(store, Fixed({BANK: "no image"}))
    assert not log.exists()
    assert not report.exists()


def test_instances_outside_the_dataset_are_reported(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG, "own__thing-1": WRONG})
    lines: list[str] = []
    evaluator = Fixed()
    done = evaluate(store, evaluator, lines.append)
    assert evaluator.names == [BANK]
    assert done.failed == ["own__thing-1"]
    assert done.verdicts["own__thing-1"].reason.startswith("not in the dataset")
    assert any(line.startswith("1 instance: not in the dataset") for line in lines)
    other = make_run(tmp_path / "else", {"own__thing-1": WRONG})
    with pytest.raises(UserError, match="check --dataset"):
        evaluate(other, Fixed())


def test_the_id_of_an_evaluation_may_stand_in_a_containers_name_and_is_of_one_folder(
    tmp_path: Path,
) -> None:
    first = run_id(RunStore(tmp_path / "a", "a+b"), [])
    assert re.fullmatch(r"a_b-[0-9a-f]{12}", first)
    assert run_id(RunStore(tmp_path / "a", "a+b"), []) == first
    assert run_id(RunStore(tmp_path / "b", "a+b"), []) != first
