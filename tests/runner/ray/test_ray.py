"""Runs on a Ray cluster of two nodes on this machine: real processes, some of them killed."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from swe_retry.attempts.config import ModelChoice
from swe_retry.core.errors import UserError
from swe_retry.core.processes import RUN_VARIABLE
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.ledger import total
from swe_retry.runner.engine import Driver
from swe_retry.runner.housekeeping import clean_command
from swe_retry.runner.progress.state import ProgressState, WorkStep
from swe_retry.runner.ray.nodes import NODE_VARIABLE, Room
from swe_retry.runner.settings import ScaleSettings, Spending
from tests.support import TOP
from tests.support.killing import (
    ALL,
    kill_in_the_middle,
    ledger,
    ports_of,
    predictions,
    talkative,
    wait_for,
    words_of,
)
from tests.support.provider import Answer, Provider
from tests.support.runner import arguments, run_silently, start_run
from tests.support.runs import (
    EDIT,
    IDS,
    Start,
    config,
    ended_over_budget,
    options,
    read,
)
from tests.support.start import run_command

REPLAYED = f"--models scripted-a,scripted-b --replay {TOP}/swe_retry/demo/replies"


class Nodes:
    """A cluster whose nodes have names, and can be killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster()
        self.nodes: dict[str, Any] = {}
        self.add("a")
        self.add("b")

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def options(self, out: Path, *ids: str, **changes: Any) -> Start:
        """Return options of a run on this cluster, with a cache below ``out``."""
        changes.setdefault("workers", 2)
        cache = out / "cache"
        return options(out, cache, *ids, ray=self.address, **changes)

    def add(self, name: str, **variables: str) -> None:
        settings = {
            "num_cpus": 1,
            # A run that goes on in this process would kill at its end what has its mark.
            "env_vars": {NODE_VARIABLE: name, RUN_VARIABLE: "", **variables},
            "object_store_memory": 100_000_000,
            "include_dashboard": False,
        }
        # The driver has the code in the usual folder. Another node has one of its own, as on a
        # machine of its own: it removes what it finds there when it comes again.
        if self.nodes:
            settings["runtime_env_dir_name"] = f"code-{name}"
        self.nodes[name] = self.cluster.add_node(**settings)

    def require(self, name: str) -> None:
        """Add a node that another test has killed."""
        if name not in self.nodes:
            self.add(name)

    def processes(self, name: str) -> list[psutil.Process]:
        """Return a node's process and its workers."""
        processes = self.nodes[name].all_processes
        (raylet,) = processes["raylet"]
        above = psutil.Process(raylet.process.pid)
        return [above, *above.children(recursive=True)]

    def kill(self, name: str) -> None:
        """Kill a node's processes, its workers included, all at once."""
        processes = self.processes(name)
        del self.nodes[name]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        processes[0].wait()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(RUN_VARIABLE, raising=False)
        patch.delenv("OPENAI_API_KEY", raising=False)
        cluster = Nodes()
    yield cluster
    cluster.cluster.shutdown()


def test_without_ray_the_user_is_told_what_to_install(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    run = options(tmp_path, cache, *IDS, ray="own")
    with pytest.raises(UserError, match=r"run `make setup-ray`"):
        run_silently(config(), run)


LISTENING = """
from contextlib import suppress
from unittest.mock import Mock
import psutil
from swe_retry.runner.session import make_engine
from swe_retry.runner.settings import CommonSettings, ScaleSettings
config = Mock(settings=CommonSettings(scale=ScaleSettings(ray="own")))
make_engine(Mock(benchmark=Mock(config=config)))
from swe_retry.runner.ray.engine import start_own_ray
start_own_ray(1)
me = psutil.Process()
for process in [me, *me.children(recursive=True)]:
    with suppress(psutil.Error):  # it has ended
        for one in process.net_connections("inet"):
            if one.status == psutil.CONN_LISTEN:
                print(process.name(), one.laddr.ip.removeprefix("::ffff:"))
"""


@pytest.mark.ray
def test_a_ray_of_this_machine_alone_listens_at_the_loopback_address_only() -> None:
    command = [sys.executable, "-c", LISTENING]
    printed = subprocess.check_output(command, cwd=TOP, text=True)
    addresses = defaultdict(set)
    for line in printed.splitlines():
        name, address = line.split()
        addresses[address].add(name)
    assert list(addresses) == ["127.0.0.1"], printed
    assert "gcs_server" in addresses["127.0.0.1"]


@pytest.mark.ray
def test_nobody_imports_ray_who_does_not_use_it(tmp_path: Path) -> None:
    code = (
        "import sys; from swe_retry.cli.harness import main; "
        "assert not main(); assert 'ray' not in sys.modules"
    )
    settings = f"{REPLAYED} --environment none"
    command = [sys.executable, "-c", code, *arguments(tmp_path, IDS[:1], settings)]
    subprocess.run(command, cwd=TOP, check=True)


@pytest.mark.ray
def test_without_a_cluster_the_user_is_told_to_start_one(
    tmp_path: Path, cache: Path
) -> None:
    messages = {
        "ray://h:10001": "on a node of the cluster",
        "127.0.0.1:1": "ray start",
    }
    for address, message in messages.items():
        run = options(tmp_path, cache, *IDS, ray=address)
        with pytest.raises(UserError, match=message):
            run_silently(config(), run)


def test_the_processes_of_one_machine_share_what_a_run_does_at_once() -> None:
    for workers, jobs in ((4, 8), (256, 2), (7, 3), (2, 9)):
        settings = ScaleSettings(workers=workers, jobs=jobs, ray="own")
        processes = min(workers, jobs)
        room = Room.of(settings, workers, processes)
        all_jobs = room.jobs * processes
        all_slots = room.slots * processes
        assert workers <= all_jobs < workers + processes
        assert jobs - processes < all_slots <= jobs


@pytest.mark.ray
def test_what_a_replaced_worker_sends_is_refused(tmp_path: Path) -> None:
    from swe_retry.runner.ray.server import ReplacedError, RunServer

    progress = ProgressState(1)
    coordinator = Mock()
    log = logging.Logger("run")
    benchmark = Mock(store=RunStore(tmp_path, "r"))
    driver = Driver(benchmark, coordinator, progress, print, log)
    server = RunServer(driver, lambda: True)
    first = server.start("job")
    assert server.open(first)
    server.call(first, "begin", "job", 1, Mock())
    server.give_up("job")
    coordinator.abandon.assert_called_once_with("job")
    second = server.start("job")
    for late in (
        lambda: server.call(first, "begin", "job", 1, Mock()),
        lambda: server.call(first, "end", "call", Mock()),
        lambda: server.step(first, 1, "model", WorkStep.EDITING),
        lambda: server.open(first),
        lambda: server.close(first),
        lambda: server.call(first, "entries", "job"),
    ):
        with pytest.raises(ReplacedError):
            late()
    assert server.open(second)
    server.call(second, "begin", "job", 1, Mock())
    server.close(second)
    assert coordinator.begin.call_count == 2
    assert not coordinator.end.called


@pytest.mark.ray
@pytest.mark.parametrize(
    ("ids", "when", "hang"),
    [
        pytest.param(IDS, [4], 1, id="a node is killed"),
        pytest.param(
            ALL,
            [4, 9, 14],
            1.5,
            id="a node comes and goes",
            marks=pytest.mark.long,
        ),
    ],
)
def test_nothing_is_paid_twice_when_the_second_node_is_killed_after_so_many_requests(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    nodes: Nodes,
    ids: Sequence[str],
    when: list[int],
    hang: float,
) -> None:
    def kill() -> None:
        nodes.kill("b")
        if len(when) > 1:
            nodes.add("b")  # Ray wants to be in the main thread here

    nodes.require("b")
    there = nodes.options(tmp_path / "there", *ids, workers=len(ids) - 1)
    here = options(tmp_path / "here", cache, *ids)
    died = kill_in_the_middle(
        provider,
        here,
        there,
        when,
        victims=lambda: nodes.processes("b"),
        kill=kill,
        hang=hang,
    )
    assert died > len(when) // 2
    folders = (tmp_path / "there/cache/nodes").iterdir()
    assert {path.name for path in folders} == {"a", "b"}


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.parametrize(
    ("money", "workers"),
    [
        (Spending(usd=Decimal("0.008")), 2),
        (Spending(usd=Decimal("0.008")), 4),
        (Spending(calls=7), 4),
    ],
    ids=["dollars", "dollars-4", "calls-4"],
)
def test_a_budget_is_never_passed_by_several_workers(
    tmp_path: Path,
    provider: Provider,
    nodes: Nodes,
    money: Spending,
    workers: int,
) -> None:
    provider.will_answer(Answer(EDIT, hang=0.1))
    far = nodes.options(
        tmp_path,
        *ALL,
        workers=workers,
        money=money,
    )
    run_silently(talkative(provider, max_output_tokens=100), far)
    lines = ledger(tmp_path)
    spent = total(lines)
    assert spent is not None
    assert 0 < spent <= (money.usd or spent)
    assert 1 < len(lines) <= (money.calls or 99)
    assert len(provider.requests) == len(lines)
    assert ended_over_budget(tmp_path)


@pytest.mark.ray
@pytest.mark.long
def test_a_key_that_a_node_lacks_is_named_with_the_node(
    tmp_path: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-driver-alone")
    chosen = config(models=(ModelChoice.parse("gpt-4o"),), replay=None)
    message = r"on the node [ab]: OPENAI_API_KEY is not set"
    run = nodes.options(tmp_path, IDS[0])
    with pytest.raises(UserError, match=message):
        run_silently(chosen, run)
    assert not predictions(tmp_path)


@pytest.mark.ray
@pytest.mark.long
def test_a_node_without_the_drivers_key_is_left_out_and_named(
    tmp_path: Path,
    provider: Provider,
    nodes: Nodes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server of the user gets no made-up key from a node, where the driver has one."""
    key = "sk-of-the-driver"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    provider.will_answer(EDIT)
    nodes.require("b")
    nodes.add("keyed", OPENAI_API_KEY=key)
    try:
        output: list[str] = []
        run = nodes.options(tmp_path, *ALL, workers=3)
        assert run_command(talkative(provider), run, output.append) == 0
    finally:
        nodes.kill("keyed")
    text = "\n".join(output)
    for name in ("a", "b"):
        assert f"left out: on the node {name}: OPENAI_API_KEY is not set" in text
    sent = {headers["authorization"] for headers in provider.headers}
    assert sent == {f"Bearer {key}"}


@pytest.mark.ray
@pytest.mark.long
def test_a_fault_of_a_node_is_tried_on_another_before_it_is_recorded(
    tmp_path: Path, cache: Path, nodes: Nodes
) -> None:
    """The snapshots of one node cannot be written."""
    nodes.require("b")
    node_cache = tmp_path / "cache/nodes/b"
    node_cache.mkdir(parents=True)
    (node_cache / "snapshots").write_text("")
    far = nodes.options(tmp_path, *ALL, workers=4)
    assert run_silently(config(), far) == 0
    here = options(tmp_path / "here", cache, *ALL)
    assert run_silently(config(), here) == 0
    assert predictions(tmp_path) == predictions(tmp_path / "here")
    log = (tmp_path / "predictions/r/harness.log").read_text()
    assert "tried on another node than" in log


@pytest.mark.ray
@pytest.mark.long
def test_deaths_of_starting_workers_do_not_end_a_run(
    tmp_path: Path, nodes: Nodes
) -> None:
    nodes.require("b")
    killed = set[int]()
    with ThreadPoolExecutor(1) as other:
        far = nodes.options(tmp_path, *IDS)
        run = other.submit(run_silently, config(), far)
        while len(killed) < 4 and not run.done():
            for process in nodes.processes("a") + nodes.processes("b"):
                with suppress(psutil.NoSuchProcess):
                    command = "".join(words_of(process))
                    if command.startswith("ray::Worker"):
                        process.kill()
                        killed.add(process.pid)
            time.sleep(0.02)
        assert run.result() == 0
    assert len(killed) >= 4
    assert len(predictions(tmp_path)) == len(IDS)


@pytest.mark.ray
@pytest.mark.long
def test_ctrl_c_does_not_wait_for_a_node_that_does_not_answer(
    tmp_path: Path, provider: Provider, nodes: Nodes
) -> None:
    nodes.require("b")
    provider.will_answer(Answer(EDIT, hang=2))
    settings = (
        f"--models gpt-4o@diff --tries 2 --environment none --api-base {provider.url} "
        f"--set scale.ray={nodes.address} --workers 4"
    )
    frozen: list[psutil.Process] = []
    with start_run(tmp_path, ALL, settings) as process:
        while not ports_of(nodes.processes("b")) & provider.waiting:
            assert process.poll() is None
            time.sleep(0.05)
        try:
            for member in nodes.processes("b"):
                member.suspend()
                frozen.append(member)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            for member in frozen:
                with suppress(psutil.NoSuchProcess):
                    member.resume()


@pytest.mark.ray
@pytest.mark.long
def test_a_killed_driver_leaves_nothing_in_the_temporary_folder(
    tmp_path: Path,
    provider: Provider,
    nodes: Nodes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    provider.will_answer(Answer(EDIT, hang=1))
    settings = (
        f"--models gpt-4o@diff --environment none --api-base {provider.url} "
        f"--set scale.ray={nodes.address}"
    )
    with start_run(tmp_path, IDS, settings) as process:
        wait_for(1, provider)
        process.kill()
    lines: list[str] = []
    store = RunStore(tmp_path, "r")
    clean_command(store, tmp_path / "cache", lines.append)
    assert list(temporary.iterdir()) == []
    cache = tmp_path / "cache"
    assert not list(cache.rglob("code"))


@pytest.mark.ray
def test_a_cluster_without_authentication_is_warned_about(
    tmp_path: Path, nodes: Nodes
) -> None:
    output: list[str] = []
    run = nodes.options(tmp_path, IDS[0])
    assert run_command(config(), run, output.append) == 0
    assert "has no authentication" in "\n".join(output)


@pytest.mark.ray
def test_more_processors_than_any_node_has_are_refused(
    tmp_path: Path, nodes: Nodes
) -> None:
    greedy = nodes.options(tmp_path, *IDS, cpus_per_instance=64)
    with pytest.raises(UserError, match=r"scale\.cpus_per_instance"):
        run_silently(config(), greedy)


@pytest.mark.ray
def test_ctrl_c_keeps_every_reply_and_the_run_goes_on_anywhere(
    tmp_path: Path, provider: Provider, nodes: Nodes
) -> None:
    provider.will_answer(Answer(EDIT, hang=0.5))
    here = (
        f"--models gpt-4o@diff --tries 2 --environment none --api-base {provider.url} "
        "--set calls.timeout=30"
    )
    far = f"--set scale.ray=own --set scale.ray={nodes.address} --workers 1"
    with start_run(tmp_path, IDS, f"{here} {far}") as process:
        wait_for(3, provider)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    before = len(provider.requests)
    assert len(predictions(tmp_path)) < len(IDS)
    with start_run(tmp_path, IDS, here) as process:
        process.wait()
    assert process.returncode == 0
    requests = len(provider.requests)
    kinds = [line.kind for line in ledger(tmp_path)]
    assert kinds == ["answered"] * requests
    calls = 0
    for name in IDS:
        trajectory = read(tmp_path, name, "trajectories")
        for attempt in trajectory["attempts"]:
            calls += len(attempt["calls"])
    assert before < requests
    assert requests == calls
