"""What temperature each try is sent, and what is recorded of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice, RunConfig, validate_config
from tests.support.provider import Provider
from tests.support.runs import EDIT, but, config, live, options, read

ID = "demo__textkit-1"


def test_the_default_differs_from_try_to_try() -> None:
    def sent(tries: int, **changes: Any) -> list[float]:
        made = validate_config(config(tries=tries, **changes))
        return [made.settings.models.temperature(try_) for try_ in range(1, tries + 1)]

    assert sent(1) == [0.0]
    assert sent(2) == [0.0, 0.4]
    assert sent(3) == [0.0, 0.4, 0.8]
    assert sent(5) == [0.0, 0.4, 0.8, 0.8, 0.8]
    assert sent(3, temperatures=(0.2,)) == [0.2, 0.2, 0.2]


def attempts(out: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(out, ID, "trajectories")["attempts"]
    return found


@pytest.mark.parametrize(
    ("name", "recorded"), [("gpt-4o", [0.0, 0.4, 0.8]), ("o3", [None, None, None])]
)
def test_what_is_sent_is_recorded_and_replayed(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    name: str,
    recorded: list[float | None],
) -> None:
    provider.will_answer("I do not know.")
    models = (ModelChoice.parse(f"{name}@diff", any_name=True),)
    chosen: RunConfig = live(provider, models=models, tries=3)
    run_command(chosen, options(tmp_path / "one", cache, ID), lambda _: None)
    first = [r for r in provider.requests if len(r["messages"]) == 2]
    assert [request.get("temperature") for request in first] == recorded
    made = attempts(tmp_path / "one")
    assert [attempt["temperature"] for attempt in made] == recorded
    prediction = read(tmp_path / "one", ID)
    assert [result["temperature"] for result in prediction["all_results"]] == recorded
    hashes = {attempt["calls"][0]["request_sha256"] for attempt in made}
    assert len(hashes) == 1, "the temperature is no part of a request's hash"
    # A replay at other temperatures records those of the recording.
    replay = but(chosen, replay=tmp_path / "one/predictions/r", temperatures=(1.5,))
    run_command(replay, options(tmp_path / "two", cache, ID), lambda _: None)
    assert [
        attempt["temperature"] for attempt in attempts(tmp_path / "two")
    ] == recorded


def test_more_tries_are_a_difference_by_themselves(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    chosen = live(provider, tries=2)
    run_command(chosen, options(tmp_path, cache, ID), lambda _: None)
    with pytest.raises(
        Exception, match=r"different settings: models\.tries was 2, is 3; go back"
    ):
        run_command(but(chosen, tries=3), options(tmp_path, cache, ID), lambda _: None)
