"""``train``: tune a model on rows that went through ``decontaminate``."""

from __future__ import annotations

from typing import Any

import typer

from core.errors import StoppedError
from core.options import built, command
from core.shutdown import Shutdown
from exercises.editpack.train import train
from exercises.editpack.training.options import TrainOptions
from runs.signals import INTERRUPTED, heeding_signals


@command(TrainOptions)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Tune a model on rows: all weights, or an adapter with --lora."""
    options = built(TrainOptions, values)
    stop = Shutdown()
    words = "stopping after this step; the same command with --resume goes on"
    with heeding_signals(stop, lambda _: print(words, flush=True), lambda: None):
        try:
            train(options, stop, lambda line: print(line, flush=True))
        except StoppedError:
            raise typer.Exit(INTERRUPTED) from None
