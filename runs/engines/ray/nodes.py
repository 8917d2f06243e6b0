"""The name of a node of a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping

NODE_VARIABLE = "SWE_RETRY_HARNESS_NODE"
"""Names a node in its environment, where its address does not: several nodes on one machine."""


def node_name(environ: Mapping[str, str], address: str) -> str:
    """Return the name of a node: the same after a restart, and a valid name of a folder."""
    return re.sub(r"[^\w.+-]", "-", environ.get(NODE_VARIABLE) or address).lstrip(".")
