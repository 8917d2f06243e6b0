"""What the tests of statistics share: a run of some instances, and its ``stats.json``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.reporting import statistics, write_values

Stats = Callable[..., dict[str, Any]]
FAILED: dict[str, Any] = {"status": "tests_failed", "test_outcome": False}


@pytest.fixture
def stats(tmp_path: Path) -> Stats:
    """Write a run of these instances, report on it, and return ``stats.json``."""

    def make(*instances: Any, **values: Any) -> dict[str, Any]:
        number = len(list(tmp_path.glob("*/run.json")))
        values.setdefault("described", {})
        run = write_values(tmp_path / f"r{number}", *instances, **values)
        return statistics(run)

    return make


def selecting(*names: str, **values: Any) -> dict[str, Any]:
    return {"selected": list(names), **values}


def dataset(name: str, split: str = "test") -> dict[str, Any]:
    return {"dataset": {"name": name, "split": split}}


def column(rows: Iterable[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def known_part(amount: dict[str, Any]) -> tuple[Any, bool]:
    """Return the known part of an amount, and whether that is all of it."""
    return amount["known"], amount["complete"]
