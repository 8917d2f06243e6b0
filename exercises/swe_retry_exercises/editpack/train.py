"""``train``: tune a model on rows, by the recipe of EditCoder; write its record and card."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from swe_retry.kit import (
    Shutdown,
    StoppedError,
    UserError,
    check_folder,
    heeding_signals,
    number,
    objects,
    quantity,
    read_object,
    render_text,
    run_lock,
    settings_command,
    write_json_atomic,
    write_text_atomic,
)
from swe_retry_exercises.editpack.files import (
    OUT_FOLDER,
    RowsArgument,
    RowSettings,
    input_record,
    is_decontaminated,
    used_versions,
)
from swe_retry_exercises.editpack.recipe import Recipe
from swe_retry_exercises.editpack.rows import EditRow, JudgedRow, file_digest
from swe_retry_exercises.values import JsonMapping, JsonObject

_RECORD = "train.json"
_CARD = "README.md"
_MAX_LICENCES = 20
_SCORED = (
    "model",
    "problem_set",
    "instruction",
    "prompt",
    "temperature",
    "completions",
)
PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "peft",
    "tokenizers",
    "safetensors",
)


class TrainSettings(RowSettings):
    """All that ``train`` is told."""

    train: Recipe = Recipe()


@settings_command(TrainSettings, "rows")
def main(
    settings: TrainSettings,
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
            help="With --resume on a complete model, write the scores of this report of CanItEdit "
            "into its card.",
        ),
    ] = None,
) -> None:
    """Tune a model on rows: all weights, or an adapter with train.lora."""
    if out is None:
        raise UserError("no --out given; name the folder for the tuned model")
    check_folder("--out", out)
    if (out / _RECORD).exists():
        _update_complete(out, scores, resume=resume)
        return
    if scores:
        raise UserError(f"--scores {scores}: {out} is not trained yet; train it first")
    if not model:
        raise UserError(
            "no --model given; name a local folder with safetensors, or one on the hub"
        )
    recipe = settings.train
    data = input_record(rows, settings.rows)
    data["decontaminated"] = is_decontaminated(data)
    if not (data["decontaminated"] or recipe.contaminated_anyway):
        raise UserError(
            f"{rows}: its report shows no decontamination; run `decontaminate` on it, or "
            "set train.contaminated_anyway=true, which the model's card will state"
        )
    # torchrun and accelerate set both.
    devices = int(os.environ.get("WORLD_SIZE") or 1)
    is_first = os.environ.get("RANK", "0") == "0"
    accumulate = recipe.accumulation(devices)
    _require_packages(PACKAGES)
    from swe_retry_exercises.editpack.trainer import Training

    def say(text: str) -> None:
        if is_first:
            print(text, flush=True)

    def announce_stop(_: str) -> None:
        say("stopping after this step; the same command with --resume goes on")

    checkpoints = out / "checkpoints"
    training = Training(recipe, model, out, checkpoints, devices, resume)
    counts: JsonObject = {"unreadable": 0, "licences": Counter()}
    stop = Shutdown()
    readable = _readable_rows(settings.rows.rows(rows), counts, stop)
    lock = run_lock(checkpoints, "--out") if is_first else nullcontext()
    with heeding_signals(stop, announce_stop, lambda: None), lock:
        try:
            facts = training.run(readable, stop, say)
        except StoppedError as error:
            raise KeyboardInterrupt from error
        facts["corpus"] |= counts
        record = {
            # A path of this machine says nothing elsewhere.
            "model": Path(model).name if Path(model).is_dir() else model,
            "options": {
                "model": model,
                **recipe.model_dump(mode="json", exclude={"contaminated_anyway"}),
                "accumulate": accumulate,
                "devices": devices,
            },
            "data": data,
            "versions": used_versions(PACKAGES),
            **facts,
        }
        if is_first:
            write_text_atomic(out / _CARD, card_of(record))
            write_json_atomic(out / _RECORD, record)
    say(
        f"{quantity(facts['tokens_seen'], 'token')} in {quantity(facts['steps'], 'step')}, the "
        f"last start {facts['seconds']:,.0f} s on {facts['device']}; the model is in {out}"
    )


def _require_packages(names: Iterable[str]) -> None:
    missing = []
    for name in names:
        if find_spec(name) is None:
            missing.append(name)
    if missing:
        raise UserError(
            f"train needs {', '.join(missing)}, not installed here; run `pip install -r "
            "exercises/requirements-train.txt` (exercises/docs/editcoder.md tells how to "
            "choose the CPU build of torch)"
        )


def _readable_rows(
    rows: Iterable[JudgedRow],
    counts: JsonObject,
    stop: Shutdown,
) -> Iterator[EditRow]:
    """Yield the rows; count their licences, and what is no row."""
    for row, why in rows:
        stop.check()
        if why:
            counts["unreadable"] += 1
            continue
        names = row.get("license") or row.get("licenses") or "not stated"
        counts["licences"].update(
            map(str, names if isinstance(names, list) else [names])
        )
        yield row


def _update_complete(out: Path, scores: Path | None, *, resume: bool) -> None:
    if not resume:
        raise UserError(f"{out} holds a tuned model; choose another --out")
    if scores:
        add_scores(out, scores)
    else:
        print(f"{out} is complete; nothing to do")


def add_scores(folder: Path, path: Path) -> None:
    """Write the scores in a report of CanItEdit into record and card of a complete model."""
    fix = "give what `swe_retry_exercises.canitedit report --format json` printed"
    if not path.exists():
        raise UserError(f"--scores {path} does not exist; {fix}")
    rows = []
    for row in objects(read_object(path, fix), "rows"):
        shares = {}
        for name, value in row.items():
            share = number(value)
            if name.startswith("pass@") and share is not None and share <= 1:
                shares[name] = share
        # The other rows are of groups of problems.
        if shares and not row.get("by"):
            rows.append({name: row.get(name) for name in _SCORED} | shares)
    if not rows:
        raise UserError(f"--scores {path} holds no scores; {fix}")
    record = read_object(folder / _RECORD, "train again into another --out")
    digest = file_digest(path)
    record["scores"] = {"file": path.name, "sha256": digest, "rows": rows}
    write_json_atomic(folder / _RECORD, record)
    write_text_atomic(folder / _CARD, card_of(record))
    print(f"wrote {folder / _CARD} with the scores of {path}")


def card_of(record: JsonMapping) -> str:
    """Return the model's card: only what the record holds. Pure."""
    options = record["options"]
    facts = {**options, "steps": record["steps"], "tokens seen": record["tokens_seen"]}
    # A path of this machine says nothing elsewhere.
    del facts["model"]
    losses = [point["loss"] or "infinite" for point in record["held_out_loss"]]
    if losses:
        facts["held-out loss before"] = losses[0]
        facts["held-out loss at the end"] = losses[-1]
    headings: list[str] = []
    scores = []
    for row in objects(record, "scores", "rows"):
        headings = headings or list(row)
        cells = [row[name] for name in _SCORED]
        for name, share in row.items():
            if name not in _SCORED:
                cells.append(f"{100 * share:.2f}")
        scores.append(cells)
    licences = Counter(record["corpus"]["licences"]).most_common(_MAX_LICENCES)
    return render_text(
        Path(__file__).with_name("card.md"),
        record=record,
        facts=facts,
        licences=licences,
        headings=headings,
        scores=scores,
    )
