"""The options of ``train``, with the paper's recipe as defaults, and how many windows a step has.

F. Cassano et al., "Can It Edit?", 2023, arXiv:2312.12450, section on training: learning rate 2e-5,
linear schedule, 10 warm-up steps, 8 epochs, windows of 8,192 tokens, 32 windows a step, weight
decay 0.05.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from core.errors import UserError
from core.options import Folder, option, option_group
from core.plaintext import counted
from exercises.editpack.files import RowInput
from exercises.editpack.training.corpus import HELD_OUT
from runs.options import out_option

_SEEDS = 1 << 32
"""torch takes so many."""


@option_group
class Recipe:
    """What decides the weights, besides model, data and devices.

    Attributes:
        epochs: each over all windows, in an order of its own.
        accumulate: batches of a device in one step; None for what makes ``step_windows``.
    """

    window: int = option(8192, "Tokens of a window.", "--window", least=2)
    epochs: int = option(8, "Times that each window is seen.", "--epochs", least=1)
    lr: float = option(2e-5, "Highest learning rate; it falls linearly to 0.", "--lr", least=0)
    warmup: int = option(10, "Steps in which the learning rate rises.", "--warmup", least=0)
    weight_decay: float = option(0.05, "Weight decay of AdamW.", "--weight-decay", least=0)
    step_windows: int = option(
        32, "Windows a step: batch x accumulate x devices.", "--step-windows", least=1
    )
    batch: int = option(1, "Windows a device holds at once.", "--batch", least=1)
    accumulate: int | None = option(
        None, "Batches of a device in a step; default: what --step-windows needs.",
        "--accumulate", least=1, given=int | None,
    )  # fmt: skip
    max_steps: int = option(
        0, "End after so many steps; 0: after the epochs.", "--max-steps", least=0
    )
    held_out: float = option(
        HELD_OUT, "Share of the documents to measure the loss on.", "--held-out", least=0
    )
    lora: bool = option(False, "Train an adapter with peft; the model stays.", "--lora")
    seed: int = option(
        0, "Seed of the order of documents and of an adapter's first weights.", "--seed"
    )

    def steps_of(self, windows: int) -> int:
        """Return the steps of an epoch; its last step takes the windows that are left."""
        return math.ceil(windows / self.step_windows)

    def steps(self, windows: int) -> int:
        every = self.epochs * self.steps_of(windows)
        return min(every, self.max_steps) if self.max_steps else every

    def windows_seen(self, windows: int, steps: int) -> int:
        """Return how many windows so many steps take, each epoch having ``windows``."""
        epochs, rest = divmod(steps, self.steps_of(windows))
        return epochs * windows + rest * self.step_windows


@option_group
class TrainOptions:
    given: RowInput
    recipe: Recipe
    model: str = option("", "A local folder with safetensors, or a name on the hub.", "--model")
    out: Folder | None = out_option("Folder for the tuned model.", default=None)
    resume: bool = option(False, "Go on from the last checkpoint in --out.", "--resume")
    deepspeed: Path | None = option(
        None, "DeepSpeed's configuration, for several devices.", "--deepspeed", given=Path
    )
    contaminated_anyway: bool = option(
        False, "Train on data that did not go through decontaminate.", "--contaminated-anyway"
    )
    scores: Path | None = option(
        None, "What `exercises.canitedit report --json` printed, for the model's card.",
        "--scores", given=Path,
    )  # fmt: skip

    @property
    def folder(self) -> Path:
        if self.out is None:
            raise UserError("no --out given; name the folder for the tuned model")
        return self.out


@dataclass(frozen=True)
class StepShape:
    """How the windows of one step are spread; their product is the windows a step."""

    batch: int
    accumulate: int
    devices: int

    @property
    def windows(self) -> int:
        return self.batch * self.accumulate * self.devices


def step_shape(recipe: Recipe, devices: int) -> StepShape:
    """Return how the windows of a step are spread over ``devices``."""
    asked = recipe.step_windows
    each = recipe.batch * devices
    shape = StepShape(recipe.batch, recipe.accumulate or max(asked // each, 1), devices)
    if shape.windows == asked:
        return shape
    given = (
        f"--batch {shape.batch} x --accumulate {shape.accumulate} x "
        f"{counted(devices, 'device')} is {counted(shape.windows, 'window')} a step, not {asked}"
    )
    if asked % devices:
        fix = f"give --step-windows {shape.windows}, or another number of devices"
        raise UserError(f"{given}; {fix}")
    batch = next(n for n in range(min(recipe.batch, asked), 0, -1) if asked % (n * devices) == 0)
    fix = (
        f"give --batch {batch} --accumulate {asked // (batch * devices)} on "
        f"{counted(devices, 'device')}, or --step-windows {shape.windows}"
    )
    raise UserError(f"{given}; {fix}")


def check_recipe(recipe: Recipe) -> None:
    """Refuse values that no training can have."""
    if recipe.held_out >= 1:
        raise UserError(f"--held-out {recipe.held_out:g}: must lie from 0 to below 1")
    if not 0 <= recipe.seed < _SEEDS:
        raise UserError(f"--seed {recipe.seed}: must lie from 0 to {_SEEDS - 1}")


def launched_devices() -> int | None:
    """Return the number of processes that torchrun or accelerate started, None without them."""
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isdecimal() and int(text) else None


def is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"
