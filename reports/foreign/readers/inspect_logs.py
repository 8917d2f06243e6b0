"""Read logs of inspect_ai, by its own reader where the package is installed.

A log is a ``.json`` file, or a ``.eval`` file, a zip with a file for each sample. Without the
package the current version of the layout is read (``inspect_ai/log/_log.py``, version 2).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError, UserError
from core.money import total
from core.parsing.untrusted import MIB, MOST_BYTES, DamagedError, json_of
from reports.data.jsonvalues import dollars, mapping, number, objects, text, whole
from reports.data.rundata import UNKNOWN_TOTALS, StepTotals
from reports.foreign.files import FIX, RunFiles, checked_id, json_at, message_step, patch_of
from reports.foreign.model import ASSISTANT, AgentAttempt, AgentStep, AttemptedInstance, folded

ENDING = ".eval"
_VERSION = 2
_MOST_UNPACKED = 4096 * MIB
_ATTACHED = "attachment://"
_PATCH_KEYS = ("model_patch", "patch", "submission")
_LETTERS = {"C": True, "I": False, "N": None, "P": False}


def is_inspect(value: object) -> bool:
    found = mapping(value)
    return isinstance(found.get("eval"), dict) and "status" in found


def read_inspect(files: RunFiles) -> Iterator[AttemptedInstance]:
    """Yield the instances of a log; the epochs of a sample are its attempts."""
    logs = files.ending(ENDING)
    if len(logs) > 1 and not files.root.is_file():
        raise UserError(f"{files.root} holds several logs, as {logs[0]} and {logs[1]}; name one")
    path = logs[0] if logs and not files.root.is_file() else files.root
    if path.suffix == ENDING:
        _check_size(path)
    elif not is_inspect(json_at(path)):
        raise DamagedFileError(path, "is broken (it is not a log of inspect_ai)", FIX)
    own = find_spec("inspect_ai") is not None
    header, samples = _by_package(path) if own else _plainly(path)
    model = text(mapping(header.get("eval")).get("model")) or None
    by_id: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for sample in samples:
        name = checked_id(path, sample.get("id"))
        by_id.setdefault(name, []).append((whole(sample.get("epoch")) or 1, sample))
    for name, epochs in by_id.items():
        yield _instance(path, name, model, epochs)


def _check_size(path: Path) -> None:
    """Check the sizes that a zip states, before it is unpacked."""
    try:
        with zipfile.ZipFile(path) as packed:
            sizes = [info.file_size for info in packed.infolist()]
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DamagedFileError(path, f"is broken ({error})", FIX) from error
    if max(sizes, default=0) > MOST_BYTES or sum(sizes) > _MOST_UNPACKED:
        words = f"is broken (a file in it has more than {MOST_BYTES:,} bytes, or all are too large)"
        raise DamagedFileError(path, words, FIX)


def _by_package(path: Path) -> tuple[Mapping[str, Any], Iterator[Mapping[str, Any]]]:
    from inspect_ai.log import read_eval_log

    try:
        log = read_eval_log(str(path), resolve_attachments=True)
        header = {"eval": {"model": log.eval.model}, "status": log.status}
        samples = log.samples or []
    except Exception as error:  # of another program's reader, on a file of anybody
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise DamagedFileError(path, f"is broken (inspect_ai: {words})", FIX) from error
    # Its values of other types become JSON as in the file.
    return header, (sample.model_dump(mode="json", exclude={"events"}) for sample in samples)


def _plainly(path: Path) -> tuple[Mapping[str, Any], Iterator[Mapping[str, Any]]]:
    if path.suffix != ENDING:
        log = mapping(json_at(path))
        _check_version(path, log)
        return log, (_resolved(sample) for sample in objects(log.get("samples")))
    with zipfile.ZipFile(path) as packed:
        names = sorted(n for n in packed.namelist() if n.startswith("samples/"))
        head = "header.json" if "header.json" in packed.namelist() else "_journal/start.json"
        header = mapping(_member(path, packed, head))
    _check_version(path, header)

    def samples() -> Iterator[Mapping[str, Any]]:
        with zipfile.ZipFile(path) as packed:
            for name in names:
                yield _resolved(mapping(_member(path, packed, name)))

    return header, samples()


def _member(path: Path, packed: zipfile.ZipFile, name: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        with packed.open(name) as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise DamagedError(f"{name} has more than {MOST_BYTES:,} bytes")
        return json_of(data)
    except NotImplementedError as error:
        words = "is packed in a way that needs the package inspect_ai"
        raise DamagedFileError(path, words, "pip install inspect_ai") from error
    except (OSError, KeyError, zipfile.BadZipFile, DamagedError, ValueError) as error:
        raise DamagedFileError(path, f"is broken ({error})", FIX) from error


def _check_version(path: Path, header: Mapping[str, Any]) -> None:
    if header.get("version", _VERSION) != _VERSION:
        words = "has another version than 2, which needs the package inspect_ai"
        raise DamagedFileError(path, words, "pip install inspect_ai")


def _resolved(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    kept = mapping(sample.get("attachments"))

    def put(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, str) and value.startswith(_ATTACHED):
            return text(kept.get(value.removeprefix(_ATTACHED))) or value
        if isinstance(value, dict):
            return {key: put(part) for key, part in value.items()}
        return [put(part) for part in value] if isinstance(value, list) else value

    wanted = ("id", "epoch", "messages", "scores", "model_usage", "error", "total_time", "limit")
    return {key: put(sample[key]) for key in wanted if key in sample} if kept else sample


def _instance(
    path: Path, name: str, model: str | None, epochs: list[tuple[int, Mapping[str, Any]]]
) -> AttemptedInstance:
    epochs.sort(key=lambda pair: pair[0])
    if len({epoch for epoch, _ in epochs}) < len(epochs):
        raise DamagedFileError(path, f"has an epoch of {name} twice", "keep one")
    attempts = tuple(_attempt(path, epoch, model, sample) for epoch, sample in epochs)
    first = attempts[0]
    winner = None if first.patch == "" else first.attempt
    # The first score: a letter, a truth value, or 1.
    scores = mapping(epochs[0][1].get("scores")).values()
    value = mapping(next(iter(scores), None)).get("value")
    share = number(value)
    resolved = None if share is None else share >= 1
    if isinstance(value, (str, bool)):
        resolved = _LETTERS.get(value) if isinstance(value, str) else value
    return AttemptedInstance(name, model, attempts, winner, resolved)


def _attempt(path: Path, epoch: int, model: str | None, sample: Mapping[str, Any]) -> AgentAttempt:
    error = text(mapping(sample.get("error")).get("message"))
    limit = text(mapping(sample.get("limit")).get("type"))
    messages = objects(sample.get("messages"))
    return AgentAttempt(
        attempt=epoch,
        model=model,
        steps=folded([_step(message, n) for n, message in enumerate(messages)]),
        totals=_totals(mapping(sample.get("model_usage")), messages),
        patch=_patch(path, sample),
        exit_status="error" if error else f"{limit} limit" if limit else None,
        seconds=number(sample.get("total_time")),
        error=error,
        source=path,
    )


def _totals(usages: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> StepTotals:
    """Return the sums over models; inspect_ai counts input tokens without cached ones."""
    every = [mapping(one) for one in usages.values()]
    calls = sum(m.get("role") == ASSISTANT for m in messages)
    if not every:
        return StepTotals(calls)
    read, written = (
        [whole(one.get(f"input_tokens_cache_{kind}")) for one in every]
        for kind in ("read", "write")
    )
    fresh = [whole(one.get("input_tokens")) for one in every]
    sent = [whole(one.get("output_tokens")) for one in every]
    costs = [dollars(one.get("total_cost")) for one in every]
    return StepTotals(
        calls=calls,
        prompt_tokens=None if None in fresh else sum(filter(None, [*fresh, *read, *written])),
        cached_tokens=None if None in read else sum(filter(None, read)),
        completion_tokens=None if None in sent else sum(filter(None, sent)),
        cost=total(costs),
    )


def _step(message: Mapping[str, Any], nth: int) -> AgentStep:
    step = message_step(message, f"messages[{nth}]")
    parts = objects(message.get("content"))
    reasoning = "\n".join(text(part.get("reasoning")) for part in parts if "reasoning" in part)
    error = text(mapping(message.get("error")).get("message"))
    shown = "\n".join(filter(None, [step.text, error]))
    totals = StepTotals(calls=1) if step.by_model else UNKNOWN_TOTALS
    return replace(step, text=shown, reasoning=reasoning, totals=totals)


def _patch(path: Path, sample: Mapping[str, Any]) -> str | None:
    """Return the patch that a scorer recorded; None without any."""
    for score in mapping(sample.get("scores")).values():
        recorded = mapping(mapping(score).get("metadata"))
        found = next((recorded[key] for key in _PATCH_KEYS if key in recorded), None)
        if found is not None:
            return patch_of(path, found)
        answer = text(mapping(score).get("answer"))
        if answer.startswith("diff --git "):
            return answer
    return None
