"""What the system refuses ends each command in one line: path, cause and fix."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swe_retry.cli.report import main as report
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from tests.support import TOP, run_script
from tests.support.ownworld import make_repository
from tests.support.rundata import a_run, an_instance, write_run_data

WITHOUT_VERDICTS = ("--evaluator", "none", "--set", "report.page=false")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run_data(tmp_path / "kept", a_run(an_instance("a-1")))


def state_of(folder: Path) -> dict[str, str]:
    hashes = {}
    for path in folder.rglob("*"):
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            hashes[str(path.relative_to(folder))] = content
    return hashes


def report_on(run: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["report.py", str(run), *WITHOUT_VERDICTS])
    return report()


def test_without_git_each_command_says_so(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    model = f"--models a,b --replay {TOP}/swe_retry/demo/replies --out {tmp_path}"
    common = f"{model} --environment none --set folders.cache={tmp_path}/c"
    for data in ("--dataset demo --run x", f"--repo {repo} --issue fix"):
        argv = f"{data} {common}".split()
        done = run_script(*argv, PATH=str(tmp_path))
        assert done.stderr == (
            "error: git is not in PATH; install it, or add its folder to PATH\n"
        )
        assert done.returncode == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line(
    number: int,
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    assert report_on(run, monkeypatch) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {run}/all_preds.jsonl: {os.strerror(number)}; "
        "free space there, or choose another folder, as by --out"
    ]


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap does not work here")
def test_an_archived_run_is_reported_elsewhere(run: Path, tmp_path: Path) -> None:
    before = state_of(run)
    archived = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(run), str(run)]
    argv = [*archived, sys.executable, str(TOP / "report.py"), str(run)]

    def start(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*argv, *WITHOUT_VERDICTS, *options],
            capture_output=True,
            text=True,
            check=False,
        )

    refused = start()
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert str(run) in refused.stderr
    assert "--out" in refused.stderr
    for _ in range(2):
        done = start("--out", str(tmp_path / "mine"))
        assert done.returncode == 0, done.stderr
        reported = tmp_path / "mine/predictions" / run.name
        assert (reported / "stats.json").is_file()
        assert not (reported / "stats.json").is_symlink()
        assert (reported / "all_preds.jsonl").read_text().count("\n") == 1
    assert state_of(run) == before


def test_another_run_is_not_replaced_by_links(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = write_run_data(tmp_path / "mine", a_run(an_instance("a-1")))
    before = state_of(other)
    argv = ["report.py", str(run), "--out", str(tmp_path / "mine"), *WITHOUT_VERDICTS]
    monkeypatch.setattr(sys, "argv", argv)
    assert report() == 2
    assert "is another run; give another folder" in capsys.readouterr().err
    assert state_of(other) == before


def test_a_destroyed_ledger_is_an_exit_code(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert report_on(run, monkeypatch) == 0
    (run / "ledger.jsonl").write_bytes(os.urandom(100) + b"\n")
    assert report_on(run, monkeypatch) == 1
