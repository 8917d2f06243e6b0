"""What the tests of runs share: configurations, options, limits, and reading what was written."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from bench.config import ModelChoice, RunConfig
from bench.options import Options
from bench.selection import Selection
from core.options import built
from core.shutdown import Shutdown
from demo.setup import DEMO_DATASET
from llm.client import LiteLLMModel
from llm.options import Sampling, names_of
from llm.provider_errors import RetryPolicy
from runs.calls.budget import Budget, BudgetLimits, PerModel
from runs.calls.coordinator import (
    AttemptGate,
    CallCoordinator,
    charge_budget,
    recorded_calls,
)
from runs.calls.journal import JOURNAL
from runs.calls.ledger import LEDGER, Ledger
from runs.calls.rate_limiter import RateLimiter, RateLimiterPolicy, Rates
from runs.options import Scale, Spending
from runs.storage.jsonlines import set_aside
from tests.support import TOP
from tests.support.provider import Provider

IDS = ("demo__bank-1", "demo__textkit-2", "demo__units-1")
EDIT = (
    'textkit/slug.py\n```python\n<<<<<<< SEARCH\n        else:\n            letters.append("-")\n'
    '=======\n        elif letters and letters[-1] != "-":\n            letters.append("-")\n'
    ">>>>>>> REPLACE\n```\n"
)


def config(**changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "models": tuple(
            ModelChoice.parse(n, replay=True) for n in ("scripted-a", "scripted-b")
        ),
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
        "usd": "budget_usd",
        "usd_per_instance": "budget_usd_per_instance",
        "usd_per_model": "budget_usd_per_model",
        "calls": "max_calls",
        "prices": "price",
    }
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
    files = [
        *(out / "predictions/r").glob("*.json"),
        *(out / "logs/r").glob("*.unfinished.json"),
    ]
    return any(json.loads(path.read_text()).get("status") == "budget" for path in files)


def read(out: Path, name: str, folder: str = "") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (out / "predictions/r" / folder / f"{name}.json").read_text()
    )
    return content


@dataclass(frozen=True)
class Spent:
    usd: Decimal
    by_model: Mapping[str, Decimal]
    by_instance: Mapping[str, Decimal]
    calls: int


def spent_of(budget: Budget) -> Spent:
    with budget._lock:
        return Spent(
            usd=budget._run.spent,
            by_model={name: account.spent for name, account in budget._models.items()},
            by_instance={
                name: account.spent for name, account in budget._instances.items()
            },
            calls=int(budget._calls.spent),
        )


POLICY = RateLimiterPolicy(
    failures=3, first_wait=2, longest_wait=60, probe_patience=300
)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def make_limiter(
    rpm: int | None = None, tpm: int | None = None, random: float | None = 0.5
) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    share = Random(1).random if random is None else lambda: random
    return RateLimiter(Rates(PerModel(rpm), PerModel(tpm)), POLICY, clock, share), clock


def ask_limiter(
    throttle: RateLimiter, tokens: int = 1, caller: str = "w", model: str = "m"
) -> float:
    return throttle.admit(model, "p", tokens, caller)


def opened(throttle: RateLimiter, provider: str = "p") -> None:
    for _ in range(POLICY.failures):
        throttle.failed(provider)


def is_open(throttle: RateLimiter, provider: str) -> bool:
    return throttle._provider(provider).open


PROMPT = "def f():"
COUNT = 2


def coordinator(folder: Path) -> Any:
    """Return the coordinator of a run in ``folder``, as a start of the run makes it."""
    set_aside(folder / "ledger.jsonl", LEDGER)
    set_aside(folder / "journals/job.jsonl", JOURNAL)
    found = CallCoordinator(
        journals=folder / "journals",
        ledger=Ledger.load(folder / "ledger.jsonl"),
        budget=Budget(BudgetLimits(calls=1000)),
        rate_limiter=RateLimiter(Rates(), RateLimiterPolicy(first_wait=0.01)),
        stop=Shutdown(),
    )
    found.recover("job")
    charge_budget(found)
    return found


def complete(calls: Any, url: str, number: int) -> Any:
    """Return completion ``number`` of the text, with its own seed."""
    recorded = recorded_calls(calls.entries("job"), number)
    model = LiteLLMModel(
        "gpt-4o",
        0.2,
        300.0,
        max_output_tokens=64,
        api_base=url,
        sampling=Sampling(top_p=0.95, seed=number),
        retries=RetryPolicy(3, 0.01, 0.01),
        gate=AttemptGate(calls, "job", number, recorded, calls.stop.wait),
    )
    return model.complete_text(PROMPT)


def main(folder: Path, url: str) -> None:
    """Print completions of one text: the command ``complete`` of ``Preloaded``."""
    calls = coordinator(folder)
    print(json.dumps({n: complete(calls, url, n).content for n in range(1, COUNT + 1)}))
