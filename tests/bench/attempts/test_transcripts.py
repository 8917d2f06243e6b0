"""Transcripts: the result first, repeated texts once."""

from __future__ import annotations

from pathlib import Path

from bench.cli.commands import run_command
from tests.support.runs import config, options, read

ID = "demo__units-1"


def test_title_attempts_and_winning_patch_come_first(tmp_path: Path, cache: Path) -> None:
    run_command(config(), options(tmp_path, cache, ID), lambda _: None)
    text = (tmp_path / f"predictions/r/{ID}.md").read_text()
    lines = text.splitlines()
    prediction = read(tmp_path, ID)
    assert lines[0].startswith(f"# {ID}: ") and len(lines[0]) > len(f"# {ID}: ")
    table = next(n for n, line in enumerate(lines) if line.startswith("| attempt | model |"))
    rows = lines[table + 2 : table + 2 + len(prediction["all_results"])]
    assert [row.split(" | ")[0] for row in rows] == [f"| {n}" for n in range(1, 7)]
    assert [row.split(" | ")[3] for row in rows][:2] == ["edit failed", "lint failed"]
    assert [row.rstrip(" |").endswith("★") for row in rows].count(True) == 1
    patch, first = text.index("## The prediction"), text.index("\n## Attempt 1: ")
    assert table < text[:patch].count("\n") and patch < first
    assert prediction["model_patch"].strip() in text[patch:first]
    assert text.count(prediction["model_patch"].strip()) == 1


def test_repeated_texts_stand_once(tmp_path: Path, cache: Path) -> None:
    run_command(config(), options(tmp_path, cache, ID), lambda _: None)
    text = (tmp_path / f"predictions/r/{ID}.md").read_text()
    said = read(tmp_path, ID, "trajectories")["attempts"]
    system, opening = (said[0]["messages"][n]["content"].strip() for n in (0, 1))
    assert text.count(system) == text.count(opening) == 1
    second = text[text.index("\n## Attempt 3: ") : text.index("\n## Attempt 4: ")]
    assert "As in attempt 1, message 1.\n" in second
    assert "As in attempt 1, message 2.\n" in second
    # A file that is shown again within another message is named as well.
    assert len(text.splitlines()) < 700, "1,163 lines in version 0.5"
