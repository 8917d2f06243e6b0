"""The provenance of a run: what run.json records at each start, and what pages show of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import ModelChoice
from swe_retry.environments.docker.engine import connect
from swe_retry.instances.dataset import load_dataset
from swe_retry.instances.hub import revision_of
from swe_retry.llm.chat import Reply, Usage
from swe_retry.llm.prices import Price
from swe_retry.llm.registry import load_litellm
from swe_retry.record.description import Run
from swe_retry.record.manifest import (
    note_end,
    note_evaluation,
    note_images,
    note_returned,
    note_start,
    prices_used,
)
from swe_retry.record.records import Origin
from swe_retry.record.runlock import run_lock
from swe_retry.record.store import RunStore
from swe_retry.results.provenance import UNKNOWN, evaluation, provenance
from swe_retry.results.read import read_run
from swe_retry.results.rundata import InstanceData, RunData
from swe_retry.results.verdicts import Verdict, VerdictStatus
from tests.support import read_json
from tests.support.reported import replay
from tests.support.rundata import a_run, an_attempt, an_instance, write_run

Facts = dict[str, dict[str, str]]


def read_described(store: RunStore) -> Run:
    return store.read_run()


def resolved_verdict(**changes: str) -> Verdict:
    """Return an official verdict."""
    values: dict[str, Any] = {
        "instance_id": "x",
        "evaluator": "docker",
        **changes,
    }
    return Verdict(status=VerdictStatus.RESOLVED, **values)


def facts_of(run: RunData, of: InstanceData | None = None) -> Facts:
    return {group: dict(facts) for group, facts in provenance(run, of).items()}


def test_a_run_notes_each_start_and_its_end(tmp_path: Path, cache: Path) -> None:
    replay(tmp_path, cache, "demo__textkit-1")
    folder = replay(tmp_path, cache, "demo__units-2")
    described = read_json(folder / "run.json")
    assert len(described["starts"]) == 2
    for start in described["starts"]:
        assert sorted(start) == ["ended", "started"]
        assert start["started"] <= start["ended"]
    assert described["prices"] == {}
    assert described["dataset"]["revision"] == ""
    facts = facts_of(read_run(RunStore.of_folder(folder)))
    last = described["starts"][-1]
    assert facts["run"]["ended"] == last["ended"]
    assert facts["run"]["starts"] == "2, of which 0 have no end"
    assert facts["versions"]["harness"].startswith("0.")
    assert facts["versions"]["litellm"] == described["versions"]["litellm"]
    assert facts["dataset"]["sha256"] == described["dataset"]["sha256"]
    assert facts["dataset"]["revision"] == UNKNOWN
    assert facts["models"]["models"] == "scripted-a, scripted-b"
    assert facts["prices"] == {"prices": "none needed: no model was called"}
    assert facts["images"] == {"images": "none: attempts were not tested in images"}
    parameters = facts["parameters"]
    assert parameters["tries"] == "3"
    assert parameters["prompts_sha256"] == described["deciding"]["prompts_sha256"]


def test_a_killed_start_has_no_end_and_changes_are_noted(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r")
    store.save_run(Run(started="2026-01-01", selected=[]))
    for price in (1.0, 2.0):
        prices = {"source": "--price", "input_cost_per_token": price}
        note_start(store, {"m": prices})
    note_end(store)
    described = read_described(store).as_json()
    first, second = described["starts"]
    assert first["ended"] is None
    assert second["ended"]
    assert described["prices"]["m"]["input_cost_per_token"] == 1.0
    assert "prices" not in first
    assert second["prices"]["m"]["input_cost_per_token"] == 2.0
    assert "versions" not in second
    facts = facts_of(a_run(described=described))
    assert facts["run"]["starts"] == "2, of which 1 have no end"
    assert facts["run"]["start.2.prices.m.input_cost_per_token"] == "2.0"
    assert facts["prices"] == {"m": "input_cost_per_token 1.0 (from --price)"}


def test_prices_are_those_that_calls_are_charged_with() -> None:
    models = []
    for name in ("openai/gpt-4o", "openai/unheard-of", "openai/mine"):
        model = ModelChoice.parse(name, any_name=True)
        models.append(model.name)
    stated = {"openai/mine": Price(Decimal("1e-6"), Decimal("2e-6"))}
    prices = prices_used(models, stated)
    price = load_litellm().model_cost["gpt-4o"]["input_cost_per_token"]
    assert prices["openai/gpt-4o"]["source"] == "litellm"
    assert prices["openai/gpt-4o"]["input_cost_per_token"] == price
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
    tags = []
    for image in client.images.list():
        tags += image.tags
    if not tags:
        pytest.skip("the engine holds no image")
    name = tags[0]
    store = RunStore(tmp_path, "r")
    store.save_run(Run())
    note_images(store, [name, "no/such:image"])
    images = read_described(store).images
    assert set(images) == {name}
    assert images[name].startswith("sha256:")
    run = a_run(described={"images": images})
    assert facts_of(run)["images"] == images


def test_what_providers_and_evaluators_said() -> None:
    calls = []
    for model in ("b-2024", "a-2024", "a-2024", ""):
        reply = Reply("", usage=Usage(), model=model)
        calls.append(reply)
    attempt = an_attempt(calls=tuple(calls))
    seen = resolved_verdict(
        image="i@sha256:1", evaluated="2026-02-02", swebench="5.0.2"
    )
    earlier = seen.but(evaluated="2026-01-01")
    unseen = resolved_verdict().but(status=VerdictStatus.NOT_EVALUATED)
    instances = []
    for verdict in (seen, earlier, unseen):
        instance = an_instance(attempts=(attempt,), verdict=verdict)
        instances.append(instance)
    facts = facts_of(a_run(*instances))
    returned = "a-2024 (6 replies), b-2024 (3 replies), no name (3 replies)"
    assert facts["models"]["as returned"] == returned
    assert facts["evaluation"] == {
        "evaluator": "docker, swebench 5.0.2 (2 verdicts)",
        "evaluated": "2026-01-01 to 2026-02-02",
    }
    assert facts["evaluation images"] == {"i": "sha256:1"}
    assert facts["prices"] == {"prices": UNKNOWN}


def test_older_runs_say_what_they_can(tmp_path: Path) -> None:
    content = {
        "instance_id": "own__thing-1",
        "model_name_or_path": "old",
        "model_patch": "p",
    }
    folder = write_run(tmp_path / "old", [content])
    facts = facts_of(read_run(RunStore.of_folder(folder)))
    assert facts["run"]["name"] == "old"
    assert facts["run"]["started"] == UNKNOWN
    assert facts["versions"]["harness_commit"] == UNKNOWN
    assert facts["evaluation"] == {"evaluator": "none"}


def test_the_page_of_an_instance_names_what_concerns_it() -> None:
    images = {}
    instances = []
    for number in (1, 2):
        image = f"swebench/sweb.eval.x86_64.own_1776_thing-{number}:latest"
        images[image] = f"sha256:{number}"
        reply = Reply("", model=f"m-{number}")
        attempt = an_attempt(calls=(reply,))
        instance = an_instance(
            f"own__thing-{number}",
            attempts=(attempt,),
            verdict=resolved_verdict(image=f"{image}@{images[image]}"),
            image=image,
        )
        instances.append(instance)
    run = a_run(*instances, described={"images": images})
    facts = facts_of(run, instances[0])
    image_of_first = {instances[0].image: "sha256:1"}
    assert facts["images"] == image_of_first
    assert facts["evaluation images"] == image_of_first
    assert facts["models"]["as returned"] == "m-1 (1 reply)"
    facts = facts_of(run)
    assert facts["images"] == images
    assert facts["evaluation images"] == images


def test_a_combination_names_what_its_runs_name() -> None:
    images = {"an-image": "sha256:1", "another": "sha256:2"}
    sources = []
    for number, name in enumerate("ab", 1):
        described = {
            "started": f"2026-0{number}-01",
            "versions": {"litellm": f"1.{number}"},
            "images": images,
        }
        sources.append({"name": name, "described": described})
    attempt = an_attempt(origin=Origin(run="b"))
    instance = an_instance(attempts=(attempt,), image="an-image")
    run = a_run(instance, described={"combined": sources})
    facts = facts_of(run)
    assert facts["times of the run a"]["started"] == "2026-01-01"
    assert facts["versions of the run b"]["litellm"] == "1.2"
    own = facts_of(run, instance)
    assert own["versions of the run b"] == facts["versions of the run b"]
    assert own["images of the run a"] == {"an-image": "sha256:1"}


def test_a_run_notes_the_names_that_providers_answer_under(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r")
    store.save_run(Run(selected=[]))
    note_returned(store, [("n", "n-1"), ("m", "m-2")])
    note_returned(store, [("m", "m-1"), ("m", "m-2")])
    names = {"m": ["m-1", "m-2"], "n": ["n-1"]}
    assert read_described(store).models_returned == names


def test_a_run_notes_its_evaluation_unless_a_process_works_on_it(
    tmp_path: Path,
) -> None:
    store = RunStore(tmp_path, "r")
    verdict = resolved_verdict(image="i@sha256:1", swebench="5.0.2")
    evaluated = evaluation([an_instance(verdict=verdict)])
    note_evaluation(store, evaluated)
    assert not store.run_file.exists()
    store.save_run(Run(selected=[]))
    with run_lock(store.folder):
        note_evaluation(store, evaluated)
    assert store.read_run() == Run(selected=[])
    note_evaluation(store, evaluated)
    noted = read_described(store).evaluation
    assert noted["images"] == {"i": "sha256:1"}
    assert noted["evaluators"] == {"docker, swebench 5.0.2": 1}
