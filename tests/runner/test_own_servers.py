"""Runs on a model server of one's own: price, window, workers, and what is recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import RunConfig
from swe_retry.cli.configuration import make_configuration
from swe_retry.core.errors import UserError
from swe_retry.environments.base import EnvironmentKind
from swe_retry.llm.options import Models
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.budget import BudgetSettings
from swe_retry.runner.calls.rate_limiter import Calls
from tests.support.modelserver import (
    KINDS,
    LLAMA_CPP,
    LM_STUDIO,
    OLLAMA,
    VLLM,
    ModelServer,
)
from tests.support.runs import but, options, read
from tests.support.start import run_here

INSTANCE = "demo__textkit-1"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(LLAMA_CPP, window=8192) as server:
        server.will_answer("There is nothing to change.")
        yield server


def configure(
    server: ModelServer,
    tmp_path: Path,
    cache: Path,
    *,
    models: Models | None = None,
    address: str | None = None,
    dry_run: bool = False,
    **budget: Any,
) -> RunConfig:
    """Return what a command line for the server means, without retries."""
    settings = options(tmp_path, cache, INSTANCE).of(RunConfig()).settings
    sections = {
        "models": models or Models(names=("qwen",), tries=1),
        "calls": Calls(api_base=address or server.url, retries=0, give_up_after=5),
        "budget": BudgetSettings(**budget),
        "scale": type(settings.scale)(jobs=2),
    }
    settings = settings.model_copy(update=sections)
    config = make_configuration(settings, EnvironmentKind.NONE, dry_run=dry_run)
    return replace(config, run="r")


def run(
    server: ModelServer, tmp_path: Path, cache: Path, **changes: Any
) -> tuple[int, list[str]]:
    lines: list[str] = []
    config = configure(server, tmp_path, cache, **changes)
    return run_here(config, lines.append), lines


@pytest.mark.parametrize("kind", KINDS)
def test_an_own_file_is_free_and_recorded_with_its_window(
    kind: str, tmp_path: Path, cache: Path
) -> None:
    with ModelServer(kind, window=8192, slots=2) as server:
        server.will_answer("There is nothing to change.")
        # A budget holds, although no price and no longest reply is known.
        code, lines = run(server, tmp_path, cache, usd="0.01")
    assert code == 0
    assert any("window of a slot: 8192" in line for line in lines)
    described = RunStore(tmp_path, "r").read_run()
    assert described.prices == {
        "qwen": {
            "source": "local: free",
            "input_cost_per_token": 0,
            "output_cost_per_token": 0,
        }
    }
    (model,) = described.config["models"]
    slots = 2 if kind == LLAMA_CPP else None
    stated = {"address": server.url, "kind": kind, "window": 8192, "slots": slots}
    assert model["server"] == {**stated, "is_free": True, "problem": ""}
    assert model["settings"]["context"] == 8192
    (attempt,) = read(tmp_path, INSTANCE, "trajectories")["attempts"]
    assert attempt["traits"]["context"] == 8192
    assert attempt["cost"] == 0


def test_the_file_of_settings_wins(
    server: ModelServer, tmp_path: Path, cache: Path
) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("models: {qwen: {context: 2048}}")
    models = Models(names=("qwen",), tries=1, file=file)
    config = configure(server, tmp_path, cache, models=models)
    assert config.models[0].settings_at_server.context == 2048


def test_a_window_of_litellms_map_does_not_win(
    server: ModelServer, tmp_path: Path, cache: Path
) -> None:
    server.name = "gpt-4o"
    models = Models(names=("gpt-4o",), tries=1)
    _, lines = run(server, tmp_path, cache, models=models)
    assert not any("assumed" in line for line in lines), "its file is known"
    described = RunStore(tmp_path, "r").read_run()
    assert described.config["models"][0]["settings"]["context"] == 8192
    assert described.prices["gpt-4o"]["source"] == "local: free"


def test_a_server_that_states_nothing_gets_no_line(tmp_path: Path, cache: Path) -> None:
    with ModelServer("proxy", window=None) as server:
        server.will_answer("There is nothing to change.")
        _, lines = run(server, tmp_path, cache, prices={"qwen": ("0", "0")})
    assert not any("window" in line or "at a time" in line for line in lines)


def test_the_price_of_the_user_is_kept(
    server: ModelServer, tmp_path: Path, cache: Path
) -> None:
    config = configure(server, tmp_path, cache, prices={"qwen": ("1", "2")})
    assert config.money.prices["qwen"].source == "--price"


@pytest.mark.parametrize("case", ["proxy", "cloud", "closed"])
def test_anything_else_has_no_price_and_the_advice_says_what_to_give(
    case: str, tmp_path: Path, cache: Path
) -> None:
    kind = OLLAMA if case == "cloud" else "proxy"
    with ModelServer(kind) as server:
        server.cloud = case == "cloud"
        address = "http://127.0.0.1:9/v1" if case == "closed" else None
        with pytest.raises(UserError, match="--price qwen=0,0") as error:
            run(server, tmp_path, cache, address=address)
    assert "no price is known for qwen" in str(error.value)
    assert ("states nothing" in str(error.value)) == (case == "closed")
    assert not server.requests


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_the_server_does_not_have_is_refused_before_the_run(
    kind: str, tmp_path: Path, cache: Path
) -> None:
    refused = pytest.raises(UserError, match="the server has: coder")
    with ModelServer(kind, name="coder") as server, refused:
        run(server, tmp_path, cache, prices={"qwen": ("0", "0")})
    assert not server.requests


def test_a_model_in_ollamas_own_protocol(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = Models(names=("ollama/qwen",), tries=1)
    with ModelServer(OLLAMA, window=4096) as server:
        server.will_answer("There is nothing to change.")
        monkeypatch.setenv("OLLAMA_API_BASE", server.address)
        settings = options(tmp_path, cache, INSTANCE).of(RunConfig()).settings
        settings = settings.model_copy(update={"models": models})
        config = make_configuration(settings, EnvironmentKind.NONE)
        assert run_here(replace(config, run="r"), lambda _: None) == 0
        options_sent = server.requests[0]["options"]
        assert options_sent["num_ctx"] == 4096
        assert 0 < options_sent["num_predict"] < 4096
        server.name = "coder"
        config = make_configuration(settings, EnvironmentKind.NONE)
        with pytest.raises(UserError, match="the server has: coder"):
            run_here(replace(config, run="r2"), lambda _: None)


@pytest.mark.parametrize(
    ("kind", "slots", "workers"),
    [
        (LLAMA_CPP, 1, 1),
        (LLAMA_CPP, 3, 3),
        (LM_STUDIO, 3, 1),
        (OLLAMA, 3, 1),
        (VLLM, 3, 1),
        ("proxy", 1, 4),
    ],
)
def test_as_many_work_at_once_as_the_server_has_slots(
    kind: str, slots: int, workers: int, tmp_path: Path, cache: Path
) -> None:
    with ModelServer(kind, slots=slots) as server:
        config = configure(server, tmp_path, cache)
    assert config.workers == workers
    assert but(config, workers=7).workers == 7


def test_a_server_that_was_started_again_is_noticed_between_attempts(
    server: ModelServer, tmp_path: Path, cache: Path
) -> None:
    class Restarted(ModelServer):
        def answer(self, request: dict[str, Any]) -> Any:
            self.window = 4096
            self.slots = 2
            return super().answer(request)

    models = Models(names=("qwen",), tries=2)
    with Restarted(LLAMA_CPP, window=8192) as restarted:
        restarted.will_answer("There is nothing to change.")
        _, lines = run(restarted, tmp_path, cache, models=models)
    first, second = read(tmp_path, INSTANCE, "trajectories")["attempts"]
    assert first["traits"]["context"] == 8192
    assert second["traits"]["context"] == 4096
    (line,) = [line for line in lines if "at the start" in line]
    now, _, before = line.partition("; at the start: ")
    assert "window of a slot: 4096, slots: 2" in now
    assert "window of a slot: 8192, slots: 1" in before
    assert line in RunStore(tmp_path, "r").log_file.read_text()


def test_a_server_that_loads_another_model_ends_the_run(
    tmp_path: Path, cache: Path
) -> None:
    class Reloaded(ModelServer):
        def answer(self, request: dict[str, Any]) -> Any:
            self.name = "coder"
            return super().answer(request)

    models = Models(names=("qwen",), tries=2)
    with Reloaded(LLAMA_CPP) as server:
        server.will_answer("There is nothing to change.")
        with pytest.raises(UserError, match="the server has: coder"):
            run(server, tmp_path, cache, models=models)
        # llama.cpp would answer any name.
        assert len({json.dumps(request) for request in server.requests}) <= 2


def test_a_dry_run_says_what_the_server_states(
    server: ModelServer, tmp_path: Path, cache: Path
) -> None:
    code, lines = run(server, tmp_path, cache, dry_run=True)
    assert code == 0
    words = "window of a slot: 8192, slots: 1, local: free"
    assert f"qwen: llama.cpp at {server.url}: {words}" in lines
    assert any("one at a time" in line for line in lines)
    assert any(line.startswith("cost: at least $0.00, at most $0.00") for line in lines)
    server.loading = 99
    code, lines = run(server, tmp_path, cache, dry_run=True)
    assert code == 2
    assert any("missing: no price is known" in line for line in lines)
    assert any("Loading model" in line for line in lines)
    assert not server.requests


def test_a_server_that_is_gone_is_said_in_its_words(
    tmp_path: Path, cache: Path
) -> None:
    class Reloading(ModelServer):
        def answer(self, request: dict[str, Any]) -> Any:
            answer = super().answer(request)
            if len(self.requests) == 2:  # the first attempt has ended
                self.loading = 99
            return answer

    models = Models(names=("qwen",), tries=2)
    with Reloading(LLAMA_CPP) as server:
        server.will_answer("There is nothing to change.")
        _, lines = run(server, tmp_path, cache, models=models)
    words = f"{server.url} states nothing: Loading model; at the start: llama.cpp"
    assert any(words in line for line in lines)
