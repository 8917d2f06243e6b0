"""The types of JSON objects, whose values are of any type of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""One that is only read."""
