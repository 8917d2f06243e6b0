"""What the tests of runs share: configurations, options, limits, and reading what was written."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from swe_retry.attempts.config import ModelChoice, RunConfig, RunSettings
from swe_retry.core.settings import EVERY
from swe_retry.core.shutdown import Shutdown
from swe_retry.core.sources import SourcedValue, check_settings, merge_layers
from swe_retry.demo.setup import DEMO_DATASET
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.options import Sampling, names_of
from swe_retry.llm.provider_errors import RetryPolicy
from swe_retry.record.jsonlines import set_aside
from swe_retry.runner.calls.budget import Budget, BudgetLimits, LimitScope
from swe_retry.runner.calls.coordinator import (
    AttemptGate,
    CallCoordinator,
    charge_budget,
    recorded_calls,
)
from swe_retry.runner.calls.journal import JOURNAL
from swe_retry.runner.calls.ledger import LEDGER, Ledger
from swe_retry.runner.calls.rate_limiter import (
    Calls,
    RateLimiter,
    RateLimiterPolicy,
    Rates,
)
from swe_retry.runner.settings import Spending
from tests.support import TOP
from tests.support.provider import Provider

IDS = ("demo__bank-1", "demo__textkit-2", "demo__units-1")
EDIT = (
    'textkit/slug.py\n```python\n<<<<<<< SEARCH\n        else:\n            letters.append("-")\n'
    '=======\n        elif letters and letters[-1] != "-":\n            letters.append("-")\n'
    ">>>>>>> REPLACE\n```\n"
)


# As tests name settings of a run, which are its fields otherwise.
SETTINGS = {
    "agent": "agent.name",
    "agent_allow_web": "agent.allow_web",
    "agent_api": "agent.api",
    "agent_env": "agent.env",
    "agent_from_path": "agent.from_path",
    "agent_home": "agent.home",
    "agent_sandbox": "agent.sandbox",
    "agent_sandbox_read": "agent.sandbox_read",
    "agent_timeout": "agent.timeout",
    "api_base": "calls.api_base",
    "baseline_timeout": "tests.baseline_timeout",
    "cache": "folders.cache",
    "call_timeout": "calls.timeout",
    "dataset": "instances.dataset",
    "cpus_per_instance": "scale.cpus_per_instance",
    "feedback": "agent.feedback",
    "full_suite": "tests.full_suite",
    "give_up_after": "calls.give_up_after",
    "history": "choice.history",
    "ids": "instances.ids",
    "images": "images.disk",
    "jobs": "scale.jobs",
    "map_tokens": "builtin.map_tokens",
    "matching": "builtin.matching",
    "max_calls_per_attempt": "agent.max_calls",
    "memory": "tests.memory",
    "agent_max_record": "agent.max_record",
    "max_output_tokens": "models.max_output_tokens",
    "max_reflections": "builtin.reflections",
    "max_seconds_per_attempt": "budget.seconds_per_attempt",
    "on_failed_edit": "builtin.on_failed_edit",
    "only_valid": "instances.only_valid",
    "out": "folders.out",
    "prior": "instances.prior",
    "ray": "scale.ray",
    "replay": "calls.replay",
    "repos": "folders.repos",
    "require_tests": "tests.required",
    "rounds": "choice.rounds",
    "scripts": "choice.scripts",
    "select": "choice.select",
    "split": "instances.split",
    "stop": "choice.stop",
    "sure": "choice.sure",
    "temperatures": "models.temperatures",
    "test_timeout": "tests.timeout",
    "tests": "tests.which",
    "tests_environment": "tests.environment",
    "trace": "calls.trace",
    "trace_content": "calls.trace_content",
    "tries": "models.tries",
    "workers": "scale.workers",
}


def but(value: RunConfig, **changes: Any) -> RunConfig:
    """Return a configuration with other fields and settings."""
    if "all_attempts" in changes:
        every = "all" if changes.pop("all_attempts") else "plausible"
        changes.setdefault("stop", every)
    fields = {name: item for name, item in changes.items() if name not in SETTINGS}
    layer = {}
    for section, model in value.settings:
        for name in model.model_fields_set:
            setting = f"{section}.{name}"
            layer[setting] = SourcedValue(setting, getattr(model, name))
    for name, item in changes.items():
        if name in SETTINGS:
            layer[SETTINGS[name]] = SourcedValue(SETTINGS[name], item)
    return replace(value, settings=check_settings(RunSettings, layer), **fields)


def config(**changes: Any) -> RunConfig:
    models = tuple(
        ModelChoice.parse(name, replay=True) for name in ("scripted-a", "scripted-b")
    )
    settings = RunSettings(calls=Calls(replay=DEMO_DATASET / "replies"))
    return but(RunConfig(settings, models, run="r"), **changes)


@dataclass(frozen=True)
class Start:
    """Where and how a configuration is run."""

    changes: Mapping[str, Any]

    @property
    def out(self) -> Path:
        out: Path = self.changes["out"]
        return out

    def of(self, config: RunConfig) -> RunConfig:
        """Return the configuration of this start."""
        return but(config, **self.changes)

    def but(self, **changes: Any) -> Start:
        return Start({**self.changes, **changes})


def options(out: Path, cache: Path, *ids: str, **changes: Any) -> Start:
    """Return a start on the demo's instances, by one worker and with short waits."""
    usual = {
        "dataset": "demo",
        "ids": ids,
        "out": out,
        "cache": cache,
        "workers": 1,
        "jobs": 2,
        "retries": RetryPolicy(2, 0.01, 0.05),
        "money": Spending(allow_unpriced=True),
    }
    return Start({**usual, **changes})


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


def read_money(models: Sequence[ModelChoice], **values: Any) -> Spending:
    """Return what may be spent; the keys are the settings' names, the values are as typed."""
    layer = {}
    for name, value in values.items():
        layer[f"budget.{name}"] = SourcedValue(name, value)
    budget = check_settings(RunSettings, merge_layers(RunSettings, [layer])).budget
    return Spending.of(budget, names_of(models))


def heed_interrupts() -> None:
    """Have a child process (``preexec_fn``) take SIGINT, which jobs in the background ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(argv: list[str]) -> subprocess.Popen[bytes]:
    """Start a process that takes SIGINT, with the project's folder as its own."""
    return subprocess.Popen(argv, cwd=TOP, preexec_fn=heed_interrupts)


def ended_over_budget(out: Path) -> bool:
    """Tell whether a limit ended or held back an instance of the run ``r``."""
    files = [
        *(out / "predictions/r").glob("*.json"),
        *(out / "logs/r").glob("*.unfinished.json"),
    ]
    return any(json.loads(path.read_text()).get("status") == "budget" for path in files)


def read(
    out: Path,
    name: str,
    folder: str = "",
) -> dict[str, Any]:
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
        spent: dict[LimitScope, dict[str, Decimal]] = defaultdict(dict)
        for (scope, name), account in budget._accounts.items():
            spent[scope][name] = account.spent
    return Spent(
        usd=spent[LimitScope.RUN].get("", Decimal()),
        by_model=spent[LimitScope.MODEL],
        by_instance=spent[LimitScope.INSTANCE],
        calls=int(spent[LimitScope.CALLS].get("", 0)),
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
    rpm: int | None = None,
    tpm: int | None = None,
    random: float | None = 0.5,
) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    share = Random(1).random if random is None else lambda: random
    return RateLimiter(make_rates(rpm, tpm), POLICY, clock, share), clock


def make_rates(rpm: int | None, tpm: int | None) -> Rates:
    requests = {} if rpm is None else {EVERY: rpm}
    tokens = {} if tpm is None else {EVERY: tpm}
    return Rates(requests, tokens)


def ask_limiter(
    throttle: RateLimiter,
    tokens: int = 1,
    caller: str = "w",
    model: str = "m",
) -> float:
    return throttle.admit(model, "p", tokens, caller)


def opened(throttle: RateLimiter, provider: str = "p") -> None:
    for _ in range(POLICY.failures):
        throttle.note_failure(provider)


def is_open(throttle: RateLimiter, provider: str) -> bool:
    return throttle._provider(provider).open


PROMPT = "def f():"
COUNT = 2


def coordinator(folder: Path) -> Any:
    """Return the coordinator of a run in ``folder``, as a start of the run makes it."""
    set_aside(folder / "ledger.jsonl", LEDGER)
    set_aside(folder / "journals/job.jsonl", JOURNAL)
    calls = CallCoordinator(
        journals=folder / "journals",
        ledger=Ledger.load(folder / "ledger.jsonl"),
        budget=Budget(BudgetLimits(calls=1000)),
        rate_limiter=RateLimiter(Rates(), RateLimiterPolicy(first_wait=0.01)),
        stop=Shutdown(),
    )
    calls.recover("job")
    charge_budget(calls)
    return calls


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
    return model.complete(PROMPT)


def main(folder: Path, url: str) -> None:
    """Print completions of one text: the command ``complete`` of ``Preloaded``."""
    calls = coordinator(folder)
    print(json.dumps({n: complete(calls, url, n).content for n in range(1, COUNT + 1)}))
