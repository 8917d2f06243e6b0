"""Runs on a Ray cluster of two nodes on this machine: real processes, some of them killed."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice
from core.errors import UserError
from core.processes import RUN_VARIABLE
from runs.calls.budget import BudgetLimits
from runs.calls.ledger import total
from runs.engines import Driver
from runs.engines.ray.nodes import NODE_VARIABLE
from runs.progress.state import ProgressState, WorkStep
from runs.settings import ScaleSettings, Spending
from runs.storage.store import RunStore
from tests.support import TOP
from tests.support.killing import (
    ALL,
    kill_in_the_middle,
    ledger,
    predictions,
    talkative,
    wait_for,
)
from tests.support.provider import Answer, Provider
from tests.support.runs import (
    EDIT,
    IDS,
    config,
    ended_over_budget,
    options,
    read,
    started,
)

QUIET = {"object_store_memory": 100_000_000, "include_dashboard": False}


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

    def add(self, name: str) -> None:
        named = {NODE_VARIABLE: name}
        # The driver has the code in the usual folder. Another node has one of its own, as on a
        # machine of its own: it removes what it finds there when it comes again.
        own = {"runtime_env_dir_name": f"code-{name}"} if self.nodes else {}
        self.nodes[name] = self.cluster.add_node(
            num_cpus=1, env_vars=named, **own, **QUIET
        )

    def processes(self, name: str) -> list[psutil.Process]:
        """Return a node's process and its workers."""
        (raylet,) = self.nodes[name].all_processes["raylet"]
        above = psutil.Process(raylet.process.pid)
        return [above, *above.children(recursive=True)]

    def kill(self, name: str) -> None:
        """Kill a node's processes, its workers included, all at once."""
        above, *others = self.processes(name)
        del self.nodes[name]
        for process in [above, *others]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        above.wait()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(RUN_VARIABLE, raising=False)
        patch.delenv("OPENAI_API_KEY", raising=False)
        cluster = Nodes()
    yield cluster
    cluster.cluster.shutdown()


def scale(nodes: Nodes, workers: int = 2) -> dict[str, Any]:
    return {"workers": workers, "ray": nodes.address}


def test_without_ray_the_user_is_told_what_to_install(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    run = options(tmp_path, cache, *IDS, ray="own")
    with pytest.raises(UserError, match=r"install requirements-ray\.txt"):
        run_command(config(), run, lambda _: None)


LISTENING = """
from contextlib import suppress
from unittest.mock import Mock
import psutil
from runs.engines import make_engine
from runs.settings import CommonSettings, ScaleSettings
options = Mock(settings=CommonSettings(scale=ScaleSettings(ray="own")))
make_engine(Mock(benchmark=Mock(options=options)))
from runs.engines.ray.engine import own_ray
with own_ray(1):
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        with suppress(psutil.Error):  # it has ended
            for one in process.net_connections("inet"):
                if one.status == psutil.CONN_LISTEN:
                    print(process.name(), one.laddr.ip.removeprefix("::ffff:"))
"""


@pytest.mark.ray
def test_a_ray_of_this_machine_alone_listens_at_the_loopback_address_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTENING],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=True,
    )
    heard = [line.split() for line in done.stdout.splitlines()]
    assert "gcs_server" in {name for name, _ in heard}
    assert {address for _, address in heard} == {"127.0.0.1"}, heard


@pytest.mark.ray
def test_nobody_imports_ray_who_does_not_use_it(tmp_path: Path) -> None:
    code = (
        "import sys; from bench.cli.cli import run_cli; from bench.cli.command_line import main; "
        "from demo import register; register(); "
        "assert not run_cli(main, 'harness.py'); assert 'ray' not in sys.modules"
    )
    replies = str(TOP / "demo/replies")
    words = [
        "--dataset",
        "demo",
        "--models",
        "scripted-a,scripted-b",
        "--replay",
        replies,
    ]
    words += ["--environment", "none", "--instances", IDS[0], "--out", str(tmp_path)]
    words += ["--set", f"folders.cache={tmp_path}"]
    subprocess.run([sys.executable, "-c", code, *words], cwd=TOP, check=True)


@pytest.mark.ray
def test_without_a_cluster_the_user_is_told_to_start_one(
    tmp_path: Path, cache: Path
) -> None:
    for address, said in (
        ("ray://h:10001", "on a node of the cluster"),
        ("127.0.0.1:1", "ray start"),
    ):
        with pytest.raises(UserError, match=said):
            run_command(
                config(), options(tmp_path, cache, *IDS, ray=address), lambda _: None
            )


@pytest.mark.ray
@pytest.mark.parametrize(
    ("workers", "jobs", "expected"),
    [
        (4, 8, [(1, 2)] * 4),
        (256, 2, [(128, 1), (128, 1)]),
        (7, 3, [(3, 1), (2, 1), (2, 1)]),
        (2, 9, [(1, 5), (1, 4)]),
    ],
)
def test_the_processes_of_one_machine_share_what_a_run_does_at_once(
    workers: int,
    jobs: int,
    expected: list[tuple[int, int]],
) -> None:
    from runs.engines.ray.engine import rooms_of

    rooms = rooms_of(ScaleSettings(workers=workers, jobs=jobs, ray="own"), 1.0, 300)
    assert [(room.jobs, room.slots) for room in rooms] == expected


@pytest.mark.ray
def test_what_a_replaced_worker_sends_is_refused(tmp_path: Path) -> None:
    from runs.engines.ray.server import ReplacedError, RunServer

    progress = ProgressState(1)
    coordinator = Mock()
    log = logging.Logger("run")
    benchmark = Mock(store=RunStore(tmp_path, "r"))
    driver = Driver(benchmark, coordinator, progress, print, log)
    server = RunServer(driver, lambda: True)
    first = server.start("job")
    assert server.open(first)
    server.begin(first, 1, Mock())
    server.give_up("job")
    coordinator.abandon.assert_called_once_with("job")
    second = server.start("job")
    for late in (
        lambda: server.begin(first, 1, Mock()),
        lambda: server.end(first, "call", Mock()),
        lambda: server.step(first, 1, "model", WorkStep.EDITING),
        lambda: server.open(first),
        lambda: server.close(first),
        lambda: server.entries(first),
    ):
        with pytest.raises(ReplacedError):
            late()
    assert server.open(second)
    server.begin(second, 1, Mock())
    server.close(second)
    assert coordinator.begin.call_count == 2 and not coordinator.end.called


@pytest.mark.ray
def test_nothing_is_paid_twice_when_a_node_is_killed(
    tmp_path: Path, cache: Path, provider: Provider, nodes: Nodes
) -> None:
    assert killed(tmp_path, cache, provider, nodes, IDS, [4], again=False, hang=1) > 0


@pytest.mark.ray
@pytest.mark.long
def test_nothing_is_paid_twice_when_nodes_come_and_go(
    tmp_path: Path, cache: Path, provider: Provider, nodes: Nodes
) -> None:
    assert (
        killed(tmp_path, cache, provider, nodes, ALL, [4, 9, 14], again=True, hang=1.5)
        > 1
    )


def killed(
    tmp_path: Path,
    cache: Path,
    provider: Provider,
    nodes: Nodes,
    ids: Sequence[str],
    when: list[int],
    *,
    again: bool,
    hang: float,
) -> int:
    """Run on a cluster whose second node is killed after so many requests, and comes ``again``."""

    def kill() -> None:
        nodes.kill("b")
        if again:
            nodes.add("b")  # Ray wants to be in the main thread here

    there = options(
        tmp_path / "there", tmp_path / "cache", *ids, **scale(nodes, len(ids) - 1)
    )
    here = options(tmp_path / "here", cache, *ids)
    died = kill_in_the_middle(
        provider, here, there, when, lambda: nodes.processes("b"), kill, hang
    )
    assert {path.name for path in (tmp_path / "cache/nodes").iterdir()} == {"a", "b"}
    return died


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.parametrize(
    ("limits", "workers"),
    [
        (BudgetLimits(usd=Decimal("0.008")), 2),
        (BudgetLimits(usd=Decimal("0.008")), 4),
        (BudgetLimits(calls=7), 4),
    ],
    ids=["dollars", "dollars-4", "calls-4"],
)
def test_a_budget_is_never_passed_by_several_workers(
    tmp_path: Path,
    provider: Provider,
    nodes: Nodes,
    limits: BudgetLimits,
    workers: int,
) -> None:
    provider.will_answer(Answer(EDIT, hang=0.1))
    money = Spending(limits)
    far = options(
        tmp_path, tmp_path / "cache", *ALL, **scale(nodes, workers), money=money
    )
    run_command(talkative(provider, max_output_tokens=100), far, lambda _: None)
    spent = total(ledger(tmp_path))
    assert spent is not None
    assert 0 < spent <= (limits.usd or spent)
    assert 1 < len(provider.requests) == len(ledger(tmp_path)) <= (limits.calls or 99)
    assert ended_over_budget(tmp_path)


@pytest.mark.ray
@pytest.mark.long
def test_a_key_that_a_node_lacks_is_named_with_the_node(
    tmp_path: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-driver-alone")
    chosen = config(models=(ModelChoice.parse("gpt-4o"),), replay=None)
    far = options(tmp_path, tmp_path / "cache", IDS[0], **scale(nodes))
    with pytest.raises(
        UserError, match=r"on the node [ab]: .* gpt-4o needs OPENAI_API_KEY"
    ):
        run_command(chosen, far, lambda _: None)
    assert not predictions(tmp_path)


@pytest.mark.ray
def test_more_processors_than_any_node_has_are_refused(
    tmp_path: Path, nodes: Nodes
) -> None:
    greedy = options(tmp_path, tmp_path, *IDS, ray=nodes.address, cpus_per_instance=64)
    with pytest.raises(UserError, match=r"scale\.cpus_per_instance"):
        run_command(config(), greedy, lambda _: None)


@pytest.mark.ray
def test_ctrl_c_keeps_every_reply_and_the_run_goes_on_anywhere(
    tmp_path: Path, provider: Provider, nodes: Nodes
) -> None:
    provider.will_answer(Answer(EDIT, hang=0.5))
    words = [
        "harness.py",
        "--models",
        "gpt-4o@diff",
        "--tries",
        "2",
        "--dataset",
        "demo",
        "--instances",
        ",".join(IDS),
        "--environment",
        "none",
        "--api-base",
        provider.url,
        "--set",
        "calls.timeout=30",
        "--run",
        "r",
        "--out",
        str(tmp_path),
        "--set",
        "folders.cache=" + str(tmp_path / "cache"),
    ]
    far = [
        "--set",
        "scale.ray=own",
        "--set",
        f"scale.ray={nodes.address}",
        "--workers",
        "1",
    ]
    with started([sys.executable, *words, *far]) as process:
        wait_for(3, provider)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    before = len(provider.requests)
    assert len(predictions(tmp_path)) < len(IDS)
    assert (
        subprocess.run([sys.executable, *words], cwd=TOP, check=False).returncode == 0
    )
    assert [line.kind for line in ledger(tmp_path)] == ["answered"] * len(
        provider.requests
    )
    used = [read(tmp_path, name, "trajectories")["attempts"] for name in IDS]
    calls = sum(len(attempt["calls"]) for attempts in used for attempt in attempts)
    assert before < len(provider.requests) == calls
