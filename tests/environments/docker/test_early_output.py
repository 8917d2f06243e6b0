"""Output that a busy machine reads together with the head of the engine's reply is kept."""

from __future__ import annotations

import http.client
import time
from typing import Any

import pytest

from swe_retry.environments.base import ResourceLimits
from swe_retry.environments.docker.containers import Containers, Sinks
from swe_retry.environments.docker.engine import connect

pytestmark = pytest.mark.docker
_ARGUMENTS = ["-c", "echo first; sleep 1; echo last"]


def test_early_output_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = http.client.HTTPResponse.begin

    def begin_late(self: Any) -> None:
        time.sleep(0.4)
        begin(self)

    client = connect()
    containers = Containers(client, {"test": "early"}, ResourceLimits())
    with (
        containers.start("python:3.11-slim") as container,
        monkeypatch.context() as patch,
    ):
        patch.setattr(http.client.HTTPResponse, "begin", begin_late)
        assert container.bash(_ARGUMENTS, 30).output == "first\nlast\n"
        output: list[bytes] = []
        sinks = Sinks(output.append, output.append)
        argv = ["bash", *_ARGUMENTS]
        container.execute(argv, b"", sinks, 30)
        assert b"".join(output) == b"first\nlast\n"
