"""Compare the files of an instance with what follows from its trajectory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.formats import get_format
from agent.prompts import prompts_hash
from bench.attempts.records import AttemptRecord
from bench.attempts.saving import prediction
from bench.attempts.transcript import transcript
from bench.repos.patches import submittable_patch
from core.money import as_number
from llm.registry import traits
from llm.settings import ModelSettings
from reports.data.jsonvalues import mapping, objects
from reports.verification.described import wrong_origin
from reports.verification.difference import (
    Difference,
    Spot,
    all_differences,
    first_difference,
    first_line,
)
from reports.verification.layout import wrong_layout
from reports.verification.recorded import chosen_again, solved_of
from reports.verification.requests import wrong_request
from runs.storage.store import RunStore

Trajectory = Mapping[str, Any]


@dataclass(frozen=True)
class InstanceCheck:
    """Checks the files of the instances of one run; ``described`` is its ``run.json``."""

    store: RunStore
    described: Mapping[str, Any]

    @property
    def _ours(self) -> bool:
        """Whether this harness wrote the run, so every prediction has a trajectory."""
        return "versions" in self.described

    def differences(self, path: Path) -> Iterator[Difference]:
        """Yield what differs for the instance whose prediction is at ``path``."""
        written = self.store.read_as_written(path)
        name = written["instance_id"]
        place = self.store.trajectory(name)
        trajectory = self.store.read_trajectory(name)
        if not trajectory:
            if self._ours:
                yield Difference(place, "is missing")
            return
        if not self._ours and ("winner" not in trajectory or "versions" not in trajectory):
            if spot := _wrong_results(written, trajectory):
                yield Difference.at(path, spot)
            return
        if wrong := wrong_layout(trajectory):
            yield replace(Difference.at(place, wrong[0]), unreadable=True)
            return
        records = [AttemptRecord.of_trajectory(raw) for raw in trajectory["attempts"]]
        origin = list(wrong_origin(self.described, trajectory)) if self._ours else []
        yield from (Difference.at(place, spot) for spot in origin)
        config = {} if origin else trajectory["config"]
        for number, (raw, record) in enumerate(zip(trajectory["attempts"], records, strict=True)):
            for spot in (*_wrong(raw, record), *self._of_model(config, raw, record)):
                under, words = ("attempts", number), f"attempt {record.attempt}: "
                yield Difference.at(place, spot, under, words)
        yield from self._files(path, written, trajectory, records)

    def _of_model(
        self, config: Mapping[str, Any], raw: Mapping[str, Any], record: AttemptRecord
    ) -> Iterator[Spot]:
        """Yield where an attempt is not that of the model whose turn it was."""
        models = objects(config.get("models"))
        if not models:
            return
        model = models[(record.attempt - 1) % len(models)]
        expected: dict[str, Any] = {"try": (record.attempt - 1) // len(models) + 1}
        if config.get("replay") is None:
            expected |= {"model": model["name"], "edit_format": model["edit_format"]}
            if raw["traits"] is not None:
                known = traits(ModelSettings(**model["settings"]))
                expected["traits"] = known.as_json()
        yield from all_differences({key: raw.get(key) for key in expected}, expected)
        same = mapping(self.described.get("deciding")).get("prompts_sha256") == prompts_hash()
        if same and record.messages and raw["traits"]:
            yield from _wrong_rules(raw, record)

    def _files(
        self,
        path: Path,
        written: Mapping[str, Any],
        trajectory: Trajectory,
        records: Sequence[AttemptRecord],
    ) -> Iterator[Difference]:
        name = written["instance_id"]
        yield from self._choice(self.store.trajectory(name), trajectory, records)
        solved = solved_of(name, trajectory, records)
        expected = prediction(solved, str(written.get("model_name_or_path")))
        if spot := first_difference(written, expected):
            yield Difference.at(path, spot)
        yield from self._transcript(self.store.folder / f"{name}.md", transcript(solved))

    def _choice(
        self, place: Path, trajectory: Trajectory, records: Sequence[AttemptRecord]
    ) -> Iterator[Difference]:
        again = chosen_again(
            records,
            trajectory["winner"],
            require_tests=bool(trajectory["config"]["require_tests"]),
        )
        expected = {
            "winner": again.winner.attempt if again.winner else None,
            "status": again.status.value,
            "reason": again.reason,
        }
        if spot := first_difference({key: trajectory[key] for key in expected}, expected):
            yield Difference.at(place, spot, (), "the choice from the recorded outcomes: ")

    def _transcript(self, place: Path, expected: str) -> Iterator[Difference]:
        if not place.is_file():
            yield Difference(place, "is missing")
            return
        # Transcripts are written with lone surrogates as escapes.
        text = expected.encode("utf-8", "backslashreplace").decode()
        if found := first_line(place.read_bytes().decode("utf-8", "replace"), text):
            number, words = found
            yield Difference(place, words, number)


def _wrong(raw: Mapping[str, Any], record: AttemptRecord) -> Iterator[Spot]:
    if words := wrong_request(record):
        yield Spot(("messages",), f"do not fit the calls: {words}")
    dropped = list(submittable_patch(record.model_patch).dropped)
    expected = {"recorded": {"cost": as_number(record.cost)}, "dropped_files": dropped}
    found = {"recorded": {"cost": raw["recorded"]["cost"]}, "dropped_files": raw["dropped_files"]}
    yield from all_differences(found, expected)


def _wrong_rules(raw: Mapping[str, Any], record: AttemptRecord) -> Iterator[Spot]:
    """Yield that the rules of the edit format are not where they should be in the messages."""
    rules = get_format(record.edit_format).instructions("```")
    first, *others = (_one_fence(message.content) for message in record.messages)
    found = (_one_fence(rules) in first, any(_one_fence(rules) in text for text in others))
    reminder = raw["traits"]["reminder"]
    places = {"system": (True, False), "user": (False, True), "both": (True, True)}
    if reminder in places and found != places[reminder]:
        words = f"are not those of the format {record.edit_format} with the reminder {reminder}"
        yield Spot(("messages",), words)


def _one_fence(text: str) -> str:
    return re.sub("`{3,}", "```", text)


def _wrong_results(written: Mapping[str, Any], trajectory: Trajectory) -> Spot | None:
    """Return where a prediction differs from its trajectory, of which less is known."""
    recorded = {
        raw.get("attempt"): mapping(raw.get("recorded"))
        for raw in objects(trajectory.get("attempts"))
    }
    if "winner" in trajectory:
        winner = recorded.get(trajectory["winner"], {"model_patch": ""})
        patch = {"model_patch": winner.get("model_patch")}
        if spot := first_difference({"model_patch": written.get("model_patch")}, patch):
            return spot
    for number, result in enumerate(objects(written.get("all_results"))):
        said = recorded.get(result.get("attempt"), {})
        found = {key: result[key] for key in said if key in result}
        expected = {key: said[key] for key in found}
        if spot := first_difference(found, expected, ("all_results", number)):
            return spot
    return None
