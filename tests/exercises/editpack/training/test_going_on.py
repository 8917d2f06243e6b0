"""A training that is killed or interrupted goes on to what one that was not comes to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from tests.exercises.editpack.training.making import SHORT, record

pytest.importorskip("torch", reason="torch is not installed (requirements-train.txt)")
pytest.importorskip("trl", reason="trl is not installed (requirements-train.txt)")

TOP = Path(__file__).resolve().parents[4]
Train = Callable[..., int]
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


def start(words: Sequence[object]) -> subprocess.Popen[str]:
    """Start a training in a process of its own, on one thread."""
    return subprocess.Popen(
        [sys.executable, "-m", "exercises.editpack", "train", *map(str, words)],
        cwd=TOP, env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def wait_for(seen: Callable[[], Iterable[Path]], process: subprocess.Popen[str]) -> None:
    while not any(True for _ in seen()):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.005)


@pytest.mark.parametrize("seen", ["checkpoint-3/complete.json", "checkpoint-6/optimizer.pt"])
def test_a_killed_training_goes_on_to_the_same_loss(
    train: Train,
    tmp_path: Path,
    given: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    seen: str,
) -> None:
    data, model = given
    common = (data, "--model", model, *SHORT, "--epochs", 4)
    assert train(*common, "--out", tmp_path / "whole") == 0
    killed = tmp_path / "killed"
    process = start([*common, "--out", killed])
    wait_for(lambda: (killed / "checkpoints").glob(seen), process)
    process.kill()
    process.communicate()
    assert not (killed / "train.json").exists()
    assert train(*common, "--out", killed) == 2
    assert train(*common, "--out", killed, "--resume", "--seed", 1) == 2
    capsys.readouterr()
    assert train(*common, "--out", killed, "--resume") == 0
    assert "steps; goes on after step 3\n" in capsys.readouterr().out
    one, other = record(tmp_path / "whole"), record(killed)
    for key in ("loss", "held_out_loss"):
        assert [p["step"] for p in one[key]] == [p["step"] for p in other[key]]
        for a, b in zip(one[key], other[key], strict=True):
            assert a["loss"] == pytest.approx(b["loss"], abs=1e-4)
    assert one["tokens_seen"] == other["tokens_seen"] == 4 * 16 * 80


def test_an_interrupt_leaves_a_checkpoint_from_which_it_goes_on(
    train: Train, tmp_path: Path, given: tuple[Path, Path]
) -> None:
    data, model = given
    common = (data, "--model", model, *SHORT, "--epochs", 40)
    stopped = tmp_path / "stopped"
    process = start([*common, "--out", stopped])
    wait_for(lambda: (stopped / "checkpoints").glob("checkpoint-3/complete.json"), process)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 130, said
    assert "--resume goes on" in said
    assert "Traceback" not in said
    assert not (stopped / "train.json").exists()
    last = max(int(p.parent.name[11:]) for p in stopped.glob("checkpoints/*/complete.json"))
    assert train(*common, "--out", stopped, "--resume") == 0
    assert train(*common, "--out", tmp_path / "whole") == 0
    one, other = record(tmp_path / "whole"), record(stopped)
    assert last < one["steps"] == other["steps"]
    for key in ("loss", "held_out_loss"):
        assert [p["step"] for p in one[key]] == [p["step"] for p in other[key]]
    assert one["loss"][-1]["loss"] == pytest.approx(other["loss"][-1]["loss"], abs=1e-4)
