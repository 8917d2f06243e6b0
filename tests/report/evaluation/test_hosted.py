"""sb-cli against a server on loopback that answers as the service does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from tests.support import contents_below, from_environment, official

LITE = "SWE-bench/SWE-bench_Lite"
_COUNTS = (
    "resolved",
    "submitted",
    "error",
    "pending",
    "completed",
    "failed",
)


@dataclass
class Service:
    """What the service was sent, and the lists of its report."""

    address: str = ""
    lists: dict[str, list[str]] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    sent: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)

    def answer(
        self,
        path: str,
        request: dict[str, Any],
    ) -> dict[str, Any]:
        self.runs.add(request["run_id"])
        if path == "/submit":
            name = request["prediction"]["instance_id"]
            new = name not in self.sent
            self.sent[name] = request
            return {"launched": new, "instance_id": name}
        if path == "/poll-jobs":
            return {"running": [], "completed": [*self.sent]}
        report: dict[str, Any] = {"total_instances": 300}
        for name in _COUNTS:
            report[f"{name}_instances"] = len(self.sent)
        return {"report": {**report, **self.lists}}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            request = json.loads(self.rfile.read(length))
            service.keys.add(self.headers["x-api-key"])
            answer = service.answer(self.path, request)
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(
        target=server.serve_forever,
        args=(0.02,),
        daemon=True,
    )
    thread.start()
    service.address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("SWEBENCH_API_URL", service.address)
    monkeypatch.setenv("SWEBENCH_API_KEY", "sk-planted")
    yield service
    server.shutdown()
    server.server_close()


@pytest.mark.long
def test_the_client_itself(service: Service, tmp_path: Path) -> None:
    python = from_environment("OFFICIAL_EVALUATORS") / "sb-cli.venv/bin/python"
    program = official.evaluator(
        "sb-cli",
        tmp_path,
        dataset=LITE,
        python=str(python),
    )
    names = ["own__calc-right", "own__calc-wrong", "own__calc-crash", "own__calc-lost"]
    tasks = []
    for name in names:
        task = official.task({"instance_id": name}, official.GOLD, name, "")
        tasks.append(task)
    service.lists = {
        "resolved_ids": [names[0]],
        "unresolved_ids": [names[1]],
        "error_ids": [names[2]],
    }
    for _ in range(2):
        verdicts = official.evaluated(program, tasks)
        assert official.statuses(verdicts) == {
            names[0]: "resolved",
            names[1]: "unresolved",
            names[2]: "not_evaluated",
            names[3]: "not_evaluated",
        }
    assert verdicts[names[2]].reason == "the service lists it under error_ids"
    assert verdicts[names[3]].reason == "the service lists it nowhere"
    assert verdicts[names[0]].tool.startswith("sb-cli 0.")
    assert service.runs == {"run-1"}, "the second call continued the first"
    assert service.keys == {"sk-planted"}
    prediction = service.sent[names[0]]["prediction"]
    assert prediction["model_patch"] == official.GOLD
    contents = contents_below(tmp_path).values()
    assert contents
    assert not any(b"sk-planted" in content for content in contents)


def test_what_is_missing_is_said_before_anything_is_sent(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = official.evaluator(
        "sb-cli",
        tmp_path,
        dataset="x/y",
        python="python3",
    )
    with pytest.raises(
        UserError, match="does not know the dataset x/y; it evaluates lite"
    ):
        tool.prepare([])
    monkeypatch.delenv("SWEBENCH_API_KEY")
    with pytest.raises(UserError, match="needs a key: set SWEBENCH_API_KEY"):
        tool.prepare([])
    assert not service.runs
