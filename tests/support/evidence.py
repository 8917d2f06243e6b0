"""Runs of the demo that choose by evidence: their recording, provider and configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.config import RunConfig, SelectionRule
from demo.setup import DEMO_DATASET
from environments.base import EnvironmentKind
from reports.verify import verify_command
from runs.modelsource import read_recording, recorded_calls
from runs.records import Attempt
from tests.support.provider import Answer, Provider
from tests.support.runs import config

RECORDED = DEMO_DATASET / "evidence"


NAME = "demo__textkit-1"
OTHER = "demo__bank-2"


MODELS = ("gpt-4o", "gpt-4o-mini")


TEMPERATURES = (0.0, 0.25)


LOCAL = {"environment": EnvironmentKind.LOCAL, "tries": 2, "all_attempts": True}


def by_evidence(**changes: Any) -> RunConfig:
    return config(
        **{
            "replay": RECORDED,
            "select": SelectionRule.EVIDENCE,
            "rounds": 0,
            **LOCAL,
            **changes,
        }
    )


class ScriptProvider(Provider):
    """Answers as the recording of the demo does, by what is asked alone: order changes nothing."""

    def __init__(self, scripts: dict[str, str] | None = None) -> None:
        super().__init__()
        self.recorded = read_recording(RECORDED / f"{NAME}.json")
        self.scripts = scripts or {}

    def answer(self, request: dict[str, Any]) -> Answer:
        model = MODELS.index(request["model"])
        said = request["messages"][-1]["content"]
        if "tells whether the issue is there" in said:
            place = (
                1
                if "These files" in said
                else 2
                if "proposes this change" in said
                else 0
            )
            # The order in which a writer is asked: docs/selection.md.
            nth = ((0, 2, 1), (1, 0, 2))[model][place]
            return self._answer(self.recorded[-model], nth, hang=0.02)
        if "Find a behaviour" in said:
            return Answer("NO EVIDENCE")
        try_ = TEMPERATURES.index(request["temperature"])
        step = sum(m["role"] == "assistant" for m in request["messages"])
        return self._answer(self.recorded[try_ * 2 + model + 1], step, hang=0.02)

    def _answer(
        self,
        attempt: Attempt,
        nth: int,
        hang: float,
    ) -> Answer:
        replies = [call.content for call in recorded_calls(attempt)]
        return Answer(replies[nth] if nth < len(replies) else "That is all.", hang=hang)


def verified(out: Path, cache: Path) -> list[str]:
    said: list[str] = []
    verify_command([out / "predictions/r"], said.append)
    return said


def changed(place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    raw = json.loads(place.read_text())
    change(raw)
    place.write_text(json.dumps(raw))


def recording(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    folder.mkdir()
    place = folder / f"{NAME}.json"
    place.write_bytes((RECORDED / f"{NAME}.json").read_bytes())
    changed(place, change)
    return folder
