"""``train``: tune a model on rows, by the recipe of EditCoder.

F. Cassano et al., "Can It Edit?", 2023, arXiv:2312.12450, section on training: learning rate 2e-5,
linear schedule, 10 warm-up steps, 8 epochs, windows of 8,192 tokens, 32 windows a step, weight
decay 0.05.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from core.atomic import check_folder
from core.errors import StoppedError, UserError
from core.options import Folder, built, command, option, option_group
from core.plaintext import Say, counted, shortened
from core.shutdown import Shutdown
from exercises.editpack.files import RowInput, decontaminated, used_versions
from exercises.editpack.rows import RowSource, file_digest
from exercises.editpack.training.corpus import (
    HELD_OUT,
    Documents,
    Encode,
    TrainingSet,
    checked_record,
    shuffled,
    tokenized,
    windows_of,
)
from exercises.editpack.training.record import finished, rewrite_card, write_record
from runs.options import out_option
from runs.signals import INTERRUPTED, heeding_signals
from runs.storage.runlock import run_lock

if TYPE_CHECKING:
    from exercises.editpack.training.corpus import Windows

PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "peft",
    "tokenizers",
    "safetensors",
)


_CHECKPOINTS = "checkpoints"
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
    lr: float = option(
        2e-5, "Highest learning rate; it falls linearly to 0.", "--lr", least=0
    )
    warmup: int = option(
        10, "Steps in which the learning rate rises.", "--warmup", least=0
    )
    weight_decay: float = option(
        0.05, "Weight decay of AdamW.", "--weight-decay", least=0
    )
    step_windows: int = option(
        32, "Windows a step: batch x accumulate x devices.", "--step-windows", least=1
    )
    batch: int = option(1, "Windows a device holds at once.", "--batch", least=1)
    accumulate: int | None = option(
        None,
        "Batches of a device in a step; default: what --step-windows needs.",
        "--accumulate",
        least=1,
        given=int | None,
    )
    max_steps: int = option(
        0, "End after so many steps; 0: after the epochs.", "--max-steps", least=0
    )
    held_out: float = option(
        HELD_OUT,
        "Share of the documents to measure the loss on.",
        "--held-out",
        least=0,
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
    model: str = option(
        "", "A local folder with safetensors, or a name on the hub.", "--model"
    )
    out: Folder | None = out_option("Folder for the tuned model.", default=None)
    resume: bool = option(False, "Go on from the last checkpoint in --out.", "--resume")
    deepspeed: Path | None = option(
        None,
        "DeepSpeed's configuration, for several devices.",
        "--deepspeed",
        given=Path,
    )
    contaminated_anyway: bool = option(
        False,
        "Train on data that did not go through decontaminate.",
        "--contaminated-anyway",
    )
    scores: Path | None = option(
        None,
        "What `exercises.canitedit report --format json` printed, for the model's card.",
        "--scores",
        given=Path,
    )

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
    batch = next(
        n for n in range(min(recipe.batch, asked), 0, -1) if asked % (n * devices) == 0
    )
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


def train(options: TrainOptions, stop: Shutdown, say: Say) -> None:
    """Train, and write the tuned folder; or, of a complete one, write its card again."""
    check_recipe(options.recipe)
    folder = options.folder
    check_folder("--out", folder)
    if finished(folder):
        if not options.resume:
            raise UserError(f"{folder} holds a tuned model; choose another --out")
        say(rewrite_card(folder, options.scores))
        return
    if options.scores:
        raise UserError(
            f"--scores {options.scores}: {folder} is not trained yet; train it first"
        )
    if not options.model:
        raise UserError(
            "no --model given; name a local folder with safetensors, or one on the hub"
        )
    source = options.given.source()
    record = checked_record(source, contaminated_anyway=options.contaminated_anyway)
    shape = step_shape(options.recipe, launched_devices() or 1)
    require_packages(deepspeed=options.deepspeed is not None)
    checkpoints = folder / _CHECKPOINTS
    if not is_first_process():
        checkpoints.mkdir(parents=True, exist_ok=True)
        _train(options, source, record, shape, stop, lambda line: None)
        return
    with run_lock(checkpoints, "--out"):
        _train(options, source, record, shape, stop, say)


def _train(
    options: TrainOptions,
    source: RowSource,
    record: Mapping[str, Any],
    shape: StepShape,
    stop: Shutdown,
    say: Say,
) -> None:
    from transformers.utils import logging

    from exercises.editpack.training.trainer import (
        TrainingRun,
        check_devices,
        last_checkpoint,
        train_windows,
    )

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    recipe = options.recipe
    checkpoints = options.folder / _CHECKPOINTS
    if shape.devices == 1:
        check_devices()
    checkpoint = last_checkpoint(checkpoints)
    if checkpoint and not options.resume:
        raise UserError(
            f"{options.folder} holds a training; give --resume, or another --out"
        )
    try:
        settings = file_digest(options.deepspeed) if options.deepspeed else None
    except OSError as error:
        raise UserError(
            f"--deepspeed {options.deepspeed} cannot be read ({error.strerror})"
        ) from error
    tokenizer = load_tokenizer(options.model)
    model = load_model(options.model, recipe.window)
    parameters = model.num_parameters()  # an adapter would be counted later
    encode, end = encoder(tokenizer), tokenizer.eos_token_id
    documents, said = tokenized(source, encode, end, stop.check)
    data, counts = _packed(documents, options)
    steps = recipe.steps(data.each)
    start = f"; goes on from {checkpoint.name}" if checkpoint else ""
    say(
        f"{counted(counts['documents'], 'document')}, {counts['held_out_documents']} of them held "
        f"out; {counted(data.each, 'window')} an epoch, "
        f"{counted(counts['dropped_tokens'], 'token')} dropped; {counted(steps, 'step')}{start}"
    )
    run = TrainingRun(
        model,
        tokenizer,
        recipe,
        shape,
        data,
        steps,
        checkpoints,
        checkpoint,
        options.deepspeed,
    )
    trained = train_windows(run, stop, say, options.folder)
    if not is_first_process():
        return
    tokenizer.save_pretrained(str(options.folder))
    seen = recipe.windows_seen(data.each, trained.steps) * recipe.window
    seen_before = recipe.windows_seen(data.each, trained.first_step) * recipe.window
    facts = {
        # A path of this machine says nothing elsewhere.
        "model": Path(options.model).name
        if Path(options.model).is_dir()
        else options.model,
        "parameters": parameters,
        "options": {
            "model": options.model,
            **asdict(recipe),
            **asdict(shape),
            "deepspeed_sha256": settings,
        },
        "data": {**record, "decontaminated": decontaminated(record)},
        "corpus": {**counts, **said},
        "versions": used_versions(PACKAGES),
    }
    say(write_record(options.folder, facts, trained, seen, seen - seen_before))


def _packed(
    documents: Documents, options: TrainOptions
) -> tuple[TrainingSet, dict[str, int]]:
    recipe = options.recipe
    kept, held = documents.split(recipe.held_out)

    def of_epoch(epoch: int) -> Windows:
        return windows_of(documents, shuffled(kept, recipe.seed, epoch), recipe.window)[
            0
        ]

    first, dropped = windows_of(
        documents, shuffled(kept, recipe.seed, 0), recipe.window
    )
    tokens = first.size + len(dropped)
    if not len(first):
        raise UserError(
            f"{options.given.rows}: {counted(tokens, 'token')} to train on are less than a "
            f"window of {recipe.window}; give a shorter --window, or more rows"
        )
    aside, rest = windows_of(documents, held, recipe.window)
    # Fewer tokens than a window are measured as they are: nothing is padded.
    measured = [*aside] or ([rest] if len(rest) > 1 else [])
    counts = {
        "documents": len(documents),
        "tokens": sum(map(len, documents.tokens)),
        "held_out_documents": len(held),
        "held_out_tokens": sum(map(len, measured)),
        "windows": len(first),
        "dropped_tokens": len(dropped),
        "tokens_of_documents_to_train_on": tokens,
    }
    return TrainingSet(of_epoch, len(first), recipe.epochs, measured), counts


def require_packages(*, deepspeed: bool = False) -> None:
    """Check that the packages of a training are installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"train needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            "installed; run `pip install -r requirements-train.txt` (docs/editcoder.md tells how "
            "to choose the CPU build of torch)"
        )
    if deepspeed and find_spec("deepspeed") is None:
        raise UserError(
            "--deepspeed needs deepspeed, which is not installed; install it with pip"
        )


def load_tokenizer(name: str) -> Any:  # noqa: ANN401 - of transformers
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:
        raise _unusable("tokenizer", name, error) from error
    if found.eos_token_id is None:
        raise UserError(
            f"--model {name}: its tokenizer has no end-of-text token; set eos_token"
        )
    return found


def load_model(name: str, window: int) -> Any:  # noqa: ANN401
    """Return the model with 32-bit weights, which an optimiser of small steps needs."""
    import torch
    from transformers import AutoModelForCausalLM

    try:
        found = AutoModelForCausalLM.from_pretrained(
            name, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
        )
    except Exception as error:
        raise _unusable("model", name, error) from error
    most = getattr(found.config, "max_position_embeddings", None)
    if most is not None and window > most:
        raise UserError(
            f"--window {window}: {name} takes at most {most}; give a shorter one"
        )
    return found


def encoder(tokenizer: Any) -> Encode:  # noqa: ANN401
    """Return a function from texts to tokens, without tokens at the beginning or end.

    A text that reads like a special token is not one: data are of others.
    """

    def encode(texts: list[str]) -> Sequence[Sequence[int]]:
        found: Sequence[Sequence[int]] = tokenizer(
            texts, add_special_tokens=False, split_special_tokens=True, verbose=False
        )["input_ids"]
        return found

    return encode


def _unusable(what: str, name: str, error: Exception) -> UserError:
    # Transformers raises OSError, ValueError, ImportError and the errors of its parsers.
    words = shortened(str(error), 300) or type(error).__name__
    return UserError(
        f"--model {name}: no {what} could be loaded ({words}); give a folder with safetensors and "
        "a tokenizer, or a name on the hub"
    )
