"""Ctrl-C while something is downloaded: a word at once, and nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_retry.instances.dataset import load_dataset
from tests.cli.test_options import ID
from tests.support import TOP, wait_until, write_json
from tests.support.commands import EXERCISM, Preloaded
from tests.support.servers import Handler, LoopbackServer

OFFLINE = (
    f"--replay {TOP}/swe_retry/demo/replies --models scripted-a --environment none"
)


class SilentHandler(Handler):
    def respond(self) -> None:
        names_a_data_set = self.path.startswith("/api/datasets/")
        if names_a_data_set and not self.stub.is_waiting:
            self.stub.is_waiting = True
            self.send_json({"id": "SWE-bench/SWE-bench_Lite", "sha": "1" * 40})
            return
        self.stub.is_waiting = True
        self.stub.closing.wait()

    do_CONNECT = respond  # noqa: N815 - http.server's name


class SilentHub(LoopbackServer):
    """A hub that knows each data set and sends none of its files; as a proxy, it never answers."""

    handler = SilentHandler

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting = False
        self.closing = threading.Event()


@pytest.fixture
def hub() -> Iterator[SilentHub]:
    with SilentHub() as server:
        yield server
        server.closing.set()


def foreign_rows(folder: Path) -> Path:
    """Write a row of the demo whose repository would have to be cloned."""
    rows = load_dataset("demo", "test").rows
    (row,) = [row for row in rows if row["instance_id"] == ID]
    text = json.dumps({**row, "repo": "own/thing"}, default=str)
    return write_json(folder / "rows.json", [json.loads(text)])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("download", ["data set", "mirror", "exercises"])
def test_a_signal_ends_a_download_with_a_word(
    tmp_path: Path,
    preloaded: Preloaded,
    hub: SilentHub,
    download: str,
    number: signal.Signals,
) -> None:
    script = "harness.py"
    options = f"{OFFLINE} --dataset lite"
    message = "interrupted"
    if download == "mirror":
        options = f"{OFFLINE} --dataset {foreign_rows(tmp_path)}"
        message = "stopping: attempts end at their next step"
    if download == "exercises":
        script = EXERCISM
        options = "--models gpt-4o --api-base http://127.0.0.1:9"
    cache = tmp_path / "cache"
    folders = f"--out {tmp_path} --set folders.cache={cache}"
    variables = {
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": hub.url,
        "https_proxy": hub.url,
    }
    process = preloaded.start(
        *f"{options} {folders}".split(),
        script=script,
        cwd=tmp_path,
        env={**os.environ, **variables},
    )
    try:
        wait_until(lambda: hub.is_waiting)
        time.sleep(0.3)
        process.send_signal(number)
        output, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert message in output
    assert "Traceback" not in output
    for folder in (cache, tmp_path / "hf"):
        for path in folder.rglob("*"):
            assert path.suffix not in (".tmp", ".incomplete")
