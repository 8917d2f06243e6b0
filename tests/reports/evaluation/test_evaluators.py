"""The evaluators from the command: verdicts, and errors of engines."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from demo.images import build_images
from demo.setup import build_mirrors
from reports.evaluation.engine import ENGINE_STOPPED
from tests.reports.conftest import report_run
from tests.support import read_json, write_json
from tests.support.evaluated import (
    BANK,
    FORGED,
    HIDDEN,
    TEXTKIT,
    UNITS,
    WRONG,
    make_run,
    on_disk,
    rows,
)


class Dying(BaseHTTPRequestHandler):
    """An engine without images that stops at the first pull."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2].partition("?")[0]
        status = 200
        content: object = []
        if "/images/127." in self.path:
            status = 404
            content = {"message": "No such image"}
        elif name in ("version", "info", "_ping"):
            versions = {"ApiVersion": "1.41", "ServerVersion": "1"}
            content = {**versions, "DockerRootDir": "/no/such"}
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.server_close()
        self.connection.close()

    def log_message(
        self,
        format: str,
        *args: object,
    ) -> None:
        """Say nothing."""


def with_images(path: Path, images: dict[str, str]) -> str:
    """Write rows of the demo, with other images where the text is not empty."""
    data = []
    for name, image in images.items():
        row = rows()[name]
        data.append({**row, "image": image or row["image"]})
    return str(write_json(path, data))


def test_an_engine_that_dies_while_it_pulls_is_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = {name: f"127.0.0.1:9/{name}:1" for name in (BANK, TEXTKIT)}
    dataset = with_images(tmp_path / "rows.json", images)
    store = make_run(tmp_path, dict.fromkeys(images, WRONG))
    server = HTTPServer(("127.0.0.1", 0), Dying)
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    thread = Thread(
        target=server.serve_forever,
        args=(0.02,),
        daemon=True,
    )
    thread.start()
    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    assert printed.code == 1
    server.shutdown()
    for name in images:
        assert on_disk(store, name)["reason"] == ENGINE_STOPPED


@pytest.mark.docker
def test_in_docker(tmp_path: Path, cache: Path) -> None:
    images = {BANK: "", TEXTKIT: "", UNITS: "127.0.0.1:9/no/such:image"}
    dataset = with_images(tmp_path / "rows.json", images)
    patches = {name: rows()[name]["patch"] for name in (BANK, UNITS)}
    store = make_run(tmp_path, {**patches, TEXTKIT: WRONG})
    build_images([BANK, TEXTKIT])
    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    assert printed.code == 1
    assert printed.starting("engine: version ")
    assert printed.starting("images: 2 at hand, 1 to be pulled (")
    assert on_disk(store, TEXTKIT)["status"] == "unresolved"
    assert on_disk(store, UNITS)["status"] == "not_evaluated"
    verdict = on_disk(store, BANK)
    assert verdict["status"] == "resolved"
    assert verdict["image"].startswith("swe-retry-harness/demo__bank-1:demo@sha256:")
    assert verdict["swebench"]
    log = store.logs / f"{BANK}.me__too.eval.log"
    assert "PASSED tests/test_account.py" in log.read_text()
    report = read_json(store.logs / f"{BANK}.report.json")
    assert report[BANK]["resolved"] is True

    # The same again evaluates the one that failed alone.
    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    assert "evaluating 1 predictions (docker)" in printed.lines


def test_locally(tmp_path: Path, cache: Path) -> None:
    """A patch that prints a pass for a test that fails is unresolved."""
    right = "demo__textkit-2"
    patches = {TEXTKIT: FORGED, right: rows()[right]["patch"]}
    store = make_run(tmp_path, patches)
    printed = report_run(store.folder, cache, "local")
    assert printed.code == 0
    log = store.logs / f"{TEXTKIT}.me__too.eval.log"
    assert f"\nPASSED {HIDDEN}" in log.read_text()
    verdict = on_disk(store, TEXTKIT)
    assert verdict["status"] == "unresolved"
    assert verdict["official"] is False
    assert on_disk(store, right)["status"] == "resolved"


def test_a_spoilt_environment_gives_no_verdict(tmp_path: Path, cache: Path) -> None:
    """Where the gold patch is not resolved either, the prediction is not to blame."""
    other_test = f"{HIDDEN}_of_another_system"
    row = {**rows()[TEXTKIT], "FAIL_TO_PASS": [other_test]}
    dataset = write_json(tmp_path / "rows.json", [row])
    store = make_run(tmp_path, {TEXTKIT: WRONG})
    repos = build_mirrors(cache / "demo-mirrors")
    printed = report_run(
        store.folder,
        cache,
        "local",
        dataset=str(dataset),
        repos=repos,
    )
    assert printed.code == 1
    verdict = on_disk(store, TEXTKIT)
    assert verdict["status"] == "not_evaluated"
    assert "the gold patch is not resolved in this environment" in verdict["reason"]


@pytest.mark.parametrize(
    "kind",
    ["local", pytest.param("docker", marks=pytest.mark.docker)],
)
def test_tests_that_were_killed_give_no_verdict(
    tmp_path: Path, cache: Path, kind: str
) -> None:
    """As the kernel kills them where memory runs out; their shell goes on."""
    kill = '+"""Names."""\n+import os; os.kill(os.getpid(), 9)\n'
    killing = WRONG.replace("+1,4 @@", "+1,5 @@")
    killing = killing.replace('+"""Names."""\n', kill)
    if kind == "docker":
        build_images([TEXTKIT])
    store = make_run(tmp_path, {TEXTKIT: killing})
    assert report_run(store.folder, cache, kind).code == 1
    verdict = on_disk(store, TEXTKIT)
    assert verdict["status"] == "not_evaluated"
    assert "does not show that the tests ran" in verdict["reason"]
    printed = report_run(store.folder, cache, kind)
    assert f"evaluating 1 predictions ({kind})" in printed.lines
