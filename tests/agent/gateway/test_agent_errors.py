"""Real agents recover from errors of a provider behind the gateway wherever they do without it."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from swe_retry.agent.named import AGENTS
from swe_retry.agent.named.description import NamedAgent
from swe_retry.core.errors import UserError
from swe_retry.llm.chat import Message, Reply
from tests.agent.gateway.conftest import GatewayRuns, needs_bubblewrap
from tests.agent.gateway.test_named import config_of, turns_of
from tests.support.dialects import Fault, Stub

FAULTS = {
    "before": [Fault(503, {"retry-after": "1"})],
    "often": [Fault(503)] * 4,
    "in": [Fault(error_event=True)],
    "after": [Fault(error_event=True, late=True)],
    "broken": [Fault(broken=True)],
}


class Relay:
    """Stands where the gateway does, and passes bytes on to the stub alone."""

    port = 0
    token = "sk-stub"
    drift = 0
    problem = None
    messages: tuple[Message, ...] = ()
    calls = (Reply("not read"),)
    removed: ClassVar[Counter[str]] = Counter()

    def __init__(self, model: Any, *_: object, socket: Path, **__: object) -> None:
        self.model_name = model.name.rpartition("/")[2]
        self.path = socket
        address = urlsplit(os.environ["OPENAI_BASE_URL"])
        assert address.port
        self.stub = (address.hostname, address.port)

    def __enter__(self) -> Relay:
        self.server = socket.socket(socket.AF_UNIX)
        folder = os.open(self.path.parent, os.O_PATH)
        self.server.bind(f"/proc/self/fd/{folder}/{self.path.name}")
        os.close(folder)
        self.server.listen(100)
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()

    def overdue(self) -> bool:
        return False

    def serve(self) -> None:
        while True:
            try:
                agent, _ = self.server.accept()
            except OSError:
                return
            stub = socket.create_connection(self.stub)
            for pair in ((agent, stub), (stub, agent)):
                threading.Thread(target=pass_on, args=pair, daemon=True).start()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        target.close()


def asks_for_streams(stub: Stub) -> bool:
    by_path = any("streamGenerate" in path for path in stub.paths)
    return by_path or any(body.get("stream") for body in stub.requests)


@needs_bubblewrap
@pytest.mark.agents
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_an_agent_recovers_wherever_it_does_without_the_gateway(
    runs: GatewayRuns, agent: NamedAgent, kind: str
) -> None:
    if not shutil.which(agent.program):
        pytest.skip(f"{agent.name} is not installed: harness.py install {agent.name}")
    recovered = {}
    for way in ("behind the gateway", "without it"):
        run = way.partition(" ")[0]
        if run == "without":
            runs.monkeypatch.setattr("swe_retry.agent.gateway_agent.Gateway", Relay)
        with runs.serve(*FAULTS[kind], turns=turns_of(agent)) as stub:
            stub.spares_small = agent.name != "aider"
            try:
                prediction = runs.solve(config_of(agent, run=run, agent_timeout=150))
            except (FileNotFoundError, UserError):
                prediction = {"status": "infra_error"}
        assert stub.requests
        if kind in ("in", "after") and not asks_for_streams(stub):
            pytest.skip(f"{agent.name} asks for no stream")
        recovered[way] = prediction["status"].startswith("plausible")
    print(f"TABLE {agent.name} {kind} {recovered}")
    assert recovered["behind the gateway"] or not recovered["without it"]
