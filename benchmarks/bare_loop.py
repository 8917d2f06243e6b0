"""Calls of litellm in a loop, against which ``benchmarks.throughput`` measures the harness.

``python -m benchmarks.bare_loop URL WORKERS CALLS < rounds``.

This is the upper limit of every harness that uses litellm. Prints the CPU seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from swe_retry.llm.registry import load_litellm


async def loop(
    url: str,
    workers: int,
    calls: int,
    rounds: list[list[dict[str, Any]]],
) -> None:
    """Make ``calls`` calls one after the other in each of ``workers`` threads."""
    litellm = load_litellm()

    async def work() -> None:
        for number in range(calls):
            await litellm.acompletion(
                model="gpt-4o",
                messages=rounds[number % len(rounds)],
                api_base=url,
                api_key="none",
                custom_llm_provider="openai",
                timeout=120,
                num_retries=0,
                max_retries=0,
                temperature=0,
            )

    await asyncio.gather(*(work() for _ in range(workers)))


def main() -> None:
    """Repeat the calls whose messages are on the standard input, a list for each."""
    rounds = json.load(sys.stdin)
    url, workers, calls = sys.argv[1:]
    asyncio.run(loop(url, int(workers), int(calls), rounds))
    print(time.process_time())


if __name__ == "__main__":
    main()
