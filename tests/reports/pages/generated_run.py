"""Write an invented run of any size.

Texts are as long as in real runs of SWE-bench Lite (about 70 kB of conversation per attempt, mostly
files shown to the model).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODELS = ("gpt-4o", "claude-3-opus")
REPOSITORIES = (
    "astropy__astropy", "django__django", "matplotlib__matplotlib", "pallets__flask",
    "psf__requests", "pytest-dev__pytest", "scikit-learn__scikit-learn", "sympy__sympy",
)  # fmt: skip
LABEL = "retry--gpt-4o--claude-3-opus"
_WORDS = ("the", "query", "returns", "value", "of", "matrix", "when", "self", "None", "a", "fails")


def write_run(folder: Path, instances: int = 300, attempts: int = 6, seed: int = 1) -> Path:
    """Write the run below ``folder``, and return its folder ``predictions/generated``."""
    chance = random.Random(seed)
    run = folder / "predictions" / "generated"
    names = [
        f"{chance.choice(REPOSITORIES)}-{number}" for number in range(10000, 10000 + instances)
    ]
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
        "model_name_or_path": LABEL,
        "dataset": {"name": "lite", "split": "test", "sha256": "0" * 64},
        "config": {"models": [{"name": model} for model in MODELS], "tries": 3},
        "versions": {"harness": "0.2.0", "swebench": "5.0.2", "litellm": "1.106.2"},
        "started": "2026-01-01T00:00:00+00:00",
        "selected": names,
    }


def _write_instance(run: Path, logs: Path, name: str, attempts: int, chance: random.Random) -> None:
    plausible = chance.random() < 0.7
    winner = chance.choice([1, 1, 1, 2, 2, 3, attempts])
    winner = min(winner, attempts)
    results = [
        _result(name, number, plausible and number == winner, chance)
        for number in range(1, attempts + 1)
    ]
    chosen = results[winner - 1]
    status = "plausible" if plausible else "fallback"
    words = f"attempt {winner} is {'plausible' if plausible else 'the least bad'}"
    prediction = {
        **chosen,
        "status": status,
        "reason": words,
        "cost": round(sum(result["cost"] for result in results), 6),
        "all_results": results,
    }
    _write(run / f"{name}.json", prediction)
    trajectory = {
        "instance_id": name,
        "status": status,
        "reason": words,
        "winner": winner,
        "attempts": list(_said(name, results, chance)),
    }
    _write(run / "trajectories" / f"{name}.json", trajectory)
    _write_verdict(run, logs, chosen, chance)


def _result(name: str, number: int, plausible: bool, chance: random.Random) -> dict[str, Any]:
    path = f"{name.split('__')[1].split('-')[0]}/core/part{chance.randrange(40)}.py"
    return {
        "instance_id": name,
        "model_name_or_path": LABEL,
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


def _said(
    name: str, results: list[dict[str, Any]], chance: random.Random
) -> Iterator[dict[str, Any]]:
    issue = "\n".join(_lines(25, chance))
    opening = f"{_text(8_000, chance)}\n<issue>\n{issue}\n</issue>\n\nWhich files must be seen?"
    for result in results:
        rounds = [_text(chance.choice([2_000, 15_000, 40_000]), chance) for _ in range(3)]
        replies = [f"I change {result['edited_files'][0]}.\n{_text(1_500, chance)}" for _ in rounds]
        users = [opening, *rounds]
        messages = [{"role": "system", "content": "You are an expert software engineer."}]
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
    return {"model": result["model"], "usage": usage, "cost": result["cost"] / 4, "seconds": 9.5}


def _text(length: int, chance: random.Random) -> str:
    line = " ".join(chance.choices(_WORDS, k=12))
    return "\n".join(f"    {number} {line}" for number in range(length // (len(line) + 9)))


def _write_verdict(run: Path, logs: Path, chosen: dict[str, Any], chance: random.Random) -> None:
    name, resolved = chosen["instance_id"], chance.random() < 0.3
    verdict = {
        "instance_id": name,
        "status": "resolved" if resolved else "unresolved",
        "resolved": resolved,
        "evaluator": "docker",
        "official": True,
        "patch_sha256": hashlib.sha256(chosen["model_patch"].encode()).hexdigest(),
    }
    _write(run / "verdicts" / f"{name}.json", verdict)
    _write(logs / f"{name}.{LABEL}.eval.log", _text(20_000, chance))
