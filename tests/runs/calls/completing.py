"""Asks a model for completions of one text in processes that can be made to die at a chosen write.

Started as a script it reads one order a line (folder, write number, torn) and forks a process for
each; see ``tests.runs.killable``.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[3]
PROMPT = "def f():"
COUNT = 2


@dataclass(frozen=True)
class Order:
    """One process: its folder, the server, and the number of the write at which it dies."""

    folder: str
    url: str
    kill_at: int
    torn: bool = False


def coordinator(folder: Path) -> Any:
    """Return the coordinator of a run in ``folder``, as a start of the run makes it."""
    from core.shutdown import Shutdown
    from runs.calls.budget import Budget, BudgetLimits
    from runs.calls.coordinator import CallCoordinator, charge_budget
    from runs.calls.journal import JOURNAL
    from runs.calls.ledger import LEDGER, Ledger
    from runs.calls.rate_limiter import RateLimiter, RateLimiterPolicy, Rates
    from runs.storage.jsonlines import set_aside

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
    from llm.client import LiteLLMModel
    from llm.options import Sampling
    from llm.provider_errors import RetryPolicy
    from runs.calls.coordinator import AttemptGate, recorded_calls

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


def _be(order: Order) -> None:
    from tests.runs.killable import Bomb

    bomb = Bomb(order.kill_at, order.torn)
    bomb.arm()
    calls = coordinator(Path(order.folder))
    replies = {n: complete(calls, order.url, n).content for n in range(1, COUNT + 1)}
    writes = bomb.count
    Path(order.folder, "replies.json").write_text(json.dumps({"writes": writes, "said": replies}))
    os._exit(0)


def main() -> None:
    sys.path.insert(0, str(TOP))
    from llm.registry import place, takes, the_litellm
    from llm.tokens import count_tokens

    # What takes seconds and starts no thread is done once.
    the_litellm()
    takes("gpt-4o", None, {"top_p": 0.5})
    place("gpt-4o", "http://127.0.0.1:1/v1", 300.0, text=True)
    count_tokens("gpt-4o", PROMPT)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _be(Order(**json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
