"""The provenance of a run: what run.json records at each start, and what pages show of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice
from bench.instances.dataset import load_dataset, revision_of
from environments.base import EnvironmentKind
from environments.docker.engine import connect
from llm.chat import Reply, Usage
from llm.prices import Price
from llm.registry import load_litellm
from reports.data.provenance import UNKNOWN, evaluation, provenance
from reports.data.rundata import InstanceData, RunData, read_run
from reports.data.verdicts import Verdict, VerdictStatus
from runs.description import Run
from runs.records import Origin
from runs.storage.manifest import (
    note_end,
    note_evaluation,
    note_images,
    note_returned,
    note_start,
    prices_used,
)
from runs.storage.runlock import run_lock
from runs.storage.store import RunStore
from tests.support import runs
from tests.support.rundata import a_run, an_attempt, an_instance

ONE = "demo__textkit-1"
TWO = "demo__units-2"


def shown(run: RunData, of: InstanceData | None = None) -> dict[str, dict[str, str]]:
    return {group: dict(facts) for group, facts in provenance(run, of).items()}


def test_a_run_notes_each_start_and_its_end(tmp_path: Path, cache: Path) -> None:
    config = runs.config(environment=EnvironmentKind.NONE)
    for name in (ONE, TWO):
        assert (
            run_command(config, runs.options(tmp_path, cache, name), lambda _: None)
            == 0
        )
    described = runs.read(tmp_path, "run")
    assert [sorted(start) for start in described["starts"]] == [
        ["ended", "started"]
    ] * 2
    assert all(start["started"] <= start["ended"] for start in described["starts"])
    assert described["prices"] == {}
    assert described["dataset"]["revision"] == ""
    said = shown(read_run(RunStore.of_folder(tmp_path / "predictions/r")))
    assert said["run"]["ended"] == described["starts"][-1]["ended"]
    assert said["run"]["starts"] == "2, of which 0 have no end"
    assert said["versions"]["harness"].startswith("0.")
    assert said["versions"]["litellm"] == described["versions"]["litellm"]
    assert said["dataset"]["sha256"] == described["dataset"]["sha256"]
    assert said["dataset"]["revision"] == UNKNOWN
    assert said["models"]["models"] == "scripted-a, scripted-b"
    assert said["prices"] == {"prices": "none needed: no model was called"}
    assert said["images"] == {"images": "none: attempts were not tested in images"}
    assert said["parameters"]["tries"] == "3"
    assert (
        said["parameters"]["prompts_sha256"] == described["deciding"]["prompts_sha256"]
    )


def test_a_killed_start_has_no_end_and_changes_are_noted(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r")
    store.save_run(Run(started="2026-01-01", selected=[]))
    note_start(store, {"m": {"source": "--price", "input_cost_per_token": 1.0}})
    note_start(store, {"m": {"source": "--price", "input_cost_per_token": 2.0}})
    note_end(store)
    described = (store.read_run() or Run()).as_json()
    first, second = described["starts"]
    assert first["ended"] is None
    assert second["ended"]
    assert described["prices"]["m"]["input_cost_per_token"] == 1.0
    assert "prices" not in first
    assert second["prices"]["m"]["input_cost_per_token"] == 2.0
    assert "versions" not in second
    said = shown(a_run(described=described))
    assert said["run"]["starts"] == "2, of which 1 have no end"
    assert said["run"]["start.2.prices.m.input_cost_per_token"] == "2.0"
    assert said["prices"] == {"m": "input_cost_per_token 1.0 (from --price)"}


def test_prices_are_those_that_calls_are_charged_with() -> None:
    names = ("openai/gpt-4o", "openai/unheard-of", "openai/mine")
    models = [ModelChoice.parse(name, any_name=True).name for name in names]
    prices = prices_used(models, {"openai/mine": Price(1e-6, 2e-6)})
    shown = load_litellm().model_cost["gpt-4o"]["input_cost_per_token"]
    assert prices["openai/gpt-4o"]["source"] == "litellm"
    assert prices["openai/gpt-4o"]["input_cost_per_token"] == shown
    assert prices["openai/unheard-of"] == {}
    assert prices["openai/mine"] == {
        "source": "--price",
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 2e-6,
    }


@pytest.mark.parametrize(
    ("sources", "revision"),
    [
        ([f"hf://datasets/own/thing@{'a' * 40}/data/test-0.parquet"], "a" * 40),
        ([f"hf://datasets/own/thing@{c * 40}/data/{c}.parquet" for c in "ab"], ""),
        (["/here/rows.parquet"], ""),
        ([], ""),
    ],
)
def test_the_revision_of_a_dataset(sources: list[str], revision: str) -> None:
    assert revision_of(sources) == revision


def test_a_revision_does_not_change_what_a_run_is_continued_by() -> None:
    dataset = load_dataset("demo", "test")
    other = replace(dataset, revision="b" * 40)
    assert other.identity().sha256 == dataset.identity().sha256
    assert other.identity().revision == "b" * 40


@pytest.mark.docker
def test_images_are_noted_by_their_digests(tmp_path: Path) -> None:
    client: Any = connect()
    held = next((tag for image in client.images.list() for tag in image.tags), None)
    if held is None:
        pytest.skip("the engine holds no image")
    store = RunStore(tmp_path, "r")
    store.save_run(Run())
    note_images(store, [held, "no/such:image"])
    images = (store.read_run() or Run()).images
    assert set(images) == {held}
    assert images[held].startswith("sha256:")
    assert shown(a_run(described={"images": images}))["images"] == images


def test_what_providers_and_evaluators_said() -> None:
    calls = []
    for model in ("b-2024", "a-2024", "a-2024", ""):
        calls.append(Reply("", usage=Usage(), model=model))
    attempt = an_attempt(calls=tuple(calls))
    verdicts = []
    for when in ("2026-02-02", "2026-01-01"):
        verdicts.append(
            Verdict(
                instance_id="x",
                status=VerdictStatus.RESOLVED,
                evaluator="docker",
                image="i@sha256:1",
                evaluated=when,
                swebench="5.0.2",
            )
        )
    unseen = Verdict(
        instance_id="x", status=VerdictStatus.NOT_EVALUATED, evaluator="docker"
    )
    instances = []
    for v in (*verdicts, unseen):
        instances.append(an_instance(attempts=(attempt,), verdict=v))
    said = shown(a_run(*instances))
    returned = "a-2024 (6 replies), b-2024 (3 replies), no name (3 replies)"
    assert said["models"]["as returned"] == returned
    assert said["evaluation"] == {
        "evaluator": "docker, swebench 5.0.2 (2 verdicts)",
        "evaluated": "2026-01-01 to 2026-02-02",
    }
    assert said["evaluation images"] == {"i": "sha256:1"}
    assert said["prices"] == {"prices": UNKNOWN}


def test_older_runs_say_what_they_can(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    content = {
        "instance_id": "own__thing-1",
        "model_name_or_path": "old",
        "model_patch": "p",
    }
    (folder / "own__thing-1.json").write_text(json.dumps(content))
    said = shown(read_run(RunStore.of_folder(folder)))
    assert said["run"]["name"] == "old"
    assert said["run"]["started"] == said["versions"]["harness_commit"] == UNKNOWN
    assert said["evaluation"] == {"evaluator": "none"}


def test_the_page_of_an_instance_names_what_concerns_it() -> None:
    images = {
        f"swebench/sweb.eval.x86_64.own_1776_thing-{n}:latest": f"sha256:{n}"
        for n in "12"
    }
    one, two = sorted(images)
    calls = [an_attempt(calls=(Reply("", model=f"m-{n}"),)) for n in "12"]
    verdicts = [
        Verdict(
            instance_id="x",
            status=VerdictStatus.RESOLVED,
            evaluator="docker",
            image=f"{image}@{images[image]}",
        )
        for image in (one, two)
    ]
    first, second = (
        an_instance(f"own__thing-{n}", attempts=(call,), verdict=verdict, image=image)
        for n, call, verdict, image in zip(
            "12", calls, verdicts, (one, two), strict=True
        )
    )
    run = a_run(first, second, described={"images": images})
    said = shown(run, first)
    assert said["images"] == said["evaluation images"] == {one: "sha256:1"}
    assert said["models"]["as returned"] == "m-1 (1 reply)"
    assert shown(run)["images"] == shown(run)["evaluation images"] == images


def test_a_combination_names_what_its_runs_name() -> None:
    images = {"an-image": "sha256:1", "another": "sha256:2"}
    sources = []
    for n, name in enumerate("ab", 1):
        sources.append(
            {
                "name": name,
                "described": {
                    "started": f"2026-0{n}-01",
                    "versions": {"litellm": f"1.{n}"},
                    "images": images,
                },
            }
        )
    instance = an_instance(
        attempts=(an_attempt(origin=Origin(run="b")),), image="an-image"
    )
    run = a_run(instance, described={"combined": sources})
    said = shown(run)
    assert said["times of the run a"]["started"] == "2026-01-01"
    assert said["versions of the run b"]["litellm"] == "1.2"
    own = shown(run, instance)
    assert own["versions of the run b"] == said["versions of the run b"]
    assert own["images of the run a"] == {"an-image": "sha256:1"}


def test_a_run_notes_the_names_that_providers_answer_under(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r")
    store.save_run(Run(selected=[]))
    note_returned(store, [("n", "n-1"), ("m", "m-2")])
    note_returned(store, [("m", "m-1"), ("m", "m-2")])
    assert (store.read_run() or Run()).models_returned == {
        "m": ["m-1", "m-2"],
        "n": ["n-1"],
    }


def test_a_run_notes_its_evaluation_unless_a_process_works_on_it(
    tmp_path: Path,
) -> None:
    store = RunStore(tmp_path, "r")
    verdict = Verdict(
        instance_id="x",
        status=VerdictStatus.RESOLVED,
        evaluator="docker",
        image="i@sha256:1",
        swebench="5.0.2",
    )
    told_of = evaluation([an_instance(verdict=verdict)])
    note_evaluation(store, told_of)
    assert store.read_run() is None
    store.save_run(Run(selected=[]))
    with run_lock(store.folder):
        note_evaluation(store, told_of)
    assert store.read_run() == Run(selected=[])
    note_evaluation(store, told_of)
    noted = (store.read_run() or Run()).evaluation
    assert noted["images"] == {"i": "sha256:1"}
    assert noted["evaluators"] == {"docker, swebench 5.0.2": 1}
