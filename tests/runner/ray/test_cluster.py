"""A cluster of nodes in namespaces, which are killed, cut off, delayed and joined.

The nodes start by the commands of docs/scale.md; runs are those of ``benchmarks.cluster``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from benchmarks.cluster import Trials
from tests.support.cluster import CACHE, HOME, Cluster, missing_namespaces
from tests.support.killing import predictions

_MISSING = missing_namespaces()
pytestmark = [
    pytest.mark.ray,
    pytest.mark.long,
    pytest.mark.skipif(_MISSING != "", reason=_MISSING),
]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        trials = Trials(cluster)
        trials.local()
        yield trials


def test_predictions_are_those_of_a_run_without_ray(trials: Trials) -> None:
    trial = trials.plain()
    local = predictions(trials.out("local"))
    assert len(local) == 12
    assert predictions(trials.out("plain")) == local
    assert trial.repeated == 0
    cluster = trials.cluster
    hosts = {arrival.host for arrival in cluster.provider.arrivals}
    addresses = {node.address for node in cluster.nodes.values()}
    assert hosts == addresses
    assert "has no authentication" not in trial.output


def test_the_work_of_a_killed_node_is_done_elsewhere(trials: Trials) -> None:
    trial = trials.kill()
    assert trial.holds, trial
    assert trial.in_flight > 0


def test_a_node_that_is_cut_off_for_seconds_keeps_its_work(trials: Trials) -> None:
    trial = trials.cut()
    assert trial.holds, trial
    assert trial.in_flight == 0


def test_a_slow_network_loses_nothing(trials: Trials) -> None:
    trial = trials.delay()
    assert trial.holds, trial
    assert trial.in_flight == 0


def test_a_node_that_joins_gets_work(trials: Trials) -> None:
    trial = trials.join()
    assert trial.holds, trial
    assert trial.in_flight == 0


def test_a_killed_driver_is_continued(trials: Trials) -> None:
    trial = trials.driver()
    assert trial.holds, trial


def test_a_node_without_a_key_is_left_out_and_named(trials: Trials) -> None:
    trial = trials.without_key()
    node = trials.cluster.nodes["second"]
    cause = "OPENAI_API_KEY is not set"
    assert f"left out: on the node {node.address}: {cause}" in trial.output
    assert trial.same
    assert trial.repeated == 0


def test_tests_in_environments_of_the_nodes_give_the_same_predictions(
    trials: Trials,
) -> None:
    output = trials.with_tests()
    cluster = trials.cluster
    hosts = {arrival.host for arrival in cluster.provider.arrivals}
    addresses = {node.address for node in cluster.nodes.values()}
    assert hosts == addresses, output
    local = predictions(trials.out("tested-local"))
    assert len(local) == 12
    assert predictions(trials.out("tested")) == local
    outcomes = {json.loads(text)["test_outcome"] for text in local.values()}
    assert True in outcomes
    assert cluster.proxy.hosts, "a node got its packages elsewhere"
    for node in cluster.nodes.values():
        environments = f"find {CACHE} -name site-packages -path '*{node.address}*'"
        assert node.run(environments), output


def test_nodes_without_an_index_are_named(trials: Trials) -> None:
    output = trials.without_index()
    for node in trials.cluster.nodes.values():
        cause = "the package index is not reached"
        assert f"on the node {node.address}: {cause}" in output


def test_nothing_is_left_on_any_node(trials: Trials) -> None:
    """The last of this module: it stops the nodes."""
    cluster = trials.cluster
    for node in cluster.nodes.values():
        planted = "/tmp/planted"
        node.run(f"echo {cluster.key} >{planted}")
        assert node.files_with(cluster.key) == [planted]
        node.run(f"rm {planted}")
        cluster.stop(node.name)
        commands = [process.cmdline() for process in node.processes()]
        assert commands == []
        temporary = node.folder / "tmp"
        names = {path.name for path in temporary.iterdir()}
        assert names <= {"ray"}
        # The next run on the node removes the last worker's lock and empty folder.
        files = f"find {HOME} {CACHE} -path '*/work/*' -type f"
        left = node.run(f"{files} -not -name '*.lock'")
        assert left == ""
