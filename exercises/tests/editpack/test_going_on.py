"""A training that is killed or interrupted goes on to what one that was not comes to."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.support.editpack import SHORT, recipe, record
from tests.support import TOP, WITH_EXERCISES

pytest.importorskip(
    "torch", reason="torch is not installed (exercises/requirements-train.txt)"
)
pytest.importorskip(
    "trl", reason="trl is not installed (exercises/requirements-train.txt)"
)

Train = Callable[..., int]
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


def start(arguments: Sequence[object], *program: object) -> subprocess.Popen[str]:
    """Start a training in a process of its own, or by a program, on one thread."""
    begin = program or (sys.executable,)
    argv = (*begin, "-m", "swe_retry_exercises.editpack", "train", *arguments)
    return subprocess.Popen(
        list(map(str, argv)),
        cwd=TOP,
        env={**os.environ, **WITH_EXERCISES, "OMP_NUM_THREADS": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def wait_for_checkpoint(
    tuned: Path,
    step: int,
    process: subprocess.Popen[str],
) -> None:
    state = tuned / f"checkpoints/checkpoint-{step}/trainer_state.json"
    while not state.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.005)


def steps(losses: Sequence[dict[str, Any]]) -> list[int]:
    return [loss["step"] for loss in losses]


def values(losses: Sequence[dict[str, Any]]) -> list[float]:
    return [loss["loss"] for loss in losses]


def remove_incomplete(tuned: Path) -> None:
    """Remove the checkpoint that a killed training was writing."""
    for path in tuned.glob("checkpoints/checkpoint-*"):
        if not (path / "trainer_state.json").exists():
            shutil.rmtree(path)


def last_step(tuned: Path) -> int:
    """Return the step of the last checkpoint."""
    paths = tuned.glob("checkpoints/checkpoint-*")
    return max(int(path.name.removeprefix("checkpoint-")) for path in paths)


def test_a_killed_training_goes_on_to_the_same_loss(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, model = training_input
    common = (data, "--model", model, *SHORT, *recipe(epochs=4))
    assert train(*common, "--out", tmp_path / "whole") == 0
    killed = tmp_path / "killed"
    process = start([*common, "--out", killed])
    wait_for_checkpoint(killed, 3, process)
    process.kill()
    process.communicate()
    assert not (killed / "train.json").exists()
    remove_incomplete(killed)
    last = last_step(killed)
    assert train(*common, "--out", killed) == 2
    assert "holds a training; give --resume" in capsys.readouterr().err
    assert train(*common, "--out", killed, "--resume") == 0
    assert f"\ngoes on from checkpoint-{last}\n" in capsys.readouterr().out
    undisturbed = record(tmp_path / "whole")
    other = record(killed)
    for key in ("loss", "held_out_loss"):
        expected = undisturbed[key]
        losses = other[key]
        assert steps(losses) == steps(expected)
        assert values(losses) == pytest.approx(values(expected), abs=1e-4)
    assert undisturbed["tokens_seen"] == 4 * 16 * 80
    assert other["tokens_seen"] == 4 * 16 * 80


def test_an_interrupt_leaves_a_checkpoint_from_which_it_goes_on(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
) -> None:
    data, model = training_input
    common = (data, "--model", model, *SHORT, *recipe(epochs=40))
    stopped = tmp_path / "stopped"
    process = start([*common, "--out", stopped])
    wait_for_checkpoint(stopped, 3, process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130, output
    assert "--resume goes on" in output
    assert "Traceback" not in output
    assert not (stopped / "train.json").exists()
    last = last_step(stopped)
    assert train(*common, "--out", stopped, "--resume") == 0
    assert train(*common, "--out", tmp_path / "whole") == 0
    undisturbed = record(tmp_path / "whole")
    other = record(stopped)
    assert last < undisturbed["steps"]
    assert other["steps"] == undisturbed["steps"]
    for key in ("loss", "held_out_loss"):
        assert steps(other[key]) == steps(undisturbed[key])
    *_, expected_loss = values(undisturbed["loss"])
    *_, last_loss = values(other["loss"])
    assert last_loss == pytest.approx(expected_loss, abs=1e-4)


def test_two_processes_train_as_one_does_and_stop_at_one_step(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
) -> None:
    data, model = training_input
    torchrun = (
        Path(sys.executable).with_name("torchrun"),
        "--standalone",
        "--nproc-per-node",
        2,
    )
    single_out = tmp_path / "one"
    double_out = tmp_path / "two"
    # 16 windows are two for each process in each of four steps.
    common = (data, "--model", model, *SHORT, *recipe(step_windows=4, epochs=40))
    assert train(*common, *recipe(batch=4), "--out", single_out) == 0
    arguments = (*common, *recipe(batch=2), "--out", double_out)
    process = start(arguments, *torchrun)
    wait_for_checkpoint(double_out, 4, process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert not (double_out / "train.json").exists(), output
    last = last_step(double_out)
    process = start((*arguments, "--resume"), *torchrun)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert f"goes on from checkpoint-{last}" in output
    single = record(single_out)
    double = record(double_out)
    assert double["options"]["devices"] == 2
    assert last < single["steps"]
    assert double["steps"] == single["steps"]
    expected = single["held_out_loss"]
    losses = double["held_out_loss"]
    assert steps(losses) == steps(expected)
    assert values(losses) == pytest.approx(values(expected), abs=1e-2)
