"""What a tuned folder holds besides the model: ``train.json`` and the card."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.atomic import write_json_atomic, write_text_atomic
from core.errors import UserError
from core.parsing.untrusted import read_object
from core.plaintext import counted, one_line, table
from exercises.editpack.rows import file_digest

if TYPE_CHECKING:
    from exercises.editpack.training.trainer import Trained

_RECORD, _CARD = "train.json", "README.md"
_LOSS, _HELD_OUT = "loss", "eval_loss"
_SHOWN_LICENCES = 20


def _curve(log: Any, key: str) -> list[dict[str, Any]]:  # noqa: ANN401 - of the trainer
    return [
        # JSON has no infinity.
        {
            "step": one["step"],
            "epoch": one.get("epoch"),
            "loss": one[key] if math.isfinite(one[key]) else None,
        }
        for one in log
        if key in one
    ]


def finished(folder: Path) -> bool:
    return (folder / _RECORD).is_file()


def write_record(
    folder: Path,
    facts: Mapping[str, Any],
    trained: Trained,
    tokens: int,
    timed_tokens: int,
) -> str:
    """Write card and record, the record last; return a line that says what was done.

    Args:
        tokens: over all epochs and starts.
        timed_tokens: since the last start, which ``trained.seconds`` measures.
    """
    record = {
        **facts,
        "device": trained.device,
        "memory_bytes": trained.memory_bytes,
        "steps": trained.steps,
        "tokens_seen": tokens,
        "seconds": round(trained.seconds, 3),
        "tokens_a_second": round(timed_tokens / trained.seconds, 1),
        "loss": _curve(trained.log, _LOSS),
        "held_out_loss": _curve(trained.log, _HELD_OUT),
        "scores": None,
    }
    write_text_atomic(folder / _CARD, card_of(record))
    write_json_atomic(folder / _RECORD, record)
    timed_steps = trained.steps - trained.first_step
    return (
        f"{counted(timed_steps, 'step')}, {counted(timed_tokens, 'token')} in "
        f"{record['seconds']:,.0f} s on {trained.device}; the model is in {folder}"
    )


def rewrite_card(folder: Path, scores: Path | None) -> str:
    """Write the card of a complete training again, with measured scores if there are any."""
    record = read_object(folder / _RECORD, "train again into another --out")
    if scores is None:
        return f"{folder} is complete; nothing to do"
    record["scores"] = _measured(scores)
    write_json_atomic(folder / _RECORD, record)
    write_text_atomic(folder / _CARD, card_of(record))
    return f"wrote {folder / _CARD} with the scores of {scores}"


def _measured(path: Path) -> dict[str, Any]:
    fix = "give what `exercises.canitedit report --format json` printed"
    try:
        report = read_object(path, fix)
    except FileNotFoundError:
        raise UserError(f"--scores {path} does not exist; {fix}") from None
    try:
        rows = [
            {
                "model": model["name"],
                "problems": model["problems"],
                "instruction": kind,
                "prompt": model["prompt"],
                "temperature": model["temperature"],
                "completions": groups[0]["completions"],
                "k": int(k),
                "pass": float(estimate["mean"]),
            }
            for model in report["models"]
            for kind, groups in model["figures"].items()
            for k, estimate in groups[0]["pass_at_k"].items()
            if estimate is not None
        ]
    except (KeyError, TypeError, AttributeError):
        rows = []
    if not rows:
        raise UserError(f"--scores {path} holds no scores; {fix}")
    return {"file": path.name, "sha256": file_digest(path), "rows": rows}


def card_of(record: Mapping[str, Any]) -> str:
    """Return the model's card: only what the record holds. Pure."""
    return "\n".join(
        [*_front(record), *_training(record), *_data(record), *_scores(record), ""]
    )


def _front(record: Mapping[str, Any]) -> Iterator[str]:
    name = one_line(str(record["model"]))
    kind = "adapter (LoRA)" if record["options"].get("lora") else "model"
    yield f"# {name}, tuned for editing code"
    yield ""
    yield (
        f"This {kind} is made from {name} ({record['parameters']:,} parameters) by "
        "`python -m exercises.editpack train`. It continues the prompt `editcoder`: code before, "
        "instruction, code after. `train.json` has all options and the loss of each step."
    )


def _training(record: Mapping[str, Any]) -> Iterator[str]:
    options = record["options"]
    yield "\n## Training\n"
    rows = [
        (
            "learning rate",
            f"{options['lr']:g}, linear, {options['warmup']} warm-up steps",
        ),
        ("weight decay", f"{options['weight_decay']:g}"),
        ("window", f"{options['window']:,} tokens"),
        ("windows a step", f"{options['step_windows']:,}"),
        ("epochs asked for", options["epochs"]),
        ("steps", f"{record['steps']:,}"),
        ("tokens seen", f"{record['tokens_seen']:,}"),
        ("device", record["device"]),
        ("seconds", f"{record['seconds']:,.0f}"),
    ]
    if curve := record["held_out_loss"]:
        first, last = map(_loss, (curve[0], curve[-1]))
        rows.append(("held-out loss", f"{first} before, {last} at the end"))
    yield from table(("", ""), rows, markdown=True)


def _loss(point: Mapping[str, Any]) -> str:
    return "infinite" if point["loss"] is None else f"{point['loss']:.4f}"


def _data(record: Mapping[str, Any]) -> Iterator[str]:
    data = record["data"]
    corpus = record["corpus"]
    yield "\n## Data\n"
    yield (
        f"{counted(corpus['documents'], 'edit')} of `{one_line(str(data['name']))}`, SHA-256 "
        f"`{data['sha256']}`; {counted(corpus['held_out_documents'], 'edit')} of them held out."
    )
    yield ""
    if data["decontaminated"]:
        yield "Their report shows that they went through `decontaminate`."
    else:
        yield (
            "**Not decontaminated**: the training was started with `train.contaminated_anyway`, so "
            "problems of benchmarks may be among the data, and scores may be too high."
        )
    yield "\nLicences that the edits name:\n"
    licences = sorted(corpus["licences"].items(), key=lambda pair: (-pair[1], pair[0]))
    shown = licences[:_SHOWN_LICENCES]
    if others := len(licences) - len(shown):
        rest = sum(number for _, number in licences[_SHOWN_LICENCES:])
        shown.append((f"{others:,} others", rest))
    rows = [(name, f"{number:,}") for name, number in shown]
    yield from table(("licence", "edits"), rows, numbers={1}, markdown=True)


def _scores(record: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## Scores\n"
    scores = record["scores"]
    if not scores:
        yield "None was measured."
        return
    yield f"From `{one_line(scores['file'])}`, SHA-256 `{scores['sha256']}`:\n"
    heading = (
        "model",
        "problems",
        "instruction",
        "prompt",
        "temperature",
        "score",
        "per cent",
    )
    rows = [
        (
            one["model"],
            one["problems"],
            one["instruction"],
            one["prompt"],
            one["temperature"],
            f"pass@{one['k']} of {one['completions']}",
            f"{100 * one['pass']:.2f}",
        )
        for one in scores["rows"]
    ]
    yield from table(heading, rows, numbers={6}, markdown=True)
