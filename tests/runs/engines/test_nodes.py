"""The name of a node of a cluster."""

from __future__ import annotations

from runs.engines.ray.nodes import NODE_VARIABLE, node_name


def test_a_node_is_named_by_its_variable_or_its_address() -> None:
    assert node_name({}, "10.0.0.7") == "10.0.0.7"
    assert node_name({NODE_VARIABLE: "left"}, "10.0.0.7") == "left"
    assert node_name({NODE_VARIABLE: "../x/y"}, "10.0.0.7") == "-x-y"
    assert node_name({}, "fe80::1") == "fe80--1"
