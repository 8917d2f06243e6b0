"""Containers, swebench and the command itself are killed during an evaluation in docker."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from swe_retry.demo.images import build_images
from swe_retry.environments.docker.engine import connect
from swe_retry.record.store import RunStore
from tests.support import TOP, wait_until, write_json
from tests.support.evaluated import (
    BANK,
    TEXTKIT,
    make_run,
    on_disk,
    rows,
)
from tests.support.reported import report_run

pytestmark = pytest.mark.docker


def slow_rows(
    path: Path,
    seconds: float,
    **images: str,
) -> str:
    """Write both rows with tests that take ``seconds`` longer; ``images`` replace theirs."""
    build_images([BANK, TEXTKIT])
    data = [dict(rows()[name]) for name in (BANK, TEXTKIT)]
    for row in data:
        row["eval_script"] = row["eval_script"].replace(
            "python -m pytest", f"sleep {seconds}; python -m pytest"
        )
        name = row["instance_id"]
        row["image"] = images.get(name, row["image"])
    return str(write_json(path, data))


def gold(*names: str) -> dict[str, str]:
    return {name: rows()[name]["patch"] for name in names}


def containers(name: str = "") -> list[str]:
    client = connect()
    assert client is not None
    every = client.containers.list(all=True)
    return [each.name for each in every if name in each.name]


def runs_tests(store: RunStore, name: str) -> bool:
    logs = (store.logs / "evaluation").glob(f"**/{name}/run_instance.log")
    return any("Eval script for" in log.read_text() for log in logs)


def processes(run: str) -> list[str]:
    result = subprocess.run(
        ["ps", "-ewwo", "args"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = result.stdout.splitlines()
    return [line for line in lines if "run_evaluation" in line and run in line]


def command(out: Path, *arguments: object) -> subprocess.Popen[bytes]:
    argv = [sys.executable, str(TOP / "report.py")]
    argv += map(str, arguments)
    argv += ["--evaluator", "docker"]
    with (out / "said").open("ab") as log:
        return subprocess.Popen(
            argv,
            cwd=out,
            stdout=log,
            stderr=log,
        )


def report(
    store: RunStore,
    cache: Path,
    dataset: str,
) -> subprocess.Popen[bytes]:
    arguments = ["--dataset", dataset, "--set", "report.page=false"]
    return command(
        store.out, store.folder, *arguments, "--set", f"folders.cache={cache}"
    )


def test_what_a_kill_or_a_wrong_image_left_is_no_verdict_and_is_evaluated_again(
    tmp_path: Path, cache: Path
) -> None:
    store = make_run(tmp_path, gold(BANK, TEXTKIT))
    wrong = slow_rows(tmp_path / "wrong.json", 2, **{TEXTKIT: "python:3.11-slim"})

    def kill() -> None:
        wait_until(lambda: runs_tests(store, BANK))
        time.sleep(0.7)
        for name in containers(f"sweb.eval.{BANK}"):
            argv = ["docker", "kill", name]
            subprocess.run(argv, check=True, capture_output=True)

    killer = Thread(target=kill)
    killer.start()
    printed = report_run(store.folder, cache, "docker", dataset=wrong)
    assert printed.code == 1
    killer.join()
    for name in (BANK, TEXTKIT):
        verdict = on_disk(store, name)
        assert verdict["status"] == "not_evaluated", verdict
    assert "has no repository in /testbed" in on_disk(store, TEXTKIT)["reason"]
    right = slow_rows(tmp_path / "right.json", 0)
    printed = report_run(
        store.folder,
        cache,
        "docker",
        dataset=right,
        timeout=60.0,
    )
    assert printed.code == 0
    for name in (BANK, TEXTKIT):
        assert on_disk(store, name)["status"] == "resolved"
    assert not containers("sweb.eval")


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)],
)
def test_a_stopped_command_ends_swebench_and_its_containers(
    tmp_path: Path, cache: Path, number: int
) -> None:
    store = make_run(tmp_path, gold(BANK))
    slow = slow_rows(tmp_path / "rows.json", 60)
    with report(store, cache, slow) as started:
        wait_until(lambda: runs_tests(store, BANK))
        started.send_signal(number)
        assert started.wait(20) == 130
    assert not processes("r-")
    assert not containers("sweb.eval")
    assert not any((cache / "evaluations").iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGINT],
)
def test_a_stopped_gold_command_does_so_too(
    tmp_path: Path, cache: Path, number: int
) -> None:
    dataset = slow_rows(tmp_path / "rows.json", 60)
    store = RunStore(tmp_path, "validity")
    arguments = ["gold", dataset, "validity.json", "--instances", BANK]
    with command(tmp_path, *arguments, "--set", f"folders.cache={cache}") as started:
        wait_until(lambda: runs_tests(store, BANK))
        started.send_signal(number)
        assert started.wait(20) == 130
    assert not processes("gold.1-")
    assert not containers("sweb.eval")


@pytest.mark.long
def test_the_next_start_of_another_run_removes_what_a_killed_one_left(
    tmp_path: Path, cache: Path
) -> None:
    slow = slow_rows(tmp_path / "slow.json", 60)
    killed = make_run(tmp_path / "killed", gold(BANK))
    with report(killed, cache, slow) as started:
        wait_until(lambda: runs_tests(killed, BANK))
        started.kill()
    assert containers("sweb.eval")
    assert processes("r-")
    store = make_run(tmp_path / "next", gold(TEXTKIT))
    fast = slow_rows(tmp_path / "fast.json", 0)
    printed = report_run(store.folder, cache, "docker", dataset=fast)
    assert printed.code == 0
    assert printed.starting("removed what an earlier evaluation left: ")
    assert not containers("sweb.eval")
    assert not processes("r-")
