"""Containers, swebench and the command itself are killed during an evaluation in docker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from demo.images import build_images
from environments.docker.engine import connect
from reports.evaluation.settings import EvaluatorKind
from reports.report import report_command
from runs.storage.store import RunStore
from tests.support import TOP, wait_until
from tests.support.evaluated import (
    BANK,
    TEXTKIT,
    make_run,
    on_disk,
    report_settings,
    rows,
)

pytestmark = pytest.mark.docker


def slow_rows(place: Path, seconds: float, **images: str) -> str:
    """Write both rows with tests that take ``seconds`` longer; ``images`` replace theirs."""
    build_images([BANK, TEXTKIT])
    data = [dict(rows()[name]) for name in (BANK, TEXTKIT)]
    for row in data:
        row["eval_script"] = row["eval_script"].replace(
            "python -m pytest", f"sleep {seconds}; python -m pytest"
        )
        row["image"] = images.get(row["instance_id"], row["image"])
    place.write_text(json.dumps(data))
    return str(place)


def gold(*names: str) -> dict[str, str]:
    return {name: rows()[name]["patch"] for name in names}


def containers(name: str = "") -> list[str]:
    client = connect()
    assert client is not None
    return [c for each in client.containers.list(all=True) if name in (c := each.name)]


def runs_tests(store: RunStore, name: str) -> bool:
    logs = (store.logs / "evaluation").glob(f"**/{name}/run_instance.log")
    return any("Eval script for" in log.read_text() for log in logs)


def processes(run: str) -> list[str]:
    found = subprocess.run(
        ["ps", "-ewwo", "args"], capture_output=True, text=True, check=True
    )
    return [
        line
        for line in found.stdout.splitlines()
        if "run_evaluation" in line and run in line
    ]


def command(out: Path, *words: object) -> subprocess.Popen[bytes]:
    argv = [sys.executable, TOP / "report.py", *words, "--evaluator", "docker"]
    with (out / "said").open("ab") as said:
        return subprocess.Popen(
            [*map(str, argv)], cwd=out, stdout=said, stderr=subprocess.STDOUT
        )


def report(store: RunStore, cache: Path, dataset: str) -> subprocess.Popen[bytes]:
    words = ["--dataset", dataset, "--set", "report.page=false"]
    return command(store.out, store.folder, *words, "--set", f"folders.cache={cache}")


def test_what_a_kill_or_a_wrong_image_left_is_no_verdict_and_is_evaluated_again(
    tmp_path: Path, cache: Path
) -> None:
    store = make_run(tmp_path, gold(BANK, TEXTKIT))
    wrong = slow_rows(tmp_path / "wrong.json", 2, **{TEXTKIT: "python:3.11-slim"})
    chosen = report_settings(cache, EvaluatorKind.DOCKER, dataset=wrong)

    def kill() -> None:
        wait_until(lambda: runs_tests(store, BANK))
        time.sleep(0.7)
        for name in containers(f"sweb.eval.{BANK}"):
            subprocess.run(["docker", "kill", name], check=True, capture_output=True)

    killer = Thread(target=kill)
    killer.start()
    said: list[str] = []
    assert report_command([store.folder], chosen, said.append) == 1
    killer.join()
    found = {name: on_disk(store, name) for name in (BANK, TEXTKIT)}
    assert {one["status"] for one in found.values()} == {"not_evaluated"}, found
    assert "has no repository in /testbed" in found[TEXTKIT]["reason"]
    right = report_settings(
        cache,
        EvaluatorKind.DOCKER,
        dataset=slow_rows(tmp_path / "right.json", 0),
        timeout=60.0,
    )
    assert report_command([store.folder], right, said.append) == 0
    assert {on_disk(store, name)["status"] for name in found} == {"resolved"}
    assert not containers("sweb.eval")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_a_stopped_command_ends_swebench_and_its_containers(
    tmp_path: Path, cache: Path, number: int
) -> None:
    store = make_run(tmp_path, gold(BANK))
    with report(store, cache, slow_rows(tmp_path / "rows.json", 60)) as started:
        wait_until(lambda: runs_tests(store, BANK))
        started.send_signal(number)
        assert started.wait(20) == 130
    assert not processes("r-") and not containers("sweb.eval")
    assert not any((cache / "evaluations").iterdir())


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_gold_command_does_so_too(
    tmp_path: Path, cache: Path, number: int
) -> None:
    dataset = slow_rows(tmp_path / "rows.json", 60)
    store = RunStore(tmp_path, "validity")
    words = ["gold", dataset, "validity.json", "--instances", BANK]
    with command(tmp_path, *words, "--set", f"folders.cache={cache}") as started:
        wait_until(lambda: runs_tests(store, BANK))
        started.send_signal(number)
        assert started.wait(20) == 130
    assert not processes("gold.1-") and not containers("sweb.eval")


@pytest.mark.long
def test_the_next_start_of_another_run_removes_what_a_killed_one_left(
    tmp_path: Path, cache: Path
) -> None:
    slow, fast = (slow_rows(tmp_path / f"{n}.json", n) for n in (60, 0))
    killed = make_run(tmp_path / "killed", gold(BANK))
    with report(killed, cache, slow) as started:
        wait_until(lambda: runs_tests(killed, BANK))
        started.kill()
    assert containers("sweb.eval") and processes("r-")
    store = make_run(tmp_path / "next", gold(TEXTKIT))
    said = list[str]()
    chosen = report_settings(cache, EvaluatorKind.DOCKER, dataset=fast)
    assert report_command([store.folder], chosen, said.append) == 0
    assert any(
        line.startswith("removed what an earlier evaluation left: ") for line in said
    )
    assert not containers("sweb.eval") and not processes("r-")
