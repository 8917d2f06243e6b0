"""The rules of the structure, as far as they hold: which room may import which, and their sizes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
ROOMS = ("core", "llm", "agent", "environments", "runs", "bench", "reports")
MOST_MODULES = 12
# Imports against the order that are left, by the rooms of importer and imported. Only to shrink.
LEFT = {
    ("bench", "demo"): 3,
    ("llm", "agent"): 1,
    ("reports", "demo"): 4,
    ("runs", "bench"): 3,
}


def upward_imports(top: Path) -> Iterator[tuple[str, str]]:
    """Yield the rooms of importer and imported for each import against the order."""
    for number, room in enumerate(ROOMS):
        higher = {*ROOMS[number + 1 :], "demo", "benchmarks", "tests"}
        for path in sorted((top / room).rglob("*.py")):
            for name in imported(path):
                if name in higher:
                    yield room, name


def imported(path: Path) -> Iterator[str]:
    """Yield the first name of each module that a file imports, once per statement."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def crowded(top: Path) -> dict[str, int]:
    """Return the folders of the rooms that hold more modules than they may."""
    counts = Counter(
        path.parent.relative_to(top).as_posix()
        for room in ROOMS
        for path in (top / room).rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    )
    return {folder: count for folder, count in counts.items() if count > MOST_MODULES}


def test_rooms_import_downwards() -> None:
    assert Counter(upward_imports(TOP)) == LEFT


def test_no_folder_is_crowded() -> None:
    assert crowded(TOP) == {}


@pytest.mark.parametrize("line", ["import reports.rows", "from demo.setup import x", "import llm"])
def test_an_import_against_the_order_is_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core/new.py").write_text(f"def f():\n    {line}\n")
    assert len([*upward_imports(tmp_path)]) == 1


def test_a_crowded_folder_is_seen(tmp_path: Path) -> None:
    (tmp_path / "runs/calls").mkdir(parents=True)
    for number in range(MOST_MODULES + 1):
        (tmp_path / f"runs/calls/m{number}.py").touch()
    assert crowded(tmp_path) == {"runs/calls": MOST_MODULES + 1}
