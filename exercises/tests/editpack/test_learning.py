"""A model of 0.4 million parameters learns edits by heart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from exercises.tests.support.editpack import (
    SHORT,
    hashes,
    recipe,
    record,
    write_training_rows,
)
from swe_retry_exercises.editpack.rows import CONTENT, NEW, EditRow

pytest.importorskip(
    "torch", reason="torch is not installed (exercises/requirements-train.txt)"
)
pytest.importorskip(
    "trl", reason="trl is not installed (exercises/requirements-train.txt)"
)

Train = Callable[..., int]
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


def exact_count(folder: Path, rows: Sequence[EditRow]) -> int:
    """Return for how many rows a model writes exactly the edited program."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    count = 0
    for row in rows:
        text = row[CONTENT].removesuffix(row[NEW])
        prompt = tokenizer(text, return_tensors="pt")
        length = prompt["input_ids"].shape[1]
        generated = model.generate(**prompt, max_new_tokens=120, do_sample=False)
        reply = generated[0, length:]
        program = tokenizer.decode(reply, skip_special_tokens=True)
        count += program == row[NEW]
    return count


def test_a_tiny_model_learns_32_edits_and_an_adapter_on_it_changes_no_file_of_it(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
    rows: list[EditRow],
) -> None:
    data, model = training_input
    assert exact_count(model, rows) == 0
    tuned = tmp_path / "tuned"
    # Each edit several times in an epoch: held-out loss and checkpoint come less often.
    repeated = write_training_rows(tmp_path / "repeated.jsonl", rows * 16)
    options = recipe(
        window=128,
        batch=16,
        step_windows=16,
        lr="3e-3",
        epochs=100,
        max_steps=400,
    )
    assert train(repeated, "--model", model, "--out", tuned, *options) == 0
    assert record(tuned)["steps"] <= 400
    assert exact_count(tuned, rows) >= 28
    curve = [entry["loss"] for entry in record(tuned)["held_out_loss"]]
    assert curve[-1] < curve[0]
    before = hashes(tuned)
    adapter = tmp_path / "adapter"
    options = [*SHORT, *recipe(max_steps=3, lora=True)]
    assert train(data, "--model", tuned, "--out", adapter, *options) == 0
    assert hashes(tuned) == before
    [weights] = adapter.glob("*.safetensors")
    assert weights.name == "adapter_model.safetensors"
