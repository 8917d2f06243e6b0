"""What the tests of engines share whose workers die."""

from __future__ import annotations

import importlib.util
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice, RunConfig
from bench.options import Options
from runs.calls.ledger import LedgerLine, read_ledger, total
from tests.bench.runs import EDIT, live
from tests.provider import Answer, Provider

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (requirements-ray.txt)"
)
ALL = ("demo__bank-1", "demo__bank-2", "demo__textkit-1", "demo__textkit-2", "demo__units-1")


def predictions(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "predictions/r").glob("demo__*.json")}


def ledger(out: Path) -> list[LedgerLine]:
    return list(read_ledger(out / "predictions/r/ledger.jsonl").whole)


def talkative(provider: Provider, **changes: Any) -> RunConfig:
    """A run of many calls: the edits fit one file of one repository."""
    models = (ModelChoice.parse("gpt-4o@diff", any_name=True),)
    return live(provider, **{"models": models, "tries": 2, "call_timeout": 30, **changes})


def asked(provider: Provider) -> Counter[str]:
    return Counter(json.dumps(request["messages"]) for request in provider.requests)


def wait_for(count: int, provider: Provider, run: Future[int] | None = None) -> None:
    """Wait until so many requests were received; a run that ends before raises its error."""
    while len(provider.requests) < count:
        assert run is None or not run.done(), run and run.result()
        time.sleep(0.02)


def exact_total(here: Path, there: Path) -> None:
    """The replies cost the same; on top come the bounds of the calls that were lost."""
    bounds = {}
    for path in (there / "logs/r").rglob("*.jsonl"):
        for entry in map(json.loads, path.read_text().splitlines()):
            if entry["kind"] == "asked":
                bounds[entry["call"]] = Decimal(entry["bound"])
    lost = sum((bounds[line.call] for line in ledger(there) if line.kind == "failed"), Decimal())
    paid = total(ledger(here))
    assert paid is not None
    assert total(ledger(there)) == paid + lost


def kill_in_the_middle(
    provider: Provider,
    here: Options,
    there: Options,
    when: Sequence[int],
    victims: Callable[[], Sequence[psutil.Process]],
    kill: Callable[[], None],
    hang: float,
) -> int:
    """Run ``here``, then ``there``, where workers are killed after so many requests.

    Replies take ``hang`` seconds there, and one of the ``victims`` waits for one when it is killed.

    Returns:
        How often an instance lost its worker.
    """
    provider.will_answer(EDIT)
    assert run_command(talkative(provider), here, lambda _: None) == 0
    needed = asked(provider)
    provider.requests.clear()
    provider.answers.clear()
    provider.will_answer(Answer(EDIT, hang=hang))
    with ThreadPoolExecutor(1) as other:
        run = other.submit(run_command, talkative(provider), there, lambda _: None)
        for number, count in enumerate(when):
            wait_for(count, provider, run)
            # A node that came back late may get no further job before the run ends.
            if not kill_waiting(provider, run, victims, kill):
                assert number, "no call of theirs was in flight"
                break
        code = run.result()
    log_file = (there.out / "predictions/r/harness.log").read_text()
    assert code == 0, log_file
    assert predictions(there.out) == predictions(here.out)
    died = log_file.count("its worker died")
    lines = Counter(line.kind for line in ledger(there.out))
    # A call in flight at the kill is charged with its bound and made again; no other is.
    assert lines["answered"] == needed.total()
    assert 0 < lines["failed"] <= died
    extra = asked(provider) - needed
    assert asked(provider).total() == needed.total() + extra.total()
    assert extra.total() <= lines["failed"]
    exact_total(here.out, there.out)
    return died


def kill_waiting(
    provider: Provider,
    run: Future[int],
    victims: Callable[[], Sequence[psutil.Process]],
    kill: Callable[[], None],
) -> bool:
    """Kill when one of the ``victims`` has a call in flight; tell whether the run was not over.

    No reply leaves meanwhile.
    """
    while not run.done():
        with provider.holding:
            if provider.waiting & ports_of(victims()):
                kill()
                return True
        time.sleep(0.02)
    return False


def ports_of(processes: Sequence[psutil.Process]) -> set[int]:
    """Return the local ports of the connections of ``processes``."""
    ports = set[int]()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            ports |= {one.laddr.port for one in process.net_connections("tcp") if one.laddr}
    return ports


def rays_of(pid: int) -> list[psutil.Process]:
    """Return the processes of a driver's own Ray."""
    found = psutil.Process(pid).children(recursive=True)
    return [process for process in found if "ray" in " ".join(words_of(process)).lower()]


def workers_of(pid: int) -> list[psutil.Process]:
    """Return the workers of a driver's own Ray."""
    return [one for one in rays_of(pid) if "".join(words_of(one)).startswith("ray::Worker")]


def words_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; empty if it has just ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def wait_for_end(processes: Sequence[psutil.Process]) -> None:
    """Wait until none of ``processes`` lives."""
    deadline = time.monotonic() + 60
    while any(map(alive, processes)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
