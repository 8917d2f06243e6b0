"""TRL's ``SFTTrainer`` on windows. Importing this module imports torch: do so in functions alone.

The trainer packs, pads and shuffles nothing: each epoch reads the windows of its own order, one
after the other, and the label of a token is the token.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import logging
from trl import SFTConfig, SFTTrainer

from swe_retry.kit import Shutdown, StoppedError, UserError, abbreviate, quantity
from swe_retry_exercises.editpack.recipe import Recipe
from swe_retry_exercises.editpack.rows import EditRow
from swe_retry_exercises.editpack.windows import (
    Document,
    Encode,
    Windows,
    documents_of,
    epoch_order,
    split_documents,
    windows_of,
)
from swe_retry_exercises.values import JsonObject, Say

_MAX_CHECKPOINTS = 2
"""A kill while the last one is written leaves the one before."""
# Ours: the paper trains all weights.
_LORA = LoraConfig(
    r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"
)


@dataclass(frozen=True)
class Training:
    """What is trained, and where it is written.

    Attributes:
        model: a local folder with safetensors, or a name on the hub.
        checkpoints: the folder of the trainer's checkpoints.
        devices: processes that work together, each with one device.
        resume: go on from the last checkpoint.
    """

    recipe: Recipe
    model: str
    out: Path
    checkpoints: Path
    devices: int
    resume: bool

    def run(self, rows: Iterable[EditRow], stop: Shutdown, say: Say) -> JsonObject:
        """Train, write the model, and return what the record says of it."""
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        recipe = self.recipe
        checkpoint = self._last_checkpoint()
        arguments = self._arguments(eval_on_start=checkpoint is None)
        tokenizer = load_tokenizer(self.model)
        model = load_model(self.model, recipe)
        # Servers take temperatures and seeds only where the model says so.
        model.generation_config.do_sample = True
        parameters = model.num_parameters()  # an adapter would be counted later
        end = tokenizer.eos_token_id
        documents = list(documents_of(rows, encoder(tokenizer), end))
        training, aside = split_documents(documents, recipe.held_out)
        windows, rest = windows_of(epoch_order(training, recipe.seed, 0), recipe.window)
        if not len(windows):
            raise UserError(
                f"{quantity(len(rest), 'token')} to train on are less than a window of "
                f"{recipe.window}; set a shorter train.window, or give more rows"
            )
        held_out, short = windows_of(aside, recipe.window)
        # Fewer tokens than a window are measured as they are: nothing is padded.
        if not len(held_out) and len(short) > 1:
            held_out = short[None]
        arguments.max_steps = recipe.steps(len(windows))
        if not len(held_out):
            arguments.eval_strategy = "no"
            arguments.eval_on_start = False
        say(
            f"{quantity(len(documents), 'document')}, {len(aside)} of them held out; "
            f"{quantity(len(windows), 'window')} an epoch, {quantity(len(rest), 'token')} dropped; "
            f"{quantity(arguments.max_steps, 'step')}"
        )
        if checkpoint:
            say(f"goes on from {Path(checkpoint).name}")
        watch = TrainingWatch(training, windows, recipe.seed, stop, say)
        trainer = SFTTrainer(
            model=model,
            args=arguments,
            train_dataset=_dataset(windows),
            eval_dataset=_dataset(held_out) if len(held_out) else None,
            processing_class=tokenizer,
            callbacks=[watch],
            peft_config=_LORA if recipe.lora else None,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        start = time.monotonic()
        trainer.train(resume_from_checkpoint=checkpoint)
        seconds = time.monotonic() - start
        if trainer.state.global_step < arguments.max_steps:
            raise StoppedError("the training was stopped")
        trainer.save_model(str(self.out))
        # Nothing reads this pickle; the options are in train.json.
        (self.out / "training_args.bin").unlink(missing_ok=True)
        seen = recipe.tokens_seen(len(windows), arguments.max_steps)
        timed = seen - recipe.tokens_seen(len(windows), watch.first_step)
        return {
            "parameters": parameters,
            "corpus": {
                "documents": len(documents),
                "tokens": sum(len(document.tokens) for document in documents),
                "held_out_documents": len(aside),
                "held_out_tokens": held_out.size,
                "windows": len(windows),
                "dropped_tokens": len(rest),
                "tokens_of_documents_to_train_on": windows.size + len(rest),
            },
            **_device_facts(arguments),
            "steps": arguments.max_steps,
            "tokens_seen": seen,
            "seconds": round(seconds, 3),
            "tokens_a_second": round(timed / seconds, 1),
            "loss": _curve(trainer.state.log_history, "loss"),
            "held_out_loss": _curve(trainer.state.log_history, "eval_loss"),
        }

    def _last_checkpoint(self) -> str | None:
        checkpoint: str | None = get_last_checkpoint(str(self.checkpoints))
        # The trainer writes its state last.
        if checkpoint and not Path(checkpoint, TRAINER_STATE_NAME).is_file():
            raise UserError(
                f"{checkpoint} is incomplete; remove it to go on from the one before"
            )
        if checkpoint and not self.resume:
            raise UserError(
                f"{self.out} holds a training; give --resume, or another --out"
            )
        return checkpoint

    def _arguments(self, *, eval_on_start: bool) -> SFTConfig:
        recipe = self.recipe
        cuda = torch.cuda.is_available()
        arguments = SFTConfig(
            output_dir=str(self.checkpoints),
            learning_rate=recipe.lr,
            lr_scheduler_type="linear",
            warmup_steps=recipe.warmup,
            weight_decay=recipe.weight_decay,
            num_train_epochs=recipe.epochs,
            per_device_train_batch_size=recipe.batch,
            per_device_eval_batch_size=recipe.batch,
            gradient_accumulation_steps=recipe.accumulation(self.devices),
            train_sampling_strategy="sequential",
            # Without an accelerator there is memory enough, and the second pass takes time.
            activation_checkpointing=cuda,
            dataloader_pin_memory=cuda,
            bf16=cuda and torch.cuda.is_bf16_supported(),
            # Said so, several processes work together without an accelerator, too.
            use_cpu=not torch.accelerator.is_available(),
            seed=recipe.seed,
            eval_strategy="epoch",
            eval_on_start=eval_on_start,
            save_strategy="epoch",
            save_total_limit=_MAX_CHECKPOINTS,
            logging_steps=1,
            report_to="none",
            disable_tqdm=False,
            remove_unused_columns=False,
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
        )
        devices = arguments.world_size * max(arguments.n_gpu, 1)
        if devices != self.devices:
            raise UserError(
                f"{quantity(devices, 'device')} would work together, not {self.devices}; start one "
                f"process for each with `torchrun --nproc-per-node {devices} -m "
                "swe_retry_exercises.editpack train …`, or show it one with CUDA_VISIBLE_DEVICES"
            )
        return arguments


class TrainingWatch(TrainerCallback):  # type: ignore[misc]  # torch may be absent
    """Changes the windows with the epoch, says the held-out loss, and ends a training when asked.

    Attributes:
        windows: of the present epoch; each epoch has as many.
        first_step: the steps that were done before the last start.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        windows: Windows,
        seed: int,
        stop: Shutdown,
        say: Say,
    ) -> None:
        self.documents = documents
        self.windows = windows
        self.seed = seed
        self.stop = stop
        self.say = say
        self.is_stopped = False
        self.first_step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        self.first_step = state.global_step

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        order = epoch_order(self.documents, self.seed, int(state.epoch or 0))
        self.windows[...] = windows_of(order, self.windows.shape[1])[0]

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """End all processes at one step, where one was stopped."""
        stopped = torch.tensor(float(bool(self.stop.reason)), device=args.device)
        if args.world_size > 1:
            torch.distributed.all_reduce(stopped)
        self.is_stopped = bool(stopped.item())
        control.should_training_stop |= self.is_stopped

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """Ask for a checkpoint alone if the training ends within an epoch."""
        if self.is_stopped and state.epoch != int(state.epoch):
            control.should_evaluate = False

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ANN401
        self.say(
            f"step {state.global_step} of {state.max_steps}, epoch {state.epoch or 0:.2f}: "
            f"held-out loss {more['metrics']['eval_loss']:.4f}"
        )


def _dataset(windows: Windows) -> Dataset:
    """Return numbers that become windows when they are read: nothing is copied to disk."""
    numbers = Dataset.from_dict({"window": range(len(windows))})
    return numbers.with_transform(
        lambda batch: {"input_ids": windows[batch["window"]].astype("int64")}
    )


def _device_facts(arguments: SFTConfig) -> JsonObject:
    if not torch.cuda.is_available():
        return {"device": arguments.device.type, "memory_bytes": None}
    memory = torch.cuda.max_memory_allocated()
    return {"device": torch.cuda.get_device_name(), "memory_bytes": memory}


def _curve(log: Iterable[JsonObject], key: str) -> list[JsonObject]:
    curve = []
    for entry in log:
        if key in entry:
            # JSON has no infinity.
            loss = entry[key] if math.isfinite(entry[key]) else None
            curve.append({"step": entry["step"], "epoch": entry["epoch"], "loss": loss})
    return curve


def load_tokenizer(name: str) -> Any:  # noqa: ANN401 - of transformers
    tokenizer = _load("tokenizer", AutoTokenizer, name)
    if tokenizer.eos_token_id is None:
        raise UserError(
            f"--model {name}: its tokenizer has no end-of-text token; set eos_token"
        )
    return tokenizer


def load_model(name: str, recipe: Recipe) -> Any:  # noqa: ANN401
    """Return the model with the 32-bit weights that an optimiser of small steps needs.

    Below an adapter, whose weights have 32 bits, it has 16: they do not change.
    """
    dtype = torch.bfloat16 if recipe.lora else torch.float32
    model = _load(
        "model", AutoModelForCausalLM, name, use_safetensors=True, dtype=dtype
    )
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest is not None and recipe.window > longest:
        raise UserError(
            f"train.window {recipe.window}: {name} takes at most {longest}; "
            "give a shorter one"
        )
    return model


def _load(what: str, kind: Any, name: str, **options: Any) -> Any:  # noqa: ANN401
    try:
        return kind.from_pretrained(name, trust_remote_code=False, **options)
    # Transformers raises OSError, ValueError, ImportError and the errors of its parsers.
    except Exception as error:
        cause = abbreviate(str(error), 300) or type(error).__name__
        raise UserError(
            f"--model {name}: no {what} could be loaded ({cause}); give a folder with "
            "safetensors and a tokenizer, or a name on the hub"
        ) from error


def encoder(tokenizer: Any) -> Encode:  # noqa: ANN401
    """Return a function from texts to tokens, which begin as those of prompts do.

    A text that reads like a special token is not one: data are of others.
    """

    def encode(texts: list[str]) -> Any:  # noqa: ANN401
        return tokenizer(texts, split_special_tokens=True, verbose=False)["input_ids"]

    return encode
