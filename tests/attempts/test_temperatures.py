"""What temperature each try is sent, and what is recorded of it."""

from __future__ import annotations

from typing import Any

import pytest

from swe_retry.attempts.config import ModelChoice, RunConfig, validate_config
from tests.support import change_json
from tests.support.harness import Harness
from tests.support.provider import Provider
from tests.support.runs import EDIT, but, config, live

ID = "demo__textkit-1"


def test_the_default_differs_from_try_to_try() -> None:
    def temperatures(tries: int, **changes: Any) -> list[float]:
        run = validate_config(config(tries=tries, **changes))
        models = run.settings.models
        return [models.temperature(try_) for try_ in range(1, tries + 1)]

    assert temperatures(1) == [0.0]
    assert temperatures(2) == [0.0, 0.4]
    assert temperatures(3) == [0.0, 0.4, 0.8]
    assert temperatures(5) == [0.0, 0.4, 0.8, 0.8, 0.8]
    assert temperatures(3, temperatures=(0.2,)) == [0.2, 0.2, 0.2]


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("gpt-4o", [0.0, 0.4, 0.8]),
        ("o3", [None, None, None]),
    ],
)
def test_what_is_sent_is_recorded_and_replayed(
    harness: Harness,
    provider: Provider,
    name: str,
    recorded: list[float | None],
) -> None:
    def assert_recorded(entries: list[dict[str, Any]]) -> None:
        assert [entry["temperature"] for entry in entries] == recorded

    provider.will_answer("I do not know.")
    models = (ModelChoice.parse(f"{name}@diff", any_name=True),)
    run: RunConfig = live(provider, models=models, tries=3)
    prediction = harness.solve(run, ID)
    temperatures = []
    for request in provider.requests:
        if len(request["messages"]) == 2:
            temperatures.append(request.get("temperature"))
    assert temperatures == recorded
    attempts = harness.attempts(ID)
    assert_recorded(attempts)
    assert_recorded(prediction["all_results"])
    first_calls = [attempt["calls"][0] for attempt in attempts]
    hashes = {call["request_sha256"] for call in first_calls}
    assert len(hashes) == 1, "the temperature is no part of a request's hash"
    # A replay at other temperatures records those of the recording.
    recording = harness.file("")
    replay = but(run, replay=recording, temperatures=(1.5,))
    harness.run(replay, ID, out="replay")
    assert_recorded(harness.attempts(ID, "replay"))


def test_more_tries_are_a_difference_by_themselves(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    run = live(provider, tries=2)
    harness.run(run, ID)
    changed = but(run, tries=3)
    message = r"different settings: models\.tries was 2, is 3; go back"
    with pytest.raises(Exception, match=message):
        harness.run(changed, ID)


def test_a_run_of_a_version_without_a_setting_is_continued_at_its_default(
    harness: Harness, provider: Provider
) -> None:
    provider.will_answer("textkit/slug.py", EDIT)
    run = live(provider)
    harness.run(run, ID)
    record = harness.file("run.json")
    change_json(record, lambda value: value["deciding"].pop("tests.memory"))
    harness.run(run, ID)
    changed = but(run, memory=1)
    with pytest.raises(Exception, match=r"different settings: tests\.memory"):
        harness.run(changed, ID)
