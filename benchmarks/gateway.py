"""Calls a second of agents at the gateway, against the same agents at the stub itself.

    python -m benchmarks.gateway [--agents 64] [--calls 20] [--seconds 2]

Stub and agents are processes of their own. Each agent makes its calls one after another, streamed,
with requests of the size of Claude Code's first (116 KB). The gateways journal each call on disk
and keep a ledger and a budget, as in a run. The ratio is that of the calls per
second; the memory is that of this process, with all gateways, above what it had before the first.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import typer
from aiohttp import ClientSession, TCPConnector, web

from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.core.shutdown import Shutdown
from swe_retry.llm.client import LiteLLMModel
from swe_retry.runner.calls.budget import Budget, BudgetLimits
from swe_retry.runner.calls.coordinator import AttemptGate, CallCoordinator
from swe_retry.runner.calls.ledger import Ledger
from swe_retry.runner.calls.rate_limiter import RateLimiter, RateLimiterPolicy, Rates
from swe_retry.runner.slots import prepare_process

_MODEL = "claude-sonnet-4-5-20250929"
_BODY = {
    "model": _MODEL,
    "max_tokens": 1000,
    "stream": True,
    "messages": [{"role": "user", "content": "word " * 23_000}],
}
_USAGE = {"input_tokens": 20_000, "output_tokens": 40}


ServerAddress = tuple[int, str]
"""A port of loopback, and the token that it takes."""


def _response_body() -> bytes:
    message = {
        "type": "message",
        "model": _MODEL,
        "content": [],
        "usage": _USAGE,
    }
    empty_block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "x"}
    text_event = {"type": "content_block_delta", "index": 0, "delta": delta}
    end = {"stop_reason": "end_turn"}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": empty_block},
        *[text_event] * 40,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": _USAGE},
        {"type": "message_stop"},
    ]
    body = ""
    for event in events:
        body += f"data: {json.dumps(event)}\n\n"
    return body.encode()


def _serve(ports: multiprocessing.SimpleQueue[int], seconds: float) -> None:
    body = _response_body()

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        await asyncio.sleep(seconds)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(body)
        await response.write_eof()
        return response

    async def run() -> None:
        application = web.Application(client_max_size=2**26)
        application.router.add_post("/v1/messages", answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ports.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def _call(
    addresses: Sequence[ServerAddress],
    calls: int,
    durations: multiprocessing.Queue[float],
) -> None:
    async def run_agent(session: ClientSession, address: ServerAddress) -> None:
        port, token = address
        for _ in range(calls):
            async with session.post(
                f"http://127.0.0.1:{port}/v1/messages",
                json=_BODY,
                headers={"x-api-key": token},
            ) as response:
                body = await response.read()
                assert response.status == 200, body
                assert body.rstrip().endswith(b'"message_stop"}'), body

    async def run() -> None:
        async with ClientSession(connector=TCPConnector(limit=0)) as session:
            start = time.monotonic()
            agents = [run_agent(session, address) for address in addresses]
            await asyncio.gather(*agents)
            durations.put(time.monotonic() - start)

    asyncio.run(run())


def _seconds(addresses: Sequence[ServerAddress], calls: int) -> float:
    """Return how long one agent for each address takes for its calls."""
    context = multiprocessing.get_context("spawn")
    durations: multiprocessing.Queue[float] = context.Queue()
    process = context.Process(target=_call, args=(addresses, calls, durations))
    process.start()
    seconds = durations.get()
    process.join()
    return seconds


def _resident() -> int:
    statistics = Path("/proc/self/statm").read_text()
    pages = int(statistics.split()[1])
    return pages * resource.getpagesize()


def main(agents: int = 64, calls: int = 20, seconds: float = 2.0) -> None:
    """Print the calls per second of both ways, their ratio, and the memory of the gateways."""
    prepare_process()
    context = multiprocessing.get_context("spawn")
    ports = context.SimpleQueue()
    stub = context.Process(target=_serve, args=(ports, seconds), daemon=True)
    stub.start()
    port = ports.get()
    os.environ |= {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "stub",
    }
    direct = _seconds([(port, "")] * agents, calls)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        coordinator = CallCoordinator(
            journals=folder / "journals",
            ledger=Ledger.load(folder / "ledger.jsonl"),
            budget=Budget(BudgetLimits(usd=Decimal(1_000_000))),
            rate_limiter=RateLimiter(Rates(), RateLimiterPolicy()),
            stop=Shutdown(),
        )

        def gateway(number: int) -> Gateway:
            gate = AttemptGate(coordinator, f"instance-{number}", 1, [], time.sleep)
            model = LiteLLMModel(f"anthropic/{_MODEL}", 0.0, 60.0, gate=gate)
            access = AgentSettings(api=("anthropic",))
            return stack.enter_context(Gateway(model, access))

        first = gateway(0)
        _seconds([(first.port, first.token)], 1)  # litellm is loaded
        before = _resident()
        gateways = [first, *map(gateway, range(1, agents))]
        addresses = [(each.port, each.token) for each in gateways]
        idle = (_resident() - before) / agents / 1e6
        through = _seconds(addresses, calls)
        used = (_resident() - before) / agents / 1e6
    total = agents * calls
    print(f"directly         {total / direct:6.1f} calls/s ({direct:.1f} s)")
    print(f"by the gateway   {total / through:6.1f} calls/s ({through:.1f} s)")
    print(f"ratio            {direct / through:6.1%}")
    print(f"memory           {idle:6.2f} MB for each attempt at its start")
    print(f"                 {used:6.2f} MB with the answers of {calls} calls")


if __name__ == "__main__":
    typer.run(main)
