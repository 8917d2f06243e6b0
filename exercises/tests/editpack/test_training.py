"""A model of 0.4 million parameters is trained; without torch these tests are skipped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.support.editpack import END, SHORT, hashes, recipe, record
from swe_retry_exercises.editpack.windows import Document
from tests.support import sha256_of

pytest.importorskip(
    "torch", reason="torch is not installed (exercises/requirements-train.txt)"
)
pytest.importorskip(
    "trl", reason="trl is not installed (exercises/requirements-train.txt)"
)

Train = Callable[..., int]
pytestmark = pytest.mark.usefixtures("one_thread")


def test_two_steps(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
) -> None:
    data, model = training_input
    before = hashes(model)
    tuned = tmp_path / "tuned"
    arguments = (data, "--model", model, "--out", tuned, *SHORT, *recipe(max_steps=2))
    assert train(*arguments) == 0
    assert hashes(model) == before
    summary = record(tuned)
    assert summary["data"]["sha256"] == sha256_of(data)
    assert summary["options"]["lr"] == 3e-3
    assert summary["steps"] == 2
    assert summary["tokens_seen"] == 2 * 6 * 80
    assert [entry["step"] for entry in summary["loss"]] == [1, 2]
    first, last = (entry["loss"] for entry in summary["held_out_loss"])
    assert last < first
    assert summary["corpus"]["windows"] == 16
    assert summary["corpus"]["held_out_documents"] == 1
    card = (tuned / "README.md").read_text()
    assert "went through `decontaminate`" in card
    assert "| MIT | 32 |" in card
    assert not list(tuned.glob("*.bin"))
    assert (tuned / "tokenizer.json").exists()
    weights = "model.safetensors"
    assert hashes(tuned)[weights] != before[weights]
    # A complete training is neither overwritten nor repeated.
    written = hashes(tuned)
    assert train(*arguments) == 2
    assert train("--out", tuned, "--resume") == 0
    assert hashes(tuned) == written


def test_a_kill_at_the_very_end_leaves_the_last_checkpoint(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, model = training_input
    tuned = tmp_path / "tuned"
    arguments = (data, "--model", model, "--out", tuned, *SHORT, *recipe(epochs=1))
    assert train(*arguments) == 0
    weights = tuned / "model.safetensors"
    before = record(tuned)
    digest = sha256_of(weights)
    weights.unlink()
    (tuned / "train.json").unlink()
    assert train(*arguments) == 2
    error = capsys.readouterr().err
    assert "holds a training; give --resume, or another --out" in error
    assert train(*arguments, "--resume") == 0
    assert "goes on from checkpoint-3\n" in capsys.readouterr().out
    assert sha256_of(weights) == digest
    for key in ("steps", "tokens_seen", "loss", "held_out_loss"):
        assert record(tuned)[key] == before[key]
    # The trainer writes its state last.
    (tuned / "train.json").unlink()
    (tuned / "checkpoints/checkpoint-3/trainer_state.json").unlink()
    assert train(*arguments, "--resume") == 2
    assert "checkpoint-3 is incomplete; remove it" in capsys.readouterr().err


def test_an_adapter_leaves_the_model_as_it_is(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from safetensors.torch import load_file  # type: ignore[import-not-found, unused-ignore]

    from swe_retry_exercises.editpack import trainer

    data, model = training_input
    before = hashes(model)
    out = tmp_path / "adapter"
    loaded = []
    load_model = trainer.load_model

    def note_type(*arguments: Any) -> Any:
        model = load_model(*arguments)
        loaded.append(str(model.dtype).removeprefix("torch."))
        return model

    monkeypatch.setattr(trainer, "load_model", note_type)
    options = [*SHORT, *recipe(max_steps=2, lora=True, contaminated_anyway=True)]
    assert train(data, "--model", model, "--out", out, *options) == 0
    assert hashes(model) == before
    names = {path.name for path in out.iterdir() if path.is_file()}
    assert "adapter_model.safetensors" in names
    assert "adapter_config.json" in names
    assert "model.safetensors" not in names
    assert "adapter (LoRA)" in (out / "README.md").read_text()
    # The model takes 2 bytes a parameter, the adapter is trained with 4.
    assert loaded == ["bfloat16"]
    tensors = load_file(out / "adapter_model.safetensors").values()
    assert {str(tensor.dtype) for tensor in tensors} == {"torch.float32"}
    first, last = (entry["loss"] for entry in record(out)["held_out_loss"])
    assert last < first


def test_a_tuned_model_samples(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
) -> None:
    """Servers sample only where the model's own settings do."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    data, model = training_input
    tuned = tmp_path / "tuned"
    options = [*SHORT, *recipe(max_steps=1)]
    assert train(data, "--model", model, "--out", tuned, *options) == 0
    tokenizer = AutoTokenizer.from_pretrained(tuned)
    served = AutoModelForCausalLM.from_pretrained(tuned)
    prompt = tokenizer("## Code Before:\n", return_tensors="pt")
    texts = set()
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        tokens = served.generate(prompt["input_ids"], max_new_tokens=20)
        texts.add(tokenizer.decode(tokens[0]))
    assert len(texts) == 3


def test_a_document_begins_as_a_prompt_does(training_input: tuple[Path, Path]) -> None:
    from tokenizers.processors import TemplateProcessing

    from swe_retry_exercises.editpack.trainer import encoder, load_tokenizer

    tokenizer = load_tokenizer(str(training_input[1]))
    begin = tokenizer.convert_tokens_to_ids("#")
    template = TemplateProcessing(single="# $A", special_tokens=[("#", begin)])
    [plain] = encoder(tokenizer)(["a = 1"])
    tokenizer.backend_tokenizer.post_processor = template
    [tokens] = encoder(tokenizer)(["a = 1"])
    assert tokens == [begin, *plain]
    assert tokens == tokenizer("a = 1")["input_ids"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (recipe(window=1024), "takes at most 512; give a shorter one"),
        (recipe(window=500, held_out=0.9), "less than a window of 500"),
        (["--model", "{tmp}"], "no tokenizer could be loaded"),
        (
            recipe(batch=3),
            "train.step_windows=32 is no multiple of train.batch=3 x 1 device; change",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    problem: str,
) -> None:
    data, model = training_input
    formatted = [word.format(tmp=tmp_path) for word in options]
    assert train(data, "--model", model, "--out", tmp_path / "t", *formatted) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert problem in line


def test_weights_that_are_no_safetensors_and_code_of_a_model_are_refused(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    import torch
    from safetensors.torch import load_file  # type: ignore[import-not-found, unused-ignore]

    data, model = training_input
    pickled = tmp_path / "pickled"
    shutil.copytree(model, pickled)
    weights = pickled / "model.safetensors"
    torch.save(load_file(weights), pickled / "pytorch_model.bin")
    weights.unlink()
    assert train(data, "--model", pickled, "--out", tmp_path / "t", *SHORT) == 2
    assert "no model could be loaded" in capfd.readouterr().err
    own = tmp_path / "own"
    shutil.copytree(model, own)
    trace = tmp_path / "trace"
    config_path = own / "config.json"
    config = json.loads(config_path.read_text())
    config["model_type"] = "other"
    config["architectures"] = ["Other"]
    config["auto_map"] = {
        "AutoConfig": "code.Config",
        "AutoModelForCausalLM": "code.Other",
    }
    config_path.write_text(json.dumps(config))
    code = f"open({str(trace)!r}, 'w').close()\n"
    (own / "code.py").write_text(code)
    assert train(data, "--model", own, "--out", tmp_path / "t2", *SHORT) == 2
    assert "could be loaded" in capfd.readouterr().err
    assert not trace.exists()


def test_the_trainer_reads_the_windows_of_each_epoch(
    train: Train,
    tmp_path: Path,
    training_input: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from swe_retry_exercises.editpack import trainer, windows

    data, model = training_input
    made: list[list[Document]] = []
    seen: list[list[int]] = []

    def note_documents(documents: list[Document], share: float) -> Any:
        made.extend(windows.split_documents(documents, share))
        return made

    class Seen(trainer.SFTTrainer):  # type: ignore[misc, name-defined]
        def compute_loss(
            self,
            model: Any,
            inputs: Any,
            *arguments: Any,
            **options: Any,
        ) -> Any:
            tokens = inputs["input_ids"]
            assert (inputs["labels"] == tokens).all()
            seen.extend(tokens.tolist())
            return super().compute_loss(model, inputs, *arguments, **options)

    monkeypatch.setattr(trainer, "split_documents", note_documents)
    monkeypatch.setattr(trainer, "SFTTrainer", Seen)
    options = ("--model", model, "--out", tmp_path / "t", *SHORT, *recipe(epochs=3))
    assert train(data, *options) == 0
    documents, held_out = made
    piece = []
    for document in held_out:
        piece += document.tokens.tolist()
    assert 1 < len(piece) < 80
    epochs = []
    for epoch in range(3):
        order = windows.epoch_order(documents, seed=0, epoch=epoch)
        full_windows, _ = windows.windows_of(order, 80)
        epochs.append(full_windows.tolist())
    assert sorted(epochs[0]) != sorted(epochs[1])
    expected = [piece]
    for rows in epochs:
        expected += [*rows, piece]
    assert seen == expected


def test_a_text_that_reads_like_the_end_is_no_end(
    training_input: tuple[Path, Path],
) -> None:
    from swe_retry_exercises.editpack.trainer import encoder, load_tokenizer

    tokenizer = load_tokenizer(str(training_input[1]))
    text = f"a {END} b"
    [tokens] = encoder(tokenizer)([text])
    assert tokenizer.eos_token_id not in tokens
    assert tokenizer.decode(tokens) == text
