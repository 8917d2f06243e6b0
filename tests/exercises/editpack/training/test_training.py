"""A model of 0.4 million parameters is trained; without torch these tests are skipped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from exercises.editpack.rows import CONTENT, NEW, Row
from tests.exercises.editpack.training.making import edits, write_model, write_rows

pytest.importorskip("torch", reason="torch is not installed (requirements-train.txt)")
pytest.importorskip("trl", reason="trl is not installed (requirements-train.txt)")

TOP = Path(__file__).resolve().parents[4]
SHORT = ("--window", 128, "--batch", 4, "--step-windows", 8, "--lr", "3e-3")
"""Of 18 windows: three steps an epoch, the last with two windows."""

Train = Callable[..., int]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return edits(32)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> tuple[Path, Path]:
    """Return a file of rows and a folder with a model that is not trained."""
    folder = tmp_path_factory.mktemp("given")
    model = write_model(folder / "model", [row[CONTENT] for row in rows])
    return write_rows(folder / "rows.jsonl", rows), model


def record(tuned: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tuned / "train.json").read_text())
    return found


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_two_steps(train: Train, tmp_path: Path, given: tuple[Path, Path]) -> None:
    data, model = given
    before, tuned = hashes(model), tmp_path / "tuned"
    words = (data, "--model", model, "--out", tuned, *SHORT)
    assert train(*words, "--max-steps", 2) == 0
    assert hashes(model) == before
    found = record(tuned)
    assert found["data"]["sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert found["options"]["lr"] == 3e-3
    assert (found["steps"], found["tokens_seen"]) == (2, 2 * 8 * 128)
    assert [one["step"] for one in found["loss"]] == [1, 2]
    first, last = (one["loss"] for one in found["held_out_loss"])
    assert last < first
    assert found["corpus"]["windows"] == 18
    assert found["corpus"]["held_out_documents"] == 1
    card = (tuned / "README.md").read_text()
    assert "None was measured." in card
    assert "| MIT | 32 |" in card
    assert not [*tuned.glob("*.bin")]
    assert (tuned / "tokenizer.json").exists()
    weights = "model.safetensors"
    assert hashes(tuned)[weights] != before[weights]
    # A complete training is neither overwritten nor repeated.
    written = hashes(tuned)
    assert train(*words) == 2
    assert train("--out", tuned, "--resume") == 0
    assert hashes(tuned) == written


def test_an_adapter_leaves_the_model_as_it_is(
    train: Train, tmp_path: Path, given: tuple[Path, Path]
) -> None:
    data, model = given
    before, out = hashes(model), tmp_path / "adapter"
    words = (*SHORT, "--max-steps", 2, "--lora", "--contaminated-anyway")
    assert train(data, "--model", model, "--out", out, *words) == 0
    assert hashes(model) == before
    names = {path.name for path in out.iterdir() if path.is_file()}
    assert {"adapter_model.safetensors", "adapter_config.json"} <= names
    assert "model.safetensors" not in names
    assert "adapter (LoRA)" in (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--window", "1024"], "takes at most 512; give a shorter one"),
        (["--window", "500", "--held-out", "0.9"], "less than a window of 500"),
        (["--model", "{tmp}"], "no tokenizer could be loaded"),
        (["--batch", "3"], "--batch 3 x --accumulate 10 x 1 device is 30 windows a step, not 32"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(
    train: Train,
    tmp_path: Path,
    given: tuple[Path, Path],
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    data, model = given
    more = [word.format(tmp=tmp_path) for word in words]
    assert train(data, "--model", model, "--out", tmp_path / "t", *more) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert said in line


def test_weights_that_are_no_safetensors_and_code_of_a_model_are_refused(
    train: Train,
    tmp_path: Path,
    given: tuple[Path, Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    data, model = given
    pickled = tmp_path / "pickled"
    shutil.copytree(model, pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    assert train(data, "--model", pickled, "--out", tmp_path / "t", *SHORT) == 2
    assert "no model could be loaded" in capfd.readouterr().err
    own = tmp_path / "own"
    shutil.copytree(model, own)
    trace = tmp_path / "trace"
    config = json.loads((own / "config.json").read_text())
    config |= {"model_type": "other", "architectures": ["Other"]}
    config["auto_map"] = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Other"}
    (own / "config.json").write_text(json.dumps(config))
    (own / "code.py").write_text(f"open({str(trace)!r}, 'w').close()\n")
    assert train(data, "--model", own, "--out", tmp_path / "t2", *SHORT) == 2
    assert "could be loaded" in capfd.readouterr().err
    assert not trace.exists()


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


@pytest.mark.long
@pytest.mark.parametrize("seen", ["checkpoint-3/complete.json", "checkpoint-6/optimizer.pt"])
def test_a_killed_training_goes_on_to_the_same_loss(
    train: Train, tmp_path: Path, given: tuple[Path, Path], seen: str
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
    assert train(*common, "--out", killed, "--resume") == 0
    one, other = record(tmp_path / "whole"), record(killed)
    for key in ("loss", "held_out_loss"):
        assert [p["step"] for p in one[key]] == [p["step"] for p in other[key]]
        for a, b in zip(one[key], other[key], strict=True):
            assert a["loss"] == pytest.approx(b["loss"], abs=1e-4)
    assert one["tokens_seen"] == other["tokens_seen"] == 4 * 18 * 128


@pytest.mark.long
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


def exact(folder: Path, rows: Sequence[Row]) -> int:
    """Return for how many rows a model writes exactly the edited program."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = (
        kind.from_pretrained(folder) for kind in (AutoModelForCausalLM, AutoTokenizer)
    )
    found = 0
    for row in rows:
        asked = tokenizer(row[CONTENT].removesuffix(row[NEW]), return_tensors="pt")
        whole = model.generate(**asked, max_new_tokens=120, do_sample=False)
        text = tokenizer.decode(whole[0, asked["input_ids"].shape[1] :], skip_special_tokens=True)
        found += text == row[NEW]
    return found


@pytest.mark.long
def test_a_tiny_model_learns_32_edits_and_an_adapter_on_it_changes_no_file_of_it(
    train: Train, tmp_path: Path, given: tuple[Path, Path], rows: list[Row]
) -> None:
    data, model = given
    assert exact(model, rows) == 0
    tuned = tmp_path / "tuned"
    # Each edit several times in an epoch: held-out loss and checkpoint come less often.
    repeated = write_rows(tmp_path / "repeated.jsonl", rows * 16)
    words = ("--window", 128, "--batch", 16, "--step-windows", 16, "--lr", "3e-3", "--epochs", 100)
    assert train(repeated, "--model", model, "--out", tuned, *words, "--max-steps", 400) == 0
    assert record(tuned)["steps"] <= 400
    assert exact(tuned, rows) >= 28
    curve = [one["loss"] for one in record(tuned)["held_out_loss"]]
    assert curve[-1] < curve[0]
    before = hashes(tuned)
    adapter = tmp_path / "adapter"
    assert train(data, "--model", tuned, "--out", adapter, *SHORT, "--max-steps", 3, "--lora") == 0
    assert hashes(tuned) == before
    assert {path.name for path in adapter.glob("*.safetensors")} == {"adapter_model.safetensors"}
