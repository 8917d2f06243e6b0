"""Whole runs: what they write, how they go on, how they end."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent.errors import InfrastructureError, UserError
from agent.git import GitError
from agent.models import RetryPolicy
from agent.workspace import Workspace
from bench.commands import Options, run_command
from bench.config import EnvironmentKind, ModelChoice, RunConfig, TestChoice, validated
from bench.dataset import Selection
from bench.store import RunStore
from demo.setup import DEMO_DATASET
from tests.provider import Answer, Provider

TOP = Path(__file__).resolve().parents[2]
IDS = ("demo__bank-1", "demo__textkit-2", "demo__units-1")
EDIT = (
    'textkit/slug.py\n```python\n<<<<<<< SEARCH\n        else:\n            letters.append("-")\n'
    '=======\n        elif letters and letters[-1] != "-":\n            letters.append("-")\n'
    ">>>>>>> REPLACE\n```\n"
)


def config(**changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "models": tuple(ModelChoice.parse(n, replay=True) for n in ("scripted-a", "scripted-b")),
        "replay": DEMO_DATASET / "replies",
        "run": "r",
    }
    return RunConfig(**{**values, **changes})


def options(out: Path, cache: Path, *ids: str, **changes: Any) -> Options:
    values: dict[str, Any] = {
        "dataset": "demo",
        "split": "test",
        "selection": Selection(ids),
        "out": out,
        "cache": cache,
        "retries": RetryPolicy(2, 0.01, 0.05),
    }
    return Options(**{**values, **changes})


def live(provider: Provider, **changes: Any) -> RunConfig:
    names = ("gpt-4o", "gpt-4o-mini")
    values: dict[str, Any] = {
        "models": tuple(ModelChoice.parse(name, any_name=True) for name in names),
        "api_base": provider.url,
        "call_timeout": 2,
        "replay": None,
        "tries": 1,
    }
    return config(**{**values, **changes})


def read(out: Path, name: str, folder: str = "") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (out / "predictions/r" / folder / f"{name}.json").read_text()
    )
    return content


def test_a_run_writes_predictions_trajectories_and_transcripts(tmp_path: Path, cache: Path) -> None:
    assert run_command(config(), options(tmp_path, cache, *IDS), lambda _: None) == 0
    prediction = read(tmp_path, "demo__textkit-2")
    assert set(prediction) >= {
        "instance_id", "model_name_or_path", "model_patch", "model", "temperature", "cost",
        "added_files", "edited_files", "edit_outcome", "lint_outcome", "test_outcome", "try",
        "attempt", "tries", "status", "reason", "all_results",
    }  # fmt: skip
    assert prediction["model_patch"].startswith("diff --git a/textkit/wrap.py")
    assert (prediction["status"], prediction["attempt"], prediction["model"]) == (
        "plausible",
        1,
        "scripted-a",
    )
    assert prediction["all_results"][0]["status"] == "plausible_untested"
    trajectory = read(tmp_path, "demo__textkit-2", "trajectories")
    (attempt,) = trajectory["attempts"]
    assert [m["role"] for m in attempt["messages"]] == ["system", *["user", "assistant"] * 4]
    assert len(attempt["calls"]) == 4
    assert trajectory["config"]["tries"] == 3
    transcript = (tmp_path / "predictions/r/demo__textkit-2.md").read_text()
    assert "I had the comparison wrong" in transcript
    assert prediction["reason"] in transcript
    described = read(tmp_path, "run")
    assert described["selected"] == sorted(IDS)
    assert described["dataset"]["sha256"]


def test_models_alternate_and_an_unplausible_instance_falls_back(
    tmp_path: Path, cache: Path
) -> None:
    run_command(config(), options(tmp_path, cache, "demo__units-1"), lambda _: None)
    prediction = read(tmp_path, "demo__units-1")
    results = prediction["all_results"]
    assert [r["model"] for r in results][:4] == ["scripted-a", "scripted-b"] * 2
    assert [r["try"] for r in results][:4] == [1, 1, 2, 2]


def test_the_same_command_goes_on_and_other_options_are_refused(
    tmp_path: Path, cache: Path
) -> None:
    said: list[str] = []
    run_command(config(), options(tmp_path, cache, "demo__bank-1"), said.append)
    path = tmp_path / "predictions/r/demo__bank-1.json"
    before = (path.stat().st_mtime_ns, path.read_bytes())
    run_command(config(), options(tmp_path, cache, *IDS), said.append)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    assert any("1 done before" in line for line in said)
    with pytest.raises(UserError, match="tries: recorded 3, now 2") as error:
        run_command(config(tries=2), options(tmp_path, cache, *IDS), said.append)
    assert "temperature" not in str(error.value)


def test_a_run_replayed_on_its_own_trajectories_is_byte_identical(
    tmp_path: Path, cache: Path
) -> None:
    run_command(config(all_attempts=True), options(tmp_path / "one", cache, *IDS), lambda _: None)
    again = config(all_attempts=True, replay=tmp_path / "one/predictions/r/trajectories")
    run_command(again, options(tmp_path / "two", cache, *IDS), lambda _: None)
    for name in IDS:
        one, two = (tmp_path / n / f"predictions/r/{name}.json" for n in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_a_live_run_replayed_is_byte_identical(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT.replace("letters.append", "l.append"), EDIT)
    one = options(tmp_path / "one", cache, "demo__textkit-1")
    assert run_command(live(provider), one, lambda _: None) == 0
    asked = len(provider.requests)
    replay = live(provider, replay=tmp_path / "one/predictions/r")
    run_command(replay, options(tmp_path / "two", cache, "demo__textkit-1"), lambda _: None)
    assert len(provider.requests) == asked == 3
    paths = [tmp_path / n / "predictions/r/demo__textkit-1.json" for n in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert json.loads(paths[0].read_text())["cost"] == pytest.approx(3 * (100 * 2.5e-6 + 10 * 1e-5))


def test_another_recorded_model_is_refused(tmp_path: Path, cache: Path) -> None:
    swapped = config(models=tuple(reversed(config().models)))
    with pytest.raises(UserError, match="scripted-a is recorded, but it is the turn of scripted-b"):
        run_command(swapped, options(tmp_path, cache, "demo__bank-1"), lambda _: None)
    assert not (tmp_path / "predictions/r/demo__bank-1.json").exists()


def test_attempts_that_were_not_recorded_have_no_candidate(tmp_path: Path, cache: Path) -> None:
    run_command(config(all_attempts=True), options(tmp_path, cache, "demo__bank-1"), lambda _: None)
    statuses = [r["status"] for r in read(tmp_path, "demo__bank-1")["all_results"]]
    assert statuses[2:] == ["not_recorded"] * 4


def test_prior_runs_spare_what_is_plausible_there(tmp_path: Path, cache: Path) -> None:
    run_command(config(), options(tmp_path, cache, *IDS), lambda _: None)
    said: list[str] = []
    later = options(tmp_path / "later", cache, *IDS, prior=(tmp_path / "predictions/r",))
    run_command(config(), later, said.append)
    plausible = [n for n in IDS if read(tmp_path, n)["status"] == "plausible"]
    assert f"{len(plausible)} plausible in earlier runs" in said[0]
    written = {p.stem for p in (tmp_path / "later/predictions/r").glob("*.json")} - {"run"}
    assert written == set(IDS) - set(plausible)


def test_a_prior_run_of_the_older_layout(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    patch = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"
    clean = {"edit_outcome": True, "lint_outcome": True, "test_outcome": True, "resolved": True}
    for name, values in {
        "demo__bank-1": clean,
        "demo__bank-2": {**clean, "test_outcome": False},
    }.items():
        content = {"instance_id": name, "model_patch": patch, "gold_files": ["GOLD.py"], **values}
        (folder / f"{name}.json").write_text(json.dumps(content))
    said: list[str] = []
    run_command(
        config(),
        options(tmp_path, cache, "demo__bank-1", "demo__bank-2", prior=(folder,)),
        said.append,
    )
    assert "1 plausible in earlier runs, 1 to do" in said[0]
    store = RunStore.of_folder(folder)
    assert "GOLD" not in json.dumps([store.read_prediction(p) for p in store.prediction_paths()])


def test_a_broken_prediction_file_is_named_and_kept(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "predictions/r/demo__bank-1.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"instance_id": "demo__b')
    with pytest.raises(UserError, match=r"demo__bank-1\.json is broken"):
        run_command(config(), options(tmp_path, cache, "demo__bank-1"), lambda _: None)
    assert path.read_text() == '{"instance_id": "demo__b'


@pytest.mark.parametrize("answer", [Answer(status=500), Answer("x", hang=9), Answer(status=429)])
def test_infrastructure_costs_no_try_and_is_redone(
    tmp_path: Path, cache: Path, provider: Provider, answer: Answer
) -> None:
    provider.will_answer(answer)
    said: list[str] = []
    run = options(tmp_path, cache, "demo__textkit-1", retries=RetryPolicy(1))
    assert run_command(live(provider), run, said.append) == 1
    assert not (tmp_path / "predictions/r/demo__textkit-1.json").exists()
    unfinished = json.loads((tmp_path / "logs/r/demo__textkit-1.unfinished.json").read_text())
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
    ids=["429", "500", "hang", "empty", "truncated and gone on", "truncated and sent again"],
)
def test_a_whole_run_gets_over_transient_trouble(
    tmp_path: Path, cache: Path, provider: Provider, answers: list[Answer | str]
) -> None:
    provider.will_answer(*answers)
    run = options(tmp_path, cache, "demo__textkit-1")
    assert run_command(live(provider), run, lambda _: None) == 0
    prediction = read(tmp_path, "demo__textkit-1")
    assert (prediction["status"], prediction["attempt"]) == ("plausible", 1)
    assert prediction["model_patch"].count("+        elif letters") == 1
    assert len(provider.requests) == len(answers)


def test_a_whole_run_in_the_whole_format(tmp_path: Path, cache: Path, provider: Provider) -> None:
    text = "def slugify(text):\n    return '-'.join(text.lower().split())\n"
    provider.will_answer("textkit/slug.py", f"textkit/slug.py\n```python\n{text}```\n")
    models = (ModelChoice.parse("my-model@whole", any_name=True),)
    chosen = live(provider, models=models)
    assert run_command(chosen, options(tmp_path, cache, "demo__textkit-1"), lambda _: None) == 0
    prediction = read(tmp_path, "demo__textkit-1")
    assert "+    return '-'.join(text.lower().split())" in prediction["model_patch"]
    assert prediction["cost"] is None, "my-model has no known price"


def test_a_refused_request_ends_the_attempt_and_counts(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(Answer(status=400), "textkit/slug.py", EDIT)
    assert (
        run_command(live(provider), options(tmp_path, cache, "demo__textkit-1"), lambda _: None)
        == 0
    )
    prediction = read(tmp_path, "demo__textkit-1")
    assert [r["status"] for r in prediction["all_results"]] == ["error", "plausible_untested"]
    assert (prediction["attempt"], prediction["model"]) == (2, "gpt-4o-mini")


def test_a_refused_key_stops_the_run_and_records_nothing(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT, Answer(status=401))
    run = options(tmp_path, cache, "demo__textkit-1", "demo__bank-1", "demo__bank-2")
    with pytest.raises(UserError, match="refused the key"):
        run_command(live(provider), run, lambda _: None)
    names = {p.stem for p in (tmp_path / "predictions/r").glob("*.json")}
    assert names == {"run", "demo__textkit-1"}


def test_a_bug_in_an_attempt_is_recorded_and_counts(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bench.attempts

    def explode(*_: object) -> str:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(bench.attempts, "take_patch", explode)
    run_command(config(), options(tmp_path, cache, "demo__bank-2"), lambda _: None)
    (first, *_) = read(tmp_path, "demo__bank-2", "trajectories")["attempts"]
    assert first["status"] == "error"
    assert "ZeroDivisionError: a bug" in first["error"]
    assert read(tmp_path, "demo__bank-2")["status"] == "empty"


def test_a_full_disk_is_infrastructure(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunStore, "save_instance", full)
    assert run_command(config(), options(tmp_path, cache, "demo__bank-2"), lambda _: None) == 1


def test_require_tests_goes_on_after_an_untested_candidate(tmp_path: Path, cache: Path) -> None:
    run_command(
        config(require_tests=True), options(tmp_path, cache, "demo__textkit-1"), lambda _: None
    )
    prediction = read(tmp_path, "demo__textkit-1")
    assert (prediction["attempt"], len(prediction["all_results"])) == (1, 6)
    assert prediction["status"] == "plausible"


def test_a_leak_in_a_checkout_stops_the_instance(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bench.checkout

    real = bench.checkout._fill

    def leaky(snapshot: Path, commit: str, root: Path) -> None:
        real(snapshot, commit, root)
        (root / ".git" / "FETCH_HEAD").write_text("the future")

    monkeypatch.setattr(bench.checkout, "_fill", leaky)
    assert run_command(config(), options(tmp_path, cache, "demo__bank-2"), lambda _: None) == 1


def test_dry_run_starts_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said: list[str] = []
    models = (ModelChoice.parse("gpt-4o"),)
    run = options(tmp_path, cache, *IDS, dry_run=True)
    assert run_command(config(models=models, replay=None), run, said.append) == 0
    text = "\n".join(said)
    assert "calls: at most 45" in text
    assert "missing: a key for gpt-4o in the environment variable OPENAI_API_KEY" in text
    assert "GB free" in text
    assert not (tmp_path / "predictions").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tries": 0}, "--tries 0"),
        ({"run": "../x"}, "--run"),
        ({"temperatures": (0.0, 1.0)}, "--temperature has 2 values"),
        ({"temperatures": (3.0,)}, "between 0 and 2"),
        ({"max_reflections": -1}, "--max-reflections"),
        ({"models": ()}, "--models is empty"),
    ],
)
def test_option_values_are_checked(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        validated(config(**changes))


def test_formats_of_models() -> None:
    assert ModelChoice.parse("gpt-4o@whole") == ModelChoice("gpt-4o", "gpt-4o", "whole")
    odd = ModelChoice.parse("vertex_ai/claude@20240101", any_name=True)
    assert (odd.name, odd.edit_format) == ("vertex_ai/claude@20240101", "diff")


def test_temperatures_per_try() -> None:
    assert [config(temperatures=(0.0, 0.4, 0.8)).temperature(n) for n in (1, 2, 3)] == [0, 0.4, 0.8]
    assert config(temperatures=(0.5,)).temperature(3) == 0.5


def command(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOP / "harness.py"), *words],
        cwd="/", capture_output=True, text=True, env={**os.environ, **env}, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--models", "no-such-model", "--dataset", "demo"], "unknown model 'no-such-model'"),
        (["--dataset", "nonsense", "--api-base", "http://127.0.0.1:9/v1"], "unknown dataset"),
        (["--dataset", "demo", "--models", "gpt-4o"], "OPENAI_API_KEY"),
        (["--dataset", "demo", "--replay", "/nowhere"], "--replay /nowhere"),
        (["--dataset", "demo", "--temperature", "warm"], "--temperature 'warm'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, words: list[str], said: str) -> None:
    result = command(*words, "--out", str(tmp_path), "--environment", "none", OPENAI_API_KEY="")
    assert result.returncode == 2, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    assert not (tmp_path / "predictions").exists()


def test_an_unknown_option_value_is_exit_code_2(tmp_path: Path) -> None:
    assert command("--environment", "moon", "--out", str(tmp_path)).returncode == 2


def test_ctrl_c_is_exit_code_130_and_keeps_what_is_done(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT, Answer("x", hang=60))
    words = [
        "--dataset", "demo", "--instances", "demo__textkit-1,demo__bank-1", "--models", "gpt-4o",
        "--api-base", provider.url, "--environment", "none", "--run", "r", "--out", str(tmp_path),
        "--cache", str(cache),
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, str(TOP / "harness.py"), *words], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(provider.requests) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert (tmp_path / "predictions/r/demo__textkit-1.json").exists()
    assert not (tmp_path / "predictions/r/demo__bank-1.json").exists()
    assert not list((cache / "work").iterdir())


def test_an_unreachable_engine_is_refused(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    docker = config(environment=EnvironmentKind.DOCKER)
    with pytest.raises(UserError, match="no Docker engine answers"):
        run_command(docker, options(tmp_path, cache, "demo__bank-1"), lambda _: None)


def test_tests_none_and_environments_without_spec_leave_outcomes_unknown(
    tmp_path: Path, cache: Path
) -> None:
    rows = tmp_path / "rows.json"
    said: list[str] = []
    from bench.dataset import load_dataset

    row = dict(load_dataset("demo", "test", DEMO_DATASET).rows[0])
    row.pop("spec")
    rows.write_text(json.dumps([row]))
    run = options(tmp_path, cache, dataset=str(rows), repos=cache / "demo-mirrors")
    run_command(config(environment=EnvironmentKind.LOCAL), run, said.append)
    assert any("no spec" in line for line in said)
    none = config(environment=EnvironmentKind.LOCAL, tests=TestChoice.NONE, run="none")
    assert run_command(none, options(tmp_path, cache, "demo__bank-2"), said.append) == 0


def test_nothing_is_logged_to_the_root_logger(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        run_command(config(), options(tmp_path, cache, "demo__bank-2"), lambda _: None)
    assert not caplog.records
    assert "attempt 1" in (tmp_path / "logs/r/demo__bank-2.log").read_text()


def test_an_unreachable_hub_is_infrastructure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(InfrastructureError, match="cannot load SWE-bench/SWE-bench_Lite"):
        run_command(config(), options(tmp_path, cache, dataset="lite"), lambda _: None)


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
    assert (prediction["status"], prediction["lint_outcome"]) == ("fallback", False)
    again = live(provider, models=chosen.models, replay=tmp_path / "one/predictions/r")
    run_command(again, options(tmp_path / "two", cache, "demo__textkit-1"), lambda _: None)
    paths = [tmp_path / n / "predictions/r/demo__textkit-1.json" for n in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


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
    run_command(replayed, options(tmp_path / "two", cache, "demo__textkit-1"), lambda _: None)
    paths = [tmp_path / n / "predictions/r/demo__textkit-1.json" for n in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_predictions_of_another_harness_are_not_mixed_with_ours(
    tmp_path: Path, cache: Path
) -> None:
    path = tmp_path / "predictions/r/x__y-1.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"instance_id": "x__y-1", "model_patch": null}')
    with pytest.raises(UserError, match=r"no run\.json"):
        run_command(config(), options(tmp_path, cache, "demo__bank-1"), lambda _: None)


def test_a_run_that_recorded_nothing_binds_nobody(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(Answer(status=401))
    with pytest.raises(UserError, match="refused the key"):
        run_command(live(provider), options(tmp_path, cache, "demo__bank-1"), lambda _: None)
    assert run_command(config(), options(tmp_path, cache, "demo__bank-1"), lambda _: None) == 0


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), GitError("git failed")])
def test_disk_and_git_errors_in_an_attempt_cost_no_try(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Workspace, "write", fail)
    assert run_command(config(), options(tmp_path, cache, "demo__bank-2"), lambda _: None) == 1
    assert not (tmp_path / "predictions/r/demo__bank-2.json").exists()
