"""``report.py`` in this process, and one replay of the demo for all tests of this folder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swe_retry.cli.report import SUBCOMMANDS, main
from tests.support import read_json
from tests.support.evaluated import replay_demo

Result = tuple[int, str, str]
"""The exit code, the output and the error output of a command."""

Record = tuple[Any, Any]
"""The prediction and the trajectory of an instance."""


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of ours with six attempts on each instance; tests only read it."""
    return replay_demo(tmp_path_factory.mktemp("ours"), cache)


@dataclass(frozen=True)
class Report:
    """Runs ``report.py`` in this process; runs of others are imported below ``out``."""

    out: Path
    cache: Path
    run: Callable[[list[str]], Result]

    def __call__(self, *arguments: object) -> Result:
        """Return exit code, output and error output."""
        argv = ["report.py", *map(str, arguments)]
        if arguments[0] not in SUBCOMMANDS:
            argv += ["--set", f"folders.cache={self.cache}"]
            argv += ["--set", f"folders.out={self.out}"]
        return self.run(argv)

    def without_page(
        self,
        path: Path,
        *arguments: object,
    ) -> Result:
        """Report on the verdicts that are there."""
        options = ("--evaluator", "none", "--set", "report.page=false")
        return self(path, *options, *arguments)

    def import_run(self, path: Path) -> Path:
        """Import a run of others, and return the folder of it in our layout."""
        code, out, error = self.without_page(path)
        assert code == 0, error
        name = path.name.partition(".")[0]
        folder = self.out / "predictions" / name
        assert out.startswith("imported ")
        assert out.splitlines()[0].endswith(f": {folder}")
        return folder

    def records(self, path: Path) -> dict[str, Record]:
        """Import a run, and return prediction and trajectory of each instance, by id.

        The trajectory is None where there is none.
        """
        folder = self.import_run(path)
        records = {}
        for name in read_json(folder / "run.json")["selected"]:
            trajectory = None
            path = folder / f"trajectories/{name}.json"
            if path.exists():
                trajectory = read_json(path)
            records[name] = (read_json(folder / f"{name}.json"), trajectory)
        return records

    def record(self, path: Path) -> Record:
        """Import a run of one instance, and return its prediction and trajectory."""
        (record,) = self.records(path).values()
        return record

    def convert(
        self,
        path: Path,
        layout: str,
        folder: Path,
    ) -> dict[str, Any]:
        """Convert a run into ``folder``, and return its files, by their names."""
        code, out, error = self("convert", path, layout, folder)
        assert code == 0, error
        assert f" as {layout}: {folder}" in out
        contents = {}
        for file in sorted(folder.rglob("*.json")):
            name = str(file.relative_to(folder))
            contents[name] = read_json(file)
        return contents

    def refusal(self, path: Path) -> str:
        """Return the one line with which both commands refuse a run."""
        code, out, line = self.without_page(path)
        assert code == 2
        assert out == ""
        assert line.startswith("error: ")
        assert line.count("\n") == 1
        assert str(path) in line
        folder = self.out.parent / "refused"
        refused = self("convert", path, "atif", folder)
        assert refused == (2, "", line)
        shutil.rmtree(folder, ignore_errors=True)  # what was written before
        return line


@pytest.fixture
def report(
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Report:
    def run(argv: list[str]) -> Result:
        monkeypatch.setattr(sys, "argv", argv)
        code = main()
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    out = tmp_path / "out"
    monkeypatch.setattr("swe_retry.cli.report_commands.TOP", out)
    return Report(out, cache, run)
