"""The evaluators from the command: verdicts, and errors of engines."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from demo.images import build_images
from reports.evaluation.engine import ENGINE_STOPPED
from reports.evaluation.settings import EvaluatorKind
from reports.report import report_command
from tests.support.evaluated import (
    BANK,
    FORGED,
    HIDDEN,
    TEXTKIT,
    UNITS,
    WRONG,
    make_run,
    on_disk,
    report_settings,
    rows,
)


def test_no_engine_is_not_evaluated_and_exit_code_1(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    store = make_run(tmp_path, {BANK: WRONG})
    said: list[str] = []
    chosen = report_settings(cache, EvaluatorKind.DOCKER)
    assert report_command([store.folder], chosen, said.append) == 1
    assert any(
        "not evaluated (docker) no Docker engine answers" in line for line in said
    )
    results = json.loads((store.folder / "results.json").read_text())
    assert results == {"no_generation": [], "no_logs": [BANK], "resolved": []}


class Dying(BaseHTTPRequestHandler):
    """An engine without images that stops at the first pull."""

    def do_GET(self) -> None:
        path = self.path.rpartition("/")[2].partition("?")[0]
        about = {
            "ApiVersion": "1.41",
            "ServerVersion": "1",
            "DockerRootDir": "/no/such",
        }
        absent = "/images/127." in self.path
        known = about
        if absent:
            known = {"message": "No such image"}
        body = json.dumps(
            known if absent or path in ("version", "info", "_ping") else []
        ).encode()
        self.send_response(404 if absent else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.server_close()
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_an_engine_that_dies_while_it_pulls_is_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [
        {**rows()[name], "image": f"127.0.0.1:9/{name}:1"} for name in (BANK, TEXTKIT)
    ]
    (tmp_path / "rows.json").write_text(json.dumps(data))
    store = make_run(tmp_path, {BANK: WRONG, TEXTKIT: WRONG})
    chosen = report_settings(
        cache, EvaluatorKind.DOCKER, dataset=str(tmp_path / "rows.json"), page=False
    )
    server = HTTPServer(("127.0.0.1", 0), Dying)
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    assert report_command([store.folder], chosen, print) == 1
    server.shutdown()
    reasons = {on_disk(store, name)["reason"] for name in (BANK, TEXTKIT)}
    assert reasons == {ENGINE_STOPPED}


@pytest.mark.docker
def test_in_docker(tmp_path: Path, cache: Path) -> None:
    image = "127.0.0.1:9/no/such:image"
    data = [{**rows()[BANK]}, {**rows()[TEXTKIT]}, {**rows()[UNITS], "image": image}]
    (tmp_path / "rows.json").write_text(json.dumps(data))
    gold = {name: row["patch"] for name, row in rows().items()}
    store = make_run(tmp_path, {BANK: gold[BANK], TEXTKIT: WRONG, UNITS: gold[UNITS]})
    build_images([BANK, TEXTKIT])
    chosen = report_settings(
        cache, EvaluatorKind.DOCKER, dataset=str(tmp_path / "rows.json")
    )
    said: list[str] = []
    assert report_command([store.folder], chosen, said.append) == 1
    assert any(line.startswith("engine: version ") for line in said)
    assert any(line.startswith("images: 2 at hand, 1 to be pulled (") for line in said)
    statuses = {name: on_disk(store, name)["status"] for name in (BANK, TEXTKIT, UNITS)}
    assert statuses == {BANK: "resolved", TEXTKIT: "unresolved", UNITS: "not_evaluated"}
    verdict = on_disk(store, BANK)
    assert verdict["image"].startswith("swe-retry-harness/demo__bank-1:demo@sha256:")
    assert verdict["swebench"]
    log = store.logs / f"{BANK}.me__too.eval.log"
    assert "PASSED tests/test_account.py" in log.read_text()
    report = json.loads((store.logs / f"{BANK}.report.json").read_text())
    assert report[BANK]["resolved"] is True

    # The same again evaluates the one that failed alone.
    said.clear()
    report_command([store.folder], chosen, said.append)
    assert "evaluating 1 predictions (docker)" in said


def test_locally(tmp_path: Path, cache: Path) -> None:
    """A patch that prints a pass for a test that fails is unresolved."""
    gold = rows()["demo__textkit-2"]["patch"]
    store = make_run(tmp_path, {TEXTKIT: FORGED, "demo__textkit-2": gold})
    chosen = report_settings(cache, EvaluatorKind.LOCAL)
    assert report_command([store.folder], chosen, lambda _: None) == 0
    log = store.logs / f"{TEXTKIT}.me__too.eval.log"
    assert f"\nPASSED {HIDDEN}" in log.read_text()
    verdict = on_disk(store, TEXTKIT)
    assert (verdict["status"], verdict["official"]) == ("unresolved", False)
    assert on_disk(store, "demo__textkit-2")["status"] == "resolved"
