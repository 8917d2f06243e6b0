"""Runs of the demo that choose by evidence: their recording, provider and configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from swe_retry.attempts.config import RunConfig, SelectionRule
from swe_retry.demo.setup import DEMO_DATASET
from swe_retry.environments.base import EnvironmentKind
from swe_retry.record.records import Attempt
from swe_retry.report.verify import verify_command
from swe_retry.runner.modelsource import read_recording, recorded_calls
from tests.support import change_json
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
        prompt = request["messages"][-1]["content"]
        if "tells whether the issue is there" in prompt:
            # The order in which a writer is asked: docs/selection.md.
            plain, with_change, with_files = ((0, 1, 2), (1, 2, 0))[model]
            step = plain
            if "These files" in prompt:
                step = with_files
            elif "proposes this change" in prompt:
                step = with_change
            return self._answer(self.recorded[-model], step)
        if "Find a behaviour" in prompt:
            return Answer("NO EVIDENCE")
        try_ = TEMPERATURES.index(request["temperature"])
        step = sum(m["role"] == "assistant" for m in request["messages"])
        return self._answer(self.recorded[try_ * 2 + model + 1], step)

    def _answer(self, attempt: Attempt, step: int) -> Answer:
        replies = [call.content for call in recorded_calls(attempt)]
        replies += ["That is all."] * (step + 1)
        return Answer(replies[step], hang=0.02)


def verified(out: Path, cache: Path) -> list[str]:
    lines: list[str] = []
    verify_command([out / "predictions/r"], lines.append)
    return lines


changed = change_json


def recording(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    folder.mkdir()
    path = folder / f"{NAME}.json"
    path.write_bytes((RECORDED / f"{NAME}.json").read_bytes())
    changed(path, change)
    return folder
