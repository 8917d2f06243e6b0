"""Whole runs against a real server on loopback: trouble, refusals, replays of live runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import runs.checks
from agent.formats import format_names
from agent.formats.diff import DiffFormat
from bench.cli.commands import run_command
from bench.config import ModelChoice
from core.errors import UserError
from llm.chat import Traits
from llm.client import RetryPolicy
from llm.gate import OpenGate
from llm.settings import load_settings
from llm.tokens import count_tokens
from runs.modelsource import ReplayedModels
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, config, live, options, read

pytestmark = pytest.mark.quick


def test_a_live_run_replayed_is_byte_identical(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(
        "textkit/slug.py", EDIT.replace("letters.append", "l.append"), EDIT
    )
    one = options(tmp_path / "one", cache, "demo__textkit-1")
    assert run_command(live(provider), one, lambda _: None) == 0
    asked = len(provider.requests)
    replay = live(provider, replay=tmp_path / "one/predictions/r")
    run_command(
        replay, options(tmp_path / "two", cache, "demo__textkit-1"), lambda _: None
    )
    assert len(provider.requests) == asked == 3
    paths = []
    for n in ("one", "two"):
        paths.append(tmp_path / n / "predictions/r/demo__textkit-1.json")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert json.loads(paths[0].read_text())["cost"] == pytest.approx(
        3 * (100 * 2.5e-6 + 10 * 1e-5)
    )


@pytest.mark.parametrize(
    "answer", [Answer(status=500), Answer("x", hang=9), Answer(status=429)]
)
def test_infrastructure_costs_no_try_and_is_redone(
    tmp_path: Path, cache: Path, provider: Provider, answer: Answer
) -> None:
    provider.will_answer(answer)
    said: list[str] = []
    run = options(tmp_path, cache, "demo__textkit-1", retries=RetryPolicy(1))
    assert run_command(live(provider), run, said.append) == 1
    assert not (tmp_path / "predictions/r/demo__textkit-1.json").exists()
    unfinished = json.loads(
        (tmp_path / "logs/r/demo__textkit-1.unfinished.json").read_text()
    )
    assert (unfinished["status"], unfinished["attempts"][0]["status"]) == (
        "infra_error",
        "infra_error",
    )
    provider.answers.clear()
    provider.will_answer("textkit/slug.py", EDIT)
    assert run_command(live(provider), run, said.append) == 0
    assert read(tmp_path, "demo__textkit-1")["attempt"] == 1


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(status=429, headers={"Retry-After": "0"}), "textkit/slug.py", EDIT],
        ["textkit/slug.py", Answer(status=500), EDIT],
        [Answer("x", hang=9), "textkit/slug.py", EDIT],
        [Answer(""), "textkit/slug.py", EDIT],
        ["textkit/slug.py", Answer(EDIT[:150], finish="length"), EDIT[150:]],
        ["textkit/slug.py", Answer(EDIT, finish="length"), EDIT],
    ],
    ids=[
        "429",
        "500",
        "hang",
        "empty",
        "truncated and gone on",
        "truncated and sent again",
    ],
)
def test_a_whole_run_gets_over_transient_trouble(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    answers: list[Answer | str],
) -> None:
    provider.will_answer(*answers)
    run = options(tmp_path, cache, "demo__textkit-1")
    assert run_command(live(provider), run, lambda _: None) == 0
    prediction = read(tmp_path, "demo__textkit-1")
    assert (prediction["status"], prediction["attempt"]) == ("plausible", 1)
    assert prediction["model_patch"].count("+        elif letters") == 1
    assert len(provider.requests) == len(answers)


def test_a_whole_run_in_the_whole_format(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    text = "def slugify(text):\n    return '-'.join(text.lower().split())\n"
    provider.will_answer("textkit/slug.py", f"textkit/slug.py\n```python\n{text}```\n")
    models = (ModelChoice.parse("my-model@whole", any_name=True),)
    chosen = live(provider, models=models)
    assert (
        run_command(chosen, options(tmp_path, cache, "demo__textkit-1"), lambda _: None)
        == 0
    )
    prediction = read(tmp_path, "demo__textkit-1")
    assert "+    return '-'.join(text.lower().split())" in prediction["model_patch"]
    assert prediction["cost"] is None, "my-model has no known price"
    assert read(tmp_path, "run")["models_returned"] == {
        chosen.models[0].name: ["my-model"]
    }


def test_a_refused_request_ends_the_attempt_and_counts(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(Answer(status=400), "textkit/slug.py", EDIT)
    assert (
        run_command(
            live(provider), options(tmp_path, cache, "demo__textkit-1"), lambda _: None
        )
        == 0
    )
    prediction = read(tmp_path, "demo__textkit-1")
    assert [r["status"] for r in prediction["all_results"]] == [
        "error",
        "plausible_untested",
    ]
    assert (prediction["attempt"], prediction["model"]) == (2, "gpt-4o-mini")


def test_a_refused_key_stops_the_run_and_records_nothing(
    tmp_path: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT, Answer(status=401))
    # A cache of its own: what other tests' runs took would decide which instance comes first.
    ids = ("demo__textkit-1", "demo__bank-1", "demo__bank-2")
    run = options(tmp_path, tmp_path / "cache", *ids)
    with pytest.raises(UserError, match="refused the key"):
        run_command(live(provider), run, lambda _: None)
    names = {p.stem for p in (tmp_path / "predictions/r").glob("*.json")}
    assert names == {"run", "demo__textkit-1"}


def test_a_refused_attempt_keeps_its_edits_and_replays_the_same(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    broken = EDIT.replace("elif letters and", "elif missing and")
    provider.will_answer("textkit/slug.py", broken, Answer(status=400))
    one = options(tmp_path / "one", cache, "demo__textkit-1")
    chosen = live(provider, models=(ModelChoice.parse("gpt-4o", any_name=True),))
    run_command(chosen, one, lambda _: None)
    prediction = read(tmp_path / "one", "demo__textkit-1")
    assert prediction["all_results"][0]["status"] == "error"
    assert (prediction["status"], prediction["lint_outcome"]) == ("error", False)
    again = live(provider, models=chosen.models, replay=tmp_path / "one/predictions/r")
    run_command(
        again, options(tmp_path / "two", cache, "demo__textkit-1"), lambda _: None
    )
    paths = []
    for n in ("one", "two"):
        paths.append(tmp_path / n / "predictions/r/demo__textkit-1.json")
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_settings_of_models_decide_results_and_are_recorded(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "models: {my-*: {edit_format: diff, context: 9999}}"
    )
    book = load_settings(tmp_path / "mine.yaml", format_names())
    mine = ModelChoice.parse("my-own", book=book, any_name=True)
    provider.will_answer("textkit/slug.py", EDIT)
    run = options(tmp_path, cache, "demo__textkit-1")
    run_command(live(provider, models=(mine,)), run, lambda _: None)
    (recorded,) = read(tmp_path, "run")["config"]["models"]
    assert recorded["edit_format"] == "diff"
    assert recorded["settings"]["context"] == 9999
    assert recorded["settings"]["cache_markers"] is False
    (attempt,) = read(tmp_path, "demo__textkit-1", "trajectories")["attempts"]
    assert attempt["traits"] == {
        "context": 9999,
        "prefill": False,
        "reminder": "system",
    }
    other = ModelChoice.parse("my-own@diff", any_name=True)
    with pytest.raises(UserError, match=r"models\.file"):
        run_command(live(provider, models=(other,)), run, lambda _: None)


class Calling(DiffFormat):
    """A format of function calls, as far as the start of a run looks at it."""

    tools = ({"name": "write_file"},)


def test_a_model_that_cannot_call_functions_gets_no_format_of_calls(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs.checks, "get_format", lambda _: Calling())
    (tmp_path / "mine.yaml").write_text("models: {my-*: {tools: false}}")
    book = load_settings(tmp_path / "mine.yaml", format_names())
    mine = ModelChoice.parse("my-own", book=book, any_name=True)
    run = options(tmp_path, cache, "demo__textkit-1")
    with pytest.raises(
        UserError, match="my-own cannot call functions; use @diff or @whole"
    ):
        run_command(live(provider, models=(mine,)), run, lambda _: None)
    assert not provider.requests


def test_a_recording_says_what_was_known_of_its_model(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    run_command(
        live(provider), options(tmp_path, cache, "demo__textkit-1"), lambda _: None
    )
    source = ReplayedModels(tmp_path / "predictions/r/trajectories")
    choice = ModelChoice.parse("gpt-4o", replay=True)
    replayed = source.turn("demo__textkit-1", 1, choice, 0.0, OpenGate()).model
    assert replayed.traits == Traits(128000, images=True)
    assert replayed.count("Übergrößenträger") == count_tokens(
        "gpt-4o", "Übergrößenträger"
    )


def test_a_replay_keeps_the_model_name_of_the_run(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    models = (ModelChoice.parse("opus", any_name=True),)
    assert models[0].name != "opus"
    one = options(tmp_path / "one", cache, "demo__textkit-1")
    run_command(live(provider, models=models), one, lambda _: None)
    replayed = config(
        models=(ModelChoice.parse("opus", replay=True),),
        replay=tmp_path / "one/predictions/r",
        tries=1,
    )
    run_command(
        replayed, options(tmp_path / "two", cache, "demo__textkit-1"), lambda _: None
    )
    paths = []
    for n in ("one", "two"):
        paths.append(tmp_path / n / "predictions/r/demo__textkit-1.json")
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_run_that_recorded_nothing_binds_nobody(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(Answer(status=401))
    with pytest.raises(UserError, match="refused the key"):
        run_command(
            live(provider), options(tmp_path, cache, "demo__bank-1"), lambda _: None
        )
    assert (
        run_command(config(), options(tmp_path, cache, "demo__bank-1"), lambda _: None)
        == 0
    )
