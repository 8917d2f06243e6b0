"""Whole runs against a real server on loopback: trouble, refusals, replays of live runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import swe_retry.runner.checks
from swe_retry.agent.formats import format_names
from swe_retry.agent.formats.diff import DiffFormat
from swe_retry.attempts.config import ModelChoice
from swe_retry.core.errors import UserError
from swe_retry.llm.chat import Traits
from swe_retry.llm.gate import OpenGate
from swe_retry.llm.model_settings import load_settings
from swe_retry.llm.provider_errors import RetryPolicy
from swe_retry.llm.tokens import count_tokens
from swe_retry.report.report import report_command
from swe_retry.runner.modelsource import ReplayedModels
from tests.support import assert_in_no_file, read_json
from tests.support.evaluated import report_settings
from tests.support.harness import Harness
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, config, live

pytestmark = pytest.mark.quick
ID = "demo__textkit-1"
ASK = "textkit/slug.py"


def model_of(name: str, settings: Path | None = None) -> ModelChoice:
    book = load_settings(settings, format_names())
    return ModelChoice.parse(name, book=book, any_name=True)


def test_a_live_run_replayed_is_byte_identical(
    harness: Harness, provider: Provider
) -> None:
    broken = EDIT.replace("letters.append", "l.append")
    provider.will_answer(ASK, broken, EDIT)
    prediction = harness.solve(live(provider), ID)
    assert len(provider.requests) == 3
    harness.assert_replays(live(provider), ID)
    assert len(provider.requests) == 3
    cost_of_call = 100 * 2.5e-6 + 10 * 1e-5
    assert prediction["cost"] == pytest.approx(3 * cost_of_call)


def test_no_file_of_a_run_holds_a_key_that_a_provider_quotes(
    harness: Harness, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-sentinel-0123456789"
    monkeypatch.setenv("QUOTED_API_KEY", key)
    quoting = EDIT.replace("letters.append", f"key = '{key}'; l.append")
    error = {"message": f"the key {key} is busy"}
    busy = Answer(status=500, headers={"x-request-id": key}, error=error)
    call = ("look", json.dumps({"path": key}))
    asking = Answer(f"{ASK} {key}", tool_calls=(call,))
    provider.will_answer(busy, asking, quoting, f"{EDIT}\n{key}")
    prediction = harness.solve(live(provider), ID)
    assert prediction["status"] == "plausible"
    assert len(provider.requests) == 4
    settings = report_settings(harness.cache, page=True)
    report_command([harness.file("")], settings, lambda _: None)
    assert_in_no_file(key, harness.folder)
    assert "[QUOTED_API_KEY]" in harness.file(f"trajectories/{ID}.json").read_text()
    harness.assert_replays(live(provider), ID)
    recorded = harness.file(f"trajectories/{ID}.json", "replay").read_text()
    calls = json.loads(recorded)["attempts"][0]["calls"]
    assert all(call["request_sha256"] for call in calls), "no request has changed"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500),
        Answer("x", hang=9),
        Answer(status=429),
    ],
)
def test_infrastructure_costs_no_try_and_is_redone(
    harness: Harness, provider: Provider, answer: Answer
) -> None:
    retries = RetryPolicy(1)
    provider.will_answer(answer)
    harness.run(live(provider), ID, code=1, retries=retries)
    assert not harness.file(f"{ID}.json").exists()
    unfinished = read_json(harness.folder / f"logs/r/{ID}.unfinished.json")
    assert unfinished["status"] == "infra_error"
    assert unfinished["attempts"][0]["status"] == "infra_error"
    provider.answers.clear()
    provider.will_answer(ASK, EDIT)
    harness.run(live(provider), ID, retries=retries)
    assert harness.prediction(ID)["attempt"] == 1


BUSY = Answer(status=429, headers={"Retry-After": "0"})
BROKEN = Answer(status=500)
SILENT = Answer("x", hang=9)
FIRST_HALF = Answer(EDIT[:150], finish="length")
CUT_AT_THE_END = Answer(EDIT, finish="length")


@pytest.mark.parametrize(
    "answers",
    [
        [BUSY, ASK, EDIT],
        [ASK, BROKEN, EDIT],
        [SILENT, ASK, EDIT],
        [Answer(""), ASK, EDIT],
        [ASK, FIRST_HALF, EDIT[150:]],
        [ASK, CUT_AT_THE_END, EDIT],
    ],
)
def test_a_whole_run_gets_over_transient_trouble(
    harness: Harness, provider: Provider, answers: list[Answer | str]
) -> None:
    provider.will_answer(*answers)
    prediction = harness.solve(live(provider), ID)
    assert prediction["status"] == "plausible"
    assert prediction["attempt"] == 1
    assert prediction["model_patch"].count("+        elif letters") == 1
    assert len(provider.requests) == len(answers)


def test_a_whole_run_in_the_whole_format(harness: Harness, provider: Provider) -> None:
    text = "def slugify(text):\n    return '-'.join(text.lower().split())\n"
    provider.will_answer(ASK, f"textkit/slug.py\n```python\n{text}```\n")
    model = model_of("my-model@whole")
    chosen = live(provider, models=(model,))
    prediction = harness.solve(chosen, ID)
    assert "+    return '-'.join(text.lower().split())" in prediction["model_patch"]
    assert prediction["cost"] is None, "my-model has no known price"
    returned = harness.description["models_returned"]
    assert returned == {model.name: ["my-model"]}


def test_a_refused_request_ends_the_attempt_and_counts(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer(Answer(status=400), ASK, EDIT)
    prediction = harness.solve(live(provider), ID)
    assert harness.statuses(ID) == ["error", "plausible_untested"]
    assert prediction["attempt"] == 2
    assert prediction["model"] == "gpt-4o-mini"


def test_a_refused_key_stops_the_run_and_records_nothing(
    tmp_path: Path, provider: Provider
) -> None:
    provider.will_answer(ASK, EDIT, Answer(status=401))
    # A cache of its own: what other tests' runs took would decide which instance comes first.
    ids = (ID, "demo__bank-1", "demo__bank-2")
    harness = Harness(tmp_path, tmp_path / "cache")
    with pytest.raises(UserError, match="refused the key"):
        harness.run(live(provider), *ids)
    files = harness.file("").glob("*.json")
    names = {path.stem for path in files}
    assert names == {"run", ID}


def test_a_refused_attempt_keeps_its_edits_and_replays_the_same(
    harness: Harness, provider: Provider
) -> None:
    broken = EDIT.replace("elif letters and", "elif missing and")
    provider.will_answer(ASK, broken, Answer(status=400))
    chosen = live(provider, models=(model_of("gpt-4o"),))
    prediction = harness.solve(chosen, ID, code=1)
    assert prediction["all_results"][0]["status"] == "error"
    assert prediction["status"] == "error"
    assert prediction["lint_outcome"] is False
    harness.assert_replays(chosen, ID, code=1)


def test_settings_of_models_decide_results_and_are_recorded(
    harness: Harness, tmp_path: Path, provider: Provider
) -> None:
    settings = tmp_path / "mine.yaml"
    settings.write_text("models: {my-*: {edit_format: diff, context: 9999}}")
    mine = model_of("my-own", settings)
    provider.will_answer(ASK, EDIT)
    chosen = live(provider, models=(mine,))
    harness.run(chosen, ID)
    (recorded,) = harness.description["config"]["models"]
    assert recorded["edit_format"] == "diff"
    assert recorded["settings"]["context"] == 9999
    assert recorded["settings"]["cache_markers"] is False
    (attempt,) = harness.attempts(ID)
    assert attempt["traits"] == {
        "context": 9999,
        "prefill": False,
        "reminder": "system",
    }
    without_settings = model_of("my-own@diff")
    chosen = live(provider, models=(without_settings,))
    with pytest.raises(UserError, match=r"models\.file"):
        harness.run(chosen, ID)


class Calling(DiffFormat):
    """A format of function calls, as far as the start of a run looks at it."""

    tools = ({"name": "write_file"},)


def test_a_model_that_cannot_call_functions_gets_no_format_of_calls(
    harness: Harness,
    tmp_path: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(swe_retry.runner.checks, "get_format", lambda _: Calling())
    settings = tmp_path / "mine.yaml"
    settings.write_text("models: {my-*: {tools: false}}")
    mine = model_of("my-own", settings)
    chosen = live(provider, models=(mine,))
    message = "my-own cannot call functions; use @diff or @whole"
    with pytest.raises(UserError, match=message):
        harness.run(chosen, ID)
    assert not provider.requests


def test_a_recording_says_what_was_known_of_its_model(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer(ASK, EDIT)
    harness.run(live(provider), ID)
    source = ReplayedModels(harness.file("trajectories"))
    choice = ModelChoice.parse("gpt-4o", replay=True)
    turn = source.turn(ID, 1, choice, 0.0, OpenGate())
    replayed = turn.model
    assert replayed.traits == Traits(128000, images=True)
    text = "Übergrößenträger"
    assert replayed.count(text) == count_tokens("gpt-4o", text)


def test_a_replay_keeps_the_model_name_of_the_run(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer(ASK, EDIT)
    opus = model_of("opus")
    assert opus.name != "opus"
    harness.run(live(provider, models=(opus,)), ID)
    recorded = ModelChoice.parse("opus", replay=True)
    replay = config(models=(recorded,), tries=1)
    harness.assert_replays(replay, ID)


def test_a_run_that_recorded_nothing_binds_nobody(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer(Answer(status=401))
    with pytest.raises(UserError, match="refused the key"):
        harness.run(live(provider), "demo__bank-1")
    harness.run(config(), "demo__bank-1")
