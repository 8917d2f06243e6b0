"""A demo run with verdicts, and functions that package it by the command."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from swe_retry.cli.report import main
from swe_retry.demo.setup import build_mirrors
from tests.support.evaluated import (
    RESOLVED,
    Build,
    change_json,
    entry_of,
    replay_demo,
    split_of_dataset,
    write_meta,
    write_verdicts,
)

Package = Callable[..., tuple[int, list[str]]]
Faults = Callable[..., list[str]]
Refusal = Callable[..., str]


def readme_of(folder: Path) -> str:
    """Return the README of a package's entry."""
    return (entry_of(folder) / "README.md").read_text()


def set_folders(run: Path, **folders: Path) -> None:
    """Set the folders that the run's record names."""
    texts = {name: str(folder) for name, folder in folders.items()}
    settings = {"folders": texts}
    change_json(run / "run.json", lambda data: data.update(settings=settings))


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A replayed run of the demo with verdicts."""
    folder = replay_demo(tmp_path_factory.mktemp("played"), cache)
    write_verdicts(folder, RESOLVED)
    set_folders(folder, repos=build_mirrors(cache / "demo-mirrors"))
    return folder


@pytest.fixture
def run(demo_run: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    shutil.copytree(demo_run.parent.parent, tmp_path / "out")
    return tmp_path / "out/predictions/r"


@pytest.fixture
def package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Package:
    """Run the command in this process; return its code and the lines that it prints."""

    def call(*arguments: object) -> tuple[int, list[str]]:
        argv = ["report.py", "package", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", argv)
        capsys.readouterr()
        code = main()
        printed = capsys.readouterr()
        lines = printed.out.splitlines() + printed.err.splitlines()
        return code, lines

    return call


@pytest.fixture
def build(
    package: Package,
    run: Path,
    tmp_path: Path,
) -> Build:
    """Return a function that packages the run as a split that has these ``rows``."""

    def make(
        split: str = "lite",
        target: str = "package",
        partial: bool = False,
        dataset: object = "",
        rows: object = "demo",
        **meta: Any,
    ) -> tuple[int, Path, list[str]]:
        path = write_meta(tmp_path / "meta", meta)
        arguments = ["--split", split, "--meta", path, "--dataset", dataset]
        if partial:
            arguments.append("--allow-partial")
        with split_of_dataset(split, rows):
            code, lines = package(run, tmp_path / target, *arguments)
        return code, tmp_path / target, lines

    return make


@pytest.fixture
def refusal(build: Build) -> Refusal:
    """Return a function that returns the one line with which a run is refused."""

    def refuse(**changes: Any) -> str:
        code, _, lines = build(**changes)
        assert code == 2
        (line,) = [line for line in lines if not line.startswith("note: ")]
        return line.removeprefix("error: ")

    return refuse


@pytest.fixture
def faults(build: Build) -> Faults:
    """Return a function that returns the faults of the package, a line each."""

    def find(**changes: Any) -> list[str]:
        code, _, lines = build(**changes)
        assert code in (0, 1), lines
        heads = ("resolved ", "artifacts ", "entry ", "note: ", "validated ")
        problems = [line for line in lines if not line.startswith(heads)]
        assert lines[-1].startswith(f"validated      {len(problems)} faults, against ")
        assert code == bool(problems)
        return problems

    return find


@pytest.fixture
def rows_file(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a dataset."""

    def write(rows: Sequence[Mapping[str, Any]]) -> Path:
        path = tmp_path / "out/rows.jsonl"
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) + "\n")
        return path

    return write
