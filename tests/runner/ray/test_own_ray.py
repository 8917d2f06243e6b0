"""Runs on a Ray of their own, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from swe_retry.core.processes import RUN_VARIABLE
from swe_retry.demo.images import build_images
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.leftovers import remove_containers
from swe_retry.runner.leftovers import run_key
from tests.support import wait_until
from tests.support.killing import (
    ALL,
    alive,
    ledger,
    predictions,
    rays_of,
    talkative,
    wait_for,
    workers_of,
)
from tests.support.provider import Answer, Provider
from tests.support.runner import run_silently, start_run
from tests.support.runs import EDIT, IDS, config, options
from tests.support.start import run_command

REPLAYED = "--models scripted-a,scripted-b --replay swe_retry/demo/replies"
OWN_RAY = "--set scale.ray=own --workers 2 --set scale.jobs=2 --environment none"


@pytest.mark.ray
def test_a_ray_of_its_own_gives_the_local_pools_predictions_and_ends_with_the_run(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: Ray confuses the actors of two sessions in one process."""
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    here = tmp_path / "here"
    there = tmp_path / "there"
    assert run_silently(config(), options(here, cache, *ALL)) == 0
    rays: set[psutil.Process] = set()
    with start_run(there, ALL, f"{OWN_RAY} {REPLAYED}") as process:
        while process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                rays.update(rays_of(process.pid))
            time.sleep(0.1)
    assert process.returncode == 0
    assert predictions(there) == predictions(here)
    assert len(predictions(here)) == len(ALL)
    assert lines_without_times(there) == lines_without_times(here)
    assert not (there / "cache/nodes").exists()
    assert rays
    assert not any(map(alive, rays))


@pytest.mark.ray
@pytest.mark.docker
@pytest.mark.usefixtures("cache")
def test_tests_in_containers_are_those_of_the_local_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    ids = ("demo__bank-1", "demo__textkit-1")
    build_images(ids)
    here = tmp_path / "here"
    there = tmp_path / "there"
    for out, engine in {here: "", there: "--set scale.ray=own"}.items():
        settings = f"--environment docker --workers 2 {engine} {REPLAYED}"
        with start_run(out, ids, settings) as process:
            process.wait()
        assert process.returncode == 0
    assert predictions(there) == predictions(here)
    winners = {}
    for name, text in predictions(there).items():
        winners[name] = json.loads(text)["attempt"]
    assert winners == {"demo__bank-1.json": 2, "demo__textkit-1.json": 1}
    for out in (here, there):
        key = run_key(out / "predictions/r")
        assert not remove_containers(connect(), key)


def lines_without_times(out: Path) -> list[str]:
    """Return the log of the last instance without its times."""
    text = (out / f"logs/r/{ALL[-1]}.log").read_text()
    return [line.split(" ", 1)[1] for line in text.splitlines()]


@pytest.mark.ray
@pytest.mark.long
def test_no_worker_of_its_own_ray_outlives_a_driver_that_is_told_twice_to_stop(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    provider.will_answer(Answer(EDIT, hang=60))
    settings = f"{OWN_RAY} --models gpt-4o@diff --api-base {provider.url}"
    with start_run(tmp_path, IDS, settings) as process:
        wait_for(2, provider)
        workers = workers_of(process.pid)
        assert len(workers) == 2
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    wait_until(lambda: not any(map(alive, workers)))


@pytest.mark.ray
@pytest.mark.long
def test_an_instance_whose_workers_die_again_and_again_is_given_up(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider.will_answer(Answer(EDIT, hang=60))
    config = talkative(provider)
    own_ray = options(tmp_path, cache, *IDS[:2], workers=2, ray="own")
    with ThreadPoolExecutor(1) as other:
        run = other.submit(run_command, config, own_ray, print)
        for count in range(4):
            wait_for(2 * (count + 1), provider, run)
            for process in rays_of(os.getpid()):
                if process.cmdline()[0].startswith("ray::Worker"):
                    process.kill()
        assert run.result() == 1
    output = capsys.readouterr().out
    message = "infra_error; infrastructure failed: its worker died 4 times"
    assert output.count(message) == 2
    kinds = [line.kind for line in ledger(tmp_path)]
    assert kinds == ["failed"] * 8
