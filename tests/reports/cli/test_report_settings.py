"""The settings of a report: their sources, and what the record of a run gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from report import main

GB = 10**9


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "predictions/r"
    folder.mkdir(parents=True)
    (tmp_path / "cache").mkdir()
    return folder


def write_record(run: Path, content: dict[str, Any]) -> None:
    (run / "run.json").write_text(json.dumps(content))


class Listed:
    """Lists the settings of a command line as ``report.py`` prints them."""

    def __init__(
        self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._patch = patch
        self._capsys = capsys

    def __call__(self, *words: object) -> dict[str, str]:
        self._patch.setattr(sys, "argv", ["report.py", *map(str, words), "--settings"])
        assert main() == 0
        values = {}
        for line in self._capsys.readouterr().out.splitlines():
            name, value, _ = line.split("  ", 2)
            values[name] = value
        return values


@pytest.fixture
def listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Listed:
    return Listed(monkeypatch, capsys)


def test_the_record_stands_between_files_and_environment(
    run: Path,
    tmp_path: Path,
    listed: Listed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = tmp_path / "cache"
    folders = {"cache": str(cache), "repos": str(tmp_path / "gone"), "out": "/x"}
    images = {"disk": 5 * GB, "mirrors": ["a/=b/"]}
    write_record(run, {"settings": {"folders": folders, "images": images}})
    file = tmp_path / "file.yaml"
    file.write_text("images: {disk: 6GB}\nevaluation: {timeout: 7, workers: 3}\n")
    monkeypatch.setenv("RETRY_IMAGES__DISK", "4GB")
    monkeypatch.setenv("RETRY_EVALUATION__SPLIT", "dev")
    monkeypatch.setenv("RETRY_CALLS__TIMEOUT", "of harness.py")
    values = listed(run)
    assert values["images.disk"] == str(5 * GB)
    assert values["images.mirrors"] == "a/=b/"
    assert values["folders.cache"] == str(cache)
    # A folder that is not there is not looked for, and imported runs lie beside this one.
    assert values["folders.repos"] == "-"
    assert values["folders.out"] != "/x"
    assert values["evaluation.split"] == "dev"
    values = listed(run, "--config", file, "-w", "1")
    assert values["images.disk"] == str(6 * GB)
    assert values["evaluation.timeout"] == "7"
    assert values["evaluation.workers"] == "1"
    assert listed()["images.disk"] == str(4 * GB)


def test_a_run_of_version_0_12_records_options(
    run: Path, tmp_path: Path, listed: Listed
) -> None:
    cache = str(tmp_path / "cache")
    options = {"cache": cache, "image-disk": "60GB", "image-prefix": ["a/=b/"]}
    write_record(run, {"options": options})
    values = listed(run)
    assert values["folders.cache"] == cache
    assert values["images.disk"] == str(60 * GB)
    assert values["images.mirrors"] == "a/=b/"


@pytest.mark.parametrize("content", ["{", "[]", '{"settings": 5}', '{"starts": 5}'])
def test_a_damaged_record_gives_no_settings(
    run: Path, listed: Listed, content: str
) -> None:
    (run / "run.json").write_text(content)
    assert listed(run) == listed()


def test_what_is_no_run_is_a_word(
    run: Path,
    tmp_path: Path,
    listed: Listed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page").mkdir()
    assert list(listed("page")) == ["report.page"]
    assert list(listed(run, "PAGE")) == ["report.page"]
    assert list(listed("bare", "mirrors")) == ["folders.repos"]
    assert list(listed("gold", "shuffle")) == ["instances.shuffle"]
    assert list(listed("select", run, "shuffle")) == ["instances.shuffle"]


def test_a_wrong_value_of_the_record_names_the_file(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_record(run, {"settings": {"images": {"disk": "much"}}})
    monkeypatch.setattr(sys, "argv", ["report.py", str(run)])
    assert main() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {run / 'run.json'}: images.disk much: ")
