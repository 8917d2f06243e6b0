"""What temperature each try is sent, and what is recorded of it."""

from __future__ import annotations

from typing import Any

import pytest

from bench.config import ModelChoice, RunConfig, validate_config
from tests.bench.conftest import Harness
from tests.support.provider import Provider
from tests.support.runs import EDIT, but, config, live

ID = "demo__textkit-1"


def test_the_default_differs_from_try_to_try() -> None:
    def temperatures(tries: int, **changes: Any) -> list[float]:
        made = validate_config(config(tries=tries, **changes))
        return [made.settings.models.temperature(try_) for try_ in range(1, tries + 1)]

    assert temperatures(1) == [0.0]
    assert temperatures(2) == [0.0, 0.4]
    assert temperatures(3) == [0.0, 0.4, 0.8]
    assert temperatures(5) == [0.0, 0.4, 0.8, 0.8, 0.8]
    assert temperatures(3, temperatures=(0.2,)) == [0.2, 0.2, 0.2]


@pytest.mark.parametrize(
    ("name", "recorded"), [("gpt-4o", [0.0, 0.4, 0.8]), ("o3", [None, None, None])]
)
def test_what_is_sent_is_recorded_and_replayed(
    harness: Harness, provider: Provider, name: str, recorded: list[float | None]
) -> None:
    provider.will_answer("I do not know.")
    models = (ModelChoice.parse(f"{name}@diff", any_name=True),)
    chosen: RunConfig = live(provider, models=models, tries=3)
    prediction = harness.solve(chosen, ID)
    first = [r for r in provider.requests if len(r["messages"]) == 2]
    assert [request.get("temperature") for request in first] == recorded
    made = harness.attempts(ID)
    assert [attempt["temperature"] for attempt in made] == recorded
    assert [result["temperature"] for result in prediction["all_results"]] == recorded
    hashes = {attempt["calls"][0]["request_sha256"] for attempt in made}
    assert len(hashes) == 1, "the temperature is no part of a request's hash"
    # A replay at other temperatures records those of the recording.
    replay = but(chosen, replay=harness.file(""), temperatures=(1.5,))
    harness.run(replay, ID, out="replay")
    replayed = harness.attempts(ID, "replay")
    assert [attempt["temperature"] for attempt in replayed] == recorded


def test_more_tries_are_a_difference_by_themselves(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    chosen = live(provider, tries=2)
    harness.run(chosen, ID)
    with pytest.raises(
        Exception, match=r"different settings: models\.tries was 2, is 3; go back"
    ):
        harness.run(but(chosen, tries=3), ID)
