"""Runs of our six exercises against a server on loopback, and what they left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from environments.local.bubblewrap import bubblewrap_works
from exercises.exercism.reporting.records import RECORD, Record, read_records
from tests.exercises.exercism.making import SIX, main
from tests.provider import Provider

needs_bubblewrap = pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed")
# Two tests each, and one that its stub passes.
THREE = "cuckoo-clock,garden-path,tidy-receipt"


@dataclass(frozen=True)
class ExerciseRun:
    """A run ``r`` below ``out``."""

    out: Path
    cache: Path
    options: tuple[str, ...] = field(default=())

    @property
    def folder(self) -> Path:
        return self.out / "predictions" / "r"

    def words(self, provider: Provider | None, exercises: Path = SIX) -> list[str]:
        """Return the words of the command."""
        base = ["--api-base", provider.url] if provider else []
        return [
            "--models", "gpt-4o", "--exercises", str(exercises), "--run", "r",
            "--environment", "local", "--out", str(self.out), "--cache", str(self.cache),
            "--workers", "4", "--jobs", "2", *base, *self.options,
        ]  # fmt: skip

    def run(self, provider: Provider | None, *more: str, exercises: Path = SIX) -> int:
        """Run the command in this process and return its exit code."""
        return main(["run", *self.words(provider, exercises), *more])

    def records(self) -> Mapping[str, Record]:
        """Return the records by edit format."""
        return {record["edit_format"]: record for record in read_records(self.folder / RECORD)}

    def results(self) -> dict[str, Any]:
        """Return the results by path, without what depends on the clock."""
        return {
            str(path.relative_to(self.folder)): timeless(json.loads(path.read_text()))
            for path in sorted((self.folder / "results").rglob("*.json"))
        }

    def one(self, edit_format: str, name: str) -> dict[str, Any]:
        return dict(self.results()[f"results/gpt-4o.{edit_format}.1/python/{name}.json"])


def timeless(value: Any) -> Any:
    """Return a value of a result file without seconds."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in ("duration", "seconds")}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def requests(provider: Provider) -> list[str]:
    """Return all requests as they were sent, sorted: workers send them in any order."""
    return sorted(json.dumps(request, sort_keys=True) for request in provider.requests)
