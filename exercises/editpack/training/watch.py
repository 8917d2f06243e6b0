"""What happens between the steps of a training. Importing this module imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback

from core.shutdown import Shutdown
from exercises.editpack.training.checkpoints import CheckpointFolder


class StepWatch(TrainerCallback):  # type: ignore[misc]
    """Marks checkpoints as complete, says the held-out loss, and ends a training when asked."""

    def __init__(
        self,
        folder: CheckpointFolder,
        stop: Shutdown,
        seconds: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self.folder, self.stop, self.seconds, self.say = folder, stop, seconds, say
        self.asked = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """End the training after this step if that was asked."""
        self.asked = self._asked_anywhere(args)
        if self.asked:
            control.should_training_stop = True

    def _asked_anywhere(self, args: Any) -> bool:  # noqa: ANN401
        """Tell whether a process was stopped: all end at one step, or they wait for each other."""
        asked = torch.tensor(float(bool(self.stop.reason)), device=args.device)
        if args.world_size > 1:
            torch.distributed.all_reduce(asked)
        return bool(asked.item())

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """Ask for a checkpoint alone if the training ends within an epoch."""
        if self.asked and state.epoch != int(state.epoch):
            control.should_evaluate = False

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """Mark the checkpoint, of which everything is written, as complete."""
        if state.is_world_process_zero:
            self.folder.mark_complete(state.global_step, self.seconds())

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any  # noqa: ANN401
    ) -> None:  # fmt: skip
        """Say the held-out loss."""
        if state.is_world_process_zero:
            loss = (metrics or {}).get("eval_loss")
            steps = f"step {state.global_step} of {state.max_steps}"
            self.say(f"{steps}, epoch {state.epoch or 0:.2f}: held-out loss {loss:.4f}")
