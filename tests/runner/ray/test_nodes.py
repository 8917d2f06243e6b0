"""The nodes of a cluster: their names, and how many workers each takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from swe_retry.core.errors import InfrastructureError
from swe_retry.runner.ray.nodes import NODE_VARIABLE, Nodes, Room, node_name
from swe_retry.runner.settings import ScaleSettings

ROOM = Room.of(ScaleSettings(ray="10.0.0.1:6379"), jobs=4, processes=2)


def entry(
    name: str,
    cpus: float = 4,
    memory: float = 64e9,
    *,
    alive: bool = True,
) -> dict[str, Any]:
    return {
        "NodeID": name,
        "NodeManagerAddress": f"10.0.0.{name}",
        "Resources": {"CPU": cpus, "memory": memory},
        "Alive": alive,
    }


def nodes_of(*entries: dict[str, Any]) -> Nodes:
    nodes = Nodes()
    nodes.update(entries)
    return nodes


def capacity(*entries: dict[str, Any]) -> int:
    return nodes_of(*entries).capacity(ROOM)


def test_a_node_is_named_by_its_variable_or_its_address() -> None:
    assert node_name({}, "10.0.0.7") == "10.0.0.7"
    assert node_name({NODE_VARIABLE: "left"}, "10.0.0.7") == "left"
    assert node_name({NODE_VARIABLE: "../x/y"}, "10.0.0.7") == "-x-y"
    assert node_name({}, "fe80::1") == "fe80--1"


def test_a_node_takes_as_many_workers_as_it_has_processors_and_memory_for() -> None:
    assert capacity(entry("1"), entry("2", cpus=2)) == 6
    assert capacity(entry("1", memory=1.1e9)) == 2
    assert capacity(entry("1", memory=0.2e9)) == 0
    assert capacity(entry("1", alive=False)) == 0


def test_few_workers_start_at_a_time_and_the_emptiest_node_is_next() -> None:
    nodes = nodes_of(entry("1"), entry("2", cpus=2))
    order = []
    while True:
        node = nodes.next_for(ROOM)
        if node is None:
            break
        node.workers += 1
        node.starting += 1
        order.append(node.id)
    assert order == ["1", "2", "1"]
    nodes.alive["1"].starting = 0
    ready = nodes.next_for(ROOM)
    assert ready is not None
    assert ready.id == "1"


def test_a_node_whose_memory_was_short_gets_fewer_and_one_with_deaths_rests() -> None:
    nodes = nodes_of(entry("1"))
    node = nodes.alive["1"]
    node.workers = 2
    node.note_memory()
    assert nodes.capacity(ROOM) == 2
    node.workers = 0
    node.note_memory()
    assert nodes.capacity(ROOM) == 1
    assert nodes.next_for(ROOM) is node
    node.note_death()
    assert nodes.next_for(ROOM) is None


def test_a_problem_leaves_a_node_out_until_it_comes_back() -> None:
    nodes = nodes_of(entry("1"), entry("2"))
    nodes.alive["1"].problem = "no disk"
    assert nodes.capacity(ROOM) == 4
    assert nodes.problems(ROOM) == []
    assert nodes.has_other(ROOM, {"1"})
    assert not nodes.has_other(ROOM, {"2"})
    nodes.update([entry("1"), entry("2", alive=False)])
    assert nodes.problems(ROOM) == ["no disk"]
    nodes.update([entry("1", alive=False), entry("3")])
    assert nodes.problems(ROOM) == []
    assert nodes.capacity(ROOM) == 4


@pytest.mark.ray
def test_a_node_needs_an_index_where_environments_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from swe_retry.runner.ray.worker import WorkerPlan, check_node

    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://127.0.0.1:1/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    plan = WorkerPlan(
        services=Mock(),
        containers=False,
        needs_index=False,
        cache=tmp_path,
        key="k",
        own_ray=False,
        keys=(),
        versions={},
    )
    check_node(plan)
    with pytest.raises(InfrastructureError, match="the package index is not reached"):
        check_node(replace(plan, needs_index=True))
