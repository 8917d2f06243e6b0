"""What decides the weights of a training, and how its windows are spread over steps.

F. Cassano et al., "Can It Edit?", 2023, arXiv:2312.12450, section on training: learning rate 2e-5,
linear schedule, 10 warm-up steps, 8 epochs, windows of 8,192 tokens, 32 windows a step, weight
decay 0.05.
"""

from __future__ import annotations

import math

from pydantic import Field

from swe_retry.kit import Section, UserError, quantity

_SEEDS = 1 << 32
"""torch takes so many."""


class Recipe(Section):
    """What decides the weights, besides model, data and devices."""

    window: int = Field(default=8192, ge=2)
    """Cut windows of so many tokens."""

    epochs: int = Field(default=8, ge=1)
    """Train on each window so many times, in an order of its own each time."""

    lr: float = Field(default=2e-5, ge=0)
    """Use this as the highest learning rate; it falls linearly to 0."""

    warmup: int = Field(default=10, ge=0)
    """Let the learning rate rise for so many steps."""

    weight_decay: float = Field(default=0.05, ge=0)
    """Use this weight decay of AdamW."""

    step_windows: int = Field(default=32, ge=1)
    """Take so many windows a step, a multiple of train.batch x devices."""

    batch: int = Field(default=1, ge=1)
    """Let a device hold so many windows at once."""

    max_steps: int = Field(default=0, ge=0)
    """End after so many steps; 0: after the epochs."""

    held_out: float = Field(default=0.005, ge=0, lt=1)
    """Measure the loss on this share of the documents."""

    lora: bool = False
    """Train an adapter with peft; the model stays."""

    seed: int = Field(default=0, ge=0, lt=_SEEDS)
    """Order documents, and make an adapter's first weights, by this seed."""

    contaminated_anyway: bool = False
    """Train on data that did not go through decontaminate."""

    def steps_of_epoch(self, windows: int) -> int:
        """Return the steps of an epoch; its last step takes the windows that are left."""
        return math.ceil(windows / self.step_windows)

    def steps(self, windows: int) -> int:
        steps = self.epochs * self.steps_of_epoch(windows)
        return min(steps, self.max_steps or steps)

    def tokens_seen(self, windows: int, steps: int) -> int:
        """Return how many tokens so many steps take, each epoch having ``windows``."""
        epochs, rest = divmod(steps, self.steps_of_epoch(windows))
        return (epochs * windows + rest * self.step_windows) * self.window

    def accumulation(self, devices: int) -> int:
        """Return how many batches each device takes in a step."""
        accumulate, rest = divmod(self.step_windows, self.batch * devices)
        if rest or not accumulate:
            raise UserError(
                f"train.step_windows={self.step_windows} is no multiple of train.batch="
                f"{self.batch} x {quantity(devices, 'device')}; change one of them"
            )
        return accumulate
