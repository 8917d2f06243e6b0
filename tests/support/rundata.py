"""Runs for tests: small ones as values and in the layout of May 2024, and large ones."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from swe_retry.record.description import Run
from swe_retry.record.records import Attempt
from swe_retry.record.store import RunStore
from swe_retry.results.predictions import Prediction
from swe_retry.results.rundata import InstanceData, RunData
from swe_retry.results.verdicts import Verdict, VerdictStatus, verdict_path
from tests.support import write_json

PATCH = (
    "diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n"
    "@@ -1 +1 @@\n-one = 1\n+one = 2\n"
)
GPT = "gpt-4o"
OPUS = "openrouter/anthropic/claude-3-opus"
LABEL = "aider--gpt-4o--openrouter-anthropic-claude-3-opus"


def an_attempt(attempt: int = 1, **changes: Any) -> Attempt:
    """Return a plausible attempt; nothing is excluded from its patch."""
    values: dict[str, Any] = {
        "attempt": attempt,
        "model": "m",
        "edit_format": "diff",
        "status": "plausible",
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": True,
        "reflections": 0,
        "calls": (),
        "cost": Decimal(1),
        "seconds": 2.0,
        "model_patch": "p",
        "imported": True,
    }
    return Attempt(**{**values, **changes})


def a_verdict(
    name: str,
    *,
    resolved: bool,
    evaluator: str = "docker",
) -> Verdict:
    """Return a verdict on a patch of an instance."""
    status = VerdictStatus.UNRESOLVED
    if resolved:
        status = VerdictStatus.RESOLVED
    return Verdict(instance_id=name, status=status, evaluator=evaluator)


def an_instance(
    name: str = "own__thing-1",
    *,
    resolved: bool | None = True,
    **changes: Any,
) -> InstanceData:
    """Return a resolved and plausible instance of one attempt."""
    values: dict[str, Any] = {
        "instance_id": name,
        "repo": "own/thing",
        "year": 2020,
        "status": "plausible",
        "attempt": 1,
        "model_patch": "p",
        "attempts": (an_attempt(),),
        "cost": Decimal(1),
    }
    if resolved is not None:
        values["verdict"] = a_verdict(name, resolved=resolved)
    return InstanceData(**{**values, **changes})


def a_run(*instances: InstanceData, **changes: Any) -> RunData:
    """Return a run that selected ``instances``."""
    values: dict[str, Any] = {
        "name": "r",
        "folder": Path("r"),
        "model_name_or_path": "me",
        "described": Run(),
        "instances": instances,
        "selected": tuple(sorted(i.instance_id for i in instances)),
        "models": ("m",),
    }
    values |= changes
    if isinstance(values["described"], dict):
        values["described"] = Run.model_validate(values["described"])
    return RunData(**values)


def write_run_data(out: Path, run: RunData) -> Path:
    """Write a run of values and its verdicts below ``out``, and return its folder."""
    store = RunStore(out, run.name)
    _write(store.run_file, {"selected": run.selected, **run.described.as_json()})
    for instance in run.instances:
        name = instance.instance_id
        _write(store.prediction(name), instance.prediction())
        _write(store.trajectory(name), instance.trajectory())
        if instance.verdict:
            _write_verdict_on(store, instance.to_evaluate(), instance.verdict)
        for attempt in instance.attempts:
            verdict = instance.verdicts.get(attempt.attempt)
            if verdict and attempt.patch not in ("", instance.patch):
                label = instance.model_name_or_path
                other = Prediction(name, label, attempt.patch, chosen=False)
                _write_verdict_on(store, other, verdict)
    return store.folder


def _write_verdict_on(
    store: RunStore, prediction: Prediction, verdict: Verdict
) -> None:
    saved = verdict.but(patch_sha256=prediction.patch_sha256)
    _write(verdict_path(store, prediction), saved.as_json())


def old_result(
    attempt: int,
    *,
    good: bool,
    patch: str | None = PATCH,
) -> dict[str, Any]:
    """Return an attempt in the layout of May 2024."""
    return {
        "model_name_or_path": LABEL,
        "model_patch": patch,
        "model": (GPT, OPUS)[(attempt - 1) % 2],
        "cost": 0.5,
        "added_files": ["a.py"],
        "gold_files": ["a.py"],
        "edited_files": ["a.py"],
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": good,
        "try": (attempt + 1) // 2,
    }


def old_prediction(
    name: str,
    attempt: int,
    *,
    resolved: bool,
    good: bool = True,
    patch: str | None = PATCH,
) -> dict[str, Any]:
    """Return a prediction in the layout of May 2024: all attempts failed but the chosen one."""
    results = [old_result(n, good=good and n == attempt) for n in range(1, attempt + 1)]
    results[-1]["model_patch"] = patch
    chosen = {**results[-1], "cost": 0.5 * attempt, "tries": (attempt + 1) // 2}
    named = [{"instance_id": name, **result} for result in results]
    return {"instance_id": name, **chosen, "all_results": named, "resolved": resolved}


def write_run(folder: Path, files: Sequence[Mapping[str, Any]]) -> Path:
    """Write prediction files into ``folder`` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for content in files:
        write_json(folder / f"{content['instance_id']}.json", content)
    return folder


MODELS = ("gpt-4o", "claude-3-opus")
REPOSITORIES = (
    "astropy__astropy",
    "django__django",
    "matplotlib__matplotlib",
    "pallets__flask",
    "psf__requests",
    "pytest-dev__pytest",
    "scikit-learn__scikit-learn",
    "sympy__sympy",
)
GENERATED_LABEL = "retry--gpt-4o--claude-3-opus"
_WORDS = (
    "the",
    "query",
    "returns",
    "value",
    "of",
    "matrix",
    "when",
    "self",
    "None",
    "a",
    "fails",
)


def write_generated_run(
    folder: Path,
    instances: int = 300,
    attempts: int = 6,
    seed: int = 1,
) -> Path:
    """Write the run below ``folder``, and return its folder ``predictions/generated``."""
    chance = random.Random(seed)
    run = folder / "predictions" / "generated"
    names = []
    for number in range(10000, 10000 + instances):
        names.append(f"{chance.choice(REPOSITORIES)}-{number}")
    _write(run / "run.json", _described(names))
    for name in names:
        _write_instance(run, folder / "logs" / "generated", name, attempts, chance)
    return run


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_text(text, encoding="utf-8")


def _described(names: list[str]) -> dict[str, Any]:
    return {
        "run": "generated",
        "model_name_or_path": GENERATED_LABEL,
        "dataset": {"name": "lite", "split": "test", "sha256": "0" * 64},
        "config": {"models": [{"name": model} for model in MODELS], "tries": 3},
        "versions": {"harness": "0.2.0", "swebench": "5.0.2", "litellm": "1.106.2"},
        "started": "2026-01-01T00:00:00+00:00",
        "selected": names,
    }


def _write_instance(
    run: Path,
    logs: Path,
    name: str,
    attempts: int,
    chance: random.Random,
) -> None:
    plausible = chance.random() < 0.7
    winner = chance.choice([1, 1, 1, 2, 2, 3, attempts])
    winner = min(winner, attempts)
    results = []
    for number in range(1, attempts + 1):
        results.append(_result(name, number, plausible and number == winner, chance))
    chosen = results[winner - 1]
    status = "fallback"
    if plausible:
        status = "plausible"
    reason = f"attempt {winner} is {'plausible' if plausible else 'the least bad'}"
    prediction = {
        **chosen,
        "status": status,
        "reason": reason,
        "cost": round(sum(result["cost"] for result in results), 6),
        "all_results": results,
    }
    _write(run / f"{name}.json", prediction)
    trajectory = {
        "instance_id": name,
        "status": status,
        "reason": reason,
        "winner": winner,
        "attempts": list(_conversations(name, results, chance)),
    }
    _write(run / "trajectories" / f"{name}.json", trajectory)
    _write_verdict(run, logs, chosen, chance)


def _result(
    name: str,
    number: int,
    plausible: bool,
    chance: random.Random,
) -> dict[str, Any]:
    path = f"{name.split('__')[1].split('-')[0]}/core/part{chance.randrange(40)}.py"
    return {
        "instance_id": name,
        "model_name_or_path": GENERATED_LABEL,
        "model_patch": _patch(path, chance),
        "model": MODELS[(number - 1) % 2],
        "temperature": 0.0,
        "cost": round(chance.uniform(0.01, 0.6), 6),
        "added_files": [path],
        "edited_files": [path],
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": plausible,
        "try": (number + 1) // 2,
        "attempt": number,
        "status": "plausible" if plausible else "tests_failed",
    }


def _patch(path: str, chance: random.Random) -> str:
    lines = [f"diff --git a/{path} b/{path}", f"--- a/{path}", f"+++ b/{path}"]
    for number in range(chance.randint(1, 5)):
        start = 20 + 40 * number
        lines += [f"@@ -{start},7 +{start},7 @@ class Part:"]
        lines += [f"     {line}" for line in _lines(3, chance)]
        lines += [f"-    {line}" for line in _lines(1, chance)]
        lines += [f"+    {line}" for line in _lines(1, chance)]
        lines += [f"     {line}" for line in _lines(3, chance)]
    return "\n".join(lines) + "\n"


def _lines(count: int, chance: random.Random) -> list[str]:
    return [" ".join(chance.choices(_WORDS, k=9)) for _ in range(count)]


def _conversations(
    name: str,
    results: list[dict[str, Any]],
    chance: random.Random,
) -> Iterator[dict[str, Any]]:
    issue = "\n".join(_lines(25, chance))
    opening = f"{_text(8_000, chance)}\n<issue>\n{issue}\n</issue>\n\nWhich files must be seen?"
    for result in results:
        rounds = [
            _text(chance.choice([2_000, 15_000, 40_000]), chance) for _ in range(3)
        ]
        replies = [
            f"I change {result['edited_files'][0]}.\n{_text(1_500, chance)}"
            for _ in rounds
        ]
        users = [opening, *rounds]
        messages = [
            {"role": "system", "content": "You are an expert software engineer."}
        ]
        for user, reply in zip(users, ["part.py", *replies], strict=True):
            messages += [
                {"role": "user", "content": user},
                {"role": "assistant", "content": reply},
            ]
        yield {
            **{key: result[key] for key in ("attempt", "try", "model", "status")},
            "edit_format": "diff",
            "messages": messages,
            "calls": [_call(result) for _ in users],
            "reflections": len(users) - 1,
            "seconds": chance.uniform(20, 200),
            "error": "",
            "recorded": {"model_patch": result["model_patch"]},
        }


def _call(result: dict[str, Any]) -> dict[str, Any]:
    usage = {"prompt_tokens": 9000, "completion_tokens": 500, "cached_tokens": 4000}
    return {
        "content": "",
        "model": result["model"],
        "usage": usage,
        "cost": result["cost"] / 4,
        "seconds": 9.5,
    }


def _text(length: int, chance: random.Random) -> str:
    line = " ".join(chance.choices(_WORDS, k=12))
    return "\n".join(
        f"    {number} {line}" for number in range(length // (len(line) + 9))
    )


def _write_verdict(
    run: Path,
    logs: Path,
    chosen: dict[str, Any],
    chance: random.Random,
) -> None:
    name = chosen["instance_id"]
    resolved = chance.random() < 0.3
    verdict = {
        "instance_id": name,
        "status": "resolved" if resolved else "unresolved",
        "resolved": resolved,
        "evaluator": "docker",
        "official": True,
        "patch_sha256": hashlib.sha256(chosen["model_patch"].encode()).hexdigest(),
    }
    _write(run / "verdicts" / f"{name}.json", verdict)
    _write(logs / f"{name}.{GENERATED_LABEL}.eval.log", _text(20_000, chance))
