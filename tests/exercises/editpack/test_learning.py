"""A model of 0.4 million parameters learns edits by heart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from exercises.editpack.rows import CONTENT, NEW, EditRow
from tests.support.editpack import SHORT, hashes, recipe, record, write_training_rows

pytest.importorskip("torch", reason="torch is not installed (requirements-train.txt)")
pytest.importorskip("trl", reason="trl is not installed (requirements-train.txt)")

Train = Callable[..., int]
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


def exact(folder: Path, rows: Sequence[EditRow]) -> int:
    """Return for how many rows a model writes exactly the edited program."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = (
        kind.from_pretrained(folder) for kind in (AutoModelForCausalLM, AutoTokenizer)
    )
    found = 0
    for row in rows:
        asked = tokenizer(row[CONTENT].removesuffix(row[NEW]), return_tensors="pt")
        whole = model.generate(**asked, max_new_tokens=120, do_sample=False)
        text = tokenizer.decode(
            whole[0, asked["input_ids"].shape[1] :], skip_special_tokens=True
        )
        found += text == row[NEW]
    return found


def test_a_tiny_model_learns_32_edits_and_an_adapter_on_it_changes_no_file_of_it(
    train: Train,
    tmp_path: Path,
    given: tuple[Path, Path],
    rows: list[EditRow],
) -> None:
    data, model = given
    assert exact(model, rows) == 0
    tuned = tmp_path / "tuned"
    # Each edit several times in an epoch: held-out loss and checkpoint come less often.
    repeated = write_training_rows(tmp_path / "repeated.jsonl", rows * 16)
    words = recipe(
        window=128, batch=16, step_windows=16, lr="3e-3", epochs=100, max_steps=400
    )
    assert train(repeated, "--model", model, "--out", tuned, *words) == 0
    assert record(tuned)["steps"] <= 400
    assert exact(tuned, rows) >= 28
    curve = [one["loss"] for one in record(tuned)["held_out_loss"]]
    assert curve[-1] < curve[0]
    before = hashes(tuned)
    adapter = tmp_path / "adapter"
    words = [*SHORT, *recipe(max_steps=3, lora=True)]
    assert train(data, "--model", tuned, "--out", adapter, *words) == 0
    assert hashes(tuned) == before
    assert {path.name for path in adapter.glob("*.safetensors")} == {
        "adapter_model.safetensors"
    }
