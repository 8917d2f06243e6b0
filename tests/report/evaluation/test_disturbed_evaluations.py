"""Evaluations of real images are killed and paused at random points: no verdict may be wrong."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from swe_retry.record.store import RunStore
from tests.report.evaluation.test_dying_engine import Engine, running_engine
from tests.report.evaluation.test_killed_evaluation import gold, slow_rows
from tests.support import TOP, read_json, wait_until
from tests.support.evaluated import BANK, TEXTKIT, WRONG, make_run, on_disk

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
EXPECTED = {BANK: "resolved", TEXTKIT: "unresolved"}
SECONDS = 3.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("d")


@pytest.fixture(scope="module")
def dataset(folder: Path) -> str:
    return slow_rows(folder / "rows.json", SECONDS)


@pytest.fixture(scope="module")
def engine(folder: Path, dataset: str) -> Iterator[Engine]:
    """A separate engine with the images of both rows: others use the usual one."""
    with running_engine(folder) as engine:
        images = [row["image"] for row in read_json(Path(dataset))]
        save = ["docker", "save", *images]
        with subprocess.Popen(save, stdout=subprocess.PIPE) as saved:
            load = ["docker", "-H", engine.host, "load"]
            subprocess.run(
                load,
                stdin=saved.stdout,
                check=True,
                capture_output=True,
            )
        yield engine


def start(
    store: RunStore,
    engine: Engine,
    dataset: str,
) -> subprocess.Popen[bytes]:
    argv: list[str | Path] = [
        sys.executable,
        TOP / "report.py",
        store.folder,
        "--evaluator",
        "docker",
        "--dataset",
        dataset,
        "--set",
        f"folders.cache={engine.folder / 'cache'}",
        "--set",
        "report.page=false",
        "--set",
        "evaluation.timeout=60",
    ]
    with (store.out / "said").open("ab") as log:
        return subprocess.Popen(
            argv,
            stdout=log,
            stderr=log,
            env={**os.environ, "DOCKER_HOST": engine.host},
        )


def pids(pattern: str) -> list[int]:
    result = subprocess.run(
        ["pgrep", "-f", pattern],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(pid) for pid in result.stdout.split()]


def send(
    store: RunStore,
    engine: Engine,
    command: subprocess.Popen[bytes],
    number: int,
    target: str,
) -> None:
    if target == "engine":
        assert engine.process is not None
        engine.process.send_signal(number)
    elif target == "report":
        command.send_signal(number)
    elif target == "swebench":
        for log in (store.logs / "evaluation").glob("*.log"):
            for pid in pids(f"run_evaluation.*{log.stem}"):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
    else:
        word = {
            signal.SIGKILL: "kill",
            signal.SIGSTOP: "pause",
            signal.SIGCONT: "unpause",
        }[signal.Signals(number)]
        for name in engine.containers():
            engine.docker(word, name)


def disturb(
    store: RunStore,
    engine: Engine,
    command: subprocess.Popen[bytes],
    target: str,
    paused: float,
) -> None:
    """Pause ``target`` for some seconds, or kill it for good; an engine is started again."""
    if paused:
        send(store, engine, command, signal.SIGSTOP, target)
        time.sleep(paused)
        send(store, engine, command, signal.SIGCONT, target)
        return
    send(store, engine, command, signal.SIGKILL, target)
    if target == "engine":
        engine.process.wait()  # type: ignore[union-attr]
        time.sleep(0.5)
        engine.start()


@pytest.mark.parametrize(
    "target",
    ["engine", "container", "swebench", "report"],
)
@pytest.mark.parametrize("seed", range(10))
def test_no_verdict_is_wrong_and_the_repeat_lacks_none(
    tmp_path: Path,
    engine: Engine,
    dataset: str,
    seed: int,
    target: str,
) -> None:
    chance = random.Random(f"{seed} {target}")
    point = chance.uniform(0, 6.0)
    pause = chance.uniform(0.5, 4.0)
    paused = chance.choice([0.0, pause])
    store = make_run(tmp_path, {**gold(BANK), TEXTKIT: WRONG})
    with start(store, engine, dataset) as command:
        # How long it takes to come to the containers depends on the machine's load.
        logs = store.logs / "evaluation"
        wait_until(lambda: any(logs.glob("**/run_instance.log")))
        with suppress(subprocess.TimeoutExpired):
            command.wait(point)
        disturb(store, engine, command, target, paused)
    statuses = {}
    for name in EXPECTED:
        if store.verdict(name).exists():
            statuses[name] = on_disk(store, name)["status"]
    fault = "paused" if paused else "killed"
    print(f"{target} {fault} after {point:.1f} s: {statuses}")
    for name, status in statuses.items():
        assert status in (EXPECTED[name], "not_evaluated"), statuses
    if statuses != EXPECTED:
        assert command.returncode != 0
    with start(store, engine, dataset) as command:
        code = command.wait(120)
    assert code == 0, (tmp_path / "said").read_text()[-2000:]
    for name, status in EXPECTED.items():
        assert on_disk(store, name)["status"] == status
    assert engine.containers() == []
