"""Stopping a run: soon, cleanly, and without a killed test becoming a result."""

from __future__ import annotations

import json
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from swe_retry.core.errors import StoppedError
from swe_retry.core.processes import run_limited
from swe_retry.core.shutdown import Shutdown
from swe_retry.demo.setup import REPOSITORIES, commit_all
from swe_retry.instances.dataset import load_dataset
from swe_retry.record.store import RunStore
from swe_retry.runner.progress.overview import lines, overview
from swe_retry.runner.signals import heeding_signals
from tests.runner.progress.test_display import Screen, open_terminal, read_terminal
from tests.support import TOP, wait_until
from tests.support.commands import Preloaded, Started
from tests.support.provider import Answer, Provider
from tests.support.runner import ID, arguments
from tests.support.runs import EDIT

# Tests that run meanwhile in other processes have files of other names.
SLOW = f"test_slug_{secrets.token_hex(4)}.py"


NONE = ["--environment", "none"]


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path, provider: Provider, preloaded: Preloaded) -> Start:
    """Start a run of one instance."""
    options = f"--models gpt-4o --tries 1 --api-base {provider.url}"
    return partial(preloaded.start, *arguments(tmp_path, [ID], options))


def baselines(cache: Path) -> set[Path]:
    return set((cache / "baselines").glob("*.json"))


@pytest.fixture
def slow(tmp_path: Path, cache: Path) -> list[str]:
    """Options for a demo instance whose tests take ten minutes at the base commit."""
    work = tmp_path / "source"
    shutil.copytree(REPOSITORIES / "demo__textkit", work)
    test = work / "tests/test_slug.py"
    code = test.read_text()
    slow_test = test.with_name(SLOW)
    slow_test.write_text(f"import time\ntime.sleep(600)\n{code}")
    test.unlink()
    commit = commit_all(work, "Begin")
    mirrors = tmp_path / "mirrors"
    mirrors.mkdir()
    mirror = mirrors / "demo__textkit.git"
    subprocess.run(["git", "clone", "-q", "--bare", work, mirror], check=True)

    rows = load_dataset("demo", "test").rows
    (row,) = [row for row in rows if row["instance_id"] == ID]
    slow_row = {**row, "base_commit": commit}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(slow_row, default=str))
    # The cache of all tests: virtual environments take seconds.
    settings = f"--set folders.repos={mirrors} --set folders.cache={cache}"
    return f"{settings} --environment local --dataset {path}".split()


def slow_commands() -> list[str]:
    """Return the command lines of processes that run the slow test."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if SLOW.encode() in line and b"pytest" in line:
            command = line.replace(b"\0", b" ")
            commands.append(command.decode())
    return commands


def status_of(store: RunStore) -> str:
    return "\n".join(lines(overview(store, {})))


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_a_baseline_at_once_and_caches_nothing(
    cache: Path,
    provider: Provider,
    start: Start,
    slow: list[str],
    number: signal.Signals,
) -> None:
    before = baselines(cache)
    provider.will_answer("textkit/slug.py", EDIT)
    process = start(*slow)
    wait_until(slow_commands)
    process.send_signal(number)
    signalled_at = time.monotonic()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output
    assert time.monotonic() - signalled_at < 300, "the test takes ten minutes"
    assert not slow_commands()
    assert baselines(cache) == before, "a killed test is no result"
    assert f"{ID}: interrupted" in output


def test_a_signal_that_another_thread_gets_is_heeded_while_the_main_thread_waits() -> (
    None
):
    stop = Shutdown()
    messages = queue.SimpleQueue[str]()

    def get_the_signal() -> None:
        time.sleep(0.5)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    with heeding_signals(stop, messages.put, lambda: None):
        threading.Thread(target=get_the_signal).start()
        assert "stopping" in messages.get(timeout=20)
    assert "SIGTERM" in stop.reason


def test_a_second_signal_leaves_no_result_of_what_it_killed(
    cache: Path,
    provider: Provider,
    start: Start,
    slow: list[str],
) -> None:
    before = baselines(cache)
    provider.will_answer("textkit/slug.py", EDIT)
    process = start(*slow)
    wait_until(slow_commands)
    # Two pending signals of one number are delivered as one. Of two, another thread may get both.
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    assert not slow_commands()
    assert baselines(cache) == before


def test_an_ignored_interrupt_stays_ignored_and_sigterm_ends_the_run(
    provider: Provider, start: Start
) -> None:
    slow_answer = Answer("textkit/slug.py", hang=1.5)
    provider.will_answer(slow_answer, EDIT)
    process = start(*NONE, ignores_interrupts=True)
    wait_until(lambda: provider.requests)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    other = start(*NONE, "--redo", ID, ignores_interrupts=True)
    request_count = len(provider.requests)
    provider.answers.clear()
    provider.will_answer(slow_answer, EDIT)
    wait_until(lambda: len(provider.requests) > request_count)
    other.send_signal(signal.SIGTERM)
    output, _ = other.communicate(timeout=300)
    assert other.returncode == 130, output
    assert "stopping: attempts end at their next step (1 asking)" in output


def test_tests_do_not_inherit_an_ignored_interrupt() -> None:
    code = (
        "import signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "import subprocess\n"
        "from swe_retry.runner.signals import ignores_interrupts, keep_ignoring_interrupts\n"
        "keep_ignoring_interrupts(); assert ignores_interrupts()\n"
        "print(subprocess.run([sys.executable, '-c', "
        "'import signal; print(signal.getsignal(2) is signal.SIG_IGN)'], capture_output=True, "
        "text=True).stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(TOP)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=ignore_interrupts,
    )
    assert done.stdout.strip() == "False"


def test_after_a_kill_the_status_names_it(
    tmp_path: Path, provider: Provider, start: Start
) -> None:
    slow_answer = Answer("textkit/slug.py", hang=3)
    provider.will_answer(slow_answer, EDIT)
    first = start(*NONE)
    wait_until(lambda: provider.requests)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=300)
    store = RunStore(tmp_path, "r")
    assert "interrupted; SIGINT" in status_of(store)
    provider.answers.clear()
    provider.will_answer(Answer("x", hang=60))
    request_count = len(provider.requests)
    second = start(*NONE)
    wait_until(lambda: len(provider.requests) > request_count)
    at_work = status_of(store)
    assert f"in work by process {second.pid}" in at_work
    assert "in_work" in at_work
    second.kill()
    second.wait()
    status = status_of(store)
    assert f"process {second.pid} on" in status
    assert "did not end this run by itself" in status
    assert "killed" in status
    assert "SIGINT" not in status


@pytest.mark.parametrize(
    ("times", "hang", "pause"),
    [
        (1, 2, 0),
        (2, 60, 0.8),
    ],
)
def test_ctrl_c_leaves_nothing_on_a_terminal(
    provider: Provider,
    start: Start,
    times: int,
    hang: float,
    pause: float,
) -> None:
    slow_answer = Answer("textkit/slug.py", hang=hang)
    provider.will_answer(slow_answer, EDIT)
    master, slave = open_terminal(rows=24, columns=100)
    env = {**os.environ, "TERM": "xterm"}
    child = start(*NONE, terminal=slave, env=env)
    os.close(slave)
    wait_until(lambda: provider.requests)
    time.sleep(1.2)  # until the bar is drawn
    for _ in range(times):
        child.send_signal(signal.SIGINT)
        time.sleep(pause)
    written = read_terminal(master)
    os.close(master)
    assert child.wait() == 130
    screen = Screen()
    screen.write(written)
    text = screen.text()
    for line in text:
        assert "calls/min" not in line, text
        assert "attempt 1  gpt-4o" not in line, text
    stopping = (
        "stopping: attempts end at their next step (1 asking); once more to stop now"
    )
    assert stopping in text, "on a line of its own"
    if times == 2:
        assert "stopping now" in text


def test_a_command_ends_when_its_check_raises(tmp_path: Path) -> None:
    stop = Shutdown()
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) > 3:
            stop.request("enough")
        stop.check()

    started_at = time.monotonic()
    environ = {"PATH": os.environ["PATH"]}
    with pytest.raises(StoppedError, match="enough"):
        run_limited(["sleep", "600"], tmp_path, environ, 600, check=check)
    assert time.monotonic() - started_at < 300
