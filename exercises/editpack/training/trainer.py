"""TRL's ``SFTTrainer`` on windows. Importing this module imports torch: do so in functions alone.

The trainer packs, pads and shuffles nothing: each epoch reads the windows of its own order, one
after the other, and the label of a token is the token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from peft import LoraConfig
from torch.utils.data import Sampler
from transformers import TrainerCallback
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

from core.errors import StoppedError, UserError
from core.shutdown import Shutdown
from exercises.editpack.training.corpus import TrainingSet, labelled

if TYPE_CHECKING:
    from exercises.editpack.training.command import Recipe, StepShape
    from exercises.editpack.training.corpus import Tokens

_NUMBER = "window"
_KEPT = 2
"""Checkpoints kept: a kill while the last one is written leaves the one before."""
# Ours: the paper trains all weights.
_LORA = {
    "r": 16,
    "lora_alpha": 32,
    "target_modules": "all-linear",
    "task_type": "CAUSAL_LM",
}


class WindowOrder(Sampler):  # type: ignore[misc]  # torch may be absent
    """Yields the numbers of an epoch's windows, as the trainer's step tells the epoch."""

    def __init__(self, each: int, epoch: Callable[[], int]) -> None:
        self.each, self.epoch = each, epoch

    def __len__(self) -> int:
        return self.each

    def __iter__(self) -> Iterator[int]:
        first = self.epoch() * self.each
        return iter(range(first, first + self.each))


class EpochWindows(Sequence["Tokens"]):
    """The windows of all epochs one after the other; the order of one epoch is held."""

    def __init__(self, data: TrainingSet) -> None:
        self.data = data
        self._epoch, self._windows = 0, data.of_epoch(0)

    def __len__(self) -> int:
        return self.data.each * self.data.epochs

    def __getitem__(self, number: int) -> Tokens:  # type: ignore[override]  # no slices
        epoch, place = divmod(number, self.data.each)
        if epoch != self._epoch:
            self._epoch, self._windows = epoch, self.data.of_epoch(epoch)
        window: Tokens = self._windows[place]
        return window


def window_dataset(length: int, windows: Sequence[Tokens]) -> Dataset:
    """Return numbers that become windows when they are read: nothing is copied to disk."""

    def labelled_windows(batch: Mapping[str, Sequence[int]]) -> dict[str, list[Tokens]]:
        rows = [labelled(windows[number]) for number in batch[_NUMBER]]
        return {key: [row[key] for row in rows] for key in rows[0]}

    return Dataset.from_dict({_NUMBER: range(length)}).with_transform(labelled_windows)


def collate(rows: Sequence[Mapping[str, Tokens]]) -> dict[str, torch.Tensor]:
    """Return windows of one length as a batch, without padding."""
    found = {
        key: torch.stack([torch.from_numpy(row[key]).long() for row in rows])
        for key in rows[0]
    }
    return {**found, "attention_mask": torch.ones_like(found["input_ids"])}


class WindowTrainer(SFTTrainer):  # type: ignore[misc]
    """Reads windows in the order of their epochs."""

    def __init__(self, *args: Any, order: WindowOrder, **values: Any) -> None:  # noqa: ANN401
        self._order = order
        super().__init__(*args, **values)

    def _get_train_sampler(self, train_dataset: object = None) -> WindowOrder:
        return self._order

    def create_model_card(self, *args: Any, **values: Any) -> None:  # noqa: ANN401
        """Write none: the card of the tuned folder is ours."""


@dataclass(frozen=True)
class TrainingRun:
    """A training that is about to start, or to go on from ``checkpoint``; it ends at ``steps``."""

    model: Any
    tokenizer: Any
    recipe: Recipe
    shape: StepShape
    data: TrainingSet
    steps: int
    checkpoints: Path
    checkpoint: Path | None


@dataclass(frozen=True)
class Trained:
    """What a training did.

    Attributes:
        steps: done, over all starts.
        first_step: the steps that were done before the last start.
        log: of the trainer: losses by step.
        seconds: of training since the last start.
        memory_bytes: the most that an accelerator held; None without one.
    """

    steps: int
    first_step: int
    log: Sequence[Mapping[str, Any]]
    seconds: float
    device: str
    memory_bytes: int | None


def check_devices() -> None:
    """Check that one process has one accelerator at most."""
    if (number := torch.cuda.device_count()) > 1:
        raise UserError(
            f"{number} GPUs are visible to one process; start one for each with `torchrun "
            f"--nproc-per-node {number} -m exercises.editpack train …`, or show it one with "
            "CUDA_VISIBLE_DEVICES"
        )


def last_checkpoint(folder: Path) -> Path | None:
    """Return the last checkpoint of the trainer in a folder, None without one."""
    name = get_last_checkpoint(str(folder))
    if name is None:
        return None
    checkpoint = Path(name)
    # The trainer writes this file last.
    if not (checkpoint / TRAINER_STATE_NAME).is_file():
        raise UserError(
            f"{checkpoint} is incomplete; remove it to go on from the one before"
        )
    return checkpoint


def train_windows(
    run: TrainingRun, stop: Shutdown, say: Callable[[str], None], out: Path
) -> Trained:
    began = time.monotonic()
    watch = StepWatch(stop, say)
    trainer = _trainer(run, watch)
    if trainer.args.world_size != run.shape.devices:
        raise UserError(
            f"WORLD_SIZE says {run.shape.devices} processes, and {trainer.args.world_size} work "
            "together; start them with torchrun or accelerate launch"
        )
    trainer.train(
        resume_from_checkpoint=str(run.checkpoint) if run.checkpoint else None
    )
    seconds = time.monotonic() - began
    state = trainer.state
    if state.global_step < run.steps:
        raise StoppedError("the training was stopped")
    trainer.save_model(str(out))
    # Nothing reads this pickle; the options are in train.json.
    (out / "training_args.bin").unlink(missing_ok=True)
    cuda = torch.cuda.is_available()
    return Trained(
        steps=state.global_step,
        first_step=watch.first_step,
        log=state.log_history,
        seconds=seconds,
        device=torch.cuda.get_device_name() if cuda else trainer.args.device.type,
        memory_bytes=torch.cuda.max_memory_allocated() if cuda else None,
    )


def _trainer(run: TrainingRun, watch: StepWatch) -> WindowTrainer:
    data = run.data
    steps_an_epoch = run.recipe.steps_of(data.each)
    order = WindowOrder(data.each, lambda: trainer.state.global_step // steps_an_epoch)
    trainer = WindowTrainer(
        model=run.model,
        args=SFTConfig(**_arguments(run)),
        data_collator=collate,
        train_dataset=window_dataset(data.each * data.epochs, EpochWindows(data)),
        eval_dataset=window_dataset(len(data.held_out), data.held_out)
        if data.held_out
        else None,
        processing_class=run.tokenizer,
        callbacks=[watch],
        peft_config=LoraConfig(**_LORA) if run.recipe.lora else None,
        order=order,
    )
    for printing in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printing)
    return trainer


def _arguments(run: TrainingRun) -> dict[str, Any]:
    recipe, held_out = run.recipe, bool(run.data.held_out)
    cuda = torch.cuda.is_available()
    return {
        "output_dir": str(run.checkpoints),
        "learning_rate": recipe.lr,
        "lr_scheduler_type": "linear",
        "warmup_steps": recipe.warmup,
        "weight_decay": recipe.weight_decay,
        "num_train_epochs": recipe.epochs,
        "max_steps": run.steps,
        "per_device_train_batch_size": run.shape.batch,
        "per_device_eval_batch_size": run.shape.batch,
        "gradient_accumulation_steps": run.shape.accumulate,
        # Without an accelerator there is memory enough, and the second pass takes time.
        "activation_checkpointing": cuda,
        "dataloader_pin_memory": cuda,
        "bf16": cuda and torch.cuda.is_bf16_supported(),
        # Said so, several processes work together without an accelerator, too.
        "use_cpu": not torch.accelerator.is_available(),
        "seed": recipe.seed,
        "deepspeed": str(recipe.deepspeed) if recipe.deepspeed else None,
        "eval_strategy": "epoch" if held_out else "no",
        "eval_on_start": held_out and run.checkpoint is None,
        "save_strategy": "epoch",
        "save_total_limit": _KEPT,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": False,
        "remove_unused_columns": False,
        "packing": False,
        "max_length": None,
        "dataset_kwargs": {"skip_prepare_dataset": True},
        "push_to_hub": False,
    }


class StepWatch(TrainerCallback):  # type: ignore[misc]
    """Says the held-out loss, and ends a training when asked."""

    def __init__(self, stop: Shutdown, say: Callable[[str], None]) -> None:
        self.stop = stop
        self.say = say
        self.asked = False
        self.first_step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        self.first_step = state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        self.asked = self._asked_anywhere(args)
        if self.asked:
            control.should_training_stop = True

    def _asked_anywhere(self, args: Any) -> bool:  # noqa: ANN401
        """Return whether a process was stopped: all end at one step, or none does."""
        asked = torch.tensor(float(bool(self.stop.reason)), device=args.device)
        if args.world_size > 1:
            torch.distributed.all_reduce(asked)
        return bool(asked.item())

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """Ask for a checkpoint alone if the training ends within an epoch."""
        if self.asked and state.epoch != int(state.epoch):
            control.should_evaluate = False

    def on_evaluate(
        self,
        args: Any,  # noqa: ANN401
        state: Any,  # noqa: ANN401
        control: Any,  # noqa: ANN401
        metrics: Any = None,  # noqa: ANN401
        **_: Any,  # noqa: ANN401
    ) -> None:
        if state.is_world_process_zero:
            loss = (metrics or {}).get("eval_loss")
            steps = f"step {state.global_step} of {state.max_steps}"
            self.say(f"{steps}, epoch {state.epoch or 0:.2f}: held-out loss {loss:.4f}")
