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
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from core.atomic import check_folder
from core.errors import StoppedError, UserError
from core.plaintext import Say, counted, shortened
from core.settings import CommandLine, Section, command
from core.shutdown import Shutdown
from exercises.editpack.files import (
    OUT_FOLDER,
    RowsArgument,
    RowSettings,
    decontaminated,
    used_versions,
)
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


class Recipe(Section):
    """What decides the weights, besides model, data and devices."""

    window: int = Field(
        default=8192, ge=2, description="Cut windows of so many tokens."
    )
    epochs: int = Field(
        default=8,
        ge=1,
        description="Train on each window so many times, in an order of its own each time.",
    )
    lr: float = Field(
        default=2e-5,
        ge=0,
        description="Use this as the highest learning rate; it falls linearly to 0.",
    )
    warmup: int = Field(
        default=10,
        ge=0,
        description="Let the learning rate rise for so many steps.",
    )
    weight_decay: float = Field(
        default=0.05, ge=0, description="Use this weight decay of AdamW."
    )
    step_windows: int = Field(
        default=32,
        ge=1,
        description="Take so many windows a step: batch x accumulate x devices.",
    )
    batch: int = Field(
        default=1, ge=1, description="Let a device hold so many windows at once."
    )
    accumulate: int | None = Field(
        default=None,
        ge=1,
        description="Take so many batches of a device in a step; by default what "
        "train.step_windows needs.",
    )
    max_steps: int = Field(
        default=0, ge=0, description="End after so many steps; 0: after the epochs."
    )
    held_out: float = Field(
        default=HELD_OUT,
        ge=0,
        lt=1,
        description="Measure the loss on this share of the documents.",
    )
    lora: bool = Field(
        default=False, description="Train an adapter with peft; the model stays."
    )
    seed: int = Field(
        default=0,
        ge=0,
        lt=_SEEDS,
        description="Order documents, and make an adapter's first weights, by this seed.",
    )
    deepspeed: Path | None = Field(
        default=None,
        description="Use this configuration of DeepSpeed, for several devices.",
    )
    contaminated_anyway: bool = Field(
        default=False,
        description="Train on data that did not go through decontaminate.",
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


class TrainSettings(RowSettings):
    """All that ``train`` is told."""

    train: Recipe = Recipe()


@dataclass(frozen=True)
class TrainingRequest:
    """What is trained on which rows, and how.

    Attributes:
        model: a local folder with safetensors, or a name on the hub.
        out: the folder for the tuned model.
        resume: go on from the last checkpoint there.
    """

    recipe: Recipe
    source: RowSource
    model: str
    out: Path
    resume: bool


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
    windows = recipe.step_windows
    accumulate = recipe.accumulate or max(windows // (recipe.batch * devices), 1)
    shape = StepShape(recipe.batch, accumulate, devices)
    if shape.windows == windows:
        return shape
    problem = (
        f"train.batch={shape.batch} x train.accumulate={shape.accumulate} x "
        f"{counted(devices, 'device')} is {counted(shape.windows, 'window')} a step, not {windows}"
    )
    if windows % devices:
        raise UserError(
            f"{problem}; set train.step_windows={shape.windows}, or give another number of devices"
        )
    batch = min(recipe.batch, windows)
    while windows % (batch * devices):
        batch -= 1
    raise UserError(
        f"{problem}; set train.batch={batch} and train.accumulate={windows // (batch * devices)} "
        f"on {counted(devices, 'device')}, or train.step_windows={shape.windows}"
    )


def launched_devices() -> int | None:
    """Return the number of processes that torchrun or accelerate started, None without them."""
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isdecimal() and int(text) else None


def is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"


@command(TrainSettings, ())
def main(
    line: CommandLine[TrainSettings],
    rows: RowsArgument = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Tune this model: a local folder with safetensors, or a name on the hub.",
        ),
    ] = None,
    out: Annotated[Path | None, OUT_FOLDER] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the last checkpoint in --out."),
    ] = False,
    scores: Annotated[
        Path | None,
        typer.Option(
            "--scores",
            metavar="FILE",
            help="Write what `exercises.canitedit report --format json` printed into the model's "
            "card.",
        ),
    ] = None,
) -> None:
    """Tune a model on rows: all weights, or an adapter with train.lora."""
    settings = line.load()
    if line.prints(settings, rows):
        return
    if out is None:
        raise UserError("no --out given; name the folder for the tuned model")
    check_folder("--out", out)
    if finished(out):
        if not resume:
            raise UserError(f"{out} holds a tuned model; choose another --out")
        print(rewrite_card(out, scores))
        return
    if scores:
        raise UserError(f"--scores {scores}: {out} is not trained yet; train it first")
    if not model:
        raise UserError(
            "no --model given; name a local folder with safetensors, or one on the hub"
        )
    source = settings.rows.source(rows)
    request = TrainingRequest(settings.train, source, model, out, resume)
    stop = Shutdown()
    notice = "stopping after this step; the same command with --resume goes on"
    with heeding_signals(stop, lambda _: print(notice, flush=True), lambda: None):
        try:
            train(request, stop, lambda text: print(text, flush=True))
        except StoppedError:
            raise typer.Exit(INTERRUPTED) from None


def train(request: TrainingRequest, stop: Shutdown, say: Say) -> None:
    """Train, and write the tuned folder."""
    recipe = request.recipe
    record = checked_record(
        request.source, contaminated_anyway=recipe.contaminated_anyway
    )
    shape = step_shape(recipe, launched_devices() or 1)
    require_packages(deepspeed=recipe.deepspeed is not None)
    checkpoints = request.out / _CHECKPOINTS
    if not is_first_process():
        checkpoints.mkdir(parents=True, exist_ok=True)
        _train(request, record, shape, stop, lambda text: None)
        return
    with run_lock(checkpoints, "--out"):
        _train(request, record, shape, stop, say)


def _train(
    request: TrainingRequest,
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
    recipe = request.recipe
    checkpoints = request.out / _CHECKPOINTS
    if shape.devices == 1:
        check_devices()
    checkpoint = last_checkpoint(checkpoints)
    if checkpoint and not request.resume:
        raise UserError(
            f"{request.out} holds a training; give --resume, or another --out"
        )
    try:
        settings = file_digest(recipe.deepspeed) if recipe.deepspeed else None
    except OSError as error:
        raise UserError(
            f"train.deepspeed {recipe.deepspeed} cannot be read ({error.strerror})"
        ) from error
    tokenizer = load_tokenizer(request.model)
    model = load_model(request.model, recipe.window)
    parameters = model.num_parameters()  # an adapter would be counted later
    encode, end = encoder(tokenizer), tokenizer.eos_token_id
    documents, counts_of_tokens = tokenized(request.source, encode, end, stop.check)
    data, counts = _packed(documents, request)
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
    )
    trained = train_windows(run, stop, say, request.out)
    if not is_first_process():
        return
    tokenizer.save_pretrained(str(request.out))
    seen = recipe.windows_seen(data.each, trained.steps) * recipe.window
    seen_before = recipe.windows_seen(data.each, trained.first_step) * recipe.window
    facts = {
        # A path of this machine says nothing elsewhere.
        "model": Path(request.model).name
        if Path(request.model).is_dir()
        else request.model,
        "parameters": parameters,
        "options": {
            "model": request.model,
            **recipe.model_dump(exclude={"deepspeed", "contaminated_anyway"}),
            **asdict(shape),
            "deepspeed_sha256": settings,
        },
        "data": {**record, "decontaminated": decontaminated(record)},
        "corpus": {**counts, **counts_of_tokens},
        "versions": used_versions(PACKAGES),
    }
    say(write_record(request.out, facts, trained, seen, seen - seen_before))


def _packed(
    documents: Documents, request: TrainingRequest
) -> tuple[TrainingSet, dict[str, int]]:
    recipe = request.recipe
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
            f"{request.source.name}: {counted(tokens, 'token')} to train on are less than a "
            f"window of {recipe.window}; set a shorter train.window, or give more rows"
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
            "train.deepspeed needs deepspeed, which is not installed; install it with pip"
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
            f"train.window {window}: {name} takes at most {most}; give a shorter one"
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
