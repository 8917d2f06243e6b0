"""The settings of a report: their sources, and what the record of a run gives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swe_retry.cli.report import main

GB = 10**9
ListSettings = Callable[..., dict[str, str]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "predictions/r"
    folder.mkdir(parents=True)
    (tmp_path / "cache").mkdir()
    return folder


def write_record(run: Path, content: dict[str, Any]) -> None:
    (run / "run.json").write_text(json.dumps(content))


@pytest.fixture
def list_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> ListSettings:
    """Returns the settings of a command line as ``report.py`` prints them."""

    def call(*arguments: object) -> dict[str, str]:
        argv = ["report.py", *map(str, arguments), "--settings"]
        monkeypatch.setattr(sys, "argv", argv)
        assert main() == 0
        values = {}
        for line in capsys.readouterr().out.splitlines():
            cells = line.split("  ", 2)
            values[cells[0]] = cells[1]
        return values

    return call


def test_the_record_stands_between_files_and_environment(
    run: Path,
    tmp_path: Path,
    list_settings: ListSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = str(tmp_path / "cache")
    folders = {
        "cache": cache,
        "repos": str(tmp_path / "gone"),
        "out": "/x",
    }
    images = {"disk": 5 * GB, "mirrors": ["a/=b/"]}
    settings = {"folders": folders, "images": images}
    write_record(run, {"settings": settings})
    file = tmp_path / "file.yaml"
    file.write_text("images: {disk: 6GB}\nevaluation: {timeout: 7, workers: 3}\n")
    monkeypatch.setenv("RETRY_IMAGES__DISK", "4GB")
    monkeypatch.setenv("RETRY_EVALUATION__SPLIT", "dev")
    monkeypatch.setenv("RETRY_CALLS__TIMEOUT", "of harness.py")
    recorded = {
        "images.disk": str(5 * GB),
        "images.mirrors": "a/=b/",
        "folders.cache": cache,
        # A folder that is not there is not looked for.
        "folders.repos": "-",
        "evaluation.split": "dev",
    }
    values = list_settings(run)
    assert recorded.items() <= values.items()
    # Imported runs lie beside this one.
    assert values["folders.out"] != "/x"
    configured = {
        "images.disk": str(6 * GB),
        "evaluation.timeout": "7",
        "evaluation.workers": "1",
    }
    values = list_settings(run, "--config", file, "-w", "1")
    assert configured.items() <= values.items()
    assert list_settings()["images.disk"] == str(4 * GB)


def test_a_run_of_version_0_12_records_options(
    run: Path, tmp_path: Path, list_settings: ListSettings
) -> None:
    cache = str(tmp_path / "cache")
    options = {
        "cache": cache,
        "image-disk": "60GB",
        "image-prefix": ["a/=b/"],
    }
    write_record(run, {"options": options})
    recorded = {
        "folders.cache": cache,
        "images.disk": str(60 * GB),
        "images.mirrors": "a/=b/",
    }
    assert recorded.items() <= list_settings(run).items()


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"settings": 5}', '{"starts": 5}'],
)
def test_a_damaged_record_gives_no_settings(
    run: Path, list_settings: ListSettings, content: str
) -> None:
    (run / "run.json").write_text(content)
    assert list_settings(run) == list_settings()


def test_what_is_no_run_is_a_word(
    run: Path,
    tmp_path: Path,
    list_settings: ListSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page").mkdir()
    for arguments, setting in (
        (["page"], "report.page"),
        ([run, "PAGE"], "report.page"),
        (["bare", "mirrors"], "folders.repos"),
        (["gold", "shuffle"], "instances.shuffle"),
        (["select", run, "shuffle"], "instances.shuffle"),
    ):
        assert list(list_settings(*arguments)) == [setting]


def test_a_wrong_value_of_the_record_names_the_file(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = {"images": {"disk": "much"}}
    write_record(run, {"settings": settings})
    monkeypatch.setattr(sys, "argv", ["report.py", str(run)])
    assert main() == 2
    problem = f"error: {run / 'run.json'}: images.disk much: "
    assert capsys.readouterr().err.startswith(problem)
