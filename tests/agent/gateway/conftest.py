"""Whole runs of a small coding agent on one instance, and the stub of providers it reaches."""

from __future__ import annotations

import http.client
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.attempts.config import ModelChoice, RunConfig
from swe_retry.core.plaintext import Say
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.foreign.convert import export_command
from swe_retry.llm.dialects import DIALECTS
from swe_retry.llm.provider_errors import RetryPolicy
from swe_retry.record.store import RunStore
from swe_retry.report.report import report_command
from swe_retry.report.verify import verify_command
from swe_retry.runner.calls.ledger import LedgerLine, read_ledger
from tests.support import read_json
from tests.support.dialects import (
    ADDRESSES,
    AGENT,
    APIS,
    KEYS,
    MODELS,
    Fault,
    Stub,
    Turn,
)
from tests.support.evaluated import report_settings
from tests.support.runs import config, options
from tests.support.start import run_command

needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap_works(), reason="bubblewrap is not installed"
)
PYTHON = str(Path(sys.executable).resolve())
ID = "demo__textkit-1"
OLD = "        else:"
NEW = "        elif letters and letters[-1] != '-':"
EDIT = {"path": "textkit/slug.py", "old": OLD, "new": NEW}
TURNS = (Turn("I edit.", ("replace", EDIT)), Turn("It is done."))
BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
# By litellm's prices, computed by hand.
COSTS = {
    "messages": Decimal("0.00459"),
    "chat": Decimal("0.003875"),  # 1,200 plain, 300 cached
    "responses": Decimal("0.0020375"),
    "gemini": Decimal("0.0020375"),
}


@contextmanager
def serve_stub(
    monkeypatch: pytest.MonkeyPatch,
    *faults: Fault,
    turns: tuple[Turn, ...] = (Turn("hello"),),
) -> Iterator[Stub]:
    """Let all providers be a stub."""
    with Stub(turns, faults) as stub:
        for name in ADDRESSES:
            monkeypatch.setenv(name, stub.url)
        yield stub


def cost_of(prediction: dict[str, Any]) -> Decimal:
    return Decimal(str(prediction["cost"]))


def agent_command(dialect: str, *options: str) -> str:
    argv = [PYTHON, str(AGENT), dialect, "{model}", "{message_file}", *options]
    return f"command:{shlex.join(argv)}"


def agent_config(dialect: str, *options: str, **changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "agent": agent_command(dialect, *options),
        "models": (ModelChoice.parse(MODELS[dialect]),),
        "replay": None,
        "tries": 1,
        "agent_timeout": 60,
        "agent_api": (APIS[dialect],),
        "agent_sandbox_read": (AGENT,),
        **changes,
    }
    return config(**values)


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]


ASK: dict[str, Any] = {
    "model": "claude-sonnet-4-5-20250929",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hello"}],
}


def post(
    gateway: Gateway, body: Any, path: str = "/v1/messages", **headers: str
) -> Answer:
    """Send a request as an agent does; the names of ``headers`` have underscores."""
    data = body
    if not isinstance(body, bytes):
        data = json.dumps(body).encode()
    fields = {"x-api-key": gateway.token}
    for name, value in headers.items():
        fields[name.replace("_", "-")] = value
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    connection.request("POST", path, data, fields)
    return read_answer(connection)


def read_answer(connection: http.client.HTTPConnection) -> Answer:
    """Return the answer; its body ends in ``(broken off)`` where it was."""
    response = connection.getresponse()
    headers = {name.lower(): value for name, value in response.getheaders()}
    try:
        body = response.read()
    except http.client.IncompleteRead as error:
        body = error.partial + b"(broken off)"
    return Answer(response.status, body, headers)


@dataclass
class GatewayRuns:
    """A folder for runs; files are those of the run ``r`` where none is named."""

    folder: Path
    cache: Path
    monkeypatch: pytest.MonkeyPatch
    instance: str = ID
    dataset: str = "demo"

    @property
    def recorded(self) -> Path:
        return self.folder / "predictions/r"

    def serve(
        self, *faults: Fault, turns: tuple[Turn, ...] = TURNS
    ) -> AbstractContextManager[Stub]:
        return serve_stub(self.monkeypatch, *faults, turns=turns)

    def use_installed(self, cache: Path) -> None:
        """Let runs use the agents that ``harness.py install`` has put into ``cache``."""
        agents = self.cache / "agents"
        if (cache / "agents").is_dir() and not agents.is_symlink():
            agents.symlink_to(cache / "agents")

    def start(self, run: RunConfig, say: Say = lambda _: None, **changes: Any) -> None:
        changes.setdefault("dataset", self.dataset)
        run_options = options(self.folder, self.cache, self.instance, **changes)
        run_command(run, run_options, say)

    def solve(self, run: RunConfig, **changes: Any) -> dict[str, Any]:
        """Return the prediction, after quick retries of requests."""
        self.start(run, retries=RetryPolicy(attempts=3, first_wait=0.05), **changes)
        return self.prediction(run.run)

    def fail(self, run: RunConfig, **changes: Any) -> dict[str, Any]:
        """Return the note on an instance that must be done again."""
        with pytest.raises(FileNotFoundError):
            self.solve(run, **changes)
        return self.unfinished(run.run)

    def command_line(self, agent: str, *settings: str) -> list[str]:
        """Return the arguments of the command that makes such a run."""
        options = {
            "dataset": "demo",
            "instances": ID,
            "models": MODELS["messages"],
            "tries": "1",
            "run": "r",
            "out": str(self.folder),
            "environment": "none",
            "agent": agent,
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        arguments.append(f"--set=folders.cache={self.cache}")
        arguments.append("--set=agent.api=anthropic")
        for setting in settings:
            arguments.append(f"--set={setting}")
        return arguments

    def prediction(self, run: str | None = "r") -> dict[str, Any]:
        path = self.folder / f"predictions/{run}/{self.instance}.json"
        return dict(read_json(path))

    def attempts(self) -> list[dict[str, Any]]:
        path = self.recorded / f"trajectories/{self.instance}.json"
        return list(read_json(path)["attempts"])

    def unfinished(self, run: str | None = "r") -> dict[str, Any]:
        path = self.folder / f"logs/{run}/{self.instance}.unfinished.json"
        return dict(read_json(path))

    def log(self, run: str = "r") -> str:
        path = self.folder / f"logs/{run}/{self.instance}.log"
        return path.read_text()

    def ledger(self) -> list[LedgerLine]:
        store = RunStore(self.folder, "r")
        return list(read_ledger(store.ledger).values)

    def export_atif(self) -> dict[str, Any]:
        out = self.folder / "atif"
        export_command(self.recorded, "atif", out, lambda _: None)
        (path,) = out.rglob("*.json")
        return dict(read_json(path))

    def report(self, **changes: Any) -> list[str]:
        """Return what the report prints, and the check of the run, which has to pass."""
        lines: list[str] = []
        settings = report_settings(self.cache, page=True)
        report_command([self.recorded], settings, lines.append, **changes)
        assert verify_command([self.recorded], lines.append) == 0, lines
        return lines


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, f"sk-sentinel-{name}")


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    with serve_stub(monkeypatch) as stub:
        yield stub


@pytest.fixture
def runs(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> GatewayRuns:
    return GatewayRuns(tmp_path, cache, monkeypatch)
