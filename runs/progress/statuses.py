"""How a job of a run ended."""

from __future__ import annotations

from enum import Enum


class InstanceStatus(str, Enum):
    """How an instance ended.

    The first three write a prediction. So do ``budget``, once a call was made, and ``error``,
    unless the harness itself failed.
    """

    PLAUSIBLE = "plausible"
    FALLBACK = "fallback"
    EMPTY = "empty"
    BUDGET = "budget"
    ERROR = "error"
    INFRA_ERROR = "infra_error"
    INTERRUPTED = "interrupted"
