"""Whole runs in this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import RunConfig
from tests.support.runs import but, options, read
from tests.support.start import run_command


@dataclass(frozen=True)
class Harness:
    """Runs the command on the demo; runs with another ``out`` lie in another folder."""

    folder: Path
    cache: Path

    def run(
        self,
        config: RunConfig,
        *ids: str,
        out: str = "",
        code: int = 0,
        **changes: Any,
    ) -> list[str]:
        """Run ``config``, which must end with ``code``, and return what it printed."""
        lines: list[str] = []
        folder = self.folder / out
        chosen = options(folder, self.cache, *ids, **changes)
        exit_code = run_command(config, chosen, lines.append)
        assert exit_code == code, lines
        return lines

    def solve(self, config: RunConfig, name: str, **changes: Any) -> dict[str, Any]:
        """Run one instance and return its prediction."""
        self.run(config, name, **changes)
        return self.prediction(name, changes.get("out", ""))

    def assert_replays(
        self,
        config: RunConfig,
        name: str,
        code: int = 0,
        **changes: Any,
    ) -> None:
        """Replay the run with ``changes`` of ``config``: the prediction has the same bytes."""
        recording = self.file("")
        replay = but(config, replay=recording, **changes)
        self.run(replay, name, out="replay", code=code)
        replayed = self.file(f"{name}.json", "replay")
        prediction = self.file(f"{name}.json")
        assert replayed.read_bytes() == prediction.read_bytes()

    def file(self, name: str, out: str = "") -> Path:
        """Return the path of a file of the run."""
        return self.folder / out / "predictions/r" / name

    @property
    def description(self) -> dict[str, Any]:
        return read(self.folder, "run")

    def prediction(self, name: str, out: str = "") -> dict[str, Any]:
        return read(self.folder / out, name)

    def statuses(self, name: str) -> list[str]:
        results = self.prediction(name)["all_results"]
        return [result["status"] for result in results]

    def attempts(self, name: str, out: str = "") -> Any:
        """Return the attempts of an instance with their messages."""
        trajectory = read(self.folder / out, name, "trajectories")
        return trajectory["attempts"]


@pytest.fixture
def harness(tmp_path: Path, cache: Path) -> Harness:
    return Harness(tmp_path, cache)
