"""The groups of conftest.py reach the scheduler of pytest-xdist."""

from __future__ import annotations

import pytest


def test_a_group_is_part_of_the_id(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("the tests do not run in groups")
    assert request.node.nodeid.endswith(f"@{request.path}"), (
        "this pytest-xdist ignores groups"
    )
