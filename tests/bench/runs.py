"""What the tests of whole runs share: configurations, options, and reading what was written."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.config import ModelChoice, RunConfig
from bench.options import Options
from bench.selection import Selection
from core.options import built
from demo.setup import DEMO_DATASET
from llm.client import RetryPolicy
from llm.options import names_of
from runs.options import Scale, Spending
from tests.provider import Provider

TOP = Path(__file__).resolve().parents[2]
IDS = ("demo__bank-1", "demo__textkit-2", "demo__units-1")
EDIT = (
    'textkit/slug.py\n```python\n<<<<<<< SEARCH\n        else:\n            letters.append("-")\n'
    '=======\n        elif letters and letters[-1] != "-":\n            letters.append("-")\n'
    ">>>>>>> REPLACE\n```\n"
)


def config(**changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "models": tuple(ModelChoice.parse(n, replay=True) for n in ("scripted-a", "scripted-b")),
        "replay": DEMO_DATASET / "replies",
        "run": "r",
    }
    return RunConfig(**{**values, **changes})


def options(out: Path, cache: Path, *ids: str, **changes: Any) -> Options:
    values: dict[str, Any] = {
        "dataset": "demo",
        "split": "test",
        "selection": Selection(ids),
        "out": out,
        "cache": cache,
        "retries": RetryPolicy(2, 0.01, 0.05),
        "money": Spending(allow_unpriced=True),
        "scale": Scale(workers=1, jobs=2),
    }
    return Options(**{**values, **changes})


def live(provider: Provider, **changes: Any) -> RunConfig:
    names = ("gpt-4o", "gpt-4o-mini")
    values: dict[str, Any] = {
        "models": tuple(ModelChoice.parse(name, any_name=True) for name in names),
        "api_base": provider.url,
        "call_timeout": 2,
        "replay": None,
        "tries": 1,
    }
    return config(**{**values, **changes})


def read_money(models: Sequence[ModelChoice], **given: Any) -> Spending:
    """Return what may be spent; the keys are the fields' names, the values are as typed."""
    names = {
        "usd": "budget_usd", "usd_per_instance": "budget_usd_per_instance",
        "usd_per_model": "budget_usd_per_model", "calls": "max_calls", "prices": "price",
    }  # fmt: skip
    values = {names[name]: value for name, value in given.items()}
    return built(Spending, values, names_of(models))


def heed_interrupts() -> None:
    """Have a child process (``preexec_fn``) take SIGINT, which jobs in the background ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(words: list[str]) -> subprocess.Popen[bytes]:
    """Start a process that takes SIGINT, with the project's folder as its own."""
    return subprocess.Popen(words, cwd=TOP, preexec_fn=heed_interrupts)


def ended_over_budget(out: Path) -> bool:
    """Tell whether a limit ended or held back an instance of the run ``r``."""
    files = [*(out / "predictions/r").glob("*.json"), *(out / "logs/r").glob("*.unfinished.json")]
    return any(json.loads(path.read_text()).get("status") == "budget" for path in files)


def read(out: Path, name: str, folder: str = "") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (out / "predictions/r" / folder / f"{name}.json").read_text()
    )
    return content
